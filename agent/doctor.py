"""Is this machine ready? One check a line, each with the command that repairs it."""

from __future__ import annotations

import platform
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from enum import StrEnum
from importlib import metadata
from pathlib import Path

from agent.home import file_system, home_path, open_home
from problems.errors import ConfigError, InfrastructureError
from problems.record import Record

LEAST_DISK_BYTES = 2 << 30
_APT = "apt-get install -y"


class Level(StrEnum):
    OK = "ok"
    WARNING = "warning"
    """It works, with less."""
    MISSING = "missing"
    """`kagent optimize` cannot work without it."""


class Check(Record):
    name: str
    level: Level
    detail: str
    repair: str = ""
    """A command, or what to do; empty where nothing is to be done."""


def checks(environment: Mapping[str, str]) -> tuple[Check, ...]:
    found = [_check("Python", Level.OK, platform.python_version())]
    found += [_package("torch", Level.MISSING), _compiler(), _namespaces()]
    found += [_cgroups(), _home(environment), _disk(environment), _sandbox(environment)]
    found += [_package("chromadb", Level.WARNING, "lessons are compared one by one instead")]
    found += [_package("wordllama", Level.WARNING, "lessons are compared by their words only")]
    return tuple(found)


def _package(name: str, absent: Level, without: str = "") -> Check:
    try:
        return _check(name, Level.OK, metadata.version(name))
    except metadata.PackageNotFoundError:
        detail = "not installed" + (f": {without}" if without else "")
        return _check(name, absent, detail, f"{sys.executable} -m pip install {name}")


def _compiler() -> Check:
    path = shutil.which("g++")
    if path is None:
        return _check("g++", Level.MISSING, "not installed", f"{_APT} g++")
    ended = subprocess.run([path, "--version"], capture_output=True, text=True, check=False)
    return _check("g++", Level.OK, ended.stdout.split("\n")[0])


def _namespaces() -> Check:
    limit = Path("/proc/sys/user/max_user_namespaces")
    try:
        allowed = int(limit.read_text())
    except (OSError, ValueError):
        return _check("user namespaces", Level.WARNING, f"{limit} cannot be read")
    if allowed == 0:
        repair = "sysctl -w user.max_user_namespaces=15000"
        return _check("user namespaces", Level.MISSING, "switched off", repair)
    return _check("user namespaces", Level.OK, f"up to {allowed}")


def _cgroups() -> Check:
    from sandbox.cgroup import Cgroups, CgroupUnavailable

    try:
        Cgroups()
    except CgroupUnavailable as error:
        detail = f"not usable ({error}): memory is limited for each process alone"
        return _check("control groups", Level.WARNING, detail, "run as root, or in a systemd scope")
    version = "v2" if Path("/sys/fs/cgroup/cgroup.controllers").exists() else "v1"
    return _check("control groups", Level.OK, version)


def _home(environment: Mapping[str, str]) -> Check:
    try:
        home = open_home(environment)
    except ConfigError as error:
        return _check("home", Level.MISSING, str(error), "export KAGENT_HOME=/a/local/folder")
    return _check("home", Level.OK, f"{home.root} on {file_system(home.root)}")


def _disk(environment: Mapping[str, str]) -> Check:
    root = home_path(environment)
    place = next(p for p in (root, *root.parents) if p.exists())
    free = shutil.disk_usage(place).free
    detail = f"{free / 1e9:.1f} GB free"
    if free < LEAST_DISK_BYTES:
        return _check("disk", Level.WARNING, detail, f"free some space on {place}")
    return _check("disk", Level.OK, detail)


def _sandbox(environment: Mapping[str, str]) -> Check:
    """Starts a slot, as every job does."""
    try:
        home = open_home(environment)
    except ConfigError:
        return _check("bubblewrap", Level.WARNING, "not tried: there is no home")
    return _guarded("bubblewrap", lambda: _start_slot(home.blobs, home.sandbox))


def _start_slot(blobs: Path, state: Path) -> Check:
    from sandbox.blob_store import BlobStore
    from sandbox.bubblewrap_sandbox import BubblewrapSandbox
    from sandbox.sandbox import Limits, Warmth

    with BubblewrapSandbox(BlobStore(blobs), state) as sandbox:
        sandbox.prepare(Warmth.PLAIN, Limits(wall_s=20))
        notes = "; ".join(sandbox.isolation_notes)
    version = subprocess.run(["bwrap", "--version"], capture_output=True, text=True, check=False)
    detail = f"{version.stdout.split()[-1]}, a sandbox started"
    return _check("bubblewrap", Level.OK, f"{detail}{'; ' if notes else ''}{notes}")


def _guarded(name: str, check: Callable[[], Check]) -> Check:
    try:
        return check()
    except InfrastructureError as error:
        repair = f"{_APT} bubblewrap" if shutil.which("bwrap") is None else "see the message"
        return _check(name, Level.MISSING, str(error), repair)


def _check(name: str, level: Level, detail: str, repair: str = "") -> Check:
    return Check(name=name, level=level, detail=detail, repair=repair)
