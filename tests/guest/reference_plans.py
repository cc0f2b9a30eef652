"""Plans of one-workload problems, from a reference and the shapes of its inputs and outputs."""

from __future__ import annotations

from typing import Any

PREAMBLE = "import torch\nimport torch.nn.functional as F\n"


def tensor(name: str, shape: list[int] | None, dtype: str = "float32", **more: Any) -> Any:
    return {"name": name, "shape": shape, "dtype": dtype, "kind": "random"} | more


def plan(
    body: str, inputs: list[Any], outputs: list[Any], tolerance: dict[str, Any] | None = None
) -> dict[str, Any]:
    """`body` starts at line 3 of the reference."""
    custom = any(spec["kind"] == "custom" for spec in inputs)
    call = {
        "workload": "w",
        "axes": {},
        "inputs": inputs,
        "outputs": outputs,
        "tolerance": tolerance
        or {"max_atol": 1e-4, "max_rtol": 1e-4, "required_matched_ratio": 0.99},
    }
    return {
        "reference": PREAMBLE + body,
        "custom_inputs_entrypoint": "get_inputs" if custom else None,
        "calls": [call],
    }
