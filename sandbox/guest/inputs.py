"""Make a workload's inputs from its call and a seed, on any device."""

from __future__ import annotations

import types
from collections.abc import Sequence
from typing import Any

import torch

Value = torch.Tensor | float | int | bool


def load_reference(source: str, name: str = "reference") -> types.ModuleType:
    """Execute a reference's source as a module of its own."""
    module = types.ModuleType(name)
    exec(compile(source, f"{name}.py", "exec"), module.__dict__)
    return module


def dtype_of(name: str) -> torch.dtype:
    alias = {"float4_e2m1": "float4_e2m1fn_x2"}.get(name, name)
    dtype = getattr(torch, alias)
    if not isinstance(dtype, torch.dtype):
        raise TypeError(f"{name} is no dtype")
    return dtype


def make_inputs(
    call: dict[str, Any],
    reference: types.ModuleType,
    entrypoint: str | None,
    seed: int,
    device: str,
) -> list[Value]:
    """All inputs in calling order, contiguous, from the given seed only.

    Raises:
        ValueError: a custom input function returned something else than was declared.
    """
    torch.manual_seed(seed)
    if any(spec["kind"] == "custom" for spec in call["inputs"]):
        scalars = {s["name"]: s["value"] for s in call["inputs"] if "value" in s}
        made = getattr(reference, str(entrypoint))({**call["axes"], **scalars}, device)
        return [_checked(spec, made) for spec in call["inputs"]]
    return [_make(spec, device) for spec in call["inputs"]]


def _make(spec: dict[str, Any], device: str) -> Value:
    if spec["kind"] == "scalar":
        value: Value = spec["value"]
        return value
    if spec["kind"] != "random":
        raise ValueError(f"input {spec['name']}: {spec['kind']} inputs are not supported here")
    dtype = dtype_of(spec["dtype"])
    made = random_tensor(spec["shape"] or (), dtype, device)
    return made if spec["shape"] is not None else made.item()


def random_tensor(shape: Sequence[int], dtype: torch.dtype, device: str) -> torch.Tensor:
    """SOL-ExecBench's distributions.

    Standard normal; fp8 clamped to ±2; int8 over its range, wider integers -1024 … 1023; fair
    booleans.
    """
    if dtype is torch.bool:
        return torch.randint(0, 2, shape, device=device).to(torch.bool)
    if dtype is torch.int8:
        return torch.randint(-128, 128, shape, dtype=dtype, device=device)
    if not dtype.is_floating_point:
        return torch.randint(-1024, 1024, shape, dtype=dtype, device=device)
    normal = torch.randn(shape, device=device)
    if dtype.itemsize == 1:
        normal = normal.clamp(-2, 2)
    return normal.to(dtype)


def _checked(spec: dict[str, Any], made: dict[str, Any]) -> Value:
    name = spec["name"]
    if name not in made:
        raise ValueError(f"the custom input function returned no {name}")
    value: Value = made[name]
    if spec["shape"] is None:
        return value.item() if isinstance(value, torch.Tensor) else value
    wanted = (tuple(spec["shape"]), dtype_of(spec["dtype"]))
    if not isinstance(value, torch.Tensor):
        raise ValueError(f"custom input {name} is a {type(value).__name__}, not a tensor")
    if (tuple(value.shape), value.dtype) != wanted:
        raise ValueError(
            f"custom input {name} is {tuple(value.shape)} {value.dtype}, "
            f"not {wanted[0]} {wanted[1]}"
        )
    return value.contiguous()
