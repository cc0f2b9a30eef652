"""A sandbox that isolates nothing: functions in threads, under the same protocol and limits.

For the tests of other parts. Not for candidates: a thread cannot be killed or kept offline.
"""

from __future__ import annotations

import contextlib
import secrets
import socket
import threading
from collections.abc import Callable, Mapping, Sequence, Set
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Self

from problems.errors import SandboxError
from problems.record import Digest
from sandbox.blob_store import BlobStore
from sandbox.order import check_order, is_plain_path
from sandbox.results import MAX_FILES, Results
from sandbox.sandbox import EndReason, Exit, Limits, Running, Slot, Warmth

_MAX_THREADS = 64


class FakeJob:
    """What a program is given instead of `/work`, `/out`, standard output and signals."""

    def __init__(
        self,
        argv: list[str],
        files: Mapping[str, bytes],
        links: list[socket.socket],
        say: Callable[[str], None],
    ) -> None:
        self.argv = argv
        """Without the program's name."""
        self.files = files
        self.links = links
        self.say = say
        self.results: dict[str, bytes] = {}
        """By path below `/out`."""
        self.ended = threading.Event()
        """Set when the job is killed or over a limit: a program that goes on should look at it."""


FakeProgram = Callable[[FakeJob], int]
"""Returns the exit status; an exception is status 1, a MemoryError the memory limit."""


class FakeSlot:
    def __init__(self, limits: Limits) -> None:
        self.id = secrets.token_hex(8)
        self.limits = limits


class FakeRunning:
    """A program in a thread; the first reason to end it counts."""

    def __init__(self, slot: FakeSlot, released: Callable[[str], None]) -> None:
        self.id = slot.id
        self._limits = slot.limits
        self._released = released
        self._log = ""
        self._results: Results | None = None
        self._exit: Exit | None = None
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._timer = threading.Timer(slot.limits.wall_s, self._end, (EndReason.TIMEOUT,))
        self._timer.daemon = True
        self._job: FakeJob | None = None

    def run(self, pool: ThreadPoolExecutor, program: FakeProgram, job: FakeJob) -> None:
        self._job = job
        self._timer.start()
        pool.submit(program, job).add_done_callback(self._done)

    def say(self, text: str) -> None:
        self._log += text
        if len(self._log.encode()) > self._limits.output_bytes:
            self._end(EndReason.OUTPUT_LIMIT)

    def wait(self, timeout_s: float) -> Exit | None:
        self._ended.wait(timeout_s)
        return self._exit

    def read(self, path: str, max_bytes: int) -> bytes:
        if not self._ended.is_set():
            raise SandboxError(f"{path} cannot be read: the job has not ended")
        if self._results is None:
            raise SandboxError(f"{path} is absent: the job did not end by itself")
        return self._results.read(path, max_bytes)

    def kill(self) -> None:
        self._end(EndReason.KILLED)

    def _done(self, future: Future[int]) -> None:
        assert self._job is not None
        error = future.exception()
        if isinstance(error, MemoryError):
            self._end(EndReason.MEMORY_LIMIT)
        elif error is not None:
            self.say(f"{type(error).__name__}: {error}\n")
            self._end(EndReason.EXITED, 1)
        else:
            self._end(EndReason.EXITED, future.result())
        for link in self._job.links:
            link.close()

    def _end(self, reason: EndReason, code: int | None = None) -> None:
        assert self._job is not None
        with self._lock:
            if self._ended.is_set():
                return
            if code is not None:
                self._results = Results(code, self._kept(self._job.results))
            log = self._log.encode()[: self._limits.output_bytes].decode(errors="replace")
            self._exit = Exit(reason=reason, code=code, log=log)
            self._released(self.id)
            self._ended.set()
        self._timer.cancel()
        self._job.ended.set()
        for link in self._job.links:
            with contextlib.suppress(OSError):  # a program that waits for it wakes up
                link.shutdown(socket.SHUT_RDWR)

    def _kept(self, results: Mapping[str, bytes]) -> dict[str, bytes]:
        """As a slot does: in the order of names, as far as the limits go."""
        kept: dict[str, bytes] = {}
        left = self._limits.result_bytes
        for path in sorted(results):
            if is_plain_path(path) and len(results[path]) <= left and len(kept) < MAX_FILES:
                kept[path] = results[path]
                left -= len(results[path])
        return kept


class FakeSandbox:
    """Runs `programs` by name; nothing in it is isolated."""

    name = "fake"

    def __init__(self, blobs: BlobStore, programs: Mapping[str, FakeProgram]) -> None:
        self._blobs = blobs
        self._programs = programs
        self.isolation_notes: tuple[str, ...] = ("nothing is isolated",)
        self._pool = ThreadPoolExecutor(_MAX_THREADS, "fake-slot")
        self._lock = threading.RLock()
        self._prepared: dict[str, FakeSlot] = {}
        self._running: dict[str, FakeRunning] = {}

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
        slot = FakeSlot(limits)
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
        check_order(files, argv, self._programs.keys())
        contents = {path: self._blobs.get(digest) for path, digest in files.items()}
        with self._lock:
            prepared = self._prepared.pop(slot.id, None)
            if prepared is None:
                raise SandboxError(f"slot {slot.id} was used before or is dead: prepare another")
            running = FakeRunning(prepared, self._forget)
            self._running[slot.id] = running
        job = FakeJob(list(argv[1:]), contents, [link.dup() for link in links], running.say)
        running.run(self._pool, self._programs[argv[0]], job)
        return running

    def reap(self, live: Set[str]) -> tuple[str, ...]:
        with self._lock:
            dead = [slot for slot in self._prepared if slot not in live]
            for slot in dead:
                del self._prepared[slot]
            running = [job for job in self._running.values() if job.id not in live]
        for job in running:
            job.kill()
        return tuple(sorted([*dead, *(job.id for job in running)]))

    def close(self) -> None:
        """Waits for the programs, which are told that they are over."""
        self.reap(frozenset())
        self._pool.shutdown()

    def _forget(self, slot: str) -> None:
        with self._lock:
            self._running.pop(slot, None)
