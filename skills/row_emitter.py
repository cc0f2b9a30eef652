"""From a row graph to the C++ of its passes: what each reads, sums, keeps and writes."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction

from problems.definition import DType
from problems.speed_of_light import OpNode
from skills.op_node import argument, base_name
from skills.row_graph import BINARY, COLUMN, REDUCTIONS, RELABELLED, UNARY, Refused, RowGraph

C_TYPES = {
    DType.BFLOAT16: "bf16", DType.FLOAT32: "float", DType.FLOAT16: "half",
    DType.FLOAT8_E4M3FN: "fp8", DType.INT64: "int64_t", DType.INT32: "int32_t",
}  # fmt: skip
_VECTOR_LOADS = (DType.BFLOAT16, DType.FLOAT32, DType.FLOAT16)
_VECTOR_STORES = (*_VECTOR_LOADS, DType.FLOAT8_E4M3FN)
_COSTLY = {"exp", "log", "sigmoid", "tanh", "erf", "silu", "sqrt", "rsqrt", "div", "pow", "log1p"}
_INTEGERS = (DType.INT64, DType.INT32, DType.BOOL)


@dataclass
class Pass:
    """One loop over a row's columns."""

    level: int
    statistics: list[int] = field(default_factory=list)
    stores: list[int] = field(default_factory=list)
    keeps: list[int] = field(default_factory=list)


class RowEmitter:
    """Writes the body of one row; `passes` says what happens in which loop."""

    def __init__(self, graph: RowGraph) -> None:
        self.graph = graph
        self._levels: dict[int, int] = {}
        self.passes = self._plan()
        self.kept = [node for each in self.passes for node in each.keeps]
        self._check_types()

    @property
    def has_statistics(self) -> bool:
        return any(each.statistics for each in self.passes)

    @property
    def dens(self) -> set[int]:
        """What must divide the number of columns."""
        nodes = [n for n in self.graph.labels if base_name(self.graph.node(n).op) == "slice"]
        shares = [self.graph.slice_start(n) for n in nodes]
        shares += [self.graph.share(n) for n in self.graph.labels if self.graph.is_vector(n)]
        return {share.denominator for share in shares}

    def level(self, node: int) -> int:
        """How many passes must be over before the value can be computed."""
        if node not in self._levels:
            operands = self.graph.node(node).inputs
            below = max((self.level(i) for i in operands), default=0)
            counts = base_name(self.graph.node(node).op) in REDUCTIONS
            self._levels[node] = below + 1 if counts else below
        return self._levels[node]

    def body(self) -> str:
        lines: list[str] = []
        for each in self.passes:
            lines += self._scalars(each.level)
            lines += self._loops(each)
        last = max((each.level for each in self.passes), default=-1) + 1
        lines += self._scalars(last)
        lines += self._scalar_stores()
        return "\n".join(lines) + "\n"

    # what happens when

    def _plan(self) -> list[Pass]:
        graph = self.graph
        passes: dict[int, Pass] = {}
        for node in sorted(graph.labels):
            if base_name(graph.node(node).op) in REDUCTIONS:
                level = self.level(node) - 1
                passes.setdefault(level, Pass(level)).statistics.append(node)
        for output in graph.outputs:
            if graph.is_vector(output):
                level = self.level(output)
                passes.setdefault(level, Pass(level)).stores.append(output)
        ordered = [passes[level] for level in sorted(passes)]
        self._plan_keeps(ordered)
        return ordered

    def _plan_keeps(self, passes: list[Pass]) -> None:
        """A costly value that a later pass needs again is kept in a buffer of the row."""
        seen = [self.vectors(each) for each in passes]
        for i, each in enumerate(passes):
            later = set().union(*seen[i + 1 :]) if i + 1 < len(passes) else set()
            shared = {n for n in seen[i] & later if self._cost(n) > 0}
            inner = {i for n in shared for i in self.graph.node(n).inputs}
            earlier = {n for p in passes[:i] for n in p.keeps}
            each.keeps = sorted(shared - inner - earlier)

    def vectors(self, each: Pass) -> set[int]:
        found: set[int] = set()
        todo = [i for s in each.statistics for i in self.graph.node(s).inputs] + each.stores
        while todo:
            node = todo.pop()
            if node in found or not self.graph.is_vector(node):
                continue
            found.add(node)
            if base_name(self.graph.node(node).op) not in ("slice", "cat"):
                todo += self.graph.node(node).inputs
        return found

    def _cost(self, node: int) -> int:
        if not self.graph.is_vector(node) or self.graph.input_name(node) is not None:
            return 0
        name = base_name(self.graph.node(node).op)
        own = 4 if name in _COSTLY else int(name in BINARY)
        return own + sum(map(self._cost, self.graph.node(node).inputs))

    def _check_types(self) -> None:
        graph = self.graph
        for node in graph.labels:
            dtype, vector = graph.dtype(node), graph.is_vector(node)
            if dtype is DType.FLOAT8_E4M3FN and node not in graph.outputs:
                raise Refused("a value in fp8 is computed with")
            if graph.input_name(node) is not None and vector and dtype not in _VECTOR_LOADS:
                raise Refused(f"rows of {dtype} are read")
            if node in graph.outputs and vector and dtype not in _VECTOR_STORES:
                raise Refused(f"rows of {dtype} are written")
            if dtype not in C_TYPES and dtype is not DType.BOOL:
                raise Refused(f"{dtype} is computed with")

    # one pass

    def _loops(self, each: Pass) -> list[str]:
        lines = []
        for node in each.statistics:
            lines += self._start_of(node)
        targets = [i for s in each.statistics for i in self.graph.node(s).inputs] + each.stores
        cuts: set[Fraction] = {Fraction(0), Fraction(1)}
        for target in targets:
            cuts |= self._cuts(target, Fraction(0))
        ordered = sorted(cut for cut in cuts if 0 <= cut <= 1)
        for start, end in zip(ordered, ordered[1:], strict=False):
            lines += self._loop(each, start, end)
        for node in each.statistics:
            lines += self._end_of(node)
        return lines

    def _cuts(self, node: int, shift: Fraction) -> set[Fraction]:
        """Where the row must be cut so that each piece takes one branch of every cat."""
        if not self.graph.is_vector(node) or base_name(self.graph.node(node).op) in REDUCTIONS:
            return set()
        cuts: set[Fraction] = set()
        for operand, (inner, first) in self._operands(node, shift).items():
            if base_name(self.graph.node(node).op) == "cat":
                cuts |= {first - shift, first + self.graph.share(operand) - shift}
            cuts |= self._cuts(operand, inner)
        return cuts

    def _operands(self, node: int, shift: Fraction) -> dict[int, tuple[Fraction, Fraction]]:
        """Each operand's shift, and where it begins in a cat."""
        name, inputs = base_name(self.graph.node(node).op), self.graph.node(node).inputs
        if name == "slice":
            return {inputs[0]: (shift + self.graph.slice_start(node), Fraction(0))}
        if name != "cat":
            return {i: (shift, Fraction(0)) for i in inputs}
        found, first = {}, Fraction(0)
        for operand in inputs:
            found[operand] = (shift - first, first)
            first += self.graph.share(operand)
        return found

    def _loop(self, each: Pass, start: Fraction, end: Fraction) -> list[str]:
        writer = _ColumnWriter(self, each, start)
        for node in each.statistics:
            writer.accumulate(node)
        for node in each.keeps:
            writer.keep(node)
        for node in each.stores:
            writer.store(node)
        if each is self.passes[-1] and (start, end) == (Fraction(0), Fraction(1)):
            writer.bring_next_row()
        begin, stop = _columns(start), _columns(end)
        piece = f"{begin}, {stop}" if (start, end) != (Fraction(0), Fraction(1)) else "from, to"
        return [
            "  {",
            "    const auto step = [&](auto tail, int64_t c, int count) {",
            "      constexpr bool TAIL = decltype(tail)::value;",
            "      (void)TAIL, (void)count;",
            *(f"      {line}" for line in writer.lines),
            "    };",
            f"    over_columns({piece}, step);",
            "  }",
        ]

    def _start_of(self, node: int) -> list[str]:
        kind = REDUCTIONS[base_name(self.graph.node(node).op)]
        if kind == "var":
            source = self.graph.node(node).inputs[0]
            first = self.scalar_at(source, "from")
            return [
                f"  const float shift{node} = {first};",
                f"  Pair sum{node} = pair(0.0f), square{node} = pair(0.0f);",
            ]
        start = {"max": "-3.4e38f", "min": "3.4e38f"}.get(kind, "0.0f")
        return [f"  Pair sum{node} = pair({start});"]

    def _end_of(self, node: int) -> list[str]:
        kind = REDUCTIONS[base_name(self.graph.node(node).op)]
        count = f"float({_columns(self.graph.share(self.graph.node(node).inputs[0]))})"
        if kind == "var":
            correction = argument(self.graph.node(node), "correction", 1)
            return [
                f"  const float mean{node} = total(sum{node}) / {count};",
                f"  const float s{node} = (total(square{node}) - {count} * mean{node} * "
                f"mean{node}) / ({count} - {float(str(correction))}f);",
            ]
        if kind in ("max", "min"):
            return [f"  const float s{node} = {'top' if kind == 'max' else 'bottom'}(sum{node});"]
        divisor = f" / {count}" if kind == "mean" else ""
        return [f"  const float s{node} = total(sum{node}){divisor};"]

    # values per row

    def _scalars(self, level: int) -> list[str]:
        """Every value per row that can be computed once `level` passes are over."""
        lines = []
        for node in sorted(self.graph.labels):
            if self.graph.is_vector(node) or self.level(node) != level:
                continue
            if base_name(self.graph.node(node).op) not in REDUCTIONS:
                lines.append(f"  const auto s{node} = {self._scalar(node)};")
        return lines

    def _scalar(self, node: int) -> str:
        name = self.graph.input_name(node)
        if name is not None:
            return f"value_of(a.{name}[{self.row_base(node)}])"
        if base_name(self.graph.node(node).op) == "gather":
            source, index = self.graph.node(node).inputs
            return self.scalar_at(source, f"inside(s{index}, columns)")
        operands = [f"s{i}" for i in self.graph.node(node).inputs]
        return expression(self.graph, self.graph.node(node), operands)

    def scalar_at(self, node: int, column: str) -> str:
        """A value of the row at one column, as a scalar expression."""
        graph = self.graph
        if not graph.is_vector(node):
            return f"s{node}"
        name = graph.input_name(node)
        if name is not None:
            return f"value_of(a.{name}[{self.row_base(node)} + {column}])"
        if base_name(graph.node(node).op) in ("cat", "slice"):
            raise Refused("one element is taken of a row that was put together")
        operands = [self.scalar_at(i, column) for i in graph.node(node).inputs]
        return expression(graph, graph.node(node), operands)

    def _scalar_stores(self) -> list[str]:
        lines = []
        for output, name in zip(self.graph.outputs, self.graph.definition.outputs, strict=True):
            if not self.graph.is_vector(output):
                lines.append(f"  set(a.{name}[{self.row_base(output)}], s{output});")
        return lines

    def row_base(self, node: int) -> str:
        """Where the row's part of a tensor begins, in elements."""
        labels = [label for label in self.graph.labels[node] if label is not None]
        leading = [label for label in labels if label != COLUMN]
        if leading == list(range(self.graph.rank - 1)):
            return "row * columns" if COLUMN in labels else "row"
        strides, stride = [], "columns" if COLUMN in labels else "1"
        for label in reversed(leading):
            strides.append(f"at{label} * {stride}")
            stride = f"{self.graph.axis_of(label)} * {stride}".replace(" * 1", "")
        return " + ".join(reversed(strides)) or "0"

    def row_pointer(self, node: int, name: str) -> str:
        return f"a.{name} + {self.row_base(node)}"


class _ColumnWriter:
    """The statements of one step over a run of columns."""

    def __init__(self, emitter: RowEmitter, each: Pass, start: Fraction) -> None:
        self._emitter = emitter
        self._graph = emitter.graph
        self._pass = each
        self._start = start
        self._known: dict[tuple[int, Fraction], str] = {}
        self._ready = {n for p in emitter.passes if p.level < each.level for n in p.keeps}
        self.lines: list[str] = []

    def accumulate(self, node: int) -> None:
        kind = REDUCTIONS[base_name(self._graph.node(node).op)]
        value = self._value(self._graph.node(node).inputs[0], Fraction(0))
        rest = {"max": "-3.4e38f", "min": "3.4e38f"}.get(kind, "0.0f")
        if kind == "var":
            self.lines.append(
                f"const Pair d{node} = TAIL ? keep({value} - shift{node}, count, "
                f"0.0f) : {value} - shift{node};"
            )
            self.lines.append(f"sum{node} = sum{node} + d{node};")
            self.lines.append(f"square{node} = square{node} + d{node} * d{node};")
            return
        kept = f"(TAIL ? keep({value}, count, {rest}) : {value})"
        if kind in ("max", "min"):
            function = "largest" if kind == "max" else "smallest"
            self.lines.append(f"sum{node} = {function}(sum{node}, {kept});")
        else:
            self.lines.append(f"sum{node} = sum{node} + {kept};")

    def keep(self, node: int) -> None:
        value = self._value(node, Fraction(0))
        self.lines.append(f"if constexpr (KEEP) retain(kept{node} + {self._column()}, {value});")

    def store(self, node: int) -> None:
        index = self._graph.outputs.index(node)
        name = list(self._graph.definition.outputs)[index]
        value = self._value(node, Fraction(0))
        pointer = self._emitter.row_pointer(node, name)
        self.lines.append(f"store<TAIL, STREAMED>({pointer} + {self._column()}, {value}, count);")

    def bring_next_row(self) -> None:
        """Of the inputs whose rows lie behind one another and are read in the first pass."""
        first = self._emitter.passes[0]
        if first is self._pass:
            return
        for node in sorted(self._emitter.vectors(first)):
            name = self._graph.input_name(node)
            if name is not None and self._emitter.row_base(node) == "row * columns":
                self.lines.append(f"bring(a.{name} + (row + 1) * columns + {self._column()});")

    def _column(self, shift: Fraction = Fraction(0)) -> str:
        """`c` counts from the piece's start in the whole row."""
        return f"c + {_columns(shift)}" if shift else "c"

    def _value(self, node: int, shift: Fraction) -> str:
        if not self._graph.is_vector(node):
            return f"s{node}"
        key = (node, shift)
        if key not in self._known:
            text = self._text(node, shift)
            name = f"v{node}" + (f"_{len(self._known)}" if shift else "")
            if node in self._ready and not shift:
                text = f"KEEP ? recall(kept{node} + {self._column()}) : {text}"
            self.lines.append(f"const auto {name} = {text};")
            self._known[key] = name
        return self._known[key]

    def _text(self, node: int, shift: Fraction) -> str:
        graph = self._graph
        tensor = graph.input_name(node)
        if tensor is not None:
            pointer = self._emitter.row_pointer(node, tensor)
            first = "true" if self._pass is self._emitter.passes[0] else "false"
            return f"load<TAIL, {first}>({pointer} + {self._column(shift)}, count)"
        name = base_name(graph.node(node).op)
        if name == "cat":
            for operand, (inner, first_column) in self._emitter._operands(node, shift).items():
                place = self._start + shift - first_column
                if 0 <= place < graph.share(operand):
                    return self._value(operand, inner)
            raise Refused("a cat's parts were not understood")
        if name == "slice":
            inner = shift + graph.slice_start(node)
            return self._value(graph.node(node).inputs[0], inner)
        operands = [self._value(i, shift) for i in graph.node(node).inputs]
        return expression(graph, graph.node(node), operands)


def expression(graph: RowGraph, node: OpNode, operands: list[str]) -> str:
    """One operator on values, which are scalars or runs of columns alike."""
    name = base_name(node.op)
    if name in RELABELLED:
        return operands[0]
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


def _columns(share: Fraction) -> str:
    """A share of the row's columns as an integer expression."""
    if share == 1:
        return "columns"
    if share == 0:
        return "int64_t(0)"
    sign = "-" if share < 0 else ""
    times = "" if abs(share.numerator) == 1 else f" * {abs(share.numerator)}"
    return f"({sign}columns{times} / {share.denominator})"
