"""What a device can do at most: datasheet peaks of GPUs, and the measured ceilings of a machine."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from problems.definition import DType
from problems.problem import Target
from problems.record import Record

Rate = Annotated[float, Field(gt=0, allow_inf_nan=False)]

CPU_GUARD_MARGIN = 1.25
"""A CPU has no datasheet that holds in a virtual machine; the guard's peaks are the measured
ceilings times this. The best of five ceiling runs varied by 6 % here (2 cores, 2026-12-01)."""


class Peaks(Record):
    """Operations count a multiply-add as two; sparsity does not count."""

    bytes_per_s: Rate
    """Read plus written."""
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
    """Of an empty kernel, by the clock that scores."""


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
