"""What a device can do at most: datasheet peaks of GPUs, and the measured ceilings of a machine."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from problems.definition import DType
from problems.problem import Target
from problems.record import Record

Rate = Annotated[float, Field(gt=0, allow_inf_nan=False)]

CPU_GUARD_MARGIN = 3.0
"""A CPU has no datasheet that holds in a virtual machine; the guard's peaks are the measured
ceilings times this. The best copy of a run lay between 15 and 38 GB/s in ten runs on a shared
machine (2 virtual cores, 2026-12-01): a smaller margin would reject honest kernels that meet a
quieter moment than the ceilings did."""


class Peaks(Record):
    """Operations count a multiply-add as two; sparsity does not count."""

    bytes_per_s: Rate
    """Read plus written, of a copy."""
    read_bytes_per_s: Rate | None = None
    """Of reading alone; None where it was not measured."""
    vector_operations_per_s: Rate
    """float32, outside matrix units."""
    matrix_operations_per_s: dict[DType, Rate]
    """By operand type; a type that is not listed runs at the float32 vector rate."""

    def operations_per_s(self, dtype: DType) -> float:
        return self.matrix_operations_per_s.get(dtype, self.vector_operations_per_s)


class Hardware(Record):
    """One device and how fast it can be."""

    name: str
    target: Target
    cores: int
    """Cores of a CPU that a kernel may use, streaming multiprocessors of a GPU."""
    cache_bytes: int
    """Last level that a core or SM group shares."""
    datasheet: Peaks
    """What no kernel can pass."""
    datasheet_source: str
    measured: Peaks | None = None
    launch_overhead_us: float
    """Of an empty kernel; on a CPU, of a parallel region whose threads sleep."""


GPUS = {
    "NVIDIA H200": Hardware(
        name="NVIDIA H200",
        target=Target.CUDA,
        cores=132,
        cache_bytes=50 << 20,
        datasheet=Peaks(
            bytes_per_s=4.8e12,
            vector_operations_per_s=67e12,
            matrix_operations_per_s={
                DType.FLOAT32: 494e12,  # as TF32
                DType.BFLOAT16: 989e12,
                DType.FLOAT16: 989e12,
                DType.FLOAT8_E4M3FN: 1979e12,
                DType.FLOAT8_E5M2: 1979e12,
                DType.INT8: 1979e12,
            },
        ),
        datasheet_source="NVIDIA H200 SXM datasheet, dense rates",
        launch_overhead_us=3.3,
    ),
}
"""By the name that NVML gives."""


def cpu_hardware(
    ceilings: Peaks, *, name: str, cores: int, cache_bytes: int, launch_overhead_us: float
) -> Hardware:
    """A CPU by its measured ceilings.

    Its guard is faster than any of them by `CPU_GUARD_MARGIN`. Main memory is the right bandwidth
    also for what fits into a cache: every call starts with its buffers evicted.
    """
    fastest = max(ceilings.bytes_per_s, ceilings.read_bytes_per_s or 0)
    return Hardware(
        name=name,
        target=Target.CPU,
        cores=cores,
        cache_bytes=cache_bytes,
        datasheet=Peaks(
            bytes_per_s=fastest * CPU_GUARD_MARGIN,
            vector_operations_per_s=ceilings.vector_operations_per_s * CPU_GUARD_MARGIN,
            matrix_operations_per_s={
                dtype: rate * CPU_GUARD_MARGIN
                for dtype, rate in ceilings.matrix_operations_per_s.items()
            },
        ),
        datasheet_source=f"{CPU_GUARD_MARGIN:g} times the measured ceilings",
        measured=ceilings,
        launch_overhead_us=launch_overhead_us,
    )
