"""The text of a kernel: parameters and blocks of a template replaced, the rest as it was tested."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from problems.definition import Definition
from problems.solution import Language, Solution, SolutionSpec, SourceFile
from skills.template import SKILLS_FOLDER, Template

KERNEL = "kernel.cpp"


def template_folder(name: str) -> Path:
    return SKILLS_FOLDER / "cpp" / "templates" / name


def rendered(
    template: Template,
    definition: Definition,
    parameters: Mapping[str, str],
    blocks: Mapping[str, str],
) -> Solution:
    """The kernel with the constants of its `PARAMS` block and the content of `blocks` replaced."""
    text = (template_folder(template.name) / KERNEL).read_text()
    for name, value in parameters.items():
        text = re.sub(rf"(?m)^(constexpr \w+ {name} = )\w+;", rf"\g<1>{value};", text)
    for name, content in blocks.items():
        text = _replaced(text, name, content)
    return Solution(
        name=f"{definition.name}-{template.name}",
        definition=definition.name,
        author="kagent playbook",
        description=template.title,
        spec=SolutionSpec(languages=(Language.CPP,), entry_point=f"{KERNEL}::run"),
        sources=(SourceFile(path=KERNEL, content=text),),
    )


def _replaced(text: str, name: str, content: str) -> str:
    """`content` between the lines `// NAME {` and `// } NAME`."""
    head, _, rest = text.partition(f"// {name} {{\n")
    _, _, tail = rest.partition(f"// }} {name}\n")
    return f"{head}// {name} {{\n{content}// }} {name}\n{tail}"
