"""What a slot may be told: a known program, and files below `/work`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from pathlib import PurePosixPath

from problems.errors import SandboxError

_MAX_PATH = 1024


def check_order(files: Iterable[str], argv: Sequence[str], programs: Set[str]) -> None:
    """
    Raises:
        SandboxError: an unknown program, or a path that does not stay below `/work`.
    """
    program = argv[0] if argv else ""
    if program not in programs:
        raise SandboxError(f"{program!r} is no guest program: valid are {_listed(programs)}")
    for path in files:
        if not is_plain_path(path):
            raise SandboxError(f"{path!r} is no path for a file below /work")


def is_plain_path(name: str) -> bool:
    """Relative, in its shortest form, and below the folder that it is relative to."""
    path = PurePosixPath(name)
    return (
        0 < len(name) <= _MAX_PATH
        and name.isprintable()
        and str(path) == name
        and not path.is_absolute()
        and ".." not in path.parts
        and name != "."
    )


def _listed(names: Set[str]) -> str:
    return ", ".join(sorted(names)) or "none"
