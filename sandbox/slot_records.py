"""Which slots exist, on disk: so that a later process can end what an earlier one left."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path

from pydantic import ValidationError

from problems.record import Record


class ProcessIdentity(Record):
    """A process id alone may be another process tomorrow."""

    pid: int
    started: int
    """Clock ticks after the machine's start (proc(5), field 22)."""

    @classmethod
    def of(cls, pid: int) -> ProcessIdentity | None:
        """None where there is no such process."""
        try:
            text = Path(f"/proc/{pid}/stat").read_text()
        except OSError:
            return None
        return cls(pid=pid, started=int(text.rpartition(")")[2].split()[19]))

    @property
    def alive(self) -> bool:
        return ProcessIdentity.of(self.pid) == self

    def kill(self) -> None:
        if self.alive:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)


class SlotRecord(Record):
    slot: str
    owner: ProcessIdentity
    """The process whose slot it is."""
    processes: tuple[ProcessIdentity, ...]
    """Bubblewrap and the slot's init; empty until they run."""


class SlotRecords:
    """One small file per living slot."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def write(self, record: SlotRecord) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        path = self._folder / f"{record.slot}.json"
        fresh = path.with_suffix(".new")
        fresh.write_text(record.model_dump_json())
        fresh.rename(path)

    def remove(self, slot: str) -> None:
        (self._folder / f"{slot}.json").unlink(missing_ok=True)

    def all(self) -> tuple[SlotRecord, ...]:
        found = []
        for path in sorted(self._folder.glob("*.json")):
            with contextlib.suppress(FileNotFoundError, ValidationError):
                found.append(SlotRecord.model_validate_json(path.read_text()))
        return tuple(found)
