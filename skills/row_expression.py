"""One operator of a row program as a C++ expression on scalars and runs of columns alike."""

from __future__ import annotations

from fractions import Fraction

from problems.definition import DType
from problems.speed_of_light import OpNode
from skills.op_node import argument, base_name
from skills.row_graph import BINARY, RELABELLED, UNARY, Refused, RowGraph

_INTEGERS = (DType.INT64, DType.INT32, DType.BOOL)


def expression(graph: RowGraph, node: OpNode, operands: list[str]) -> str:
    """One operator on values, which are scalars or runs of columns alike."""
    name = base_name(node.op)
    if name in RELABELLED:
        return operands[0]
    operands = [
        f"number({text})" if _is_count(graph, node, place) else text
        for place, text in enumerate(operands)
    ]
    if name in UNARY:
        return f"{UNARY[name]}({operands[0]})"
    if name in BINARY:
        return _binary(graph, node, operands)
    if name == "where":
        return f"where({', '.join(operands)})"
    if name == "full":
        return _constant(argument(node, "fill_value"), node.dtype)
    if name == "clamp":
        return _clamped(node, operands[0])
    if name == "pow":
        return _power(operands[0], argument(node, "exponent"))
    raise Refused(f"the operator {name} is not supported")


def _is_count(graph: RowGraph, node: OpNode, place: int) -> bool:
    """Whether a truth value is computed with as 0 or 1."""
    is_condition = base_name(node.op) == "where" and place == 0
    source = graph.dtype(node.inputs[place]) if place < len(node.inputs) else node.dtype
    kept = node.dtype is DType.BOOL and base_name(node.op) not in BINARY
    return source is DType.BOOL and not is_condition and not kept


def _binary(graph: RowGraph, node: OpNode, operands: list[str]) -> str:
    name = base_name(node.op)
    if argument(node, "alpha", 1) != 1 or argument(node, "rounding_mode") is not None:
        raise Refused(f"{name} has an alpha or a rounding mode")
    if len(operands) == 1:
        other = _constant(argument(node, "other"), graph.dtype(node.inputs[0]))
        operands = [*operands, other]
    sign = BINARY[name]
    if sign.isidentifier():
        return f"{sign}({operands[0]}, {operands[1]})"
    return f"({operands[0]} {sign} {operands[1]})"


def _clamped(node: OpNode, text: str) -> str:
    low, high = argument(node, "min"), argument(node, "max")
    text = text if low is None else f"largest({text}, {_constant(low, node.dtype)})"
    return text if high is None else f"smallest({text}, {_constant(high, node.dtype)})"


def _power(base: str, exponent: object) -> str:
    texts = {
        2.0: f"square({base})",
        3.0: f"({base} * square({base}))",
        0.5: f"square_root({base})",
        -0.5: f"inverse_root({base})",
        -1.0: f"inverse({base})",
        1.0: base,
    }
    if not isinstance(exponent, int | float) or float(exponent) not in texts:
        raise Refused(f"a power of {exponent!r} is not supported")
    return texts[float(exponent)]


def _constant(value: object, dtype: DType) -> str:
    if not isinstance(value, int | float):
        raise Refused(f"a constant is {value!r}")
    if dtype in _INTEGERS:
        return f"int64_t({int(value)})"
    if value != value:
        raise Refused("a constant is not a number")
    if value in (float("inf"), -float("inf")):
        return "__builtin_inff()" if value > 0 else "-__builtin_inff()"
    return f"{float(value)!r}f"


def columns_text(share: Fraction) -> str:
    """A share of the row's columns as an integer expression."""
    if share == 1:
        return "columns"
    if share == 0:
        return "int64_t(0)"
    sign = "-" if share < 0 else ""
    times = "" if abs(share.numerator) == 1 else f" * {abs(share.numerator)}"
    return f"({sign}columns{times} / {share.denominator})"
