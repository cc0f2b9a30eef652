"""A run in a process that is really killed, again and again."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest

from agent.attempt import Phase, Proposal
from agent.journal import read_entries, read_state
from tests.agent.fake_run import RUN, SCRIPT


def _process(folder: Path, lines_until_death: int | None) -> bool:
    """Whether it lived to its end."""
    command = [sys.executable, "-m", "tests.agent.fake_process", str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        for number, _ in enumerate(process.stdout, start=1):
            if number == lines_until_death:
                process.kill()
                break
        assert process.stderr is not None
        errors = process.stderr.read()
        code = process.wait(timeout=60)
    if lines_until_death is None:
        assert code == 0, errors.decode()
    return code == 0


@pytest.mark.slow
def test_sigkill_at_any_moment_loses_and_repeats_nothing(tmp_path: Path) -> None:
    for lines in (1, 2, 3, 4, 3, 2):
        if _process(tmp_path, lines):
            break
    _process(tmp_path, None) if read_state(tmp_path / RUN).phase is not Phase.FINISHED else None
    state = read_state(tmp_path / RUN)
    assert state.phase is Phase.FINISHED
    names = [decision.solution.name for decision in SCRIPT if isinstance(decision, Proposal)]
    assert [attempt.name for attempt in state.attempts] == names
    assert [attempt.name for attempt in state.attempts if attempt.promoted][-1] == "better"
    kinds = Counter(entry.event.kind for entry in read_entries(tmp_path / RUN))
    assert kinds["proposed"] == len(names)
    assert kinds["judged"] == kinds["finished"] == kinds["run_started"] == 1
    active_s = [entry.active_s for entry in read_entries(tmp_path / RUN)]
    assert active_s == sorted(active_s)
    _check_jobs(tmp_path / "scheduler.db")


def _check_jobs(journal: Path) -> None:
    """Each was executed once, or lost in a kill, which the scheduler journaled."""
    with closing(sqlite3.connect(journal)) as database:
        jobs = database.execute("SELECT key, state, attempt FROM job").fetchall()
        lost = database.execute("SELECT detail FROM event WHERE detail LIKE 'attempt lost%'")
        lost_count = len(lost.fetchall())
    assert {state for _, state, _ in jobs} == {"succeeded"}
    assert sum(attempt - 1 for _, _, attempt in jobs) == lost_count
