"""The command line: the only place that prints and turns errors into exit codes."""

from __future__ import annotations

import errno
import os
import sys
import time
import traceback
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agent.commands import memory, problems, runs, skills
from agent.commands.shared import (
    FAILED,
    INFRASTRUCTURE,
    INTERRUPTED,
    PASSED,
    USER_ERROR,
    JsonOption,
    ProblemArgument,
    SetOption,
    TargetOption,
    current_home,
    group,
    open_console,
    show,
    user_error,
)
from problems.errors import ConfigError, InfrastructureError

if TYPE_CHECKING:
    from agent.home import Home

app = group(
    "Takes a GPU operator written in PyTorch and returns the fastest correct kernel it could "
    "find, with proof. Results go to stdout, messages to stderr. Exit codes: 0 passed, 1 failed "
    "verdict, 2 user error, 3 the machine failed."
)
app.add_typer(problems.app, name="problems")
app.add_typer(memory.app, name="memory")
app.add_typer(runs.app, name="runs")
app.add_typer(skills.app, name="skills")


@app.command()
def optimize(
    problem: Annotated[
        str | None,
        typer.Argument(metavar="PROBLEM", help="Library name, number (problem_001) or folder."),
    ] = None,
    hours: Annotated[float | None, typer.Option(help="Confirming and judging included.")] = None,
    minutes: Annotated[float | None, typer.Option(help="As --hours.")] = None,
    target: TargetOption = None,
    sandbox: Annotated[str | None, typer.Option(help="bubblewrap or auto.")] = None,
    memory: Annotated[str | None, typer.Option(help="on or off.")] = None,
    seed: Annotated[int | None, typer.Option(help="Of the policy's draws.")] = None,
    assignments: SetOption = None,
    resume: Annotated[
        str | None, typer.Option(metavar="RUN", help="Go on with a run that was stopped; or last.")
    ] = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Rung and bound only, without the search.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Search for the fastest correct kernel; 0 if it beat the baseline and the judge passed it."""
    from agent import cli_optimize, cli_runs

    home = current_home()
    total_s = _seconds(hours, minutes)
    options = {"total_s": total_s, "target": target, "sandbox": sandbox}
    options |= {"memory": memory, "seed": seed}
    if resume is not None:
        changes = (*options.values(), assignments, explain or None)
        run = cli_optimize.check_resume(home, resume, problem, changes)
    elif problem is None:
        user_error("PROBLEM is missing; see: kagent problems list")
    elif explain:
        _explain(home, problem, assignments or (), options, as_json)
        return
    else:
        run = cli_optimize.start_run(home, problem, assignments or (), options)
    try:
        state = cli_optimize.go_on(home, run, open_console(stderr=True))
    except KeyboardInterrupt:
        print(f"stopped; go on with: kagent optimize --resume {run}", file=sys.stderr)
        raise typer.Exit(INTERRUPTED) from None
    except InfrastructureError as error:
        raise InfrastructureError(f"{error}; go on with: kagent optimize --resume {run}") from error
    if as_json:
        show(cli_optimize.as_json(state))
    else:
        show(cli_runs.result(state, cli_optimize.lesson_titles(home, state)))
    raise typer.Exit(PASSED if cli_optimize.status_of(state) == "passed" else FAILED)


def _explain(
    home: Home, problem: str, assignments: Sequence[str], options: dict[str, Any], as_json: bool
) -> None:
    from agent import cli_explain

    notify = partial(print, "note:", file=sys.stderr)
    state = cli_explain.explained(home, problem, assignments, options, notify)
    show(cli_explain.as_json(state) if as_json else cli_explain.lines(state))


@app.command("eval")
def evaluate(
    problem: ProblemArgument,
    solution: Annotated[
        Path, typer.Argument(metavar="SOLUTION", help="solution.json, a folder, or a .cpp or .py.")
    ],
    target: TargetOption = None,
    against: Annotated[
        str, typer.Option(help="baseline (the faster of the two), eager or compiled.")
    ] = "baseline",
    assignments: SetOption = None,
    as_json: JsonOption = False,
) -> None:
    """The verdict on one solution against the baseline; 0 only if it is correct everywhere."""
    from agent import cli_eval
    from agent.config import load_config
    from problems.evaluation import Status

    home = current_home()
    config = load_config(home.config, assignments or (), {"target": target})
    opponent = next((name for name in cli_eval.AGAINST if name == against), None)
    if opponent is None:
        user_error(f"--against {against}: valid: {', '.join(cli_eval.AGAINST)}")
    result = cli_eval.evaluate(home, problem, solution, config, opponent)
    if as_json:
        show(cli_eval.as_json(result))
    else:
        show(cli_eval.table_of(result))
        print(f"\n{cli_eval.summary_of(result)}")
    raise typer.Exit(PASSED if result.status is Status.PASSED else FAILED)


@app.command()
def doctor(as_json: JsonOption = False) -> None:
    """Is this machine ready? Each missing thing with the command that repairs it."""
    from agent import console
    from agent.doctor import Level, checks

    found = checks(os.environ)
    dumped = [check.model_dump(mode="json") for check in found]
    show(dumped if as_json else console.checks_table(found))
    missing = any(check.level is Level.MISSING for check in found)
    raise typer.Exit(INFRASTRUCTURE if missing else PASSED)


def main() -> None:
    sys.exit(run_command(sys.argv[1:]))


def run_command(arguments: list[str]) -> int:
    """One line for every error; a traceback goes into a log."""
    try:
        return int(app(arguments, standalone_mode=False) or PASSED)
    except ConfigError as error:
        return _error(error, USER_ERROR)
    except InfrastructureError as error:
        return _error(error, INFRASTRUCTURE)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return PASSED
    except Exception as error:
        usage = getattr(error, "format_message", None)
        if usage is not None:
            return _error(usage() or "see --help", USER_ERROR)
        if isinstance(error, OSError) and error.errno == errno.ENOSPC:
            return _error(f"the disk is full: {error.filename or error}", INFRASTRUCTURE)
        return _error(f"{type(error).__name__}: {error}; details: {_log()}", INFRASTRUCTURE)


def _error(message: object, code: int) -> int:
    line = " ".join(str(message).split())
    print(f"error: {line}", file=sys.stderr)
    return code


def _log() -> Path:
    """The traceback, in the home's logs if that can be written."""
    import tempfile

    from agent.home import home_path

    name = f"kagent-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.log"
    for folder in (home_path(os.environ) / "logs", Path(tempfile.gettempdir())):
        try:
            folder.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(traceback.format_exc())
        except OSError:
            continue
        return folder / name
    return Path(os.devnull)


def _seconds(hours: float | None, minutes: float | None) -> float | None:
    if hours is not None and minutes is not None:
        user_error("either --hours or --minutes, not both")
    for option, value in (("--hours", hours), ("--minutes", minutes)):
        if value is not None and not value > 0:
            user_error(f"{option}: must be above 0, not {value:g}")
    if hours is not None:
        return hours * 3600
    return None if minutes is None else minutes * 60
