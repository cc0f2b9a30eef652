"""A solution from what a user has: `solution.json`, a folder, or one bare source file."""

from __future__ import annotations

import ast
import json
import os
import re
from pathlib import Path
from typing import Any

from problems.definition import Definition
from problems.errors import ConfigError
from problems.record import parse_record
from problems.solution import SUFFIXES, Language, Solution

ENTRY = "run"
_FILES = "solution.json, a folder with one, or a source file that ends in .cpp or .py"
_CPP_SUFFIXES, _PYTHON_SUFFIXES = SUFFIXES[Language.CPP], SUFFIXES[Language.PYTORCH]
_CPP_HEADERS = (".h", ".hpp")


def load_solution(path: Path, definition: Definition) -> Solution:
    """
    Raises:
        ConfigError: absent, malformed (with the field), or without its entry point.
    """
    if path.is_dir():
        if (path / "solution.json").exists():
            return _from_json(path / "solution.json")
        return _from_folder(path, definition)
    if path.suffix == ".json":
        return _from_json(path)
    if path.suffix not in (*_CPP_SUFFIXES, *_PYTHON_SUFFIXES):
        known = "no such file" if not path.exists() else "unknown kind of file"
        raise ConfigError(f"{path}: {known}; expected {_FILES}")
    return _bare(path, [path], definition)


def _from_json(path: Path) -> Solution:
    """Sources without content are read from the files beside it."""
    text = _read(path)
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path}: {error}") from None
    sources = data.get("sources") if isinstance(data, dict) else None
    for source in sources if isinstance(sources, list) else []:
        if isinstance(source, dict) and "content" not in source:
            name = source.get("path")
            if isinstance(name, str) and ".." not in name and not name.startswith("/"):
                source["content"] = _read(path.parent / name)
    solution = parse_record(Solution, data, str(path))
    _check_symbol(solution, path)
    return solution


def _from_folder(path: Path, definition: Definition) -> Solution:
    wanted = (*_CPP_SUFFIXES, *_CPP_HEADERS, *_PYTHON_SUFFIXES)
    files = sorted(file for file in path.rglob("*") if file.suffix in wanted and file.is_file())
    entries = [file for file in files if file.suffix not in _CPP_HEADERS]
    with_entry = [file for file in entries if _has_symbol(file, _read(file), ENTRY)]
    if len(with_entry) != 1:
        found = ", ".join(str(file.relative_to(path)) for file in with_entry) or "none"
        raise ConfigError(
            f"{path}: needs a solution.json, or exactly one source file with a function {ENTRY} "
            f"(found {found})"
        )
    kind = _CPP_HEADERS + _CPP_SUFFIXES
    if with_entry[0].suffix in _PYTHON_SUFFIXES:
        kind = _PYTHON_SUFFIXES
    return _bare(with_entry[0], [file for file in files if file.suffix in kind], definition)


def _bare(entry: Path, files: list[Path], definition: Definition) -> Solution:
    root = entry.parent if len(files) == 1 else Path(*_common(files))
    text = _read(entry)
    if not _has_symbol(entry, text, ENTRY):
        raise ConfigError(f"{entry}: no function {ENTRY}, which is the entry point")
    python = entry.suffix in _PYTHON_SUFFIXES
    data: dict[str, Any] = {
        "name": entry.stem,
        "definition": definition.name,
        "author": "user",
        "spec": {
            "languages": [Language.PYTORCH if python else Language.CPP],
            "entry_point": f"{entry.relative_to(root)}::{ENTRY}",
            "destination_passing_style": not python or _takes_outputs(entry, text, definition),
        },
        "sources": [{"path": str(f.relative_to(root)), "content": _read(f)} for f in files],
    }
    return parse_record(Solution, data, str(entry))


def _common(files: list[Path]) -> tuple[str, ...]:
    return Path(os.path.commonpath([file.parent for file in files])).parts


def _takes_outputs(path: Path, text: str, definition: Definition) -> bool:
    """By the number of arguments: the inputs, or the inputs and the outputs."""
    try:
        body = ast.parse(text).body
    except (SyntaxError, ValueError):
        return False
    functions = [node for node in body if isinstance(node, ast.FunctionDef)]
    run = next((f for f in functions if f.name == ENTRY), None)
    if run is None or run.args.vararg:
        return False
    count = len(run.args.posonlyargs) + len(run.args.args)
    inputs, both = len(definition.inputs), len(definition.inputs) + len(definition.outputs)
    if count not in (inputs, both):
        raise ConfigError(
            f"{path}: {ENTRY} takes {count} arguments; it must take {inputs} "
            f"({', '.join(definition.inputs)}) and return the outputs, or {both} with "
            f"{', '.join(definition.outputs)} to write them into"
        )
    return count == both


def _check_symbol(solution: Solution, path: Path) -> None:
    entry = Path(solution.entry_path)
    if not _has_symbol(entry, solution.entry_source, solution.entry_symbol):
        raise ConfigError(
            f"{path}: spec.entry_point: {solution.entry_path} has no function "
            f"{solution.entry_symbol!r}"
        )


def _has_symbol(path: Path, text: str, symbol: str) -> bool:
    if path.suffix in _PYTHON_SUFFIXES:
        try:
            ast.parse(text)
        except (SyntaxError, ValueError):
            # The build says where the error is.
            return True
        pattern = rf"^(?:def\s+{symbol}\b|{symbol}\s*[:=]|from .*\b{symbol}\b)"
        return bool(re.search(pattern, text, re.MULTILINE))
    return bool(re.search(rf"\b{symbol}\s*\(|##\s*{symbol}\b", text))


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not UTF-8: {error.reason}") from None
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}; expected {_FILES}") from None
