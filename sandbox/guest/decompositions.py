"""The canonical low-level form of composite operators.

What is left after them: pointwise operators, reductions (sum, mean, amax, amin, var, argmax),
`mm`, `bmm`, `convolution`, views, `_to_copy` for a change of type, `cat`, `slice`, `gather`,
`index`, `embedding`, `topk`, `sort`, `full` for every constant fill.
- softmax becomes amax, sub, exp, sum, div; log_softmax amax, sub, exp, sum, log, sub; in float32
  for 16-bit operands, as torch computes them, between two `_to_copy`.
- layer_norm and group_norm become var, mean, sub, add, rsqrt, mul; rms_norm pow, mean, add, rsqrt,
  mul; gelu and silu their formula in float32.
- `linear` and `addmm` become `mm` and `add`; `mv` an `mm`.
- attention becomes `bmm` of queries and keys into float32, `mul` by the scale, `where` with a
  `tril` (causal) or `add` of a mask, softmax, `_to_copy`, `bmm`. Heads that share keys are rows
  of one matrix: nothing is repeated.
- `split`, `chunk` and `unbind` become `slice` and `select`; `max` and `min` along an axis become
  amax and argmax, of which an unused one vanishes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch._decomp import decomposition_table

aten = torch.ops.aten
prims = torch.ops.prims

_BY_TORCH = (
    aten._softmax, aten._log_softmax, aten.native_layer_norm, aten.native_group_norm,
    aten.gelu, aten.silu, aten.mish, aten.glu, aten.elu, aten.leaky_relu, aten.hardswish,
    aten.hardsigmoid, aten.hardtanh, aten.softplus, aten.log_sigmoid_forward, aten.mse_loss,
    aten.smooth_l1_loss, aten.huber_loss, aten.binary_cross_entropy, aten.nll_loss_forward,
    aten.addcmul, aten.addcdiv, aten.lerp, aten.logsumexp, aten.linalg_vector_norm,
    aten.masked_fill, aten.native_batch_norm, aten._native_batch_norm_legit_no_training,
    aten.rsub, aten.threshold, aten.aminmax, aten.stack, aten._safe_softmax,
)  # fmt: skip


def decomposition_of(func: Any) -> Callable[..., Any] | None:
    """A function of the same arguments that uses simpler operators; None for a simple one."""
    own = _OWN.get(func) or _OWN.get(func.overloadpacket)
    if own is not None:
        return own
    if func.overloadpacket in _BY_TORCH:
        found: Callable[..., Any] | None = decomposition_table.get(func)
        return found
    return None


def _addmm(
    bias: torch.Tensor, a: torch.Tensor, b: torch.Tensor, beta: float = 1, alpha: float = 1
) -> torch.Tensor:
    product = torch.bmm(a, b) if a.dim() == 3 else torch.mm(a, b)
    product = product if alpha == 1 else product * alpha
    return product + (bias if beta == 1 else bias * beta)


def _mv(matrix: torch.Tensor, vector: torch.Tensor) -> torch.Tensor:
    return torch.mm(matrix, vector.unsqueeze(1)).squeeze(1)


def _addmv(
    bias: torch.Tensor, a: torch.Tensor, b: torch.Tensor, beta: float = 1, alpha: float = 1
) -> torch.Tensor:
    return _addmm(bias.unsqueeze(-1), a, b.unsqueeze(1), beta, alpha).squeeze(1)


def _split(x: torch.Tensor, size: int, dim: int = 0) -> list[torch.Tensor]:
    starts = range(0, x.shape[dim], size) if x.shape[dim] else [0]
    return [aten.slice(x, dim, start, min(start + size, x.shape[dim])) for start in starts]


def _split_with_sizes(x: torch.Tensor, sizes: list[int], dim: int = 0) -> list[torch.Tensor]:
    starts = [sum(sizes[:index]) for index in range(len(sizes))]
    return [
        aten.slice(x, dim, start, start + size) for start, size in zip(starts, sizes, strict=True)
    ]


def _unbind(x: torch.Tensor, dim: int = 0) -> list[torch.Tensor]:
    return [aten.select(x, dim, index) for index in range(x.shape[dim])]


def _max(x: torch.Tensor, dim: int, keepdim: bool = False) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.amax(x, dim, keepdim), torch.argmax(x, dim, keepdim)


def _min(x: torch.Tensor, dim: int, keepdim: bool = False) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.amin(x, dim, keepdim), torch.argmin(x, dim, keepdim)


def _std(
    x: torch.Tensor, dim: Any = None, correction: Any = None, keepdim: bool = False
) -> torch.Tensor:
    return torch.sqrt(aten.var.correction(x, dim, correction=correction, keepdim=keepdim))


def _var_mean(
    x: torch.Tensor, dim: Any = None, correction: Any = None, keepdim: bool = False
) -> tuple[torch.Tensor, torch.Tensor]:
    axes = dim if dim else list(range(x.dim()))
    variance = aten.var.correction(x, axes, correction=correction, keepdim=keepdim)
    return variance, torch.mean(x, axes, keepdim)


def _over_all_axes(reduce: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    def reduced(x: torch.Tensor, dtype: torch.dtype | None = None) -> torch.Tensor:
        converted = x if dtype is None else x.to(dtype)
        return reduce(converted, list(range(x.dim())))

    return reduced


def _scalar(func: Any) -> Callable[..., Any]:
    """The same operator in its tensor overload, whose scalar is the attribute `other`."""

    def with_scalar(x: torch.Tensor, other: Any, alpha: Any = 1) -> Any:
        return func(x, other) if alpha == 1 else func(x, other * alpha)

    return with_scalar


def _scaled_operand(func: Any) -> Callable[..., Any]:
    def unscaled(x: Any, other: Any, alpha: Any = 1) -> Any:
        return NotImplemented if alpha == 1 else func(x, other * alpha)

    return unscaled


def _full(size: Any, fill_value: Any, **options: Any) -> torch.Tensor:
    dtype = options.get("dtype") or torch.tensor(fill_value).dtype
    filled: torch.Tensor = aten.full(size, fill_value, dtype=dtype, device="meta")
    return filled


def _filled_with(value: Any) -> Callable[..., torch.Tensor]:
    def filled(size: Any, **options: Any) -> torch.Tensor:
        return _full(size, value, dtype=options.get("dtype") or torch.get_default_dtype())

    return filled


def _filled_like(value: Any) -> Callable[..., torch.Tensor]:
    def filled(x: torch.Tensor, *size: Any, **options: Any) -> torch.Tensor:
        shape = size[0] if size else x.shape
        return _full(shape, value, dtype=options.get("dtype") or x.dtype)

    return filled


def _full_like(x: torch.Tensor, fill_value: Any, **options: Any) -> torch.Tensor:
    return _full(x.shape, fill_value, dtype=options.get("dtype") or x.dtype)


def _new_full(x: torch.Tensor, size: Any, fill_value: Any, **options: Any) -> torch.Tensor:
    return _full(size, fill_value, dtype=options.get("dtype") or x.dtype)


def _empty_like(x: torch.Tensor, *size: Any, **options: Any) -> torch.Tensor:
    shape, dtype = size[0] if size else x.shape, options.get("dtype") or x.dtype
    return torch.empty(shape, dtype=dtype, device="meta")


_OWN: dict[Any, Callable[..., Any]] = {
    aten.addmm: _addmm,
    aten.baddbmm: _addmm,
    aten.mv: _mv,
    aten.addmv: _addmv,
    aten.split.Tensor: _split,
    aten.split_with_sizes: _split_with_sizes,
    aten.unbind: _unbind,
    aten.max.dim: _max,
    aten.min.dim: _min,
    aten.max.default: _over_all_axes(torch.amax),
    aten.min.default: _over_all_axes(torch.amin),
    aten.sum.default: _over_all_axes(torch.sum),
    aten.mean.default: _over_all_axes(torch.mean),
    aten.std.correction: _std,
    aten.var_mean.correction: _var_mean,
    aten.add.Scalar: _scalar(aten.add.Tensor),
    aten.sub.Scalar: _scalar(aten.sub.Tensor),
    aten.mul.Scalar: _scalar(aten.mul.Tensor),
    aten.div.Scalar: _scalar(aten.div.Tensor),
    aten.add.Tensor: _scaled_operand(aten.add.Tensor),
    aten.sub.Tensor: _scaled_operand(aten.sub.Tensor),
    aten.clamp_min.default: lambda x, limit: aten.clamp(x, limit, None),
    aten.clamp_max.default: lambda x, limit: aten.clamp(x, None, limit),
    aten.t: lambda x: aten.transpose(x, 0, 1) if x.dim() == 2 else x,
    aten._unsafe_view: lambda x, size: aten.view(x, size),
    aten._reshape_alias: lambda x, size, stride: aten.view(x, size),
    aten.copy: lambda x, source, non_blocking=False: source.to(x.dtype).expand(x.shape),
    prims.convert_element_type: lambda x, dtype: aten._to_copy(x, dtype=dtype),
    aten.zeros: _filled_with(0),
    aten.ones: _filled_with(1),
    aten.zeros_like: _filled_like(0),
    aten.ones_like: _filled_like(1),
    aten.new_zeros: _filled_like(0),
    aten.new_ones: _filled_like(1),
    aten.full_like: _full_like,
    aten.new_full: _new_full,
    aten.empty_like: _empty_like,
    aten.new_empty: _empty_like,
    aten.scalar_tensor: lambda value, **options: _full(
        [], value, dtype=options.get("dtype") or torch.get_default_dtype()
    ),
}


def causal_share(queries: int, keys: int) -> float:
    """Of all pairs of a query and a key, those with key <= query."""
    needed = sum(min(query + 1, keys) for query in range(queries))
    return needed / max(1, queries * keys)


def attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> torch.Tensor:
    """`scaled_dot_product_attention` without dropout, scores in float32."""
    heads = list(query.shape[:-2])
    shared = list(key.shape[:-2]) if enable_gqa else heads
    rows = query.reshape(*shared, -1, query.shape[-1])
    shape = [*heads, query.shape[-2], key.shape[-2]]
    transposed = key.expand(*shared, *key.shape[-2:]).transpose(-2, -1)
    scores = _product(rows, transposed, raise_to_float32=True).view(shape)
    scores = scores * (1 / math.sqrt(query.shape[-1]) if scale is None else scale)
    allowed = attn_mask
    if is_causal:
        allowed = torch.ones(shape[-2:], dtype=torch.bool, device="meta").tril()
    if allowed is not None and allowed.dtype is torch.bool:
        scores = torch.where(allowed, scores, float("-inf"))
    elif allowed is not None:
        scores = scores + allowed
    weights = torch.softmax(scores, -1).to(query.dtype)
    values = value.expand(*shared, *value.shape[-2:])
    found = _product(weights.view(*shared, -1, key.shape[-2]), values, raise_to_float32=False)
    return found.view(*heads, query.shape[-2], value.shape[-1])


def _product(a: torch.Tensor, b: torch.Tensor, *, raise_to_float32: bool) -> torch.Tensor:
    batch = a.shape[:-2]
    a, b = a.reshape(-1, *a.shape[-2:]), b.reshape(-1, *b.shape[-2:])
    if raise_to_float32 and a.dtype in (torch.float16, torch.bfloat16):
        product = torch.bmm(a, b, out_dtype=torch.float32)
    else:
        product = torch.bmm(a, b)
    return product.view(*batch, *product.shape[-2:])
