"""A whole run on fakes as a process of its own: `python -m tests.agent.fake_process FOLDER`.

Prints each event when it is durable, so that whoever reads it can kill it there.
"""

from __future__ import annotations

import sys
from pathlib import Path

from agent.attempt import RunState
from tests.agent.fake_run import FakeRun


class Announced(list[RunState]):
    """Tells the reader of stdout how far the run is."""

    def append(self, state: RunState) -> None:
        sys.stdout.write(f"{state.phase} {len(state.attempts)}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    run = FakeRun(Path(sys.argv[1]))
    run.seen = Announced()
    run.process()
