from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from problems.admission import admission_report, admission_target
from problems.catalog import load_problem
from problems.errors import ConfigError, InfrastructureError
from problems.problem import Problem, Target
from sandbox.blob_store import BlobStore
from sandbox.bubblewrap_sandbox import BubblewrapSandbox
from scheduler.admit import admit


def small_problem() -> Problem:
    return load_problem("rmsnorm_small")


def guest_report(problem: Problem, passed: bool = True) -> dict[str, Any]:
    check = {"name": "repeats itself", "passed": passed, "detail": "found"}
    return {
        "workloads": [
            {"workload": workload.uuid, "checks": [check]}
            for workload in problem.targets[Target.CPU].public
        ]
    }


def test_all_checks_passed() -> None:
    problem = small_problem()
    report = admission_report(problem, Target.CPU, guest_report(problem))
    assert report.passed
    assert report.failures == ()
    assert [check.name for check in report.checks] == ["100 hidden draws"]


def test_one_failed_check_fails_the_problem() -> None:
    problem = small_problem()
    found = guest_report(problem)
    found["workloads"][1] = guest_report(problem, passed=False)["workloads"][1]
    report = admission_report(problem, Target.CPU, found)
    assert not report.passed
    uuid = problem.targets[Target.CPU].public[1].uuid
    assert report.failures == (f"workload {uuid}: repeats itself: found",)


def test_a_reference_that_failed() -> None:
    report = admission_report(small_problem(), Target.CPU, {"error": "reference line 4: bad"})
    assert not report.passed
    assert report.failures == ("runs: reference line 4: bad",)


def test_hidden_draws_without_room() -> None:
    problem = small_problem()
    tight = problem.targets[Target.CPU].model_copy(update={"max_bytes": 1000})
    narrow = problem.model_copy(update={"targets": {Target.CPU: tight}})
    report = admission_report(narrow, Target.CPU, guest_report(problem))
    assert not report.passed
    assert "1000 bytes" in report.failures[0]


def test_no_rules_are_said() -> None:
    problem = small_problem()
    free = problem.targets[Target.CPU].model_copy(update={"rules": {}})
    plain = problem.model_copy(update={"targets": {Target.CPU: free}})
    report = admission_report(plain, Target.CPU, guest_report(problem))
    assert report.passed
    assert report.checks[0].detail == "no rules: nothing hidden is drawn"


@pytest.mark.parametrize(
    "damaged", [{}, {"workloads": []}, {"workloads": [{"workload": "w"}]}, {"workloads": "no"}]
)
def test_a_report_that_is_no_report(damaged: dict[str, Any]) -> None:
    with pytest.raises(InfrastructureError, match="admission"):
        admission_report(small_problem(), Target.CPU, damaged)


def test_a_problem_for_gpus_only() -> None:
    problem = small_problem()
    cuda = {Target.CUDA: problem.targets[Target.CUDA]}
    with pytest.raises(ConfigError, match="needs a GPU"):
        admission_target(problem.model_copy(update={"targets": cuda}))


@pytest.mark.sandbox
@pytest.mark.slow
def test_in_the_sandbox(tmp_path: Path) -> None:
    blobs = BlobStore(tmp_path / "blobs")
    fair = small_problem()
    source = fair.definition.reference.replace("* torch.rsqrt", "* 0 * torch.rsqrt")
    unfair = fair.model_copy(
        update={"definition": fair.definition.model_copy(update={"reference": source})}
    )
    with BubblewrapSandbox(blobs, tmp_path / "sandbox") as sandbox:
        assert admit(fair, sandbox, blobs).passed
        report = admit(unfair, sandbox, blobs)
    assert not report.passed
    assert any("refuses output: zeros" in line for line in report.failures)
    assert any("reacts to weight" in line for line in report.failures)
