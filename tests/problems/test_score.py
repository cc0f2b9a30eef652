from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from problems.score import fast_p, geometric_mean, sol_score

times = st.floats(1e-4, 1e4)


@given(st.lists(times, min_size=1, max_size=20), times)
def test_the_geometric_mean_lies_between_and_scales(values: list[float], factor: float) -> None:
    mean = geometric_mean(values)
    assert min(values) * (1 - 1e-9) <= mean <= max(values) * (1 + 1e-9)
    assert math.isclose(geometric_mean([v * factor for v in values]), mean * factor)


@pytest.mark.parametrize("values", [[], [1.0, 0.0], [-1.0]])
def test_a_geometric_mean_needs_positive_values(values: list[float]) -> None:
    with pytest.raises(ValueError, match="geometric mean"):
        geometric_mean(values)


def test_the_score_is_half_at_the_baseline_and_one_at_the_bound() -> None:
    assert sol_score(latency_ms=2.0, baseline_ms=2.0, bound_ms=1.0) == 0.5
    assert sol_score(latency_ms=1.0, baseline_ms=2.0, bound_ms=1.0) == 1.0
    assert sol_score(latency_ms=1.5, baseline_ms=2.0, bound_ms=1.0) == pytest.approx(2 / 3)


def test_below_the_bound_the_score_is_clipped() -> None:
    assert sol_score(latency_ms=0.01, baseline_ms=2.0, bound_ms=1.0) == 1.0


def test_a_baseline_at_the_bound_leaves_all_or_nothing() -> None:
    assert sol_score(latency_ms=1.0, baseline_ms=1.0, bound_ms=1.0) == 1.0
    assert sol_score(latency_ms=1.1, baseline_ms=1.0, bound_ms=1.0) == 0.0


@given(times, times, times, times)
def test_faster_never_scores_less(a: float, b: float, baseline: float, bound: float) -> None:
    slow, fast = max(a, b), min(a, b)
    better, worse = sol_score(fast, baseline, bound), sol_score(slow, baseline, bound)
    assert 0 <= worse <= better <= 1


def test_fast_p_counts_what_is_correct_and_faster() -> None:
    speedups = [None, 0.5, 1.0, 1.5, 3.0]
    assert [fast_p(speedups, p) for p in (0, 1, 2)] == [0.8, 0.4, 0.2]
    with pytest.raises(ValueError, match="no problems"):
        fast_p([], 1)
