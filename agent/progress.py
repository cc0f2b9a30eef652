"""A run as it goes on, in a terminal or in a log."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.text import Text

from agent import console
from agent.attempt import RunState
from agent.budget import budget_of
from agent.config import RunConfig
from agent.journal import Journal
from agent.layout import fact

_PLAIN_LINES_EVERY_S = 15.0


class Progress:
    """Shows each new fact of a run once, and one live line; plain lines where there is no terminal.

    A context manager.
    """

    def __init__(self, terminal: Console, journal: Journal, config: RunConfig) -> None:
        self._terminal = terminal
        self._journal = journal
        self._config = config
        self._shown: set[str] = set()
        self._attempts = 0
        self._last_plain_s = 0.0
        self._last_change: tuple[object, ...] = ()
        self._live = Live(
            Text(""), console=terminal, refresh_per_second=4, transient=True, auto_refresh=False
        )

    def __enter__(self) -> Progress:
        state = self._journal.state
        cores = f"{len(os.sched_getaffinity(0))} cores, {console.seconds_text(state.total_s)}"
        self._terminal.print(console.heading(state.problem, state.target, cores))
        self._terminal.print(fact("run", state.run))
        self._attempts = len(state.attempts)
        if state.attempts:
            spent = console.seconds_text(state.spent_s)
            text = f"after {self._attempts} attempts and {spent}"
            self._terminal.print(fact("resumed", text))
        if self._terminal.is_terminal:
            self._live.start()
        self.watch(state)
        return self

    def __exit__(self, *_: object) -> None:
        if self._terminal.is_terminal:
            self._live.stop()

    def tick(self) -> None:
        """While a job runs: keeps the clock of the run and the line that shows it."""
        self._journal.heartbeat()
        self._line(self._journal.state)

    def watch(self, state: RunState) -> None:
        self._fact("analysis", bool(state.bounds), lambda: console.analysis_lines(state))
        self._fact("recall", state.context is not None, lambda: console.recall_lines(state))
        self._fact("baseline", state.baseline is not None, lambda: console.baseline_line(state))
        for notice in state.notices:
            self._fact(f"note {notice}", True, partial(fact, "note", notice))
        if not self._terminal.is_terminal:
            for attempt in state.attempts[self._attempts :]:
                self._terminal.print(f"  {console.attempt_line(state, attempt)}", markup=False)
            self._attempts = len(state.attempts)
        self._line(state)

    def _fact(self, name: str, known: bool, render: Callable[[], Any]) -> None:
        if known and name not in self._shown:
            self._shown.add(name)
            self._terminal.print(render())

    def _line(self, state: RunState) -> None:
        spent_s = self._journal.active_s
        line = console.progress_line(
            state, budget_of(state, spent_s, self._config.hidden_workloads)
        )
        if self._terminal.is_terminal:
            text = Text(f"  {line}", style="bold", no_wrap=True, overflow="ellipsis")
            self._live.update(text, refresh=True)
        elif self._last_change != (change := _change(state)) and (
            spent_s - self._last_plain_s >= _PLAIN_LINES_EVERY_S
        ):
            self._last_plain_s, self._last_change = spent_s, change
            self._terminal.print(f"  {line}", markup=False)


def _change(state: RunState) -> tuple[object, ...]:
    """What a log should show anew; the time that passes is not in it."""
    pending = state.pending.index if state.pending else None
    return len(state.attempts), pending, state.incumbent, state.stop_reason, state.phase
