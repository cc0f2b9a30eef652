from __future__ import annotations

import math

import pytest

from memory.statistics import LEAST_DEVIATION, PRIOR_DEVIATION, WINSOR, estimate
from tests.memory.samples import failed, trial


def test_one_trial_by_hand() -> None:
    found = estimate([trial(log_speedup=0.1, log_low=0.09, log_high=0.11)])
    assert found is not None
    precision = 1 / PRIOR_DEVIATION**2 + 1 / LEAST_DEVIATION**2
    assert found.mean == pytest.approx(0.1 / LEAST_DEVIATION**2 / precision)
    assert found.deviation == pytest.approx(math.sqrt(1 / precision))
    assert found.lower() == pytest.approx(found.mean - found.deviation)


def test_repeats_in_one_run_do_not_count_twice() -> None:
    once = estimate([trial("a")])
    assert once == estimate([trial("a"), trial("b")])
    twice = estimate([trial("a"), trial("b", run="run-2")])
    assert once is not None
    assert twice is not None
    assert twice.lower() > once.lower()


def test_a_wild_value_counts_as_a_doubling() -> None:
    wild = estimate([trial(log_speedup=2.0, log_low=1.99, log_high=2.01)])
    doubled = estimate([trial(log_speedup=WINSOR, log_low=WINSOR - 0.01, log_high=WINSOR + 0.01)])
    assert wild is not None
    assert doubled is not None
    assert wild.mean == pytest.approx(doubled.mean)


def test_failures_alone_measure_nothing() -> None:
    assert estimate([failed("a")]) is None
