"""The command line's page is generated, and current."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "scripts" / "generate_cli_docs.py"


def test_the_page_is_current() -> None:
    ended = subprocess.run([sys.executable, str(SCRIPT), "--check"], capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
