"""The outcome of one solution on one workload, and what a paired measurement says."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field, model_validator

from problems.record import Record

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class Status(StrEnum):
    """SOL-ExecBench's, and three of ours; ordered from best to worst in `STATUS_ORDER`."""

    PASSED = "PASSED"
    INVALID_REFERENCE = "INVALID_REFERENCE"
    INCORRECT_SHAPE = "INCORRECT_SHAPE"
    INCORRECT_NUMERICAL = "INCORRECT_NUMERICAL"
    INCORRECT_DTYPE = "INCORRECT_DTYPE"
    RUNTIME_ERROR = "RUNTIME_ERROR"
    COMPILE_ERROR = "COMPILE_ERROR"
    TIMEOUT = "TIMEOUT"
    REWARD_HACK = "REWARD_HACK"
    REJECTED = "REJECTED"
    """The controller's review refused it before it ran."""
    QUARANTINED = "QUARANTINED"
    """Faster than the speed of light allows: never scored, never remembered, always shown."""


STATUS_ORDER = (
    Status.PASSED,
    Status.INCORRECT_NUMERICAL,
    Status.INCORRECT_DTYPE,
    Status.INCORRECT_SHAPE,
    Status.RUNTIME_ERROR,
    Status.TIMEOUT,
    Status.COMPILE_ERROR,
    Status.INVALID_REFERENCE,
    Status.REJECTED,
    Status.QUARANTINED,
    Status.REWARD_HACK,
)


def worst_status(statuses: tuple[Status, ...]) -> Status:
    """The one that decides for a set of traces.

    Raises:
        ValueError: no status was given; nothing evaluated is not a pass.
    """
    if not statuses:
        raise ValueError("no trace, so no status")
    return max(statuses, key=STATUS_ORDER.index)


class Verdict(StrEnum):
    FASTER = "faster"
    SLOWER = "slower"
    EQUIVALENT = "equivalent"
    AMBIGUOUS = "ambiguous"


class Clock(StrEnum):
    """Which clock a latency was read from."""

    WALL = "wall"
    """The verifier's monotonic clock around a batch of calls, less an empty batch."""
    DEVICE = "device"
    """Spans of device activity records (CUPTI)."""
    GRAPH = "graph"
    """The slope over replays of a captured graph."""


class Environment(Record):
    hardware: str
    """As the vendor names it: `NVIDIA H200`, or the CPU's model name with cores and SIMD."""
    libs: dict[str, str]


class Correctness(Record):
    """Errors against the float64 oracle; None where an output was not finite."""

    max_relative_error: float | None
    max_absolute_error: float | None
    matched_ratio: float
    """Of the worst row of any output."""
    has_nan: bool = False
    has_inf: bool = False


class Performance(Record):
    latency_ms: Positive
    """Median over all calls of all sessions, cold caches."""
    opponent_latency_ms: Positive
    """Of the paired opponent, in the same sessions."""
    speedup: Positive
    """Opponent's time over the solution's, from paired blocks."""
    speedup_low: Positive
    speedup_high: Positive
    """Bounds of the 95 % interval; equal to `speedup` if there was one session only."""
    clock: Clock


class Session(Record):
    """One paired session of a solution and its opponent, each in a process of its own."""

    workload: str
    first: Literal["solution", "opponent"]
    """Which of the two was started first; balanced over sessions."""
    log_ratios: tuple[Annotated[float, Field(allow_inf_nan=False)], ...]
    """One per ABBA block: mean log of the opponent's times less that of the solution's."""
    solution_ms: Positive
    """Median over this session's calls."""
    opponent_ms: Positive
    clock: Clock
    void_blocks: Annotated[int, Field(ge=0)]


class Evaluation(Record):
    status: Status
    environment: Environment
    timestamp: str
    """UTC, ISO 8601."""
    log: str = ""
    correctness: Correctness | None = None
    performance: Performance | None = None
    """Absent where nothing was measured (a check without timing) and after a failure."""

    @model_validator(mode="after")
    def _fields_fit_status(self) -> Evaluation:
        if self.status is Status.PASSED and self.correctness is None:
            raise ValueError("PASSED needs correctness")
        if self.performance is not None and self.status not in (
            Status.PASSED,
            Status.QUARANTINED,
        ):
            raise ValueError(f"{self.status} cannot have performance")
        return self
