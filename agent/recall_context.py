"""Where a run is, as the memory's conditions see it."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from pathlib import Path

from agent.attempt import RunState
from agent.diagnosis import workload_class
from agent.ladder import first_rung
from memory.lesson import Context
from problems.hardware import Hardware
from problems.problem import Problem, Target
from problems.score import geometric_mean
from problems.speed_of_light import Bound, WorkloadClass

_SIMD = {"avx512f": "avx512", "avx2": "avx2", "asimd": "neon"}
"""From a flag of /proc/cpuinfo to the architecture's name, widest first."""


def context_of(state: RunState, architecture: str) -> Context:
    """
    Raises:
        ConfigError: the target has no ladder yet.
    """
    assert state.hardware is not None
    return _context(state.problem, state.target, state.hardware, state.bounds, architecture)


def _context(
    problem: Problem,
    target: Target,
    hardware: Hardware,
    bounds: Sequence[Bound],
    architecture: str,
) -> Context:
    intensities = [max(bound.arithmetic_intensity, 1e-9) for bound in bounds]
    return Context(
        target=target,
        architecture=architecture,
        hardware=hardware.name,
        family=problem.family or problem.definition.op_type or problem.definition.name,
        workload_class=workload_class(bounds) or WorkloadClass.MEMORY_BOUND,
        dtypes=tuple(dict.fromkeys(spec.dtype for spec in problem.definition.inputs.values())),
        arithmetic_intensity=geometric_mean(intensities),
        compulsory_bytes=round(geometric_mean([bound.compulsory_bytes for bound in bounds])),
        rung=first_rung(target).language,
    )


def question_of(problem: Problem) -> str:
    words = [problem.name, problem.family or "", problem.definition.description or ""]
    return " ".join(word for word in words if word)


def cpu_architecture(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """The widest SIMD instruction set, or the machine's name."""
    try:
        words = set(cpuinfo.read_text().split())
    except OSError:
        words = set()
    return next((name for flag, name in _SIMD.items() if flag in words), platform.machine())
