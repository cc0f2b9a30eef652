from __future__ import annotations

from pathlib import Path

import pytest

from agent.config import RunConfig, load_config, save_config, saved_config
from problems.errors import ConfigError


def test_each_layer_lies_over_the_one_before(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text('total_s = 60\nseed = 1\nmemory = "off"\n')
    assert load_config(tmp_path / "absent", (), {}) == RunConfig()
    config = load_config(file, ("seed=2", "hidden_workloads=8"), {"total_s": 90.0, "memory": None})
    assert config == RunConfig(total_s=90, seed=2, memory="off", hidden_workloads=8)


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        ("seed", "must be key=value"),
        ("sead=1", "unknown key 'sead'; keys: target"),
        ("total_s=0", "total_s: Input should be greater than 0"),
        ("total_s=nan", "total_s"),
        ("memory=perhaps", "memory: Input should be 'on' or 'off'"),
    ],
)
def test_a_wrong_assignment_is_named(tmp_path: Path, assignment: str, message: str) -> None:
    with pytest.raises(ConfigError, match="--set ") as caught:
        load_config(tmp_path / "absent", (assignment,), {})
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["seed = ", "seed = 'x'", "unknown = 1"])
def test_a_wrong_file_is_named(tmp_path: Path, text: str) -> None:
    file = tmp_path / "config.toml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=r"config\.toml"):
        load_config(file, (), {})


def test_the_saved_configuration_comes_back(tmp_path: Path) -> None:
    config = RunConfig(total_s=5, seed=7)
    save_config(config, tmp_path / "run" / "config.json")
    assert saved_config(tmp_path / "run" / "config.json") == config
    (tmp_path / "bad.json").write_text("{")
    with pytest.raises(ConfigError, match=r"bad\.json"):
        saved_config(tmp_path / "bad.json")
