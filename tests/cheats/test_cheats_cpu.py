"""Every known cheat that applies to the CPU target, against the real evaluator."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from problems.evaluation import Status
from scheduler.job import Stage
from tests.cheats.cpp_cheats import CPP_CHEATS, SOURCES
from tests.cheats.pytorch_cheats import PYTORCH_CHEATS
from tests.evaluation import (
    HONEST,
    REFERENCE,
    Evaluator,
    cpp_solution,
    pytorch_solution,
    real_evaluator,
)

pytestmark = [pytest.mark.sandbox, pytest.mark.slow]
BASELINE = pytorch_solution(REFERENCE, "eager")


@pytest.fixture(scope="module")
def evaluator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Evaluator]:
    folder: Path = tmp_path_factory.mktemp("cheats")
    with real_evaluator(folder) as made:
        yield made


@pytest.mark.parametrize("name", CPP_CHEATS)
def test_cpp_cheat(evaluator: Evaluator, name: str) -> None:
    stage, status, _ = CPP_CHEATS[name]
    opponent = BASELINE if stage is Stage.SCREEN else None
    allowed = status if isinstance(status, tuple) else (status,)
    result = evaluator.stage(stage, cpp_solution(SOURCES[name], name), opponent)
    assert result.status in allowed, result.log
    assert len(result.traces) == 2
    assert result.log


@pytest.mark.parametrize("name", PYTORCH_CHEATS)
def test_pytorch_cheat(evaluator: Evaluator, name: str) -> None:
    stage, status, source = PYTORCH_CHEATS[name]
    opponent = BASELINE if stage is Stage.SCREEN else None
    result = evaluator.stage(stage, pytorch_solution(source, name), opponent)
    assert result.status is status, result.log
    assert len(result.traces) == 2


def test_the_reference_is_not_within_reach(evaluator: Evaluator) -> None:
    source = PYTORCH_CHEATS["x17_looks_for_the_reference"][2]
    result = evaluator.stage(Stage.CHECK, pytorch_solution(source, "search"))
    assert "found []" in result.log


def test_a_patched_clock_does_not_make_faster(evaluator: Evaluator) -> None:
    source = PYTORCH_CHEATS["t06_patched_clock"][2]
    result = evaluator.stage(Stage.SCREEN, pytorch_solution(source, "clock"), BASELINE)
    ratios = [t.evaluation.performance.speedup for t in result.traces if t.evaluation.performance]
    assert len(ratios) == 2
    assert max(ratios) < 0.5


@pytest.mark.parametrize("stage", [Stage.CHECK, Stage.SCREEN])
def test_honest_cpp_passes(evaluator: Evaluator, stage: Stage) -> None:
    opponent = BASELINE if stage is Stage.SCREEN else None
    result = evaluator.stage(stage, cpp_solution(HONEST), opponent)
    assert result.status is Status.PASSED, result.log
    assert [t.evaluation.status for t in result.traces] == [Status.PASSED] * 2
    assert len(result.sessions) == (2 if opponent else 0)


@pytest.mark.parametrize("destination_passing", [True, False])
def test_honest_pytorch_passes(evaluator: Evaluator, destination_passing: bool) -> None:
    source = (
        "import torch\ndef run(x, bias, scale, y):\n    torch.add(x * scale, bias, out=y)\n"
        if destination_passing
        else REFERENCE
    )
    solution = pytorch_solution(source, "honest", destination_passing)
    assert evaluator.stage(Stage.CHECK, solution).status is Status.PASSED


def test_one_bad_shape_does_not_hide_the_other(evaluator: Evaluator) -> None:
    result = evaluator.stage(
        Stage.CHECK, cpp_solution(SOURCES["n14_wrong_for_one_shape"], "one_shape")
    )
    statuses = [trace.evaluation.status for trace in result.traces]
    assert statuses == [Status.PASSED, Status.INCORRECT_NUMERICAL]


def test_below_the_speed_of_light_is_quarantined(evaluator: Evaluator) -> None:
    result = evaluator.stage(Stage.SCREEN, cpp_solution(HONEST), BASELINE, bounds_ms=(1e6, 1e6))
    assert result.status is Status.QUARANTINED
    assert "speed of light" in result.log


def test_a_flood_of_output_is_cut(evaluator: Evaluator) -> None:
    flood = HONEST.replace("#include <cstdint>", "#include <cstdint>\n#include <cstdio>").replace(
        "  return 0;", '  for (;;) puts("0123456789012345678901234567890123456789");\n  return 0;'
    )
    result = evaluator.stage(Stage.CHECK, cpp_solution(flood, "flood"))
    assert result.status in (Status.RUNTIME_ERROR, Status.TIMEOUT), result.log
    assert evaluator.stage(Stage.CHECK, cpp_solution(HONEST)).status is Status.PASSED
