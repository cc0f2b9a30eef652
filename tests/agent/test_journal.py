from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from agent import events
from agent.journal import HEARTBEAT_S, VERSION, Journal, read_entries, read_state
from problems.errors import ConfigError, InfrastructureError
from problems.problem import Target
from problems.record import digest_of
from tests.agent.fake_machine import FakeClock
from tests.agent.fake_run import simulated_problem


def _started() -> events.RunStarted:
    return events.RunStarted(
        run="r",
        problem=simulated_problem(),
        target=Target.CPU,
        policy="scripted",
        total_s=60.0,
        seed_sha256=digest_of(b"seed"),
    )


def _open(folder: Path, clock: FakeClock) -> Journal:
    return Journal(folder, clock, clock)


def test_what_was_appended_is_there_after_reopening(tmp_path: Path) -> None:
    clock = FakeClock()
    with _open(tmp_path, clock) as journal:
        journal.append(_started())
        clock.now += 3
        state = journal.append(events.Noted(notice="a fallback"))
    with _open(tmp_path, clock) as journal:
        assert journal.state == state == read_state(tmp_path)
        assert journal.state.notices == ("a fallback",)


def test_time_between_processes_is_not_spent(tmp_path: Path) -> None:
    clock = FakeClock()
    with _open(tmp_path, clock) as journal:
        journal.append(_started())
        clock.now += 7
        journal.append(events.Heartbeat())
    clock.now += 1000
    with _open(tmp_path, clock) as journal:
        assert journal.active_s == 7
        clock.now += 2
        assert journal.append(events.Heartbeat()).spent_s == 9


def test_heartbeats_are_not_more_frequent_than_they_must(tmp_path: Path) -> None:
    clock = FakeClock()
    with _open(tmp_path, clock) as journal:
        journal.append(_started())
        for _ in range(10):
            clock.now += HEARTBEAT_S / 2
            journal.heartbeat()
    kinds = [entry.event.kind for entry in read_entries(tmp_path)]
    assert kinds == ["run_started"] + ["heartbeat"] * 5


def test_two_processes_cannot_work_on_one_run(tmp_path: Path) -> None:
    clock = FakeClock()
    with _open(tmp_path, clock), pytest.raises(ConfigError, match="another kagent process"):
        _open(tmp_path, clock)
    _open(tmp_path, clock).close()


def test_a_run_at_work_can_be_read(tmp_path: Path) -> None:
    with _open(tmp_path, FakeClock()) as journal:
        journal.append(_started())
        assert read_state(tmp_path) == journal.state


@pytest.mark.parametrize("change", ["UPDATE events SET event = '{}'", "DELETE FROM events"])
def test_nothing_can_be_changed(tmp_path: Path, change: str) -> None:
    with _open(tmp_path, FakeClock()) as journal:
        journal.append(_started())
    with (
        closing(sqlite3.connect(tmp_path / "journal.db")) as database,
        pytest.raises(sqlite3.IntegrityError, match="append-only"),
    ):
        database.execute(change)


def test_a_damaged_event_is_named(tmp_path: Path) -> None:
    with _open(tmp_path, FakeClock()) as journal:
        journal.append(_started())
    with closing(sqlite3.connect(tmp_path / "journal.db")) as database:
        database.execute('INSERT INTO events VALUES (2, 0, 0, \'{"kind": "nonsense"}\')')
        database.commit()
    with pytest.raises(InfrastructureError, match="event 2 is damaged"):
        read_state(tmp_path)


def test_a_newer_journal_is_refused(tmp_path: Path) -> None:
    with _open(tmp_path, FakeClock()) as journal:
        journal.append(_started())
    with closing(sqlite3.connect(tmp_path / "journal.db")) as database:
        database.execute(f"PRAGMA user_version = {VERSION + 1}")
    with pytest.raises(ConfigError, match="newer kagent"):
        _open(tmp_path, FakeClock())


def test_no_journal_is_no_run(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no run is there"):
        read_state(tmp_path)


def test_a_run_that_never_started_says_so(tmp_path: Path) -> None:
    with _open(tmp_path, FakeClock()) as journal, pytest.raises(ConfigError, match="never started"):
        assert journal.state


def test_the_first_event_must_start_the_run(tmp_path: Path) -> None:
    with (
        _open(tmp_path, FakeClock()) as journal,
        pytest.raises(ValueError, match="run_started"),
    ):
        journal.append(events.Heartbeat())
