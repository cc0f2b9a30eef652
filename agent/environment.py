"""What every trace says about the machine and the software that it was made with."""

from __future__ import annotations

import os
import subprocess
from importlib import metadata

from agent.recall_context import cpu_architecture
from problems.evaluation import Environment
from sandbox.guest.ceilings import hardware_name

_TIMEOUT_S = 60


def environment() -> Environment:
    """Nothing heavy is imported for it."""
    libs = {name: metadata.version(name) for name in ("kagent", "torch")}
    compiler = compiler_version()
    if compiler is not None:
        libs["g++"] = compiler
    return Environment(hardware=machine_name(), libs=libs)


def machine_name() -> str:
    """As the vendor names it, with cores and SIMD."""
    return f"{hardware_name()} ({cores()} cores, {cpu_architecture()})"


def cores() -> int:
    """That this process may use."""
    return len(os.sched_getaffinity(0))


def compiler_version(program: str = "g++") -> str | None:
    """None where it does not run."""
    try:
        ended = subprocess.run(
            [program, "-dumpfullversion"], capture_output=True, text=True, timeout=_TIMEOUT_S
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return ended.stdout.strip() or None
