"""From an operator graph to one fused C++ kernel, or to the reason why there is none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from problems.definition import Definition, DType, TensorSpec
from problems.solution import Solution
from problems.speed_of_light import Analysis
from skills.kernel_text import rendered, template_folder
from skills.row_emitter import RowEmitter
from skills.row_graph import C_TYPES, COLUMN, Refused, RowGraph
from skills.template import Instance, Refusal, Template, choose_parameters, load_template

FAMILY = "row program"
TILE_COLUMNS = 4096
"""Columns of one task where rows are cut: a multiple of every vector width."""


@dataclass
class RowProgram:
    """A graph that can run row by row, with its template."""

    definition: Definition
    template: Template
    program: str
    split: bool

    def defaults(self) -> dict[str, str]:
        return self.template.defaults()

    def render(self, parameters: Mapping[str, str]) -> Solution:
        chosen = choose_parameters(self.template, self.defaults(), parameters)
        layout = f"constexpr bool SPLIT = {'true' if self.split else 'false'};\n"
        blocks = {"LAYOUT": layout, "ROW_PROGRAM": self.program}
        return rendered(self.template, self.definition, chosen, blocks)


def match_row_program(definition: Definition, analyses: Sequence[Analysis]) -> Instance | Refusal:
    """The kernel that runs the whole graph row by row, if every operator of it can be fused."""
    if not analyses:
        return Refusal(family=FAMILY, reason="the reference was not analysed")
    try:
        if any(spec.shape is None for spec in definition.inputs.values()):
            raise Refused("an input is a Python number")
        graph = RowGraph(definition, analyses)
        emitter = RowEmitter(graph)
        program = _program(definition, graph, emitter)
    except Refused as refused:
        return Refusal(family=FAMILY, reason=f"{definition.name}: {refused}")
    return RowProgram(
        definition=definition,
        template=load_template(template_folder("row_program")),
        program=program,
        split=_splits(graph),
    )


def _splits(graph: RowGraph) -> bool:
    """Even and odd elements apart: only where rows have 16-bit elements, or fp8 results."""
    wide = (DType.FLOAT32, DType.FLOAT16)
    memory = [n for n in graph.labels if graph.input_name(n) is not None or n in graph.outputs]
    return not any(graph.dtype(n) in wide for n in memory if graph.is_vector(n))


def _program(definition: Definition, graph: RowGraph, emitter: RowEmitter) -> str:
    body = emitter.body()
    axes = list(definition.axes)
    tensors = [(name, spec, "const ") for name, spec in definition.inputs.items()]
    tensors += [(name, spec, "") for name, spec in definition.outputs.items()]
    arguments = [f"{const}{_c_type(spec)} *{name}" for name, spec, const in tensors]
    fields = [f"  {argument};" for argument in arguments]
    fields += [f"  int64_t {axis};" for axis in axes]
    parameters = [f"{const}{_c_type(spec)} *in_{name}" for name, spec, const in tensors]
    signature = ", ".join([*parameters, *(f"int64_t n_{axis}" for axis in axes)])
    values = ", ".join([*(f"in_{name}" for name, _, _ in tensors), *(f"n_{a}" for a in axes)])
    return "\n".join(
        [
            "struct Arguments {",
            *fields,
            "};",
            *(_buffers(emitter)),
            "template <bool STREAMED>",
            "static void run_row(const Arguments &a, int64_t row, int64_t from, int64_t to) {",
            *_preamble(graph, emitter, body),
            body.rstrip(),
            "}",
            f'extern "C" int run({signature}) {{',
            f"  const Arguments a = {{{values}}};",
            *_driver(graph, emitter, body),
            "}",
            "",
        ]
    )


def _c_type(spec: TensorSpec) -> str:
    if spec.dtype not in C_TYPES:
        raise Refused(f"a tensor of {spec.dtype}")
    return C_TYPES[spec.dtype]


def _buffers(emitter: RowEmitter) -> list[str]:
    lines = []
    for node in emitter.kept:
        lines.append(f"static thread_local float *buffer{node};")
        lines.append(f"static thread_local int64_t buffer{node}_size;")
    return lines


def _preamble(graph: RowGraph, emitter: RowEmitter, body: str) -> list[str]:
    """Sizes, coordinates of the row and buffers: what the body uses of them."""
    lines = [f"  const int64_t columns = {graph.axis_of(COLUMN)};", "  (void)from, (void)to;"]
    rest = "row"
    for label in reversed(range(graph.rank - 1)):
        if f"at{label}" in body:
            size = graph.axis_of(label)
            lines.append(f"  const int64_t at{label} = {rest} % {size};")
        rest = f"({rest} / {graph.axis_of(label)})"
    for node in emitter.kept:
        lines.append(f"  float *const kept{node} = room(buffer{node}, buffer{node}_size, columns);")
    return lines


def _driver(graph: RowGraph, emitter: RowEmitter, body: str) -> list[str]:
    rows = " * ".join(graph.axis_of(label) for label in range(graph.rank - 1)) or "1"
    lines = [
        f"  const int64_t columns = {graph.axis_of(COLUMN)}, rows = {rows};",
        "  if (rows <= 0 || columns <= 0) return 1;",
    ]
    for den in sorted(emitter.dens - {1}):
        lines.append(f"  if (columns % {den}) return 2;")
    lines += _streamed(graph, sorted(emitter.dens))
    if emitter.has_statistics:
        return lines + _row_loop()
    flat = "at" not in body and not any(not graph.is_vector(n) for n in graph.labels)
    flat = flat and all(
        len(graph.labels[n]) == graph.rank for n in graph.labels if graph.input_name(n) is not None
    )
    return lines + _tile_loop(flat and "int64_t(0)" not in body and "columns / " not in body)


def _streamed(graph: RowGraph, dens: Sequence[int]) -> list[str]:
    """Where every piece of every row begins at a line of the cache."""
    tests: list[str] = []
    for output, name in zip(graph.outputs, graph.definition.outputs, strict=True):
        if graph.is_vector(output):
            size = f"int64_t(sizeof *a.{name})"
            tests += [f"streams(a.{name}, columns / {den} * {size})" for den in dens]
    return [f"  const bool streamed = {' && '.join(tests) or 'false'};"]


def _row_loop() -> list[str]:
    return [
        "#pragma omp parallel if (rows * columns * 2 >= SERIAL_BELOW)",
        "  {",
        "#pragma omp for schedule(static) nowait",
        "    for (int64_t row = 0; row < rows; row++)",
        "      if (streamed)",
        "        run_row<true>(a, row, 0, columns);",
        "      else",
        "        run_row<false>(a, row, 0, columns);",
        "    fence();",
        "  }",
        "  return 0;",
    ]


def _tile_loop(flat: bool) -> list[str]:
    """Without sums a row can be cut; where every tensor is as long, all rows are one."""
    whole = "rows * columns" if flat else "columns"
    count = "1" if flat else "rows"
    return [
        f"  const int64_t length = {whole}, tiles = (length + {TILE_COLUMNS - 1}) / "
        f"{TILE_COLUMNS};",
        f"  const int64_t tasks = {count} * tiles;",
        "#pragma omp parallel if (rows * columns * 2 >= SERIAL_BELOW)",
        "  {",
        "#pragma omp for schedule(static) nowait",
        "    for (int64_t task = 0; task < tasks; task++) {",
        f"      const int64_t row = task / tiles, from = task % tiles * {TILE_COLUMNS};",
        f"      const int64_t end = from + {TILE_COLUMNS}, to = end < length ? end : length;",
        "      if (streamed)",
        "        run_row<true>(a, row, from, to);",
        "      else",
        "        run_row<false>(a, row, from, to);",
        "    }",
        "    fence();",
        "  }",
        "  return 0;",
    ]
