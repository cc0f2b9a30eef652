"""Scores from times: speedups, SOL score and `fast_p`."""

from __future__ import annotations

import math
from collections.abc import Sequence

HEADROOM_LIMIT = 0.95
"""Share of the measured bound below which there is something left to gain."""
IMPLAUSIBLE_FRACTION = 1 / 0.97
"""A share of the guard's bound above this quarantines a result."""


def geometric_mean(values: Sequence[float]) -> float:
    """
    Raises:
        ValueError: no values, or one that is not positive.
    """
    if not values or min(values) <= 0:
        raise ValueError(f"geometric mean of {list(values)!r}")
    return math.exp(math.fsum(map(math.log, values)) / len(values))


def sol_score(latency_ms: float, baseline_ms: float, bound_ms: float) -> float:
    """SOL-ExecBench's 1 / (1 + (T - T_SOL) / (T_b - T_SOL)), clipped to 0 … 1.

    Half at the baseline's time, 1 at the bound. Where the baseline is already at the bound:
    1 at or below it, else 0.
    """
    if baseline_ms <= bound_ms:
        return 1.0 if latency_ms <= bound_ms else 0.0
    if latency_ms <= bound_ms:
        return 1.0
    return 1 / (1 + (latency_ms - bound_ms) / (baseline_ms - bound_ms))


def fast_p(speedups: Sequence[float | None], threshold: float) -> float:
    """KernelBench's share of problems that are correct (not None) and faster than `threshold`."""
    if not speedups:
        raise ValueError("fast_p of no problems")
    return sum(s is not None and s > threshold for s in speedups) / len(speedups)
