"""`kagent skills`: what ships with kagent."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from skills.skill import SKILLS_FOLDER, Skill, bundled_skills, load_skills

__all__ = ["SKILLS_FOLDER", "bundled_skills", "list_json", "list_table", "load_skills"]


def list_json(skills: Sequence[Skill]) -> list[dict[str, object]]:
    return [
        {"name": skill.name, "description": skill.description, "files": len(skill.files)}
        for skill in skills
    ]


def list_table(skills: Sequence[Skill]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold bright_black")
    table.add_column("skill", style="bold", no_wrap=True)
    table.add_column("files", justify="right")
    table.add_column("what for")
    for skill in skills:
        cells = (skill.name, str(len(skill.files)), skill.description)
        table.add_row(*(Text(cell) for cell in cells))
    return table
