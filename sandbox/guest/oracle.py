"""The expected outputs: a reference run with every floating-point step in float64."""

from __future__ import annotations

import types
from collections.abc import Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

from sandbox.guest.inputs import Value

_RAISED = (torch.float16, torch.bfloat16, torch.float32)


class Float64Mode(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Turns every cast to, and creation in, a 16- or 32-bit float into float64.

    fp8 and fp4 casts stay: there rounding is what the operator is for.
    """

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        raised_args, raised_kwargs = tree_map(_raised, (args, kwargs or {}))
        return func(*raised_args, **raised_kwargs)


def _raised(value: Any) -> Any:
    return torch.float64 if isinstance(value, torch.dtype) and value in _RAISED else value


def expected_outputs(reference: types.ModuleType, inputs: Sequence[Value]) -> list[torch.Tensor]:
    """In float64 where they are floating-point; integers and booleans as the reference gives."""
    raised = [
        x.to(torch.float64) if isinstance(x, torch.Tensor) and x.dtype.is_floating_point else x
        for x in inputs
    ]
    default = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with torch.no_grad(), Float64Mode():  # type: ignore[no-untyped-call]
            outputs = as_list(reference.run(*raised))
    finally:
        torch.set_default_dtype(default)
    # A reference that rounds to fp8 returns fp8, on which torch has no arithmetic.
    return [x.to(torch.float64) if x.dtype.is_floating_point else x for x in outputs]


def native_outputs(reference: types.ModuleType, inputs: Sequence[Value]) -> list[torch.Tensor]:
    """As the reference computes them itself, on copies of the inputs."""
    copies = [x.clone() if isinstance(x, torch.Tensor) else x for x in inputs]
    with torch.no_grad():
        return as_list(reference.run(*copies))


def as_list(result: Any) -> list[torch.Tensor]:
    items = list(result) if isinstance(result, (tuple, list)) else [result]
    return [item if isinstance(item, torch.Tensor) else torch.tensor(item) for item in items]
