"""A person's question in plain words: what it filters, which lessons are near, and as JSON."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

from memory.derivation import counting
from memory.keywords import KeywordIndex, fuse
from memory.lesson import Evidence, Hit, Lesson, LessonStatus
from memory.recall import findings, weakness
from problems.definition import DType
from problems.problem import Target
from problems.record import Record
from problems.solution import Language
from problems.speed_of_light import WorkloadClass

LEAST_SIMILARITY = 0.35
"""Cosine below which a lesson that shares no word with the question is not an answer."""
DTYPE_WORDS = {
    DType.FLOAT64: ("fp64", "f64", "double"),
    DType.FLOAT32: ("fp32", "f32", "single precision"),
    DType.FLOAT16: ("fp16", "f16", "half precision"),
    DType.BFLOAT16: ("bf16",),
    DType.FLOAT8_E4M3FN: ("fp8", "f8", "e4m3"),
    DType.FLOAT8_E5M2: ("e5m2",),
    DType.INT8: ("i8",),
}
ARCHITECTURE_WORDS = {
    "sm_80": ("ampere", "a100"),
    "sm_89": ("ada", "l40"),
    "sm_90": ("hopper", "h100", "h200"),
    "sm_100": ("blackwell", "b200"),
    "avx2": (),
    "avx512": ("avx-512",),
    "neon": (),
}
"""As people name them."""


class Filters(Record):
    """Each that is given must be among the lesson's conditions."""

    target: Target | None = None
    architecture: str | None = None
    dtype: DType | None = None
    family: str | None = None
    workload_class: WorkloadClass | None = None
    rung: Language | None = None

    def allow(self, lesson: Lesson) -> bool:
        conditions = lesson.conditions
        pairs: tuple[tuple[str | None, tuple[str, ...]], ...] = (
            (self.target, conditions.targets),
            (self.architecture, conditions.architectures),
            (self.dtype, conditions.dtypes),
            (self.family, conditions.families),
            (self.workload_class, conditions.workload_classes),
            (self.rung, conditions.rungs),
        )
        return all(asked is None or asked in held for asked, held in pairs)


def document_of(lesson: Lesson) -> str:
    """What is indexed of a lesson, with the names that people use for its conditions."""
    conditions = lesson.conditions
    words: list[str] = [lesson.title, re.sub(r"[_:=,]", " ", lesson.technique)]
    words += [lesson.mechanism, lesson.action]
    words += [*conditions.families, *conditions.workload_classes, *conditions.rungs]
    words += conditions.targets
    for architecture in conditions.architectures:
        words += [architecture, *ARCHITECTURE_WORDS.get(architecture, ())]
    for dtype in conditions.dtypes:
        words += [dtype, *DTYPE_WORDS.get(dtype, ())]
    words += sorted({trial.problem for trial in lesson.evidence})
    return " ".join(word for word in words if word)


def implied_filters(text: str, given: Filters, lessons: Mapping[str, Lesson]) -> Filters:
    """Adds the architecture, language and target that the words name; the dtype only ranks."""
    known = {a for lesson in lessons.values() for a in lesson.conditions.architectures}
    found: dict[str, str] = {}
    if number := re.search(r"(?<![\w-])sm_?(\d{2,3}a?)(?![\w-])", text.lower()):
        found["architecture"] = f"sm_{number[1]}"
    for architecture in sorted(known | set(ARCHITECTURE_WORDS)):
        if _mentions(text, (architecture, *ARCHITECTURE_WORDS.get(architecture, ()))):
            found["architecture"] = architecture
    for rung in Language:
        if _mentions(text, (rung.value,)):
            found["rung"] = rung.value
    for target in Target:
        if _mentions(text, (target.value, *(("gpu",) if target is Target.CUDA else ()))):
            found["target"] = target.value
    return Filters.model_validate(found | given.model_dump(exclude_none=True))


def named_dtypes(text: str) -> tuple[DType, ...]:
    return tuple(d for d in DType if _mentions(text, (d.value, *DTYPE_WORDS.get(d, ()))))


def _mentions(text: str, words: tuple[str, ...]) -> bool:
    return any(re.search(rf"(?<![\w-]){re.escape(w)}(?![\w-])", text.lower()) for w in words)


def search(
    text: str,
    filters: Filters,
    lessons: Mapping[str, Lesson],
    keywords: KeywordIndex,
    similarities: Mapping[str, float],
    limit: int,
) -> tuple[Hit, ...]:
    """By words and by meaning, fused; what was learned in a dtype that `text` names comes first."""
    narrowed = implied_filters(text, filters, lessons)
    allowed = {
        found: lesson
        for found, lesson in lessons.items()
        if lesson.status is not LessonStatus.REVOKED and narrowed.allow(lesson)
    }
    scores = keywords.scores(text)
    near = {
        found
        for found in allowed
        if scores.get(found, 0.0) > 0 or similarities.get(found, 0.0) >= LEAST_SIMILARITY
    }
    fused = fuse(
        [{i: s for i, s in ranking.items() if i in near} for ranking in (scores, similarities)]
    )
    dtypes = set(named_dtypes(text))

    def order(found: str) -> tuple[bool, float, str]:
        fits = not dtypes or bool(dtypes & set(allowed[found].conditions.dtypes))
        return (not fits, -fused[found], found)

    return tuple(
        Hit(
            lesson=allowed[found],
            score=fused[found],
            similarity=similarities.get(found, 0.0),
            reason=_reason(allowed[found], dtypes),
        )
        for found in sorted(near, key=order)[:limit]
    )


def _reason(lesson: Lesson, asked: set[DType]) -> str:
    conditions = lesson.conditions
    where = ", ".join((*conditions.architectures, *conditions.dtypes))
    parts = [f"{findings(counting(lesson.evidence))}, on {where}"]
    if asked and not asked & set(conditions.dtypes):
        parts.append(f"not measured in {', '.join(sorted(asked))}")
    if lesson.status is LessonStatus.CONTESTED:
        parts.append("contested")
    if weak := weakness(lesson):
        parts.append(weak)
    return "; ".join(parts)


def as_json(hit: Hit) -> dict[str, object]:
    """The stable keys of `kagent memory query --json`."""
    lesson = hit.lesson
    return {
        "lesson": lesson.id,
        "title": lesson.title,
        "kind": lesson.kind.value,
        "status": lesson.status.value,
        "lower_bound": lesson.lower_bound,
        "conditions": lesson.conditions.model_dump(mode="json"),
        "evidence": [_evidence_json(trial) for trial in lesson.evidence],
        "reason": hit.reason,
    }


def _evidence_json(trial: Evidence) -> dict[str, object]:
    def ratio(value: float | None) -> float | None:
        return None if value is None else math.exp(value)

    return {
        "id": trial.id,
        "run": trial.run,
        "problem": trial.problem,
        "outcome": trial.outcome.value,
        "compared_with": trial.compared_with,
        "speedup": ratio(trial.log_speedup),
        "speedup_low": ratio(trial.log_low),
        "speedup_high": ratio(trial.log_high),
        "sessions": trial.sessions,
        "integrity": trial.integrity.value,
    }
