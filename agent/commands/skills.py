"""`kagent skills`. Heavy imports wait until a command runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from agent.commands.shared import JsonOption, group, show

app = group("The expert knowledge that ships with kagent.")


@app.command("list")
def list_skills(as_json: JsonOption = False) -> None:
    """The skills, and what each is for."""
    from agent import cli_skills

    skills = cli_skills.bundled_skills()
    show(cli_skills.list_json(skills) if as_json else cli_skills.list_table(skills))


@app.command("check")
def check_skills(
    folder: Annotated[Path | None, typer.Argument(help="Of skills; the bundled ones.")] = None,
) -> None:
    """Validate skills; 0 if all are well-formed."""
    from agent import cli_skills

    skills = cli_skills.load_skills(folder or cli_skills.SKILLS_FOLDER)
    typer.echo(f"passed  {len(skills)} skills: {', '.join(skill.name for skill in skills)}")
