"""One solution through the stages of an evaluation, each a job of the scheduler."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

from problems.errors import InfrastructureError
from problems.evaluation import Status
from problems.paired import Comparison, compare
from problems.problem import Problem, Target
from problems.record import Digest, Record, digest_of
from problems.score import geometric_mean
from problems.solution import Solution
from problems.speed_of_light import Bound
from problems.workload import Workload
from sandbox.blob_store import BlobStore
from sandbox.sandbox import Limits
from scheduler.job import JobSpec, JobState, MeasureSpec, Stage, StageResult
from scheduler.scheduler import Scheduler

SCREEN_PROMOTES_ABOVE = 1.003
"""A screen goes on to confirm from this ratio (facts/measuring.md, E4.5)."""
CONFIRM_SESSIONS = 6
"""Even, so that each side is started first equally often; fewer give no useful t interval."""
_POLL_S = 1.0
"""Between two calls of `on_wait`, which keeps the run's clock and its progress line."""


def measure_spec(stage: Stage, workloads: int) -> MeasureSpec:
    """One session to screen, six to confirm; blocks so that a session has at least twelve."""
    sessions = 1 if stage is Stage.SCREEN else CONFIRM_SESSIONS
    return MeasureSpec(sessions=sessions, blocks=max(3, -(-12 // workloads)))


class Built(Record):
    """A solution with the artifact that its build returned."""

    solution: Digest
    artifact: Digest


class Outcome(Record):
    """How far one solution came, and what was measured on the way."""

    solution: Digest
    results: tuple[StageResult, ...]
    """Of the stages that ran, in their order; a failure is the last."""

    @property
    def last(self) -> StageResult:
        return self.results[-1]

    @property
    def built(self) -> Built | None:
        artifact = self.results[0].artifact
        return Built(solution=self.solution, artifact=artifact) if artifact else None

    def comparison(self, stage: Stage) -> Comparison | None:
        return comparison_of(next((r for r in self.results if r.stage is stage), None))

    @property
    def stage_s(self) -> dict[Stage, float]:
        return {result.stage: result.seconds for result in self.results}


def comparison_of(result: StageResult | None) -> Comparison | None:
    """None where the stage did not run, failed, or measured nothing."""
    if result is None or result.status is not Status.PASSED or not result.sessions:
        return None
    return compare(result.sessions)


def latencies_ms(result: StageResult) -> dict[str, float]:
    """Per workload, of the traces that have a performance."""
    return {
        trace.workload.uuid: trace.evaluation.performance.latency_ms
        for trace in result.traces
        if trace.evaluation.performance
    }


def sol_fraction(result: StageResult, bounds: Sequence[Bound]) -> float | None:
    """Geometric mean over workloads of bound / latency, at measured ceilings if there are."""
    times = latencies_ms(result)
    by_workload = {bound.workload: bound.measured_ms or bound.datasheet_ms for bound in bounds}
    if not times or set(times) - set(by_workload):
        return None
    return geometric_mean([by_workload[uuid] / time_ms for uuid, time_ms in times.items()])


class Pipeline:
    """Submits stages under keys that a resumed run computes again, so nothing runs twice.

    Every method raises `InfrastructureError` where the machine failed three times.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        blobs: BlobStore,
        run: str,
        problem: Problem,
        target: Target,
        on_wait: Callable[[], None] = lambda: None,
    ) -> None:
        self._on_wait = on_wait
        self._scheduler = scheduler
        self._blobs = blobs
        self._run = run
        self._problem_record = problem
        self._problem = blobs.put(problem.canonical_json().encode())
        self._target = target
        self.public = problem.targets[target].public

    def analyze(self, workloads: Sequence[Workload] | None = None) -> StageResult:
        return self._stage(Stage.ANALYZE, f"analyze:{self._short_digest(workloads)}", workloads)

    def ceilings(self) -> StageResult:
        """Measured anew for every run that asks: the caller keeps them per machine."""
        return self._stage(Stage.CEILINGS, "ceilings", self.public[:1])

    def solution(self, digest: Digest) -> Solution:
        """One that was submitted before, also by an earlier process of the run."""
        return Solution.model_validate_json(self._blobs.get(digest))

    def build(self, solution: Solution, workloads: Sequence[Workload] | None = None) -> StageResult:
        """For the calls of the workloads: some languages compile for exact sizes."""
        digest = self.store(solution)
        key = f"build:{digest}:{self._short_digest(workloads)}"
        return self._stage(Stage.BUILD, key, workloads, solution=digest)

    def check(
        self, built: Built, bounds: Sequence[Bound], workloads: Sequence[Workload] | None = None
    ) -> StageResult:
        """Correctness only."""
        return self._stage(
            Stage.CHECK,
            f"check:{built.solution}:{self._short_digest(workloads)}",
            workloads,
            solution=built.solution,
            build=built.artifact,
            bounds=bounds,
        )

    def measure(
        self,
        stage: Stage,
        built: Built,
        opponent: Built,
        bounds: Sequence[Bound],
        workloads: Sequence[Workload] | None = None,
        tag: str = "",
    ) -> StageResult:
        """Paired sessions of the solution and its opponent; `tag` makes a further key."""
        key = f"{stage}:{built.solution}:{opponent.solution}:{self._short_digest(workloads)}"
        return self._stage(
            stage,
            key + tag,
            workloads,
            solution=built.solution,
            build=built.artifact,
            opponent=opponent.solution,
            opponent_build=opponent.artifact,
            measure=measure_spec(stage, len(workloads or self.public)),
            bounds=bounds,
        )

    def evaluate(
        self,
        solution: Solution,
        opponent: Built | None,
        bounds: Sequence[Bound],
        through: Stage = Stage.CONFIRM,
    ) -> Outcome:
        """Build, check, screen, confirm; a stage that fails is the last, so is a missing opponent.

        A screen that does not look better than the opponent ends it.
        """
        digest = solution_digest(solution)
        results = [self.build(solution)]
        built = Outcome(solution=digest, results=tuple(results)).built
        if built is not None:
            results.append(self.check(built, bounds))
            if opponent is not None and _passed(results[-1]) and through is not Stage.CHECK:
                results.append(self.measure(Stage.SCREEN, built, opponent, bounds))
                ratio = comparison_of(results[-1])
                goes_on = ratio is not None and ratio.ratio > SCREEN_PROMOTES_ABOVE
                if goes_on and through is not Stage.SCREEN:
                    results.append(self.measure(Stage.CONFIRM, built, opponent, bounds))
        return Outcome(solution=digest, results=tuple(results))

    def _stage(
        self,
        stage: Stage,
        key: str,
        workloads: Sequence[Workload] | None,
        solution: Digest | None = None,
        build: Digest | None = None,
        opponent: Digest | None = None,
        opponent_build: Digest | None = None,
        measure: MeasureSpec | None = None,
        bounds: Sequence[Bound] = (),
    ) -> StageResult:
        chosen = self.public if workloads is None else tuple(workloads)
        by_workload = {bound.workload: bound.datasheet_ms for bound in bounds}
        spec = JobSpec(
            run=self._run,
            key=key,
            stage=stage,
            target=self._target,
            problem=self._problem,
            workloads=self._blobs.put(_workload_list(chosen)),
            solution=solution,
            build=build,
            opponent=opponent,
            opponent_build=opponent_build,
            limits=LIMITS[stage],
            measure=measure,
            bounds_ms=tuple(by_workload[w.uuid] for w in chosen) if bounds else (),
        )
        job = self._scheduler.submit(spec)
        seq = 0
        while not job.state.final:
            events = self._scheduler.wait(job.id, seq, _POLL_S)
            seq = max([seq, *(event.seq for event in events)])
            job = self._scheduler.get(job.id)
            self._on_wait()
        if job.state is not JobState.SUCCEEDED or job.result is None:
            raise InfrastructureError(f"{stage} of {key}: {job.error or job.state}")
        return StageResult.model_validate_json(self._blobs.get(job.result))

    def store(self, solution: Solution) -> Digest:
        return self._blobs.put(solution.canonical_json().encode())

    def _short_digest(self, workloads: Sequence[Workload] | None) -> str:
        chosen = self.public if workloads is None else workloads
        return digest_of(_workload_list(chosen))[:16]


def solution_digest(solution: Solution) -> Digest:
    """Of the stored record: what `JobSpec.solution` names."""
    return solution.content_digest()


def _passed(result: StageResult) -> bool:
    return result.status is Status.PASSED


def _workload_list(workloads: Sequence[Workload]) -> bytes:
    listed = [workload.model_dump(mode="json") for workload in workloads]
    return json.dumps(listed, sort_keys=True, separators=(",", ":")).encode()


LIMITS = {
    Stage.ANALYZE: Limits(wall_s=60, memory_bytes=4 << 30),
    Stage.CEILINGS: Limits(wall_s=60, memory_bytes=4 << 30),
    Stage.BUILD: Limits(wall_s=120, memory_bytes=4 << 30, result_bytes=128 << 20),
    Stage.CHECK: Limits(wall_s=60, memory_bytes=8 << 30),
    Stage.SCREEN: Limits(wall_s=120, memory_bytes=8 << 30),
    Stage.CONFIRM: Limits(wall_s=300, memory_bytes=8 << 30),
    Stage.JUDGE: Limits(wall_s=600, memory_bytes=8 << 30),
    Stage.PROFILE: Limits(wall_s=120, memory_bytes=8 << 30),
}
"""Per slot; a stage that outlives `wall_s` is the candidate's TIMEOUT."""
