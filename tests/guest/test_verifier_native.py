"""The verifier's native helpers say what torch says, and a NaN never passes them."""

from __future__ import annotations

import pytest
import torch

from sandbox.guest.correctness import Expectation
from sandbox.guest.verifier_native import VerifierNative

pytestmark = pytest.mark.sandbox
TOLERANCE = {"max_atol": 1e-2, "max_rtol": 1e-2, "required_matched_ratio": 1.0}


@pytest.fixture(scope="module")
def native() -> VerifierNative:
    return VerifierNative()


def _pair(dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    expected = torch.randn(37, 211, generator=torch.Generator().manual_seed(5)).double()
    return expected.to(dtype), expected


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_errors_equal_the_slow_way(native: VerifierNative, dtype: torch.dtype) -> None:
    found, expected = _pair(dtype)
    expectation = Expectation("y", expected, TOLERANCE)
    slow, quick = expectation.compare(found), expectation.compare(found, native.errors)
    assert quick.passed
    assert slow.passed
    assert quick.max_absolute_error == pytest.approx(slow.max_absolute_error)
    assert quick.max_relative_error == pytest.approx(slow.max_relative_error)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("bad", [float("nan"), float("inf"), 9.0])
def test_one_bad_element_is_found(native: VerifierNative, dtype: torch.dtype, bad: float) -> None:
    found, expected = _pair(dtype)
    found[36, 210] = bad
    assert native.errors(found, expected, 1e-2, 1e-2) is None
    assert not native.agree(found, expected.to(dtype), 1e-2, 1e-2, 0.0)
    assert not Expectation("y", expected, TOLERANCE).compare(found, native.errors).passed


def test_a_type_without_a_quick_way_is_left_to_torch(native: VerifierNative) -> None:
    found, expected = _pair(torch.float16)
    assert native.errors(found, expected, 1e-2, 1e-2) is None
    assert native.agree(found, expected.to(torch.float16), 1e-2, 1e-2, 0.0)
    assert Expectation("y", expected, TOLERANCE).compare(found, native.errors).passed
