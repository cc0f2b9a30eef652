from __future__ import annotations

from pathlib import Path

import pytest

from agent.attempt import Stop
from agent.baseline import compiled_solution, eager_solution
from problems.errors import ConfigError
from problems.record import digest_of
from tests.agent.fake_run import EAGER_MS, FakeRun, proposal, simulated_problem

SCRIPT = (proposal("first", "latency_ms=0.5"), Stop(reason="enough"))


def _slow_reference(run: FakeRun, simulate: str) -> None:
    definition = run.problem.definition
    text = f"# simulate: {simulate}\n{definition.reference}"
    changed = definition.model_copy(update={"reference": text})
    run.problem = run.problem.model_copy(update={"definition": changed})


def test_the_faster_one_is_the_baseline(tmp_path: Path) -> None:
    baseline = FakeRun(tmp_path / "a", SCRIPT).process().baseline
    assert baseline is not None
    assert baseline.kind == "torch.compile"
    assert baseline.eager_ms == pytest.approx(EAGER_MS, rel=0.01)
    assert baseline.latency_ms == baseline.compiled_ms == pytest.approx(1, rel=0.01)
    run = FakeRun(tmp_path / "b", SCRIPT)
    _slow_reference(run, "latency_ms=0.7")
    baseline = run.process().baseline
    assert baseline is not None
    assert baseline.kind == "eager"
    assert baseline.eager_over_compiled == pytest.approx(0.7, rel=0.01)
    assert baseline.solution == digest_of(eager_solution(run.problem).canonical_json().encode())


def test_without_torch_compile_eager_is_the_baseline_and_it_is_said_why(tmp_path: Path) -> None:
    run = FakeRun(tmp_path, SCRIPT)
    run.machine.compiles_at_most = 0
    baseline = run.process().baseline
    assert baseline is not None
    assert baseline.kind == "eager"
    assert baseline.eager_over_compiled is None
    assert baseline.compiled_ms is None
    assert "COMPILE_ERROR in build: RuntimeError: no compiler" in baseline.note


def test_a_reference_that_fails_its_own_workloads_is_the_users_error(tmp_path: Path) -> None:
    run = FakeRun(tmp_path, SCRIPT)
    run.machine.compiles_at_most = 0
    _slow_reference(run, "status=INCORRECT_NUMERICAL, at=screen")
    with pytest.raises(ConfigError, match="kagent problems check rmsnorm"):
        run.process()


def test_both_solutions_return_their_outputs() -> None:
    problem = simulated_problem()
    for solution in (eager_solution(problem), compiled_solution(problem)):
        assert not solution.spec.destination_passing_style
        assert any(s.content == problem.definition.reference for s in solution.sources)
    assert "torch.compile" in compiled_solution(problem).entry_source
