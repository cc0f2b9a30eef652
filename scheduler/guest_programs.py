"""Starts guest programs in sandboxes: one-shot ones, and residents that serve several jobs."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from problems.errors import InfrastructureError, SandboxError
from sandbox.blob_store import BlobStore
from sandbox.sandbox import EndReason, Exit, Limits, Running, Sandbox, Warmth

_MAX_REPORT_BYTES = 32 << 20
_RESIDENT_WALL_S = 24 * 3600.0


class Resident:
    """A program that serves several jobs, and the host's end of its link."""

    def __init__(self, link: socket.socket, running: Running) -> None:
        self.link = link
        self.running = running

    def close(self) -> None:
        self.link.close()
        self.running.kill()


class GuestPrograms:
    """Keeps track of what runs, so that another thread can kill all of it."""

    def __init__(self, sandbox: Sandbox, blobs: BlobStore) -> None:
        self._sandbox = sandbox
        self._blobs = blobs
        self._running: list[Running] = []
        self._lock = threading.Lock()
        self.cancelled = False

    def cancel(self) -> None:
        with self._lock:
            self.cancelled = True
            for running in self._running:
                running.kill()

    def run(
        self, argv: Sequence[str], files: Mapping[str, bytes], limits: Limits, warmth: Warmth
    ) -> tuple[Running, Exit]:
        """One program to its end; its files can be read after.

        Raises:
            InfrastructureError: it was cancelled, or did not end in its time.
        """
        running = self._start(argv, files, limits, warmth)
        try:
            ended = running.wait(limits.wall_s + 10)
            if ended is None:
                running.kill()
                raise SandboxError(f"{argv[0]} did not end though its time was over")
        finally:
            self._forget(running)
        if self.cancelled:
            raise InfrastructureError("cancelled")
        return running, ended

    def serve(
        self,
        argv: Sequence[str],
        files: Mapping[str, bytes],
        limits: Limits,
        warmth: Warmth,
        endless: bool = True,
    ) -> Resident:
        """A program that answers on a link; endless ones outlive the limit of one job."""
        ours, theirs = socket.socketpair()
        wall_s = _RESIDENT_WALL_S if endless else limits.wall_s
        limits = limits.model_copy(update={"wall_s": wall_s})
        running = self._start(argv, files, limits, warmth, [theirs])
        theirs.close()
        return Resident(ours, running)

    def end(self, resident: Resident) -> None:
        resident.close()
        self._forget(resident.running)

    def _start(
        self,
        argv: Sequence[str],
        files: Mapping[str, bytes],
        limits: Limits,
        warmth: Warmth,
        links: Sequence[socket.socket] = (),
    ) -> Running:
        slot = self._sandbox.prepare(warmth, limits)
        digests = {path: self._blobs.put(data) for path, data in files.items()}
        running = self._sandbox.start(slot, digests, argv, links)
        with self._lock:
            self._running.append(running)
        return running

    def _forget(self, running: Running) -> None:
        with self._lock:
            if running in self._running:
                self._running.remove(running)


def report_of(running: Running, ended: Exit, path: str) -> dict[str, Any]:
    """A trusted program's JSON.

    Raises:
        InfrastructureError: it did not end well, or left none.
    """
    if ended.reason is not EndReason.EXITED:
        raise InfrastructureError(f"{path}: ended by {ended.reason}: {ended.log[-500:]}")
    try:
        report = json.loads(running.read(path, _MAX_REPORT_BYTES))
    except (SandboxError, ValueError) as error:
        raise InfrastructureError(f"{path}: {error}: {ended.log[-500:]}") from error
    if not isinstance(report, dict):
        raise InfrastructureError(f"{path} is no JSON object")
    return report
