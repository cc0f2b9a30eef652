"""What is asked of the scheduler, how far it is, and what came back: frozen, by digest."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from problems.evaluation import Session, Status
from problems.hardware import Peaks
from problems.problem import Target
from problems.record import Digest, NonEmpty, Record
from problems.speed_of_light import Analysis
from problems.trace import Trace
from sandbox.sandbox import Limits


class Stage(StrEnum):
    """A step of an evaluation that needs a sandbox. Review needs none: it is the controller's."""

    ANALYZE = "analyze"
    """Trace the reference on meta tensors."""
    CEILINGS = "ceilings"
    """Measure the machine's copy bandwidth and arithmetic peak."""
    BUILD = "build"
    CHECK = "check"
    """Correctness on every workload, no timing."""
    SCREEN = "screen"
    """One paired session."""
    CONFIRM = "confirm"
    """Enough paired sessions for an interval."""
    JUDGE = "judge"
    """Confirm on hidden workloads."""
    PROFILE = "profile"


class MeasureSpec(Record):
    sessions: Annotated[int, Field(ge=1)]
    blocks: Annotated[int, Field(ge=1)]
    """ABBA blocks per workload and session."""
    recheck_share: Annotated[float, Field(ge=0.2, le=1)] = 0.25
    """Share of the timed outputs that is verified; first and last always are."""


class JobSpec(Record):
    """Files travel as blobs named by digest, never as host paths."""

    run: NonEmpty
    key: NonEmpty
    """Unique within the run; the same key with another spec is a conflict."""
    stage: Stage
    target: Target
    problem: Digest
    """Blob: a `Problem` as JSON."""
    workloads: Digest
    """Blob: a JSON list of `Workload`."""
    solution: Digest | None = None
    """Blob: a `Solution` as JSON."""
    build: Digest | None = None
    """Blob: the artifact that the build stage returned for `solution`."""
    opponent: Digest | None = None
    opponent_build: Digest | None = None
    limits: Limits = Limits()
    measure: MeasureSpec | None = None
    image: Digest | None = None
    bounds_ms: tuple[float, ...] = ()
    """Guard bound (`Bound.datasheet_ms`) of each workload, for the plausibility check."""


class JobState(StrEnum):
    QUEUED = "queued"
    CLAIMED = "claimed"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    """A result is there; the candidate in it may have failed."""
    CANCELLED = "cancelled"
    INFRA_FAILED = "infra_failed"
    """The machine failed, three times."""

    @property
    def final(self) -> bool:
        return self in (JobState.SUCCEEDED, JobState.CANCELLED, JobState.INFRA_FAILED)


class JobRecord(Record):
    id: str
    spec: Digest
    run: str
    key: str
    stage: Stage
    state: JobState
    fence: int
    """Grows with each claim; a result with an older one is rejected."""
    attempt: int
    """Claims so far."""
    queued_s: float
    """Seconds between submission and the latest claim, or until now."""
    device_s: float
    """Seconds that jobs of this record held their lane."""
    result: Digest | None
    """Blob: a `StageResult` as JSON."""
    error: str | None


class JobEvent(Record):
    seq: int
    job: str
    state: JobState
    detail: str
    unix_s: float


class StageResult(Record):
    """What one job returned. Which optional fields are there depends on the stage."""

    stage: Stage
    status: Status
    log: str = ""
    seconds: float = 0.0
    """Inside the lane."""
    artifact: Digest | None = None
    """Build: the blob that later stages load."""
    traces: tuple[Trace, ...] = ()
    """Check, screen, confirm, judge: one per workload, always."""
    sessions: tuple[Session, ...] = ()
    analyses: tuple[Analysis, ...] = ()
    ceilings: Peaks | None = None
    launch_overhead_us: float | None = None
    cache_bytes: int | None = None
    hardware_name: str | None = None
    cores: int | None = None
    """That the ceilings were measured with."""
