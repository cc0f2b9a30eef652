"""What one aten operator costs: arithmetic operations, and the bytes that it moves if run alone.

Counting rules: two per multiply-add of a matrix product or convolution; one per output element of
a pointwise operator, a transcendental function included; one per input element of a reduction,
a scan, a sort or a selection of the largest (three for a variance: subtract, square, add); none
for conversions, views, copies, gathers, scatters and fills. An operator that none of this names
counts as pointwise: a bound that is too low is still a bound.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch.utils.flop_counter import flop_registry

aten = torch.ops.aten

_PER_VARIANCE_ELEMENT = 3
_SCANS = {
    aten.cumsum, aten.cumprod, aten.cummax, aten.cummin, aten.logcumsumexp, aten.topk, aten.sort,
    aten.argmax, aten.argmin, aten.argsort, aten.kthvalue, aten.median, aten.mode, aten.prod,
    aten.max, aten.min, aten.any, aten.all, aten.sum, aten.mean, aten.amax, aten.amin,
    aten.count_nonzero, aten.bincount, aten.histc,
}  # fmt: skip
_FREE = {
    aten._to_copy, aten.clone, aten.copy, aten.copy_, aten.cat, aten.stack, aten.gather,
    aten.index, aten.index_select, aten.embedding, aten.take, aten.scatter, aten.slice_scatter,
    aten.select_scatter, aten.index_put, aten.index_copy, aten.masked_scatter, aten.repeat,
    aten.constant_pad_nd, aten.flip, aten.roll, aten.tril, aten.triu, aten.full, aten.full_like,
    aten.ones, aten.zeros, aten.ones_like, aten.zeros_like, aten.arange, aten.eye, aten.linspace,
    aten.scalar_tensor, aten.fill, aten.fill_, aten.zero_, aten.one_hot,
}  # fmt: skip
_UNTOUCHED = {aten.empty, aten.empty_like, aten.empty_strided, aten.new_empty}
"""They reserve memory and move nothing."""
GATHERS = {aten.gather: 0, aten.index: 0, aten.index_select: 0, aten.embedding: 0, aten.take: 0}
"""Position of the tensor of which only the indexed elements are read."""


def arithmetic_of(
    func: Any, args: Sequence[Any], kwargs: dict[str, Any], output: Any
) -> tuple[int, int]:
    """Operations, and how many of them a matrix product does."""
    matrix = _matrix_operations(func, args, kwargs, output)
    if matrix is not None:
        return matrix, matrix
    packet = func.overloadpacket
    if packet in _FREE or packet in _UNTOUCHED or is_view(func):
        return 0, 0
    inputs = tensors_in(args)
    if packet in (aten.var, aten.std, aten.var_mean, aten.std_mean) and inputs:
        return _PER_VARIANCE_ELEMENT * inputs[0].numel(), 0
    if (packet in _SCANS or torch.Tag.reduction in func.tags) and inputs:
        return inputs[0].numel(), 0
    return max((t.numel() for t in tensors_in([output])), default=0), 0


def _matrix_operations(
    func: Any, args: Sequence[Any], kwargs: dict[str, Any], output: Any
) -> int | None:
    packet = func.overloadpacket
    if packet in (aten.mm, aten.bmm, aten._scaled_mm, aten._int_mm):
        return 2 * int(output.numel()) * int(args[0].shape[-1])
    if packet is aten.convolution and not args[6]:
        weight = args[1]
        return 2 * int(output.numel()) * int(weight[0].numel())
    if packet in flop_registry:
        return int(flop_registry[packet](*args, **kwargs, out_val=output))
    return None


def bytes_alone(func: Any, args: Sequence[Any], kwargs: dict[str, Any], output: Any) -> int:
    """Inputs read and outputs written; a view moves nothing."""
    packet = func.overloadpacket
    outputs = tensors_in([output])
    if packet in _UNTOUCHED or is_view(func):
        return 0
    written = sum(map(stored_bytes, outputs))
    read = sum(map(stored_bytes, tensors_in([*args, *kwargs.values()])))
    if packet in GATHERS and outputs:
        data = tensors_in(args)[GATHERS[packet]]
        read -= max(0, stored_bytes(data) - stored_bytes(outputs[0]))
    return read + written


def is_view(func: Any) -> bool:
    """Its result shares the memory of an argument that it does not change."""
    returns = func._schema.returns
    return bool(returns) and all(
        r.alias_info is not None and not r.alias_info.is_write for r in returns
    )


def tensors_in(values: Sequence[Any]) -> list[torch.Tensor]:
    found = []
    for value in values:
        if isinstance(value, torch.Tensor):
            found.append(value)
        elif isinstance(value, (list, tuple)):
            found += tensors_in(value)
    return found


def stored_bytes(tensor: torch.Tensor) -> int:
    """Of its different elements: an expanded axis is stored once."""
    stored = math.prod(
        size
        for size, stride in zip(tensor.shape, tensor.stride(), strict=True)
        if stride or not size
    )
    return stored * tensor.element_size()
