"""Trace a problem's reference and count its operations and bytes, for every workload of a plan.

Reads `/work/plan.json` (`scheduler.plan.plan_of`), writes `/out/analysis.json`:
`{"analyses": [...]}` with the fields of `problems.speed_of_light.Analysis`, or `{"error": line}`
and exit status 1. `decompositions.py` says which operators a graph consists of,
`operation_counts.py` how they are counted.
- Compulsory bytes: every tensor that the graph reads, once, and every output, once. Of a tensor
  that is only indexed or sliced, no more than the elements that are taken.
- Unfused bytes are counted on the operators as the reference calls them, before decomposition: a
  softmax runs alone as one operator. Attention counts as one operator that reads and writes
  nothing in between.
- A causal attention (`is_causal=True`) counts the pairs that the mask leaves; one whose mask is a
  tensor counts all of them, since the mask's values are not known.
- `flop_counter_operations` always counts whole products.
"""

from __future__ import annotations

import json
import socket
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

from sandbox.guest.buffers import tensor_bytes
from sandbox.guest.graph import Graph, Node, dtype_name
from sandbox.guest.graph_tracer import MetaDevice, UntraceableError, trace
from sandbox.guest.inputs import Value, dtype_of, load_reference, make_inputs, random_tensor
from sandbox.guest.operation_counts import GATHERS, aten, bytes_alone, stored_bytes, tensors_in
from sandbox.guest.reference_errors import REFERENCE_ERRORS, located

_GATHER_OPS = {str(packet.default) if packet is not aten.index else "aten.index.Tensor": position
               for packet, position in GATHERS.items()}  # fmt: skip
_SHRINKING_VIEWS = {"aten.slice.Tensor", "aten.select.int"}
_VIEWS = {
    "aten.view.default", "aten.transpose.int", "aten.permute.default", "aten.unsqueeze.default",
    "aten.squeeze.default", "aten.squeeze.dim", "aten.squeeze.dims", "aten.expand.default",
    "aten.as_strided.default", "getitem", *_SHRINKING_VIEWS,
}  # fmt: skip
_MATRIX_PRODUCTS = ("aten.mm.", "aten.bmm.", "aten._scaled_mm.", "aten._int_mm.", "aten.convol")


def main(argv: list[str], links: list[socket.socket]) -> int:
    report = analysis_report(json.loads(Path("/work/plan.json").read_text()))
    Path("/out/analysis.json").write_text(json.dumps(report))
    return 1 if "error" in report else 0


def analysis_report(plan: dict[str, Any]) -> dict[str, Any]:
    """What `/out/analysis.json` contains for a plan."""
    try:
        reference = load_reference(plan["reference"])
        entrypoint = plan["custom_inputs_entrypoint"]
        return {"analyses": [analyze(reference, entrypoint, call) for call in plan["calls"]]}
    except REFERENCE_ERRORS as error:
        return {"error": located(error)}


def analyze(
    reference: types.ModuleType, entrypoint: str | None, call: dict[str, Any]
) -> dict[str, Any]:
    """The fields of `problems.speed_of_light.Analysis` for one call."""
    inputs = meta_inputs(call, reference, entrypoint)
    graph = trace(reference.run, [spec["name"] for spec in call["inputs"]], inputs)
    _check_outputs(graph, call)
    unfused, flop_counter = _run_unfused(reference.run, inputs)
    return {
        "workload": call["workload"],
        "nodes": [node.fields() for node in graph.nodes],
        "outputs": graph.outputs,
        "operations": sum(node.operations for node in graph.nodes),
        "matrix_operations": sum(node.matrix_operations for node in graph.nodes),
        "flop_counter_operations": flop_counter,
        "compulsory_bytes": compulsory_bytes(graph, call),
        "unfused_bytes": unfused,
        "compute_dtype": compute_dtype(graph),
    }


def meta_inputs(
    call: dict[str, Any], reference: types.ModuleType, entrypoint: str | None
) -> list[Value]:
    """Tensors without data, scalars by value; a drawn scalar is drawn with seed 0."""
    specs = call["inputs"]
    drawn: list[Value] | None = None
    made: list[Value] = []
    for index, spec in enumerate(specs):
        if spec["shape"] is not None:
            shape, dtype = spec["shape"], dtype_of(spec["dtype"])
            made.append(torch.empty(shape, dtype=dtype, device="meta"))
        elif "value" in spec:
            made.append(spec["value"])
        elif spec["kind"] == "custom":
            drawn = drawn or make_inputs(call, reference, entrypoint, 0, "cpu")
            made.append(drawn[index])
        else:
            torch.manual_seed(0)
            made.append(random_tensor((), dtype_of(spec["dtype"]), "cpu").item())
    return made


def _check_outputs(graph: Graph, call: dict[str, Any]) -> None:
    declared = call["outputs"]
    if len(graph.outputs) != len(declared):
        raise UntraceableError(
            f"it returns {len(graph.outputs)} tensors, {len(declared)} outputs are declared"
        )
    for spec, output in zip(declared, graph.outputs, strict=True):
        found = graph.nodes[output].output
        if (list(found.shape), dtype_name(found.dtype)) != (list(spec["shape"]), spec["dtype"]):
            raise UntraceableError(
                f"output {spec['name']} is {dtype_name(found.dtype)} {list(found.shape)}, "
                f"declared {spec['dtype']} {list(spec['shape'])}"
            )


class _Unfused(TorchDispatchMode):
    """Sums what each operator moves if it runs alone."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.bytes = 0
        self._within_attention = False

    def attention(self, *args: Any, **kwargs: Any) -> torch.Tensor:
        self._within_attention = True
        result = torch.nn.functional.scaled_dot_product_attention(*args, **kwargs)
        self._within_attention = False
        moved = tensors_in([*args, *kwargs.values(), result])
        self.bytes += sum(map(stored_bytes, moved))
        return result

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        if not self._within_attention:
            self.bytes += bytes_alone(func, args, kwargs or {}, result)
        return result


def _run_unfused(run: Callable[..., Any], inputs: list[Value]) -> tuple[int, int]:
    """Unfused bytes, and the operations that torch's own counter finds."""
    counter, unfused = FlopCounterMode(display=False), _Unfused()
    device = MetaDevice(unfused.attention)
    with torch.no_grad(), counter, unfused, device:
        run(*inputs)
    return unfused.bytes, counter.get_total_flops()


def compulsory_bytes(graph: Graph, call: dict[str, Any]) -> int:
    """Of the inputs that are read and of the declared outputs; at least 1."""
    read = sum(_read_bytes(node, graph) for node in graph.nodes if node.op.startswith("input:"))
    return max(1, read + sum(map(tensor_bytes, call["outputs"])))


def _read_bytes(node: Node, graph: Graph) -> int:
    whole = stored_bytes(node.output)
    if node.id in graph.outputs:
        return whole
    read = 0
    for user in graph.nodes:
        if node.id not in user.inputs:
            continue
        if user.op in _VIEWS:
            read += _read_bytes(user, graph)
        elif _GATHER_OPS.get(user.op) == user.inputs.index(node.id):
            read += user.output.numel() * node.output.element_size()
        else:
            return whole
    return min(read, whole)


def compute_dtype(graph: Graph) -> str:
    """Of the operands of most matrix operations, before conversions that lose nothing.

    A product of bfloat16 tensors that were converted to float32 is one of bfloat16 operands.
    """
    found: dict[str, int] = {}
    for node in graph.nodes:
        if node.op.startswith(_MATRIX_PRODUCTS):
            operands = [_before_widening(graph.nodes[i], graph) for i in node.inputs[:2]]
            dtype = max((o.output.dtype for o in operands), key=lambda d: d.itemsize)
            name = dtype_name(dtype)
            found[name] = found.get(name, 0) + node.matrix_operations
    return max(found, key=lambda name: found[name]) if found else "float32"


def _before_widening(node: Node, graph: Graph) -> Node:
    while node.op in _VIEWS or node.op == "aten._to_copy.default":
        source = graph.nodes[node.inputs[0]]
        wider = source.output.dtype.itemsize < node.output.dtype.itemsize
        if node.op == "aten._to_copy.default" and not wider:
            break
        node = source
    return node
