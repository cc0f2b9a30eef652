"""The graph that a trace results in: nodes in order, and their arguments as Python literals."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch


@dataclass
class Node:
    """The fields of `problems.speed_of_light.OpNode`, and what the operator costs."""

    id: int
    op: str
    inputs: list[int]
    attributes: dict[str, str]
    output: torch.Tensor
    operations: int = 0
    matrix_operations: int = 0
    full_matrix_operations: int = 0
    """Without the halving that a causal mask allows."""

    def fields(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "op": self.op,
            "inputs": self.inputs,
            "attributes": self.attributes,
            "shape": list(self.output.shape),
            "dtype": dtype_name(self.output.dtype),
        }


@dataclass
class Graph:
    nodes: list[Node] = field(default_factory=list)
    outputs: list[int] = field(default_factory=list)

    def prune(self) -> None:
        """Drop what no output needs, and number the rest without gaps; inputs stay."""
        needed = set(self.outputs)
        for node in reversed(self.nodes):
            if node.id in needed or node.op.startswith("input:"):
                needed |= {node.id, *node.inputs}
        self.nodes = [node for node in self.nodes if node.id in needed]
        new = {node.id: index for index, node in enumerate(self.nodes)}
        for node in self.nodes:
            node.id, node.inputs = new[node.id], [new[i] for i in node.inputs]
        self.outputs = [new[i] for i in self.outputs]


def dtype_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def literal_of(value: Any) -> str:
    """As a Python literal; infinity is 1e999, which `ast.literal_eval` reads as infinity."""
    if isinstance(value, torch.dtype):
        return repr(dtype_name(value))
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(literal_of, value))}]"
    if isinstance(value, float) and value in (float("inf"), float("-inf")):
        return "1e999" if value > 0 else "-1e999"
    if isinstance(value, (bool, int, float, str)) and value == value:
        return repr(value)
    return repr(str(value))
