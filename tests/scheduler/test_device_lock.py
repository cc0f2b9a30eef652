from __future__ import annotations

import stat
from pathlib import Path

import pytest

from problems.errors import InfrastructureError
from problems.problem import Target
from scheduler.device_lock import DeviceLock
from scheduler.job import Stage


class GivesUpAfter:
    def __init__(self, tries: int) -> None:
        self.left = tries

    def __call__(self) -> bool:
        self.left -= 1
        return self.left < 0


@pytest.mark.parametrize(
    ("holds", "wants", "target", "gets"),
    [
        (Stage.CONFIRM, Stage.SCREEN, Target.CPU, False),
        (Stage.CONFIRM, Stage.BUILD, Target.CPU, False),
        (Stage.BUILD, Stage.CONFIRM, Target.CPU, False),
        (Stage.BUILD, Stage.CHECK, Target.CPU, True),
        (Stage.CONFIRM, Stage.BUILD, Target.CUDA, True),
        (Stage.CONFIRM, Stage.CHECK, Target.CUDA, False),
        (Stage.PROFILE, Stage.CONFIRM, Target.CUDA, False),
    ],
)
def test_two_holders_of_one_device(
    tmp_path: Path, holds: Stage, wants: Stage, target: Target, gets: bool
) -> None:
    first, second = DeviceLock("cpu", tmp_path), DeviceLock("cpu", tmp_path)
    with first.held(holds, target) as taken:
        assert taken
        with second.held(wants, target, GivesUpAfter(3)) as also_taken:
            assert also_taken is gets
    with second.held(wants, target, GivesUpAfter(3)) as taken:
        assert taken


def test_devices_do_not_exclude_each_other(tmp_path: Path) -> None:
    with (
        DeviceLock("GPU-1", tmp_path).held(Stage.CONFIRM, Target.CUDA) as first,
        DeviceLock("GPU-2", tmp_path).held(Stage.CONFIRM, Target.CUDA) as second,
    ):
        assert first
        assert second


def test_every_user_may_lock(tmp_path: Path) -> None:
    with DeviceLock("cpu", tmp_path).held(Stage.CONFIRM, Target.CPU):
        files = sorted(tmp_path.iterdir())
        assert [stat.S_IMODE(file.stat().st_mode) for file in files] == [0o666, 0o666]


def test_a_planted_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "kagent-cpu.lock").symlink_to(tmp_path / "elsewhere")
    with (
        pytest.raises(InfrastructureError, match=r"kagent-cpu\.lock"),
        DeviceLock("cpu", tmp_path).held(Stage.CONFIRM, Target.CPU),
    ):
        pass
    assert not (tmp_path / "elsewhere").exists()
