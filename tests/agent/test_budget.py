from __future__ import annotations

from pathlib import Path

from agent.attempt import RunState, Stop
from agent.budget import LEAST_RESERVE, budget_of
from scheduler.job import Stage
from tests.agent.fake_machine import COST_S
from tests.agent.fake_run import FakeRun, proposal


def _state(folder: Path, *, hold: bool = False) -> RunState:
    script = (proposal("first", "latency_ms=0.5", hold=hold), Stop(reason="enough"))
    return FakeRun(folder, script, total_s=200).process()


def test_nothing_measured_reserves_a_share(tmp_path: Path) -> None:
    state = _state(tmp_path).model_copy(update={"attempts": ()})
    budget = budget_of(state, 50, 4)
    assert budget.reserve_s == LEAST_RESERVE * 200
    assert budget.left_s == 200 - 50 - budget.reserve_s


def test_the_reserve_grows_with_what_confirming_took(tmp_path: Path) -> None:
    state = _state(tmp_path)
    assert state.baseline is not None
    confirm_s = COST_S[Stage.CONFIRM]
    judge_s = confirm_s * 12 / 24
    expected = 1.5 * confirm_s + judge_s
    assert budget_of(state, 0, 4).reserve_s == expected
    assert budget_of(state, 0, 8).reserve_s == expected + judge_s


def test_a_screen_stands_for_the_confirmation_that_was_not_made(tmp_path: Path) -> None:
    state = _state(tmp_path, hold=True)
    assert budget_of(state, 0, 4).reserve_s > 1.5 * 6 * COST_S[Stage.SCREEN]


def test_no_time_is_left_after_the_end(tmp_path: Path) -> None:
    assert budget_of(_state(tmp_path), 1000, 4).left_s == 0
