"""A scheduler in RAM over a simulated machine: sources say how fast and how right they are."""

from __future__ import annotations

import json
import math
import re

from problems.evaluation import (
    Clock,
    Correctness,
    Environment,
    Evaluation,
    Performance,
    Session,
    Status,
)
from problems.hardware import Peaks
from problems.paired import compare_workload
from problems.problem import Problem
from problems.solution import Language, Solution
from problems.speed_of_light import Analysis
from problems.trace import Trace
from problems.workload import Workload
from sandbox.blob_store import BlobStore
from scheduler.job import JobEvent, JobRecord, JobSpec, JobState, Stage, StageResult
from scheduler.scheduler import QueueSnapshot

EAGER_MS = 1.0
COMPILED_SPEED = 1.25
COST_S = {
    Stage.CEILINGS: 3.0, Stage.ANALYZE: 1.0, Stage.BUILD: 1.0, Stage.CHECK: 0.5,
    Stage.SCREEN: 1.0, Stage.CONFIRM: 5.0, Stage.JUDGE: 4.0,
}  # fmt: skip


class FakeClock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class FakeMachine:
    """Sources carry `speed=1.5` (against eager) and optionally `fails=STATUS@stage`."""

    def __init__(self, blobs: BlobStore, clock: FakeClock) -> None:
        self._blobs = blobs
        self._clock = clock
        self._specs: dict[str, JobSpec] = {}
        self._results: dict[str, StageResult] = {}
        self.executed: list[str] = []

    def submit(self, spec: JobSpec) -> JobRecord:
        job = f"{spec.run}/{spec.key}"
        known = self._specs.setdefault(job, spec)
        assert known == spec, f"the key {spec.key} stands for another spec"
        return self.get(job)

    def get(self, job: str) -> JobRecord:
        spec, result = self._specs[job], self._results.get(job)
        return JobRecord(
            id=job,
            spec=spec.content_digest(),
            run=spec.run,
            key=spec.key,
            stage=spec.stage,
            state=JobState.SUCCEEDED if result else JobState.QUEUED,
            fence=1,
            attempt=1,
            queued_s=0.0,
            device_s=result.seconds if result else 0.0,
            result=self._blobs.put(result.canonical_json().encode()) if result else None,
            error=None,
        )

    def wait(self, job: str, after_seq: int, timeout_s: float) -> tuple[JobEvent, ...]:
        if job not in self._results:
            spec = self._specs[job]
            self.executed.append(spec.key)
            self._clock.now += COST_S[spec.stage]
            self._results[job] = self._execute(spec)
        return ()

    def cancel(self, job: str, reason: str) -> JobRecord:
        return self.get(job)

    def queue(self) -> QueueSnapshot:
        return QueueSnapshot(queued=0, running=0, oldest_s=0.0)

    def close(self) -> None: ...

    def _execute(self, spec: JobSpec) -> StageResult:
        workloads = [
            Workload.model_validate(w) for w in json.loads(self._blobs.get(spec.workloads))
        ]
        cost_s = COST_S[spec.stage]
        if spec.stage is Stage.CEILINGS:
            return ceilings(cost_s)
        if spec.stage is Stage.ANALYZE:
            analyses = tuple(analysis(workload) for workload in workloads)
            return StageResult(
                stage=spec.stage, status=Status.PASSED, seconds=cost_s, analyses=analyses
            )
        solution = self._solution(spec.solution)
        status = failure(solution, spec.stage)
        artifact = None
        if spec.stage is Stage.BUILD and status is Status.PASSED:
            artifact = self._blobs.put(b"artifact " + solution.content_digest().encode())
        sessions: tuple[Session, ...] = ()
        if spec.measure and spec.opponent and status is Status.PASSED:
            sessions = self._sessions(spec, solution, workloads)
        definition = Problem.model_validate_json(self._blobs.get(spec.problem)).definition.name
        traces = tuple(
            Trace(
                definition=definition,
                workload=workload,
                solution=solution.name,
                evaluation=evaluation(status, workload.uuid, sessions),
            )
            for workload in workloads
        )
        return StageResult(
            stage=spec.stage,
            status=status,
            log="" if status is Status.PASSED else f"kernel.cpp:3:1: error: simulated {status}",
            seconds=cost_s,
            artifact=artifact,
            traces=() if spec.stage is Stage.BUILD and artifact else traces,
            sessions=sessions,
        )

    def _sessions(
        self, spec: JobSpec, solution: Solution, workloads: list[Workload]
    ) -> tuple[Session, ...]:
        assert spec.measure is not None
        opponent_ms = time_ms(self._solution(spec.opponent))
        own_ms = time_ms(solution)
        sessions = []
        for number in range(spec.measure.sessions):
            noise = 0.001 * (number % 3 - 1)
            for workload in workloads:
                sessions.append(
                    Session(
                        workload=workload.uuid,
                        first="opponent" if number % 2 else "solution",
                        log_ratios=(math.log(opponent_ms / own_ms) + noise,) * spec.measure.blocks,
                        solution_ms=own_ms,
                        opponent_ms=opponent_ms,
                        clock=Clock.WALL,
                        void_blocks=0,
                    )
                )
        return tuple(sessions)

    def _solution(self, digest: str | None) -> Solution:
        assert digest is not None
        return Solution.model_validate_json(self._blobs.get(digest))


def time_ms(solution: Solution) -> float:
    if solution.language is Language.PYTORCH:
        compiled = any("torch.compile" in source.content for source in solution.sources)
        return EAGER_MS / COMPILED_SPEED if compiled else EAGER_MS
    match = re.search(r"speed\s*=\s*([\d.]+)", solution.entry_source)
    return EAGER_MS / float(match[1]) if match else EAGER_MS


def failure(solution: Solution, stage: Stage) -> Status:
    match = re.search(r"fails_as_(\w+)_in_(\w+?)\b", "".join(s.content for s in solution.sources))
    return Status(match[1]) if match and match[2] == stage else Status.PASSED


def evaluation(status: Status, workload: str, sessions: tuple[Session, ...]) -> Evaluation:
    passed = status is Status.PASSED
    performance = None
    if sessions and passed:
        own = next(session for session in sessions if session.workload == workload)
        ratio = compare_workload(sessions, workload)
        performance = Performance(
            latency_ms=own.solution_ms,
            opponent_latency_ms=own.opponent_ms,
            speedup=ratio.ratio,
            speedup_low=ratio.low,
            speedup_high=ratio.high,
            clock=Clock.WALL,
        )
    return Evaluation(
        status=status,
        environment=Environment(hardware="simulated", libs={}),
        timestamp="2026-12-01T00:00:00+00:00",
        correctness=Correctness(max_relative_error=0, max_absolute_error=0, matched_ratio=1)
        if passed
        else None,
        performance=performance,
    )


def analysis(workload: Workload) -> Analysis:
    return Analysis(
        workload=workload.uuid,
        nodes=(),
        outputs=(),
        operations=1_000_000,
        matrix_operations=0,
        flop_counter_operations=0,
        compulsory_bytes=2_000_000,
        unfused_bytes=3_000_000,
        compute_dtype="float32",
    )


def ceilings(cost_s: float) -> StageResult:
    return StageResult(
        stage=Stage.CEILINGS,
        status=Status.PASSED,
        seconds=cost_s,
        ceilings=Peaks(bytes_per_s=1e10, vector_operations_per_s=1e11, matrix_operations_per_s={}),
        launch_overhead_us=2.0,
        cache_bytes=1 << 20,
        hardware_name="simulated CPU",
    )
