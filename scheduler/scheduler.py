"""The seam: accepted means committed; every accepted job ends in a final state."""

from __future__ import annotations

from typing import Protocol

from problems.errors import InfrastructureError
from problems.record import Record
from scheduler.job import JobEvent, JobRecord, JobSpec, StageResult


class SpecConflict(Exception):
    """The key was used in this run for another spec."""


class UnknownJob(Exception):
    """No job has that id."""


class JournalError(InfrastructureError):
    """The journal is corrupt, from a newer version, or not writable."""


class QueueSnapshot(Record):
    queued: int
    running: int
    oldest_s: float
    """Age of the oldest queued job; 0 if none."""


class Scheduler(Protocol):
    def submit(self, spec: JobSpec) -> JobRecord:
        """Committed on return; the same run and key again returns the job that is there.

        Raises:
            SpecConflict: the key stands for another spec.
            JournalError: nothing was accepted.
        """

    def get(self, job: str) -> JobRecord:
        """
        Raises:
            UnknownJob: no job has that id.
        """

    def wait(self, job: str, after_seq: int, timeout_s: float) -> tuple[JobEvent, ...]:
        """Events of the job after a cursor; empty if none came in time."""

    def cancel(self, job: str, reason: str) -> JobRecord:
        """A running job's sandbox is killed; a final job stays as it is."""

    def queue(self) -> QueueSnapshot: ...

    def close(self) -> None:
        """Stop executing; queued jobs stay queued for the next process of the same run."""


class Executor(Protocol):
    """Runs one claimed job; called by the scheduler in its lane, never in parallel in one."""

    def execute(self, spec: JobSpec) -> StageResult:
        """
        Raises:
            InfrastructureError: the machine failed, not the candidate.
        """

    def cancel(self) -> None:
        """Kill what is running, from another thread."""

    def close(self) -> None: ...
