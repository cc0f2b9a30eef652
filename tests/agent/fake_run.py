"""A whole run on fakes in a folder, and processes that die at a chosen event."""

from __future__ import annotations

from collections.abc import Sequence
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
from problems.hardware import Hardware, cpu_hardware
from problems.problem import Problem, Target
from problems.record import digest_of
from problems.solution import Solution
from sandbox.blob_store import BlobStore
from scheduler.local_scheduler import LocalScheduler
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


def kernel(name: str, simulate: str, body: str | None = None) -> Solution:
    text = f"// simulate: {simulate}\nint {body or name};"
    return Solution.model_validate(
        {
            "name": name,
            "definition": "rmsnorm",
            "author": "test",
            "spec": {"languages": ["cpp"], "entry_point": "kernel.cpp::run"},
            "sources": [{"path": "kernel.cpp", "content": text}],
        }
    )


def proposal(name: str, simulate: str, *, hold: bool = False, body: str | None = None) -> Proposal:
    return Proposal(
        solution=kernel(name, simulate, body),
        hypothesis=f"{name} is faster",
        technique=f"test:{name}",
        hold=hold,
    )


SCRIPT: tuple[Decision, ...] = (
    proposal("first", "latency_ms=0.5"),
    proposal("broken", "status=COMPILE_ERROR"),
    proposal("wrong", "status=INCORRECT_NUMERICAL"),
    proposal("again", "latency_ms=0.3", body="  first /* a duplicate */"),
    proposal("held", "latency_ms=0.4", hold=True),
    Confirm(attempt=4),
    proposal("slower", "latency_ms=0.9"),
    proposal("better", "latency_ms=0.3"),
    Stop(reason="the script is at its end"),
)
EAGER_MS = 1.25
"""torch.compile takes 1 ms on the simulated device."""


def simulated_problem() -> Problem:
    problem = load_problem("rmsnorm")
    reference = f"# simulate: latency_ms={EAGER_MS}\n{problem.definition.reference}"
    definition = problem.definition.model_copy(update={"reference": reference})
    return problem.model_copy(update={"definition": definition})


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
        self.problem = simulated_problem()
        self.policy: Policy = ScriptedPolicy(script)
        self.total_s = total_s
        self.seen: list[RunState] = []

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
            scheduler = LocalScheduler(
                self.folder / "scheduler.db",
                self.blobs,
                self.machine,
                RUN,
                lock_folder=self.folder,
            )
            with scheduler:
                return Run(self._parts(journal, scheduler)).finish()

    def _parts(self, journal: Journal, scheduler: LocalScheduler) -> Parts:
        pipeline = Pipeline(scheduler, self.blobs, RUN, self.problem, Target.CPU)
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
    return cpu_hardware(
        measured.ceilings,
        name="a simulated device",
        cores=2,
        cache_bytes=1 << 20,
        launch_overhead_us=1.0,
    )
