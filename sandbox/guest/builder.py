"""The seam: from sources to an artifact, and from an artifact to a function that can be called."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

Function = Callable[..., Any]
"""Called as `(*inputs, *outputs)`; raises where the candidate fails."""


class BuildError(Exception):
    """The candidate does not compile: the compiler's first error, with file and line."""


class Builder(Protocol):
    def build(self, plan: dict[str, Any], sources: Path, artifact: Path) -> str:
        """Write one artifact file; the compiler's report is returned.

        Raises:
            BuildError: the candidate's fault.
        """

    def prepare(self, plan: dict[str, Any], artifact: Path) -> None:
        """Once per worker, before its sessions are forked; runs nothing of the candidate's."""

    def load(self, plan: dict[str, Any], artifact: Path) -> Function:
        """In a session; may run the candidate's code."""

    def bind(
        self, plan: dict[str, Any], function: Function, call: dict[str, Any], tensors: Sequence[Any]
    ) -> Callable[[], None]:
        """One prepared call. `tensors` are buffers of the call's inputs, then outputs."""
