"""`kagent eval`: the verdict on one solution, and a trace for every workload whatever happens."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, get_args

from rich.table import Table
from rich.text import Text

from agent import console
from agent.attempt import Baseline
from agent.baseline import compiled_solution, eager_solution, measure_baseline
from agent.cli_build import bounds_of, check_target, open_pipeline
from agent.config import RunConfig
from agent.controller import Controller
from agent.diagnosis import first_error, ratio_text, share_text, speedup_text
from agent.environment import environment
from agent.home import Home
from agent.pipeline import Built, Pipeline, comparison_of, sol_fraction, solution_digest
from agent.solution_file import load_solution
from problems.catalog import load_problem
from problems.errors import ConfigError
from problems.evaluation import Evaluation, Status, Verdict, worst_status
from problems.paired import Comparison
from problems.problem import Problem, Target
from problems.record import Record
from problems.solution import Solution
from problems.speed_of_light import Bound
from problems.trace import Trace
from scheduler.job import Stage

Against = Literal["baseline", "eager", "compiled"]
AGAINST: tuple[Against, ...] = get_args(Against)
_KINDS = {"eager": "eager", "compiled": "torch.compile"}


class EvalResult(Record):
    problem: Problem
    solution: Solution
    target: Target
    traces: tuple[Trace, ...]
    """One per public workload."""
    baseline: Baseline | None = None
    """None where the solution did not come so far, or another opponent was asked for."""
    opponent: str | None = None
    """`eager` or `torch.compile`; None where nothing was measured."""
    comparison: Comparison | None = None
    sol_fraction: float | None = None
    bounds: tuple[Bound, ...] = ()

    @property
    def status(self) -> Status:
        return worst_status(tuple(trace.evaluation.status for trace in self.traces))

    @property
    def verdict(self) -> Verdict | None:
        return self.comparison.verdict if self.comparison else None


def evaluate(
    home: Home, problem_spec: str, path: Path, config: RunConfig, against: Against = "baseline"
) -> EvalResult:
    """`against` is the opponent: the faster of eager and compiled, or one of them.

    Raises:
        ConfigError: unknown problem or target, a malformed solution, a reference that fails.
        InfrastructureError: the machine failed.
    """
    problem = load_problem(problem_spec)
    check_target(problem, config.target)
    solution = load_solution(path, problem.definition)
    controller = Controller(problem, config.target, lambda _: solution)
    rejection = controller.review(solution)
    if rejection is not None:
        return _result(
            problem, solution, config, _rejected(problem, solution, config, rejection.log)
        )
    run = f"eval-{home.new_run(problem.name)}"
    with open_pipeline(home, run, problem, config) as pipeline:
        return _measure(home, pipeline, problem, solution, config, against)


def _measure(
    home: Home,
    pipeline: Pipeline,
    problem: Problem,
    solution: Solution,
    config: RunConfig,
    against: Against,
) -> EvalResult:
    checked = pipeline.evaluate(solution, None, (), Stage.CHECK)
    if checked.last.status is not Status.PASSED or checked.built is None:
        return _result(problem, solution, config, checked.last.traces)
    bounds = bounds_of(home, pipeline, problem).bounds
    baseline = measure_baseline(pipeline, problem) if against == "baseline" else None
    opponent = _built(pipeline, problem, baseline.kind if baseline else _KINDS[against])
    confirmed = pipeline.measure(Stage.CONFIRM, checked.built, opponent, bounds)
    ratio = comparison_of(confirmed)
    result = _result(problem, solution, config, confirmed.traces)
    return result.model_copy(
        update={
            "baseline": baseline,
            "opponent": baseline.kind if baseline else _KINDS[against],
            "bounds": bounds,
            "comparison": ratio,
            "sol_fraction": sol_fraction(confirmed, bounds) if ratio else None,
        }
    )


def _built(pipeline: Pipeline, problem: Problem, kind: str) -> Built:
    """The job is there already if the baseline was measured."""
    solution = eager_solution(problem) if kind == "eager" else compiled_solution(problem)
    result = pipeline.build(solution)
    if result.artifact is None:
        raise ConfigError(
            f"{problem.name}: {kind} cannot be built: {first_error(result.log)}; "
            f"valid for --against: {', '.join(AGAINST)}"
        )
    return Built(solution=solution_digest(solution), artifact=result.artifact)


def _result(
    problem: Problem, solution: Solution, config: RunConfig, traces: tuple[Trace, ...]
) -> EvalResult:
    return EvalResult(problem=problem, solution=solution, target=config.target, traces=traces)


def _rejected(
    problem: Problem, solution: Solution, config: RunConfig, log: str
) -> tuple[Trace, ...]:
    evaluation = Evaluation(
        status=Status.REJECTED,
        environment=environment(),
        timestamp=datetime.fromtimestamp(time.time(), UTC).isoformat(timespec="seconds"),
        log=log,
    )
    return tuple(
        Trace(
            definition=problem.definition.name,
            workload=workload,
            solution=solution.name,
            evaluation=evaluation,
        )
        for workload in problem.targets[config.target].public
    )


def as_json(result: EvalResult) -> dict[str, object]:
    """The stable keys of `kagent eval --json`."""
    ratio = result.comparison
    return {
        "problem": result.problem.name,
        "solution": result.solution.name,
        "target": result.target.value,
        "status": result.status.value,
        "traces": [trace.as_sol_execbench() for trace in result.traces],
        "speedup": ratio.ratio if ratio else None,
        "speedup_low": ratio.low if ratio else None,
        "speedup_high": ratio.high if ratio else None,
        "sol_fraction": result.sol_fraction,
        "verdict": result.verdict.value if result.verdict else None,
        "opponent": result.opponent,
        "eager_over_compiled": result.baseline.eager_over_compiled if result.baseline else None,
    }


def table_of(result: EvalResult) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold bright_black")
    for name in ("workload", "status"):
        table.add_column(name, no_wrap=True)
    for name in ("time", result.opponent or "opponent", "speedup", "SOL"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("matched", justify="right")
    bounds = {bound.workload: console.bound_ms(bound) for bound in result.bounds}
    for trace in result.traces:
        table.add_row(*(Text(cell) for cell in _cells(trace, bounds)))
    return table


def _cells(trace: Trace, bounds: dict[str, float]) -> list[str]:
    evaluation = trace.evaluation
    sizes = ", ".join(f"{axis} {size}" for axis, size in trace.workload.axes.items())
    cells = [sizes, evaluation.status.value]
    performance, bound = evaluation.performance, bounds.get(trace.workload.uuid)
    if performance is None:
        cells += ["", "", "", ""]
    else:
        cells += [
            console.time_text(performance.latency_ms),
            console.time_text(performance.opponent_latency_ms),
            ratio_text(performance.speedup),
            share_text(bound / performance.latency_ms) if bound else "",
        ]
    ratio = evaluation.correctness.matched_ratio if evaluation.correctness else None
    return [*cells, "" if ratio is None else share_text(ratio, 4)]


def summary_of(result: EvalResult) -> str:
    """One line."""
    if result.status is not Status.PASSED:
        log = next((t.evaluation.log for t in result.traces if t.evaluation.log), "")
        return f"{result.status}: {first_error(log)}"
    if result.comparison is None:
        return "PASSED, not measured"
    fraction = result.sol_fraction
    sol = f", {share_text(fraction)} of the speed of light" if fraction else ""
    return (
        f"PASSED, {result.verdict}: {speedup_text(result.comparison)} over {result.opponent}{sol}"
    )
