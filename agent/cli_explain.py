"""`kagent optimize --explain`: where a run would start, and how far it could get."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rich.console import Group

from agent import console
from agent.attempt import Phase, RunState
from agent.cli_build import bounds_of, check_target, open_pipeline
from agent.config import load_config
from agent.environment import cores
from agent.home import Home
from agent.ladder import first_rung
from agent.layout import fact
from problems.catalog import load_problem
from problems.speed_of_light import explain


def explained(
    home: Home,
    problem_spec: str,
    assignments: Sequence[str],
    options: dict[str, Any],
    notify: Callable[[str], None],
) -> RunState:
    """A run that never starts, as far as its bounds.

    Raises:
        ConfigError: unknown problem, target, key or value, or a reference that cannot be traced.
        InfrastructureError: the machine failed.
    """
    config = load_config(home.config, assignments, options)
    problem = load_problem(problem_spec)
    check_target(problem, config.target)
    run = f"explain-{home.new_run(problem.name)}"
    with open_pipeline(home, run, problem, config, notify=notify) as pipeline:
        found = bounds_of(home, pipeline, problem, notify)
    return RunState(
        run=run,
        problem=problem,
        target=config.target,
        phase=Phase.STARTED,
        total_s=config.total_s,
        spent_s=0.0,
        hardware=found.hardware,
        analyses=found.analyses,
        bounds=found.bounds,
    )


def lines(state: RunState) -> Group:
    rung = first_rung(state.target)
    return Group(
        console.heading(state.problem, state.target, f"{cores()} cores"),
        console.analysis_lines(state),
        fact("rung", f"{rung.language}: {rung.reason}"),
    )


def as_json(state: RunState) -> dict[str, object]:
    assert state.hardware is not None
    rung = first_rung(state.target)
    public = {workload.uuid: workload for workload in state.problem.targets[state.target].public}
    return {
        "problem": state.problem.name,
        "target": state.target.value,
        "hardware": state.hardware.name,
        "rung": {"language": rung.language.value, "reason": rung.reason},
        "bounds": [
            {
                "workload": bound.workload,
                "axes": public[bound.workload].axes,
                "class": bound.workload_class.value,
                "reason": bound.reason,
                "operations": bound.operations,
                "compulsory_bytes": bound.compulsory_bytes,
                "arithmetic_intensity": bound.arithmetic_intensity,
                "datasheet_ms": bound.datasheet_ms,
                "measured_ms": bound.measured_ms,
                "derivation": explain(bound, state.hardware),
            }
            for bound in state.bounds
        ],
    }
