"""Render a row program for a graph, compile it, and compare it with the reference in float64."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from problems.catalog import load_problem
from problems.definition import Definition
from problems.problem import Target
from problems.speed_of_light import Analysis
from sandbox.guest.analyze import analysis_report
from sandbox.guest.inputs import dtype_of, load_reference, make_inputs
from sandbox.guest.oracle import expected_outputs
from scheduler.plan import plan_of
from skills.generate import RowProgram, match_row_program
from tests.skills.compiled_solution import ROUNDING

GUARD_BYTES = 256
POISON = 0xA5


def library_program(name: str) -> RowProgram:
    problem = load_problem(name)
    report = analysis_report(plan_of(problem.definition, problem.targets[Target.CPU].public))
    analyses = [Analysis.model_validate(analysis) for analysis in report["analyses"]]
    return program_of(problem.definition, analyses)


def program_of(definition: Definition, analyses: Sequence[Analysis]) -> RowProgram:
    instance = match_row_program(definition, analyses)
    assert isinstance(instance, RowProgram), instance
    return instance


def inputs_for(definition: Definition, sizes: dict[str, int], seed: int) -> list[Any]:
    """From the definition's own input function where it has one, else standard normal."""
    axes = definition.resolve_axes(sizes)
    custom = "def get_inputs" in definition.reference
    specs = [
        {
            "name": name,
            "shape": definition.shape_of(name, axes),
            "dtype": spec.dtype.value,
            "kind": "custom" if custom else "random",
        }
        for name, spec in definition.inputs.items()
    ]
    call = {"axes": axes, "inputs": specs}
    reference = load_reference(definition.reference)
    return make_inputs(call, reference, "get_inputs", seed, "cpu")


def before_a_guard_page(tensor: torch.Tensor) -> tuple[torch.Tensor, mmap.mmap]:
    """A copy whose last byte is the last one that may be read."""
    size = tensor.numel() * tensor.element_size()
    pages = (size + mmap.PAGESIZE - 1) // mmap.PAGESIZE
    memory = mmap.mmap(-1, (pages + 1) * mmap.PAGESIZE)
    whole = torch.frombuffer(memory, dtype=torch.uint8)
    guard = whole.data_ptr() + pages * mmap.PAGESIZE
    assert ctypes.CDLL(None).mprotect(ctypes.c_void_p(guard), mmap.PAGESIZE, 0) == 0
    place = whole[pages * mmap.PAGESIZE - size : pages * mmap.PAGESIZE]
    copy = place.view(tensor.dtype).view(tensor.shape)
    return copy.copy_(tensor), memory


def call_all(
    function: Any, definition: Definition, inputs: Sequence[torch.Tensor], sizes: dict[str, int]
) -> list[torch.Tensor]:
    """All outputs, each in poisoned memory between guards."""
    axes = definition.resolve_axes(sizes)
    spaces, outputs = [], []
    for name, spec in definition.outputs.items():
        shape = definition.shape_of(name, axes) or ()
        dtype = dtype_of(spec.dtype.value)
        size = torch.Size(shape).numel() * dtype.itemsize
        space = torch.full((size + 2 * GUARD_BYTES + 64,), POISON, dtype=torch.uint8)
        first = -(space.data_ptr() + GUARD_BYTES) % 64 + GUARD_BYTES
        outputs.append(space[first : first + size].view(dtype).view(shape))
        spaces.append((space, first, first + size))
    pointers = [ctypes.c_void_p(t.data_ptr()) for t in (*inputs, *outputs)]
    assert function(*pointers, *(ctypes.c_int64(size) for size in axes.values())) == 0, sizes
    for space, first, end in spaces:
        assert (space[:first] == POISON).all(), "written in front of an output"
        assert (space[end:] == POISON).all(), "written behind an output"
    return outputs


def error_of(found: torch.Tensor, expected: torch.Tensor) -> float:
    """In roundings of the output's type, of |error| / (|expected| + the typical size)."""
    if not found.dtype.is_floating_point:
        return float((found != expected).sum())
    if expected.dtype is not torch.float64:
        expected = expected.double()
    value = found.double()
    assert value.isfinite().all()
    size = expected.abs() + expected.abs().mean() + 1e-3
    rounding = 2.0**-4 if found.dtype is torch.float8_e4m3fn else ROUNDING[found.dtype]
    return ((value - expected).abs() / size).max().item() / rounding


def largest_errors(
    function: Any, definition: Definition, sizes: dict[str, int], seed: int = 1
) -> list[float]:
    """Of each output."""
    inputs = inputs_for(definition, sizes, seed)
    guarded = [before_a_guard_page(tensor) for tensor in inputs]
    found = call_all(function, definition, [tensor for tensor, _ in guarded], sizes)
    expected = expected_outputs(load_reference(definition.reference), inputs)
    return [error_of(f, e) for f, e in zip(found, expected, strict=True)]


def written(folder: Path, name: str) -> Path:
    """A folder of its own for one compilation."""
    place = folder / name
    place.mkdir()
    return place
