"""The append-only journal of one run: SQLite, committed before anything is told about it."""

from __future__ import annotations

import fcntl
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self, TextIO

from pydantic import TypeAdapter, ValidationError

from agent.attempt import RunState
from agent.events import Entry, Event, Heartbeat
from agent.fold import fold
from problems.errors import ConfigError, InfrastructureError

VERSION = 1
HEARTBEAT_S = 2.0
"""A killed process loses at most this, and one poll of the scheduler, of the active seconds."""
_SCHEMA = f"""
CREATE TABLE IF NOT EXISTS events (
    seq INTEGER PRIMARY KEY, unix_s REAL NOT NULL, active_s REAL NOT NULL, event TEXT NOT NULL
) STRICT;
CREATE TRIGGER IF NOT EXISTS append_only_update BEFORE UPDATE ON events
    BEGIN SELECT RAISE(ABORT, 'the journal is append-only'); END;
CREATE TRIGGER IF NOT EXISTS append_only_delete BEFORE DELETE ON events
    BEGIN SELECT RAISE(ABORT, 'the journal is append-only'); END;
PRAGMA user_version = {VERSION};
"""
_EVENT: TypeAdapter[Event] = TypeAdapter(Event)


class Journal:
    """One process at a time may have it open; a context manager.

    `clock` is wall time and `monotonic` counts the seconds at work, both in seconds.
    """

    def __init__(
        self, folder: Path, clock: Callable[[], float], monotonic: Callable[[], float]
    ) -> None:
        """
        Raises:
            ConfigError: another process works on the run, or a newer kagent wrote it.
            InfrastructureError: the journal is damaged, or the disk is full or not writable.
        """
        self._clock = clock
        self._monotonic = monotonic
        self._path = folder / "journal.db"
        self._lock = _lock(folder)
        try:
            self._database = _open(self._path)
            self._entries = 0
            self._state: RunState | None = None
            for entry in _read(self._database, self._path):
                self._fold(entry)
        except BaseException:
            self._lock.close()
            raise
        self._before_s = self._state.spent_s if self._state else 0.0
        self._opened_s = monotonic()

    @property
    def empty(self) -> bool:
        return self._state is None

    @property
    def state(self) -> RunState:
        """
        Raises:
            ConfigError: nothing was journaled yet: the run never started.
        """
        if self._state is None:
            raise ConfigError(f"{self._path.parent.name}: the run never started; start a new one")
        return self._state

    @property
    def active_s(self) -> float:
        """Seconds at work so far, of all processes of the run."""
        return self._before_s + self._monotonic() - self._opened_s

    def append(self, event: Event) -> RunState:
        """Durable on return.

        Raises:
            InfrastructureError: the disk is full or not writable; nothing was journaled.
        """
        entry = Entry(
            seq=self._entries + 1, unix_s=self._clock(), active_s=self.active_s, event=event
        )
        row = (entry.seq, entry.unix_s, entry.active_s, event.model_dump_json())
        with _disk_errors(self._path):
            self._database.execute("INSERT INTO events VALUES (?, ?, ?, ?)", row)
        return self._fold(entry)

    def heartbeat(self) -> None:
        """Journals the active seconds if the last entry is older than `HEARTBEAT_S`."""
        if self._state and self.active_s - self._state.spent_s >= HEARTBEAT_S:
            self.append(Heartbeat())

    def close(self) -> None:
        self._database.close()
        self._lock.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _fold(self, entry: Entry) -> RunState:
        self._state = fold(self._state, entry)
        self._entries = entry.seq
        return self._state


def read_entries(folder: Path) -> tuple[Entry, ...]:
    """Of a run that may be at work; () if it never started.

    Raises:
        ConfigError: there is no journal, or a newer kagent wrote it.
        InfrastructureError: the journal is damaged.
    """
    path = folder / "journal.db"
    if not path.exists():
        raise ConfigError(f"{folder}: no run is there (no journal.db)")
    with _disk_errors(path):
        database = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    with closing(database):
        return tuple(_read(database, path))


def read_state(folder: Path) -> RunState:
    """
    Raises:
        ConfigError: there is no journal, the run never started, or a newer kagent wrote it.
        InfrastructureError: the journal is damaged.
    """
    state = None
    for entry in read_entries(folder):
        state = fold(state, entry)
    if state is None:
        raise ConfigError(f"{folder.name}: the run never started")
    return state


def _lock(folder: Path) -> TextIO:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = (folder / "lock").open("w")
    except OSError as error:
        raise InfrastructureError(f"cannot open the run {folder}: {error.strerror}") from error
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        raise ConfigError(
            f"{folder.name}: another kagent process is at work on this run; "
            "wait for it, or stop it first"
        ) from None
    return file


def _open(path: Path) -> sqlite3.Connection:
    with _disk_errors(path):
        database = sqlite3.connect(path, isolation_level=None)
        _check_version(database, path)
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = FULL")
        database.executescript(_SCHEMA)
    return database


def _check_version(database: sqlite3.Connection, path: Path) -> None:
    version = database.execute("PRAGMA user_version").fetchone()[0]
    if version > VERSION:
        raise ConfigError(f"{path}: written by a newer kagent (version {version} > {VERSION})")


def _read(database: sqlite3.Connection, path: Path) -> Iterator[Entry]:
    with _disk_errors(path):
        _check_version(database, path)
        rows = database.execute(
            "SELECT seq, unix_s, active_s, event FROM events ORDER BY seq"
        ).fetchall()
    for number, (seq, unix_s, active_s, text) in enumerate(rows, start=1):
        try:
            if seq != number:
                raise ValueError(f"event {number} is missing")
            event = _EVENT.validate_json(text)
        except (ValidationError, ValueError) as error:
            raise InfrastructureError(f"{path}: event {seq} is damaged: {error}") from error
        yield Entry(seq=seq, unix_s=unix_s, active_s=active_s, event=event)


@contextmanager
def _disk_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise InfrastructureError(f"{path}: {error}") from error
