from __future__ import annotations

from typing import Any

from memory.lesson import Context, Evidence


def context(**changes: Any) -> Context:
    fields: dict[str, Any] = {
        "target": "cpu",
        "architecture": "avx512",
        "hardware": "a CPU",
        "family": "normalisation",
        "workload_class": "memory-bound",
        "dtypes": ("float32",),
        "arithmetic_intensity": 0.5,
        "compulsory_bytes": 1 << 24,
        "rung": "cpp",
        "toolchain": {"g++": "12.2"},
    }
    return Context.model_validate(fields | changes)


def trial(name: str = "t", **changes: Any) -> Evidence:
    """Faster than the baseline by 31 % in six sessions, unless changed."""
    fields: dict[str, Any] = {
        "id": name,
        "run": "run-1",
        "problem": "rmsnorm",
        "technique": "row_normalisation:vector_width=16",
        "title": "row normalisation with vector width 16",
        "mechanism": "reads each row once",
        "action": "keep a row in registers",
        "context": context(),
        "solution": "0" * 64,
        "compared_with": "baseline",
        "outcome": "faster",
        "log_speedup": 0.27,
        "log_low": 0.25,
        "log_high": 0.29,
        "sessions": 6,
        "cost_s": 2.0,
        "unix_s": 1_000.0,
    }
    return Evidence.model_validate(fields | changes)


def slower(name: str, **changes: Any) -> Evidence:
    measured = {"outcome": "slower", "log_speedup": -0.2, "log_low": -0.25, "log_high": -0.15}
    return trial(name, **(measured | changes))


def failed(name: str, outcome: str = "compile_error", **changes: Any) -> Evidence:
    nothing = {"outcome": outcome, "log_speedup": None, "log_low": None, "log_high": None}
    return trial(name, **(nothing | {"sessions": 0} | changes))
