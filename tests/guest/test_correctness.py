"""The comparison with the oracle: what must match, what must not, and that a NaN never passes."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from sandbox.guest.correctness import compare_output, worst

TOLERANCE: dict[str, Any] = {
    "max_atol": 1e-3,
    "max_rtol": 1e-2,
    "required_matched_ratio": 0.99,
    "max_error_cap": None,
}


def _expected(rows: int = 4, columns: int = 200) -> torch.Tensor:
    return torch.randn(rows, columns, generator=torch.Generator().manual_seed(1)).double()


def test_equal_passes_with_its_errors() -> None:
    expected = _expected()
    found = compare_output("y", expected.to(torch.float32), expected, TOLERANCE)
    assert found.passed
    assert found.matched_ratio == 1.0
    assert found.max_absolute_error is not None
    assert found.max_absolute_error < 1e-6


def test_one_bad_row_fails_though_the_whole_would_pass() -> None:
    expected = _expected(rows=400)
    output = expected.clone()
    output[7, :3] += 1.0
    found = compare_output("y", output, expected, TOLERANCE)
    assert not found.passed
    assert found.matched_ratio == pytest.approx(1 - 3 / 200)
    assert "first mismatch at [7, 0]" in found.reason


def test_a_row_may_miss_its_allowed_share() -> None:
    expected = _expected()
    output = expected.clone()
    output[:, :2] += 1.0
    assert compare_output("y", output, expected, TOLERANCE).passed
    tight = TOLERANCE | {"max_error_cap": 0.5}
    assert "cap" in compare_output("y", output, expected, tight).reason


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_a_value_that_is_not_finite_fails(bad: float) -> None:
    expected = _expected(rows=1000)
    output = expected.clone()
    output[3, 5] = bad
    found = compare_output("y", output, expected, TOLERANCE)
    assert not found.passed
    assert found.max_absolute_error is None


def test_the_same_infinities_pass_and_the_other_sign_fails() -> None:
    expected = _expected()
    expected[0, 0] = -float("inf")
    assert compare_output("y", expected.clone(), expected, TOLERANCE).passed
    other = expected.clone()
    other[0, 0] = float("inf")
    assert not compare_output("y", other, expected, TOLERANCE).passed
    finite = expected.clone()
    finite[0, 0] = -1e30
    assert not compare_output("y", finite, expected, TOLERANCE).passed


def test_integers_are_exact() -> None:
    expected = torch.arange(100, dtype=torch.int32).reshape(10, 10)
    assert compare_output("i", expected.clone(), expected, TOLERANCE).passed
    output = expected.clone()
    output[9, 9] += 1
    found = compare_output("i", output, expected, TOLERANCE)
    assert not found.passed
    assert found.max_absolute_error == 1.0


def test_a_byte_that_is_no_boolean_fails() -> None:
    expected = torch.ones(8, dtype=torch.bool)
    output = torch.full((8,), 0xFF, dtype=torch.uint8).view(torch.bool)
    assert not compare_output("b", output, expected, TOLERANCE).passed


def test_nothing_compared_is_no_pass() -> None:
    assert not worst([]).passed


def test_the_worst_of_several_decides() -> None:
    expected = _expected()
    good = compare_output("a", expected.clone(), expected, TOLERANCE)
    bad = compare_output("b", expected + 1, expected, TOLERANCE)
    both = worst([good, bad])
    assert not both.passed
    assert both.reason == bad.reason
    assert both.matched_ratio == 0.0


@pytest.mark.parametrize("shape", [(0,), (0, 4), ()])
def test_empty_and_scalar_outputs(shape: tuple[int, ...]) -> None:
    expected = torch.zeros(shape, dtype=torch.float64)
    assert compare_output("y", expected.clone(), expected, TOLERANCE).passed
