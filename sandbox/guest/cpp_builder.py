"""C++ with OpenMP and SIMD behind a C ABI, destination passing; needs no torch.

`extern "C" int run(inputs…, outputs…, axes…)`: tensors as pointers in the definition's order,
Python scalars by value (double, or int64_t for integers and booleans), then every axis of the
definition in its order as int64_t. 0 is success.
"""

from __future__ import annotations

import ctypes
import re
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from sandbox.guest.builder import BuildError, Function

FLAGS = ("-std=c++17", "-O3", "-march=native", "-ffast-math", "-fopenmp", "-shared", "-fPIC")
_C_FLAGS = ("-std=gnu17", *FLAGS[1:])
_TIMEOUT_S = 50
_FIRST_ERROR = re.compile(r"^(\S+?:\d+:\d+: (?:fatal )?error: .*)$", re.MULTILINE)


class CandidateError(Exception):
    """The kernel itself reported that it cannot do this call."""


class CppBuilder:
    def build(self, plan: dict[str, Any], sources: Path, artifact: Path) -> str:
        units = [p for p in plan["sources"] if p.endswith((".cpp", ".cc", ".cxx", ".c"))]
        only_c = all(unit.endswith(".c") for unit in units)
        command = ["gcc" if only_c else "g++", *(_C_FLAGS if only_c else FLAGS)]
        command += ["-fdiagnostics-color=never", "-o", str(artifact.resolve()), *units]
        try:
            done = subprocess.run(
                command, cwd=sources, capture_output=True, text=True, timeout=_TIMEOUT_S
            )
        except subprocess.TimeoutExpired:
            raise BuildError(f"the compiler did not end within {_TIMEOUT_S} s") from None
        report = done.stdout + done.stderr
        if done.returncode:
            first = _FIRST_ERROR.search(report)
            lines = [first.group(1)] if first else report.strip().splitlines()[-3:]
            raise BuildError("\n".join(lines) or f"{command[0]} ended with {done.returncode}")
        self._check_entry(plan, artifact)
        return report

    def _check_entry(self, plan: dict[str, Any], artifact: Path) -> None:
        listed = subprocess.run(
            ["nm", "-D", "--defined-only", str(artifact)], capture_output=True, text=True
        )
        names = [line.split()[-1] for line in listed.stdout.splitlines() if " T " in line]
        if plan["entry_symbol"] not in names:
            raise BuildError(
                f'{plan["entry_path"]}: no extern "C" function {plan["entry_symbol"]}; '
                f"defined: {', '.join(names[:8]) or 'none'}"
            )

    def prepare(self, plan: dict[str, Any], artifact: Path) -> None:
        """Nothing is the same for all sessions."""

    def load(self, plan: dict[str, Any], artifact: Path) -> Function:
        function = getattr(ctypes.CDLL(str(artifact)), plan["entry_symbol"])
        function.restype = ctypes.c_int
        checked: Function = function
        return checked

    def bind(
        self, plan: dict[str, Any], function: Function, call: dict[str, Any], tensors: Sequence[Any]
    ) -> Callable[[], None]:
        specs = [*call["inputs"], *call["outputs"]]
        arguments: list[Any] = [
            _argument(spec, place) for spec, place in zip(specs, tensors, strict=True)
        ]
        arguments += [ctypes.c_int64(size) for size in call["axes"].values()]

        def invoke() -> None:
            code: Any = function(*arguments)
            if code:
                raise CandidateError(f"{plan['entry_symbol']} returned {code}")

        return invoke


def _argument(spec: dict[str, Any], place: Any) -> Any:
    if spec["shape"] is not None:
        return ctypes.c_void_p(place)
    if spec["dtype"].startswith(("float", "bfloat")):
        return ctypes.c_double(place)
    return ctypes.c_int64(int(place))
