"""Where things lie under `$KAGENT_HOME`."""

from __future__ import annotations

import difflib
import os
import secrets
import time
from collections.abc import Mapping
from pathlib import Path

from problems.errors import ConfigError, InfrastructureError

DEFAULT = "~/.local/share/kagent"
_NETWORK_FILE_SYSTEMS = ("nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "fuse.sshfs", "afs", "ceph")


class Home:
    """A folder that exists and can be written."""

    def __init__(self, root: Path) -> None:
        self.root = root

    @property
    def runs(self) -> Path:
        return self.root / "runs"

    @property
    def blobs(self) -> Path:
        return self.root / "blobs"

    @property
    def scheduler_journal(self) -> Path:
        return self.root / "scheduler.db"

    @property
    def machine(self) -> Path:
        return self.root / "machine.json"

    @property
    def config(self) -> Path:
        return self.root / "config.toml"

    @property
    def sandbox(self) -> Path:
        return self.root / "sandbox"

    @property
    def logs(self) -> Path:
        return self.root / "logs"

    def run_names(self) -> tuple[str, ...]:
        """Those that have a journal, oldest first."""
        found = [(p.stat().st_mtime, p.parent.name) for p in self.runs.glob("*/journal.db")]
        return tuple(name for _, name in sorted(found))

    def find_run(self, name: str) -> Path:
        """The folder of a run; `last` is the newest one.

        Raises:
            ConfigError: there is no such run.
        """
        names = self.run_names()
        if name == "last" and names:
            return self.runs / names[-1]
        if name in names:
            return self.runs / name
        if not names:
            raise ConfigError(f"unknown run {name!r}: there are no runs in {self.runs}")
        near = difflib.get_close_matches(name, names, n=3, cutoff=0.4) or names[-3:]
        raise ConfigError(f"unknown run {name!r}; near or new: {', '.join(near)}, last")

    def new_run(self, problem: str) -> str:
        """A name that no run has: the problem, the minute and four random digits."""
        minute = time.strftime("%Y%m%d-%H%M")
        return f"{problem}-{minute}-{secrets.token_hex(2)}"


def home_path(environment: Mapping[str, str]) -> Path:
    return Path(environment.get("KAGENT_HOME") or DEFAULT).expanduser().absolute()


def open_home(environment: Mapping[str, str]) -> Home:
    """
    Raises:
        ConfigError: it cannot be made or written, or lies on a network file system.
    """
    root = home_path(environment)
    way_out = "set KAGENT_HOME to a folder on a local disk that you can write"
    try:
        root.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"home {root}: {error.strerror}; {way_out}") from None
    if not os.access(root, os.W_OK | os.X_OK):
        raise ConfigError(f"home {root}: not writable; {way_out}")
    kind = file_system(root)
    if kind in _NETWORK_FILE_SYSTEMS:
        raise ConfigError(f"home {root}: on {kind}, where file locks are not safe; {way_out}")
    return Home(root)


def file_system(path: Path, mounts: Path = Path("/proc/mounts")) -> str:
    """Its type as `/proc/mounts` names it; `unknown` where that cannot be read."""
    try:
        lines = [line.split() for line in mounts.read_text().splitlines()]
    except OSError:
        return "unknown"
    points = {fields[1].replace("\\040", " "): fields[2] for fields in lines if len(fields) > 2}
    resolved = path.resolve()
    above = [str(p) for p in (resolved, *resolved.parents) if str(p) in points]
    return points[above[0]] if above else "unknown"


def write_secret(path: Path, data: bytes) -> None:
    """Readable by its owner only; durable on return.

    Raises:
        InfrastructureError: the disk is full or not writable.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            os.write(file, data)
            os.fsync(file)
        finally:
            os.close(file)
    except OSError as error:
        raise InfrastructureError(f"cannot write {path}: {error.strerror}") from error
