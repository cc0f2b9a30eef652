from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from problems.evaluation import Status
from sandbox.blob_store import BlobStore
from scheduler.fake_executor import FakeExecutor
from scheduler.job import JobRecord, JobSpec, JobState, Stage, StageResult
from scheduler.local_scheduler import LocalScheduler
from scheduler.scheduler import Executor, JournalError, Scheduler, SpecConflict, UnknownJob
from tests.scheduler.samples import job, result_of

PATIENCE_S = 20.0


class Bench:
    """Makes schedulers over one folder, and closes them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.blobs = BlobStore(folder / "blobs")
        self.made: list[Scheduler] = []

    def scheduler(self, executor: Executor | None = None, run: str = "run-1") -> Scheduler:
        made = LocalScheduler(
            self.folder / "scheduler.db",
            self.blobs,
            executor or FakeExecutor(self.blobs),
            run,
            lock_folder=self.folder,
        )
        self.made.append(made)
        return made


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path)
    yield made
    for scheduler in made.made:
        scheduler.close()


def until(
    scheduler: Scheduler, job: str, reached: Callable[[JobRecord], bool] = lambda r: r.state.final
) -> JobRecord:
    seq = 0
    while not reached(record := scheduler.get(job)):
        events = scheduler.wait(job, seq, PATIENCE_S)
        assert events, f"nothing happened to a {record.state} job"
        seq = events[-1].seq
    return record


class Gate:
    """An executor that says when it is executing, and goes on when it is let."""

    def __init__(self, inner: Executor) -> None:
        self.inner = inner
        self.entered = threading.Event()
        self.released = threading.Event()
        self.cancelled = threading.Event()
        self.executed: list[str] = []

    def execute(self, spec: JobSpec) -> StageResult:
        self.executed.append(spec.key)
        self.entered.set()
        assert self.released.wait(PATIENCE_S)
        return self.inner.execute(spec)

    def cancel(self) -> None:
        self.cancelled.set()
        self.released.set()

    def close(self) -> None:
        self.inner.close()


def test_accepted_jobs_end_with_a_result(bench: Bench) -> None:
    scheduler = bench.scheduler()
    for stage in (Stage.ANALYZE, Stage.CEILINGS, Stage.BUILD, Stage.CHECK, Stage.CONFIRM):
        record = until(scheduler, scheduler.submit(job(bench.blobs, stage.value, stage)).id)
        assert record.state is JobState.SUCCEEDED
        result = result_of(bench.blobs, record.result)
        assert (result.stage, result.status) == (stage, Status.PASSED)
    assert scheduler.queue().model_dump() == {"queued": 0, "running": 0, "oldest_s": 0.0}


def test_a_failing_candidate_is_a_result_and_is_not_tried_again(bench: Bench) -> None:
    scheduler = bench.scheduler()
    spec = job(bench.blobs, "k", Stage.CHECK, "status=RUNTIME_ERROR")
    record = until(scheduler, scheduler.submit(spec).id)
    assert (record.state, record.attempt) == (JobState.SUCCEEDED, 1)
    assert result_of(bench.blobs, record.result).status is Status.RUNTIME_ERROR


def test_submitting_again_returns_the_job_that_is_there(bench: Bench) -> None:
    scheduler = bench.scheduler()
    spec = job(bench.blobs, "k")
    first = until(scheduler, scheduler.submit(spec).id)
    assert scheduler.submit(spec) == first
    with pytest.raises(SpecConflict):
        scheduler.submit(job(bench.blobs, "k", simulate="latency_ms=5"))
    with pytest.raises(UnknownJob):
        scheduler.get("nobody")
    with pytest.raises(UnknownJob):
        scheduler.wait("nobody", 0, 0.0)
    with pytest.raises(ValueError, match="run-1, not of run-2"):
        scheduler.submit(job(bench.blobs, "k", run="run-2"))


@pytest.mark.parametrize(("breaks", "state"), [(2, "succeeded"), (3, "infra_failed")])
def test_a_broken_machine_is_tried_three_times(bench: Bench, breaks: int, state: str) -> None:
    scheduler = bench.scheduler()
    spec = job(bench.blobs, "k", Stage.CHECK, f"breaks={breaks}")
    record = until(scheduler, scheduler.submit(spec).id)
    assert (record.state, record.attempt) == (state, 3)
    details = [event.detail for event in scheduler.wait(record.id, 0, 0.0)]
    failures = [detail for detail in details if detail.startswith("infrastructure failed")]
    assert len(failures) == breaks


def test_an_operating_system_error_is_the_machines(bench: Bench) -> None:
    class FullDisk(FakeExecutor):
        def execute(self, spec: JobSpec) -> StageResult:
            raise OSError(28, "No space left on device")

    scheduler = bench.scheduler(FullDisk(bench.blobs))
    record = until(scheduler, scheduler.submit(job(bench.blobs, "k")).id)
    assert record.state is JobState.INFRA_FAILED
    assert record.error is not None
    assert "No space left" in record.error


def test_a_mistake_in_an_executor_is_raised_to_who_waits_and_the_job_is_kept(
    bench: Bench,
) -> None:
    class Mistaken(FakeExecutor):
        def execute(self, spec: JobSpec) -> StageResult:
            raise ZeroDivisionError("a mistake")

    scheduler = bench.scheduler(Mistaken(bench.blobs))
    found = scheduler.submit(job(bench.blobs, "k")).id
    with pytest.raises(ZeroDivisionError, match="a mistake"):
        until(scheduler, found)
    with pytest.raises(ZeroDivisionError):
        scheduler.submit(job(bench.blobs, "another"))
    assert scheduler.get(found).state is JobState.QUEUED
    scheduler.close()
    record = until(bench.scheduler(), found)
    assert record.state is JobState.SUCCEEDED


def test_cancelling_a_queued_and_a_running_job(bench: Bench) -> None:
    gate = Gate(FakeExecutor(bench.blobs))
    scheduler = bench.scheduler(gate)
    running = scheduler.submit(job(bench.blobs, "running")).id
    assert gate.entered.wait(PATIENCE_S)
    queued = scheduler.submit(job(bench.blobs, "queued")).id
    assert scheduler.queue().model_dump(exclude={"oldest_s"}) == {"queued": 1, "running": 1}
    assert scheduler.cancel(queued, "not needed").state is JobState.CANCELLED
    assert not gate.cancelled.is_set()
    assert scheduler.cancel(running, "not needed").state is JobState.CANCELLED
    assert gate.cancelled.is_set()
    last = scheduler.submit(job(bench.blobs, "last")).id
    assert until(scheduler, last).state is JobState.SUCCEEDED
    for cancelled in (running, queued):
        record = scheduler.get(cancelled)
        assert (record.state, record.result) == (JobState.CANCELLED, None)
    assert gate.executed == ["running", "last"]
    assert scheduler.cancel(last, "too late").state is JobState.SUCCEEDED


def test_what_close_interrupts_is_queued_for_the_next_process(bench: Bench) -> None:
    gate = Gate(FakeExecutor(bench.blobs))
    scheduler = bench.scheduler(gate)
    specs = [job(bench.blobs, key) for key in ("first", "second")]
    first, second = (scheduler.submit(spec).id for spec in specs)
    assert gate.entered.wait(PATIENCE_S)
    scheduler.close()
    scheduler.close()
    later = bench.scheduler()
    for found in (first, second):
        assert until(later, found).state is JobState.SUCCEEDED
    details = [event.detail for event in later.wait(first, 0, 0.0)]
    assert "attempt lost: the scheduler stopped" in details
    assert later.get(first).attempt == 2


def test_what_ended_without_a_result_can_be_asked_for_by_a_later_process(bench: Bench) -> None:
    spec = job(bench.blobs, "k", Stage.CHECK, "breaks=3")
    scheduler = bench.scheduler()
    found = until(scheduler, scheduler.submit(spec).id)
    assert scheduler.submit(spec).state is JobState.INFRA_FAILED
    scheduler.close()

    class Repaired(FakeExecutor):
        def execute(self, spec: JobSpec) -> StageResult:
            self._broken[spec.key] = 3
            return super().execute(spec)

    later = bench.scheduler(Repaired(bench.blobs))
    assert later.get(found.id).state is JobState.INFRA_FAILED
    later.submit(spec)
    assert until(later, found.id).state is JobState.SUCCEEDED


def test_one_process_executes_a_run(bench: Bench) -> None:
    bench.scheduler()
    with pytest.raises(JournalError, match="another kagent process works on run run-1"):
        bench.scheduler()
    bench.scheduler(run="run-2")


def test_two_runs_never_measure_at_once(bench: Bench) -> None:
    gates = {run: Gate(FakeExecutor(bench.blobs)) for run in ("run-1", "run-2")}
    first, second = (bench.scheduler(gate, run) for run, gate in gates.items())
    one = first.submit(job(bench.blobs, "k", Stage.CONFIRM)).id
    assert gates["run-1"].entered.wait(PATIENCE_S)
    other = second.submit(job(bench.blobs, "k", Stage.SCREEN, run="run-2")).id
    until(second, other, lambda record: record.state is JobState.CLAIMED)
    assert gates["run-2"].executed == []
    gates["run-2"].released.set()
    gates["run-1"].released.set()
    assert until(first, one).state is JobState.SUCCEEDED
    assert until(second, other).state is JobState.SUCCEEDED


def test_a_journal_that_fails_under_the_worker_is_raised_to_who_waits(bench: Bench) -> None:
    gate = Gate(FakeExecutor(bench.blobs))
    scheduler = bench.scheduler(gate)
    found = scheduler.submit(job(bench.blobs, "k")).id
    assert gate.entered.wait(PATIENCE_S)
    with closing(sqlite3.connect(bench.folder / "scheduler.db")) as connection:
        connection.execute("ALTER TABLE event RENAME TO lost")
    gate.released.set()
    with pytest.raises(JournalError, match=r"scheduler\.db: no such table"):
        until(scheduler, found)
