from __future__ import annotations

import math
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from problems.evaluation import Clock, Session, Verdict
from problems.paired import Comparison, compare, compare_workload


def session(log_ratios: list[float], workload: str = "w") -> Session:
    return Session(
        workload=workload,
        first="solution",
        log_ratios=tuple(log_ratios),
        solution_ms=1.0,
        opponent_ms=1.0,
        clock=Clock.WALL,
        void_blocks=0,
    )


def measured(
    random: Random, true_ratio: float = 1.0, sessions: int = 6, burst_share: float = 0.0
) -> Comparison:
    """Two workloads; noise as measured: sessions vary by 0.5 %, their blocks by 1 %."""
    made = []
    for _ in range(sessions):
        for workload in ("small", "large"):
            centre = math.log(true_ratio) + random.gauss(0, 0.005)
            blocks = [centre + random.gauss(0, 0.01) for _ in range(5)]
            if random.random() < burst_share:
                blocks[random.randrange(5)] -= 0.08
            made.append(session(blocks, workload))
    return compare(made)


def test_equal_programs_are_rarely_told_apart() -> None:
    """A/A: at 95 % the interval may miss 1 in one trial of twenty; a verdict is rarer still."""
    random = Random(20261201)
    trials = [measured(random) for _ in range(2000)]
    missed = sum(not trial.low <= 1 <= trial.high for trial in trials) / len(trials)
    decided = sum(t.verdict in (Verdict.FASTER, Verdict.SLOWER) for t in trials) / len(trials)
    assert 0.035 < missed < 0.065
    assert decided < 0.025


def test_bursts_in_single_blocks_make_no_false_verdicts() -> None:
    random = Random(7)
    trials = [measured(random, burst_share=0.2) for _ in range(1000)]
    decided = sum(t.verdict in (Verdict.FASTER, Verdict.SLOWER) for t in trials) / len(trials)
    assert decided < 0.03


def test_a_real_difference_is_found_with_its_sign() -> None:
    random = Random(11)
    faster = [measured(random, true_ratio=1.03).verdict for _ in range(300)]
    slower = [measured(random, true_ratio=1 / 1.03).verdict for _ in range(300)]
    assert faster.count(Verdict.FASTER) > 285
    assert slower.count(Verdict.SLOWER) > 285
    assert Verdict.SLOWER not in faster
    assert Verdict.FASTER not in slower


@pytest.mark.parametrize(
    ("values", "verdict"),
    [
        ([0.10, 0.11, 0.10, 0.11], Verdict.FASTER),
        ([-0.10, -0.11, -0.10, -0.11], Verdict.SLOWER),
        ([0.001, -0.001, 0.001, -0.001], Verdict.EQUIVALENT),
        ([0.004, 0.0041, 0.004, 0.0041], Verdict.EQUIVALENT),
        ([0.3, -0.3, 0.3, -0.3], Verdict.AMBIGUOUS),
    ],
)
def test_verdicts(values: list[float], verdict: Verdict) -> None:
    assert compare([session([value]) for value in values]).verdict is verdict


def test_the_interval_is_students_over_sessions() -> None:
    found = compare([session([0.1]), session([0.2]), session([0.3])])
    assert found.sessions == 3
    assert math.log(found.ratio) == pytest.approx(0.2)
    assert math.log(found.high) == pytest.approx(0.2 + 4.302653 * 0.1 / math.sqrt(3), rel=1e-6)
    assert math.log(found.low) == pytest.approx(0.2 - 4.302653 * 0.1 / math.sqrt(3), rel=1e-6)


def test_one_session_gives_a_ratio_without_interval_or_verdict() -> None:
    found = compare([session([0.1, 0.2, 0.9])])
    assert found.ratio == found.low == found.high == pytest.approx(math.exp(0.2))
    assert found.verdict is None


def test_workloads_weigh_the_same() -> None:
    sessions = [session([0.2], "a"), session([0.0], "b"), session([0.2], "a"), session([0.0], "b")]
    assert compare(sessions).ratio == pytest.approx(math.exp(0.1))
    assert compare_workload(sessions, "a").ratio == pytest.approx(math.exp(0.2))


def test_uneven_or_absent_sessions_are_refused() -> None:
    with pytest.raises(ValueError, match="unequal numbers of sessions"):
        compare([session([0.1], "a"), session([0.1], "a"), session([0.1], "b")])
    with pytest.raises(ValueError, match="sessions"):
        compare([])


@given(st.lists(st.floats(-1, 1), min_size=2, max_size=8))
def test_exchanging_the_two_inverts_the_answer(values: list[float]) -> None:
    there = compare([session([value]) for value in values])
    back = compare([session([-value]) for value in values])
    assert there.ratio * back.ratio == pytest.approx(1)
    assert there.low * back.high == pytest.approx(1)
    assert there.low <= there.ratio <= there.high
