"""What follows a matrix product, element by element, as C++ on one float32 sum."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

from problems.definition import DType
from problems.speed_of_light import OpNode
from skills.op_node import base_name
from skills.tensor_view import (
    RESHAPES,
    SAME,
    TURNS,
    Axis,
    Dim,
    NotMatched,
    View,
    ViewGraph,
    reshaped,
    sizes_of,
    turned,
)

_UNARY = {
    "neg": "-({0})", "exp": "exponential({0})", "tanh": "hyperbolic_tangent({0})",
    "sigmoid": "logistic({0})", "relu": "({0} > 0.0f ? {0} : 0.0f)", "sqrt": "sqrtf({0})",
    "rsqrt": "(1.0f / sqrtf({0}))", "reciprocal": "(1.0f / {0})", "abs": "fabsf({0})",
    "erf": "erff({0})", "log": "logf({0})", "sin": "sinf({0})", "cos": "cosf({0})",
    "silu": "({0} * logistic({0}))", "square": "({0} * {0})",
}  # fmt: skip
_BINARY = {
    "add": "{0} + {1}", "sub": "{0} - {1}", "mul": "{0} * {1}", "div": "{0} / {1}",
    "maximum": "({0} > {1} ? {0} : {1})", "minimum": "({0} < {1} ? {0} : {1})",
    "gt": "float({0} > {1})", "ge": "float({0} >= {1})", "lt": "float({0} < {1})",
    "le": "float({0} <= {1})", "eq": "float({0} == {1})", "ne": "float({0} != {1})",
}  # fmt: skip
_POWERS = {
    0.5: "sqrtf({0})", 1.0: "{0}", 2.0: "{0} * {0}", 3.0: "{0} * {0} * {0}",
    -1.0: "1.0f / {0}", -0.5: "1.0f / sqrtf({0})", 4.0: "{0} * {0} * ({0} * {0})",
}  # fmt: skip
_NEUTRAL = {"alpha": (1, None), "rounding_mode": (None,)}
"""Arguments that change nothing if they have one of these values."""
_FLOATS = (DType.BFLOAT16, DType.FLOAT16, DType.FLOAT32)


@dataclass(frozen=True)
class Computed:
    """A value of one element for each sum."""

    text: str
    dims: tuple[Dim, ...]


@dataclass(frozen=True)
class Number:
    """A tensor without dimensions whose value the graph holds."""

    text: str


@dataclass(frozen=True)
class Operand:
    """A further input that the epilogue reads, at an address made of whole groups."""

    view: View
    groups: tuple[str, ...]
    """Of `b`, `i`, `j` of the product, slowest first."""


Value = View | Computed | Number


@dataclass
class Epilogue:
    """Statements in the order of the graph, growing while it is read."""

    graph: ViewGraph
    groups: dict[str, Dim]
    """The axes of `b`, `i` and `j` of the product."""
    lines: list[str] = field(default_factory=list)
    operands: list[Operand] = field(default_factory=list)

    def append(self, node: OpNode, inputs: list[Value]) -> Computed | Number:
        """
        Raises:
            NotMatched: the operator is no pointwise one that is known here.
        """
        name = base_name(node.op)
        if not inputs:
            return self._number(node)
        first = inputs[0]
        if isinstance(first, Computed) and len(inputs) == 1:
            moved = self._moved(node, first)
            if moved is not None:
                return moved
        if node.dtype not in (*_FLOATS, DType.BOOL):
            raise NotMatched(f"{node.op}: {node.dtype} behind the product")
        dims = self._dims(node, inputs)
        if name == "_to_copy":
            return Computed(self._text(first, dims), dims)
        text = self._expression(node, name, [self._text(value, dims) for value in inputs])
        self.lines.append(f"const float v{node.id} = {text};")
        return Computed(f"v{node.id}", dims)

    def _number(self, node: OpNode) -> Number:
        if any(shape for shape in self.graph.shapes(node)):
            raise NotMatched(f"{node.op}: a tensor of constants")
        name = "fill_value" if base_name(node.op) == "full" else "value"
        return Number(_literal(node, self.graph.constant(node, name)))

    def _moved(self, node: OpNode, value: Computed) -> Computed | None:
        name = base_name(node.op)
        if name in SAME:
            return value
        if name in RESHAPES:
            return Computed(value.text, reshaped(value.dims, self.graph.shapes(node)))
        if name in TURNS:
            return Computed(value.text, turned(node, value.dims))
        return None

    def _dims(self, node: OpNode, inputs: list[Value]) -> tuple[Dim, ...]:
        """The dimensions of the computed inputs, which must be the result's."""
        found = {value.dims for value in inputs if isinstance(value, Computed)}
        if len(found) != 1:
            raise NotMatched(f"{node.op}: two shapes of the product meet")
        dims = found.pop()
        shapes = self.graph.shapes(node)
        count = len(shapes)
        sizes = [sizes_of(dim, count) for dim in dims]
        if [tuple(s) for s in zip(*shapes, strict=True)] != sizes:
            raise NotMatched(f"{node.op}: it changes the product's shape")
        return dims

    def _text(self, value: Value, dims: tuple[Dim, ...]) -> str:
        if not isinstance(value, View):
            return value.text
        operand = Operand(value, self._address(value, dims))
        if operand not in self.operands:
            self.operands.append(operand)
        return f"{{{self.operands.index(operand)}}}"

    def _address(self, view: View, dims: tuple[Dim, ...]) -> tuple[str, ...]:
        """The groups whose indices address the view, in the order that it is stored in."""
        count = len(self.graph.analyses)
        if len(view.dims) > len(dims):
            raise NotMatched(f"{view.tensor} has more dimensions than the product")
        placed: list[tuple[tuple[int, ...], Dim]] = []
        for mine, whole in zip(reversed(view.dims), reversed(dims), strict=False):
            axes = [axis for axis in mine if axis.name]
            if not axes:
                continue
            places = [axis.place for axis in axes]
            every = sorted(axis.place for dim in view.dims for axis in dim if axis.name)
            start = every.index(places[0])
            ordered = places == every[start : start + len(places)]
            if sizes_of(mine, count) != sizes_of(whole, count) or not ordered:
                raise NotMatched(f"{view.tensor} does not fit the product's shape")
            placed.append((places[0], whole))
        axes_in_order = [axis for _, dim in sorted(placed, key=_first) for axis in dim]
        return self._whole_groups(view.tensor, axes_in_order)

    def _whole_groups(self, tensor: str, axes: list[Axis]) -> tuple[str, ...]:
        names = []
        rest = axes
        while rest:
            fits = [n for n, g in self.groups.items() if g and tuple(rest[: len(g)]) == g]
            if not fits:
                raise NotMatched(f"{tensor} is broadcast over a part of the product's rows")
            names.append(fits[0])
            rest = rest[len(self.groups[fits[0]]) :]
        return tuple(names)

    def _expression(self, node: OpNode, name: str, texts: list[str]) -> str:
        arguments = dict.fromkeys(node.attributes)
        values = {key: self.graph.constant(node, key) for key in arguments}
        for key, neutral in _NEUTRAL.items():
            if key in values and values.pop(key) not in neutral:
                raise NotMatched(f"{node.op}: its argument {key}")
        maker = _SPECIAL.get(name)
        if maker is not None:
            return maker(node, texts, values)
        if name in _UNARY and not values and len(texts) == 1:
            return _UNARY[name].format(*texts)
        if name in _BINARY:
            return _BINARY[name].format(*_both(node, texts, values))
        raise NotMatched(f"{node.op} behind the product is not supported")


def _first(item: tuple[tuple[int, ...], Dim]) -> tuple[int, ...]:
    return item[0]


def _literal(node: OpNode, value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise NotMatched(f"{node.op}: argument {value!r}")
    return f"{float(value)!r}f"


def _both(node: OpNode, texts: list[str], values: dict[str, object]) -> list[str]:
    """The two operands of a binary operator, of which one may be a number."""
    if len(texts) == 2 and not values:
        return texts
    if len(texts) == 1 and set(values) == {"other"}:
        return [*texts, _literal(node, values["other"])]
    if len(texts) == 1 and set(values) == {"self"}:
        return [_literal(node, values["self"]), *texts]
    raise NotMatched(f"{node.op}: arguments {', '.join(values)}")


def _power(node: OpNode, texts: list[str], values: dict[str, object]) -> str:
    exponent = values.get("exponent")
    if len(texts) != 1 or set(values) != {"exponent"} or exponent not in _POWERS:
        raise NotMatched(f"{node.op}: exponent {exponent!r}")
    return _POWERS[float(str(exponent))].format(*texts)


def _clamp(node: OpNode, texts: list[str], values: dict[str, object]) -> str:
    if len(texts) != 1 or not set(values) <= {"min", "max"}:
        raise NotMatched(f"{node.op}: arguments {', '.join(values)}")
    text = texts[0]
    if values.get("min") is not None:
        low = _literal(node, values["min"])
        text = f"({text} > {low} ? {text} : {low})"
    if values.get("max") is not None:
        high = _literal(node, values["max"])
        text = f"({text} < {high} ? {text} : {high})"
    return text


def _gelu(node: OpNode, texts: list[str], values: dict[str, object]) -> str:
    x = texts[0]
    if values.get("approximate", "none") == "none":
        return f"0.5f * {x} * (1.0f + erff({x} * 0.7071067811865476f))"
    inner = f"1.5957691216057308f * {x} * (1.0f + 0.044715f * {x} * {x})"
    return f"{x} * logistic({inner})"


def _where(node: OpNode, texts: list[str], values: dict[str, object]) -> str:
    if len(texts) != 3 or values:
        raise NotMatched(f"{node.op}: arguments {', '.join(values)}")
    return f"({texts[0]} != 0.0f ? {texts[1]} : {texts[2]})"


_SPECIAL: dict[str, Callable[[OpNode, list[str], dict[str, object]], str]] = {
    "pow": _power,
    "clamp": _clamp,
    "gelu": _gelu,
    "where": _where,
}
