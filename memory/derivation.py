"""From evidence to lessons: grouping, conditions, status and lower bound, never typed in."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from memory.lesson import (
    Conditions,
    Context,
    Evidence,
    Integrity,
    Lesson,
    LessonKind,
    LessonStatus,
    Outcome,
    deciding_dtypes,
)
from memory.statistics import estimate
from problems.record import digest_of

INTENSITY_FACTOR = 8.0
BYTES_FACTOR = 64
"""How far beyond the sizes that were measured a lesson is taken to hold."""


class Topic(NamedTuple):
    """What a lesson is about; its two kinds are two lessons."""

    technique: str
    family: str
    rung: str
    target: str


def topic_of(trial: Evidence) -> Topic:
    context = trial.context
    return Topic(
        technique=trial.technique,
        family=context.family,
        rung=context.rung,
        target=context.target,
    )


def kind_of(trial: Evidence) -> LessonKind:
    """No difference belongs to the strategy: it lowers its bound."""
    helped = trial.outcome in (Outcome.FASTER, Outcome.NO_DIFFERENCE)
    return LessonKind.STRATEGY if helped else LessonKind.ANTI_PATTERN


def lesson_id(trial: Evidence) -> str:
    """The same for all evidence of one lesson, in every process and after every rebuild."""
    key = json.dumps([kind_of(trial), *topic_of(trial)])
    return f"lesson-{digest_of(key.encode())[:12]}"


def derive(trials: Iterable[Evidence]) -> dict[str, Lesson]:
    """All lessons by id; evidence that does not count is kept in them, for the record."""
    groups: dict[str, list[Evidence]] = {}
    topics: dict[Topic, dict[LessonKind, str]] = {}
    for trial in trials:
        found = lesson_id(trial)
        groups.setdefault(found, []).append(trial)
        topics.setdefault(topic_of(trial), {})[kind_of(trial)] = found
    lessons = {}
    for kinds in topics.values():
        for kind, found in kinds.items():
            other = next((groups[i] for k, i in kinds.items() if k is not kind), [])
            lessons[found] = _lesson(found, kind, groups[found], other)
    return lessons


def _lesson(
    found: str, kind: LessonKind, trials: Sequence[Evidence], opposite: Sequence[Evidence]
) -> Lesson:
    clean = counting(trials)
    conditions = conditions_of(clean or trials)
    contrary = tuple(t for t in counting(opposite) if conditions.matches(t.context))
    latest = max(clean or trials, key=lambda trial: (trial.unix_s, trial.id))
    bound = estimate((*clean, *contrary))
    return Lesson(
        id=found,
        kind=kind,
        title=latest.title,
        technique=latest.technique,
        mechanism=latest.mechanism,
        action=latest.action,
        status=_status(clean, contrary),
        conditions=conditions,
        evidence=tuple(trials),
        lower_bound=bound.lower() if bound else None,
    )


def counting(trials: Iterable[Evidence]) -> tuple[Evidence, ...]:
    return tuple(trial for trial in trials if trial.integrity is Integrity.CLEAN)


def conditions_of(trials: Sequence[Evidence]) -> Conditions:
    """As wide as what was measured, with a margin on the two sizes."""
    contexts = [trial.context for trial in trials]
    intensities = [context.arithmetic_intensity for context in contexts]
    sizes = [context.compulsory_bytes for context in contexts]
    dtypes = {dtype for context in contexts for dtype in deciding_dtypes(context.dtypes)}
    return Conditions(
        targets=tuple(sorted({context.target for context in contexts})),
        architectures=tuple(sorted({context.architecture for context in contexts})),
        families=tuple(sorted({context.family for context in contexts})),
        workload_classes=tuple(sorted({context.workload_class for context in contexts})),
        dtypes=tuple(sorted(dtypes)),
        rungs=tuple(sorted({context.rung for context in contexts})),
        intensity_low=min(intensities) / INTENSITY_FACTOR,
        intensity_high=max(intensities) * INTENSITY_FACTOR,
        bytes_low=min(sizes) // BYTES_FACTOR,
        bytes_high=max(sizes) * BYTES_FACTOR,
    )


def _status(clean: Sequence[Evidence], contrary: Sequence[Evidence]) -> LessonStatus:
    if not clean:
        return LessonStatus.REVOKED
    if _contradicts(clean, contrary):
        return LessonStatus.CONTESTED
    repeated = len({t.problem for t in clean}) > 1 or len({t.run for t in clean}) > 1
    return LessonStatus.ACTIVE if repeated else LessonStatus.CANDIDATE


def _contradicts(clean: Sequence[Evidence], contrary: Sequence[Evidence]) -> bool:
    """Faster and slower than the same kind of opponent, both beyond doubt."""
    decided = {Outcome.FASTER, Outcome.SLOWER}

    def signs(trials: Sequence[Evidence], baseline: bool) -> set[Outcome]:
        return {t.outcome for t in trials if t.against_baseline is baseline} & decided

    return any(
        len(signs(clean, baseline) | signs(contrary, baseline)) > 1 for baseline in (True, False)
    )


def holds(learned: Context, asked: Context) -> bool:
    """What was learned in one context is taken to hold in another, families aside."""
    return (
        learned.target is asked.target
        and learned.architecture == asked.architecture
        and learned.workload_class is asked.workload_class
        and learned.rung is asked.rung
        and not set(learned.deciding_dtypes).isdisjoint(asked.deciding_dtypes)
        and _near(learned.arithmetic_intensity, asked.arithmetic_intensity, INTENSITY_FACTOR)
        and _near(learned.compulsory_bytes, asked.compulsory_bytes, BYTES_FACTOR)
    )


def _near(a: float, b: float, factor: float) -> bool:
    return a <= b * factor and b <= a * factor
