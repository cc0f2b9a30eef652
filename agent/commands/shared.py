"""What the commands share: options, the home, and how results and notices are printed."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from problems.errors import ConfigError

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from agent.home import Home

PASSED, FAILED, USER_ERROR, INFRASTRUCTURE, INTERRUPTED = 0, 1, 2, 3, 130
_PLAIN_WIDTH = 100

ProblemArgument = Annotated[
    str, typer.Argument(metavar="PROBLEM", help="Library name, number (problem_001) or folder.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")]
TargetOption = Annotated[str | None, typer.Option(help="cpu or cuda.", metavar="TARGET")]
SetOption = Annotated[
    list[str] | None, typer.Option("--set", help="Configuration.", metavar="KEY=VALUE")
]


def group(text: str) -> typer.Typer:
    # Without markup, the help needs no rich: it answers in half the time.
    return typer.Typer(help=text, no_args_is_help=True, add_completion=False, rich_markup_mode=None)


def user_error(message: str) -> NoReturn:
    raise ConfigError(message)


def current_home() -> Home:
    from agent.home import open_home

    return open_home(os.environ)


def open_console(*, stderr: bool = False) -> Console:
    from rich.console import Console

    console = Console(stderr=stderr, highlight=False)
    return (
        console
        if console.is_terminal
        else Console(stderr=stderr, highlight=False, width=_PLAIN_WIDTH)
    )


def show(result: RenderableType | list[Any] | dict[str, Any]) -> None:
    """A list or an object as JSON, all else as rich renders it."""
    if isinstance(result, (list, dict)):
        typer.echo(json.dumps(result, indent=2, ensure_ascii=False))
    else:
        open_console().print(result, crop=False)


def print_notices(notices: tuple[str, ...]) -> None:
    for notice in notices:
        typer.echo(f"note: {notice}", err=True)
