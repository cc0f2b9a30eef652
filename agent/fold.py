"""From a run's events to its state."""

from __future__ import annotations

from functools import singledispatch

from agent.attempt import PendingProposal, Phase, RunState
from agent.events import (
    Analyzed,
    AttemptEnded,
    BaselineMeasured,
    ComparedWithBaseline,
    Demoted,
    Entry,
    Finished,
    FirstChecked,
    Judged,
    LessonsWritten,
    Noted,
    Proposed,
    Recalled,
    ReportWritten,
    RunStarted,
    Stopped,
)
from problems.evaluation import Status
from problems.record import Record


def fold(state: RunState | None, entry: Entry) -> RunState:
    """
    Raises:
        ValueError: the event cannot follow: the first one must be `run_started`.
    """
    event = entry.event
    if state is None:
        if not isinstance(event, RunStarted):
            raise ValueError(f"a run starts with run_started, not with {event.kind}")
        return RunState(
            run=event.run,
            problem=event.problem,
            target=event.target,
            policy=event.policy,
            total_s=event.total_s,
            seed_sha256=event.seed_sha256,
            phase=Phase.STARTED,
            spent_s=entry.active_s,
            started_unix_s=entry.unix_s,
        )
    return _apply(event, state.model_copy(update={"spent_s": entry.active_s}))


@singledispatch
def _apply(event: Record, state: RunState) -> RunState:
    """Events that change nothing but the time."""
    return state


def _change(state: RunState, **fields: object) -> RunState:
    return state.model_copy(update=fields)


def _change_attempt(state: RunState, index: int, **fields: object) -> RunState:
    attempts = list(state.attempts)
    attempts[index] = attempts[index].model_copy(update=fields)
    return _change(state, attempts=tuple(attempts))


@_apply.register
def _(event: RunStarted, state: RunState) -> RunState:
    raise ValueError("run_started is there twice")


@_apply.register
def _(event: Analyzed, state: RunState) -> RunState:
    return _change(state, hardware=event.hardware, analyses=event.analyses, bounds=event.bounds)


@_apply.register
def _(event: Recalled, state: RunState) -> RunState:
    return _change(
        state,
        context=event.context,
        recall=event.recall,
        phase=Phase.SEARCHING,
        notices=(*state.notices, *event.notices),
    )


@_apply.register
def _(event: Proposed, state: RunState) -> RunState:
    pending = PendingProposal(index=event.index, proposal=event.proposal)
    return _change(state, pending=pending)


@_apply.register
def _(event: FirstChecked, state: RunState) -> RunState:
    return _change(state, first_valid_s=state.spent_s)


@_apply.register
def _(event: BaselineMeasured, state: RunState) -> RunState:
    return _change(state, baseline=event.baseline)


@_apply.register
def _(event: AttemptEnded, state: RunState) -> RunState:
    attempt = event.attempt.model_copy(update={"at_s": state.spent_s})
    attempts = (*state.attempts[: attempt.index], attempt, *state.attempts[attempt.index + 1 :])
    first = state.first_valid_s
    if first is None and attempt.status is Status.PASSED:
        first = state.spent_s
    incumbent = attempt.index if attempt.promoted else state.incumbent
    return _change(state, attempts=attempts, pending=None, first_valid_s=first, incumbent=incumbent)


@_apply.register
def _(event: ComparedWithBaseline, state: RunState) -> RunState:
    return _change_attempt(state, event.index, against_baseline=event.comparison)


@_apply.register
def _(event: Demoted, state: RunState) -> RunState:
    changed = _change_attempt(
        state, event.index, promoted=False, status=event.status, log=event.log
    )
    left = [attempt for attempt in changed.attempts if attempt.promoted]
    best = max(
        left, key=lambda a: a.against_baseline.ratio if a.against_baseline else 0.0, default=None
    )
    notice = f"attempt {event.index} failed when it was measured again: {event.status}"
    return _change(
        changed, incumbent=best.index if best else None, notices=(*state.notices, notice)
    )


@_apply.register
def _(event: Noted, state: RunState) -> RunState:
    return _change(state, notices=(*state.notices, event.notice))


@_apply.register
def _(event: Stopped, state: RunState) -> RunState:
    return _change(state, stop_reason=event.reason, pending=None)


@_apply.register
def _(event: Judged, state: RunState) -> RunState:
    return _change(state, judge=event.judge, phase=Phase.JUDGED)


@_apply.register
def _(event: LessonsWritten, state: RunState) -> RunState:
    return _change(state, lessons_written=event.lessons)


@_apply.register
def _(event: ReportWritten, state: RunState) -> RunState:
    return _change(state, report=event.path)


@_apply.register
def _(event: Finished, state: RunState) -> RunState:
    return _change(state, phase=Phase.FINISHED)
