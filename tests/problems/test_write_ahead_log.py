from __future__ import annotations

import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest

from problems.write_ahead_log import use_write_ahead_log


def test_it_waits_for_who_has_the_file_locked(tmp_path: Path) -> None:
    path = tmp_path / "new.db"
    holder = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    holder.execute("CREATE TABLE t (x)")
    holder.execute("BEGIN EXCLUSIVE")
    released = threading.Timer(0.05, holder.execute, ["COMMIT"])
    with closing(holder), closing(sqlite3.connect(path, timeout=0)) as connection:
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            use_write_ahead_log(connection, timeout_s=0)
        released.start()
        use_write_ahead_log(connection, timeout_s=20)
        released.join()
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert connection.execute("PRAGMA synchronous").fetchone() == (2,)
