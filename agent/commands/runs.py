"""`kagent runs`. Heavy imports wait until a command runs."""

from __future__ import annotations

from typing import Annotated

import typer

from agent.commands.shared import JsonOption, current_home, group, print_notices, show

app = group("Runs and their reports.")


@app.command("list")
def list_runs(as_json: JsonOption = False) -> None:
    """All runs, newest last."""
    from agent import cli_runs

    states, broken = cli_runs.states(current_home())
    print_notices(broken)
    show(cli_runs.list_json(states) if as_json else cli_runs.list_table(states))


@app.command("show")
def show_run(
    run: Annotated[str, typer.Argument(metavar="RUN", help="Its name, or last.")],
    as_json: JsonOption = False,
) -> None:
    """One run: what was found and how."""
    from agent import cli_optimize, cli_runs
    from agent.journal import read_state

    state = read_state(current_home().find_run(run))
    show(cli_optimize.as_json(state) if as_json else cli_runs.show(state))


@app.command("report")
def report_run(
    run: Annotated[str, typer.Argument(metavar="RUN", help="Its name, or last.")],
) -> None:
    """Write the report of a run anew from its journal, and print its path."""
    from agent.cli_optimize import render_report_of

    typer.echo(render_report_of(current_home(), run))
