"""A run as one self-contained HTML file: made for looking, with how every number was made."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from agent.attempt import Attempt, RunState
from agent.report_charts import roofline_svg, score_svg
from problems.evaluation import Environment, Status
from problems.hardware import Hardware
from problems.paired import Comparison
from problems.solution import Solution

_TEMPLATES = Path(__file__).with_name("templates")


def write_report(
    state: RunState,
    hardware: Hardware,
    environment: Environment,
    best: Solution | None,
    destination: Path,
) -> Path:
    """Render and write; the path is returned.

    Raises:
        OSError: the destination cannot be written.
    """
    destination.write_text(render_report(state, hardware, environment, best), encoding="utf-8")
    return destination


def render_report(
    state: RunState, hardware: Hardware, environment: Environment, best: Solution | None
) -> str:
    from jinja2 import Environment as Jinja
    from jinja2 import FileSystemLoader, StrictUndefined

    jinja = Jinja(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    incumbent = state.attempts[state.incumbent] if state.incumbent is not None else None
    return jinja.get_template("report.html.j2").render(
        state=state,
        hardware=hardware,
        environment=environment,
        best=best,
        incumbent=incumbent,
        headline=_headline(state, incumbent),
        facts=_facts(state, incumbent),
        workloads=_workload_rows(state, incumbent),
        attempts=[_attempt_row(state, attempt) for attempt in state.attempts],
        score_svg=score_svg(state),
        roofline_svg=roofline_svg(state, hardware),
        floor=floor_text,
    )


def ratio_text(comparison: Comparison | None) -> str:
    """`1.31× [1.28, 1.34]`; without an interval where there was one session only."""
    if comparison is None:
        return "–"
    text = f"{floor_text(comparison.ratio)}×"
    if comparison.sessions > 1:
        text += f" [{floor_text(comparison.low)}, {floor_text(comparison.high)}]"
    return text


def floor_text(value: float, digits: int = 2) -> str:
    """Rounded down: a report never rounds up."""
    scale = 10**digits
    return f"{math.floor(value * scale) / scale:.{digits}f}"


def time_text(milliseconds: float) -> str:
    return f"{milliseconds * 1e3:.1f} µs" if milliseconds < 1 else f"{milliseconds:.3f} ms"


def _headline(state: RunState, incumbent: Attempt | None) -> str:
    if incumbent is None or incumbent.against_baseline is None or state.baseline is None:
        return "No kernel beat the baseline"
    return f"{floor_text(incumbent.against_baseline.ratio)}× the speed of {state.baseline.kind}"


def _facts(state: RunState, incumbent: Attempt | None) -> list[tuple[str, str, str]]:
    """Label, value, and the small print under it."""
    facts = []
    if incumbent is not None and incumbent.against_baseline is not None:
        found = incumbent.against_baseline
        facts.append(
            (
                "Speedup, 95 % interval",
                f"{floor_text(found.low)} – {floor_text(found.high)}",
                f"{found.sessions} paired sessions against the baseline",
            )
        )
        if incumbent.sol_fraction is not None:
            facts.append(
                (
                    "Share of the speed of light",
                    f"{floor_text(100 * incumbent.sol_fraction, 0)} %",
                    "at this machine's measured ceilings",
                )
            )
    if state.judge is not None:
        judge = state.judge
        private = (
            f"{floor_text(judge.private_speedup)}×" if judge.private_speedup else "not measured"
        )
        facts.append(
            (
                "On hidden workloads",
                private if judge.passed else judge.status.value,
                f"{judge.workloads} scored, {judge.checked_only} checked for correctness only",
            )
        )
    passed = sum(attempt.status is Status.PASSED for attempt in state.attempts)
    facts.append(
        (
            "Attempts",
            str(len(state.attempts)),
            f"{passed} correct, in {state.spent_s:.0f} s of {state.total_s:.0f} s",
        )
    )
    return facts


def _workload_rows(state: RunState, incumbent: Attempt | None) -> list[dict[str, Any]]:
    public = {w.uuid: w for w in state.problem.targets[state.target].public}
    rows = []
    for bound in state.bounds:
        latency = incumbent.workload_latencies_ms.get(bound.workload) if incumbent else None
        limit = bound.measured_ms or bound.datasheet_ms
        axes = public[bound.workload].axes if bound.workload in public else {}
        rows.append(
            {
                "axes": ", ".join(f"{name} {size}" for name, size in axes.items()),
                "class": bound.workload_class.value,
                "reason": bound.reason,
                "megabytes": bound.compulsory_bytes / 1e6,
                "intensity": bound.arithmetic_intensity,
                "bound": time_text(limit),
                "latency": time_text(latency) if latency else "–",
                "share": limit / latency if latency else None,
            }
        )
    return rows


def _attempt_row(state: RunState, attempt: Attempt) -> dict[str, Any]:
    failed = attempt.status is not Status.PASSED
    return {
        "index": attempt.index,
        "at": f"{attempt.at_s:.0f} s",
        "language": attempt.language.value,
        "hypothesis": attempt.hypothesis,
        "stage": str(attempt.stage),
        "status": attempt.status.value,
        "failed": failed,
        "against": _opponent_name(state, attempt),
        "screen": ratio_text(attempt.screen),
        "confirm": ratio_text(attempt.confirm),
        "verdict": attempt.confirm.verdict.value
        if attempt.confirm and attempt.confirm.verdict
        else "",
        "share": attempt.sol_fraction,
        "promoted": attempt.promoted,
        "best": attempt.index == state.incumbent,
        "log": attempt.log,
    }


def _opponent_name(state: RunState, attempt: Attempt) -> str:
    if attempt.opponent is None:
        return "–"
    if state.baseline is not None and attempt.opponent == state.baseline.solution:
        return "baseline"
    for other in state.attempts:
        if other.solution == attempt.opponent:
            return f"#{other.index}"
    return attempt.opponent[:8]
