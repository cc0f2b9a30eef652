"""Evaluate the arithmetic of an expression axis, without `eval`."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping

_BINARY: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
}
_MAX_EXPONENT = 64
_MAX_VALUE = 2**63 - 1


def evaluate_shape_expression(expression: str, axes: Mapping[str, int]) -> int:
    """An integer; a float that is one is converted, as SOL-ExecBench does.

    Raises:
        ValueError: bad syntax, an unknown axis, a division by zero, or no integer.
    """
    try:
        value = _evaluate(ast.parse(expression, mode="eval").body, axes)
    except (SyntaxError, ZeroDivisionError, OverflowError, RecursionError, MemoryError) as error:
        raise ValueError(f"axis expression {expression!r}: {error}") from None
    if value != int(value):
        raise ValueError(f"axis expression {expression!r} gives {value}, not an integer")
    return int(value)


def _evaluate(node: ast.expr, axes: Mapping[str, int]) -> float:
    value = _value(node, axes)
    if isinstance(value, complex) or not abs(value) <= _MAX_VALUE:
        raise ValueError(f"axis expression gives {value}, not an integer below 2^63")
    return value


def _value(node: ast.expr, axes: Mapping[str, int]) -> float:
    match node:
        case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
            return number
        case ast.Name(id=name) if name in axes:
            return axes[name]
        case ast.Name(id=name):
            raise ValueError(f"unknown axis {name!r}; axes: {', '.join(axes)}")
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_evaluate(operand, axes)
        case ast.UnaryOp(op=ast.UAdd(), operand=operand):
            return _evaluate(operand, axes)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
            a, b = _evaluate(left, axes), _evaluate(right, axes)
            if isinstance(op, ast.Pow) and abs(b) > _MAX_EXPONENT:
                raise ValueError(f"exponent {b} is above {_MAX_EXPONENT}")
            return _BINARY[type(op)](a, b)
    raise ValueError(f"{ast.unparse(node)!r} is not allowed in an axis expression")
