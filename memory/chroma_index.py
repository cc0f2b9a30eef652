"""The vector index on Chroma: one process at a time, checked when opened, rebuilt when in doubt.

Several processes that write one Chroma folder lose vectors without an error (facts/memory.md, D2),
so it is opened by the holder of `lesson-index.lock` only.
"""

from __future__ import annotations

import fcntl
import json
import shutil
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from memory.embedding import Embedder
from memory.vector_index import NEAREST, checksum_of, text_checksums
from problems.record import Record

_COLLECTION = "lessons"
_CONFIGURATION = {
    "hnsw": {
        "space": "cosine",
        "ef_construction": 200,
        "ef_search": 2 * NEAREST,
        "sync_threshold": 1_000_000,
        "batch_size": 100_000,
    }
}
"""Below the sync threshold the log is replayed at each opening: no row was lost under SIGKILL."""
_BATCH = 1000


class ChromaUnavailable(Exception):
    """Why Chroma cannot serve this process; the exact index can."""


class Stamp(Record):
    """What the folder held when it was last written, beside it."""

    embedder: str
    generation: int
    rows: int
    checksum: str


class ChromaIndex:
    """Embeddings are passed in; Chroma downloads and computes none."""

    name = "chroma"

    def __init__(self, folder: Path, embedder: Embedder) -> None:
        """
        Raises:
            ChromaUnavailable: it is not installed, or another process has it open.
        """
        self._folder = folder
        self._stamp_path = folder.with_name(f"{folder.name}.stamp")
        self._embedder = embedder
        self._chromadb = _import_chromadb()
        self._lock = _lock(folder.with_name(f"{folder.name}.lock"))
        self._client: Any = None
        self._collection: Any = None
        self._checksums: dict[str, str] = {}
        self._generation = -1
        self.rebuilt: str | None = None
        """Why it was made anew since it was opened; None if it was not."""

    def sync(self, texts: Mapping[str, str], generation: int) -> None:
        """
        Raises:
            ChromaUnavailable: it cannot be written, e.g. on a full disk.
        """
        with self._failures():
            self._sync(texts, generation)

    def nearest(self, question: str, limit: int = NEAREST) -> dict[str, float]:
        """
        Raises:
            ChromaUnavailable: it cannot be read.
        """
        with self._failures():
            return self._nearest(question, limit)

    def close(self) -> None:
        if self._client is not None:
            self._client.close()
        self._client = self._collection = None
        self._lock.close()

    def _sync(self, texts: Mapping[str, str], generation: int) -> None:
        if self._collection is None:
            self._open(generation)
        if generation < self._generation:
            self._rebuild("the lesson store is older than the index")
        checksums = text_checksums(texts)
        if set(self._checksums) - set(checksums):
            self._rebuild("it holds lessons that the store does not")
        changed = [i for i, value in checksums.items() if self._checksums.get(i) != value]
        if not changed and self._generation == generation:
            return
        self._stamp_path.unlink(missing_ok=True)
        for start in range(0, len(changed), _BATCH):
            batch = changed[start : start + _BATCH]
            self._collection.upsert(
                ids=batch,
                embeddings=self._embedder.embed([texts[found] for found in batch]),
                metadatas=[{"text_sha256": checksums[found]} for found in batch],
            )
        self._checksums, self._generation = checksums, generation
        self._write_stamp()

    def _nearest(self, question: str, limit: int) -> dict[str, float]:
        if not self._checksums:
            return {}
        answer = self._collection.query(
            query_embeddings=self._embedder.embed([question]),
            n_results=min(limit, len(self._checksums)),
            include=["distances"],
        )
        return {
            found: 1.0 - float(distance)
            for found, distance in zip(answer["ids"][0], answer["distances"][0], strict=True)
        }

    @contextmanager
    def _failures(self) -> Iterator[None]:
        try:
            yield
        except (self._chromadb.errors.ChromaError, OSError) as error:
            self.close()
            raise ChromaUnavailable(f"its index failed ({error})") from error

    def _open(self, generation: int) -> None:
        problem = "it was never finished"
        if self._stamp_path.is_file():
            problem = self._load(generation) or ""
        elif not self._folder.exists():
            problem = "it is new"
        if problem:
            self._rebuild(problem)

    def _load(self, generation: int) -> str | None:
        """Why what is on disk cannot be used; None if it can."""
        try:
            stamp = Stamp.model_validate_json(self._stamp_path.read_bytes())
        except ValueError:
            return "its stamp is damaged"
        if stamp.embedder != self._embedder.id:
            return f"it was made with {stamp.embedder}"
        if stamp.generation > generation:
            return "the lesson store is older than the index"
        try:
            self._connect()
            held = self._collection.get(include=["metadatas", "embeddings"])
        except (self._chromadb.errors.ChromaError, ValueError, KeyError, OSError) as error:
            return f"Chroma cannot read it: {error}"
        checksums = {
            found: str(metadata["text_sha256"])
            for found, metadata in zip(held["ids"], held["metadatas"], strict=True)
        }
        whole = len(held["embeddings"]) == stamp.rows == len(checksums)
        if not whole or checksum_of(checksums) != stamp.checksum:
            return "its rows are not those that were written"
        self._checksums, self._generation = checksums, stamp.generation
        return None

    def _rebuild(self, reason: str) -> None:
        if self._client is not None:
            self._client.close()
        self._client = self._collection = None
        # Chroma keeps a system that failed to start, and would hand it out again for this path.
        self._chromadb.api.client.SharedSystemClient.clear_system_cache()
        self._stamp_path.unlink(missing_ok=True)
        shutil.rmtree(self._folder, ignore_errors=True)
        self._checksums, self._generation = {}, -1
        self.rebuilt = reason
        self._connect()

    def _connect(self) -> None:
        self._client = self._chromadb.PersistentClient(
            path=str(self._folder),
            settings=self._chromadb.config.Settings(anonymized_telemetry=False),
        )
        self._collection = self._client.get_or_create_collection(
            _COLLECTION, embedding_function=None, configuration=_CONFIGURATION
        )

    def _write_stamp(self) -> None:
        stamp = Stamp(
            embedder=self._embedder.id,
            generation=self._generation,
            rows=len(self._checksums),
            checksum=checksum_of(self._checksums),
        )
        temporary = self._stamp_path.with_suffix(".new")
        temporary.write_text(json.dumps(stamp.model_dump()))
        temporary.replace(self._stamp_path)


def _import_chromadb() -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            import chromadb
            import chromadb.errors
    except ImportError as error:
        raise ChromaUnavailable(f"chromadb cannot be imported ({error})") from error
    return chromadb


def _lock(path: Path) -> IO[str]:
    path.parent.mkdir(parents=True, exist_ok=True)
    file = path.open("a")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        file.close()
        raise ChromaUnavailable("another kagent process has the index open") from error
    return file
