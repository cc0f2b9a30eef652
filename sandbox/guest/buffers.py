"""Shared memory that a verifier owns and a worker maps: where each tensor of each call lies."""

from __future__ import annotations

import ctypes
import fcntl
import mmap
import os
from collections.abc import Sequence
from typing import Any

ALIGNMENT = 64
GUARD_BYTES = 256
"""Poisoned space in front of and behind every tensor; a write into it is out of bounds."""
POISON = 0xFF
"""NaN in every float format, -1 in integers, no boolean."""
_F_SEAL_FUTURE_WRITE = 0x10

ITEM_BYTES = {
    "float64": 8, "int64": 8, "float32": 4, "int32": 4, "float16": 2, "bfloat16": 2, "int16": 2,
    "int8": 1, "bool": 1, "float8_e4m3fn": 1, "float8_e5m2": 1, "float4_e2m1": 1,
    "float4_e2m1fn_x2": 1,
}  # fmt: skip


def tensor_bytes(spec: dict[str, Any]) -> int:
    """Of an input's or output's declaration in a call; 0 for a Python scalar."""
    if spec["shape"] is None:
        return 0
    count = 1
    for size in spec["shape"]:
        count *= size
    return count * ITEM_BYTES[spec["dtype"]]


def layout(specs: Sequence[dict[str, Any]]) -> tuple[list[int], int]:
    """Offsets of tensors within a slot, and the slot's bytes; scalars take no room."""
    offsets, end = [], GUARD_BYTES
    for spec in specs:
        offsets.append(end)
        size = tensor_bytes(spec)
        end += -(-size // ALIGNMENT) * ALIGNMENT + (GUARD_BYTES if size else 0)
    return offsets, end


class SharedBuffer:
    """An anonymous shared file, mapped whole; its pages are there before anything is timed."""

    def __init__(self, fd: int, size: int, writable: bool) -> None:
        self.fd = fd
        self.size = size
        access = mmap.PROT_READ | (mmap.PROT_WRITE if writable else 0)
        self.map = mmap.mmap(fd, size, flags=mmap.MAP_SHARED | mmap.MAP_POPULATE, prot=access)
        self.address = _address_of(self.map, size)

    @classmethod
    def create(cls, size: int, others_may_write: bool) -> SharedBuffer:
        """Where others may not write, the kernel refuses every later writable mapping."""
        fd = os.memfd_create("tensors", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(fd, size)
        buffer = cls(fd, size, writable=True)
        seals = fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK
        if not others_may_write:
            seals |= _F_SEAL_FUTURE_WRITE
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, seals | fcntl.F_SEAL_SEAL)
        return buffer

    def close(self) -> None:
        """The mapping goes when the last view of it goes."""
        os.close(self.fd)


def _address_of(mapped: mmap.mmap, size: int) -> int:
    """Of a mapping that may be read-only, which ctypes' `from_buffer` refuses."""
    view = memoryview(mapped)
    py_buffer = (ctypes.c_void_p * 16)()  # a Py_buffer is 80 bytes; `buf` is its first field
    get, release = ctypes.pythonapi.PyObject_GetBuffer, ctypes.pythonapi.PyBuffer_Release
    get.argtypes = (ctypes.py_object, ctypes.c_void_p, ctypes.c_int)
    release.argtypes = (ctypes.c_void_p,)
    get(view, py_buffer, 0)
    address = py_buffer[0]
    release(py_buffer)
    view.release()
    if address is None or not size:
        raise ValueError("an empty mapping has no address")
    return int(address)
