"""Is a graph the largest k of every row, with or without softmax weights? Then its kernel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from problems.definition import Definition, DType
from problems.solution import Solution
from problems.speed_of_light import Analysis, OpNode
from skills.kernel_text import rendered, template_folder
from skills.op_node import INPUT, argument, base_name
from skills.template import Instance, Refusal, Template, choose_parameters, load_template

FAMILY = "row selection"
LARGEST_K = 64
_C_TYPES = {
    DType.FLOAT32: "float", DType.BFLOAT16: "bf16", DType.INT32: "int32_t", DType.INT64: "int64_t",
}  # fmt: skip
_SHOWN = {
    "amax": ("dim", "keepdim"), "sum": ("dim", "keepdim"), "topk": ("dim", "k", "largest"),
    "getitem": ("index",), "sub": ("alpha",), "div": ("rounding_mode",), "exp": (),
}  # fmt: skip


class _NotMatched(Exception):
    """The message is the reason."""


def match_top_k_gate(definition: Definition, analyses: Sequence[Analysis]) -> Instance | Refusal:
    """The kernel of a gate, if the graph is one."""
    try:
        return TopKGate.of(definition, analyses)
    except _NotMatched as reason:
        return Refusal(family=FAMILY, reason=f"{definition.name}: {reason}")


@dataclass
class TopKGate:
    """An instance of the template."""

    definition: Definition
    template: Template
    k: int
    weights: str
    """What the values are: LOGITS, OF_ALL or OF_CHOSEN."""
    arguments: tuple[str | None, str | None]
    """The outputs that take the values and the indices; None where the graph has none."""

    @classmethod
    def of(cls, definition: Definition, analyses: Sequence[Analysis]) -> TopKGate:
        """
        Raises:
            _NotMatched: the graph is no gate.
        """
        kinds = {_roles(definition, analysis) for analysis in analyses}
        if len(kinds) != 1:
            raise _NotMatched("the operators differ between workloads")
        k, roles = kinds.pop()
        names = dict(zip(roles, definition.outputs, strict=True))
        values = [role for role in roles if role != "INDICES"]
        if len(names) != len(roles) or len(values) > 1:
            raise _NotMatched("an output is there twice")
        kind = values[0] if values else "LOGITS"
        folder = template_folder("top_k_gate")
        outputs = (names.get(kind), names.get("INDICES"))
        return cls(definition, load_template(folder), k, kind, outputs)

    def defaults(self) -> dict[str, str]:
        return self.template.defaults()

    def render(self, parameters: Mapping[str, str]) -> Solution:
        chosen = choose_parameters(self.template, self.defaults(), parameters)
        blocks = {"PROBLEM": self._problem(), "ENTRY": self._entry()}
        return rendered(self.template, self.definition, chosen, blocks)

    def _problem(self) -> str:
        return (
            "enum Weights { LOGITS, OF_ALL, OF_CHOSEN };\n"
            f"constexpr int K = {self.k};\nconstexpr Weights WEIGHTS = {self.weights};\n"
        )

    def _entry(self) -> str:
        ((logits, spec),) = self.definition.inputs.items()
        rows, columns = spec.shape or ()
        outputs = [f"{_C_TYPES[o.dtype]} *{n}" for n, o in self.definition.outputs.items()]
        sizes = [f"int64_t {axis}" for axis in self.definition.axes]
        signature = ", ".join([f"const bf16 *{logits}", *outputs, *sizes])
        absent = ("(float *)nullptr", "(int32_t *)nullptr")
        values, indices = (n or a for n, a in zip(self.arguments, absent, strict=True))
        unused = [axis for axis in self.definition.axes if axis not in (rows, columns)]
        return "\n".join(
            [
                f'extern "C" int run({signature}) {{',
                *(f"  (void){axis};" for axis in unused),
                f"  return select_rows({logits}, {values}, {indices}, {rows}, {columns});",
                "}",
                "",
            ]
        )


def _roles(definition: Definition, analysis: Analysis) -> tuple[int, tuple[str, ...]]:
    """k, and what each output is."""
    nodes = {node.id: node for node in analysis.nodes}
    selections = [node for node in nodes.values() if base_name(node.op) == "topk"]
    if len(definition.inputs) != 1 or len(selections) != 1:
        raise _NotMatched("it is not one topk of one input")
    ((_, spec),) = definition.inputs.items()
    if spec.dtype is not DType.BFLOAT16 or len(spec.shape or ()) != 2:
        raise _NotMatched("the logits are no bfloat16 rows of two axes")
    k = argument(selections[0], "k")
    if not isinstance(k, int) or not 0 < k <= LARGEST_K:
        raise _NotMatched(f"k is {k!r}, not 1 to {LARGEST_K}")
    known = _known_forms(k)
    roles = []
    for output, (name, result) in zip(analysis.outputs, definition.outputs.items(), strict=True):
        role = known.get(_text(nodes, _before_cast(nodes, output)))
        if role is None:
            raise _NotMatched(f"output {name} is neither a topk's values, its weights nor indices")
        if result.dtype not in _C_TYPES or result.dtype.floating == (role == "INDICES"):
            raise _NotMatched(f"output {name} is {result.dtype}")
        roles.append(role)
    return k, tuple(roles)


def _known_forms(k: int) -> dict[str, str]:
    """The graphs' texts: softmax keeps the order, so that both choose the same."""
    logits, softmax = "logits", _softmax("logits")
    forms = {}
    for source in (logits, softmax):
        chosen = f"topk({source},dim=1,k={k},largest=True)"
        forms[f"getitem({chosen},index=1)"] = "INDICES"
    raw = f"getitem(topk({logits},dim=1,k={k},largest=True),index=0)"
    values = f"getitem(topk({softmax},dim=1,k={k},largest=True),index=0)"
    forms[raw] = "LOGITS"
    forms[values] = "OF_ALL"
    forms[f"div({values},sum({values},dim=1,keepdim=True))"] = "OF_CHOSEN"
    forms[_softmax(raw)] = "OF_CHOSEN"
    return forms


def _softmax(x: str) -> str:
    exponential = f"exp(sub({x},amax({x},dim=1,keepdim=True)))"
    return f"div({exponential},sum({exponential},dim=1,keepdim=True))"


def _before_cast(nodes: Mapping[int, OpNode], index: int) -> int:
    """A conversion at the very end rounds the result, which the kernel does as well."""
    node = nodes[index]
    return node.inputs[0] if base_name(node.op) == "_to_copy" else index


def _text(nodes: Mapping[int, OpNode], index: int) -> str:
    """The value as a formula, in which conversions of bfloat16 to float32 do not show."""
    node = nodes[index]
    name = base_name(node.op)
    if node.op.startswith(INPUT):
        return "logits"
    operands = [_text(nodes, operand) for operand in node.inputs]
    if name == "_to_copy" and node.dtype is DType.FLOAT32:
        return operands[0]
    shown = []
    for key in _SHOWN.get(name, tuple(node.attributes)):
        value = argument(node, key)
        if key == "dim":
            axis = value[0] if isinstance(value, list | tuple) and len(value) == 1 else value
            value = axis % 2 if isinstance(axis, int) else axis
        if value is not None:
            shown.append(f"{key}={value}")
    return f"{name}({','.join([*operands, *shown])})"
