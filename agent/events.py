"""What can happen in a run: the records of its journal."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from agent.attempt import Attempt, Baseline, JudgeResult, Proposal
from memory.lesson import Context, Recall
from problems.evaluation import Status
from problems.hardware import Hardware
from problems.paired import Comparison
from problems.problem import Problem, Target
from problems.record import Digest, Record
from problems.speed_of_light import Analysis, Bound


class RunStarted(Record):
    kind: Literal["run_started"] = "run_started"
    run: str
    problem: Problem
    target: Target
    policy: str
    total_s: float
    seed_sha256: Digest


class Analyzed(Record):
    kind: Literal["analyzed"] = "analyzed"
    hardware: Hardware
    analyses: tuple[Analysis, ...]
    bounds: tuple[Bound, ...]


class Recalled(Record):
    kind: Literal["recalled"] = "recalled"
    context: Context
    recall: Recall | None
    """None where the memory is switched off."""
    notices: tuple[str, ...] = ()


class Proposed(Record):
    """Journaled before the first submission of it."""

    kind: Literal["proposed"] = "proposed"
    index: int
    proposal: Proposal


class FirstChecked(Record):
    """The first proposal of the run that passed its check, before there was a baseline."""

    kind: Literal["first_checked"] = "first_checked"


class BaselineMeasured(Record):
    kind: Literal["baseline_measured"] = "baseline_measured"
    baseline: Baseline


class AttemptEnded(Record):
    """A new attempt, or one that was confirmed later, under its old index.

    One that is `promoted` is the incumbent from here on. Its `at_s` is the entry's `active_s`.
    """

    kind: Literal["attempt_ended"] = "attempt_ended"
    attempt: Attempt


class ComparedWithBaseline(Record):
    """The number of an incumbent that beat another incumbent."""

    kind: Literal["compared_with_baseline"] = "compared_with_baseline"
    index: int
    comparison: Comparison


class Demoted(Record):
    """The incumbent failed when it was measured again; the one before it stands."""

    kind: Literal["demoted"] = "demoted"
    index: int
    status: Status
    log: str


class Heartbeat(Record):
    """Nothing but the active seconds that every entry of the journal carries."""

    kind: Literal["heartbeat"] = "heartbeat"


class Noted(Record):
    kind: Literal["noted"] = "noted"
    notice: str


class Stopped(Record):
    """The search is over."""

    kind: Literal["stopped"] = "stopped"
    reason: str


class Judged(Record):
    kind: Literal["judged"] = "judged"
    judge: JudgeResult | None
    """None where there was nothing to judge."""


class LessonsWritten(Record):
    kind: Literal["lessons_written"] = "lessons_written"
    lessons: tuple[str, ...]


class ReportWritten(Record):
    kind: Literal["report_written"] = "report_written"
    path: str


class Finished(Record):
    kind: Literal["finished"] = "finished"


Event = Annotated[
    RunStarted
    | Analyzed
    | Recalled
    | Proposed
    | FirstChecked
    | BaselineMeasured
    | AttemptEnded
    | ComparedWithBaseline
    | Demoted
    | Heartbeat
    | Noted
    | Stopped
    | Judged
    | LessonsWritten
    | ReportWritten
    | Finished,
    Field(discriminator="kind"),
]


class Entry(Record):
    """One row of a journal."""

    seq: int
    unix_s: float
    active_s: float
    """Seconds that processes of this run were at work until then; never shrinks."""
    event: Event
