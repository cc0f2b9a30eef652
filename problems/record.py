"""The base of every value that flows between parts: frozen, strict, with a content digest."""

from __future__ import annotations

import hashlib
import json
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, StringConstraints, ValidationError

from problems.errors import ConfigError

Digest = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
"""SHA-256 of some bytes, in lower-case hexadecimal."""

NonEmpty = Annotated[str, StringConstraints(min_length=1)]


class Record(BaseModel):
    """A frozen value; an unknown field is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    def canonical_json(self) -> str:
        """JSON without white space: fields as declared, mappings in their own order.

        Keys are not sorted: the order of a definition's inputs is the calling convention.
        """
        return json.dumps(self.model_dump(mode="json"), separators=(",", ":"), allow_nan=False)

    def content_digest(self) -> Digest:
        return digest_of(self.canonical_json().encode())


class ForeignRecord(Record):
    """A record of somebody else's schema: unknown fields are ignored, as its owner does."""

    model_config = ConfigDict(frozen=True, extra="ignore", use_attribute_docstrings=True)


AnyRecord = TypeVar("AnyRecord", bound=BaseModel)


def digest_of(data: bytes) -> Digest:
    return hashlib.sha256(data).hexdigest()


def parse_record(kind: type[AnyRecord], data: Any, where: str) -> AnyRecord:
    """Validate parsed JSON or TOML.

    Raises:
        ConfigError: one line with the place, the field's path and what is wrong with it.
    """
    try:
        return kind.model_validate(data)
    except ValidationError as error:
        raise ConfigError(f"{where}: {first_problem(error)}") from None


def first_problem(error: ValidationError) -> str:
    """The first validation error as `field.path: message (and N more)`."""
    errors = error.errors(include_url=False)
    path = ".".join(str(part) for part in errors[0]["loc"])
    message = errors[0]["msg"].removeprefix("Value error, ")
    more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
    return f"{path}: {message}{more}" if path else f"{message}{more}"
