"""The seam: prepare a slot, start one job in it, read what it left, kill it, reap leftovers."""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence, Set
from enum import StrEnum
from typing import Annotated, Protocol

from pydantic import Field

from problems.record import Digest, Record


class Limits(Record):
    """Of one slot; exceeding one ends the job in it, never the host."""

    wall_s: Annotated[float, Field(gt=0)] = 60.0
    """From start to the job's end."""
    memory_bytes: Annotated[int, Field(gt=0)] = 4 << 30
    """Of all processes together, tmpfs and shared memory included."""
    device_bytes: Annotated[int, Field(ge=0)] = 0
    pids: Annotated[int, Field(gt=0)] = 128
    output_bytes: Annotated[int, Field(gt=0)] = 1 << 20
    """Of stdout and stderr together; more ends the job."""
    result_bytes: Annotated[int, Field(gt=0)] = 64 << 20
    """Of all result files together, and of the writable scratch space times four."""
    cores: Annotated[int, Field(gt=0)] = 2


class Warmth(StrEnum):
    """What a slot has imported before its job is known."""

    PLAIN = "plain"
    """The standard library only."""
    TORCH = "torch"
    COMPILE = "compile"
    """torch, with torch._dynamo and torch._inductor loaded."""


class EndReason(StrEnum):
    EXITED = "exited"
    TIMEOUT = "timeout"
    OUTPUT_LIMIT = "output limit"
    MEMORY_LIMIT = "memory limit"
    KILLED = "killed"
    """By `Running.kill`."""


class Exit(Record):
    reason: EndReason
    code: int | None
    """Exit status of the job, negative for a signal; None where it was not seen to end."""
    log: str
    """stdout and stderr, cut to `output_bytes`; hostile text."""


class Slot(Protocol):
    """A prepared, one-use sandbox."""

    id: str


class Running(Protocol):
    """A job in its slot."""

    id: str

    def wait(self, timeout_s: float) -> Exit | None:
        """The end, once it is there; None if the job still runs after `timeout_s`.

        The slot's own `wall_s` is enforced whether anybody waits or not.
        """

    def read(self, path: str, max_bytes: int) -> bytes:
        """A file that the job left under `/out`, after its end; hostile bytes.

        Raises:
            SandboxError: it is absent, too large, or the job has not ended.
        """

    def kill(self) -> None:
        """Ends every process of the slot within a second; nothing happens the second time."""


class Sandbox(Protocol):
    """Every job is offline, unprivileged, without the host's files, and limited.

    Programs are the modules of `sandbox.guest`: `argv[0]` names one (`worker`), and its
    `main(argv, links)` is called in a fresh fork of the slot's process.
    """

    name: str

    def prepare(
        self, warmth: Warmth, limits: Limits, image: Digest | None = None, device: str | None = None
    ) -> Slot:
        """Start a slot and wait until its imports are done; no device is open in it.

        Raises:
            SandboxError: the slot did not come up; the message says what is missing.
        """

    def start(
        self,
        slot: Slot,
        files: Mapping[str, Digest],
        argv: Sequence[str],
        links: Sequence[socket.socket] = (),
    ) -> Running:
        """Hand the slot its only job; `files` appear under `/work`, `links` are handed over.

        Raises:
            SandboxError: the slot was used before, is dead, or a file is absent.
        """

    def reap(self, live: Set[str]) -> tuple[str, ...]:
        """Kill every slot of this sandbox that is not in `live`, also of earlier processes."""

    def close(self) -> None:
        """Kill every slot of this object."""
