"""A conditional finding across runs, the trials that it rests on, and when it applies."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from problems.definition import DType
from problems.problem import Target
from problems.record import Digest, NonEmpty, Record
from problems.solution import Language
from problems.speed_of_light import WorkloadClass


class LessonKind(StrEnum):
    STRATEGY = "strategy"
    ANTI_PATTERN = "anti_pattern"


class LessonStatus(StrEnum):
    CANDIDATE = "candidate"
    """Seen on one problem: shown, labelled weak."""
    ACTIVE = "active"
    """Two problem families, or two runs."""
    CONTESTED = "contested"
    REVOKED = "revoked"


class Outcome(StrEnum):
    FASTER = "faster"
    NO_DIFFERENCE = "no_difference"
    SLOWER = "slower"
    INCORRECT = "incorrect"
    COMPILE_ERROR = "compile_error"
    TIMEOUT = "timeout"


class Integrity(StrEnum):
    CLEAN = "clean"
    FLAGGED = "flagged"
    REVOKED = "revoked"


class Context(Record):
    """Where something is tried: what a program can check of a problem on a machine."""

    target: Target
    architecture: str
    """`sm_90` or the CPU's instruction set (`avx512`)."""
    hardware: str
    family: str
    """Operator family, e.g. `normalisation`."""
    workload_class: WorkloadClass
    dtypes: tuple[DType, ...]
    """Of the inputs."""
    arithmetic_intensity: float
    compulsory_bytes: int
    rung: Language
    toolchain: dict[str, str]
    """Compiler or package to version."""


class Conditions(Record):
    """Each is a hard filter on a `Context`; an absent (empty) one matches everything."""

    targets: tuple[Target, ...] = ()
    architectures: tuple[str, ...] = ()
    families: tuple[str, ...] = ()
    workload_classes: tuple[WorkloadClass, ...] = ()
    dtypes: tuple[DType, ...] = ()
    rungs: tuple[Language, ...] = ()
    intensity_low: float | None = None
    intensity_high: float | None = None
    bytes_low: int | None = None
    bytes_high: int | None = None


class Evidence(Record):
    """One measured trial of a change, append-only; numbers by code, never by a model."""

    id: NonEmpty
    """Unique: recording the same trial twice changes nothing."""
    run: NonEmpty
    problem: NonEmpty
    technique: Annotated[str, Field(pattern=r"^[a-z0-9_.:=,-]{1,120}$")]
    """Canonical tag of what was tried, e.g. `row_normalisation:vector_width=16`."""
    title: Annotated[str, Field(max_length=120)]
    mechanism: Annotated[str, Field(max_length=600)] = ""
    """Why it works or fails."""
    action: Annotated[str, Field(max_length=800)] = ""
    """What to do with it; no finished kernel."""
    context: Context
    solution: Digest
    compared_with: str
    """`baseline`, or the digest of the incumbent that it was paired with."""
    outcome: Outcome
    log_speedup: float | None
    """Natural logarithm against `compared_with`; None where nothing was measured."""
    log_low: float | None = None
    log_high: float | None = None
    sessions: int = 0
    sol_fraction_before: float | None = None
    sol_fraction_after: float | None = None
    integrity: Integrity = Integrity.CLEAN
    cost_s: float
    unix_s: float


class Lesson(Record):
    id: str
    kind: LessonKind
    title: str
    technique: str
    mechanism: str
    action: str
    status: LessonStatus
    conditions: Conditions
    evidence: tuple[Evidence, ...]
    lower_bound: float | None
    """Shrunk mean of the log speedup less its standard deviation; computed, never typed in."""


class Hit(Record):
    """One lesson as it was shown, and why."""

    lesson: Lesson
    score: float
    similarity: float
    reason: str
    """One sentence a person can check."""


class Recall(Record):
    strategies: tuple[Hit, ...]
    anti_patterns: tuple[Hit, ...]
    abstained: str | None
    """Why nothing is shown; None if something is."""
