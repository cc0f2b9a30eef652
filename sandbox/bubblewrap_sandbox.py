"""Slots by bubblewrap: for root and for ordinary users, without a daemon or an image."""

from __future__ import annotations

import os
import secrets
import socket
import threading
from collections.abc import Mapping, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Self

from problems.errors import SandboxError
from problems.record import Digest
from sandbox.blob_store import BlobStore
from sandbox.bubblewrap_command import BubblewrapCommand
from sandbox.cgroup import Cgroup, Cgroups, CgroupUnavailable
from sandbox.guest.link import LinkError, receive_frame, send_frame
from sandbox.order import check_order
from sandbox.sandbox import Limits, Running, Slot, Warmth
from sandbox.slot_process import SlotProcess, explain, spawn
from sandbox.slot_records import ProcessIdentity, SlotRecord, SlotRecords
from sandbox.supervised_job import SupervisedJob

_PREPARE_TIMEOUT_S = 120.0
_HANDOVER_TIMEOUT_S = 30.0
_GUEST = Path(__file__).with_name("guest")


class BubblewrapSlot:
    """A prepared slot, until it is started or killed."""

    def __init__(self, process: SlotProcess, limits: Limits) -> None:
        self.id = process.slot
        self.process = process
        self.limits = limits


class BubblewrapSandbox:
    """A context manager; leaving it kills every slot.

    Slots die with this process, and with the thread that starts them, which lives until `close`.
    """

    name = "bubblewrap"

    def __init__(
        self,
        blobs: BlobStore,
        state: Path,
        venv: Path | None = None,
        programs: Path | None = None,
    ) -> None:
        """`venv` is this process's own by default; `programs` holds more modules to run.

        Raises:
            SandboxError: bubblewrap or another program is not installed.
        """
        self._blobs = blobs
        self._records = SlotRecords(state)
        self._command = BubblewrapCommand(venv, programs, os.environ)
        self._programs = _programs_in(programs)
        self.isolation_notes: tuple[str, ...] = ()
        """What is weaker here than it should be; empty where nothing is."""
        self._cgroups: Cgroups | None = None
        try:
            self._cgroups = Cgroups()
        except CgroupUnavailable as missing:
            self.isolation_notes = (
                "memory is limited for each process of a sandbox and not for all together, and "
                f"scratch files beside it: control groups cannot be used here ({missing})",
            )
        owner = ProcessIdentity.of(os.getpid())
        assert owner is not None
        self._owner = owner
        self._spawner = ThreadPoolExecutor(1, "sandbox-spawner")
        self._lock = threading.Lock()
        self._prepared: dict[str, BubblewrapSlot] = {}
        self._running: dict[str, SupervisedJob] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def prepare(
        self, warmth: Warmth, limits: Limits, image: Digest | None = None, device: str | None = None
    ) -> Slot:
        if image is not None:
            raise SandboxError("bubblewrap runs this host's own system: it has no images")
        if device not in (None, "cpu"):
            raise SandboxError(f"bubblewrap slots have no device {device}: valid is cpu")
        process = self._spawn(warmth, limits)
        slot = BubblewrapSlot(process, limits)
        ready = False
        try:
            _await_ready(process)
            ready = True
        finally:
            if not ready:
                self._discard(slot)
        with self._lock:
            self._prepared[slot.id] = slot
        return slot

    def start(
        self,
        slot: Slot,
        files: Mapping[str, Digest],
        argv: Sequence[str],
        links: Sequence[socket.socket] = (),
    ) -> Running:
        """`links` stay open here; the slot gets duplicates."""
        check_order(files, argv, self._programs)
        contents = {path: self._blobs.get(digest) for path, digest in files.items()}
        with self._lock:
            prepared = self._prepared.pop(slot.id, None)
        if prepared is None:
            raise SandboxError(f"slot {slot.id} was used before or is dead: prepare another one")
        try:
            prepared.process.control.settimeout(_HANDOVER_TIMEOUT_S)
            send_frame(
                prepared.process.control,
                {"argv": list(argv), "files": [[p, len(data)] for p, data in contents.items()]},
                b"".join(contents.values()),
                tuple(link.fileno() for link in links),
            )
        except OSError as error:
            self._discard(prepared)
            raise SandboxError(f"slot {slot.id} is dead: {error}") from None
        with self._lock:
            job = SupervisedJob(prepared.process, prepared.limits, self._released)
            self._running[slot.id] = job
        return job

    def reap(self, live: Set[str]) -> tuple[str, ...]:
        """Slots of other processes that are still alive are left alone."""
        with self._lock:
            prepared = [s for s in self._prepared.values() if s.id not in live]
            for slot in prepared:
                del self._prepared[slot.id]
            running = [j for j in self._running.values() if j.id not in live]
            ours = {*self._prepared, *self._running}
        for slot in prepared:
            self._discard(slot)
        for job in running:
            job.kill()
        reaped = {s.id for s in prepared} | {j.id for j in running}
        for record in self._records.all():
            if record.owner == self._owner or record.owner.alive or record.slot in live | ours:
                continue
            self._reap(record)
            reaped.add(record.slot)
        return tuple(sorted(reaped))

    def close(self) -> None:
        with self._lock:
            prepared, running = list(self._prepared.values()), list(self._running.values())
            self._prepared.clear()
        for slot in prepared:
            self._discard(slot)
        for job in running:
            job.kill()
        self._spawner.shutdown()

    def _spawn(self, warmth: Warmth, limits: Limits) -> SlotProcess:
        slot = secrets.token_hex(8)
        self._records.write(SlotRecord(slot=slot, owner=self._owner, processes=()))
        cgroup: Cgroup | None = None
        try:
            cgroup = self._cgroups.create(slot, limits) if self._cgroups else None
            process = self._spawner.submit(
                spawn, slot, self._command, warmth, limits, cgroup
            ).result()
        except (SandboxError, OSError, RuntimeError) as error:
            if self._cgroups is not None:
                self._cgroups.group(slot).remove()
            self._records.remove(slot)
            raise SandboxError(str(error)) from error
        found = (ProcessIdentity.of(process.pid), ProcessIdentity.of(process.init))
        self._records.write(
            SlotRecord(
                slot=slot, owner=self._owner, processes=tuple(p for p in found if p is not None)
            )
        )
        return process

    def _discard(self, slot: BubblewrapSlot) -> None:
        slot.process.kill()
        slot.process.release()
        self._records.remove(slot.id)

    def _released(self, slot: str) -> None:
        self._records.remove(slot)
        with self._lock:
            self._running.pop(slot, None)

    def _reap(self, record: SlotRecord) -> None:
        for process in record.processes:
            process.kill()
        if self._cgroups is not None:
            group = self._cgroups.group(record.slot)
            group.kill()
            group.remove()
        self._records.remove(record.slot)


def _programs_in(more: Path | None) -> frozenset[str]:
    """The modules of the guest that have a `main`, and all of the additional folder."""
    own = {p.stem for p in _GUEST.glob("*.py") if "\ndef main(" in p.read_text()} - {"slot"}
    other = {f"programs.{p.stem}" for p in more.glob("*.py")} if more is not None else set()
    return frozenset(own | other)


def _await_ready(process: SlotProcess) -> None:
    """
    Raises:
        SandboxError: with what the slot printed last.
    """
    process.control.settimeout(_PREPARE_TIMEOUT_S)
    try:
        receive_frame(process.control)
    except TimeoutError:
        raise SandboxError(f"a slot was not ready after {_PREPARE_TIMEOUT_S:g} s") from None
    except (LinkError, OSError):
        output = process.read_output(1 << 16) or b""
        raise SandboxError(explain(output.decode(errors="replace"))) from None
