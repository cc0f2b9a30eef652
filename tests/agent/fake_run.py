"""A whole run on fakes in a folder, and processes that die at a chosen event."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from agent import events
from agent.attempt import Confirm, Decision, Proposal, RunState, Stop
from agent.controller import Controller
from agent.journal import Journal
from agent.judge import Judge
from agent.pipeline import Pipeline
from agent.policies.policy import Policy
from agent.policies.scripted_policy import ScriptedPolicy
from agent.run import Parts, Run
from agent.trials import Trials
from memory.fake_memory import FakeMemory
from memory.memory import Memory
from problems.catalog import load_problem
from problems.hardware import CPU_GUARD_MARGIN, Hardware, Peaks
from problems.problem import Problem, Target
from problems.record import digest_of
from problems.solution import Solution
from sandbox.blob_store import BlobStore
from tests.agent.fake_machine import FakeClock, FakeMachine

SEED = b"a secret of thirty-two bytes...."
RUN = "rmsnorm-test"


class Killed(BaseException):
    """The process is gone."""


class MortalJournal(Journal):
    """Dies at the n-th append of this process: before it is durable, or right after."""

    dies_at: int | None = None
    before_commit = False
    appends = 0

    def append(self, event: events.Event) -> RunState:
        self.appends += 1
        dies = self.appends == self.dies_at
        if dies and self.before_commit:
            raise Killed
        state = super().append(event)
        if dies:
            raise Killed
        return state


def kernel(name: str, text: str, language: str = "cpp") -> Solution:
    return Solution.model_validate(
        {
            "name": name,
            "definition": "rmsnorm",
            "author": "test",
            "spec": {"languages": [language], "entry_point": "kernel.cpp::run"},
            "sources": [{"path": "kernel.cpp", "content": f"int {text};"}],
        }
    )


def proposal(name: str, text: str, *, hold: bool = False) -> Proposal:
    return Proposal(
        solution=kernel(name, text),
        hypothesis=f"{name} is faster",
        technique=f"test:{name}",
        hold=hold,
    )


SCRIPT: tuple[Decision, ...] = (
    proposal("first", "speed = 2.0"),
    proposal("broken", "fails_as_COMPILE_ERROR_in_build"),
    proposal("wrong", "fails_as_INCORRECT_NUMERICAL_in_check"),
    proposal("again", "speed  =  2.0 /* a duplicate */"),
    proposal("held", "speed = 2.5", hold=True),
    Confirm(attempt=4),
    proposal("slower", "speed = 1.1"),
    proposal("better", "speed = 3.0"),
    Stop(reason="the script is at its end"),
)


class FakeRun:
    """What outlives a process: the folder, the scheduler's journal, the memory, the clock."""

    def __init__(
        self, folder: Path, script: Sequence[Decision] = SCRIPT, total_s: float = 600.0
    ) -> None:
        self.folder = folder
        self.clock = FakeClock()
        self.blobs = BlobStore(folder / "blobs")
        self.machine = FakeMachine(self.blobs, self.clock)
        self.memory: Memory = FakeMemory()
        self.problem: Problem = load_problem("rmsnorm")
        self.policy: Policy = ScriptedPolicy(script)
        self.total_s = total_s
        self.seen: list[RunState] = []
        self.measured_ceilings = 0

    def process(self, dies_at: int | None = None, *, before_commit: bool = False) -> RunState:
        """One process, from start or resume to its end.

        Raises:
            Killed: at the `dies_at`-th event that it journals.
        """
        with MortalJournal(self.folder / RUN, self.clock, self.clock) as journal:
            journal.dies_at, journal.before_commit = dies_at, before_commit
            if journal.empty:
                journal.append(
                    events.RunStarted(
                        run=RUN,
                        problem=self.problem,
                        target=Target.CPU,
                        policy=self.policy.name,
                        total_s=self.total_s,
                        seed_sha256=digest_of(SEED),
                    )
                )
            return Run(self._parts(journal)).finish()

    def _parts(self, journal: Journal) -> Parts:
        pipeline = Pipeline(
            self.machine, self.blobs, RUN, self.problem, Target.CPU, journal.heartbeat
        )
        return Parts(
            journal=journal,
            pipeline=pipeline,
            policy=self.policy,
            trials=Trials(pipeline, Controller(self.problem, Target.CPU, pipeline.solution)),
            judge=Judge(pipeline, SEED, 4),
            memory=self.memory,
            hardware=lambda: hardware_of(pipeline),
            architecture="avx2",
            report=self._report,
            clock=self.clock,
            hidden_workloads=4,
            watch=self.seen.append,
        )

    def _report(self, state: RunState) -> Path:
        path = self.folder / RUN / "report.html"
        path.write_text(f"{len(state.attempts)} attempts")
        return path


def hardware_of(pipeline: Pipeline) -> Hardware:
    measured = pipeline.ceilings()
    assert measured.ceilings is not None
    peaks = measured.ceilings
    return Hardware(
        name="simulated CPU",
        target=Target.CPU,
        cores=2,
        cache_bytes=1 << 20,
        datasheet=Peaks(
            bytes_per_s=peaks.bytes_per_s * CPU_GUARD_MARGIN,
            vector_operations_per_s=peaks.vector_operations_per_s * CPU_GUARD_MARGIN,
            matrix_operations_per_s={},
        ),
        datasheet_source="simulated",
        measured=peaks,
        launch_overhead_us=2.0,
    )


def run_to_the_end(run: FakeRun, kill: Callable[[], RunState]) -> RunState:
    try:
        return kill()
    except Killed:
        return run.process()
