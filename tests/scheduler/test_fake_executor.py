from __future__ import annotations

from pathlib import Path

import pytest

from problems.errors import InfrastructureError
from problems.evaluation import Status, Verdict
from problems.paired import compare
from sandbox.blob_store import BlobStore
from scheduler.fake_executor import HARDWARE, FakeExecutor
from scheduler.job import Stage
from tests.scheduler.samples import job


@pytest.fixture
def blobs(tmp_path: Path) -> BlobStore:
    return BlobStore(tmp_path)


@pytest.mark.parametrize(
    ("latency_ms", "verdict"),
    [(1, Verdict.FASTER), (2, Verdict.EQUIVALENT), (3, Verdict.SLOWER)],
)
def test_a_latency_becomes_sessions_and_traces(
    blobs: BlobStore, latency_ms: int, verdict: Verdict
) -> None:
    spec = job(blobs, "k", Stage.CONFIRM, f"latency_ms={latency_ms}")
    result = FakeExecutor(blobs).execute(spec)
    comparison = compare(result.sessions)
    assert comparison.verdict is verdict
    assert comparison.ratio == pytest.approx(2 / latency_ms, rel=0.01)
    assert [trace.workload.uuid for trace in result.traces] == ["w4", "w64"]
    performance = result.traces[0].evaluation.performance
    assert performance is not None
    assert performance.latency_ms == pytest.approx(latency_ms, rel=0.02)
    assert result.traces[0].evaluation.environment.hardware == HARDWARE
    assert [session.first for session in result.sessions[:4:2]] == ["solution", "opponent"]


def test_the_same_job_gives_the_same_sessions_and_another_seed_others(blobs: BlobStore) -> None:
    spec = job(blobs, "k", Stage.SCREEN)
    first, again = (FakeExecutor(blobs).execute(spec).sessions for _ in range(2))
    assert first == again
    assert FakeExecutor(blobs, seed=1).execute(spec).sessions != first


@pytest.mark.parametrize(
    ("simulate", "stage", "status"),
    [
        ("status=COMPILE_ERROR", Stage.BUILD, Status.COMPILE_ERROR),
        ("status=INCORRECT_NUMERICAL", Stage.BUILD, Status.PASSED),
        ("status=INCORRECT_NUMERICAL", Stage.CHECK, Status.INCORRECT_NUMERICAL),
        ("status=TIMEOUT, at=judge", Stage.CONFIRM, Status.PASSED),
        ("status=TIMEOUT, at=judge", Stage.JUDGE, Status.TIMEOUT),
    ],
)
def test_a_failure_from_its_stage_on_has_a_trace_for_every_workload(
    blobs: BlobStore, simulate: str, stage: Stage, status: Status
) -> None:
    result = FakeExecutor(blobs).execute(job(blobs, "k", stage, simulate))
    assert result.status is status
    assert (result.artifact is not None) == (stage is Stage.BUILD and status is Status.PASSED)
    if status is not Status.PASSED:
        assert [trace.evaluation.status for trace in result.traces] == [status] * 2


def test_faster_than_light_is_quarantined_as_on_a_real_device(blobs: BlobStore) -> None:
    spec = job(blobs, "k", Stage.SCREEN, "latency_ms=0.1", bounds_ms=(0.5, 0.01))
    result = FakeExecutor(blobs).execute(spec)
    statuses = [trace.evaluation.status for trace in result.traces]
    assert statuses == [Status.QUARANTINED, Status.PASSED]


def test_analysis_counts_the_true_bytes(blobs: BlobStore) -> None:
    result = FakeExecutor(blobs).execute(job(blobs, "k", Stage.ANALYZE))
    assert [analysis.compulsory_bytes for analysis in result.analyses] == [32, 512]
    assert result.analyses[0].nodes[0].op == "input:x"


def test_the_machine_breaks_as_often_as_it_is_told(blobs: BlobStore) -> None:
    executor = FakeExecutor(blobs)
    spec = job(blobs, "k", Stage.CHECK, "breaks=1")
    with pytest.raises(InfrastructureError, match="simulated break 1"):
        executor.execute(spec)
    assert executor.execute(spec).status is Status.PASSED


@pytest.mark.parametrize("simulate", ["speed=3", "latency_ms=-1", "status=FINE"])
def test_a_wrong_setting_is_named(blobs: BlobStore, simulate: str) -> None:
    with pytest.raises(InfrastructureError, match=f"simulate: {simulate.partition('=')[0]}"):
        FakeExecutor(blobs).execute(job(blobs, "k", Stage.CHECK, simulate))
