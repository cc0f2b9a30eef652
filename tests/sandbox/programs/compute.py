"""What honest programs need: torch with threads, a compiler, a library that was just compiled."""

from __future__ import annotations

import ctypes
import socket
import subprocess
from pathlib import Path

SOURCE = """
#include <omp.h>
extern "C" int threads() {
  int count = 0;
  #pragma omp parallel reduction(+ : count)
  count += 1;
  return count;
}
"""


def main(argv: list[str], links: list[socket.socket]) -> int:
    import torch

    x = torch.ones(512, 512)
    assert float((x @ x).sum()) == 512.0**3
    Path("/tmp/a.cpp").write_text(SOURCE)
    flags = ["-O1", "-fopenmp", "-shared", "-fPIC"]
    subprocess.run(["g++", *flags, "-o", "/out/a.so", "/tmp/a.cpp"], check=True)
    return int(ctypes.CDLL("/out/a.so").threads())
