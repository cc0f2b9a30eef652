"""The queue of record: jobs and their events in SQLite, committed before anything is told.

It executes nothing and measures no time: both are passed in.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path

from pydantic import ValidationError

from problems.record import Digest, Record, digest_of, first_problem
from scheduler.job import JobEvent, JobRecord, JobSpec, JobState
from scheduler.journal_database import JournalDatabase
from scheduler.scheduler import QueueSnapshot, SpecConflict, UnknownJob

MAX_RETRIES = 2
"""Of an infrastructure failure; a candidate's failure is a result and never retried."""


class Claim(Record):
    """The right to execute a job once; a later claim makes it worthless."""

    job: str
    fence: int
    spec: JobSpec


class Journal:
    """Several processes may have it open, and the threads of each may share one object."""

    def __init__(self, path: Path) -> None:
        """
        Raises:
            JournalError: it is damaged, from a newer version, or not writable; it is left as it is.
        """
        self._database = JournalDatabase(path)

    def submit(self, spec: JobSpec, now: float) -> str:
        """The job's id, the same for the same run and key.

        Raises:
            SpecConflict: the key stands for another spec.
        """
        job = digest_of(f"{spec.run}\n{spec.key}".encode())[:32]
        body = spec.canonical_json()
        digest = digest_of(body.encode())
        with self._database.writing() as connection:
            known = connection.execute(
                "SELECT spec_sha256 FROM job WHERE run = ? AND key = ?", (spec.run, spec.key)
            ).fetchone()
            if known is None:
                connection.execute(
                    "INSERT INTO job (id, run, key, spec, spec_sha256, state, submitted_unix_s)"
                    " VALUES (?, ?, ?, ?, ?, ?, ?)",
                    (job, spec.run, spec.key, body, digest, JobState.QUEUED, now),
                )
                self._event(job, JobState.QUEUED, "accepted", now)
            elif known[0] != digest:
                raise SpecConflict(
                    f"run {spec.run}: the key {spec.key} stands for another job "
                    f"(spec {known[0][:12]}, not {digest[:12]})"
                )
        return job

    def get(self, job: str, now: float) -> JobRecord:
        """
        Raises:
            UnknownJob: no job has that id.
        """
        row = self._row(job)
        until_s = row["claimed_unix_s"] if row["claimed_unix_s"] is not None else now
        return JobRecord(
            id=row["id"],
            spec=row["spec_sha256"],
            run=row["run"],
            key=row["key"],
            stage=self._spec(row).stage,
            state=JobState(row["state"]),
            fence=row["fence"],
            attempt=row["attempt"],
            queued_s=max(0.0, until_s - row["submitted_unix_s"]),
            device_s=row["device_s"],
            result=row["result"],
            error=row["error"],
        )

    def events(self, job: str, after_seq: int) -> tuple[JobEvent, ...]:
        with self._database.session() as connection:
            rows = connection.execute(
                "SELECT seq, job, state, detail, unix_s FROM event WHERE job = ? AND seq > ?"
                " ORDER BY seq",
                (job, after_seq),
            ).fetchall()
        return tuple(JobEvent.model_validate(dict(row)) for row in rows)

    def claim(self, run: str, now: float) -> Claim | None:
        """The oldest queued job of the run, under a new fence; None if there is none."""
        with self._database.writing() as connection:
            row = connection.execute(
                "SELECT * FROM job WHERE run = ? AND state = ? ORDER BY number LIMIT 1",
                (run, JobState.QUEUED),
            ).fetchone()
            if row is None:
                return None
            claim = Claim(job=row["id"], fence=row["fence"] + 1, spec=self._spec(row))
            connection.execute(
                "UPDATE job SET state = ?, fence = ?, attempt = attempt + 1, claimed_unix_s = ?"
                " WHERE id = ?",
                (JobState.CLAIMED, claim.fence, now, claim.job),
            )
            self._event(claim.job, JobState.CLAIMED, f"fence {claim.fence}", now)
        return claim

    def start(self, claim: Claim, now: float) -> bool:
        """Must be called before the executor is; False: the claim is worthless, don't execute."""
        with self._database.writing():
            if self._held(claim) is not JobState.CLAIMED:
                return False
            self._move(claim.job, JobState.RUNNING, f"fence {claim.fence}", now)
        return True

    def finish(self, claim: Claim, result: Digest, device_s: float, now: float) -> bool:
        """False: the claim is worthless, and the result was not taken."""
        with self._database.writing() as connection:
            if self._held(claim) is not JobState.RUNNING:
                self._reject(claim, now)
                return False
            connection.execute(
                "UPDATE job SET result = ?, error = NULL, device_s = device_s + ? WHERE id = ?",
                (result, device_s, claim.job),
            )
            self._move(claim.job, JobState.SUCCEEDED, f"result {result[:12]}", now)
        return True

    def fail(self, claim: Claim, error: str, device_s: float, now: float) -> bool:
        """The machine failed: queued again, or final after `MAX_RETRIES` retries."""
        with self._database.writing() as connection:
            if self._held(claim) not in (JobState.CLAIMED, JobState.RUNNING):
                self._reject(claim, now)
                return False
            failures = 1 + self._row(claim.job)["failures"]
            connection.execute(
                "UPDATE job SET failures = ?, error = ?, device_s = device_s + ? WHERE id = ?",
                (failures, error, device_s, claim.job),
            )
            state = JobState.QUEUED if failures <= MAX_RETRIES else JobState.INFRA_FAILED
            detail = f"infrastructure failed, try {failures} of {1 + MAX_RETRIES}: {error}"
            self._move(claim.job, state, detail, now)
        return True

    def give_up(self, claim: Claim, reason: str, now: float) -> bool:
        """Queued again, without counting as a failure; whatever it was doing is lost."""
        with self._database.writing():
            if self._held(claim) not in (JobState.CLAIMED, JobState.RUNNING):
                return False
            self._move(claim.job, JobState.QUEUED, f"attempt lost: {reason}", now)
        return True

    def recover(self, run: str, now: float) -> tuple[str, ...]:
        """Requeues what a dead process of the run had claimed; call it as its only executor."""
        with self._database.writing() as connection:
            rows = connection.execute(
                "SELECT id, state, fence FROM job WHERE run = ? AND state IN (?, ?)",
                (run, JobState.CLAIMED, JobState.RUNNING),
            ).fetchall()
            for row in rows:
                detail = f"attempt lost: its process died ({row['state']}, fence {row['fence']})"
                self._move(row["id"], JobState.QUEUED, detail, now)
        return tuple(row["id"] for row in rows)

    def ended_without_result(self, run: str) -> frozenset[str]:
        """Jobs that ended without a result: they may be asked for again by a later process."""
        with self._database.session() as connection:
            rows = connection.execute(
                "SELECT id FROM job WHERE run = ? AND state IN (?, ?)",
                (run, JobState.CANCELLED, JobState.INFRA_FAILED),
            ).fetchall()
        return frozenset(row["id"] for row in rows)

    def revive(self, job: str, now: float) -> None:
        """Queue a job again that ended without a result."""
        with self._database.writing() as connection:
            state = JobState(self._row(job)["state"])
            if state in (JobState.CANCELLED, JobState.INFRA_FAILED):
                connection.execute("UPDATE job SET failures = 0 WHERE id = ?", (job,))
                self._move(job, JobState.QUEUED, f"asked for again after it was {state}", now)

    def cancel(self, job: str, reason: str, now: float) -> bool:
        """False if it was final; a running job's result will not be taken.

        Raises:
            UnknownJob: no job has that id.
        """
        with self._database.writing() as connection:
            if JobState(self._row(job)["state"]).final:
                return False
            connection.execute("UPDATE job SET error = ? WHERE id = ?", (reason, job))
            self._move(job, JobState.CANCELLED, reason, now)
        return True

    def queue(self, run: str, now: float) -> QueueSnapshot:
        with self._database.session() as connection:
            queued, oldest = connection.execute(
                "SELECT count(*), min(submitted_unix_s) FROM job WHERE run = ? AND state = ?",
                (run, JobState.QUEUED),
            ).fetchone()
            (running,) = connection.execute(
                "SELECT count(*) FROM job WHERE run = ? AND state IN (?, ?)",
                (run, JobState.CLAIMED, JobState.RUNNING),
            ).fetchone()
        age_s = max(0.0, now - oldest) if queued else 0.0
        return QueueSnapshot(queued=queued, running=running, oldest_s=age_s)

    def close(self) -> None:
        self._database.close()

    def _held(self, claim: Claim) -> JobState | None:
        """The job's state if the claim is its latest."""
        row = self._row(claim.job)
        return JobState(row["state"]) if row["fence"] == claim.fence else None

    def _reject(self, claim: Claim, now: float) -> None:
        state = JobState(self._row(claim.job)["state"])
        self._event(claim.job, state, f"late answer under fence {claim.fence} rejected", now)

    def _move(self, job: str, state: JobState, detail: str, now: float) -> None:
        with self._database.session() as connection:
            connection.execute("UPDATE job SET state = ? WHERE id = ?", (state, job))
        self._event(job, state, detail, now)

    def _event(self, job: str, state: JobState, detail: str, now: float) -> None:
        with self._database.session() as connection:
            connection.execute(
                "INSERT INTO event (job, state, detail, unix_s) VALUES (?, ?, ?, ?)",
                (job, state, detail, now),
            )

    def _row(self, job: str) -> sqlite3.Row:
        with self._database.session() as connection:
            row: sqlite3.Row | None = connection.execute(
                "SELECT * FROM job WHERE id = ?", (job,)
            ).fetchone()
        if row is None:
            raise UnknownJob(f"no job has the id {job}")
        return row

    def _spec(self, row: sqlite3.Row) -> JobSpec:
        try:
            return JobSpec.model_validate_json(row["spec"])
        except ValidationError as error:
            raise self._database.damaged(f"job {row['id']}: {first_problem(error)}") from None
