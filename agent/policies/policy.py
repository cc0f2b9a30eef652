"""The seam: from a run's state to the next thing to try."""

from __future__ import annotations

from typing import Protocol

from agent.attempt import Budget, Decision, RunState


class Policy(Protocol):
    name: str

    def propose(self, state: RunState, budget: Budget) -> Decision:
        """Depends on its arguments only, so that a resumed run goes on as the killed one."""
