"""From log speedups to a cautious one: shrunk towards nothing, less its own uncertainty."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from memory.lesson import Evidence

PRIOR_DEVIATION = 0.06
"""Most changes do little: before any evidence a log speedup is N(0, 0.06²) (facts/memory.md)."""
WINSOR = math.log(2)
"""A larger effect counts as this one, so that one wild number cannot rule a lesson."""
LEAST_DEVIATION = 0.03
"""Of one trial, however narrow its interval: other machines and shapes differ by about this."""
OTHER_FAMILY_WEIGHT = 0.5
OTHER_FAMILY_CAUTION = 2.0
"""Standard deviations that are taken off where the evidence is another family's."""
_NORMAL_95 = 1.96


@dataclass(frozen=True)
class Estimate:
    mean: float
    deviation: float

    def lower(self, caution: float = 1.0) -> float:
        return self.mean - caution * self.deviation

    def upper(self, caution: float = 1.0) -> float:
        return self.mean + caution * self.deviation


def estimate(trials: Sequence[Evidence], weight: float = 1.0) -> Estimate | None:
    """Posterior of the log speedup; None where no trial was measured.

    Trials of one problem in one run are one observation: they share inputs, machine and day.
    Where some were measured against the baseline, those against an incumbent do not count: the
    two are different questions.
    """
    groups: dict[tuple[str, str], list[Evidence]] = {}
    for trial in comparable(trials):
        groups.setdefault((trial.run, trial.problem), []).append(trial)
    if not groups:
        return None
    precision = 1 / PRIOR_DEVIATION**2
    weighted_sum = 0.0
    for group in groups.values():
        value = sum(map(_winsorised, group)) / len(group)
        deviation = sum(map(_deviation, group)) / len(group)
        precision += weight / deviation**2
        weighted_sum += weight * value / deviation**2
    return Estimate(mean=weighted_sum / precision, deviation=math.sqrt(1 / precision))


def comparable(trials: Sequence[Evidence]) -> tuple[Evidence, ...]:
    """The measured ones against the baseline, else those against incumbents."""
    measured = tuple(trial for trial in trials if trial.log_speedup is not None)
    return tuple(trial for trial in measured if trial.against_baseline) or measured


def _winsorised(trial: Evidence) -> float:
    return max(-WINSOR, min(WINSOR, trial.log_speedup or 0.0))


def _deviation(trial: Evidence) -> float:
    if trial.log_low is None or trial.log_high is None:
        return PRIOR_DEVIATION
    return max(LEAST_DEVIATION, (trial.log_high - trial.log_low) / (2 * _NORMAL_95))
