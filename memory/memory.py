"""The seam: recall what applies here, record a measured trial, revoke a run's evidence."""

from __future__ import annotations

from typing import Protocol

from memory.lesson import Context, Evidence, Lesson, Recall


class Memory(Protocol):
    def recall(self, context: Context, question: str, limit: int) -> Recall:
        """Lessons whose conditions hold in `context`, best lower bound first."""

    def record(self, trial: Evidence) -> str | None:
        """Durable on return. The lesson's id; None where the gate refused the trial."""

    def lessons(self) -> tuple[Lesson, ...]: ...

    def revoke(self, run: str) -> int:
        """Evidence rows of the run that stop counting."""

    def close(self) -> None: ...
