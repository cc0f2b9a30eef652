"""A node of a run's search, and the state that a run's journal folds into."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from memory.lesson import Context, Recall
from problems.evaluation import Status
from problems.hardware import Hardware
from problems.paired import Comparison
from problems.problem import Problem, Target
from problems.record import Digest, Record
from problems.solution import Language, Solution
from problems.speed_of_light import Analysis, Bound
from scheduler.job import Stage


class Proposal(Record):
    """A solution to try, with what it changes and what that should do."""

    solution: Solution
    hypothesis: str
    """What it changes, what it predicts, and compared with what."""
    parent: Digest | None = None
    """The attempt that it builds on."""
    technique: str
    """Canonical tag for the memory, as `Evidence.technique`."""
    parameters: dict[str, str] = {}
    """Of a template, so that a resumed policy can rebuild its search from the journal."""
    lessons: tuple[str, ...] = ()
    """Ids of the lessons that it follows."""
    hold: bool = False
    """Screen only: the policy asks for `Confirm` itself."""


class Confirm(Record):
    """Confirm an attempt that passed its screen."""

    attempt: int


class Stop(Record):
    reason: str


Decision = Proposal | Confirm | Stop


class Attempt(Record):
    index: int
    solution: Digest
    name: str
    language: Language
    hypothesis: str
    technique: str
    parameters: dict[str, str] = {}
    lessons: tuple[str, ...] = ()
    parent: Digest | None
    stage: Stage | Literal["review"]
    """The last one that it reached."""
    status: Status
    log: str = ""
    """The first lines of what went wrong; empty if nothing did."""
    opponent: Digest | None = None
    """Whom the last of `screen` and `confirm` was measured against: a confirmation that the policy
    asked for later runs against the incumbent of its time."""
    screen: Comparison | None = None
    confirm: Comparison | None = None
    against_baseline: Comparison | None = None
    """Measured only for attempts that became the incumbent."""
    latency_ms: float | None = None
    """Geometric mean over workloads of the last measurement."""
    sol_fraction: float | None = None
    """Geometric mean over workloads of bound / latency, at measured ceilings."""
    workload_latencies_ms: dict[str, float] = {}
    promoted: bool = False
    at_s: float
    """Active seconds of the run when it ended."""
    seconds: float
    """What it took."""
    stage_s: dict[Stage, float] = {}
    """What each stage that ran took."""


class Baseline(Record):
    """What is to be beaten: the faster of eager and torch.compile of the reference."""

    solution: Digest
    build: Digest | None
    kind: Literal["eager", "torch.compile"]
    eager_over_compiled: float | None
    """Paired ratio of their times; None where torch.compile could not run, with the reason in
    `note`."""
    latency_ms: float
    """Geometric mean over workloads of the kind that was chosen."""
    eager_ms: float | None = None
    compiled_ms: float | None = None
    build_s: float = 0.0
    """Of the chosen kind."""
    note: str = ""


class JudgeResult(Record):
    passed: bool
    status: Status
    public_speedup: float
    private_speedup: float | None
    private_low: float | None
    private_high: float | None
    workloads: int
    """Hidden workloads that scored."""
    checked_only: int
    seed: str
    seed_sha256: Digest
    log: str = ""


class Budget(Record):
    total_s: float
    spent_s: float
    reserve_s: float
    """Kept for confirming and judging."""

    @property
    def left_s(self) -> float:
        return max(0.0, self.total_s - self.spent_s - self.reserve_s)


class Phase(StrEnum):
    STARTED = "started"
    SEARCHING = "searching"
    JUDGED = "judged"
    FINISHED = "finished"


class PendingProposal(Record):
    """A proposal that was journaled before its submission; after a kill it is taken up again."""

    index: int
    proposal: Proposal


class RunState(Record):
    """The fold of a run's events; nothing else is remembered about a run."""

    run: str
    problem: Problem
    target: Target
    phase: Phase
    total_s: float
    spent_s: float
    """Active seconds; a killed process loses at most one heartbeat of them."""
    seed_sha256: Digest | None = None
    """Of the judge's secret seed, which is revealed in `judge`."""
    policy: str = ""
    started_unix_s: float = 0.0
    hardware: Hardware | None = None
    context: Context | None = None
    """Where lessons are looked up, and where those of this run will hold."""
    analyses: tuple[Analysis, ...] = ()
    bounds: tuple[Bound, ...] = ()
    recall: Recall | None = None
    baseline: Baseline | None = None
    pending: PendingProposal | None = None
    attempts: tuple[Attempt, ...] = ()
    first_valid_s: float | None = None
    """Active seconds until a candidate first passed its check."""
    incumbent: int | None = None
    """Index into `attempts`."""
    judge: JudgeResult | None = None
    lessons_written: tuple[str, ...] | None = None
    """Ids; None until the learner ran."""
    report: str | None = None
    """Path of `report.html`."""
    stop_reason: str | None = None
    notices: tuple[str, ...] = ()
    """What the user must be told: a fallback, a guard that fired, a cap."""

    @property
    def best(self) -> Attempt | None:
        """None: no attempt beat the baseline."""
        return None if self.incumbent is None else self.attempts[self.incumbent]
