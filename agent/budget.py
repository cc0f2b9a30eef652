"""How much of a run's time is left to search in."""

from __future__ import annotations

from agent.attempt import Budget, RunState
from agent.pipeline import CONFIRM_SESSIONS, measure_spec
from scheduler.job import Stage

LEAST_RESERVE = 0.05
_CONFIRMATIONS = 1.5
"""A late promotion costs one more confirmation, against the baseline; half of one is for noise."""


def budget_of(state: RunState, spent_s: float, hidden_workloads: int) -> Budget:
    """The reserve is the larger of 5 % and what confirming and judging were measured to take."""
    confirm_s = _confirm_s(state)
    public = len(state.problem.targets[state.target].public)
    judge_s = confirm_s * _calls(hidden_workloads) / _calls(public)
    measured_s = _CONFIRMATIONS * confirm_s + judge_s if confirm_s else 0.0
    reserve_s = max(LEAST_RESERVE * state.total_s, measured_s)
    return Budget(total_s=state.total_s, spent_s=spent_s, reserve_s=reserve_s)


def _confirm_s(state: RunState) -> float:
    """Of the last attempt that was measured; 0 before the first."""
    for attempt in reversed(state.attempts):
        if Stage.CONFIRM in attempt.stage_s:
            return attempt.stage_s[Stage.CONFIRM]
        if Stage.SCREEN in attempt.stage_s:
            return CONFIRM_SESSIONS * attempt.stage_s[Stage.SCREEN]
    return 0.0


def _calls(workloads: int) -> int:
    return measure_spec(Stage.CONFIRM, workloads).blocks * workloads
