from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from memory.lesson_store import LessonStore
from problems.errors import ConfigError, InfrastructureError
from tests.memory.samples import trial

WRITER = """
import sys
from pathlib import Path
from memory.lesson_store import LessonStore
from tests.memory.samples import trial
store = LessonStore(Path(sys.argv[1]))
for index in range(int(sys.argv[3])):
    name = f"{sys.argv[2]}-{index}"
    store.add(trial(name, technique=name, run=sys.argv[2]))
    print(name, flush=True)
"""


def start_writer(path: Path, name: str, count: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", WRITER, str(path), name, str(count)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def stored(path: Path) -> set[str]:
    store = LessonStore(path)
    try:
        return {t.id for lesson in store.lessons().values() for t in lesson.evidence}
    finally:
        store.close()


@pytest.mark.slow
def test_no_acknowledged_row_is_lost_when_a_writer_is_killed(tmp_path: Path) -> None:
    path = tmp_path / "lessons.db"
    acknowledged: set[str] = set()
    for kill in range(5):
        with start_writer(path, f"w{kill}", 10_000) as writer:
            assert writer.stdout is not None
            for _ in range(7 + 13 * kill):
                acknowledged.add(writer.stdout.readline().strip())
            writer.send_signal(signal.SIGKILL)
            acknowledged |= {line.strip() for line in writer.stdout if line.endswith("\n")}
        assert acknowledged <= stored(path)


@pytest.mark.slow
def test_two_processes_write_at_once(tmp_path: Path) -> None:
    path = tmp_path / "lessons.db"
    writers = [start_writer(path, name, 100) for name in ("a", "b")]
    for writer in writers:
        writer.communicate()
        assert writer.returncode == 0
    assert stored(path) == {f"{name}-{index}" for name in "ab" for index in range(100)}


def test_another_objects_rows_are_seen(tmp_path: Path) -> None:
    first, second = LessonStore(tmp_path / "lessons.db"), LessonStore(tmp_path / "lessons.db")
    first.add(trial("a"))
    assert len(second.lessons()) == 1
    first.add(trial("b", technique="other"))
    second.revoke("run-1", 0.0)
    assert [t.integrity for x in first.lessons().values() for t in x.evidence] == ["revoked"] * 2
    assert first.add(trial("c")) is None
    first.close()
    second.close()


def test_evidence_cannot_be_changed_or_deleted(tmp_path: Path) -> None:
    store = LessonStore(tmp_path / "lessons.db")
    store.add(trial())
    store.close()
    connection = sqlite3.connect(tmp_path / "lessons.db")
    for statement in ("DELETE FROM evidence", "UPDATE evidence SET run = 'x'"):
        with pytest.raises(sqlite3.IntegrityError, match="append-only"):
            connection.execute(statement)
    connection.close()


def test_a_newer_version_is_refused_with_the_reason(tmp_path: Path) -> None:
    path = tmp_path / "lessons.db"
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 9")
    connection.close()
    with pytest.raises(ConfigError, match=r"lessons\.db has schema 9 of a newer kagent"):
        LessonStore(path)


@pytest.mark.parametrize("length", [100, 9000])
def test_a_damaged_file_is_named_and_left_alone(tmp_path: Path, length: int) -> None:
    path = tmp_path / "lessons.db"
    damaged = b"not a database at all" * (length // 21)
    path.write_bytes(damaged)
    with pytest.raises(ConfigError, match=r"lessons\.db is damaged .*move it away"):
        LessonStore(path)
    assert path.read_bytes() == damaged


def test_damage_inside_is_found(tmp_path: Path) -> None:
    path = tmp_path / "lessons.db"
    store = LessonStore(path)
    for index in range(200):
        store.add(trial(f"t{index}"))
    store.close()
    with path.open("r+b") as file:
        file.seek(4096 * 5)
        file.write(b"\xa5" * 4096 * 6)
    with pytest.raises(ConfigError, match="is damaged"):
        LessonStore(path)


def test_a_damaged_row_is_named(tmp_path: Path) -> None:
    path = tmp_path / "lessons.db"
    LessonStore(path).close()
    connection = sqlite3.connect(path)
    connection.execute("INSERT INTO evidence VALUES (1, 'odd', 'l', 'r', '{}')")
    connection.execute("UPDATE counter SET generation = 1")
    connection.commit()
    connection.close()
    store = LessonStore(path)
    with pytest.raises(ConfigError, match="evidence odd"):
        store.lessons()
    store.close()


def test_a_folder_that_cannot_be_is_an_infrastructure_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InfrastructureError, match="lesson store"):
        LessonStore(tmp_path / "file" / "lessons.db")
