"""Reading one operator of a traced graph: its name, its arguments, and the order of its axes."""

from __future__ import annotations

import ast

from problems.speed_of_light import OpNode

INPUT = "input:"
"""Prefix of the nodes that stand for the problem's inputs."""


def base_name(op: str) -> str:
    """`aten.mul.Tensor` as `mul`."""
    parts = op.split(".")
    return parts[1] if len(parts) > 1 and parts[0] in ("aten", "prims") else parts[0]


def argument(node: OpNode, name: str, default: object = None) -> object:
    """A non-tensor argument; `default` where the call does not name it."""
    text = node.attributes.get(name)
    return default if text is None else ast.literal_eval(text)


def permutation(node: OpNode, rank: int) -> list[int]:
    """Which source axis each axis of a transpose's or permute's result is."""
    dims = argument(node, "dims")
    if isinstance(dims, list | tuple):
        return [int(d) % rank for d in dims]
    order = list(range(rank))
    if rank >= 2:
        first = int(str(argument(node, "dim0", 0))) % rank
        second = int(str(argument(node, "dim1", 1))) % rank
        order[first], order[second] = order[second], order[first]
    return order
