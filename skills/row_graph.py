"""Reads an operator graph as a row program: each value is one per element, or one per row.

The last axis of the largest value is the row's; all axes before it number the rows. A reduction
along the last axis gives one value a row, and ends a pass over the row.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from problems.definition import Definition, DType
from problems.speed_of_light import Analysis, OpNode
from skills.op_node import INPUT, argument, base_name

COLUMN = -1
"""The label of the last axis; leading axes are labelled 0, 1, …; None is a broadcast axis."""
Labels = tuple[int | None, ...]

C_TYPES = {
    DType.BFLOAT16: "bf16", DType.FLOAT32: "float", DType.FLOAT16: "half",
    DType.FLOAT8_E4M3FN: "fp8", DType.INT64: "int64_t", DType.INT32: "int32_t",
}  # fmt: skip
_VECTOR_LOADS = (DType.BFLOAT16, DType.FLOAT32, DType.FLOAT16)
_VECTOR_STORES = (*_VECTOR_LOADS, DType.FLOAT8_E4M3FN)
UNARY = {
    "neg": "negate", "abs": "absolute", "exp": "exponential", "log": "logarithm",
    "sqrt": "square_root", "rsqrt": "inverse_root", "sigmoid": "sigmoid", "tanh": "tanh_of",
    "erf": "erf_of", "relu": "relu", "reciprocal": "inverse", "square": "square",
    "_to_copy": "same", "clone": "same", "alias": "same", "detach": "same", "silu": "silu",
    "convert_element_type": "same", "log1p": "log1p_of", "expm1": "expm1_of",
}  # fmt: skip
BINARY = {
    "add": "+", "sub": "-", "mul": "*", "div": "/", "maximum": "largest", "minimum": "smallest",
    "gt": ">", "lt": "<", "ge": ">=", "le": "<=", "eq": "==", "ne": "!=",
}  # fmt: skip
REDUCTIONS = {"sum": "sum", "mean": "mean", "amax": "max", "amin": "min", "var": "var"}
RELABELLED = {"unsqueeze", "squeeze", "view", "reshape", "_unsafe_view", "expand"}


class Refused(Exception):
    """The graph is no row program; the message is the reason."""


class RowGraph:
    """The graph of the first analysis, checked against the others."""

    def __init__(self, definition: Definition, analyses: Sequence[Analysis]) -> None:
        """
        Raises:
            Refused: it is no row program.
        """
        self.definition = definition
        self.analyses = analyses
        forms = {tuple((n.id, n.op, n.inputs) for n in a.nodes) for a in analyses}
        if len(forms) != 1:
            raise Refused("the operators differ between workloads")
        if any(len({_numbers(twin) for twin in twins}) > 1 for twins in _aligned(analyses)):
            raise Refused("a number in it depends on the workload's sizes")
        self.nodes = {node.id: node for node in analyses[0].nodes}
        self._twins = [{n.id: n for n in a.nodes} for a in analyses]
        self.outputs = analyses[0].outputs
        self.rank = self._rank()
        self.labels: dict[int, Labels] = {}
        for output in self.outputs:
            self._label(output, self._output_labels(output))
        self._check_types()

    def sizes(self, node: int) -> list[tuple[int, ...]]:
        """The node's shape in every analysis."""
        return [twins[node].shape for twins in self._twins]

    def node(self, index: int) -> OpNode:
        return self.nodes[index]

    def is_vector(self, index: int) -> bool:
        """Whether its value differs along the row."""
        return COLUMN in self.labels[index]

    def input_name(self, index: int) -> str | None:
        op = self.nodes[index].op
        return op.removeprefix(INPUT) if op.startswith(INPUT) else None

    def dtype(self, index: int) -> DType:
        return self.nodes[index].dtype

    def _rank(self) -> int:
        """Of the largest value that is read or written."""
        largest = max(self.nodes.values(), key=lambda node: (_count(node.shape), len(node.shape)))
        if not largest.shape:
            raise Refused("there is no tensor to run over")
        self.whole = largest.id
        if any(0 in shape for shape in self.sizes(largest.id)):
            raise Refused("a workload is empty")
        return len(largest.shape)

    def _output_labels(self, output: int) -> Labels:
        full: Labels = (*range(self.rank - 1), COLUMN)
        wanted = self.sizes(output)
        whole = self.sizes(self.whole)
        if wanted == whole:
            return full
        if wanted == [shape[:-1] for shape in whole]:
            return full[:-1]
        if wanted == [(*shape[:-1], 1) for shape in whole]:
            return (*full[:-1], None)
        if [shape[:-1] for shape in wanted] == [shape[:-1] for shape in whole]:
            self.share(output)
            return full
        raise Refused("an output is neither one value per element nor one per row")

    def _label(self, index: int, labels: Labels) -> None:
        """Give a node its labels, and its operands theirs."""
        node = self.nodes[index]
        ones = [all(shape[d] == 1 for shape in self.sizes(index)) for d in range(len(labels))]
        declared = self._declared(index)
        for d, one in enumerate(ones):
            if one and not (declared and not declared[d].isdigit()):
                labels = (*labels[:d], None, *labels[d + 1 :])
        known = self.labels.get(index)
        if known is not None:
            if known != labels and COLUMN in (set(known) ^ set(labels)):
                raise Refused(f"{base_name(node.op)} is used both along and across rows")
            if known != labels:
                raise Refused(f"{base_name(node.op)} is used with two arrangements of its axes")
            return
        self.labels[index] = labels
        if declared and any(
            label is None and size != "1" for label, size in zip(labels, declared, strict=True)
        ):
            raise Refused("an axis has size one in every workload")
        for operand, wanted in zip(node.inputs, self._operand_labels(node, labels), strict=True):
            self._label(operand, wanted)

    def _declared(self, index: int) -> tuple[str, ...] | None:
        name = self.input_name(index)
        return self.definition.inputs[name].shape if name is not None else None

    def _operand_labels(self, node: OpNode, labels: Labels) -> list[Labels]:
        name = base_name(node.op)
        ranks = [len(self.nodes[i].shape) for i in node.inputs]
        if not node.inputs:
            return []
        if name in UNARY or name in BINARY or name in ("clamp", "where", "pow", "expand"):
            return [labels[len(labels) - rank :] for rank in ranks]
        if name in REDUCTIONS:
            return [self._reduced(node, labels, ranks[0])]
        if name == "unsqueeze":
            dim = _number(node, "dim") % len(labels)
            return [labels[:dim] + labels[dim + 1 :]]
        if name in ("squeeze", "view", "reshape", "_unsafe_view"):
            return [self._viewed(node, labels)]
        if name in ("slice", "cat"):
            if _number(node, "dim") % len(labels) != len(labels) - 1 or labels[-1] != COLUMN:
                raise Refused(f"{name} is along an axis that is not the last")
            return [labels for _ in node.inputs]
        if name == "gather" and _number(node, "dim") % len(labels) == len(labels) - 1:
            if labels[-1] is not None:
                raise Refused("gather takes more than one element of a row")
            return [(*labels[:-1], COLUMN), labels]
        raise Refused(f"the operator {name} is not supported")

    def _reduced(self, node: OpNode, labels: Labels, rank: int) -> Labels:
        dims = argument(node, "dim")
        listed = dims if isinstance(dims, list | tuple) else [dims]
        if [int(str(d)) % rank for d in listed if d is not None] != [rank - 1]:
            raise Refused(f"{base_name(node.op)} is not along the last axis alone")
        if argument(node, "keepdim", False):
            return (*labels[:-1], COLUMN)
        return (*labels, COLUMN)

    def _viewed(self, node: OpNode, labels: Labels) -> Labels:
        """Of a view that only adds or drops axes of size one."""
        source, target = self.sizes(node.inputs[0]), self.sizes(node.id)
        kept = [d for d in range(len(labels)) if any(shape[d] != 1 for shape in target)]
        result: list[int | None] = []
        for d in range(len(source[0])):
            if all(shape[d] == 1 for shape in source):
                result.append(None)
                continue
            if not kept or [s[d] for s in source] != [t[kept[0]] for t in target]:
                raise Refused("a view joins or splits axes")
            result.append(labels[kept.pop(0)])
        if kept:
            raise Refused("a view joins or splits axes")
        return tuple(result)

    def _check_types(self) -> None:
        for node in self.labels:
            dtype, vector = self.dtype(node), self.is_vector(node)
            if dtype is DType.FLOAT8_E4M3FN and node not in self.outputs:
                raise Refused("a value in fp8 is computed with")
            if self.input_name(node) is not None and vector and dtype not in _VECTOR_LOADS:
                raise Refused(f"rows of {dtype} are read")
            if node in self.outputs and vector and dtype not in _VECTOR_STORES:
                raise Refused(f"rows of {dtype} are written")
            if vector and dtype in (DType.INT64, DType.INT32):
                raise Refused("integers along a row are computed with")
            if base_name(self.nodes[node].op) in REDUCTIONS and dtype in (DType.INT64, DType.BOOL):
                raise Refused("truth values or integers are summed")
            if dtype not in C_TYPES and dtype is not DType.BOOL:
                raise Refused(f"{dtype} is computed with")

    def share(self, index: int) -> Fraction:
        """The node's columns as a share of the row's."""
        return _share(
            [shape[-1] for shape in self.sizes(index)],
            [shape[-1] for shape in self.sizes(self.whole)],
        )

    def slice_start(self, index: int) -> Fraction:
        """Where a slice begins, as a share of the row."""
        twins = [twins[index] for twins in self._twins]
        if any(_number(node, "step", 1) != 1 for node in twins):
            raise Refused("a slice has a step")
        starts = [_number(node, "start", 0) for node in twins]
        return _share(starts, [shape[-1] for shape in self.sizes(self.whole)])

    def axis_of(self, label: int) -> str:
        """The C expression of an axis' size: a field of the arguments, or digits."""
        shapes = [(i, self._declared(i)) for i in self.labels]
        for output, name in zip(self.outputs, self.definition.outputs, strict=True):
            shapes.append((output, self.definition.outputs[name].shape))
        found = [(i, shape) for i, shape in shapes if shape and label in self.labels[i]]
        for index, shape in found:
            axis = _sized(shape[self.labels[index].index(label)])
            if label != COLUMN or self.share(index) == 1:
                return axis
        for index, shape in found:
            share = self.share(index)
            if share.numerator == 1:
                return f"{_sized(shape[self.labels[index].index(label)])} * {share.denominator}"
        raise Refused("an axis belongs to no input")


def _aligned(analyses: Sequence[Analysis]) -> list[tuple[OpNode, ...]]:
    """Each operator as it is in every analysis."""
    return list(zip(*(analysis.nodes for analysis in analyses), strict=True))


def _numbers(node: OpNode) -> tuple[tuple[str, str], ...]:
    """The arguments that are no sizes."""
    sizes = ("size", "start", "end", "length", "shape")
    return tuple(sorted((k, v) for k, v in node.attributes.items() if k not in sizes))


def _sized(axis: str) -> str:
    return axis if axis.isdigit() else f"a.{axis}"


def _share(values: list[int], wholes: list[int]) -> Fraction:
    for divisor in (1, 2, 3, 4, 6, 8):
        for times in range(divisor + 1):
            if all(v * divisor == w * times for v, w in zip(values, wholes, strict=True)):
                return Fraction(times, divisor)
    raise Refused("columns are taken that are no simple share of a row")


def _number(node: OpNode, name: str, default: int | None = None) -> int:
    value = argument(node, name, default)
    if not isinstance(value, int):
        raise Refused(f"{base_name(node.op)}: {name} is {value!r}")
    return value


def _count(shape: tuple[int, ...]) -> int:
    count = 1
    for size in shape:
        count *= size
    return count
