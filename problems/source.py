"""Where problems come from: one implementation a format."""

from __future__ import annotations

from typing import Protocol

from problems.problem import Problem


class ProblemSource(Protocol):
    name: str

    def names(self) -> tuple[str, ...]:
        """In their owner's order."""

    def load(self, name: str) -> Problem:
        """By name or by the owner's number.

        Raises:
            ConfigError: there is no such problem, or its files are malformed.
        """
