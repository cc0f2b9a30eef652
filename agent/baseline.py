"""What is to be beaten: the faster of eager PyTorch and torch.compile of the reference."""

from __future__ import annotations

from typing import Literal

from agent.attempt import Baseline
from agent.diagnosis import first_error
from agent.pipeline import Built, Pipeline, comparison_of, latencies_ms, solution_digest
from problems.errors import ConfigError, InfrastructureError
from problems.evaluation import Status
from problems.problem import Problem
from problems.score import geometric_mean
from problems.solution import Language, Solution, SolutionSpec, SourceFile
from scheduler.job import Stage, StageResult

_COMPILED = """import torch
from reference import run as reference

run = torch.compile(reference)
"""


EAGER: Literal["eager"] = "eager"
COMPILED: Literal["torch.compile"] = "torch.compile"


def eager_solution(problem: Problem) -> Solution:
    return _solution(problem, "eager", "reference.py::run", ())


def compiled_solution(problem: Problem) -> Solution:
    wrapper = SourceFile(path="compiled.py", content=_COMPILED)
    return _solution(problem, "torch.compile", "compiled.py::run", (wrapper,))


def measure_baseline(pipeline: Pipeline, problem: Problem) -> Baseline:
    """A screen of eager against compiled decides; it verifies outputs too.

    The compiled one is the opponent, so that its worker is there for the comparisons to come.

    Raises:
        ConfigError: the reference itself does not pass.
    """
    eager = _build_eager(pipeline, problem)
    solution = compiled_solution(problem)
    built = pipeline.build(solution)
    if built.artifact is None:
        return _only_eager(pipeline, problem, eager, _why(built))
    compiled = Built(solution=solution_digest(solution), artifact=built.artifact)
    try:
        screened = pipeline.measure(Stage.SCREEN, eager, compiled, ())
    except InfrastructureError as error:
        return _only_eager(pipeline, problem, eager, first_error(str(error)))
    ratio = comparison_of(screened)
    if ratio is None:
        return _only_eager(pipeline, problem, eager, _why(screened))
    eager_ms = geometric_mean(list(latencies_ms(screened).values()))
    compiled_ms = _opponent_ms(screened)
    chosen, kind, chosen_ms, build_s = (
        (eager, EAGER, eager_ms, 0.0)
        if ratio.ratio > 1
        else (compiled, COMPILED, compiled_ms, built.seconds)
    )
    return Baseline(
        solution=chosen.solution,
        build=chosen.artifact,
        kind=kind,
        eager_over_compiled=1 / ratio.ratio,
        latency_ms=chosen_ms,
        eager_ms=eager_ms,
        compiled_ms=compiled_ms,
        build_s=build_s,
    )


def _build_eager(pipeline: Pipeline, problem: Problem) -> Built:
    solution = eager_solution(problem)
    result = pipeline.build(solution)
    if result.artifact is None:
        raise ConfigError(
            f"{problem.name}: the reference cannot be loaded: {first_error(result.log)}"
        )
    return Built(solution=solution_digest(solution), artifact=result.artifact)


def _only_eager(pipeline: Pipeline, problem: Problem, eager: Built, why: str) -> Baseline:
    """Eager against itself, for its time."""
    result = pipeline.measure(Stage.SCREEN, eager, eager, ())
    if result.status is not Status.PASSED:
        raise ConfigError(
            f"{problem.name}: the reference does not pass its own workloads "
            f"({result.status}: {first_error(result.log)}); see: kagent problems check "
            f"{problem.name}"
        )
    eager_ms = geometric_mean(list(latencies_ms(result).values()))
    return Baseline(
        solution=eager.solution,
        build=eager.artifact,
        kind="eager",
        eager_over_compiled=None,
        latency_ms=eager_ms,
        eager_ms=eager_ms,
        note=f"torch.compile could not run: {why}",
    )


def _solution(
    problem: Problem, name: str, entry_point: str, further: tuple[SourceFile, ...]
) -> Solution:
    reference = SourceFile(path="reference.py", content=problem.definition.reference)
    return Solution(
        name=f"{problem.name}_{name}",
        definition=problem.definition.name,
        author="kagent",
        spec=SolutionSpec(
            languages=(Language.PYTORCH,),
            entry_point=entry_point,
            destination_passing_style=False,
        ),
        sources=(reference, *further),
    )


def _opponent_ms(result: StageResult) -> float:
    performances = [trace.evaluation.performance for trace in result.traces]
    return geometric_mean([p.opponent_latency_ms for p in performances if p])


def _why(failed: StageResult) -> str:
    return f"{failed.status} in {failed.stage}: {first_error(failed.log)}"
