"""What is shown to a run, and why: hard conditions, then the lower bound, then similarity."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from memory.derivation import counting, holds, topic_of
from memory.lesson import (
    Context,
    Evidence,
    Hit,
    Lesson,
    LessonKind,
    LessonStatus,
    Outcome,
    Recall,
)
from memory.statistics import (
    OTHER_FAMILY_CAUTION,
    OTHER_FAMILY_WEIGHT,
    Estimate,
    comparable,
    estimate,
)

MAX_STRATEGIES = 3
MAX_ANTI_PATTERNS = 2
SIMILARITY_WEIGHT = 0.15
"""facts/memory.md, D4: similarity decides between near equals, it does not outweigh evidence."""
FAILURE_COST = 0.01
"""What one independent failure counts for among anti-patterns, as a log slowdown."""


@dataclass(frozen=True)
class Candidate:
    """A lesson with the part of its evidence that holds where it is asked for."""

    lesson: Lesson
    trials: tuple[Evidence, ...]
    """Clean ones of this lesson."""
    contrary: tuple[Evidence, ...]
    """Clean ones of the lesson of the other kind on the same topic."""
    same_family: bool

    @property
    def estimate(self) -> Estimate | None:
        weight = 1.0 if self.same_family else OTHER_FAMILY_WEIGHT
        return estimate((*self.trials, *self.contrary), weight)

    @property
    def caution(self) -> float:
        return 1.0 if self.same_family else OTHER_FAMILY_CAUTION


def recall(
    lessons: Iterable[Lesson],
    context: Context,
    similarities: Mapping[str, float],
    limit: int = MAX_STRATEGIES,
) -> Recall:
    known = [lesson for lesson in lessons if lesson.status is not LessonStatus.REVOKED]
    candidates = applicable(known, context)
    strategies = _best(map(_strategy, candidates), similarities, limit)
    shown = {hit.lesson.technique for hit in strategies}
    dangers = [_anti_pattern(c) for c in candidates if c.lesson.technique not in shown]
    anti_patterns = _best(dangers, similarities, MAX_ANTI_PATTERNS)
    abstained = None
    if not strategies and not anti_patterns:
        abstained = _abstention(len(known), len(candidates), context)
    return Recall(strategies=strategies, anti_patterns=anti_patterns, abstained=abstained)


def applicable(lessons: Sequence[Lesson], context: Context) -> tuple[Candidate, ...]:
    by_topic = {(topic_of(lesson.evidence[0]), lesson.kind): lesson for lesson in lessons}
    found = []
    for (topic, kind), lesson in by_topic.items():
        if not lesson.conditions.matches_elsewhere(context):
            continue
        trials = _holding(lesson, context)
        other = next(k for k in LessonKind if k is not kind)
        opposite = by_topic.get((topic, other))
        if trials:
            found.append(
                Candidate(
                    lesson=lesson,
                    trials=trials,
                    contrary=_holding(opposite, context) if opposite else (),
                    same_family=topic.family == context.family,
                )
            )
    return tuple(found)


def _holding(lesson: Lesson, context: Context) -> tuple[Evidence, ...]:
    return tuple(trial for trial in counting(lesson.evidence) if holds(trial.context, context))


def _strategy(candidate: Candidate) -> tuple[float, Candidate] | None:
    """Its bound; None if it is not to be shown."""
    lesson, found = candidate.lesson, candidate.estimate
    if lesson.kind is not LessonKind.STRATEGY or found is None:
        return None
    bound = found.lower(candidate.caution)
    first_sign = (
        candidate.same_family
        and lesson.status is LessonStatus.CANDIDATE
        and all(trial.outcome is Outcome.FASTER for trial in candidate.trials)
        and not any(trial.log_speedup is not None for trial in candidate.contrary)
    )
    return (bound, candidate) if bound > 0 or first_sign else None


def _anti_pattern(candidate: Candidate) -> tuple[float, Candidate] | None:
    """How much harm it surely does; None if it is not to be shown."""
    lesson, found = candidate.lesson, candidate.estimate
    if lesson.kind is not LessonKind.ANTI_PATTERN:
        return None
    if not candidate.same_family and lesson.status is LessonStatus.CANDIDATE:
        return None
    if found is not None:
        harm = -found.upper(candidate.caution)
        return (harm, candidate) if harm > 0 else None
    if any(trial.outcome is Outcome.FASTER for trial in candidate.contrary):
        return None
    failures = len({(trial.run, trial.problem) for trial in candidate.trials})
    return FAILURE_COST * failures, candidate


def _best(
    scored: Iterable[tuple[float, Candidate] | None], similarities: Mapping[str, float], limit: int
) -> tuple[Hit, ...]:
    """The highest scores, one per template, so that a page shows different ideas."""
    hits = []
    for item in scored:
        if item is not None:
            bound, candidate = item
            similarity = similarities.get(candidate.lesson.id, 0.0)
            score = bound + SIMILARITY_WEIGHT * similarity
            hits.append((score, similarity, candidate))
    hits.sort(key=lambda hit: (-hit[0], hit[2].lesson.id))
    chosen: dict[str, Hit] = {}
    for score, similarity, candidate in hits:
        if len(chosen) < limit and candidate.lesson.template not in chosen:
            chosen[candidate.lesson.template] = Hit(
                lesson=candidate.lesson,
                score=score,
                similarity=similarity,
                reason=_reason(candidate),
            )
    return tuple(chosen.values())


def _reason(candidate: Candidate) -> str:
    lesson = candidate.lesson
    where = "same family and dtype"
    if not candidate.same_family:
        family = candidate.trials[0].context.family
        where = f"another family ({family}), so at half weight, same dtype"
    parts = [f"{findings(candidate.trials)}, {where}"]
    if candidate.contrary:
        parts.append(f"but also {findings(candidate.contrary)}")
    if lesson.status is LessonStatus.CONTESTED:
        parts.append("contested")
    if weak := weakness(lesson):
        parts.append(weak)
    return "; ".join(parts)


def weakness(lesson: Lesson) -> str | None:
    return "one problem only: weak" if lesson.status is LessonStatus.CANDIDATE else None


def findings(trials: Sequence[Evidence]) -> str:
    """`faster than the baseline by 31 % [28, 34] on rmsnorm (6 sessions)`."""
    measured = comparable(trials)
    if not measured:
        outcomes = sorted({trial.outcome.value.replace("_", " ") for trial in trials})
        return f"{' and '.join(outcomes)} on {_problems(trials)} ({len(trials)} trials)"
    opponent = "the baseline" if measured[0].against_baseline else "the best then known"
    sessions = sum(trial.sessions for trial in measured)
    logs = [trial.log_speedup or 0.0 for trial in measured]
    if len(measured) == 1:
        (trial,) = measured
        size = _percent(logs[0])
        if trial.log_low is not None and trial.log_high is not None:
            ends = sorted((_share(trial.log_low, logs[0]), _share(trial.log_high, logs[0])))
            size += f" [{ends[0]:.3g}, {ends[1]:.3g}]"
    else:
        size = f"{_percent(min(logs))} to {_percent(max(logs))} in {len(measured)} trials"
    return f"{_direction(logs)} {opponent} by {size} on {_problems(measured)} ({sessions} sessions)"


def _direction(logs: Sequence[float]) -> str:
    if all(value > 0 for value in logs):
        return "faster than"
    return "slower than" if all(value < 0 for value in logs) else "different from"


def _share(value: float, sign: float) -> float:
    """Percent by which times grow or shrink; positive in the direction of `sign`."""
    return 100 * (math.exp(value if sign >= 0 else -value) - 1)


def _percent(value: float) -> str:
    return f"{abs(_share(value, value)):.3g} %"


def _problems(trials: Sequence[Evidence]) -> str:
    names = sorted({trial.problem for trial in trials})
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(names[:3]) + more


def _abstention(known: int, candidates: int, context: Context) -> str:
    if not known:
        return "no lesson is known yet"
    place = ", ".join((context.target, context.architecture, context.rung, context.workload_class))
    dtypes = ", ".join(context.deciding_dtypes)
    if not candidates:
        return f"none of {known} lessons was learned under these conditions ({place}, {dtypes})"
    return f"of {candidates} lessons that hold here, none has a lower bound above no change"
