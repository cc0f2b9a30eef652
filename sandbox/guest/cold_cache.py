"""Cold caches on the CPU target: evict the buffers of a call before it is timed."""

from __future__ import annotations

import ctypes
import subprocess
import tempfile
from pathlib import Path

_SOURCE = Path(__file__).with_name("cold_cache.cpp")


class ColdCache:
    """Compiled once per verifier, in about 60 ms."""

    def __init__(self) -> None:
        library = Path(tempfile.mkdtemp()) / "cold_cache.so"
        subprocess.run(
            ["g++", "-O2", "-march=native", "-shared", "-fPIC", "-o", str(library), str(_SOURCE)],
            check=True,
            capture_output=True,
        )
        self._evict = ctypes.CDLL(str(library)).evict
        self._evict.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
        self._evict.restype = None

    def evict(self, address: int, size: int) -> None:
        self._evict(address, size)
