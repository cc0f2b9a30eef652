"""A memory in RAM with the real gate, derivation and recall: for tests and demonstrations."""

from __future__ import annotations

from memory.derivation import derive, lesson_id
from memory.embedding import HashingEmbedder
from memory.exact_index import ExactIndex
from memory.gate import refusal
from memory.keywords import KeywordIndex
from memory.lesson import Context, Evidence, Hit, Integrity, Lesson, Recall
from memory.recall import MAX_STRATEGIES, recall
from memory.search import Filters, document_of, search


class FakeMemory:
    """Forgets everything when it is closed; similarity by hashed words."""

    notices: tuple[str, ...] = ()

    def __init__(self) -> None:
        self._trials: dict[str, Evidence] = {}
        self._revoked: set[str] = set()

    def recall(self, context: Context, question: str, limit: int = MAX_STRATEGIES) -> Recall:
        lessons = derive(self._trials.values())
        return recall(lessons.values(), context, self._similarities(lessons, question), limit)

    def query(self, text: str, filters: Filters, limit: int = 10) -> tuple[Hit, ...]:
        lessons = derive(self._trials.values())
        keywords = KeywordIndex({i: document_of(lesson) for i, lesson in lessons.items()})
        near = self._similarities(lessons, text)
        return search(text, filters, lessons, keywords, near, limit)

    def record(self, trial: Evidence) -> str | None:
        if refusal(trial) or trial.run in self._revoked:
            return None
        return lesson_id(self._trials.setdefault(trial.id, trial))

    def lessons(self) -> tuple[Lesson, ...]:
        return tuple(derive(self._trials.values()).values())

    def revoke(self, run: str) -> int:
        fresh = [i for i, trial in self._trials.items() if trial.run == run]
        if run in self._revoked:
            return 0
        self._revoked.add(run)
        for found in fresh:
            revoked = {"integrity": Integrity.REVOKED}
            self._trials[found] = self._trials[found].model_copy(update=revoked)
        return len(fresh)

    def close(self) -> None:
        self._trials.clear()

    def _similarities(self, lessons: dict[str, Lesson], question: str) -> dict[str, float]:
        index = ExactIndex(HashingEmbedder())
        index.sync({found: document_of(lesson) for found, lesson in lessons.items()}, 0)
        return index.nearest(question)
