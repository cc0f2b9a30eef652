from __future__ import annotations

import json
from typing import Any

import pytest

from problems.evaluation import Correctness, Performance, Status
from problems.trace import Trace
from tests.problems.samples import CORRECT, FAST, evaluation, workload


def exported(
    status: Status,
    correctness: Correctness | None = None,
    performance: Performance | None = None,
) -> dict[str, Any]:
    found = evaluation(status, correctness, performance)
    trace = Trace(definition="shift", workload=workload(), solution="mine", evaluation=found)
    document: dict[str, Any] = json.loads(json.dumps(trace.as_sol_execbench(), allow_nan=False))
    assert (document["definition"], document["solution"]) == ("shift", "mine")
    assert document["workload"]["axes"] == {"rows": 3}
    result: dict[str, Any] = document["evaluation"]
    return result


def test_a_passed_trace_has_correctness_and_performance() -> None:
    found = exported(Status.PASSED, CORRECT, FAST)
    assert found["status"] == "PASSED"
    assert found["correctness"]["max_absolute_error"] == 0.5
    assert found["correctness"]["extra"] == {"matched_ratio": 1.0}
    assert found["performance"] == {
        "latency_ms": 1.0,
        "reference_latency_ms": 2.0,
        "speedup_factor": 2.0,
    }


def test_a_wrong_answer_keeps_its_errors_and_has_no_performance() -> None:
    found = exported(Status.INCORRECT_NUMERICAL, CORRECT)
    assert found["correctness"]["max_relative_error"] == 0.01
    assert found["performance"] is None


@pytest.mark.parametrize("status", [Status.TIMEOUT, Status.COMPILE_ERROR, Status.RUNTIME_ERROR])
def test_another_failure_has_neither(status: Status) -> None:
    found = exported(status, CORRECT)
    assert (found["status"], found["correctness"], found["performance"]) == (status, None, None)


def test_statuses_that_only_we_have_are_exported_as_reward_hacks() -> None:
    assert exported(Status.REJECTED)["status"] == "REWARD_HACK"
    quarantined = exported(Status.QUARANTINED, CORRECT, FAST)
    assert quarantined["status"] == "REWARD_HACK"
    assert quarantined["performance"] is None


def test_a_trace_survives_json() -> None:
    found = evaluation(Status.PASSED, CORRECT, FAST)
    trace = Trace(definition="shift", workload=workload(), solution="mine", evaluation=found)
    assert Trace.model_validate_json(trace.canonical_json()) == trace
