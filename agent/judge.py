"""The last word: the best solution on workloads that were drawn from a secret seed."""

from __future__ import annotations

from collections.abc import Sequence

from agent.attempt import Attempt, JudgeResult, RunState
from agent.pipeline import Built, Pipeline, comparison_of, solution_digest
from problems.errors import InfrastructureError
from problems.evaluation import Status, Verdict, worst_status
from problems.hidden_draw import HiddenDraw, draw_hidden
from problems.paired import Comparison
from problems.record import digest_of
from problems.solution import Language, Solution
from problems.speed_of_light import Bound, bound_of
from problems.workload import Workload
from scheduler.job import Stage, StageResult

NEIGHBOURS_PER_WORKLOAD = 2
"""Checked without timing."""


class Judge:
    """Runs once, at the end of a run; the same seed gives the same jobs after a kill."""

    def __init__(self, pipeline: Pipeline, seed: bytes, workloads: int) -> None:
        self._pipeline = pipeline
        self._seed = seed
        self._workloads = workloads

    def judge(self, state: RunState) -> JudgeResult | None:
        """None: no attempt beat the baseline, or the problem has no rules to draw from."""
        best = state.best
        if best is None or state.baseline is None or best.against_baseline is None:
            return None
        draw = draw_hidden(state.problem, state.target, self._seed, self._workloads)
        if not draw.scored:
            return None
        neighbours = draw.neighbours[: NEIGHBOURS_PER_WORKLOAD * len(draw.scored)]
        draw = draw.model_copy(update={"neighbours": neighbours})
        return self._on_hidden(state, best, draw)

    def _on_hidden(self, state: RunState, best: Attempt, draw: HiddenDraw) -> JudgeResult:
        bounds = self._bounds(state, (*draw.scored, *draw.neighbours))
        if bounds is None:
            log = "the reference cannot be traced on the hidden workloads"
            return self._result(best, draw, Status.INVALID_REFERENCE, None, log)
        solution = self._pipeline.solution(best.solution)
        public = None if solution.language is Language.CPP else draw.scored
        built = self._build(solution, public)
        assert state.baseline is not None
        assert state.baseline.build is not None
        baseline = Built(solution=state.baseline.solution, artifact=state.baseline.build)
        results = []
        if draw.neighbours:
            results.append(self._pipeline.check(built, bounds, draw.neighbours))
        results.append(self._pipeline.measure(Stage.JUDGE, built, baseline, bounds, draw.scored))
        status = worst_status(tuple(result.status for result in results))
        log = next((_describe(r) for r in results if r.status is not Status.PASSED), "")
        return self._result(best, draw, status, comparison_of(results[-1]), log)

    def _bounds(self, state: RunState, workloads: Sequence[Workload]) -> list[Bound] | None:
        analyzed = self._pipeline.analyze(workloads)
        if analyzed.status is not Status.PASSED or state.hardware is None:
            return None
        return [bound_of(analysis, state.hardware) for analysis in analyzed.analyses]

    def _build(self, solution: Solution, workloads: Sequence[Workload] | None) -> Built:
        result = self._pipeline.build(solution, workloads)
        if result.artifact is None:
            raise InfrastructureError(f"{solution.name} was built before, now: {result.log}")
        return Built(solution=solution_digest(solution), artifact=result.artifact)

    def _result(
        self,
        best: Attempt,
        draw: HiddenDraw,
        status: Status,
        comparison: Comparison | None,
        log: str,
    ) -> JudgeResult:
        assert best.against_baseline is not None
        slower = comparison is not None and comparison.verdict is Verdict.SLOWER
        if slower and not log:
            log = "slower than the baseline on the hidden workloads"
        return JudgeResult(
            passed=status is Status.PASSED and comparison is not None and not slower,
            status=status,
            public_speedup=best.against_baseline.ratio,
            private_speedup=comparison.ratio if comparison else None,
            private_low=comparison.low if comparison else None,
            private_high=comparison.high if comparison else None,
            workloads=len(draw.scored),
            checked_only=len(draw.neighbours),
            seed=self._seed.hex(),
            seed_sha256=digest_of(self._seed),
            log=log,
        )


def _describe(result: StageResult) -> str:
    failed = [t for t in result.traces if t.evaluation.status is not Status.PASSED]
    sizes = (
        ", ".join(f"{axis} {size}" for axis, size in failed[0].workload.axes.items())
        if failed
        else ""
    )
    where = f" at {sizes}" if sizes else ""
    return f"{result.status}{where}: {result.log}"
