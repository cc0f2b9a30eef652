"""The scheduler inside one kagent process: it executes its own run's jobs, one at a time."""

from __future__ import annotations

import fcntl
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import TextIO

from problems.errors import InfrastructureError
from problems.record import digest_of
from sandbox.blob_store import BlobStore
from scheduler.device_lock import DeviceLock
from scheduler.job import JobEvent, JobRecord, JobSpec, StageResult
from scheduler.journal import Claim, Journal
from scheduler.scheduler import Executor, JournalError, QueueSnapshot

_LOOK_AGAIN_S = 0.5
"""A job may also be cancelled by another process, which cannot wake this one."""
_STOP_POLL_S = 0.1


class LocalScheduler:
    """A context manager. Measurements of all kagent processes of a machine take turns.

    Owns the executor: it is closed with the scheduler.
    """

    def __init__(
        self,
        journal_path: Path,
        blobs: BlobStore,
        executor: Executor,
        run: str,
        *,
        device: str = "cpu",
        lock_folder: Path | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """
        Raises:
            JournalError: the journal cannot be used, or another process executes this run.
        """
        self._blobs = blobs
        self._executor = executor
        self._run = run
        self._clock = clock
        self._device = DeviceLock(device, lock_folder)
        self._changed = threading.Condition()
        self._closing = False
        self._executing: str | None = None
        self._journal = Journal(journal_path)
        try:
            self._run_lock = _lock_run(journal_path, run)
            self._journal.recover(run, clock())
            self._may_revive = set(self._journal.ended_without_result(run))
        except JournalError:
            self._journal.close()
            raise
        self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="scheduler")
        self._worker: Future[None] = self._pool.submit(self._work)
        self._worker.add_done_callback(lambda _: self._notify())

    def submit(self, spec: JobSpec) -> JobRecord:
        """As the protocol says; a job of another run is a mistake of the caller.

        A job that an earlier process left cancelled or failed by the machine is queued again, so
        that a run can be resumed after the machine was repaired.
        """
        if spec.run != self._run:
            raise ValueError(f"this scheduler executes jobs of {self._run}, not of {spec.run}")
        self._raise_what_stopped_the_worker()
        job = self._journal.submit(spec, self._clock())
        if job in self._may_revive:
            self._may_revive.discard(job)
            self._journal.revive(job, self._clock())
        self._notify()
        return self.get(job)

    def get(self, job: str) -> JobRecord:
        return self._journal.get(job, self._clock())

    def wait(self, job: str, after_seq: int, timeout_s: float) -> tuple[JobEvent, ...]:
        self.get(job)
        until_s = time.monotonic() + timeout_s
        with self._changed:
            while True:
                events = self._journal.events(job, after_seq)
                left_s = until_s - time.monotonic()
                if events or left_s <= 0:
                    return events
                self._raise_what_stopped_the_worker()
                self._changed.wait(min(left_s, _LOOK_AGAIN_S))

    def cancel(self, job: str, reason: str) -> JobRecord:
        with self._changed:
            if self._journal.cancel(job, reason, self._clock()) and self._executing == job:
                self._executor.cancel()
        self._notify()
        return self.get(job)

    def queue(self) -> QueueSnapshot:
        """Of this run."""
        return self._journal.queue(self._run, self._clock())

    def close(self) -> None:
        with self._changed:
            if self._closing:
                return
            self._closing = True
            self._changed.notify_all()
        pause = threading.Event()
        while not self._worker.done():
            self._executor.cancel()
            pause.wait(_STOP_POLL_S if self._executing else _STOP_POLL_S / 10)
        self._pool.shutdown()
        self._executor.close()
        self._journal.close()
        self._run_lock.close()

    def __enter__(self) -> LocalScheduler:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _work(self) -> None:
        while not self._closing:
            with self._changed:
                claim = self._journal.claim(self._run, self._clock())
                if claim is None:
                    self._changed.wait(_LOOK_AGAIN_S)
                    continue
            self._take(claim)
            self._notify()

    def _take(self, claim: Claim) -> None:
        """Executes it in its lane and journals how it ended, whatever happens."""
        ended = False
        try:
            with self._device.held(
                claim.spec.stage, claim.spec.target, lambda: self._is_worthless(claim)
            ) as free:
                if free and self._start(claim):
                    self._execute(claim)
            ended = True
        except InfrastructureError as error:
            ended = self._journal.fail(claim, str(error), 0.0, self._clock())
        finally:
            if self._closing or not ended:
                self._journal.give_up(claim, "the scheduler stopped", self._clock())

    def _is_worthless(self, claim: Claim) -> bool:
        return self._closing or self.get(claim.job).state.final

    def _start(self, claim: Claim) -> bool:
        with self._changed:
            if self._closing or not self._journal.start(claim, self._clock()):
                return False
            self._executing = claim.job
        self._notify()
        return True

    def _execute(self, claim: Claim) -> None:
        started_s = time.monotonic()
        result: StageResult | None = None
        error = ""
        try:
            result = self._executor.execute(claim.spec)
            digest = self._blobs.put(result.canonical_json().encode())
        except (InfrastructureError, OSError) as failure:
            result, error = None, str(failure) or type(failure).__name__
        finally:
            with self._changed:
                self._executing = None
                interrupted = self._closing
        if interrupted:
            # What was killed half-way may look like a failure of the candidate.
            return
        device_s = time.monotonic() - started_s
        if result is None:
            self._journal.fail(claim, error, device_s, self._clock())
        else:
            self._journal.finish(claim, digest, device_s, self._clock())

    def _notify(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def _raise_what_stopped_the_worker(self) -> None:
        """A worker that ended by an exception has nobody else to tell."""
        if self._worker.done() and not self._closing:
            self._worker.result()


def _lock_run(journal_path: Path, run: str) -> TextIO:
    """So that one process executes a run, and its predecessor is known to be dead."""
    folder = journal_path.with_name(f"{journal_path.name}.runs")
    path = folder / f"{digest_of(run.encode())[:32]}.lock"
    try:
        folder.mkdir(exist_ok=True)
        file = path.open("a")
    except OSError as error:
        raise JournalError(f"scheduler journal {journal_path}: {error}") from error
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        raise JournalError(f"another kagent process works on run {run}") from None
    return file
