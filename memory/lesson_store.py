"""The record of all lessons: evidence in SQLite, append-only, durable when `add` returns."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pydantic import ValidationError

from memory.derivation import derive, lesson_id
from memory.lesson import Evidence, Integrity, Lesson
from problems.errors import ConfigError, InfrastructureError
from problems.record import first_problem
from problems.write_ahead_log import use_write_ahead_log

SCHEMA_VERSION = 1
BUSY_TIMEOUT_S = 30.0
_SCHEMA = """
CREATE TABLE evidence (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    lesson TEXT NOT NULL,
    run TEXT NOT NULL,
    body TEXT NOT NULL
) STRICT;
CREATE INDEX evidence_run ON evidence (run);
CREATE TABLE revocation (run TEXT PRIMARY KEY, unix_s REAL NOT NULL) STRICT;
CREATE TABLE counter (generation INTEGER NOT NULL) STRICT;
INSERT INTO counter VALUES (0);
CREATE TRIGGER evidence_keeps BEFORE UPDATE ON evidence
    BEGIN SELECT RAISE(ABORT, 'evidence is append-only'); END;
CREATE TRIGGER evidence_stays BEFORE DELETE ON evidence
    BEGIN SELECT RAISE(ABORT, 'evidence is append-only'); END;
"""


class LessonStore:
    """Any number of processes may write; one object belongs to one thread."""

    def __init__(self, path: Path) -> None:
        """
        Raises:
            ConfigError: the file is damaged, or from a newer version; it is left as it is.
            InfrastructureError: it cannot be opened or written.
        """
        self._path = path
        self._evidence: dict[str, Evidence] = {}
        self._last_seq = 0
        self._revoked: frozenset[str] = frozenset()
        self._lessons: dict[str, Lesson] = {}
        self._generation = -1
        with self._errors():
            path.parent.mkdir(parents=True, exist_ok=True)
            self._connection = sqlite3.connect(path, timeout=BUSY_TIMEOUT_S, isolation_level=None)
            try:
                self._prepare()
            except BaseException:
                self._connection.close()
                raise

    def add(self, trial: Evidence) -> str | None:
        """Durable on return; the lesson's id. None where the run was revoked: nothing is kept."""
        found = lesson_id(trial)
        with self._errors(), self._writing() as connection:
            row = connection.execute(
                "SELECT lesson FROM evidence WHERE id = ?", (trial.id,)
            ).fetchone()
            if self._is_revoked(trial.run):
                return None
            if row is not None:
                return str(row[0])
            connection.execute(
                "INSERT INTO evidence (id, lesson, run, body) VALUES (?, ?, ?, ?)",
                (trial.id, found, trial.run, trial.canonical_json()),
            )
            connection.execute("UPDATE counter SET generation = generation + 1")
        return found

    def revoke(self, run: str, unix_s: float) -> int:
        """Rows that stop counting by this call; they stay in the record."""
        with self._errors(), self._writing() as connection:
            if self._is_revoked(run):
                return 0
            connection.execute("INSERT INTO revocation VALUES (?, ?)", (run, unix_s))
            connection.execute("UPDATE counter SET generation = generation + 1")
            count = connection.execute(
                "SELECT count(*) FROM evidence WHERE run = ?", (run,)
            ).fetchone()
        return int(count[0])

    @property
    def generation(self) -> int:
        """Grows with every write of any process."""
        with self._errors():
            row = self._connection.execute("SELECT generation FROM counter").fetchone()
        return int(row[0])

    def lessons(self) -> dict[str, Lesson]:
        """All lessons by id, as of the latest commit; parsed again only where rows are new."""
        with self._errors():
            self._connection.execute("BEGIN")
            try:
                generation = self.generation
                if generation != self._generation:
                    self._refresh()
                    self._lessons = derive(self._evidence.values())
                    self._generation = generation
            finally:
                self._connection.execute("COMMIT")
        return self._lessons

    @property
    def loaded_generation(self) -> int:
        """The generation that `lessons` last answered from."""
        return self._generation

    def close(self) -> None:
        self._connection.close()

    def _refresh(self) -> None:
        rows = self._connection.execute(
            "SELECT seq, id, body FROM evidence WHERE seq > ? ORDER BY seq", (self._last_seq,)
        )
        for seq, found, body in rows:
            self._evidence[found] = self._parse(found, body)
            self._last_seq = seq
        revoked = frozenset(
            run for (run,) in self._connection.execute("SELECT run FROM revocation")
        )
        self._revoked = revoked
        for found, trial in self._evidence.items():
            if trial.run in revoked and trial.integrity is not Integrity.REVOKED:
                self._evidence[found] = trial.model_copy(update={"integrity": Integrity.REVOKED})

    def _parse(self, found: str, body: str) -> Evidence:
        try:
            return Evidence.model_validate_json(body)
        except ValidationError as error:
            raise self._damaged(f"evidence {found}: {first_problem(error)}") from None

    def _is_revoked(self, run: str) -> bool:
        query = "SELECT 1 FROM revocation WHERE run = ?"
        return self._connection.execute(query, (run,)).fetchone() is not None

    def _prepare(self) -> None:
        connection = self._connection
        use_write_ahead_log(connection, BUSY_TIMEOUT_S)
        version = self._version()
        if version == 0:
            with self._writing():
                if self._version() == 0:
                    for statement in _statements(_SCHEMA):
                        connection.execute(statement)
                    connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
            version = SCHEMA_VERSION
        if version > SCHEMA_VERSION:
            raise ConfigError(
                f"{self._path} has schema {version} of a newer kagent; this one knows "
                f"{SCHEMA_VERSION}: upgrade kagent, or choose another KAGENT_HOME"
            )
        verdict = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
        if verdict != "ok":
            raise self._damaged(str(verdict))

    def _version(self) -> int:
        return int(self._connection.execute("PRAGMA user_version").fetchone()[0])

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield self._connection
        except BaseException:
            self._connection.execute("ROLLBACK")
            raise
        self._connection.execute("COMMIT")

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.OperationalError as error:
            raise InfrastructureError(f"lesson store {self._path}: {error}") from error
        except sqlite3.DatabaseError as error:
            raise self._damaged(str(error)) from error
        except OSError as error:
            raise InfrastructureError(f"lesson store {self._path}: {error}") from error

    def _damaged(self, what: str) -> ConfigError:
        return ConfigError(
            f"{self._path} is damaged ({_one_line(what)}): put a copy of it back, or move it away "
            f"to begin with an empty memory"
        )


def _statements(script: str) -> Iterator[str]:
    statement = ""
    for line in script.strip().splitlines():
        statement += line + "\n"
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""


def _one_line(text: str) -> str:
    return " ".join(text.split())[:200]
