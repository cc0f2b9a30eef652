"""Load, validate, list and mount skills: folders in the public Agent Skills form.

A skill is trusted input, but a malformed one is refused as a whole. Nothing in it is run here.
"""

from __future__ import annotations

import re
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

from pydantic import ValidationError

from problems.errors import ConfigError
from problems.record import Digest, Record, digest_of, first_problem
from skills import frontmatter

MAX_BODY_LINES = 500
MAX_BODY_CHARACTERS = 20_000
"""About 5,000 tokens: the whole body enters the context once a skill is used."""
MAX_FILE_BYTES = 1 << 20
MAX_FILES = 500
SKILLS_FOLDER = Path(__file__).parent
TOP_LEVEL_FILES = ("SKILL.md", "LICENSE", "LICENSE.txt")
"""What else there is lies in folders: references, templates, scripts and the like."""
_LEFT_BEHIND = "__pycache__"
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,99}")
_LINK = re.compile(r"\]\(([^)\s]+)\)")


class SkillFile(Record):
    path: str
    """Relative to the skill's folder, with `/`."""
    digest: Digest
    size_bytes: int


class Skill(Record):
    name: str
    description: str
    license: str | None
    compatibility: str | None
    metadata: dict[str, str]
    allowed_tools: str | None
    digest: Digest
    """Of all paths and contents."""
    body: str
    """SKILL.md without its frontmatter."""
    files: tuple[SkillFile, ...]
    """By path, SKILL.md included."""
    folder: Path


def bundled_skills() -> tuple[Skill, ...]:
    return load_skills(SKILLS_FOLDER)


def load_skills(folder: Path) -> tuple[Skill, ...]:
    """Every sub-folder is a skill, except those whose names start with `.` or `_`.

    Raises:
        ConfigError: `file:line: reason` of the first thing that is wrong.
    """
    if not folder.is_dir():
        raise ConfigError(f"{folder}: no such folder of skills")
    if (folder / "SKILL.md").exists():
        raise ConfigError(f"{folder}: is itself a skill; give the folder that holds it")
    skills = []
    for path in sorted(folder.iterdir()):
        if path.name.startswith((".", "_")):
            continue
        if path.is_symlink():
            raise ConfigError(f"{path}:1: is a symbolic link, which a skill must not be")
        if path.is_dir():
            skills.append(load_skill(path))
    return tuple(skills)


def merge_skills(*groups: Sequence[Skill]) -> tuple[Skill, ...]:
    """Of several folders.

    Raises:
        ConfigError: two skills have the same name.
    """
    by_name: dict[str, Skill] = {}
    for skill in (skill for group in groups for skill in group):
        if skill.name in by_name:
            raise ConfigError(
                f"{skill.folder / 'SKILL.md'}:1: a skill named {skill.name!r} is already there: "
                f"{by_name[skill.name].folder}"
            )
        by_name[skill.name] = skill
    return tuple(by_name.values())


def load_skill(folder: Path) -> Skill:
    """
    Raises:
        ConfigError: `file:line: reason`.
    """
    contents = dict(_contents(folder))
    where = str(folder / "SKILL.md")
    if "SKILL.md" not in contents:
        raise ConfigError(f"{where}:1: is missing; every folder of skills has one")
    document = frontmatter.parse(_text(contents["SKILL.md"], where), where)
    fields = _validated(document, where)
    if fields.name != folder.name:
        line = document.lines["name"]
        raise ConfigError(f"{where}:{line}: name {fields.name!r} is not the folder's name")
    _check_body(document, where, contents)
    files = _files(contents)
    return Skill(
        name=fields.name,
        description=fields.description,
        license=fields.license,
        compatibility=fields.compatibility,
        metadata=fields.metadata,
        allowed_tools=fields.allowed_tools,
        digest=_folder_digest(files),
        body=document.body,
        files=files,
        folder=folder,
    )


def listing(skills: Sequence[Skill], max_chars: int) -> str:
    """One line a skill, at most `max_chars`; a last line names what was left out.

    Raises:
        ConfigError: not even the names of what is left out fit.
    """
    lines = [f"- {skill.name}: {' '.join(skill.description.split())}" for skill in skills]
    for shown in range(len(skills), -1, -1):
        left_out = ", ".join(skill.name for skill in skills[shown:])
        report = [f"Left out at the limit of {max_chars} characters: {left_out}"]
        text = "\n".join(lines[:shown] + (report if left_out else []))
        if len(text) <= max_chars:
            return text
    raise ConfigError(
        f"{max_chars} characters do not even hold the names of {len(skills)} skills; give more"
    )


def mount(skills: Sequence[Skill], destination: Path) -> None:
    """Read-only copies under `destination/<name>/`.

    Raises:
        ConfigError: a skill changed since it was loaded, or its place is taken.
    """
    destination.mkdir(parents=True, exist_ok=True)
    for skill in skills:
        contents = dict(_contents(skill.folder))
        if _folder_digest(_files(contents)) != skill.digest:
            raise ConfigError(f"{skill.folder}: changed since it was loaded; start again")
        target = destination / skill.name
        if target.exists() or target.is_symlink():
            raise ConfigError(f"{target}: is already there")
        _write_read_only(target, contents)


def _write_read_only(target: Path, contents: dict[str, bytes]) -> None:
    target.mkdir()
    for path, data in contents.items():
        file = target / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
        file.chmod(0o444)
    for folder in sorted({file.parent for file in target.rglob("*")}, reverse=True):
        folder.chmod(0o555)


def _contents(folder: Path) -> Iterator[tuple[str, bytes]]:
    """Every file by relative path.

    Raises:
        ConfigError: a link, a special file, an unusual name, or too much.
    """
    count = 0
    pending = [folder]
    while pending:
        for path in sorted(pending.pop().iterdir()):
            if path.name == _LEFT_BEHIND:
                continue
            relative = path.relative_to(folder).as_posix()
            mode = path.lstat().st_mode
            _check_entry(path, relative, mode)
            if stat.S_ISDIR(mode):
                pending.append(path)
                continue
            count += 1
            if count > MAX_FILES:
                raise ConfigError(f"{folder}:1: more than {MAX_FILES} files")
            yield relative, path.read_bytes()


def _check_entry(path: Path, relative: str, mode: int) -> None:
    if stat.S_ISLNK(mode):
        raise ConfigError(f"{path}:1: is a symbolic link; a skill holds files and folders only")
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise ConfigError(f"{path}:1: is neither a file nor a folder")
    if not _NAME.fullmatch(path.name):
        raise ConfigError(f"{path}:1: names are letters, digits, '.', '_' and '-'")
    if stat.S_ISREG(mode) and "/" not in relative and relative not in TOP_LEVEL_FILES:
        raise ConfigError(
            f"{path}:1: beside {', '.join(TOP_LEVEL_FILES)} a skill holds folders only: "
            f"references/, templates/, scripts/"
        )
    if relative.endswith("/SKILL.md"):
        raise ConfigError(f"{path}:1: a skill inside a skill")
    if stat.S_ISREG(mode) and path.stat().st_size > MAX_FILE_BYTES:
        raise ConfigError(f"{path}:1: is larger than {MAX_FILE_BYTES} bytes")


def _text(data: bytes, where: str) -> str:
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise ConfigError(f"{where}:{line}: is not UTF-8") from None
    return text.replace("\r\n", "\n")


def _validated(document: frontmatter.Document, where: str) -> frontmatter.Frontmatter:
    try:
        return frontmatter.Frontmatter.model_validate(document.fields)
    except ValidationError as error:
        field = str(error.errors(include_url=False)[0]["loc"][0])
        line = document.lines.get(field, 1)
        raise ConfigError(f"{where}:{line}: {first_problem(error)}") from None


def _check_body(document: frontmatter.Document, where: str, contents: dict[str, bytes]) -> None:
    lines = document.body.split("\n")
    if not document.body.strip():
        raise ConfigError(f"{where}:{document.body_line}: the body is empty")
    if len(lines) > MAX_BODY_LINES:
        too_far = document.body_line + MAX_BODY_LINES
        raise ConfigError(f"{where}:{too_far}: the body is longer than {MAX_BODY_LINES} lines")
    if len(document.body) > MAX_BODY_CHARACTERS:
        raise ConfigError(
            f"{where}:{document.body_line}: the body has {len(document.body)} characters, more "
            f"than {MAX_BODY_CHARACTERS}; move details into references/"
        )
    fenced = False
    for number, line in enumerate(lines, document.body_line):
        fenced ^= line.lstrip().startswith("```")
        if not fenced:
            _check_links(line, f"{where}:{number}", contents)


def _check_links(line: str, place: str, contents: dict[str, bytes]) -> None:
    for link in _LINK.findall(re.sub(r"`[^`]*`", "", line)):
        path = link.partition("#")[0]
        if path and "://" not in path and not path.startswith("mailto:") and path not in contents:
            raise ConfigError(f"{place}: the link {link!r} leads to no file of this skill")


def _files(contents: dict[str, bytes]) -> tuple[SkillFile, ...]:
    return tuple(
        SkillFile(path=path, digest=digest_of(data), size_bytes=len(data))
        for path, data in sorted(contents.items())
    )


def _folder_digest(files: Sequence[SkillFile]) -> Digest:
    return digest_of("".join(f"{file.digest}  {file.path}\n" for file in files).encode())
