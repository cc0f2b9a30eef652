from __future__ import annotations

import stat
from pathlib import Path

import pytest

from agent.home import Home, file_system, home_path, open_home, write_secret
from problems.errors import ConfigError


def test_the_home_is_made(tmp_path: Path) -> None:
    home = open_home({"KAGENT_HOME": str(tmp_path / "a" / "b")})
    assert home.root == tmp_path / "a" / "b"
    assert home.root.is_dir()
    assert home_path({}).name == "kagent"


def test_a_home_that_cannot_be_made_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="set KAGENT_HOME to a folder"):
        open_home({"KAGENT_HOME": str(tmp_path / "file" / "home")})


def test_the_file_system_of_the_longest_mount_point_counts(tmp_path: Path) -> None:
    inner = tmp_path / "with space"
    inner.mkdir()
    mounts = tmp_path / "mounts"
    place = str(inner).replace(" ", "\\040")
    mounts.write_text(f"/dev/sda / ext4 rw 0 0\nserver:/x {place} nfs4 rw 0 0\n")
    assert file_system(inner / "deep", mounts) == "nfs4"
    assert file_system(tmp_path, mounts) == "ext4"
    assert file_system(tmp_path, tmp_path / "absent") == "unknown"


def test_runs_are_found_by_name(tmp_path: Path) -> None:
    home = Home(tmp_path)
    with pytest.raises(ConfigError, match="there are no runs"):
        home.find_run("last")
    for name in ("rmsnorm-1", "softmax-2"):
        (home.runs / name).mkdir(parents=True)
        (home.runs / name / "journal.db").write_text("")
    assert home.find_run("rmsnorm-1") == home.runs / "rmsnorm-1"
    assert home.find_run("last").parent == home.runs
    with pytest.raises(ConfigError, match="rmsnorm-1"):
        home.find_run("rmsnorm-3")


def test_run_names_differ(tmp_path: Path) -> None:
    home = Home(tmp_path)
    assert len({home.new_run("rmsnorm") for _ in range(20)}) == 20


def test_a_secret_is_for_its_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "run" / "judge.seed"
    write_secret(path, b"secret")
    assert path.read_bytes() == b"secret"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
