"""The seam: recall what applies here, record a measured trial, revoke a run's evidence."""

from __future__ import annotations

from typing import Protocol

from memory.lesson import Context, Evidence, Hit, Lesson, Recall
from memory.recall import MAX_STRATEGIES
from memory.search import Filters


class Memory(Protocol):
    def recall(self, context: Context, question: str, limit: int = MAX_STRATEGIES) -> Recall:
        """Lessons whose conditions hold in `context`, best lower bound first.

        At most `limit` strategies and two anti-patterns; similarity to `question` decides between
        near equals only.
        """

    def query(self, text: str, filters: Filters, limit: int = 10) -> tuple[Hit, ...]:
        """Lessons that a person's words ask for, most relevant first; empty if none is near."""

    def record(self, trial: Evidence) -> str | None:
        """Durable on return. The lesson's id; None where the gate refused the trial."""

    def lessons(self) -> tuple[Lesson, ...]:
        """All of them, revoked ones too."""

    def revoke(self, run: str) -> int:
        """Evidence rows of the run that stop counting; later ones of it are refused."""

    @property
    def notices(self) -> tuple[str, ...]:
        """What the user must be told: a fallback that is in use, and why."""

    def close(self) -> None: ...
