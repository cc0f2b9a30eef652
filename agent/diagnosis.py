"""What an attempt's numbers mean, in one line that a person or a policy can act on."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from agent.attempt import Attempt
from agent.report import floor_text
from problems.evaluation import Status
from problems.paired import Comparison
from problems.score import HEADROOM_LIMIT
from problems.speed_of_light import Bound, WorkloadClass

_ADVICE = {
    WorkloadClass.MEMORY_BOUND: "move fewer bytes, or move them in wider and more parallel loads",
    WorkloadClass.COMPUTE_BOUND: "keep the vector or matrix units busy: blocking, registers, SIMD",
    WorkloadClass.CHAIN: "fuse the operators, so that intermediate results stay in caches",
    WorkloadClass.SMALL_SHAPE: "fixed costs rule: fewer calls, fewer threads, less set-up",
}
_MAX_LINE = 160
_EXCEPTION = re.compile(r"[\w.]*(?:Error|Exception|Interrupt)\b: ")
_COMPILER_ERROR = re.compile(r"\S+:\d+(?::\d+)?: (?:fatal )?error: .*")


def diagnose(attempt: Attempt, bounds: Sequence[Bound]) -> str:
    if attempt.status is not Status.PASSED:
        return f"{attempt.status} in {attempt.stage}: {first_error(attempt.log)}"
    parts = []
    comparison = attempt.confirm or attempt.screen
    if comparison:
        kind = "confirmed" if attempt.confirm else "screened"
        parts.append(f"{kind} {speedup_text(comparison)} against its opponent")
    if attempt.sol_fraction is not None:
        parts.append(headroom(attempt.sol_fraction, workload_class(bounds)))
    return "; ".join(parts) or "correct, not measured"


def headroom(fraction: float, kind: WorkloadClass | None) -> str:
    share = f"{share_text(fraction)} of the speed of light"
    if fraction >= HEADROOM_LIMIT or kind is None:
        return share
    return f"{share}, {kind}: {_ADVICE[kind]}"


def workload_class(bounds: Sequence[Bound]) -> WorkloadClass | None:
    """The class of most workloads; of equals the first."""
    counts = Counter(bound.workload_class for bound in bounds)
    return counts.most_common(1)[0][0] if counts else None


def speedup_text(comparison: Comparison) -> str:
    """Rounded down, as everything that a report says."""
    if comparison.verdict is None:
        return ratio_text(comparison.ratio)
    return interval_text(comparison.ratio, comparison.low, comparison.high)


def interval_text(ratio: float, low: float, high: float) -> str:
    return f"{ratio_text(ratio)} ({floor_text(low)} to {floor_text(high)})"


def ratio_text(ratio: float) -> str:
    return f"{floor_text(ratio)}×"


def share_text(fraction: float, digits: int = 0) -> str:
    """In percent, rounded down; below 10 % with one more digit."""
    percent = 100 * fraction
    return f"{floor_text(percent, digits or int(percent < 10))}%"


def first_error(log: str) -> str:
    """The compiler's first error with its place; of a Python traceback the last line.

    Without control characters: it is hostile text on its way to a terminal.
    """
    log = "".join(c if c.isprintable() or c == "\n" else " " for c in log)
    error = _COMPILER_ERROR.search(log)
    if error:
        return error[0][:_MAX_LINE]
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    if not lines:
        return "no message"
    raised = [line for line in lines if _EXCEPTION.match(line)]
    if lines[0].startswith("Traceback") or raised:
        return (raised or lines)[-1][:_MAX_LINE]
    return lines[0][:_MAX_LINE]
