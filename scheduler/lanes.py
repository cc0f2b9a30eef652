"""The one table of what may run beside what."""

from __future__ import annotations

from enum import StrEnum

from problems.problem import Target
from problems.record import Record
from scheduler.job import Stage


class Lane(StrEnum):
    BUILD = "build"
    CHECK = "check"
    MEASURE = "measure"
    PROFILE = "profile"


class LaneRule(Record):
    stages: tuple[Stage, ...]
    excludes: dict[Target, tuple[Lane, ...]]
    """Lanes that may not have a job on the same device while this lane has one."""


LANES = {
    Lane.BUILD: LaneRule(
        stages=(Stage.BUILD, Stage.ANALYZE),
        excludes={Target.CUDA: (), Target.CPU: (Lane.MEASURE, Lane.PROFILE)},
    ),
    Lane.CHECK: LaneRule(
        stages=(Stage.CHECK,),
        excludes={
            Target.CUDA: (Lane.MEASURE, Lane.PROFILE),
            Target.CPU: (Lane.MEASURE, Lane.PROFILE),
        },
    ),
    Lane.MEASURE: LaneRule(
        stages=(Stage.CEILINGS, Stage.SCREEN, Stage.CONFIRM, Stage.JUDGE),
        excludes={
            Target.CUDA: (Lane.CHECK, Lane.MEASURE, Lane.PROFILE),
            Target.CPU: (Lane.BUILD, Lane.CHECK, Lane.MEASURE, Lane.PROFILE),
        },
    ),
    Lane.PROFILE: LaneRule(
        stages=(Stage.PROFILE,),
        excludes={
            Target.CUDA: (Lane.CHECK, Lane.MEASURE, Lane.PROFILE),
            Target.CPU: (Lane.BUILD, Lane.CHECK, Lane.MEASURE, Lane.PROFILE),
        },
    ),
}
"""On the CPU target the device is the machine, so a build disturbs a measurement too."""


def lane_of(stage: Stage) -> Lane:
    return next(lane for lane, rule in LANES.items() if stage in rule.stages)


def may_run_together(first: Stage, second: Stage, target: Target) -> bool:
    a, b = lane_of(first), lane_of(second)
    return b not in LANES[a].excludes[target] and a not in LANES[b].excludes[target]
