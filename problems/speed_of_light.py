"""From operations and compulsory bytes to the shortest possible time, and the workload's class."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from problems.definition import DType
from problems.hardware import Hardware, Peaks
from problems.problem import Target
from problems.record import Record

SMALL_SHAPE_MULTIPLES = {Target.CUDA: 4.0, Target.CPU: 1.0}
"""A bound below this many launch overheads makes a workload a small shape: fixed costs rule it.
Every GPU kernel pays its launch. A CPU kernel may stay on one core, and should where the others
save less than waking them costs: with two cores, from one overhead on."""
CHAIN_BYTES_RATIO = 2.0
"""Unfused over compulsory bytes from which the operators are worth fusing first."""


class WorkloadClass(StrEnum):
    COMPUTE_BOUND = "compute-bound"
    MEMORY_BOUND = "memory-bound"
    CHAIN = "multi-kernel chain"
    SMALL_SHAPE = "small shape"


class OpNode(Record):
    """One operator of the traced reference."""

    id: int
    op: str
    """The aten overload, e.g. `aten.mul.Tensor`; `input:NAME`, `constant`, and `getitem` for one
    of several results. Which ones there are: `sandbox/guest/decompositions.py`."""
    inputs: tuple[int, ...]
    """Ids of earlier nodes; the problem's inputs come first, in their order. A scalar input is a
    node that nothing refers to: its value is an attribute where it is used."""
    attributes: dict[str, str]
    """Non-tensor arguments by name, as Python literals."""
    shape: tuple[int, ...]
    dtype: DType


class Analysis(Record):
    """What tracing the reference on meta tensors found, for one workload."""

    workload: str
    nodes: tuple[OpNode, ...]
    outputs: tuple[int, ...]
    operations: Annotated[int, Field(ge=0)]
    """Two per multiply-add; the rules are in `sandbox/guest/operation_counts.py`."""
    matrix_operations: Annotated[int, Field(ge=0)]
    """The part of them done by matrix products, without what a causal mask leaves out."""
    flop_counter_operations: Annotated[int, Field(ge=0)]
    """`torch.utils.flop_counter`'s count, the cross-check: it equals `matrix_operations` unless a
    mask is causal, or a matrix-vector product is written as one."""
    compulsory_bytes: Annotated[int, Field(gt=0)]
    """Every input that is read and every output once; of an input that is indexed or sliced, the
    elements that are taken."""
    unfused_bytes: Annotated[int, Field(gt=0)]
    """Inputs and outputs of every operator that the reference calls, as eager execution moves
    them; `nodes` are finer."""
    compute_dtype: DType
    """Of the matrix products' operands; float32 where there are none."""


class Bound(Record):
    """The speed of light of one workload on one machine; times in milliseconds."""

    workload: str
    operations: int
    matrix_operations: int
    compute_dtype: DType
    compulsory_bytes: int
    unfused_bytes: int
    arithmetic_intensity: float
    """Operations per compulsory byte."""
    workload_class: WorkloadClass
    reason: str
    """One sentence: why this class."""
    datasheet_ms: float
    """At peaks that no kernel can pass; the guard against implausible times uses this one."""
    measured_ms: float | None
    """At the machine's measured ceilings; None where they were not measured."""


def bound_of(analysis: Analysis, hardware: Hardware) -> Bound:
    """The slowest of matrix products, other arithmetic and compulsory bytes, each at its peak.

    SOLAR's roofline (SOL guide, section 6), with matrix and vector units that work at the same
    time, as they can.
    """
    measured = _shortest_ms(analysis, hardware.measured) if hardware.measured else None
    datasheet = _shortest_ms(analysis, hardware.datasheet)
    workload_class, reason = _classify(analysis, measured or datasheet, hardware)
    return Bound(
        workload=analysis.workload,
        operations=analysis.operations,
        matrix_operations=analysis.matrix_operations,
        compute_dtype=analysis.compute_dtype,
        compulsory_bytes=analysis.compulsory_bytes,
        unfused_bytes=analysis.unfused_bytes,
        arithmetic_intensity=analysis.operations / analysis.compulsory_bytes,
        workload_class=workload_class,
        reason=reason,
        datasheet_ms=max(datasheet),
        measured_ms=max(measured) if measured else None,
    )


def explain(bound: Bound, hardware: Hardware) -> str:
    """How the bound was derived, in two sentences."""
    peaks = hardware.measured or hardware.datasheet
    parts = [
        f"moving {quantity(bound.compulsory_bytes)}B (every input and output once) at "
        f"{quantity(peaks.bytes_per_s)}B/s takes "
        f"{duration(bound.compulsory_bytes / peaks.bytes_per_s)}"
    ]
    if bound.matrix_operations:
        rate = peaks.operations_per_s(bound.compute_dtype)
        parts.append(
            f"{quantity(bound.matrix_operations)}FLOP of {bound.compute_dtype} matrix products "
            f"at {quantity(rate)}FLOP/s {duration(bound.matrix_operations / rate)}"
        )
    vector_operations = bound.operations - bound.matrix_operations
    if vector_operations:
        rate = peaks.vector_operations_per_s
        parts.append(
            f"{quantity(vector_operations)}FLOP of other arithmetic at {quantity(rate)}FLOP/s "
            f"{duration(vector_operations / rate)}"
        )
    source = "measured here" if hardware.measured else hardware.datasheet_source
    shortest_ms = bound.datasheet_ms if bound.measured_ms is None else bound.measured_ms
    text = ", ".join(parts)
    return (
        f"{text[0].upper()}{text[1:]}: the longest of them, {duration(shortest_ms / 1e3)}, is the "
        f"bound ({source}). It is {_ARTICLES[bound.workload_class]} workload: {bound.reason}."
    )


_ARTICLES = {
    WorkloadClass.COMPUTE_BOUND: "a compute-bound",
    WorkloadClass.MEMORY_BOUND: "a memory-bound",
    WorkloadClass.CHAIN: "a multi-kernel chain",
    WorkloadClass.SMALL_SHAPE: "a small-shape",
}


def quantity(value: float) -> str:
    """With a decimal prefix and three digits: `8.39 M`, to be followed by the unit."""
    for factor, prefix in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= factor * 0.9995:
            return f"{value / factor:.3g} {prefix}"
    return f"{value:.3g} "


def duration(seconds: float) -> str:
    for unit_s, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if seconds >= unit_s * 0.9995:
            return f"{seconds / unit_s:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


def _shortest_ms(analysis: Analysis, peaks: Peaks) -> tuple[float, float]:
    """Of the arithmetic, and of moving the compulsory bytes."""
    matrix_s = analysis.matrix_operations / peaks.operations_per_s(analysis.compute_dtype)
    vector_operations = analysis.operations - analysis.matrix_operations
    compute_s = max(matrix_s, vector_operations / peaks.vector_operations_per_s)
    return compute_s * 1e3, analysis.compulsory_bytes / peaks.bytes_per_s * 1e3


def _classify(
    analysis: Analysis, times_ms: tuple[float, float], hardware: Hardware
) -> tuple[WorkloadClass, str]:
    compute_ms, memory_ms = times_ms
    bound_s = max(times_ms) / 1e3
    overhead_s = hardware.launch_overhead_us / 1e6
    multiple = SMALL_SHAPE_MULTIPLES[hardware.target]
    if bound_s < multiple * overhead_s:
        times = f"{multiple:g} times " if multiple != 1 else ""
        cost = "starting any kernel" if hardware.target is Target.CUDA else "waking the other cores"
        return WorkloadClass.SMALL_SHAPE, (
            f"its bound of {duration(bound_s)} is below {times}the {duration(overhead_s)} that "
            f"{cost} takes"
        )
    both = f"arithmetic takes {duration(compute_ms / 1e3)}, memory {duration(memory_ms / 1e3)}"
    if compute_ms > memory_ms:
        return WorkloadClass.COMPUTE_BOUND, f"{both} at least"
    ratio = analysis.unfused_bytes / analysis.compulsory_bytes
    if ratio >= CHAIN_BYTES_RATIO:
        return WorkloadClass.CHAIN, (
            f"its operators one by one move {ratio:.1f} times the compulsory bytes, so that fusing "
            f"them comes first"
        )
    return WorkloadClass.MEMORY_BOUND, (
        f"{both} at least, and its operators one by one move only {ratio:.1f} times the "
        f"compulsory bytes"
    )
