"""The memory of this machine: the lesson store, its indexes, the gate and the recall together."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from memory.chroma_index import ChromaIndex, ChromaUnavailable
from memory.embedding import Embedder, installed_embedder
from memory.exact_index import ExactIndex
from memory.gate import refusal
from memory.keywords import KeywordIndex
from memory.lesson import Context, Evidence, Hit, Lesson, Recall
from memory.lesson_store import LessonStore
from memory.recall import MAX_STRATEGIES, recall
from memory.search import Filters, document_of, search
from memory.vector_index import VectorIndex
from problems.record import Record


class MemoryStats(Record):
    lessons: int
    evidence: int
    problems: int
    runs: int
    by_kind: dict[str, int]
    by_status: dict[str, int]
    by_outcome: dict[str, int]


class LocalMemory:
    """Nothing but the store is opened until a question is asked; a context manager."""

    def __init__(
        self,
        home: Path,
        embedder: Embedder | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """
        Raises:
            ConfigError: `lessons.db` is damaged or from a newer version.
            InfrastructureError: it cannot be opened or written.
        """
        self._store = LessonStore(home / "lessons.db")
        self._index_folder = home / "lesson-index"
        self._embedder = embedder or installed_embedder()
        self._clock = clock
        self._index: VectorIndex | None = None
        self._documents: dict[str, str] = {}
        self._keywords = KeywordIndex({})
        self._indexed_generation = -1
        self._notices: list[str] = [self._embedder.notice] if self._embedder.notice else []

    def __enter__(self) -> LocalMemory:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def recall(self, context: Context, question: str, limit: int = MAX_STRATEGIES) -> Recall:
        lessons = self._store.lessons()
        similarities = self._similarities(question) if lessons else {}
        return recall(lessons.values(), context, similarities, limit)

    def query(self, text: str, filters: Filters, limit: int = 10) -> tuple[Hit, ...]:
        lessons = self._store.lessons()
        similarities = self._similarities(text) if lessons else {}
        return search(text, filters, lessons, self._keywords, similarities, limit)

    def record(self, trial: Evidence) -> str | None:
        return None if refusal(trial) else self._store.add(trial)

    def lessons(self) -> tuple[Lesson, ...]:
        return tuple(self._store.lessons().values())

    def revoke(self, run: str) -> int:
        return self._store.revoke(run, self._clock())

    def stats(self) -> MemoryStats:
        lessons = self.lessons()
        trials = [trial for lesson in lessons for trial in lesson.evidence]
        return MemoryStats(
            lessons=len(lessons),
            evidence=len(trials),
            problems=len({trial.problem for trial in trials}),
            runs=len({trial.run for trial in trials}),
            by_kind=dict(Counter(lesson.kind.value for lesson in lessons)),
            by_status=dict(Counter(lesson.status.value for lesson in lessons)),
            by_outcome=dict(Counter(trial.outcome.value for trial in trials)),
        )

    @property
    def notices(self) -> tuple[str, ...]:
        return tuple(self._notices)

    @property
    def index_name(self) -> str | None:
        """`chroma` or `exact`; None before the first question."""
        return self._index.name if self._index else None

    def close(self) -> None:
        if self._index is not None:
            self._index.close()
        self._store.close()

    def _similarities(self, question: str) -> dict[str, float]:
        try:
            return self._ask(question)
        except ChromaUnavailable as reason:
            self._notices.append(f"memory: {reason}; every lesson is compared instead")
            self._index = ExactIndex(self._embedder)
            self._indexed_generation = -1
            return self._ask(question)

    def _ask(self, question: str) -> dict[str, float]:
        if self._index is None:
            self._index = ChromaIndex(self._index_folder, self._embedder)
        generation = self._store.loaded_generation
        if generation != self._indexed_generation:
            lessons = self._store.lessons()
            self._documents = {found: document_of(lesson) for found, lesson in lessons.items()}
            self._keywords = KeywordIndex(self._documents)
            self._index.sync(self._documents, generation)
            self._indexed_generation = generation
        return self._index.nearest(question)
