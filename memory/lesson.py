"""A conditional finding across runs, the trials that it rests on, and when it applies."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated

from pydantic import BeforeValidator, Field

from problems.definition import DType
from problems.problem import Target
from problems.record import Digest, Record
from problems.solution import Language
from problems.speed_of_light import WorkloadClass

BASELINE = "baseline"
"""What `Evidence.compared_with` says where the opponent was the run's baseline."""


def clean_text(value: object) -> object:
    """Text is data: no control or invisible characters, no code fences, no links."""
    if not isinstance(value, str):
        return value
    spaced = re.sub(r"\s+", " ", value)
    visible = "".join(c for c in spaced if unicodedata.category(c) not in ("Cc", "Cf", "Cs", "Co"))
    return re.sub(r"(?i)\b[a-z]+://\S+", "(link)", visible.replace("```", "")).strip()


Finite = Annotated[float, Field(allow_inf_nan=False)]
LogRatio = Annotated[float, Field(allow_inf_nan=False, ge=-20, le=20)]
Amount = Annotated[float, Field(allow_inf_nan=False, ge=0, le=1e18)]
Name = Annotated[
    str, BeforeValidator(clean_text), Field(min_length=1, max_length=120, pattern=r"^[^\n]+$")
]


class LessonKind(StrEnum):
    STRATEGY = "strategy"
    ANTI_PATTERN = "anti_pattern"


class LessonStatus(StrEnum):
    CANDIDATE = "candidate"
    """Seen on one problem in one run: shown, labelled weak."""
    ACTIVE = "active"
    """Two problems, or two runs."""
    CONTESTED = "contested"
    """Measured both ways under the same conditions, each beyond doubt."""
    REVOKED = "revoked"
    """No clean evidence is left."""


class Outcome(StrEnum):
    FASTER = "faster"
    NO_DIFFERENCE = "no_difference"
    SLOWER = "slower"
    INCORRECT = "incorrect"
    RUNTIME_ERROR = "runtime_error"
    COMPILE_ERROR = "compile_error"
    TIMEOUT = "timeout"

    @property
    def failed(self) -> bool:
        """Nothing was measured: the candidate was wrong, broke or did not end."""
        return self not in (Outcome.FASTER, Outcome.NO_DIFFERENCE, Outcome.SLOWER)


class Integrity(StrEnum):
    CLEAN = "clean"
    FLAGGED = "flagged"
    REVOKED = "revoked"


class Context(Record):
    """Where something is tried: what a program can check of a problem on a machine."""

    target: Target
    architecture: Name
    """`sm_90` or the CPU's instruction set (`avx512`)."""
    hardware: Name
    family: Name
    """Operator family, e.g. `normalisation`."""
    workload_class: WorkloadClass
    dtypes: Annotated[tuple[DType, ...], Field(min_length=1, max_length=32)]
    """Of the inputs."""
    arithmetic_intensity: Amount
    compulsory_bytes: Annotated[int, Field(ge=0, le=10**18)]
    rung: Language
    toolchain: Annotated[dict[Name, Name], Field(max_length=32)] = {}
    """Compiler or package to version."""

    @property
    def deciding_dtypes(self) -> tuple[DType, ...]:
        return deciding_dtypes(self.dtypes)


def deciding_dtypes(dtypes: Sequence[DType]) -> tuple[DType, ...]:
    """The floating ones if there are any: index tensors say little about a kernel."""
    return tuple([dtype for dtype in dtypes if dtype.floating]) or tuple(dtypes)


class Conditions(Record):
    """Each is a hard filter on a `Context`; an absent (empty) one matches everything."""

    targets: tuple[Target, ...] = ()
    architectures: tuple[str, ...] = ()
    families: tuple[str, ...] = ()
    workload_classes: tuple[WorkloadClass, ...] = ()
    dtypes: tuple[DType, ...] = ()
    """One of the context's deciding dtypes must be among them."""
    rungs: tuple[Language, ...] = ()
    intensity_low: Finite | None = None
    intensity_high: Finite | None = None
    bytes_low: int | None = None
    bytes_high: int | None = None

    def matches(self, context: Context) -> bool:
        return self.matches_elsewhere(context) and _among(context.family, self.families)

    def matches_elsewhere(self, context: Context) -> bool:
        """All but the family: such a lesson counts for less, but it counts."""
        return (
            _among(context.target, self.targets)
            and _among(context.architecture, self.architectures)
            and _among(context.workload_class, self.workload_classes)
            and _among(context.rung, self.rungs)
            and (not self.dtypes or bool(set(self.dtypes) & set(context.deciding_dtypes)))
            and _within(context.arithmetic_intensity, self.intensity_low, self.intensity_high)
            and _within(context.compulsory_bytes, self.bytes_low, self.bytes_high)
        )


def _among(value: str, choices: Sequence[str]) -> bool:
    return not choices or value in choices


def _within(value: float, low: float | None, high: float | None) -> bool:
    return (low is None or value >= low) and (high is None or value <= high)


class Evidence(Record):
    """One measured trial of a change, append-only; numbers by code, never by a model."""

    id: Annotated[str, Field(pattern=r"^[A-Za-z0-9_.:-]{1,200}$")]
    """Unique: recording the same trial twice changes nothing."""
    run: Name
    problem: Name
    technique: Annotated[str, Field(pattern=r"^[a-z0-9_.:=,-]{1,120}$")]
    """Canonical tag of what was tried, e.g. `row_normalisation:vector_width=16`."""
    title: Name
    mechanism: Annotated[str, BeforeValidator(clean_text), Field(max_length=600)] = ""
    """Why it works or fails."""
    action: Annotated[str, BeforeValidator(clean_text), Field(max_length=800)] = ""
    """What to do with it; no finished kernel."""
    context: Context
    solution: Digest
    compared_with: Annotated[str, Field(pattern=r"^(baseline|[0-9a-f]{64})$")]
    """`baseline`, or the digest of the incumbent that it was paired with."""
    outcome: Outcome
    log_speedup: LogRatio | None
    """Natural logarithm against `compared_with`; None where nothing was measured."""
    log_low: LogRatio | None = None
    log_high: LogRatio | None = None
    sessions: Annotated[int, Field(ge=0, le=10**6)] = 0
    sol_fraction_before: Amount | None = None
    sol_fraction_after: Amount | None = None
    integrity: Integrity = Integrity.CLEAN
    cost_s: Amount
    unix_s: Amount

    @property
    def against_baseline(self) -> bool:
        return self.compared_with == BASELINE


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
    """Shrunk mean of the log speedup less its standard deviation; computed, never typed in.
    None where nothing was measured, only failures."""

    @property
    def template(self) -> str:
        """What comes before the parameters in the technique."""
        return self.technique.partition(":")[0]


class Hit(Record):
    """One lesson as it was shown, and why."""

    lesson: Lesson
    score: float
    """Lower bound where this lesson is asked for, plus a little for similarity."""
    similarity: float
    """Cosine of question and lesson, from -1 to 1; 0 where it was not computed."""
    reason: str
    """One sentence a person can check."""


class Recall(Record):
    strategies: tuple[Hit, ...]
    anti_patterns: tuple[Hit, ...]
    abstained: str | None
    """Why nothing is shown; None if something is."""
