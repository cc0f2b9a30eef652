"""Attacks on the sandbox of a host process that is not root; prints what happened as JSON."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path

from sandbox.blob_store import BlobStore
from sandbox.bubblewrap_sandbox import BubblewrapSandbox
from sandbox.sandbox import Limits, Warmth

PROGRAMS = Path(__file__).with_name("programs")
LIMITS = Limits(wall_s=20, memory_bytes=256 << 20, pids=64)


def main() -> None:
    found: dict[str, object] = {"uid": os.getuid()}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with BubblewrapSandbox(BlobStore(folder), folder / "state", programs=PROGRAMS) as sandbox:
            found["notes"] = sandbox.isolation_notes
            for word in ("fork", "memory", "daemon", "tricks"):
                slot = sandbox.prepare(Warmth.PLAIN, LIMITS)
                running = sandbox.start(slot, {}, ["programs.attack", word])
                end = running.wait(20)
                assert end is not None
                found[word] = [end.reason, end.code, end.log.splitlines()[-1:]]
                if word == "fork":
                    found["processes"] = int(running.read("count", 10))
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
