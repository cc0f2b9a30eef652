"""`kagent optimize`: one run from its start or its journal to its end."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from agent import events
from agent.attempt import Phase, RunState
from agent.cli_build import (
    check_target,
    machine_of,
    memory_of,
    open_memory,
    open_pipeline,
    policy_of,
)
from agent.config import load_config, save_config, saved_config
from agent.controller import Controller
from agent.environment import environment
from agent.home import Home, write_secret
from agent.journal import Journal, read_state
from agent.judge import Judge
from agent.pipeline import Pipeline
from agent.progress import Progress
from agent.recall_context import cpu_architecture
from agent.report import write_report
from agent.run import Parts, Run
from agent.trials import Trials
from problems.catalog import load_problem
from problems.errors import ConfigError, InfrastructureError
from problems.evaluation import Verdict
from problems.record import digest_of
from sandbox.blob_store import BlobStore

_SEED_BYTES = 32


def start_run(
    home: Home, problem_spec: str, assignments: Sequence[str], options: dict[str, Any]
) -> str:
    """Everything that a user can get wrong is found before anything is written.

    Raises:
        ConfigError: unknown problem, target, key or value.
    """
    config = load_config(home.config, assignments, options)
    problem = load_problem(problem_spec)
    check_target(problem, config.target)
    run = home.new_run(problem.name)
    folder = home.runs / run
    save_config(config, folder / "config.json")
    seed = os.urandom(_SEED_BYTES)
    write_secret(folder / "judge.seed", seed)
    with _journal(folder) as journal:
        journal.append(
            events.RunStarted(
                run=run,
                problem=problem,
                target=config.target,
                policy=policy_of(config).name,
                total_s=config.total_s,
                seed_sha256=digest_of(seed),
            )
        )
    return run


def check_resume(home: Home, run: str, problem_spec: str | None, changes: Sequence[object]) -> str:
    """The run's full name.

    Raises:
        ConfigError: no such run, it is over, or it is asked to be another one.
    """
    folder = home.find_run(run)
    state = read_state(folder)
    if state.phase is Phase.FINISHED:
        raise ConfigError(f"{folder.name}: is finished; see it with: kagent runs show {run}")
    if problem_spec is not None and load_problem(problem_spec).name != state.problem.name:
        raise ConfigError(f"{folder.name}: works on {state.problem.name}, not on {problem_spec}")
    if any(change not in (None, []) for change in changes):
        raise ConfigError(
            f"{folder.name}: a resumed run keeps its configuration and the rest of its time; "
            "give no other options with --resume"
        )
    return folder.name


def go_on(home: Home, run: str, terminal: Console) -> RunState:
    """From where the journal ends to the end of the run.

    Raises:
        ConfigError: another process is at work on it.
        InfrastructureError: the machine failed; it can be resumed.
    """
    folder = home.runs / run
    config = saved_config(folder / "config.json")
    with _journal(folder) as journal:
        state = journal.state

        def note(notice: str) -> None:
            """Each once, however often the run is resumed."""
            if notice not in journal.state.notices:
                progress.watch(journal.append(events.Noted(notice=notice)))

        progress = Progress(terminal, journal, config)
        with (
            open_pipeline(home, run, state.problem, config, progress.tick, note) as pipeline,
            memory_of(home, config) as memory,
            progress,
        ):
            parts = Parts(
                journal=journal,
                pipeline=pipeline,
                policy=policy_of(config),
                trials=Trials(pipeline, Controller(state.problem, state.target, pipeline.solution)),
                judge=Judge(pipeline, _seed(folder, state), config.hidden_workloads),
                memory=memory,
                hardware=lambda: machine_of(home, pipeline, note),
                architecture=cpu_architecture(),
                report=lambda state: _report(folder, state, pipeline),
                clock=time.time,
                hidden_workloads=config.hidden_workloads,
                watch=progress.watch,
            )
            return Run(parts).finish()


def _journal(folder: Path) -> Journal:
    return Journal(folder, time.time, time.monotonic)


def _seed(folder: Path, state: RunState) -> bytes:
    path = folder / "judge.seed"
    try:
        seed = path.read_bytes()
    except OSError as error:
        raise ConfigError(
            f"{path}: {error.strerror}; without it the run cannot be judged"
        ) from None
    if digest_of(seed) != state.seed_sha256:
        raise ConfigError(f"{path}: is not the seed whose hash the run journaled at its start")
    return seed


def _report(folder: Path, state: RunState, pipeline: Pipeline) -> Path:
    """Also lays out the best solution's sources."""
    assert state.hardware is not None
    solution = pipeline.solution(state.best.solution) if state.best else None
    try:
        if solution is not None and state.best is not None:
            target = folder / "solutions" / state.best.solution
            target.mkdir(parents=True, exist_ok=True)
            (target / "solution.json").write_text(solution.model_dump_json(indent=2) + "\n")
            for source in solution.sources:
                file = target / source.path
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(source.content)
        return write_report(state, state.hardware, environment(), solution, folder / "report.html")
    except OSError as error:
        raise InfrastructureError(f"cannot write the report: {error}") from error


def render_report_of(home: Home, run: str) -> Path:
    """Writes `report.html` anew, from the journal alone.

    Raises:
        ConfigError: no such run, or it has not found its bounds yet.
    """
    folder = home.find_run(run)
    state = read_state(folder)
    if state.hardware is None:
        raise ConfigError(f"{folder.name}: stopped before its problem was analyzed; resume it")
    best = None
    if state.best is not None:
        from problems.solution import Solution

        best = Solution.model_validate_json(BlobStore(home.blobs).get(state.best.solution))
    path = folder / "report.html"
    try:
        return write_report(state, state.hardware, environment(), best, path)
    except OSError as error:
        raise InfrastructureError(f"cannot write {path}: {error}") from error


def lesson_titles(home: Home, state: RunState) -> dict[str, str]:
    """Of the lessons that the run wrote."""
    if not state.lessons_written:
        return {}
    with open_memory(home) as memory:
        return {lesson.id: lesson.title for lesson in memory.lessons()}


def best_path(state: RunState) -> Path | None:
    """Where the best solution's record lies, beside its sources; it is written with the report."""
    if state.best is None or state.report is None:
        return None
    return Path(state.report).parent / "solutions" / state.best.solution / "solution.json"


def as_json(state: RunState) -> dict[str, object]:
    """The stable keys of `kagent optimize --json`."""
    best, judge, path = state.best, state.judge, best_path(state)
    ratio = best.against_baseline if best else None
    return {
        "run": state.run,
        "problem": state.problem.name,
        "target": state.target.value,
        "status": status_of(state),
        "best": {
            "solution": best.solution,
            "language": best.language.value,
            "speedup": ratio.ratio,
            "speedup_low": ratio.low,
            "speedup_high": ratio.high,
            "sol_fraction": best.sol_fraction,
            "path": str(path) if path else None,
        }
        if best and ratio
        else None,
        "attempts": len(state.attempts),
        "judge": {
            "passed": judge.passed,
            "public_speedup": judge.public_speedup,
            "private_speedup": judge.private_speedup,
            "private_low": judge.private_low,
            "private_high": judge.private_high,
            "workloads": judge.workloads,
        }
        if judge
        else None,
        "lessons": list(state.lessons_written or ()),
        "seconds": state.spent_s,
        "baseline": state.baseline.kind if state.baseline else None,
        "eager_over_compiled": state.baseline.eager_over_compiled if state.baseline else None,
        "first_valid_s": state.first_valid_s,
        "report": state.report,
        "stop_reason": state.stop_reason,
    }


def status_of(state: RunState) -> str:
    """`passed`, `judge_failed`, `no_speedup`, or `unfinished`."""
    if state.phase is not Phase.FINISHED:
        return "unfinished"
    ratio = state.best.against_baseline if state.best else None
    if ratio is None or ratio.verdict is not Verdict.FASTER:
        return "no_speedup"
    return "judge_failed" if state.judge is not None and not state.judge.passed else "passed"
