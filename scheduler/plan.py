"""What a guest program is told, as plain JSON: the guest knows neither records nor expressions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from problems.definition import Definition
from problems.workload import CustomInput, SafetensorsInput, ScalarInput, Workload


def call_of(definition: Definition, workload: Workload) -> dict[str, Any]:
    """One workload with every size resolved.

    `{"workload": uuid, "axes": {name: size}, "inputs": [{"name", "shape", "dtype", "kind",
    "value"}], "outputs": [{"name", "shape", "dtype"}], "tolerance": {…}}`; `kind` is random,
    scalar, custom or safetensors; `shape` null is a Python scalar; `value` only for scalars.
    """
    axes = definition.resolve_axes(workload.axes)
    inputs = []
    for name, tensor in definition.inputs.items():
        spec = workload.inputs[name]
        entry: dict[str, Any] = {
            "name": name,
            "shape": definition.shape_of(name, axes),
            "dtype": tensor.dtype.value,
            "kind": spec.type,
        }
        if isinstance(spec, ScalarInput):
            entry["value"] = spec.value
        if isinstance(spec, SafetensorsInput):
            entry |= {"path": spec.path, "tensor_key": spec.tensor_key}
        inputs.append(entry)
    outputs = [
        {"name": name, "shape": definition.shape_of(name, axes) or (), "dtype": tensor.dtype.value}
        for name, tensor in definition.outputs.items()
    ]
    return {
        "workload": workload.uuid,
        "axes": axes,
        "inputs": inputs,
        "outputs": outputs,
        "tolerance": workload.tolerance.model_dump(mode="json"),
    }


def plan_of(definition: Definition, workloads: Sequence[Workload]) -> dict[str, Any]:
    """The reference and all calls: `/work/plan.json` of `analyze` and `verifier`."""
    return {
        "reference": definition.reference,
        "custom_inputs_entrypoint": (
            definition.custom_inputs_entrypoint
            if any(isinstance(s, CustomInput) for w in workloads for s in w.inputs.values())
            else None
        ),
        "calls": [call_of(definition, workload) for workload in workloads],
    }
