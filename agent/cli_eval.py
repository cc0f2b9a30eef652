"""`kagent eval`: the verdict on one solution, and a trace for every workload whatever happens."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path

from rich.table import Table
from rich.text import Text

from agent import console
from agent.attempt import Baseline
from agent.baseline import measure_baseline
from agent.cli_build import check_target, machine_of, open_pipeline
from agent.config import RunConfig
from agent.controller import Controller
from agent.diagnosis import first_error, speedup_text
from agent.environment import environment
from agent.home import Home
from agent.pipeline import Built, Pipeline, comparison_of, sol_fraction
from agent.solution_file import load_solution
from problems.catalog import load_problem
from problems.errors import ConfigError
from problems.evaluation import Evaluation, Status, Verdict, worst_status
from problems.paired import Comparison
from problems.problem import Problem, Target
from problems.record import Record
from problems.solution import Solution
from problems.speed_of_light import Bound, bound_of
from problems.trace import Trace
from scheduler.job import Stage


class EvalResult(Record):
    problem: Problem
    solution: Solution
    target: Target
    traces: tuple[Trace, ...]
    """One per public workload."""
    baseline: Baseline | None = None
    """None where the solution did not come so far."""
    comparison: Comparison | None = None
    sol_fraction: float | None = None
    bounds: tuple[Bound, ...] = ()

    @property
    def status(self) -> Status:
        return worst_status(tuple(trace.evaluation.status for trace in self.traces))

    @property
    def verdict(self) -> Verdict | None:
        return self.comparison.verdict if self.comparison else None


def evaluate(home: Home, problem_spec: str, path: Path, config: RunConfig) -> EvalResult:
    """
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
        return _measure(home, pipeline, problem, solution, config)


def _measure(
    home: Home, pipeline: Pipeline, problem: Problem, solution: Solution, config: RunConfig
) -> EvalResult:
    checked = pipeline.evaluate(solution, None, (), Stage.CHECK)
    if checked.last.status is not Status.PASSED or checked.built is None:
        return _result(problem, solution, config, checked.last.traces)
    hardware = machine_of(home, pipeline)
    analyzed = pipeline.analyze()
    if analyzed.status is not Status.PASSED:
        raise ConfigError(f"{problem.name}: the reference cannot be traced: {analyzed.log}")
    bounds = tuple(bound_of(analysis, hardware) for analysis in analyzed.analyses)
    baseline = measure_baseline(pipeline, problem)
    assert baseline.build is not None
    opponent = Built(solution=baseline.solution, artifact=baseline.build)
    confirmed = pipeline.measure(Stage.CONFIRM, checked.built, opponent, bounds)
    ratio = comparison_of(confirmed)
    result = _result(problem, solution, config, confirmed.traces)
    return result.model_copy(
        update={
            "baseline": baseline,
            "bounds": bounds,
            "comparison": ratio,
            "sol_fraction": sol_fraction(confirmed, bounds) if ratio else None,
        }
    )


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
    }


def table_of(result: EvalResult) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold bright_black")
    for name in ("workload", "status"):
        table.add_column(name, no_wrap=True)
    for name in ("time", "baseline", "speedup", "SOL"):
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
            f"{performance.speedup:.2f}×",
            f"{bound / performance.latency_ms:.0%}" if bound else "",
        ]
    ratio = evaluation.correctness.matched_ratio if evaluation.correctness else None
    return [*cells, "" if ratio is None else f"{ratio:.4%}"]


def summary_of(result: EvalResult) -> str:
    """One line."""
    if result.status is not Status.PASSED:
        log = next((t.evaluation.log for t in result.traces if t.evaluation.log), "")
        return f"{result.status}: {first_error(log)}"
    if result.comparison is None or result.baseline is None:
        return "PASSED, not measured"
    sol = f", {result.sol_fraction:.0%} of the speed of light" if result.sol_fraction else ""
    return (
        f"PASSED, {result.verdict}: {speedup_text(result.comparison)} over "
        f"{result.baseline.kind}{sol}"
    )
