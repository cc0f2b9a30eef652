"""What the verifier does often and torch does slowly: evict caches, compare two outputs."""

from __future__ import annotations

import ctypes
import subprocess
import tempfile
from pathlib import Path

import torch

_FLAGS = ("-O3", "-march=native", "-fopenmp-simd", "-shared", "-fPIC")
_SOURCE = Path(__file__).with_name("verifier_native.cpp")


class _Errors(ctypes.Structure):
    _fields_ = (
        ("largest", ctypes.c_double),
        ("relative", ctypes.c_double),
        ("missed", ctypes.c_size_t),
    )


class VerifierNative:
    """Compiled once per verifier, in about 0.2 s, with strict floating-point rules."""

    def __init__(self) -> None:
        library = Path(tempfile.mkdtemp()) / "verifier_native.so"
        subprocess.run(
            ["g++", *_FLAGS, "-o", str(library), str(_SOURCE)],
            check=True,
            capture_output=True,
        )
        loaded = ctypes.CDLL(str(library))
        self._evict = loaded.evict
        self._evict.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
        self._evict.restype = None
        self._differing = {
            torch.float32: loaded.differing_float32,
            torch.bfloat16: loaded.differing_bfloat16,
        }
        for function in self._differing.values():
            function.argtypes = (
                ctypes.c_void_p,
                ctypes.c_void_p,
                ctypes.c_size_t,
                ctypes.c_float,
                ctypes.c_float,
            )
            function.restype = ctypes.c_size_t

        self._errors = {
            torch.float32: loaded.errors_float32,
            torch.bfloat16: loaded.errors_bfloat16,
        }
        for measure in self._errors.values():
            measure.argtypes = (
                ctypes.c_void_p,
                ctypes.c_void_p,
                ctypes.c_size_t,
                ctypes.c_double,
                ctypes.c_double,
                ctypes.POINTER(_Errors),
            )
            measure.restype = None

    def evict(self, address: int, size: int) -> None:
        """From every cache of every core: flushing is coherent by physical address."""
        self._evict(address, size)

    def agree(
        self, x: torch.Tensor, y: torch.Tensor, atol: float, rtol: float, missing: float
    ) -> bool:
        """Whether |x - y| <= atol + rtol * |y| but for a share of `missing` elements.

        Both are contiguous and of one floating type.
        """
        function = self._differing.get(x.dtype)
        if function is not None:
            count = int(function(x.data_ptr(), y.data_ptr(), x.numel(), atol, rtol))
        else:
            a, b = x.to(torch.float32), y.to(torch.float32)
            near = (a - b).abs_() <= b.abs_().mul_(rtol).add_(atol)
            count = x.numel() - int(near.sum())
        return count <= missing * x.numel()

    def errors(
        self, found: torch.Tensor, expected: torch.Tensor, atol: float, rtol: float
    ) -> tuple[float, float] | None:
        """Largest absolute and relative error where every element matches a finite oracle.

        None where one does not, or the type has no quick way: the caller finds out which.
        """
        measure = self._errors.get(found.dtype)
        if measure is None or not (found.is_contiguous() and expected.is_contiguous()):
            return None
        result = _Errors()
        places = found.data_ptr(), expected.data_ptr()
        measure(*places, found.numel(), atol, rtol, ctypes.byref(result))
        return None if result.missed else (result.largest, result.relative)
