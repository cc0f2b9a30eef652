"""What a run teaches: by rule from its confirmed attempts, numbers by code, never by a model."""

from __future__ import annotations

import math
import re

from agent.attempt import Attempt, RunState
from memory.lesson import BASELINE, Context, Evidence, Outcome, clean_text
from memory.memory import Memory
from problems.evaluation import Status, Verdict
from problems.paired import Comparison
from problems.record import Digest
from scheduler.job import Stage

MAX_TAG = 120
_FAILURES = {
    Status.INCORRECT_NUMERICAL: Outcome.INCORRECT,
    Status.INCORRECT_SHAPE: Outcome.INCORRECT,
    Status.INCORRECT_DTYPE: Outcome.INCORRECT,
    Status.RUNTIME_ERROR: Outcome.RUNTIME_ERROR,
    Status.COMPILE_ERROR: Outcome.COMPILE_ERROR,
    Status.TIMEOUT: Outcome.TIMEOUT,
}
"""Every other status that is not a pass teaches nothing: the reference, the reviewer or the guard
decided it, not the technique."""
_OUTCOMES = {
    Verdict.FASTER: Outcome.FASTER,
    Verdict.SLOWER: Outcome.SLOWER,
    Verdict.EQUIVALENT: Outcome.NO_DIFFERENCE,
}
"""An ambiguous comparison teaches nothing yet."""


def learn(state: RunState, context: Context, memory: Memory, now: float) -> tuple[str, ...]:
    """Records what the run's attempts showed; returns the ids of the lessons that hold it.

    Ids of evidence follow from run and attempt, so that learning again after a kill adds nothing.
    """
    lessons: dict[str, None] = {}
    for attempt in state.attempts:
        for trial in _trials(state, attempt, context, now):
            lesson = memory.record(trial)
            if lesson is not None:
                lessons[lesson] = None
    return tuple(lessons)


def safe_tag(technique: str, parameters: dict[str, str]) -> str:
    """`template:name=value,…` with what a tag may hold; cut after a whole parameter."""
    if ":" not in technique and parameters:
        pairs = ",".join(f"{name}={value}" for name, value in sorted(parameters.items()))
        technique = f"{technique}:{pairs}"
    tag = re.sub(r"[^a-z0-9_.:=,-]+", "_", technique.lower()).strip("_") or "unnamed"
    if len(tag) <= MAX_TAG:
        return tag
    return tag[: MAX_TAG + 1].rpartition(",")[0] or tag[:MAX_TAG]


def _trials(
    state: RunState, attempt: Attempt, context: Context, now: float
) -> tuple[Evidence, ...]:
    """None, one or two: against its opponent, and for the final best against the baseline."""
    if attempt.status is not Status.PASSED:
        outcome = _FAILURES.get(attempt.status)
        return () if outcome is None else (_failure(state, attempt, context, outcome, now),)
    if state.incumbent == attempt.index and state.judge and not state.judge.passed:
        outcome = _FAILURES.get(state.judge.status)
        return () if outcome is None else (_failure(state, attempt, context, outcome, now),)
    baseline = state.baseline.solution if state.baseline else None
    trials = []
    if attempt.confirm is not None and attempt.opponent is not None:
        opponent = BASELINE if attempt.opponent == baseline else attempt.opponent
        trials.append(_measured(state, attempt, context, attempt.confirm, opponent, now))
    confirmed_it = attempt.confirm is not None and attempt.opponent == baseline
    if state.incumbent == attempt.index and attempt.against_baseline and not confirmed_it:
        trials.append(_measured(state, attempt, context, attempt.against_baseline, BASELINE, now))
    return tuple(trial for trial in trials if trial is not None)


def _measured(
    state: RunState,
    attempt: Attempt,
    context: Context,
    comparison: Comparison,
    compared_with: str,
    now: float,
) -> Evidence | None:
    outcome = _OUTCOMES.get(comparison.verdict) if comparison.verdict else None
    if outcome is None:
        return None
    tag = safe_tag(attempt.technique, attempt.parameters)
    side = "baseline" if compared_with == BASELINE else "incumbent"
    return Evidence(
        id=f"{_safe(state.run)}:{attempt.index}:{side}",
        run=state.run,
        problem=state.problem.name,
        technique=tag,
        title=_title(attempt, tag),
        mechanism=_cut(attempt.hypothesis, 600),
        action=_action(tag, context),
        context=context.model_copy(update={"rung": attempt.language}),
        solution=attempt.solution,
        compared_with=compared_with,
        outcome=outcome,
        log_speedup=math.log(comparison.ratio),
        log_low=math.log(comparison.low),
        log_high=math.log(comparison.high),
        sessions=comparison.sessions,
        sol_fraction_before=_sol_fraction_of(state, attempt.opponent),
        sol_fraction_after=attempt.sol_fraction,
        cost_s=attempt.seconds,
        unix_s=now,
    )


def _failure(
    state: RunState, attempt: Attempt, context: Context, outcome: Outcome, now: float
) -> Evidence:
    tag = safe_tag(attempt.technique, attempt.parameters)
    hidden = state.judge is not None and attempt.status is Status.PASSED
    where = Stage.JUDGE.value if hidden else str(attempt.stage)
    log = state.judge.log if hidden and state.judge else attempt.log
    return Evidence(
        id=f"{_safe(state.run)}:{attempt.index}:failure",
        run=state.run,
        problem=state.problem.name,
        technique=tag,
        title=_title(attempt, tag),
        mechanism=_cut(f"{outcome.value} in {where}: {log}", 600),
        context=context.model_copy(update={"rung": attempt.language}),
        solution=attempt.solution,
        compared_with=BASELINE,
        outcome=outcome,
        log_speedup=None,
        cost_s=attempt.seconds,
        unix_s=now,
    )


def _title(attempt: Attempt, tag: str) -> str:
    """The template and its parameters in words: what was tried, not how it went."""
    template, _, parameters = tag.partition(":")
    words = template.replace("_", " ")
    with_parameters = f" with {parameters.replace(',', ', ')}" if parameters else ""
    return _cut(f"{words}{with_parameters} in {attempt.language}", 120)


def _action(tag: str, context: Context) -> str:
    template, _, parameters = tag.partition(":")
    settings = f" with {parameters.replace(',', ', ')}" if parameters else ""
    return _cut(f"On {context.family} problems start from {template}{settings}.", 800)


def _sol_fraction_of(state: RunState, solution: Digest | None) -> float | None:
    found = (a.sol_fraction for a in state.attempts if a.solution == solution)
    return next((fraction for fraction in found if fraction is not None), None)


def _cut(text: str, length: int) -> str:
    cleaned = str(clean_text(text))
    return cleaned if len(cleaned) <= length else cleaned[: length - 1] + "…"


def _safe(run: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.:-]", "_", run)[:120]
