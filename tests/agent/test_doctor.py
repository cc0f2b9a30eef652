"""What a machine lacks is found, with the way to repair it."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.doctor import Check, Level, checks

SYSTEM = "/usr/bin:/bin"


def found_in(environment: dict[str, str]) -> dict[str, Check]:
    return {check.name: check for check in checks(environment)}


def test_a_machine_without_a_compiler_and_a_home(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    found = found_in({"PATH": str(tmp_path), "KAGENT_HOME": str(tmp_path / "file")})
    assert found["g++"].level is Level.MISSING
    assert "g++" in found["g++"].repair
    assert found["home"].level is Level.MISSING
    assert "KAGENT_HOME" in found["home"].repair
    assert found["Python"].level is Level.OK


def test_damaged_ceilings_are_a_warning(tmp_path: Path) -> None:
    (tmp_path / "machine.json").write_text("{")
    check = found_in({"PATH": str(tmp_path), "KAGENT_HOME": str(tmp_path)})["ceilings"]
    assert check.level is Level.WARNING
    assert check.repair == f"rm {tmp_path / 'machine.json'}"


@pytest.mark.sandbox
def test_a_machine_that_has_everything(tmp_path: Path) -> None:
    found = found_in({"PATH": SYSTEM, "KAGENT_HOME": str(tmp_path)})
    for name in ("torch", "g++", "user namespaces", "home", "bubblewrap"):
        assert found[name].level is Level.OK, found[name]
    assert "a sandbox started" in found["bubblewrap"].detail
