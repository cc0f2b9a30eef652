"""`kagent memory`: lessons as tables."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from agent.diagnosis import ratio_text
from agent.layout import fact
from memory.lesson import Conditions, Hit, Lesson, LessonStatus
from memory.local_memory import LocalMemory, MemoryStats
from problems.errors import ConfigError

_NOTHING = "nothing is known about that yet; lessons are written at the end of each run"


def find_lesson(memory: LocalMemory, wanted: str) -> Lesson:
    """By its id or the beginning of it.

    Raises:
        ConfigError: no lesson, or several, begin like that.
    """
    lessons = memory.lessons()
    found = [lesson for lesson in lessons if lesson.id.startswith(wanted)]
    if len(found) == 1:
        return found[0]
    known = ", ".join(lesson.id for lesson in (found or lessons)[:8]) or "none"
    what = "several lessons begin with" if found else "no lesson"
    raise ConfigError(f"{what} {wanted!r}; lessons: {known}")


def hits(found: Sequence[Hit]) -> RenderableType:
    if not found:
        return Text(_NOTHING)
    return Group(*(_hit(hit) for hit in found))


def _hit(hit: Hit) -> Group:
    lesson = hit.lesson
    title = Text.assemble((lesson.id, "cyan"), "  ", (lesson.title, "bold"), f"  {gain(lesson)}")
    return Group(
        title,
        fact("why", hit.reason),
        fact("where", conditions_text(lesson.conditions)),
        fact("do", lesson.action or "avoid it"),
    )


def list_table(lessons: Sequence[Lesson]) -> RenderableType:
    if not lessons:
        return Text(_NOTHING)
    table = Table(box=None, pad_edge=False, header_style="bold bright_black")
    for name in ("lesson", "kind", "status"):
        table.add_column(name, no_wrap=True)
    table.add_column("at least", justify="right", no_wrap=True)
    table.add_column("trials", justify="right")
    table.add_column("title")
    for lesson in lessons:
        cells = [lesson.id, lesson.kind.value, lesson.status.value, gain(lesson)]
        cells += [str(len(lesson.evidence)), lesson.title]
        style = "bright_black" if lesson.status is LessonStatus.REVOKED else ""
        table.add_row(*(Text(cell) for cell in cells), style=style)
    return table


def show(lesson: Lesson) -> Group:
    table = Table(box=None, pad_edge=False, header_style="bold bright_black")
    for name in ("run", "problem", "against", "outcome", "speedup", "integrity"):
        table.add_column(name, overflow="fold")
    for trial in lesson.evidence:
        speedup = "" if trial.log_speedup is None else ratio_text(math.exp(trial.log_speedup))
        cells = [trial.run, trial.problem, trial.compared_with[:12], trial.outcome.value, speedup]
        table.add_row(*(Text(cell) for cell in [*cells, trial.integrity.value]))
    return Group(
        Text.assemble((lesson.id, "cyan"), "  ", (lesson.title, "bold")),
        fact("kind", f"{lesson.kind}, {lesson.status}, at least {gain(lesson) or 'unknown'}"),
        fact("where", conditions_text(lesson.conditions)),
        fact("why", lesson.mechanism or "unknown"),
        fact("do", lesson.action or "avoid it"),
        Text(""),
        table,
    )


def stats_lines(stats: MemoryStats) -> Group:
    def counts(by: dict[str, int]) -> str:
        return ", ".join(f"{count} {name}" for name, count in sorted(by.items())) or "none"

    return Group(
        fact("lessons", f"{stats.lessons}: {counts(stats.by_kind)}"),
        fact("status", counts(stats.by_status)),
        fact("trials", f"{stats.evidence}: {counts(stats.by_outcome)}"),
        fact("from", f"{stats.problems} problems, {stats.runs} runs"),
    )


def gain(lesson: Lesson) -> str:
    """The cautious bound as a speedup; empty where nothing was measured."""
    return "" if lesson.lower_bound is None else ratio_text(math.exp(lesson.lower_bound))


def conditions_text(conditions: Conditions) -> str:
    groups = (
        conditions.families,
        conditions.workload_classes,
        conditions.dtypes,
        conditions.architectures,
        conditions.rungs,
    )
    return "; ".join(", ".join(group) for group in groups if group) or "everywhere"
