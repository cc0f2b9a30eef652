"""Find a problem by what a user calls it: a library name, a number, or a folder."""

from __future__ import annotations

import difflib
from pathlib import Path

from problems.errors import ConfigError
from problems.folder_source import WORKLOAD_FILES, FolderSource, read_problem
from problems.library_source import LibrarySource, UnknownProblem
from problems.problem import Problem, Target, Track
from problems.record import Record


class ProblemSummary(Record):
    name: str
    number: int | None
    source: str
    track: Track | None
    title: str
    family: str | None
    targets: tuple[Target, ...]
    workloads: dict[Target, int]
    """Public ones, by target."""


def load_problem(spec: str) -> Problem:
    """By library name, by number (`problem_001` or `1`), or by the path of a folder.

    Raises:
        ConfigError: unknown, or its files are malformed.
    """
    library = LibrarySource()
    if "/" not in spec and spec not in (".", ".."):
        try:
            return library.load(spec)
        except UnknownProblem:
            if not Path(spec).is_dir():
                raise ConfigError(_unknown(spec, library.names())) from None
    return read_problem(Path(spec).expanduser().resolve(), FolderSource.name)


def list_problems() -> tuple[ProblemSummary, ...]:
    """The library, in the order of its numbers; counts workloads without validating them."""
    library = LibrarySource()
    summaries = []
    for name, entry in library.entries().items():
        counts = _count_workloads(library.folder(name))
        summaries.append(
            ProblemSummary(
                name=name,
                number=entry.number,
                source=library.name,
                track=entry.track,
                title=entry.title or name,
                family=entry.family,
                targets=tuple(counts),
                workloads=counts,
            )
        )
    return tuple(summaries)


def _count_workloads(folder: Path) -> dict[Target, int]:
    paths = {target: folder / file for target, file in WORKLOAD_FILES.items()}
    return {
        target: sum(bool(line.strip()) for line in path.read_bytes().splitlines())
        for target, path in paths.items()
        if path.exists()
    }


def _unknown(spec: str, names: tuple[str, ...]) -> str:
    closest = difflib.get_close_matches(spec, names, n=3)
    hint = f"; did you mean {' or '.join(closest)}?" if closest else ""
    return (
        f"unknown problem {spec!r}{hint}; valid: {', '.join(names)}; "
        "or its number (1 or problem_001), or a folder"
    )
