"""How runs look in a terminal: functions from a run's state to lines and tables of rich."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from agent.attempt import Attempt, Budget, Phase, Proposal, RunState
from agent.diagnosis import (
    diagnose,
    first_error,
    interval_text,
    share_text,
    speedup_text,
    workload_class,
)
from agent.doctor import Check, Level
from agent.layout import DIM as _DIM
from agent.layout import fact
from memory.lesson import Hit, LessonStatus
from problems.evaluation import Status
from problems.problem import Problem, Target
from problems.speed_of_light import Bound, explain

_MAX_ATTEMPTS = 30
_GOOD, _BAD = "green", "red"


def heading(problem: Problem, target: Target, right: str) -> RenderableType:
    number = f"  problem_{problem.number:03d}" if problem.number is not None else ""
    left = Text.assemble((problem.name, "bold"), (number, _DIM))
    grid = Table.grid(expand=True)
    grid.add_column()
    grid.add_column(justify="right", style=_DIM)
    grid.add_row(left, f"target {target}, {right}")
    description = (problem.definition.description or "").strip().split("\n")[0]
    return Panel(Group(grid, Text(description, style="italic")), border_style=_DIM)


def analysis_lines(state: RunState) -> Group:
    """The class with its reason, and the bound with its derivation."""
    assert state.hardware is not None
    kind = workload_class(state.bounds)
    chosen = middle_bound(state.bounds)
    axes = next(
        w.axes for w in state.problem.targets[state.target].public if w.uuid == chosen.workload
    )
    sizes = ", ".join(f"{axis} {size}" for axis, size in axes.items())
    same = sum(bound.workload_class is kind for bound in state.bounds)
    counted = f"{kind} on {same} of {len(state.bounds)} workloads; at {sizes}: {chosen.reason}"
    derived = explain(chosen, state.hardware).partition(" It is ")[0]
    low, high = (f(bound_ms(b) for b in state.bounds) for f in (min, max))
    return Group(
        fact("machine", state.hardware.name),
        fact("class", counted),
        fact("bound", f"{time_text(low)} to {time_text(high)}; at {sizes}: {derived}"),
    )


def middle_bound(bounds: Sequence[Bound]) -> Bound:
    """Of the most frequent class the one in the middle, so that class and bound fit together."""
    kind = workload_class(bounds)
    own = sorted((b for b in bounds if b.workload_class is kind), key=bound_ms)
    return own[len(own) // 2]


def bound_ms(bound: Bound) -> float:
    return bound.datasheet_ms if bound.measured_ms is None else bound.measured_ms


def recall_lines(state: RunState) -> RenderableType:
    recall = state.recall
    if recall is None:
        return fact("lessons", "the memory is switched off")
    hits = (*recall.strategies, *recall.anti_patterns)
    if not hits:
        return fact("lessons", f"none: {recall.abstained or 'nothing is known here yet'}")
    return fact("lessons", Text("\n").join(hit_line(hit) for hit in hits))


def hit_line(hit: Hit) -> Text:
    lesson = hit.lesson
    weak = " (weak)" if lesson.status is LessonStatus.CANDIDATE else ""
    return Text.assemble(
        (lesson.id, "cyan"),
        f" {lesson.title}",
        (weak, "yellow"),
        (f": {hit.reason}", _DIM),
    )


def baseline_line(state: RunState) -> RenderableType:
    baseline = state.baseline
    assert baseline is not None
    text = f"{baseline.kind}: {time_text(baseline.latency_ms)}"
    if baseline.eager_ms is not None and baseline.compiled_ms is not None:
        text = (
            f"{baseline.kind}, the faster of eager {time_text(baseline.eager_ms)} and "
            f"torch.compile {time_text(baseline.compiled_ms)}"
        )
    return fact(
        "baseline", f"{text} (geometric means){'; ' if baseline.note else ''}{baseline.note}"
    )


def progress_line(state: RunState, budget: Budget) -> str:
    """One line of at most a terminal's width, from the left the most important first."""
    count = len(state.attempts)
    parts = [f"{count} attempt{'' if count == 1 else 's'}"]
    best = state.best
    if best is not None and best.against_baseline is not None:
        parts.append(f"best {speedup_text(best.against_baseline)}")
        if best.sol_fraction is not None:
            parts.append(f"{share_text(best.sol_fraction)} of SOL")
    elif best is not None:
        parts.append("a new best is being measured")
    elif state.first_valid_s is not None:
        measured = state.baseline is not None
        parts.append(
            "a valid candidate, none faster yet"
            if measured
            else "a valid candidate; the baseline is being compiled and measured"
        )
    left_s = max(0.0, budget.total_s - budget.spent_s)
    parts.append(f"{seconds_text(left_s)} left")
    if state.stop_reason is not None:
        judging = state.phase is Phase.SEARCHING and best is not None
        parts.append("judging on hidden workloads" if judging else "writing the report")
    elif state.pending is not None:
        pending = state.pending.proposal
        parts.append(f"trying {_changes(state, pending)}")
    return " · ".join(parts)


def attempt_line(state: RunState, attempt: Attempt) -> str:
    """For logs that are no terminal."""
    name = _changes(state, attempt)
    mark = "; the new best" if attempt.promoted else ""
    return f"attempt {attempt.index} ({name}): {diagnose(attempt, ())}{mark}"


def attempts_table(state: RunState) -> Table:
    """The best, and of the others the last ones if there are many."""
    table = Table(box=None, pad_edge=False, header_style=f"bold {_DIM}", expand=True)
    table.add_column("", width=1)
    table.add_column("#", justify="right")
    table.add_column("attempt", ratio=1, no_wrap=True, overflow="ellipsis")
    table.add_column("opponent", justify="right", no_wrap=True)
    table.add_column("speedup over it", justify="right", no_wrap=True)
    table.add_column("time", justify="right", no_wrap=True)
    table.add_column("SOL", justify="right", no_wrap=True)
    table.add_column("took", justify="right", no_wrap=True)
    by_digest = {attempt.solution: f"# {attempt.index}" for attempt in state.attempts}
    for attempt in shown_attempts(state):
        cells = [Text(cell) for cell in _cells(state, attempt, by_digest)]
        table.add_row(*cells, style=_row_style(state, attempt))
    return table


def shown_attempts(state: RunState) -> list[Attempt]:
    kept = set(range(len(state.attempts)))
    if len(kept) > _MAX_ATTEMPTS:
        important = {a.index for a in state.attempts if a.promoted}
        rest = [index for index in reversed(range(len(kept))) if index not in important]
        kept = important | set(rest[: max(0, _MAX_ATTEMPTS - len(important))])
    return [attempt for attempt in state.attempts if attempt.index in kept]


def _cells(state: RunState, attempt: Attempt, names: dict[str, str]) -> list[str]:
    comparison = attempt.confirm or attempt.screen
    mark = "★" if state.incumbent == attempt.index else "●" if attempt.promoted else ""
    name = _changes(state, attempt)
    if attempt.status is not Status.PASSED:
        return [mark, str(attempt.index), f"{name}: {attempt.status}: {first_error(attempt.log)}",
                "", "", "", "", seconds_text(attempt.seconds)]  # fmt: skip
    return [
        mark,
        str(attempt.index),
        name,
        names.get(attempt.opponent or "", "baseline") if comparison else "",
        speedup_text(comparison) if comparison else "",
        time_text(attempt.latency_ms) if attempt.latency_ms else "",
        share_text(attempt.sol_fraction) if attempt.sol_fraction is not None else "",
        seconds_text(attempt.seconds),
    ]


def _row_style(state: RunState, attempt: Attempt) -> str:
    if state.incumbent == attempt.index:
        return f"bold {_GOOD}"
    if attempt.status is not Status.PASSED:
        return _BAD
    return "" if attempt.promoted else _DIM


def verdict_lines(state: RunState) -> list[RenderableType]:
    lines: list[RenderableType] = []
    best = state.best
    if best is None or best.against_baseline is None:
        lines.append(fact("best", Text("no attempt beat the baseline", style=_BAD)))
    else:
        text = Text.assemble(
            (
                f"{speedup_text(best.against_baseline)} over {_baseline_kind(state)}",
                f"bold {_GOOD}",
            ),
            f", attempt {best.index} ({technique_text(best.technique)})",
        )
        lines.append(fact("best", text))
    lines.append(fact("judge", judge_text(state)))
    if state.stop_reason:
        lines.append(fact("stopped", state.stop_reason))
    return lines


def judge_text(state: RunState) -> Text:
    judge = state.judge
    if judge is None:
        why = "nothing to judge" if state.best is None else "the problem has no hidden workloads"
        return Text(why, style=_DIM)
    if judge.private_speedup is None:
        return Text(f"failed on hidden workloads: {judge.status}: {judge.log}", style=_BAD)
    low, high = judge.private_low or 0.0, judge.private_high or 0.0
    number = interval_text(judge.private_speedup, low, high)
    seed = f"seed {judge.seed[:8]}…, its hash journaled at the start"
    checked = f", {judge.checked_only} odd sizes correct" if judge.checked_only else ""
    text = f"{number} on {judge.workloads} hidden workloads{checked} ({seed})"
    if judge.passed:
        return Text.assemble(("passed", f"bold {_GOOD}"), f": {text}")
    return Text.assemble(("failed", f"bold {_BAD}"), f": {judge.log}: {text}")


def _baseline_kind(state: RunState) -> str:
    return state.baseline.kind if state.baseline else "the baseline"


def checks_table(checks: Sequence[Check]) -> Table:
    styles = {Level.OK: _GOOD, Level.WARNING: "yellow", Level.MISSING: f"bold {_BAD}"}
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for check in checks:
        text = Text(check.detail)
        if check.repair:
            text.append(f"\n→ {check.repair}", style="cyan")
        level = Text(check.level.value, style=styles[check.level])
        table.add_row(level, Text(check.name, style="bold"), text)
    return table


def technique_text(technique: str) -> str:
    """`row_program: width 8, unroll 4` from the tag `row_program:width=8,unroll=4`."""
    template, _, parameters = technique.partition(":")
    named = parameters.replace("=", " ").replace(",", ", ")
    return f"{template}: {named}" if named else template


def _changes(state: RunState, tried: Attempt | Proposal) -> str:
    """`row_program: unroll 4` where that is all that differs from its parent."""
    template = tried.technique.partition(":")[0]
    parent = next((a for a in state.attempts if a.solution == tried.parent), None)
    before = parent.parameters if parent else {}
    changed = {name: v for name, v in tried.parameters.items() if before.get(name) != v}
    if parent is None or not changed:
        return template
    return f"{template}: {', '.join(f'{name} {value}' for name, value in changed.items())}"


def time_text(milliseconds: float) -> str:
    if milliseconds < 0.1:
        return f"{milliseconds * 1e3:.3g} µs"
    return f"{milliseconds:.3g} ms" if milliseconds < 1000 else f"{milliseconds / 1e3:.3g} s"


def seconds_text(seconds: float) -> str:
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 120:
        return f"{seconds:.0f} s"
    minutes = seconds / 60
    return f"{minutes:.0f} min" if minutes < 120 else f"{minutes / 60:.1f} h"
