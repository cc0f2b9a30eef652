"""`kagent runs`: what was run, and how it went."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from agent import console
from agent.attempt import RunState
from agent.cli_optimize import as_json, best_path, status_of
from agent.diagnosis import share_text, speedup_text
from agent.home import Home
from agent.journal import read_state
from agent.layout import fact, path_fact
from problems.errors import ConfigError, InfrastructureError


def states(home: Home) -> tuple[tuple[RunState, ...], tuple[str, ...]]:
    """Of all runs, newest last; and one line for each that cannot be read."""
    found, broken = [], []
    for name in home.run_names():
        try:
            found.append(read_state(home.runs / name))
        except (ConfigError, InfrastructureError) as error:
            broken.append(str(error))
    return tuple(found), tuple(broken)


def list_json(found: Sequence[RunState]) -> list[dict[str, object]]:
    return [as_json(state) | {"started_unix_s": state.started_unix_s} for state in found]


def list_table(found: Sequence[RunState]) -> RenderableType:
    if not found:
        return Text("no runs yet; start one with: kagent optimize rmsnorm --minutes 2")
    table = Table(box=None, pad_edge=False, header_style="bold bright_black")
    for name in ("run", "started", "status"):
        table.add_column(name, no_wrap=True)
    for name in ("attempts", "speedup", "SOL", "time"):
        table.add_column(name, justify="right", no_wrap=True)
    for state in found:
        best = state.best
        ratio = best.against_baseline if best else None
        fraction = best.sol_fraction if best else None
        started = time.strftime("%Y-%m-%d %H:%M", time.localtime(state.started_unix_s))
        cells = [state.run, started, status_of(state).replace("_", " "), str(len(state.attempts))]
        cells += [speedup_text(ratio) if ratio else "", share_text(fraction) if fraction else ""]
        table.add_row(*(Text(cell) for cell in [*cells, console.seconds_text(state.spent_s)]))
    return table


def show(state: RunState) -> Group:
    parts: list[RenderableType] = [
        console.heading(state.problem, state.target, status_of(state).replace("_", " ")),
        fact("run", state.run),
    ]
    if state.bounds:
        parts.append(console.analysis_lines(state))
    if state.context is not None:
        parts.append(console.recall_lines(state))
    if state.baseline is not None:
        parts.append(console.baseline_line(state))
    parts += [fact("note", notice) for notice in state.notices]
    return Group(*parts, Text(""), result(state))


def result(state: RunState, titles: Mapping[str, str] = MappingProxyType({})) -> Group:
    """The end of a run: its attempts, the verdict, and what is left of it."""
    parts: list[RenderableType] = []
    if state.attempts:
        parts += [console.attempts_table(state), Text("")]
        hidden = len(state.attempts) - len(console.shown_attempts(state))
        if hidden:
            parts.insert(
                1, Text(f"  and {hidden} earlier ones: see the report", style="bright_black")
            )
    parts += console.verdict_lines(state)
    if state.lessons_written is not None:
        lines = [f"{i} {titles.get(i, '')}".strip() for i in state.lessons_written]
        count = f"{len(lines)} written or confirmed"
        parts.append(fact("lessons", "\n".join([count, *lines]) if lines else "none"))
    path = best_path(state)
    if path is not None:
        parts.append(path_fact("solution", str(path)))
    if state.report is not None:
        parts.append(path_fact("report", state.report))
    return Group(*parts)
