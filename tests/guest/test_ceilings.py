from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from problems.hardware import Peaks
from sandbox.guest.ceilings import ceilings_of, hardware_name, measure_ceilings


def samples(**more: Any) -> dict[str, Any]:
    return {
        "copy_plain_bytes_per_s": [1e10, 2e10],
        "copy_past_caches_bytes_per_s": [1e10, 3e10],
        "read_bytes_per_s": [2e10, 2.5e10],
        "float32_operations_per_s": [1e11, 2e11],
        "launch_us": [1.0, 1.5, *[2.0] * 9, *[9000.0] * 9],
        "vector_bytes": 64,
        "threads": 2,
        "level2_cache_bytes": 1 << 21,
        "level3_cache_bytes": 1 << 25,
    } | more


def test_the_best_sample_is_the_ceiling() -> None:
    found = ceilings_of(samples(), "a CPU")
    assert found["bytes_per_s"] == 3e10
    assert found["read_bytes_per_s"] == 2.5e10
    assert found["vector_operations_per_s"] == 2e11
    assert found["launch_overhead_us"] == 1.0
    assert found["cache_bytes"] == 1 << 25
    assert (found["hardware_name"], found["cores"]) == ("a CPU", 2)
    assert found["simd"] == ["512 bits"]


def test_without_a_matrix_unit_products_run_at_the_vector_rate() -> None:
    rates = ceilings_of(samples(), "a CPU")["matrix_operations_per_s"]
    assert set(rates.values()) == {2e11}


def test_the_fastest_unit_of_a_type_counts() -> None:
    measured = samples(
        bfloat16_avx512_bf16_operations_per_s=[1e11, 4e11],
        bfloat16_amx_operations_per_s=[3e12],
        int8_amx_operations_per_s=[6e12],
    )
    found = ceilings_of(measured, "a CPU")
    assert found["matrix_operations_per_s"] == {
        "float32": 2e11,
        "bfloat16": 3e12,
        "float16": 2e11,
        "int8": 6e12,
        "float8_e4m3fn": 3e12,
        "float8_e5m2": 3e12,
    }
    assert found["simd"] == ["512 bits", "amx", "avx512_bf16"]


def test_no_third_cache_level() -> None:
    assert ceilings_of(samples(level3_cache_bytes=0), "a CPU")["cache_bytes"] == 1 << 21


def test_the_name_of_the_processor(tmp_path: Path) -> None:
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text("processor\t: 0\nmodel name\t: Some CPU @ 2.0GHz\n")
    assert hardware_name(cpuinfo) == "Some CPU @ 2.0GHz"
    cpuinfo.write_text("processor\t: 0\nCPU implementer\t: 0x41\n")
    assert hardware_name(cpuinfo).endswith(" CPU")


@pytest.mark.sandbox
@pytest.mark.slow
def test_this_machine_is_between_a_watch_and_a_rack(tmp_path: Path) -> None:
    threads = min(2, len(os.sched_getaffinity(0)))
    found = measure_ceilings(tmp_path, threads)
    peaks = Peaks(
        bytes_per_s=found["bytes_per_s"],
        read_bytes_per_s=found["read_bytes_per_s"],
        vector_operations_per_s=found["vector_operations_per_s"],
        matrix_operations_per_s=found["matrix_operations_per_s"],
    )
    assert 1e9 < peaks.bytes_per_s < 1e12
    assert 1e9 < (peaks.read_bytes_per_s or 0) < 1e12
    # Two 512-bit units at 6 GHz are the most that any core has.
    assert 1e9 < peaks.vector_operations_per_s < threads * 2 * 32 * 6e9
    assert all(rate >= peaks.vector_operations_per_s * 0.999 for rate in
               peaks.matrix_operations_per_s.values())  # fmt: skip
    assert 0.01 < found["launch_overhead_us"] < 1e5
    assert found["cores"] == threads
