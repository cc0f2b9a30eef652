"""Is a graph the softmax of a query's products with keys, times values? Then its kernel."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from problems.definition import Definition, DType
from problems.solution import Solution
from problems.speed_of_light import Analysis, OpNode
from skills.kernel_text import rendered, template_folder
from skills.match_matrix_product import factor_of
from skills.op_node import INPUT, base_name
from skills.template import Instance, Refusal, Template, choose_parameters, load_template
from skills.tensor_view import (
    RESHAPES,
    SAME,
    Dim,
    NotMatched,
    View,
    ViewGraph,
    c_parameters,
    c_product,
    sizes_of,
)

FAMILY = "attention"
LARGEST_HEAD = 256
_HIDDEN = -1e30
"""A fill value at or below it makes a weight of zero."""


@dataclass(frozen=True)
class Attention:
    """`out[b][i]` from `query[b][i][d]`, `key[b][j][d]` and `value[b][j][d]`."""

    definition: Definition
    tensors: tuple[str, str, str]
    heads: Dim
    group: Dim
    queries: Dim
    """A row `i` is a query head of the group and, inside it, a query."""
    keys: Dim
    size: int
    causal: bool
    scale: float


def match_attention(definition: Definition, analyses: Sequence[Analysis]) -> Instance | Refusal:
    """The kernel of an attention, if the graph is one."""
    try:
        attention = _Reader(ViewGraph(definition, analyses)).attention()
        c_parameters(definition)
    except NotMatched as reason:
        return Refusal(family=FAMILY, reason=str(reason))
    return AttentionKernel(load_template(template_folder("attention")), attention)


@dataclass
class AttentionKernel:
    """An instance of the template."""

    template: Template
    attention: Attention

    def defaults(self) -> dict[str, str]:
        return self.template.defaults()

    def render(self, parameters: Mapping[str, str]) -> Solution:
        chosen = choose_parameters(self.template, self.defaults(), parameters)
        blocks = {"PROBLEM": problem_block(self.attention), "ENTRY": entry_block(self.attention)}
        return rendered(self.template, self.attention.definition, chosen, blocks)


class _Reader:
    """Follows the graph from its output back to the three inputs."""

    def __init__(self, graph: ViewGraph) -> None:
        if len(graph.definition.outputs) != 1:
            raise NotMatched("there is more than one output")
        if any(spec.shape is None for spec in graph.definition.inputs.values()):
            raise NotMatched("an input is a Python number, whose value the graph holds fixed")
        self._graph = graph
        self._scale = 1.0
        self._mask: OpNode | None = None

    def attention(self) -> Attention:
        second = self._expect(self._node(self._graph.analyses[0].outputs[0]), "bmm", "mm")
        scores = self._scores_of(self._node(second.inputs[0]))
        first = self._unscaled(scores)
        query, key = (self._view(i) for i in first.inputs)
        value = self._view(second.inputs[1])
        batch, keys, size = key.dims[:-2], key.dims[-1], query.dims[-1]
        heads = batch[0] if batch else ()
        query_batch = query.dims[:-2]
        rows = query.dims[-2]
        value_heads = value.dims[0] if len(value.dims) == 3 else ()
        factors = (
            factor_of(query, query_batch[0] if query_batch else (), rows, size),
            factor_of(key, heads, keys, key.dims[-2]),
            factor_of(value, value_heads, value.dims[-1], value.dims[-2]),
        )  # fmt: skip
        if [f.k_contiguous for f in factors] != [True, True, False]:
            raise NotMatched("queries, keys or values are stored in another order")
        self._check_types(query, key, value)
        if self._sizes(value_heads) != self._sizes(heads):
            raise NotMatched("keys and values have different heads")
        if self._sizes(keys) != [shape[-1] for shape in self._graph.shapes(scores)]:
            raise NotMatched("the softmax is not over the keys")
        queries: Dim = self._queries(rows, scores) if self._mask is not None else rows
        return Attention(
            self._graph.definition, (query.tensor, key.tensor, value.tensor), heads,
            rows[: len(rows) - len(queries)], queries, keys, self._head_size(query, value),
            self._mask is not None, self._scale,
        )  # fmt: skip

    def _node(self, id: int) -> OpNode:
        """The operator behind reshapes, copies and conversions between floats."""
        node = self._graph.nodes[id]
        while base_name(node.op) in (*RESHAPES, *SAME, "_to_copy"):
            if node.dtype not in (DType.FLOAT32, DType.BFLOAT16, DType.BOOL):
                raise NotMatched(f"{node.op} to {node.dtype}")
            node = self._graph.nodes[node.inputs[0]]
        return node

    def _expect(self, node: OpNode, *names: str) -> OpNode:
        if base_name(node.op) not in names:
            raise NotMatched(f"{node.op} where {' or '.join(names)} is expected")
        return node

    def _scores_of(self, weights: OpNode) -> OpNode:
        """What the softmax is of, in its decomposed form, over the last axis."""
        self._expect(weights, "div")
        if len(weights.inputs) != 2:
            raise NotMatched("the weights are not divided by their sum")
        raised = self._expect(self._node(weights.inputs[0]), "exp")
        total = self._over_last(self._expect(self._node(weights.inputs[1]), "sum"))
        shifted = self._expect(self._node(raised.inputs[0]), "sub")
        if len(shifted.inputs) != 2 or self._node(total.inputs[0]) is not raised:
            raise NotMatched("the weights are no softmax")
        top = self._over_last(self._expect(self._node(shifted.inputs[1]), "amax"))
        scores = self._node(shifted.inputs[0])
        if self._node(top.inputs[0]) is not scores:
            raise NotMatched("the weights are no softmax")
        return scores

    def _over_last(self, node: OpNode) -> OpNode:
        source = self._graph.nodes[node.inputs[0]]
        dims = self._graph.constant(node, "dim")
        last = len(source.shape) - 1
        if dims not in ([last], [-1], last, -1) or not self._graph.constant(node, "keepdim", False):
            raise NotMatched(f"{node.op}: not over the last axis")
        return node

    def _unscaled(self, node: OpNode) -> OpNode:
        """The product behind scale and mask, which are remembered."""
        while base_name(node.op) not in ("bmm", "mm"):
            name = base_name(node.op)
            if name in ("mul", "div") and len(node.inputs) == 1:
                factor = self._graph.constant(node, "other")
                if not isinstance(factor, int | float) or not 0 < factor < math.inf:
                    raise NotMatched(f"{node.op}: scores are scaled by {factor!r}")
                self._scale *= factor if name == "mul" else 1 / factor
                node = self._node(node.inputs[0])
            elif name == "where" and len(node.inputs) == 3 and self._mask is None:
                self._mask = node
                node = self._node(node.inputs[self._masked_operand(node)])
            else:
                raise NotMatched(f"{node.op} between the scores and their softmax")
        return node

    def _masked_operand(self, where: OpNode) -> int:
        """Which operand has the scores, if the mask is causal and the other one -infinity."""
        triangle, hides = self._node(where.inputs[0]), False
        if self._negates(triangle):
            triangle, hides = self._node(triangle.inputs[0]), True
        name = base_name(self._expect(triangle, "tril", "triu").op)
        hides = hides != (name == "triu")
        ones = self._expect(self._node(triangle.inputs[0]), "full")
        fill = self._node(where.inputs[1 if hides else 2])
        low = self._graph.constant(fill, "fill_value", self._graph.constant(fill, "value"))
        square = [shape[-2:] for shape in self._graph.shapes(where)]
        if (
            self._graph.constant(triangle, "diagonal", 0) != (1 if name == "triu" else 0)
            or self._graph.constant(ones, "fill_value") not in (1, True)
            or self._graph.shapes(triangle) != square
            or not isinstance(low, int | float)
            or low > _HIDDEN
        ):
            raise NotMatched("the mask is not the causal one")
        return 2 if hides else 1

    def _negates(self, node: OpNode) -> bool:
        name = base_name(node.op)
        is_zero = name == "eq" and self._graph.constant(node, "other") in (0, False)
        return name in ("bitwise_not", "logical_not") or is_zero

    def _view(self, id: int) -> View:
        node = self._graph.nodes[id]
        if node.op.startswith(INPUT):
            return self._graph.input_view(node)
        if len(node.inputs) == 1:
            view = self._graph.viewed(node, self._view(node.inputs[0]))
            if view is not None:
                if any(not axis.name for dim in view.dims for axis in dim):
                    raise NotMatched(f"{view.tensor} is expanded")
                return view
        raise NotMatched(f"{node.op}: an operand of the attention is computed")

    def _sizes(self, dim: Dim) -> list[int]:
        return list(sizes_of(dim, len(self._graph.analyses)))

    def _queries(self, rows: Dim, scores: OpNode) -> Dim:
        """The part of the rows' axes that numbers queries, by the mask's height."""
        height = [shape[-2] for shape in self._graph.shapes(self._mask or scores)]
        for start in range(len(rows), -1, -1):
            if self._sizes(rows[start:]) == height and (start == 0 or set(height) != {1}):
                return rows[start:]
        raise NotMatched("the mask's rows are no axes of the queries")

    def _head_size(self, query: View, value: View) -> int:
        dims = (query.dims[-1], value.dims[-1])
        sizes = {size for dim in dims for size in self._sizes(dim)}
        if len(sizes) != 1 or not all(axis.fixed for dim in dims for axis in dim):
            raise NotMatched("the size of a head is not one constant of the definition")
        size = sizes.pop()
        if size % 32 or size > LARGEST_HEAD:
            raise NotMatched(f"a head of {size} is no multiple of 32 up to {LARGEST_HEAD}")
        return size

    def _check_types(self, *views: View) -> None:
        output = next(iter(self._graph.definition.outputs.values()))
        types = {output.dtype, *(view.dtype for view in views)}
        if types != {DType.BFLOAT16}:
            raise NotMatched(f"{', '.join(sorted(types - {DType.BFLOAT16}))} in the attention")


def problem_block(attention: Attention) -> str:
    return (
        f"constexpr int64_t D = {attention.size}; // of queries, keys and values\n"
        f"constexpr bool CAUSAL = {'true' if attention.causal else 'false'}; "
        "// query s sees keys 0 to s\n"
        f"constexpr float SCALE = {attention.scale!r}f;\n"
    )


def entry_block(attention: Attention) -> str:
    query, key, value = attention.tensors
    output = next(iter(attention.definition.outputs))
    sizes = ", ".join(
        c_product(dim)
        for dim in (attention.heads, attention.group, attention.queries, attention.keys)
    )
    return (
        f'extern "C" int run({c_parameters(attention.definition)}) {{\n'
        f"    return attention(in_{query}, in_{key}, in_{value}, out_{output}, Sizes{{{sizes}}});\n"
        "}\n"
    )
