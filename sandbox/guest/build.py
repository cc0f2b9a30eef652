"""The build program: sources under `/work/sources` become one artifact under `/out`.

Reads `/work/plan.json`: language, entry_path, entry_symbol, destination_passing_style, sources
(paths), calls. Writes `/out/report.json` ({"ok", "log", "seconds"}) and `/out/artifact`.
"""

from __future__ import annotations

import json
import os
import socket
import time
import traceback
from pathlib import Path

from sandbox.guest.builder import Builder, BuildError
from sandbox.guest.cpp_builder import CppBuilder
from sandbox.guest.pytorch_builder import PytorchBuilder

BUILDERS: dict[str, Builder] = {"cpp": CppBuilder(), "pytorch": PytorchBuilder()}
_MAX_LOG = 4000


def main(argv: list[str], links: list[socket.socket]) -> int:
    plan = json.loads(Path("/work/plan.json").read_text())
    os.sched_setaffinity(0, range(os.cpu_count() or 1))  # importing torch bound it to one core
    started = time.monotonic()
    try:
        log = BUILDERS[plan["language"]].build(plan, Path("/work/sources"), Path("/out/artifact"))
        ok = True
    except BuildError as error:
        log, ok = str(error), False
    except Exception:  # noqa: BLE001 - a pytorch candidate's own code runs in its build
        log, ok = traceback.format_exc(limit=-4), False
    report = {"ok": ok, "log": log[-_MAX_LOG:], "seconds": time.monotonic() - started}
    Path("/out/report.json").write_text(json.dumps(report))
    return 0
