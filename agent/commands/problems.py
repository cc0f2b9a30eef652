"""`kagent problems`. Heavy imports wait until a command runs."""

from __future__ import annotations

from typing import Annotated

import typer

from agent.commands.shared import (
    FAILED,
    PASSED,
    JsonOption,
    ProblemArgument,
    current_home,
    group,
    show,
    user_error,
)

app = group("The problems that can be solved.")


@app.command("list")
def list_problems(as_json: JsonOption = False) -> None:
    """The library."""
    from problems import catalog

    found = catalog.list_problems()
    from agent import cli_problems

    show([cli_problems.summary_json(s) for s in found] if as_json else cli_problems.table(found))


@app.command("show")
def show_problem(name: ProblemArgument, as_json: JsonOption = False) -> None:
    """One problem in full."""
    from agent import cli_problems
    from problems.catalog import load_problem

    problem = load_problem(name)
    show(problem.model_dump(mode="json") if as_json else cli_problems.show(problem))


@app.command("check")
def check_problem(
    name: Annotated[str | None, typer.Argument(metavar="PROBLEM")] = None,
    every: Annotated[bool, typer.Option("--all", help="The whole library.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Admission: is this a fair problem? 0 if it is."""
    from agent import cli_problems
    from agent.cli_build import check_problem
    from problems.catalog import list_problems, load_problem

    if (name is None) is not every:
        user_error("either PROBLEM or --all")
    names = [summary.name for summary in list_problems()] if every else [name or ""]
    reports = []
    for problem in [load_problem(name) for name in names]:
        reports.append(check_problem(current_home(), problem))
        if not as_json:
            show(cli_problems.check_lines(reports[-1]))
    if as_json:
        show([report.model_dump(mode="json") | {"passed": report.passed} for report in reports])
    raise typer.Exit(PASSED if all(report.passed for report in reports) else FAILED)
