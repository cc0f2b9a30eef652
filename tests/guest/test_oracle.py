"""The oracle computes in float64 whatever the reference casts to."""

from __future__ import annotations

import torch

from sandbox.guest.inputs import load_reference, make_inputs, random_tensor
from sandbox.guest.oracle import expected_outputs, native_outputs

NORM = """import torch
def run(x, eps):
    h = x.float()
    y = h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + eps)
    return y.to(torch.bfloat16), torch.zeros(3, dtype=torch.float16)
"""


def test_casts_and_creations_are_raised() -> None:
    reference = load_reference(NORM)
    x = torch.randn(8, 64, generator=torch.Generator().manual_seed(3)).to(torch.bfloat16)
    exact, zeros = expected_outputs(reference, [x, 1e-6])
    assert exact.dtype is torch.float64
    assert zeros.dtype is torch.float64
    wide = x.double()
    by_hand = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)
    assert torch.equal(exact, by_hand)
    assert native_outputs(reference, [x, 1e-6])[0].dtype is torch.bfloat16
    assert torch.get_default_dtype() is torch.float32


def test_fp8_rounding_stays() -> None:
    reference = load_reference(
        "import torch\ndef run(x):\n    return x.to(torch.float8_e4m3fn).float()\n"
    )
    x = torch.tensor([1.06, 3.3, -0.013])
    assert torch.equal(expected_outputs(reference, [x])[0], x.to(torch.float8_e4m3fn).double())


def test_the_reference_cannot_change_its_inputs() -> None:
    reference = load_reference("def run(x):\n    return x.add_(1)\n")
    x = torch.zeros(4)
    expected_outputs(reference, [x])
    native_outputs(reference, [x])
    assert torch.equal(x, torch.zeros(4))


def test_inputs_depend_on_the_seed_only() -> None:
    call = {
        "axes": {},
        "inputs": [
            {"name": "x", "shape": [16], "dtype": "float32", "kind": "random"},
            {"name": "n", "shape": None, "dtype": "int32", "kind": "scalar", "value": 7},
        ],
    }
    reference = load_reference("def run(x, n):\n    return x\n")
    first, again, other = (make_inputs(call, reference, None, seed, "cpu") for seed in (1, 1, 2))
    assert isinstance(first[0], torch.Tensor)
    assert isinstance(again[0], torch.Tensor)
    assert isinstance(other[0], torch.Tensor)
    assert torch.equal(first[0], again[0])
    assert not torch.equal(first[0], other[0])
    assert first[1] == 7


def test_random_tensors_by_dtype() -> None:
    torch.manual_seed(0)
    assert random_tensor([1000], torch.int8, "cpu").min() < -100
    assert random_tensor([1000], torch.int64, "cpu").abs().max() <= 1024
    assert random_tensor([1000], torch.float8_e4m3fn, "cpu").float().abs().max() <= 2
    assert random_tensor([1000], torch.bool, "cpu").float().mean() < 0.7
