"""SIGKILL at random points: no accepted job is lost, none runs twice without a journaled reason."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from sandbox.blob_store import BlobStore
from scheduler.job import JobState
from scheduler.journal import Journal

KILLS = 20
JOBS = 40
PROCESS = """
import sys
from pathlib import Path
from sandbox.blob_store import BlobStore
from scheduler.fake_executor import FakeExecutor
from scheduler.job import Stage
from scheduler.local_scheduler import LocalScheduler
from tests.scheduler.samples import job

folder, jobs = Path(sys.argv[1]), int(sys.argv[2])


class Witnessed(FakeExecutor):
    def execute(self, spec):
        with (folder / "executed").open("a") as file:
            file.write(spec.key + "\\n")
        return super().execute(spec)


blobs = BlobStore(folder / "blobs")
executor = Witnessed(blobs)
with LocalScheduler(
    folder / "scheduler.db", blobs, executor, "run-1", lock_folder=folder
) as scheduler:
    accepted = []
    for number in range(jobs):
        spec = job(blobs, f"k{number}", Stage.CHECK, f"latency_ms={1 + number}, wait_s=0.01")
        accepted.append(scheduler.submit(spec).id)
        print("accepted", spec.key, accepted[-1], flush=True)
    for number, found in enumerate(accepted):
        seq = 0
        while not (record := scheduler.get(found)).state.final:
            seq = max([seq, *(event.seq for event in scheduler.wait(found, seq, 30))])
        print("ended", found, record.result, flush=True)
"""


def start(folder: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", PROCESS, str(folder), str(JOBS)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


@pytest.mark.slow
def test_killed_twenty_times(tmp_path: Path) -> None:
    chance = random.Random(7)
    lines: list[list[str]] = []
    for _ in range(KILLS):
        with start(tmp_path) as process:
            assert process.stdout is not None
            for _ in range(chance.randrange(1, 2 * JOBS - 5)):
                line = process.stdout.readline()
                lines.append(line.split())
                if line.startswith("ended") and chance.random() < 0.2:
                    break
            process.send_signal(signal.SIGKILL)
            lines += [line.split() for line in process.stdout if line.endswith("\n")]
        assert process.returncode == -signal.SIGKILL
    with start(tmp_path) as process:
        output, _ = process.communicate(timeout=120)
    assert process.returncode == 0
    lines += [line.split() for line in output.splitlines()]

    accepted = {(line[1], line[2]) for line in lines if line[:1] == ["accepted"]}
    results = {(line[1], line[2]) for line in lines if line[:1] == ["ended"]}
    assert len(accepted) == JOBS == len({key for key, _ in accepted})
    assert len(results) == JOBS == len({found for found, _ in results})
    executions = Counter((tmp_path / "executed").read_text().split())
    journal = Journal(tmp_path / "scheduler.db")
    lost = 0
    for key, found in accepted:
        record = journal.get(found, 0.0)
        assert record.state is JobState.SUCCEEDED
        assert record.result is not None
        assert BlobStore(tmp_path / "blobs").get(record.result)
        events = journal.events(found, 0)
        assert [event.state for event in events].count(JobState.SUCCEEDED) == 1
        while_running = [e for e in events if "process died (running" in e.detail]
        assert executions[key] <= 1 + len(while_running), key
        lost += len(while_running)
    journal.close()
    assert lost > 0, "no kill hit a running job: the test proved nothing"
