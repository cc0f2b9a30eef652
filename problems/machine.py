"""The measured ceilings of this machine, kept in `machine.json`."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path

from problems.errors import ConfigError, InfrastructureError
from problems.hardware import Hardware
from problems.record import parse_record


def load_machine(path: Path) -> Hardware | None:
    """None where nothing was measured yet.

    Raises:
        ConfigError: the file is damaged; the message says how to measure again.
    """
    way_back = "delete the file, and the ceilings are measured again"
    try:
        data = json.loads(path.read_text())
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path}: {error}; {way_back}") from None
    try:
        return parse_record(Hardware, data, str(path))
    except ConfigError as error:
        raise ConfigError(f"{error}; {way_back}") from None


def save_machine(path: Path, hardware: Hardware) -> None:
    """Whole or not at all.

    Raises:
        InfrastructureError: the disk is full or not writable.
    """
    text = json.dumps(hardware.model_dump(mode="json"), indent=2) + "\n"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False) as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        Path(file.name).rename(path)
    except OSError as error:
        raise InfrastructureError(f"cannot save {path}: {error}") from error
