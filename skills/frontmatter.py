"""The subset of YAML that SKILL.md frontmatter needs; what it does not understand is refused."""

from __future__ import annotations

import json
import re
from typing import Annotated, Any

from pydantic import Field, StringConstraints, field_validator

from problems.errors import ConfigError
from problems.record import Record

KEYS = ("name", "description", "license", "compatibility", "metadata", "allowed-tools")
"""The public form's; there are no others."""
_FENCE = "---"
_KEY = re.compile(r"([A-Za-z][A-Za-z0-9_-]*):(?: +(.*))?")
_NOT_PLAIN = "[]{}&*!|>%@`\"',#?-"
"""Characters that start something other than a plain scalar."""
_NOT_TEXT = re.compile(r"(?i)~|null|true|false|yes|no|on|off|[-+]?\.?\d[\d_.]*(e[-+]?\d+)?")
"""Plain scalars that YAML reads as something else than text."""


class Frontmatter(Record):
    """What stands between the two `---` lines, and where the body starts."""

    name: Annotated[str, StringConstraints(min_length=1, max_length=64)]
    description: Annotated[str, StringConstraints(min_length=1, max_length=1024)]
    license: str | None = None
    compatibility: Annotated[str, StringConstraints(max_length=500)] | None = None
    metadata: dict[str, str] = {}
    allowed_tools: str | None = Field(default=None, alias="allowed-tools")

    @field_validator("name")
    @classmethod
    def _is_kebab_case(cls, name: str) -> str:
        if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name):
            raise ValueError(
                f"{name!r} must be lower-case letters, digits and single hyphens in between"
            )
        return name

    @field_validator("description")
    @classmethod
    def _has_no_tags(cls, description: str) -> str:
        if not description.strip() or "<" in description or ">" in description:
            raise ValueError("must be text without < and >")
        return description


class Document(Record):
    """A parsed SKILL.md."""

    fields: dict[str, Any]
    lines: dict[str, int]
    """On which line each field stands, for messages."""
    body: str
    body_line: int
    """Line number of the body's first line."""


def parse(text: str, where: str) -> Document:
    """
    Raises:
        ConfigError: `file:line: reason`.
    """
    lines = text.split("\n")
    if lines[0] != _FENCE:
        raise ConfigError(f"{where}:1: must start with a line '---'")
    if _FENCE not in lines[1:]:
        raise ConfigError(f"{where}:1: the frontmatter has no closing line '---'")
    end = lines.index(_FENCE, 1)
    fields: dict[str, Any] = {}
    places: dict[str, int] = {}
    parent: dict[str, str] | None = None
    for number, line in enumerate(lines[1:end], 2):
        place = f"{where}:{number}"
        if not line.strip() or line.startswith("#"):
            continue
        if line.startswith("  ") and not line.startswith("   ") and parent is not None:
            key, value = _entry(line[2:], place)
            _add(parent, key, _scalar(value, place), place)
            continue
        key, value = _entry(line, place)
        if key not in KEYS:
            raise ConfigError(f"{place}: unknown key {key!r}; keys: {', '.join(KEYS)}")
        parent = {} if key == "metadata" and not value else None
        _add(fields, key, _scalar(value, place) if parent is None else parent, place)
        places[key] = number
    body = "\n".join(lines[end + 1 :])
    return Document(fields=fields, lines=places, body=body, body_line=end + 2)


def _entry(line: str, place: str) -> tuple[str, str]:
    match = _KEY.fullmatch(line.rstrip())
    if match is None:
        raise ConfigError(
            f"{place}: expected 'key: value' on one line; under metadata two spaces before it"
        )
    return match[1], (match[2] or "").strip()


def _add(fields: dict[str, Any], key: str, value: Any, place: str) -> None:
    if key in fields:
        raise ConfigError(f"{place}: key {key!r} is there twice")
    fields[key] = value


def _scalar(value: str, place: str) -> str:
    if value.startswith('"'):
        return _double_quoted(value, place)
    if value.startswith("'"):
        if not re.fullmatch(r"'(?:[^']|'')*'", value):
            raise ConfigError(f"{place}: the text has no closing quote, or something after it")
        return value[1:-1].replace("''", "'")
    if not value:
        raise ConfigError(f"{place}: a value is missing")
    if value[0] in _NOT_PLAIN or ": " in value or " #" in value or value.endswith(":"):
        raise ConfigError(
            f"{place}: this YAML is not supported; write one line of text, in double quotes if "
            f"it has ': ' or ' #' in it or starts with a special character"
        )
    if _NOT_TEXT.fullmatch(value):
        raise ConfigError(f"{place}: {value} is not text in YAML; put it in quotes")
    return value


def _double_quoted(value: str, place: str) -> str:
    try:
        text = json.loads(value)
    except json.JSONDecodeError as error:
        raise ConfigError(f"{place}: the quoted text is malformed: {error.msg}") from None
    return str(text)
