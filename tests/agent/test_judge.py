from __future__ import annotations

from pathlib import Path

import pytest

from agent.attempt import Decision, JudgeResult, Stop
from problems.evaluation import Status
from problems.hidden_draw import seed_commitment
from problems.problem import Target
from tests.agent.fake_run import SEED, FakeRun, proposal


def _judge(folder: Path, simulate: str) -> tuple[JudgeResult | None, FakeRun]:
    script: tuple[Decision, ...] = (proposal("first", simulate), Stop(reason="enough"))
    run = FakeRun(folder, script)
    return run.process().judge, run


def test_a_winner_is_measured_on_hidden_workloads(tmp_path: Path) -> None:
    result, run = _judge(tmp_path, "latency_ms=0.5")
    assert result is not None
    assert result.passed
    assert result.private_speedup == pytest.approx(2, rel=0.01)
    assert result.private_low is not None
    assert 1.9 < result.private_low < 2.01
    assert result.workloads == 4
    assert 0 < result.checked_only <= 8
    assert result.seed == SEED.hex()
    assert result.seed_sha256 == seed_commitment(SEED)
    stages = [key.partition(":")[0] for key in run.machine.executed]
    assert stages.count("judge") == 1
    assert stages.count("check") == 2, "of the candidate, and of the neighbours"


@pytest.mark.parametrize("status", [Status.INCORRECT_NUMERICAL, Status.RUNTIME_ERROR])
def test_a_winner_that_fails_does_not_pass(tmp_path: Path, status: Status) -> None:
    result, _ = _judge(tmp_path, f"latency_ms=0.5, status={status}, at=judge")
    assert result is not None
    assert not result.passed
    assert result.status is status
    assert result.private_speedup is None
    assert result.log


def test_without_rules_nothing_hidden_can_be_drawn(tmp_path: Path) -> None:
    run = FakeRun(tmp_path, (proposal("first", "latency_ms=0.5"), Stop(reason="enough")))
    workloads = run.problem.targets[Target.CPU].model_copy(update={"rules": {}})
    run.problem = run.problem.model_copy(update={"targets": {Target.CPU: workloads}})
    state = run.process()
    assert state.best is not None
    assert state.judge is None
