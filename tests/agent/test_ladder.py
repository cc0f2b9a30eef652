"""The ladder of each target."""

from __future__ import annotations

import pytest

from agent.ladder import choose_rung, first_rung
from problems.errors import ConfigError
from problems.problem import Target
from problems.solution import Language


def test_the_cpu_has_one_rung() -> None:
    rung = first_rung(Target.CPU)
    assert rung.language is Language.CPP
    assert rung.reason.endswith(".")
    assert choose_rung(Target.CPU, Language.CPP) == rung


def test_a_rung_that_the_target_lacks_names_those_it_has() -> None:
    with pytest.raises(ConfigError, match=r"^target cpu: no rung triton; rungs: cpp$"):
        choose_rung(Target.CPU, Language.TRITON)


def test_cuda_says_that_its_rungs_are_not_built() -> None:
    with pytest.raises(ConfigError, match="not built yet; targets with a ladder: cpu"):
        choose_rung(Target.CUDA)
