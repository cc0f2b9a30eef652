"""The statements of one step over a run of columns: loads, operators, sums and stores."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from skills.op_node import base_name
from skills.row_expression import columns_text, expression
from skills.row_graph import REDUCTIONS, Refused

if TYPE_CHECKING:
    from skills.row_emitter import Pass, RowEmitter


class ColumnWriter:
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
        value = f"pair({self._value(self._graph.node(node).inputs[0], Fraction(0))})"
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

    def add_to_shift(self, node: int) -> None:
        value = self._value(self._graph.node(node).inputs[0], Fraction(0))
        kept = f"(TAIL ? keep(pair({value}), count, 0.0f) : pair({value}))"
        self.lines.append(f"first{node} = first{node} + {kept};")

    def keep(self, node: int) -> None:
        value = self._value(node, Fraction(0))
        place = f"kept{node} + {self._column()}"
        self.lines.append(f"if constexpr (KEEP) retain({place}, pair({value}));")

    def store(self, node: int) -> None:
        index = self._graph.outputs.index(node)
        name = list(self._graph.definition.outputs)[index]
        value = self._value(node, Fraction(0))
        pointer = self._emitter.row_pointer(node, name)
        place = f"{pointer} + {self._column()}"
        self.lines.append(f"store<TAIL, STREAMED>({place}, pair({value}), count);")

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
        return f"c + {columns_text(shift)}" if shift else "c"

    def _value(self, node: int, shift: Fraction) -> str:
        if not self._graph.is_vector(node):
            return f"s{node}"
        key = (node, shift)
        if key not in self._known:
            text = self._text(node, shift)
            name = f"v{node}" + (f"_{len(self._known)}" if shift else "")
            if node in self._ready and not shift:
                text = f"KEEP ? recall(kept{node} + {self._column()}) : pair({text})"
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
            for operand, (inner, first_column) in self._emitter.operands(node, shift).items():
                place = self._start + shift - first_column
                if 0 <= place < graph.share(operand):
                    return self._value(operand, inner)
            raise Refused("a cat's parts were not understood")
        if name == "slice":
            inner = shift + graph.slice_start(node)
            return self._value(graph.node(node).inputs[0], inner)
        operands = [self._value(i, shift) for i in graph.node(node).inputs]
        return expression(graph, graph.node(node), operands)
