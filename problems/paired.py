"""From paired sessions to a ratio, its interval and a verdict: the one place that does this."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from problems.evaluation import Session, Verdict
from problems.record import Record

FASTER_THRESHOLD = 0.005
"""The lower bound must be above this share to be called faster: guards a systematic bias."""
EQUIVALENT_WITHIN = 0.02
CONFIDENCE = 0.95


class Comparison(Record):
    """Time of the opponent over time of the solution: above 1 the solution is faster."""

    ratio: float
    low: float
    high: float
    sessions: int
    verdict: Verdict | None
    """None where one session only was run, which gives no interval."""


def compare(sessions: Sequence[Session]) -> Comparison:
    """Over all workloads with equal weight (the geometric mean), sessions being the unit.

    A session's value is the median of its blocks' log ratios, averaged over its workloads;
    the interval is Student's t over session values (facts: a t interval over sessions has 2.5 %
    false positives where one over blocks has 22 %).

    Raises:
        ValueError: no sessions, or their numbers differ between workloads.
    """
    by_workload: dict[str, list[float]] = {}
    for session in sessions:
        by_workload.setdefault(session.workload, []).append(statistics.median(session.log_ratios))
    counts = {len(values) for values in by_workload.values()}
    if len(counts) != 1:
        raise ValueError(f"workloads have unequal numbers of sessions: {sorted(counts)}")
    values = [statistics.fmean(column) for column in zip(*by_workload.values(), strict=True)]
    return _interval(values)


def compare_workload(sessions: Sequence[Session], workload: str) -> Comparison:
    return compare([session for session in sessions if session.workload == workload])


def _interval(values: Sequence[float]) -> Comparison:
    mean = statistics.fmean(values)
    ratio = math.exp(mean)
    if len(values) < 2:
        return Comparison(ratio=ratio, low=ratio, high=ratio, sessions=len(values), verdict=None)
    from scipy.special import stdtrit

    half_width = (
        stdtrit(len(values) - 1, (1 + CONFIDENCE) / 2)
        * statistics.stdev(values)
        / math.sqrt(len(values))
    )
    low, high = math.exp(mean - half_width), math.exp(mean + half_width)
    return Comparison(
        ratio=ratio, low=low, high=high, sessions=len(values), verdict=_verdict(low, high)
    )


def _verdict(low: float, high: float) -> Verdict:
    if low > 1 + FASTER_THRESHOLD:
        return Verdict.FASTER
    if high < 1 - FASTER_THRESHOLD:
        return Verdict.SLOWER
    if low > 1 - EQUIVALENT_WITHIN and high < 1 + EQUIVALENT_WITHIN:
        return Verdict.EQUIVALENT
    return Verdict.AMBIGUOUS
