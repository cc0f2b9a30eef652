"""A job in its slot: a thread of its own enforces time and output, and takes its results."""

from __future__ import annotations

import contextlib
import selectors
import threading
import time
from collections.abc import Callable

from problems.errors import SandboxError
from sandbox.results import HostileResult, ResultReader, Results
from sandbox.sandbox import EndReason, Exit, Limits
from sandbox.slot_process import SlotProcess

_CHUNK = 1 << 18


class SupervisedJob:
    """`Running` over a slot's process; ends everything of the slot when the job ends."""

    def __init__(
        self, process: SlotProcess, limits: Limits, released: Callable[[str], None]
    ) -> None:
        """`released` is called with the slot's id once nothing of it is left."""
        self.id = process.slot
        self._process = process
        self._limits = limits
        self._released = released
        self._log = bytearray()
        self._reader = ResultReader(limits.result_bytes)
        self._results: Results | None = None
        self._exit: Exit | None = None
        self._killed = False
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._deadline = time.monotonic() + limits.wall_s
        self._thread = threading.Thread(target=self._supervise, name=f"slot {self.id}", daemon=True)
        self._thread.start()

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
        with self._lock:  # the supervisor frees the process under the same lock
            if self._ended.is_set():
                return
            self._killed = True
            self._process.kill()
        self._thread.join()

    def _supervise(self) -> None:
        reason = self._watch()
        with self._lock:
            with contextlib.suppress(SandboxError):  # stuck in the kernel: reaping tries again
                self._process.kill()
            while (part := self._process.read_output(_CHUNK)) and self._keep(part):
                pass
            if len(self._log) > self._limits.output_bytes:
                reason = EndReason.OUTPUT_LIMIT
            if reason is EndReason.EXITED and self._killed and self._results is None:
                reason = EndReason.KILLED
            if reason is EndReason.EXITED and self._process.out_of_memory():
                reason = EndReason.MEMORY_LIMIT
            self._process.release()
            self._exit = Exit(
                reason=reason,
                code=self._results.code if self._results else None,
                log=bytes(self._log[: self._limits.output_bytes]).decode(errors="replace"),
            )
            self._released(self.id)
            self._ended.set()

    def _watch(self) -> EndReason:
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.output, selectors.EVENT_READ, self._take_output)
            selector.register(self._process.control, selectors.EVENT_READ, self._take_results)
            while True:
                left_s = self._deadline - time.monotonic()
                if left_s <= 0:
                    return EndReason.TIMEOUT
                for key, _ in selector.select(left_s):
                    ended = key.data(selector)
                    if ended is not None:
                        return EndReason(ended)

    def _take_output(self, selector: selectors.BaseSelector) -> EndReason | None:
        part = self._process.read_output(_CHUNK)
        if part == b"":
            selector.unregister(self._process.output)
        return None if self._keep(part or b"") else EndReason.OUTPUT_LIMIT

    def _keep(self, part: bytes) -> bool:
        """False once it is too much."""
        self._log += part
        return len(self._log) <= self._limits.output_bytes

    def _take_results(self, selector: selectors.BaseSelector) -> EndReason | None:
        try:
            part = self._process.control.recv(_CHUNK)
            self._results = self._reader.feed(part)
        except (HostileResult, OSError):
            return EndReason.EXITED
        return EndReason.EXITED if self._results or not part else None
