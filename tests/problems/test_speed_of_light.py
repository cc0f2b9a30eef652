from __future__ import annotations

from typing import Any

import pytest

from problems.definition import DType
from problems.hardware import CPU_GUARD_MARGIN, GPUS, Hardware, Peaks, cpu_hardware
from problems.speed_of_light import (
    Analysis,
    WorkloadClass,
    bound_of,
    duration,
    explain,
    quantity,
)

H200 = GPUS["NVIDIA H200"]
CEILINGS = Peaks(
    bytes_per_s=2e10,
    read_bytes_per_s=3e10,
    vector_operations_per_s=2e11,
    matrix_operations_per_s={DType.FLOAT32: 2e11, DType.BFLOAT16: 2e12},
)


def cpu(launch_overhead_us: float = 40.0) -> Hardware:
    return cpu_hardware(
        CEILINGS, name="a CPU", cores=2, cache_bytes=1 << 25, launch_overhead_us=launch_overhead_us
    )


def analysis(**changes: Any) -> Analysis:
    fields: dict[str, Any] = {
        "workload": "w",
        "nodes": (),
        "outputs": (),
        "operations": 10_000_000,
        "matrix_operations": 0,
        "flop_counter_operations": 0,
        "compulsory_bytes": 8_000_000,
        "unfused_bytes": 12_000_000,
        "compute_dtype": "float32",
    }
    return Analysis.model_validate(fields | changes)


def test_a_cpu_s_guard_lies_above_every_ceiling() -> None:
    hardware = cpu()
    assert hardware.measured == CEILINGS
    assert hardware.datasheet.bytes_per_s == 3e10 * CPU_GUARD_MARGIN
    assert hardware.datasheet.operations_per_s(DType.BFLOAT16) == 2e12 * CPU_GUARD_MARGIN
    assert hardware.datasheet.vector_operations_per_s == 2e11 * CPU_GUARD_MARGIN


def test_the_bound_is_the_slowest_part() -> None:
    by_memory = bound_of(analysis(), cpu())
    assert by_memory.measured_ms == pytest.approx(8e6 / 2e10 * 1e3)
    assert by_memory.datasheet_ms == pytest.approx(8e6 / (3e10 * CPU_GUARD_MARGIN) * 1e3)
    assert by_memory.arithmetic_intensity == pytest.approx(1.25)
    products = analysis(
        operations=2_100_000_000, matrix_operations=2_000_000_000, compute_dtype="bfloat16"
    )
    assert bound_of(products, cpu()).measured_ms == pytest.approx(1.0)
    vectors = products.model_copy(update={"operations": 2_500_000_000})
    assert bound_of(vectors, cpu()).measured_ms == pytest.approx(5e8 / 2e11 * 1e3)


@pytest.mark.parametrize(
    ("changes", "wanted"),
    [
        ({}, WorkloadClass.MEMORY_BOUND),
        ({"unfused_bytes": 16_000_000}, WorkloadClass.CHAIN),
        ({"operations": 200_000_000}, WorkloadClass.COMPUTE_BOUND),
        ({"compulsory_bytes": 700_000, "operations": 1}, WorkloadClass.SMALL_SHAPE),
    ],
)
def test_classes_on_a_cpu(changes: dict[str, Any], wanted: WorkloadClass) -> None:
    bound = bound_of(analysis(**changes), cpu())
    assert bound.workload_class is wanted
    assert bound.reason
    assert not bound.reason.endswith(".")


def test_a_gpu_s_small_shapes_are_four_launches_long() -> None:
    small = analysis(compulsory_bytes=int(4.8e12 * 13e-6), operations=1)
    large = analysis(compulsory_bytes=int(4.8e12 * 14e-6), unfused_bytes=1, operations=1)
    assert bound_of(small, H200).workload_class is WorkloadClass.SMALL_SHAPE
    assert bound_of(large, H200).workload_class is WorkloadClass.MEMORY_BOUND
    assert bound_of(small, H200).measured_ms is None


def test_the_explanation_names_every_part() -> None:
    product = analysis(
        operations=1_010_000_000, matrix_operations=1_000_000_000, compute_dtype="bfloat16"
    )
    text = explain(bound_of(product, cpu()), cpu())
    assert text == (
        "Moving 8 MB (every input and output once) at 20 GB/s takes 400 µs, 1 GFLOP of bfloat16 "
        "matrix products at 2 TFLOP/s 500 µs, 10 MFLOP of other arithmetic at 200 GFLOP/s 50 µs: "
        "the longest of them, 500 µs, is the bound (measured here). It is a compute-bound "
        "workload: arithmetic takes 500 µs, memory 400 µs at least."
    )
    assert "NVIDIA H200 SXM datasheet" in explain(bound_of(product, H200), H200)


def test_quantities_and_durations() -> None:
    assert [quantity(v) for v in (5, 1_500, 999_999, 2e12)] == ["5 ", "1.5 k", "1 M", "2 T"]
    assert [duration(s) for s in (2.0, 0.0005, 0.9999, 3e-9)] == [
        "2 s", "500 µs", "1 s", "3 ns",
    ]  # fmt: skip
