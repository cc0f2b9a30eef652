from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from sandbox.blob_store import BlobStore
from scheduler.job import JobState
from scheduler.journal import Journal
from scheduler.scheduler import JournalError, SpecConflict, UnknownJob
from tests.scheduler.samples import job

RESULT = "a" * 64


@pytest.fixture
def blobs(tmp_path: Path) -> BlobStore:
    return BlobStore(tmp_path / "blobs")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "scheduler.db"


def test_the_same_key_is_the_same_job_and_another_spec_a_conflict(
    path: Path, blobs: BlobStore
) -> None:
    journal = Journal(path)
    first = journal.submit(job(blobs, "k"), 1.0)
    assert journal.submit(job(blobs, "k"), 2.0) == first
    assert len(journal.events(first, 0)) == 1
    with pytest.raises(SpecConflict, match="the key k stands for another job"):
        journal.submit(job(blobs, "k", simulate="latency_ms=9"), 3.0)
    assert journal.submit(job(blobs, "k", run="run-2"), 4.0) != first
    journal.close()


def test_a_jobs_way_in_order_and_its_times(path: Path, blobs: BlobStore) -> None:
    journal = Journal(path)
    first, second = (journal.submit(job(blobs, key), 10.0) for key in ("a", "b"))
    assert journal.get(first, 12.0).queued_s == 2.0
    claim = journal.claim("run-1", 13.0)
    assert claim is not None
    assert claim.job == first
    assert journal.start(claim, 14.0)
    assert journal.queue("run-1", 15.0).model_dump() == {
        "queued": 1, "running": 1, "oldest_s": 5.0,
    }  # fmt: skip
    assert journal.finish(claim, RESULT, 0.5, 15.0)
    record = journal.get(first, 99.0)
    assert (record.state, record.result) == (JobState.SUCCEEDED, RESULT)
    assert (record.queued_s, record.device_s, record.fence, record.attempt) == (3.0, 0.5, 1, 1)
    states = [event.state for event in journal.events(first, 0)]
    assert states == ["queued", "claimed", "running", "succeeded"]
    assert journal.get(second, 20.0).state is JobState.QUEUED
    assert journal.claim("another run", 20.0) is None
    journal.close()


def test_only_the_latest_fence_may_answer_and_only_once(path: Path, blobs: BlobStore) -> None:
    journal = Journal(path)
    found = journal.submit(job(blobs, "a"), 0.0)
    old = journal.claim("run-1", 1.0)
    assert old is not None
    assert journal.start(old, 1.0)
    assert journal.recover("run-1", 2.0) == (found,)
    assert not journal.finish(old, RESULT, 1.0, 3.0)
    new = journal.claim("run-1", 4.0)
    assert new is not None
    assert new.fence == old.fence + 1
    assert not journal.start(old, 5.0)
    assert not journal.fail(old, "late", 1.0, 5.0)
    assert not journal.give_up(old, "late", 5.0)
    assert not journal.finish(new, RESULT, 1.0, 5.0)
    assert journal.start(new, 6.0)
    assert journal.finish(new, RESULT, 1.0, 7.0)
    assert not journal.finish(new, "b" * 64, 1.0, 8.0)
    assert journal.get(found, 9.0).result == RESULT
    details = [event.detail for event in journal.events(found, 0)]
    assert "attempt lost: its process died (running, fence 1)" in details
    assert "late answer under fence 1 rejected" in details
    journal.close()


def test_the_machine_may_fail_twice_but_not_three_times(path: Path, blobs: BlobStore) -> None:
    journal = Journal(path)
    found = journal.submit(job(blobs, "a"), 0.0)
    states = []
    for number in range(3):
        claim = journal.claim("run-1", 1.0)
        assert claim is not None
        assert journal.start(claim, 1.0)
        assert journal.fail(claim, f"broken {number}", 0.25, 2.0)
        states.append(journal.get(found, 3.0).state)
    assert states == [JobState.QUEUED, JobState.QUEUED, JobState.INFRA_FAILED]
    assert journal.claim("run-1", 4.0) is None
    record = journal.get(found, 4.0)
    assert (record.error, record.attempt, record.device_s) == ("broken 2", 3, 0.75)
    assert journal.events(found, 0)[-1].detail == ("infrastructure failed, try 3 of 3: broken 2")
    assert journal.ended_without_result("run-1") == {found}
    journal.revive(found, 5.0)
    assert journal.get(found, 6.0).state is JobState.QUEUED
    journal.close()


def test_cancelling(path: Path, blobs: BlobStore) -> None:
    journal = Journal(path)
    found = journal.submit(job(blobs, "a"), 0.0)
    claim = journal.claim("run-1", 1.0)
    assert claim is not None
    assert journal.start(claim, 1.0)
    assert journal.cancel(found, "no longer needed", 2.0)
    assert not journal.cancel(found, "again", 3.0)
    assert not journal.finish(claim, RESULT, 1.0, 4.0)
    record = journal.get(found, 5.0)
    assert (record.state, record.error) == (JobState.CANCELLED, "no longer needed")
    for ask in (journal.get, lambda job, now: journal.cancel(job, "", now)):
        with pytest.raises(UnknownJob, match="no job has the id nobody"):
            ask("nobody", 0.0)
    journal.close()


def test_events_cannot_be_rewritten(path: Path, blobs: BlobStore) -> None:
    journal = Journal(path)
    journal.submit(job(blobs, "a"), 0.0)
    journal.close()
    connection = sqlite3.connect(path)
    for statement in ("DELETE FROM event", "UPDATE event SET detail = ''"):
        with pytest.raises(sqlite3.IntegrityError, match="append-only"):
            connection.execute(statement)
    connection.close()


def test_a_newer_version_is_refused(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 7")
    connection.close()
    with pytest.raises(JournalError, match="schema 7 of a newer kagent"):
        Journal(path)


def test_a_damaged_file_is_named_with_the_way_back_and_left_alone(path: Path) -> None:
    path.write_bytes(b"garbage " * 1000)
    with pytest.raises(JournalError, match=r"scheduler\.db is damaged .*move it away"):
        Journal(path)
    assert path.read_bytes() == b"garbage " * 1000


def test_a_place_that_cannot_be_written_accepts_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(JournalError, match="scheduler journal"):
        Journal(tmp_path / "file" / "scheduler.db")
