"""Is a graph one matrix product and what can be applied to its sums? Then its kernel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from problems.definition import Definition
from problems.solution import Solution
from problems.speed_of_light import Analysis, OpNode
from skills.kernel_text import rendered, template_folder
from skills.op_node import INPUT, base_name
from skills.product_epilogue import Computed, Epilogue, Operand, Value
from skills.template import Instance, Refusal, Template, choose_parameters, load_template
from skills.tensor_view import (
    Dim,
    NotMatched,
    View,
    ViewGraph,
    c_parameters,
    c_product,
    c_type,
    sizes_of,
)

FAMILY = "matrix product"
_ROWS, _COLUMNS = "i", "j"


@dataclass(frozen=True)
class Factor:
    """One operand of the product."""

    tensor: str
    k_contiguous: bool
    batched: bool


@dataclass(frozen=True)
class Product:
    """`out[b][i][j]`, which is computed from the sums over k of `lhs[b][i][k] rhs[b][j][k]`."""

    definition: Definition
    lhs: Factor
    rhs: Factor
    groups: dict[str, Dim]
    """The axes behind b, i, j and k."""
    lines: tuple[str, ...]
    operands: tuple[Operand, ...]
    result: str
    right_is_larger: bool


def match_matrix_product(
    definition: Definition, analyses: Sequence[Analysis]
) -> Instance | Refusal:
    """The kernel of a product with its epilogue, if the graph is one."""
    try:
        product = _product(ViewGraph(definition, analyses))
        c_parameters(definition)
    except NotMatched as reason:
        return Refusal(family=FAMILY, reason=str(reason))
    return MatrixProduct(load_template(template_folder("matrix_product")), product)


@dataclass
class MatrixProduct:
    """An instance of the template."""

    template: Template
    product: Product

    def defaults(self) -> dict[str, str]:
        """The larger operand is the one that is streamed."""
        streamed = "RHS" if self.product.right_is_larger else "LHS"
        return self.template.defaults() | {"STREAM": streamed}

    def render(self, parameters: Mapping[str, str]) -> Solution:
        chosen = choose_parameters(self.template, self.defaults(), parameters)
        blocks = {"PROBLEM": problem_block(self.product), "ENTRY": entry_block(self.product)}
        return rendered(self.template, self.product.definition, chosen, blocks)


def _product(graph: ViewGraph) -> Product:
    scalars = [name for name, spec in graph.definition.inputs.items() if spec.shape is None]
    if scalars:
        raise NotMatched(f"{scalars[0]} is a Python number, whose value the graph holds fixed")
    if len(graph.definition.outputs) != 1:
        raise NotMatched("there is more than one output")
    reader = _Reader(graph)
    for node in graph.nodes.values():
        reader.read(node)
    return reader.product()


class _Reader:
    """Follows the graph in order: views, then the product, then what is applied to it."""

    def __init__(self, graph: ViewGraph) -> None:
        self._graph = graph
        self._values: dict[int, Value] = {}
        self._epilogue: Epilogue | None = None
        self._factors: tuple[View, View] | None = None
        self._groups: dict[str, Dim] = {}

    def read(self, node: OpNode) -> None:
        if node.op.startswith(INPUT):
            self._values[node.id] = self._graph.input_view(node)
            return
        inputs = [self._values[i] for i in node.inputs]
        if base_name(node.op) in ("mm", "bmm"):
            self._values[node.id] = self._multiplied(node, inputs)
            return
        first = inputs[0] if inputs else None
        if isinstance(first, View) and len(inputs) == 1:
            viewed = self._graph.viewed(node, first)
            if viewed is None:
                raise NotMatched(f"{node.op}: an input is computed with before the product")
            self._values[node.id] = viewed
        elif self._epilogue is None:
            raise NotMatched(f"{node.op}: no matrix product of two inputs comes first")
        else:
            self._values[node.id] = self._epilogue.append(node, inputs)

    def _multiplied(self, node: OpNode, inputs: Sequence[Value]) -> Computed:
        left, right = inputs
        if self._factors is not None:
            raise NotMatched("there is more than one matrix product")
        if not isinstance(left, View) or not isinstance(right, View):
            raise NotMatched("an operand of the product is computed")
        if left.dtype is not right.dtype:
            raise NotMatched(f"the product is of {left.dtype} and {right.dtype}")
        c_type(left.dtype)
        batch = left.dims[0] if len(left.dims) == 3 else ()
        if batch and not batch[0].name:
            batch = right.dims[0]
        self._factors = (left, right)
        self._groups = {
            "b": batch, "i": left.dims[-2], "j": right.dims[-1], "k": left.dims[-1],
        }  # fmt: skip
        for dim in self._groups.values():
            if any(not axis.name for axis in dim):
                raise NotMatched("an operand of the product is expanded along its rows")
        outer = {name: self._groups[name] for name in "bij"}
        self._epilogue = Epilogue(self._graph, outer)
        dims = (*((batch,) if len(left.dims) == 3 else ()), outer["i"], outer["j"])
        return Computed("sums[l]", dims)

    def product(self) -> Product:
        """
        Raises:
            NotMatched: what the graph returns is not made of the product's sums.
        """
        result = self._values[self._graph.analyses[0].outputs[0]]
        if self._factors is None or self._epilogue is None or not isinstance(result, Computed):
            raise NotMatched("there is no matrix product")
        output = next(iter(self._graph.definition.outputs.values()))
        c_type(output.dtype)
        axes = tuple(axis for dim in result.dims for axis in dim)
        b, i, j = (self._groups[name] for name in "bij")
        factors = [
            factor_of(self._factors[0], b, i, self._groups["k"]),
            factor_of(self._factors[1], b, j, self._right_k()),
        ]
        groups = dict(self._groups)
        if axes == (*b, *j, *i) != (*b, *i, *j):
            factors.reverse()
            groups[_ROWS], groups[_COLUMNS] = j, i
        elif axes != (*b, *i, *j):
            raise NotMatched("the output's axes are not in the order of the product's")
        count = len(self._graph.analyses)
        sizes = [sum(sizes_of(groups[name], count)) for name in (_ROWS, _COLUMNS)]
        swapped = groups[_ROWS] != i
        names = {"b": "b", "i": "j", "j": "i"} if swapped else {"b": "b", "i": "i", "j": "j"}
        operands = tuple(
            Operand(o.view, tuple(names[g] for g in o.groups)) for o in self._epilogue.operands
        )
        for operand in operands:
            c_type(operand.view.dtype)
        return Product(
            self._graph.definition, factors[0], factors[1], groups, tuple(self._epilogue.lines),
            operands, result.text, sizes[1] >= sizes[0],
        )  # fmt: skip

    def _right_k(self) -> Dim:
        assert self._factors is not None
        return self._factors[1].dims[-2]


def factor_of(view: View, batch: Dim, rows: Dim, k: Dim) -> Factor:
    places = [axis.place for dim in view.dims for axis in dim if axis.name]
    own = tuple(axis for dim in view.dims[:-2] for axis in dim if axis.name)
    if own and len(own) != len(batch):
        raise NotMatched(f"{view.tensor} has only a part of the batch's axes")
    for k_contiguous in (True, False):
        order = (*own, *rows, *k) if k_contiguous else (*own, *k, *rows)
        if [axis.place for axis in order] == sorted(places):
            return Factor(view.tensor, k_contiguous, bool(own))
    raise NotMatched(f"{view.tensor} is stored in an order that this template does not take")


def problem_block(product: Product) -> str:
    """The element type and the epilogue as C++."""
    definition = product.definition
    (output, spec), *_ = definition.outputs.items()
    element = c_type(definition.inputs[product.lhs.tensor].dtype)
    names = [f"in_{operand.view.tensor}" for operand in product.operands]
    fields = [
        f"    const {c_type(operand.view.dtype)} *in_{operand.view.tensor};"
        for operand in _distinct(product.operands)
    ]
    addresses = [_address(operand.groups) for operand in product.operands]
    loads = [f"widen({n}[{a}])" for n, a in zip(names, addresses, strict=True)]
    lines = [f"            {line.format(*loads)}" for line in product.lines]
    return "\n".join(
        [
            f"typedef {element} Element;",
            f"constexpr bool LHS_K_CONTIGUOUS = {_bool(product.lhs.k_contiguous)};",
            f"constexpr bool RHS_K_CONTIGUOUS = {_bool(product.rhs.k_contiguous)};",
            "",
            "struct Epilogue {",
            "    int64_t I, J;",
            f"    {c_type(spec.dtype)} *out_{output};",
            *fields,
            "    // Elements [j, j + n) of row i of matrix b.",
            "    inline void operator()(int64_t b, int64_t i, int64_t j, int64_t n, "
            "const float *sums) const {",
            "#pragma omp simd",
            "        for (int64_t l = 0; l < n; l++) {",
            *lines,
            f"            narrow({product.result.format(*loads)}, "
            f"out_{output} + (b * I + i) * J + j + l);",
            "        }",
            "    }",
            "};",
            "",
        ]
    )


def entry_block(product: Product) -> str:
    """The function that is called, with the sizes of the product."""
    lhs, rhs = product.lhs, product.rhs
    output = next(iter(product.definition.outputs))
    fields = "".join(f", in_{o.view.tensor}" for o in _distinct(product.operands))
    groups = {name: c_product(dim) for name, dim in product.groups.items()}
    return (
        f'extern "C" int run({c_parameters(product.definition)}) {{\n'
        f"    const int64_t batches = {groups['b']}, I = {groups['i']}, J = {groups['j']}, "
        f"K = {groups['k']};\n"
        f"    const Sizes sizes{{batches, I, J, K, {'I * K' if lhs.batched else '0'}, "
        f"{'J * K' if rhs.batched else '0'}}};\n"
        f"    return matrix_product(in_{lhs.tensor}, in_{rhs.tensor}, sizes, "
        f"Epilogue{{I, J, out_{output}{fields}}});\n"
        "}\n"
    )


def _distinct(operands: Sequence[Operand]) -> list[Operand]:
    return list({operand.view.tensor: operand for operand in operands}.values())


def _address(groups: tuple[str, ...]) -> str:
    """The element's place, by Horner's rule over the indices."""
    indices = {"b": "b", "i": "i", "j": "(j + l)"}
    text = ""
    for name in groups:
        if name == "b":
            text = indices[name]
        else:
            text = f"({text}) * {name.upper()} + {indices[name]}" if text else indices[name]
    return text or "0"


def _bool(value: bool) -> str:
    return "true" if value else "false"
