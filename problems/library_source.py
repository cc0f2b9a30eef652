"""The problems that kagent ships."""

from __future__ import annotations

import re
from pathlib import Path

from problems.errors import ConfigError
from problems.folder_source import ProblemFile, read_problem, read_problem_file
from problems.problem import Problem

LIBRARY = Path(__file__).parent / "library"
_NUMBER = re.compile(r"(?:problem_)?0*(\d+)")


class UnknownProblem(ConfigError):
    """No problem has this name or number."""


class LibrarySource:
    name = "library"

    def __init__(self, root: Path = LIBRARY) -> None:
        self._root = root

    def names(self) -> tuple[str, ...]:
        return tuple(self.entries())

    def entries(self) -> dict[str, ProblemFile]:
        """The head of every problem, by name, in the order of their numbers."""
        files = {
            folder.name: read_problem_file(folder)
            for folder in self._root.iterdir()
            if (folder / "definition.json").exists()
        }
        return dict(sorted(files.items(), key=lambda item: (item[1].number or 0, item[0])))

    def folder(self, name: str) -> Path:
        """Where a problem lies, by name, `7` or `problem_007`.

        Raises:
            UnknownProblem: there is no such problem.
        """
        if (self._root / name / "definition.json").exists() and name.isidentifier():
            return self._root / name
        entries = self.entries()
        if match := _NUMBER.fullmatch(name):
            for found, entry in entries.items():
                if entry.number == int(match[1]):
                    return self._root / found
        raise UnknownProblem(f"unknown problem {name!r}; the library has {', '.join(entries)}")

    def load(self, name: str) -> Problem:
        return read_problem(self.folder(name), self.name)
