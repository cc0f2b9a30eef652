"""A problem in a folder of its own: SOL-ExecBench's files, and what they lack in `problem.toml`."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from problems.definition import Definition
from problems.errors import ConfigError
from problems.problem import AxisRule, Problem, Target, Track, WorkloadSet, check_fits
from problems.record import NonEmpty, Record, parse_record
from problems.workload import Workload

WORKLOAD_FILES = {Target.CUDA: "workload.jsonl", Target.CPU: "workload.cpu.jsonl"}


class HiddenRules(Record):
    """How one target's hidden workloads are drawn."""

    max_bytes: Annotated[int, Field(gt=0)] = 1 << 31
    rules: dict[str, AxisRule] = {}


class ProblemFile(Record):
    """`problem.toml`: what SOL-ExecBench's schema has no place for. All of it is optional."""

    number: int | None = None
    title: NonEmpty | None = None
    track: Track | None = None
    family: str | None = None
    denied_hosts: tuple[str, ...] = ()
    targets: dict[Target, HiddenRules] = {}


class FolderSource:
    """One folder, one problem; it is called as its definition is."""

    name = "folder"

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def names(self) -> tuple[str, ...]:
        return (read_definition(self._folder).name,)

    def load(self, name: str) -> Problem:
        problem = read_problem(self._folder, self.name)
        if name not in (problem.name, str(problem.number)):
            raise ConfigError(f"{self._folder}: holds {problem.name!r}, not {name!r}")
        return problem


def read_problem(folder: Path, source: str) -> Problem:
    """
    Raises:
        ConfigError: a file is missing or malformed: its name, its line and the field.
    """
    definition = read_definition(folder)
    extra = read_problem_file(folder)
    targets = {}
    for target, file in WORKLOAD_FILES.items():
        if (folder / file).exists():
            hidden = extra.targets.get(target, HiddenRules())
            public = _read_workloads(folder, file, definition)
            targets[target] = WorkloadSet(
                public=public, rules=hidden.rules, max_bytes=hidden.max_bytes
            )
        elif target in extra.targets:
            raise ConfigError(f"{folder.name}/problem.toml: targets.{target}: there is no {file}")
    if not targets:
        raise ConfigError(f"{folder}: no {' and no '.join(WORKLOAD_FILES.values())}")
    fields = {
        "name": definition.name,
        "source": source,
        "definition": definition,
        "targets": targets,
        **extra.model_dump(include={"number", "track", "family", "denied_hosts"}),
    }
    return parse_record(Problem, fields, f"{folder.name}/problem.toml")


def read_definition(folder: Path) -> Definition:
    """`definition.json`; a reference that it lacks is read from `reference.py`.

    Raises:
        ConfigError: a file is missing or malformed.
    """
    if not folder.is_dir():
        raise ConfigError(f"{folder}: no such folder")
    where = f"{folder.name}/definition.json"
    fields = _parse_json(_read(folder, "definition.json"), where)
    if not isinstance(fields, dict):
        raise ConfigError(f"{where}: must be an object")
    if "reference" not in fields:
        fields["reference"] = _read(folder, "reference.py")
    return parse_record(Definition, fields, where)


def read_problem_file(folder: Path) -> ProblemFile:
    """`problem.toml`; an empty one where there is none.

    Raises:
        ConfigError: it is malformed.
    """
    if not (folder / "problem.toml").exists():
        return ProblemFile()
    where = f"{folder.name}/problem.toml"
    try:
        fields = tomllib.loads(_read(folder, "problem.toml"))
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{where}: {error}") from None
    return parse_record(ProblemFile, fields, where)


def _read_workloads(folder: Path, file: str, definition: Definition) -> tuple[Workload, ...]:
    workloads: dict[str, Workload] = {}
    for number, line in enumerate(_read(folder, file).split("\n"), start=1):
        if not line.strip():
            continue
        where = f"{folder.name}/{file}:{number}"
        workload = parse_record(Workload, _parse_json(line, where, one_line=True), where)
        try:
            check_fits(definition, workload)
        except ValueError as error:
            raise ConfigError(f"{where}: {error}") from None
        if workload.uuid in workloads:
            raise ConfigError(f"{where}: uuid: {workload.uuid!r} is there twice")
        workloads[workload.uuid] = workload
    if not workloads:
        raise ConfigError(f"{folder.name}/{file}: no workloads")
    return tuple(workloads.values())


def _read(folder: Path, file: str) -> str:
    try:
        return (folder / file).read_text(encoding="utf-8")
    except FileNotFoundError:
        expected = "definition.json (with reference, else reference.py beside it)"
        raise ConfigError(
            f"{folder}: no {file}; expected {expected} and {' or '.join(WORKLOAD_FILES.values())}"
        ) from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{folder.name}/{file}: not UTF-8: {error.reason}") from None
    except OSError as error:
        raise ConfigError(f"{folder / file}: {error.strerror}") from None


def _parse_json(text: str, where: str, *, one_line: bool = False) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        place = where if one_line else f"{where}:{error.lineno}"
        raise ConfigError(f"{place}: column {error.colno}: {error.msg}") from None
    except RecursionError:
        raise ConfigError(f"{where}: nested too deeply") from None
