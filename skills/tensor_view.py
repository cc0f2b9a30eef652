"""Inputs seen through reshapes and transpositions: which axes each dimension of a value stands for.

Nothing is computed here; a value that is more than a view of one input is somebody else's.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from problems.definition import ConstAxis, Definition, DType
from problems.speed_of_light import Analysis, OpNode
from skills.op_node import INPUT, argument, base_name, permutation

RESHAPES = {"view", "_unsafe_view", "reshape", "unsqueeze", "squeeze"}
SAME = {"clone", "contiguous", "detach", "alias", "lift_fresh_copy"}
TURNS = {"transpose", "permute", "t"}


class NotMatched(Exception):
    """The graph is none that the template takes; the message is the reason."""


@dataclass(frozen=True)
class Axis:
    name: str
    """Of the definition, or digits; empty for a size that is only broadcast."""
    place: tuple[int, ...]
    """In the tensor that it belongs to; a part of a split axis has a second number."""
    sizes: tuple[int, ...]
    """In each analysis."""
    fixed: bool = False
    """By the definition, not only in these workloads."""


Dim = tuple[Axis, ...]
"""Axes that together are one dimension, slowest first; none for a size of one."""


@dataclass(frozen=True)
class View:
    tensor: str
    dtype: DType
    """Of the input as it is stored."""
    dims: tuple[Dim, ...]


class ViewGraph:
    """The operators of every analysis of one definition, which must be the same but for sizes."""

    def __init__(self, definition: Definition, analyses: Sequence[Analysis]) -> None:
        if not analyses:
            raise NotMatched("the reference was not analysed")
        self.definition = definition
        self.analyses = analyses
        self.nodes = {node.id: node for node in analyses[0].nodes}
        self.twins = {
            node.id: tuple({n.id: n for n in a.nodes}.get(node.id) for a in analyses)
            for node in analyses[0].nodes
        }
        forms = {
            (a.outputs, tuple((n.id, n.op, n.inputs, n.dtype) for n in a.nodes)) for a in analyses
        }
        if len(forms) > 1:
            raise NotMatched("the operators differ between workloads")

    def shapes(self, node: OpNode) -> list[tuple[int, ...]]:
        """In each analysis."""
        return [twin.shape for twin in self.twins[node.id] if twin is not None]

    def constant(self, node: OpNode, name: str, default: object = None) -> object:
        """A non-tensor argument that must be the same in every analysis."""
        values = [argument(twin, name, default) for twin in self.twins[node.id] if twin is not None]
        if any(repr(value) != repr(values[0]) for value in values):
            raise NotMatched(f"{node.op}: its argument {name} differs between workloads")
        return values[0]

    def input_view(self, node: OpNode) -> View:
        name = node.op.removeprefix(INPUT)
        spec = self.definition.inputs[name]
        sizes = list(zip(*self.shapes(node), strict=True))
        dims = tuple(
            self._dim(axis, place, size)
            for place, (axis, size) in enumerate(zip(spec.shape or (), sizes, strict=True))
        )
        return View(name, spec.dtype, dims)

    def _dim(self, name: str, place: int, sizes: tuple[int, ...]) -> Dim:
        declared = self.definition.axes.get(name)
        fixed = name.isdigit() or isinstance(declared, ConstAxis)
        return () if fixed and sizes[0] == 1 else (Axis(name, (place,), sizes, fixed),)

    def viewed(self, node: OpNode, view: View) -> View | None:
        """The view through one more operator; None if that is no view."""
        name = base_name(node.op)
        if name in SAME:
            return view
        if name in RESHAPES:
            return View(view.tensor, view.dtype, reshaped(view.dims, self.shapes(node)))
        if name in TURNS:
            return View(view.tensor, view.dtype, turned(node, view.dims))
        if name in ("expand", "broadcast_to"):
            return View(view.tensor, view.dtype, self._expanded(node, view.dims))
        if name == "_to_copy" and widens(view.dtype, node.dtype):
            return view
        return None

    def _expanded(self, node: OpNode, dims: tuple[Dim, ...]) -> tuple[Dim, ...]:
        sizes = list(zip(*self.shapes(node), strict=True))
        padded = ((),) * (len(sizes) - len(dims)) + dims
        return tuple(
            dim if dim or set(size) == {1} else (Axis("", (), size),)
            for dim, size in zip(padded, sizes, strict=True)
        )


def widens(stored: DType, wanted: DType) -> bool:
    """Whether every value of `stored` is one of `wanted`."""
    return stored is wanted or (
        wanted is DType.FLOAT32 and stored in (DType.BFLOAT16, DType.FLOAT16)
    )


def turned(node: OpNode, dims: tuple[Dim, ...]) -> tuple[Dim, ...]:
    return tuple(dims[d] for d in permutation(node, len(dims)))


def sizes_of(dim: Dim, count: int) -> tuple[int, ...]:
    """In each of `count` analyses."""
    return tuple(math.prod(axis.sizes[k] for axis in dim) for k in range(count))


def reshaped(dims: tuple[Dim, ...], shapes: Sequence[tuple[int, ...]]) -> tuple[Dim, ...]:
    """
    Raises:
        NotMatched: an axis would be split whose size the definition does not fix.
    """
    axes = [axis for dim in dims for axis in dim]
    result: list[Dim] = []
    for wanted in zip(*shapes, strict=True):
        taken: list[Axis] = []
        while (found := sizes_of(tuple(taken), len(shapes))) != wanted:
            if not axes:
                raise NotMatched("a reshape was not understood")
            axis = axes.pop(0)
            if any(f * s > w for f, s, w in zip(found, axis.sizes, wanted, strict=True)):
                axis, rest = _split(axis, found, wanted)
                axes.insert(0, rest)
            taken.append(axis)
        result.append(tuple(taken))
    if any(set(axis.sizes) != {1} for axis in axes):
        raise NotMatched("a reshape was not understood")
    if axes and result:
        result[-1] += tuple(axes)
    return tuple(result)


def _split(axis: Axis, found: tuple[int, ...], wanted: tuple[int, ...]) -> tuple[Axis, Axis]:
    """The outer part that brings `found` to `wanted`, and the inner part."""
    parts = {w / f for f, w in zip(found, wanted, strict=True) if f}
    outer = int(min(parts, default=0))
    if not axis.fixed or parts != {outer} or axis.sizes[0] % outer or len(axis.place) > 1:
        raise NotMatched(f"a reshape splits the axis {axis.name or 'of an expanded tensor'}")
    inner, count = axis.sizes[0] // outer, len(axis.sizes)
    return (
        Axis(str(outer), (*axis.place, 0), (outer,) * count, fixed=True),
        Axis(str(inner), (*axis.place, 1), (inner,) * count, fixed=True),
    )


def c_type(dtype: DType) -> str:
    """
    Raises:
        NotMatched: the C++ kernels have no such element.
    """
    names = {DType.BFLOAT16: "uint16_t", DType.FLOAT16: "_Float16", DType.FLOAT32: "float"}
    if dtype not in names:
        raise NotMatched(f"{dtype} is no element type of this template")
    return names[dtype]


def c_axis(name: str) -> str:
    return name if name.isdigit() else f"axis_{name}"


def c_product(dim: Dim) -> str:
    """The size of a dimension as C++."""
    return " * ".join(c_axis(axis.name) for axis in dim) or "1"


def c_parameters(definition: Definition) -> str:
    """The parameters of the entry point, in the calling convention's order.

    Raises:
        NotMatched: a name is no identifier, or an element type is unknown.
    """
    for name in (*definition.inputs, *definition.outputs, *definition.axes):
        if not (name.isidentifier() and name.isascii()):
            raise NotMatched(f"{name!r} is no identifier")
    parts = []
    for name, spec in definition.inputs.items():
        if spec.shape is None:
            parts.append(f"{'double' if spec.dtype.floating else 'int64_t'} in_{name}")
        else:
            parts.append(f"const {c_type(spec.dtype)} *in_{name}")
    parts += [f"{c_type(spec.dtype)} *out_{name}" for name, spec in definition.outputs.items()]
    parts += [f"int64_t axis_{name}" for name in definition.axes]
    return ", ".join(parts)
