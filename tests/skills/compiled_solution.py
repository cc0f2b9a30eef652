"""Compile a `cpp` solution as the evaluator does, call it, and compare with a float64 oracle."""

from __future__ import annotations

import ctypes
import subprocess
import types
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from problems.definition import Definition
from problems.solution import Solution
from problems.speed_of_light import Analysis
from problems.workload import RandomInput, Workload
from sandbox.guest.analyze import analysis_report
from sandbox.guest.cpp_builder import FLAGS
from scheduler.plan import plan_of

ROUNDING = {torch.bfloat16: 2.0**-8, torch.float16: 2.0**-10, torch.float32: 2.0**-18}


def make_definition(
    inputs: dict[str, tuple[str, str]], output: tuple[str, str], code: str
) -> Definition:
    """From `{"x": ("M K", "bfloat16")}`; capitals are variable axes."""
    texts = [shape for shape, _ in (*inputs.values(), output)]
    axes = [a for text in texts for a in text.split() if not a.isdigit()]
    body = f"import torch\nimport torch.nn.functional as F\n\n\ndef run({', '.join(inputs)}):\n"
    return Definition.model_validate(
        {
            "name": "tested",
            "axes": {axis: {"type": "var"} for axis in dict.fromkeys(axes)},
            "inputs": {n: {"shape": s.split(), "dtype": d} for n, (s, d) in inputs.items()},
            "outputs": {"out": {"shape": output[0].split(), "dtype": output[1]}},
            "reference": f"{body}    return {code}\n",
        }
    )


def analyses_of(definition: Definition, *sizes: dict[str, int]) -> list[Analysis]:
    inputs = {name: RandomInput(type="random") for name in definition.inputs}
    workloads = [Workload(uuid=str(k), axes=s, inputs=inputs) for k, s in enumerate(sizes)]
    report = analysis_report(plan_of(definition, workloads))
    assert "analyses" in report, report
    return [Analysis.model_validate(analysis) for analysis in report["analyses"]]


def compiled(solution: Solution, folder: Path) -> Any:
    """The entry point, as a ctypes function."""
    source = folder / "kernel.cpp"
    source.write_text(solution.entry_source)
    library = folder / "kernel.so"
    subprocess.run(["g++", *FLAGS, "-Wall", "-Werror", "-o", library, source], check=True)
    return getattr(ctypes.CDLL(str(library)), solution.entry_symbol)


def call(
    function: Any, definition: Definition, inputs: Sequence[torch.Tensor], sizes: dict[str, int]
) -> torch.Tensor:
    """What the kernel makes of the inputs, in an output that held NaN, between guards."""
    axes = definition.resolve_axes(sizes)
    (name, spec), *_ = definition.outputs.items()
    shape = definition.shape_of(name, axes)
    assert shape is not None
    count = int(torch.Size(shape).numel())
    space = torch.full((count + 256,), float("nan"), dtype=getattr(torch, spec.dtype.value))
    out = space[128 : 128 + count]
    pointers = [ctypes.c_void_p(t.data_ptr()) for t in (*inputs, out)]
    code = function(*pointers, *(ctypes.c_int64(size) for size in axes.values()))
    assert code == 0
    assert space[:128].isnan().all(), "written in front of the output"
    assert space[128 + count :].isnan().all(), "written behind the output"
    return out.view(shape)


def largest_error(
    definition: Definition, inputs: Sequence[torch.Tensor], found: torch.Tensor
) -> float:
    """In units of the output type's rounding, of |error| / (|expected| + the typical size)."""
    module = types.ModuleType("reference")
    exec(definition.reference, module.__dict__)
    expected = module.run(*(t.double() for t in inputs))
    assert found.isfinite().all()
    size = expected.abs() + expected.abs().mean() + 1e-3
    error = ((found.double() - expected).abs() / size).max().item()
    return float(error / ROUNDING[found.dtype])


def random_inputs(definition: Definition, sizes: dict[str, int]) -> list[torch.Tensor]:
    axes = definition.resolve_axes(sizes)
    made = []
    for name, spec in definition.inputs.items():
        shape = definition.shape_of(name, axes)
        assert shape is not None
        made.append(torch.randn(shape).to(getattr(torch, spec.dtype.value)))
    return made


def amx_is_there() -> bool:
    flags = Path("/proc/cpuinfo")
    return flags.exists() and "amx_bf16" in flags.read_text()
