"""The SQLite file under the scheduler's journal: schema, transactions, and errors in words."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from problems.write_ahead_log import use_write_ahead_log
from scheduler.scheduler import JournalError

SCHEMA_VERSION = 1
BUSY_TIMEOUT_S = 30.0
_SCHEMA = (
    """CREATE TABLE job (
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        id TEXT NOT NULL UNIQUE,
        run TEXT NOT NULL,
        key TEXT NOT NULL,
        spec TEXT NOT NULL,
        spec_sha256 TEXT NOT NULL,
        state TEXT NOT NULL,
        fence INTEGER NOT NULL DEFAULT 0,
        attempt INTEGER NOT NULL DEFAULT 0,
        failures INTEGER NOT NULL DEFAULT 0,
        submitted_unix_s REAL NOT NULL,
        claimed_unix_s REAL,
        device_s REAL NOT NULL DEFAULT 0,
        result TEXT,
        error TEXT,
        UNIQUE (run, key)
    ) STRICT""",
    """CREATE TABLE event (
        seq INTEGER PRIMARY KEY AUTOINCREMENT,
        job TEXT NOT NULL REFERENCES job (id),
        state TEXT NOT NULL,
        detail TEXT NOT NULL,
        unix_s REAL NOT NULL
    ) STRICT""",
    "CREATE INDEX job_state ON job (run, state, number)",
    "CREATE INDEX event_job ON event (job, seq)",
    """CREATE TRIGGER event_keeps BEFORE UPDATE ON event
        BEGIN SELECT RAISE(ABORT, 'events are append-only'); END""",
    """CREATE TRIGGER event_stays BEFORE DELETE ON event
        BEGIN SELECT RAISE(ABORT, 'events are append-only'); END""",
)


class JournalDatabase:
    """One connection that the threads of a process share."""

    def __init__(self, path: Path) -> None:
        """
        Raises:
            JournalError: it is damaged, from a newer version, or not writable; it is left as it is.
        """
        self._path = path
        self._lock = threading.RLock()
        with self._errors():
            path.parent.mkdir(parents=True, exist_ok=True)
            self._connection = sqlite3.connect(
                path, timeout=BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False
            )
            try:
                self._prepare()
            except BaseException:
                self._connection.close()
                raise

    @contextmanager
    def session(self) -> Iterator[sqlite3.Connection]:
        """Reads, or a part of the transaction that this thread is in."""
        with self._lock, self._errors():
            yield self._connection

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """One transaction; committed and on disk when it ends without an exception."""
        with self._lock, self._errors():
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise

    def damaged(self, what: str) -> JournalError:
        return JournalError(
            f"{self._path} is damaged ({' '.join(what.split())[:200]}): put a copy of it back, or "
            f"move it away: runs can then be resumed, and their stages run again"
        )

    def close(self) -> None:
        with self._lock:
            self._connection.close()

    def _prepare(self) -> None:
        connection = self._connection
        connection.row_factory = sqlite3.Row
        use_write_ahead_log(connection, BUSY_TIMEOUT_S)
        if self._version() == 0:
            with self.writing():
                if self._version() == 0:
                    for statement in _SCHEMA:
                        connection.execute(statement)
                    connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
        version = self._version()
        if version > SCHEMA_VERSION:
            raise JournalError(
                f"{self._path} has schema {version} of a newer kagent; this one knows "
                f"{SCHEMA_VERSION}: upgrade kagent, or choose another KAGENT_HOME"
            )
        verdict = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
        if verdict != "ok":
            raise self.damaged(str(verdict))

    def _version(self) -> int:
        return int(self._connection.execute("PRAGMA user_version").fetchone()[0])

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.OperationalError, OSError) as error:
            raise JournalError(f"scheduler journal {self._path}: {error}") from error
        except sqlite3.DatabaseError as error:
            raise self.damaged(str(error)) from error
