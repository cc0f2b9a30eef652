"""What a slot hands over after its job: read as hostile, kept in memory, never written to disk."""

from __future__ import annotations

import json
import struct
from typing import Annotated

from pydantic import ConfigDict, Field, ValidationError

from problems.errors import SandboxError
from problems.record import Record
from sandbox.order import is_plain_path

MAX_FILES = 256
_HEADER = struct.Struct("<II")
_MAX_JSON_BYTES = 1 << 20


class HostileResult(Exception):
    """The slot sent what no slot of ours sends."""


class _Answer(Record):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    code: Annotated[int, Field(ge=-64, le=255)]
    files: Annotated[list[list[str | int]], Field(max_length=MAX_FILES)]


class Results:
    """Exit status and files of a job."""

    def __init__(self, code: int, files: dict[str, bytes]) -> None:
        self.code = code
        self._files = files

    def read(self, path: str, max_bytes: int) -> bytes:
        """`path` is relative to `/out`, or begins with it.

        Raises:
            SandboxError: it is absent or too large.
        """
        data = self._files.get(path.removeprefix("/out/"))
        if data is None:
            there = ", ".join(sorted(self._files)[:8]) or "nothing"
            raise SandboxError(f"the job left no plain file {path} within its limits, but {there}")
        if len(data) > max_bytes:
            raise SandboxError(f"{path} has {len(data)} bytes, more than {max_bytes}")
        return data


class ResultReader:
    """Takes a frame as its bytes arrive, and never more of them than the limits allow."""

    def __init__(self, max_result_bytes: int) -> None:
        self._max_result_bytes = max_result_bytes
        self._received = bytearray()

    def feed(self, part: bytes) -> Results | None:
        """None as long as the frame is incomplete.

        Raises:
            HostileResult: the frame is too large, malformed or inconsistent.
        """
        self._received += part
        if len(self._received) < _HEADER.size:
            return None
        text_bytes, data_bytes = _HEADER.unpack_from(self._received)
        if text_bytes > _MAX_JSON_BYTES or data_bytes > self._max_result_bytes:
            raise HostileResult(f"a frame of {text_bytes} + {data_bytes} bytes")
        text_end = _HEADER.size + text_bytes
        if len(self._received) > text_end + data_bytes:
            raise HostileResult("bytes behind the frame")
        if len(self._received) < text_end + data_bytes:
            return None
        return _parse(bytes(self._received[_HEADER.size : text_end]), self._received[text_end:])


def _parse(text: bytes, data: bytearray) -> Results:
    try:
        answer = _Answer.model_validate(json.loads(text))
    except (ValidationError, ValueError, RecursionError):
        raise HostileResult("a malformed answer") from None
    files: dict[str, bytes] = {}
    start = 0
    for entry in answer.files:
        if len(entry) != 2 or not isinstance(entry[0], str) or not isinstance(entry[1], int):
            raise HostileResult("a malformed list of files")
        name, size = entry[0], entry[1]
        if not is_plain_path(name) or name in files or not 0 <= size <= len(data) - start:
            raise HostileResult("a file with a bad name or size")
        files[name] = bytes(data[start : start + size])
        start += size
    if start != len(data):
        raise HostileResult("bytes that belong to no file")
    return Results(answer.code, files)
