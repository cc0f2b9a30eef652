"""From operations and compulsory bytes to the shortest possible time, and the workload's class."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from problems.definition import DType
from problems.hardware import Hardware, Peaks
from problems.record import Record

SMALL_SHAPE_MULTIPLE = 4.0
"""A bound below this many launch overheads makes a workload a small shape: fixed costs rule it."""
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
    """The aten overload, e.g. `aten.mul.Tensor`."""
    inputs: tuple[int, ...]
    """Ids of earlier nodes; the problem's inputs come first, as nodes with op `input:NAME`."""
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
    """Arithmetic operations: two per multiply-add, one per element of a pointwise operator."""
    matrix_operations: Annotated[int, Field(ge=0)]
    """The part of them done by matrix products."""
    flop_counter_operations: Annotated[int, Field(ge=0)]
    """`torch.utils.flop_counter`'s count, the cross-check on `matrix_operations`."""
    compulsory_bytes: Annotated[int, Field(gt=0)]
    """Every input and output once."""
    unfused_bytes: Annotated[int, Field(gt=0)]
    """Every operator's inputs and outputs, as eager execution moves them."""
    compute_dtype: DType
    """Of the matrix products' operands; float32 where there are none."""


class Bound(Record):
    """The speed of light of one workload on one machine; times in milliseconds."""

    workload: str
    operations: int
    compulsory_bytes: int
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
    """max(operations / peak, compulsory bytes / bandwidth), as SOLAR's roofline (SOL guide §6)."""
    vector_operations = analysis.operations - analysis.matrix_operations

    def shortest_ms(peaks: Peaks) -> tuple[float, float]:
        matrix_peak = peaks.operations_per_s(analysis.compute_dtype)
        compute_s = analysis.matrix_operations / matrix_peak
        compute_s += vector_operations / peaks.vector_operations_per_s
        return compute_s * 1e3, analysis.compulsory_bytes / peaks.bytes_per_s * 1e3

    datasheet = shortest_ms(hardware.datasheet)
    measured = shortest_ms(hardware.measured) if hardware.measured else None
    workload_class, reason = _classify(analysis, measured or datasheet, hardware)
    return Bound(
        workload=analysis.workload,
        operations=analysis.operations,
        compulsory_bytes=analysis.compulsory_bytes,
        arithmetic_intensity=analysis.operations / analysis.compulsory_bytes,
        workload_class=workload_class,
        reason=reason,
        datasheet_ms=max(datasheet),
        measured_ms=max(measured) if measured else None,
    )


def _classify(
    analysis: Analysis, times_ms: tuple[float, float], hardware: Hardware
) -> tuple[WorkloadClass, str]:
    compute_ms, memory_ms = times_ms
    bound_ms = max(times_ms)
    overhead_ms = hardware.launch_overhead_us / 1e3
    if bound_ms < SMALL_SHAPE_MULTIPLE * overhead_ms:
        return WorkloadClass.SMALL_SHAPE, (
            f"its bound of {bound_ms * 1e3:.3g} µs is below {SMALL_SHAPE_MULTIPLE:g} times the "
            f"{hardware.launch_overhead_us:.3g} µs that starting any kernel costs"
        )
    if compute_ms > memory_ms:
        return WorkloadClass.COMPUTE_BOUND, (
            f"arithmetic takes at least {compute_ms:.3g} ms, moving the compulsory bytes "
            f"{memory_ms:.3g} ms"
        )
    ratio = analysis.unfused_bytes / analysis.compulsory_bytes
    operators = sum(not node.op.startswith("input:") for node in analysis.nodes)
    if ratio >= CHAIN_BYTES_RATIO:
        return WorkloadClass.CHAIN, (
            f"its {operators} operators move {ratio:.1f} times the compulsory bytes if each "
            f"runs alone: fuse first"
        )
    return WorkloadClass.MEMORY_BOUND, (
        f"moving the compulsory bytes takes at least {memory_ms:.3g} ms, arithmetic "
        f"{compute_ms:.3g} ms"
    )
