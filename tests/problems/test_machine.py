from __future__ import annotations

from pathlib import Path

import pytest

from problems.errors import ConfigError, InfrastructureError
from problems.machine import load_machine, save_machine
from tests.problems.test_speed_of_light import cpu


def test_what_was_saved_is_loaded(tmp_path: Path) -> None:
    path = tmp_path / "home" / "machine.json"
    assert load_machine(path) is None
    save_machine(path, cpu())
    assert load_machine(path) == cpu()
    save_machine(path, cpu(launch_overhead_us=1.0))
    assert load_machine(path) == cpu(launch_overhead_us=1.0)
    assert [p.name for p in path.parent.iterdir()] == ["machine.json"]


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"name": "x"}'])
def test_damage_is_one_line_with_the_way_back(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "machine.json"
    path.write_text(damage)
    with pytest.raises(ConfigError, match="delete the file") as caught:
        load_machine(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_home_that_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("")
    with pytest.raises(InfrastructureError, match="cannot save"):
        save_machine(tmp_path / "home" / "machine.json", cpu())
