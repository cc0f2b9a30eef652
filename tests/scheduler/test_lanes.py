from __future__ import annotations

import fcntl
from itertools import product

import pytest

from problems.problem import Target
from scheduler.device_lock import lock_mode
from scheduler.job import Stage
from scheduler.lanes import LANES, Lane, lane_of, may_run_together


def test_every_stage_has_one_lane_and_every_lane_a_rule_for_every_target() -> None:
    assert set(LANES) == set(Lane)
    listed = [stage for rule in LANES.values() for stage in rule.stages]
    assert sorted(listed) == sorted(Stage)
    assert all(set(rule.excludes) == set(Target) for rule in LANES.values())


@pytest.mark.parametrize("target", Target)
def test_exclusion_is_symmetric(target: Target) -> None:
    for first, second in product(Lane, Lane):
        assert (second in LANES[first].excludes[target]) == (
            first in LANES[second].excludes[target]
        )


@pytest.mark.parametrize("target", Target)
def test_nothing_runs_beside_a_measurement_but_builds_for_a_gpu(target: Target) -> None:
    for stage in Stage:
        together = may_run_together(stage, Stage.CONFIRM, target)
        assert together == (target is Target.CUDA and lane_of(stage) is Lane.BUILD)


@pytest.mark.parametrize("target", Target)
def test_the_locks_exclude_exactly_what_the_table_does(target: Target) -> None:
    for first, second in product(Stage, Stage):
        modes = (lock_mode(first, target), lock_mode(second, target))
        locks_allow = None in modes or modes == (fcntl.LOCK_SH, fcntl.LOCK_SH)
        assert locks_allow == may_run_together(first, second, target), (first, second)
