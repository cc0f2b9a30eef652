"""The seam for kernel templates: what one is, what it can vary, and which of them fit a problem."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Protocol

from pydantic import Field, model_validator

from problems.definition import Definition
from problems.errors import ConfigError
from problems.record import NonEmpty, Record, parse_record
from problems.solution import Language, Solution
from problems.speed_of_light import Analysis

SKILLS_FOLDER = Path(__file__).parent


class Parameter(Record):
    """One thing that a template can vary; its values are finite and ordered."""

    name: NonEmpty
    """The constant's name in the kernel's `PARAMS` block."""
    values: Annotated[tuple[NonEmpty, ...], Field(min_length=1)]
    default: str
    description: NonEmpty

    @model_validator(mode="after")
    def _default_is_a_value(self) -> Parameter:
        if self.default not in self.values or len(set(self.values)) != len(self.values):
            raise ValueError(
                f"{self.name}: default {self.default!r} must be one of the different values "
                f"{', '.join(self.values)}"
            )
        return self


class Template(Record):
    """A tested kernel with its parameter space, and why and when to use it."""

    name: NonEmpty
    family: NonEmpty
    language: Language
    title: NonEmpty
    mechanism: NonEmpty
    """Why it is fast."""
    action: NonEmpty
    """What to do, in one sentence without code."""
    parameters: tuple[Parameter, ...]
    matches: str = ""
    """Which operator graphs it takes."""
    pays: str = ""
    """When it is faster than what torch.compile makes, and when it is not."""

    def defaults(self) -> dict[str, str]:
        return {parameter.name: parameter.default for parameter in self.parameters}


class Instance(Protocol):
    """A template that matched a problem."""

    template: Template

    def render(self, parameters: Mapping[str, str]) -> Solution:
        """The kernel with these values; a parameter that is absent has its default.

        Raises:
            ConfigError: an unknown parameter or value.
        """

    def defaults(self) -> dict[str, str]:
        """Of this problem, which may differ from the template's; one value a parameter."""


class Refusal(Record):
    """Why a family of templates does not fit a problem."""

    family: NonEmpty
    reason: NonEmpty


Matcher = Callable[[Definition, Sequence[Analysis]], "Instance | Refusal"]


def match_templates(definition: Definition, analyses: Sequence[Analysis]) -> tuple[Instance, ...]:
    """The templates that fit, best first; () if none does."""
    answers = (match(definition, analyses) for match in _matchers())
    return tuple(answer for answer in answers if not isinstance(answer, Refusal))


def template_refusals(definition: Definition, analyses: Sequence[Analysis]) -> tuple[Refusal, ...]:
    """Why the other templates do not fit."""
    answers = (match(definition, analyses) for match in _matchers())
    return tuple(answer for answer in answers if isinstance(answer, Refusal))


def load_template(folder: Path) -> Template:
    """
    Raises:
        ConfigError: the folder's `template.toml` is absent or malformed.
    """
    path = folder / "template.toml"
    try:
        data = tomllib.loads(path.read_text())
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"{path}: {error}") from None
    template = parse_record(Template, data, str(path))
    if template.name != folder.name:
        raise ConfigError(f"{path}: name: {template.name!r} is not the folder's name")
    return template


def load_templates(skill_folder: Path = SKILLS_FOLDER / "cpp") -> tuple[Template, ...]:
    """Every template of a skill, by name."""
    return tuple(
        load_template(path.parent)
        for path in sorted(skill_folder.glob("templates/*/template.toml"))
    )


def choose_parameters(
    template: Template, defaults: Mapping[str, str], parameters: Mapping[str, str]
) -> dict[str, str]:
    """`defaults` overridden by `parameters`, in the template's order.

    Raises:
        ConfigError: an unknown parameter or value.
    """
    known = {parameter.name: parameter for parameter in template.parameters}
    for name, value in parameters.items():
        if name not in known:
            raise ConfigError(
                f"template {template.name}: no parameter {name!r}; "
                f"parameters: {', '.join(known) or 'none'}"
            )
        if value not in known[name].values:
            raise ConfigError(
                f"template {template.name}: {name}: no value {value!r}; "
                f"values: {', '.join(known[name].values)}"
            )
    return {name: parameters.get(name, defaults[name]) for name in known}


def _matchers() -> tuple[Matcher, ...]:
    # Matchers build on this file's records, hence imported late.
    from skills.generate import match_row_program
    from skills.match_attention import match_attention
    from skills.match_matrix_product import match_matrix_product
    from skills.match_top_k_gate import match_top_k_gate

    return (match_row_program, match_matrix_product, match_attention, match_top_k_gate)
