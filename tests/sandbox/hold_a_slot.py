"""A host process that holds two slots, one with a job, until it is killed.

Run as a program: `python -m tests.sandbox.hold_a_slot FOLDER`; prints one line of JSON.
"""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path

from sandbox.blob_store import BlobStore
from sandbox.bubblewrap_sandbox import BubblewrapSandbox
from sandbox.sandbox import Limits, Warmth

PROGRAMS = Path(__file__).with_name("programs")


def main() -> None:
    folder = Path(sys.argv[1])
    with BubblewrapSandbox(BlobStore(folder), folder / "state", programs=PROGRAMS) as sandbox:
        slots = [sandbox.prepare(Warmth.PLAIN, Limits(wall_s=60)) for _ in range(2)]
        sandbox.start(slots[0], {}, ["programs.attack", "stubborn"])
        sys.stdout.write(json.dumps([slot.id for slot in slots]) + "\n")
        sys.stdout.flush()
        signal.pause()


if __name__ == "__main__":
    main()
