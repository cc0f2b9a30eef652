"""What a run may be told: defaults in code, `config.toml` on top, `--set` and options on top."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from problems.errors import ConfigError, InfrastructureError
from problems.problem import Target
from problems.record import Record, parse_record

Seconds = Annotated[float, Field(gt=0, le=30 * 24 * 3600, allow_inf_nan=False)]


class RunConfig(Record):
    """Saved with each run as `config.json`."""

    target: Target = Target.CPU
    """The first target that has a ladder."""
    total_s: Seconds = 3600.0
    """Confirming and judging included."""
    seed: int = 0
    """Of the policy's draws; the judge's seed is secret and drawn for each run."""
    memory: Literal["on", "off"] = "on"
    sandbox: Literal["auto", "bubblewrap"] = "auto"
    policy: Literal["playbook"] = "playbook"
    hidden_workloads: Annotated[int, Field(ge=1, le=64)] = 4
    call_timeout_s: Annotated[float, Field(gt=0, le=600)] = 10.0
    """Of one call of a solution."""


def load_config(file: Path, assignments: Sequence[str], options: Mapping[str, Any]) -> RunConfig:
    """`options` that are None were not given.

    Raises:
        ConfigError: an unknown key or a value that does not fit, with the place.
    """
    values = _read(file)
    where = str(file) if values else "config"
    parse_record(RunConfig, _checked(values, where), where)
    for assignment in assignments:
        key, separator, text = assignment.partition("=")
        where = f"--set {assignment}"
        if not separator:
            raise ConfigError(f"{where}: must be key=value; keys: {_keys()}")
        values = values | {key.strip(): _value(text.strip())}
        parse_record(RunConfig, _checked(values, where), where)
    for option, value in options.items():
        if value is not None:
            values = values | {option: value}
            parse_record(RunConfig, values, "option")
    return parse_record(RunConfig, values, "config")


def save_config(config: RunConfig, path: Path) -> None:
    """
    Raises:
        InfrastructureError: the disk is full or not writable.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(config.model_dump_json(indent=2) + "\n")
    except OSError as error:
        raise InfrastructureError(f"cannot write {path}: {error.strerror}") from error


def saved_config(path: Path) -> RunConfig:
    """
    Raises:
        ConfigError: the file is absent or malformed.
    """
    try:
        text = path.read_text()
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from None
    try:
        data = json.loads(text)
    except ValueError as error:
        raise ConfigError(f"{path}: {error}") from None
    return parse_record(RunConfig, data, str(path))


def _read(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text())
    except FileNotFoundError:
        return {}
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file}: {error}") from None


def _value(text: str) -> Any:
    """As TOML would read it, else the text itself."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def _checked(values: Mapping[str, Any], where: str) -> Mapping[str, Any]:
    unknown = [key for key in values if key not in RunConfig.model_fields]
    if unknown:
        raise ConfigError(f"{where}: unknown key {unknown[0]!r}; keys: {_keys()}")
    return values


def _keys() -> str:
    return ", ".join(RunConfig.model_fields)
