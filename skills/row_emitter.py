"""From a row graph to the C++ of its passes: what each reads, sums, keeps and writes."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction

from skills.column_writer import ColumnWriter
from skills.op_node import argument, base_name
from skills.row_expression import columns_text, expression
from skills.row_graph import BINARY, COLUMN, REDUCTIONS, Refused, RowGraph

_COSTLY = {"exp", "log", "sigmoid", "tanh", "erf", "silu", "sqrt", "rsqrt", "div", "pow", "log1p"}


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
        """A costly value that a later pass needs again is kept in a buffer of the row.

        A buffer holds whole runs in the order of their lanes, so all passes must cut rows alike.
        """
        if any(len(self._pieces(each)) > 2 for each in passes):
            return
        seen = [self.vectors(each) for each in passes]
        for i, each in enumerate(passes):
            later = set().union(*seen[i + 1 :]) if i + 1 < len(passes) else set()
            shared = {n for n in seen[i] & later if self._cost(n) > 0}
            inner = {i for n in shared for i in self.graph.node(n).inputs}
            earlier = {n for p in passes[:i] for n in p.keeps}
            each.keeps = sorted(shared - inner - earlier)

    def vectors(self, each: Pass) -> set[int]:
        found: set[int] = set()
        todo = self._targets(each)
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

    # one pass

    def _loops(self, each: Pass) -> list[str]:
        lines = []
        ordered = self._pieces(each)
        for node in each.statistics:
            lines += self._start_of(node, each, ordered[1])
        for start, end in zip(ordered, ordered[1:], strict=False):
            lines += self._loop(each, start, end)
        for node in each.statistics:
            lines += self._end_of(node)
        return lines

    def _targets(self, each: Pass) -> list[int]:
        return [i for s in each.statistics for i in self.graph.node(s).inputs] + each.stores

    def _pieces(self, each: Pass) -> list[Fraction]:
        """Where the row is cut: at the ends of what is summed or stored, and at those of cats."""
        cuts: set[Fraction] = {Fraction(0), Fraction(1)}
        for target in self._targets(each):
            if self.graph.is_vector(target):
                cuts |= self._cuts(target, Fraction(0)) | {self.graph.share(target)}
        return sorted(cut for cut in cuts if 0 <= cut <= 1)

    def _cuts(self, node: int, shift: Fraction) -> set[Fraction]:
        """Where the row must be cut so that each piece takes one branch of every cat."""
        if not self.graph.is_vector(node) or base_name(self.graph.node(node).op) in REDUCTIONS:
            return set()
        cuts: set[Fraction] = set()
        for operand, (inner, first) in self.operands(node, shift).items():
            if base_name(self.graph.node(node).op) == "cat":
                cuts |= {first - shift, first + self.graph.share(operand) - shift}
            cuts |= self._cuts(operand, inner)
        return cuts

    def operands(self, node: int, shift: Fraction) -> dict[int, tuple[Fraction, Fraction]]:
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
        writer = ColumnWriter(self, each, start)
        for node in each.statistics:
            if self._reaches(self.graph.node(node).inputs[0], end):
                writer.accumulate(node)
        for node in each.keeps:
            if self._reaches(node, end):
                writer.keep(node)
        for node in each.stores:
            if self._reaches(node, end):
                writer.store(node)
        if not writer.lines:
            return []
        if each is self.passes[-1] and (start, end) == (Fraction(0), Fraction(1)):
            writer.bring_next_row()
        first = f"later(from, {columns_text(start)})" if start else "from"
        last = f"earlier(to, {columns_text(end)})" if end != 1 else "to"
        return self._step(writer, f"{first}, {last}")

    def _reaches(self, node: int, end: Fraction) -> bool:
        return not self.graph.is_vector(node) or self.graph.share(node) >= end

    @staticmethod
    def _step(writer: ColumnWriter, columns: str) -> list[str]:
        return [
            "  {",
            "    const auto step = [&](auto tail, int64_t c, int count) {",
            "      constexpr bool TAIL = decltype(tail)::value;",
            "      (void)TAIL, (void)count;",
            *(f"      {line}" for line in writer.lines),
            "    };",
            f"    over_columns({columns}, step);",
            "  }",
        ]

    def _start_of(self, node: int, each: Pass, piece: Fraction) -> list[str]:
        kind = REDUCTIONS[base_name(self.graph.node(node).op)]
        if kind == "var":
            # Relative to the mean of a first few, the squares' sum does not cancel.
            writer = ColumnWriter(self, each, Fraction(0))
            writer.add_to_shift(node)
            few = f"few{node}"
            return [
                f"  Pair sum{node} = pair(0.0f);",
                f"  Pair square{node} = sum{node}, first{node} = sum{node};",
                f"  const int64_t {few} = earlier(STEP, {columns_text(piece)});",
                *self._step(writer, f"int64_t(0), {few}"),
                f"  const float shift{node} = total(first{node}) / float({few});",
            ]
        start = {"max": "-3.4e38f", "min": "3.4e38f"}.get(kind, "0.0f")
        return [f"  Pair sum{node} = pair({start});"]

    def _end_of(self, node: int) -> list[str]:
        kind = REDUCTIONS[base_name(self.graph.node(node).op)]
        count = f"float({columns_text(self.graph.share(self.graph.node(node).inputs[0]))})"
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
            width = columns_text(self.graph.share(source))
            return self.scalar_at(source, f"inside(s{index}, {width})")
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
        width = columns_text(self.graph.share(node)) if COLUMN in labels else "1"
        if leading == list(range(self.graph.rank - 1)):
            return f"row * {width}" if COLUMN in labels else "row"
        strides, stride = [], width
        for label in reversed(leading):
            strides.append(f"at{label} * {stride}")
            stride = f"{self.graph.axis_of(label)} * {stride}".replace(" * 1", "")
        return " + ".join(reversed(strides)) or "0"

    def row_pointer(self, node: int, name: str) -> str:
        return f"a.{name} + {self.row_base(node)}"
