"""A policy that replays given decisions, for tests and demonstrations."""

from __future__ import annotations

from collections.abc import Sequence

from agent.attempt import Budget, Confirm, Decision, RunState, Stop
from problems.evaluation import Status


class ScriptedPolicy:
    name = "scripted"

    def __init__(self, decisions: Sequence[Decision]) -> None:
        self._decisions = tuple(decisions)

    def propose(self, state: RunState, budget: Budget) -> Decision:
        """The first decision that the state does not show as carried out; at the end, `Stop`."""
        proposals = 0
        for decision in self._decisions:
            if isinstance(decision, Stop):
                return decision
            if isinstance(decision, Confirm):
                if _is_open(decision, state):
                    return decision
            elif proposals >= len(state.attempts):
                return decision
            else:
                proposals += 1
        return Stop(reason="the script is at its end")


def _is_open(decision: Confirm, state: RunState) -> bool:
    """An attempt that failed is not confirmed again and again."""
    if decision.attempt >= len(state.attempts):
        return True
    attempt = state.attempts[decision.attempt]
    return attempt.status is Status.PASSED and attempt.confirm is None
