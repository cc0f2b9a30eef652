"""`kagent memory`. Heavy imports wait until a command runs."""

from __future__ import annotations

from typing import Annotated

import typer

from agent.commands.shared import JsonOption, TargetOption, current_home, group, print_notices, show

app = group("Lessons of earlier runs.")


@app.command("query")
def query_memory(
    text: Annotated[str, typer.Argument(metavar="TEXT", help="A question in plain words.")],
    target: TargetOption = None,
    architecture: Annotated[str | None, typer.Option(help="Such as avx512 or sm_90.")] = None,
    dtype: Annotated[str | None, typer.Option(help="Such as bfloat16.")] = None,
    family: Annotated[str | None, typer.Option(help="Such as normalisation.")] = None,
    workload_class: Annotated[str | None, typer.Option(help="Such as memory-bound.")] = None,
    rung: Annotated[str | None, typer.Option(help="A language, such as cpp.")] = None,
    limit: Annotated[int, typer.Option(min=1)] = 10,
    as_json: JsonOption = False,
) -> None:
    """What has worked, under which conditions?"""
    from agent import cli_memory
    from agent.cli_build import open_memory
    from memory import search
    from problems.record import parse_record

    given = {"target": target, "architecture": architecture, "dtype": dtype, "family": family}
    given |= {"workload_class": workload_class, "rung": rung}
    filters = parse_record(search.Filters, given, "filter")
    with open_memory(current_home()) as memory:
        hits = memory.query(text, filters, limit)
        print_notices(memory.notices)
    show([search.as_json(hit) for hit in hits] if as_json else cli_memory.hits(hits))


@app.command("list")
def list_lessons(as_json: JsonOption = False) -> None:
    """All lessons, revoked ones too."""
    from agent import cli_memory
    from agent.cli_build import open_memory

    with open_memory(current_home()) as memory:
        lessons = memory.lessons()
    dumped = [lesson.model_dump(mode="json") for lesson in lessons]
    show(dumped if as_json else cli_memory.list_table(lessons))


@app.command("show")
def show_lesson(
    lesson: Annotated[str, typer.Argument(metavar="ID", help="Or its beginning.")],
    as_json: JsonOption = False,
) -> None:
    """One lesson with its evidence."""
    from agent import cli_memory
    from agent.cli_build import open_memory

    with open_memory(current_home()) as memory:
        found = cli_memory.find_lesson(memory, lesson)
    show(found.model_dump(mode="json") if as_json else cli_memory.show(found))


@app.command("stats")
def memory_stats(as_json: JsonOption = False) -> None:
    """How much is remembered."""
    from agent import cli_memory
    from agent.cli_build import open_memory

    with open_memory(current_home()) as memory:
        stats = memory.stats()
    show(stats.model_dump(mode="json") if as_json else cli_memory.stats_lines(stats))


@app.command("revoke")
def revoke_run(
    run: Annotated[str, typer.Option(metavar="RUN", help="Whose evidence counts no more.")],
) -> None:
    """Take a run's evidence out of every lesson, for ever."""
    from agent.cli_build import open_memory

    with open_memory(current_home()) as memory:
        count = memory.revoke(run)
    typer.echo(f"{count} trials of {run} count no more")
