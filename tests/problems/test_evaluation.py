from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from problems.evaluation import STATUS_ORDER, Performance, Session, Status, worst_status
from tests.problems.samples import CORRECT, FAST, evaluation


def test_every_status_has_a_place_in_the_order() -> None:
    assert sorted(STATUS_ORDER) == sorted(Status)


@given(st.lists(st.sampled_from(Status), min_size=1))
def test_the_worst_status_decides(statuses: list[Status]) -> None:
    worst = worst_status(tuple(statuses))
    assert worst in statuses
    assert all(STATUS_ORDER.index(status) <= STATUS_ORDER.index(worst) for status in statuses)
    assert (worst is Status.PASSED) == (set(statuses) == {Status.PASSED})


def test_nothing_evaluated_is_not_a_pass() -> None:
    with pytest.raises(ValueError, match="no trace"):
        worst_status(())


def test_passed_needs_correctness_and_may_lack_a_measurement() -> None:
    assert evaluation(Status.PASSED, CORRECT).performance is None
    with pytest.raises(ValidationError, match="PASSED needs correctness"):
        evaluation(Status.PASSED)


@pytest.mark.parametrize("status", sorted(set(Status) - {Status.PASSED, Status.QUARANTINED}))
def test_what_did_not_pass_has_no_performance(status: Status) -> None:
    with pytest.raises(ValidationError, match="cannot have performance"):
        evaluation(status, CORRECT, FAST)


@pytest.mark.parametrize("value", [0.0, -1.0, float("inf"), float("nan")])
def test_a_time_is_positive_and_finite(value: float) -> None:
    with pytest.raises(ValidationError, match="latency_ms"):
        Performance.model_validate(FAST.model_dump() | {"latency_ms": value})


@pytest.mark.parametrize(
    "change", [{"log_ratios": (float("nan"),)}, {"void_blocks": -1}, {"first": "baseline"}]
)
def test_a_session_holds_finite_ratios_only(change: dict[str, Any]) -> None:
    fields: dict[str, Any] = {
        "workload": "w",
        "first": "solution",
        "log_ratios": (0.1,),
        "solution_ms": 1,
        "opponent_ms": 1,
        "clock": "wall",
        "void_blocks": 0,
    }
    assert Session.model_validate(fields)
    with pytest.raises(ValidationError, match=next(iter(change))):
        Session.model_validate(fields | change)
