"""Measure this machine's ceilings with `ceilings.cpp`; writes `/out/ceilings.json`.

Each figure is the best of its samples, since what disturbs a sample only makes it slower (on a busy
machine most launches took milliseconds instead of 30 µs). Types that convert to another one without
loss have its rate.
"""

from __future__ import annotations

import json
import os
import platform
import socket
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_SOURCE = Path(__file__).with_name("ceilings.cpp")
_MATRIX_TYPES = ("bfloat16", "float16", "int8")
_TIMEOUT_S = 60
_WIDER = {"float8_e4m3fn": "bfloat16", "float8_e5m2": "bfloat16"}


def main(argv: list[str], links: list[socket.socket]) -> int:
    report = measure_ceilings(Path("/tmp"), _threads())
    Path("/out/ceilings.json").write_text(json.dumps(report))
    return 0


def _threads() -> int:
    return int(os.environ.get("OMP_NUM_THREADS") or len(os.sched_getaffinity(0)))


def measure_ceilings(folder: Path, threads: int) -> dict[str, Any]:
    """Compiles in `folder`; bytes and operations per second.

    Raises:
        subprocess.CalledProcessError: no compiler, or the program failed.
    """
    program = folder / "ceilings"
    flags = ["-O3", "-march=native", "-fopenmp"]
    subprocess.run(
        ["g++", *flags, "-o", str(program), str(_SOURCE)], check=True, timeout=_TIMEOUT_S
    )
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}
    printed = subprocess.run(
        [str(program)], check=True, stdout=subprocess.PIPE, env=environment, timeout=_TIMEOUT_S
    ).stdout
    return ceilings_of(json.loads(printed), hardware_name())


def ceilings_of(samples: Mapping[str, Any], name: str) -> dict[str, Any]:
    """What the program printed, ascending samples by ceiling, as `/out/ceilings.json`."""
    vector = samples["float32_operations_per_s"][-1]
    copies = samples["copy_plain_bytes_per_s"][-1], samples["copy_past_caches_bytes_per_s"][-1]
    return {
        "bytes_per_s": max(copies),
        "read_bytes_per_s": samples["read_bytes_per_s"][-1],
        "vector_operations_per_s": vector,
        "matrix_operations_per_s": _matrix_rates(samples, vector),
        "launch_overhead_us": samples["launch_us"][0],
        "cache_bytes": samples["level3_cache_bytes"] or samples["level2_cache_bytes"],
        "hardware_name": name,
        "cores": samples["threads"],
        "simd": _units(samples),
        "samples": {k: v for k, v in samples.items() if isinstance(v, list)},
    }


def _matrix_rates(samples: Mapping[str, Any], vector: float) -> dict[str, float]:
    rates = {"float32": vector}
    for dtype in _MATRIX_TYPES:
        measured = [
            values[-1]
            for key, values in samples.items()
            if key.startswith(f"{dtype}_") and key.endswith("_operations_per_s")
        ]
        rates[dtype] = max([vector, *measured])
    return rates | {narrow: rates[wide] for narrow, wide in _WIDER.items()}


def _units(samples: Mapping[str, Any]) -> list[str]:
    """The vector width, then the units that were measured, such as `amx`."""
    named = {
        key.removesuffix("_operations_per_s").partition("_")[2]
        for key in samples
        if key.startswith(tuple(f"{dtype}_" for dtype in _MATRIX_TYPES))
    }
    return [f"{8 * samples['vector_bytes']} bits", *sorted(named)]


def hardware_name(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    for line in cpuinfo.read_text().splitlines():
        key, _, value = line.partition(":")
        if key.strip() == "model name":
            return value.strip()
    return f"{platform.machine()} CPU"
