"""What every command's output is laid out with; cheap to import."""

from __future__ import annotations

from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

DIM = "bright_black"
_LABEL_WIDTH = 10


def fact(label: str, text: str | Text) -> RenderableType:
    """`label      text`, with the text's further lines below its first."""
    grid = Table.grid(padding=(0, 2), pad_edge=False)
    grid.add_column(width=_LABEL_WIDTH, style=f"bold {DIM}", no_wrap=True)
    grid.add_column(overflow="fold")
    grid.add_row(label, Text(text) if isinstance(text, str) else text)
    return Padding(grid, (0, 0, 0, 2))


def path_fact(label: str, path: str) -> Text:
    """On one line however long it is, so that it can be copied; print it with `crop=False`."""
    text = Text("  ", no_wrap=True, overflow="ignore")
    return text.append(f"{label:<{_LABEL_WIDTH}}  ", style=f"bold {DIM}").append(path)
