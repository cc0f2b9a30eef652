"""From what the stages of an evaluation returned to the attempt that is journaled."""

from __future__ import annotations

from agent.attempt import Attempt, PendingProposal, RunState
from agent.controller import Rejection
from agent.diagnosis import first_error
from agent.pipeline import Built, Outcome, comparison_of, latencies_ms, sol_fraction
from problems.evaluation import Status, Verdict
from problems.paired import Comparison
from problems.record import Digest
from problems.score import geometric_mean
from problems.solution import Solution
from scheduler.job import Stage, StageResult

_MAX_LOG = 2000


def rejected_attempt(pending: PendingProposal, rejection: Rejection) -> Attempt:
    attempt = _blank(pending)
    changes = {"stage": "review", "status": Status.REJECTED, "log": rejection.log}
    return attempt.model_copy(update=changes)


def new_attempt(state: RunState, outcome: Outcome, opponent: Built | None) -> Attempt:
    assert state.pending is not None
    last = outcome.last
    attempt = _blank(state.pending).model_copy(
        update={
            "stage": last.stage,
            "status": last.status,
            "log": _log(last),
            "screen": outcome.comparison(Stage.SCREEN),
            "seconds": sum(outcome.stage_s.values()),
            "stage_s": outcome.stage_s,
            **_measured(state, last),
        }
    )
    if Stage.SCREEN in outcome.stage_s and opponent is not None:
        attempt = attempt.model_copy(update={"opponent": opponent.solution})
    return _with_confirmation(state, attempt, outcome.comparison(Stage.CONFIRM))


def confirmed_attempt(
    state: RunState, attempt: Attempt, opponent: Built, result: StageResult
) -> Attempt:
    changed = attempt.model_copy(
        update={
            "stage": result.stage,
            "status": result.status,
            "log": _log(result),
            "opponent": opponent.solution,
            "seconds": attempt.seconds + result.seconds,
            "stage_s": attempt.stage_s | {result.stage: result.seconds},
            **_measured(state, result),
        }
    )
    return _with_confirmation(state, changed, comparison_of(result))


def _with_confirmation(state: RunState, attempt: Attempt, confirm: Comparison | None) -> Attempt:
    """Promoted if the interval says that the opponent is beaten."""
    promoted = confirm is not None and confirm.verdict is Verdict.FASTER
    baseline: Digest | None = state.baseline.solution if state.baseline else None
    number = confirm if promoted and attempt.opponent == baseline else None
    changes = {"confirm": confirm, "promoted": promoted, "against_baseline": number}
    return attempt.model_copy(update=changes)


def _blank(pending: PendingProposal) -> Attempt:
    proposal = pending.proposal
    solution: Solution = proposal.solution
    return Attempt(
        index=pending.index,
        solution=solution.content_digest(),
        name=solution.name,
        language=solution.language,
        hypothesis=proposal.hypothesis,
        technique=proposal.technique,
        parameters=proposal.parameters,
        lessons=proposal.lessons,
        parent=proposal.parent,
        stage="review",
        status=Status.PASSED,
        at_s=0.0,
        seconds=0.0,
    )


def _log(result: StageResult) -> str:
    """What went wrong; a build's report of success is none of it."""
    if result.status is Status.PASSED:
        return ""
    return result.log[:_MAX_LOG] or first_error(result.log)


def _measured(state: RunState, result: StageResult) -> dict[str, object]:
    times_ms = latencies_ms(result) if result.status is Status.PASSED else {}
    if not times_ms:
        return {}
    return {
        "latency_ms": geometric_mean(list(times_ms.values())),
        "sol_fraction": sol_fraction(result, state.bounds),
        "workload_latencies_ms": times_ms,
    }
