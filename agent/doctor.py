"""Is this machine ready? One check a line, each with the command that repairs it."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from enum import StrEnum
from importlib import metadata
from pathlib import Path

from agent.diagnosis import first_error
from agent.environment import compiler_version
from agent.home import Home, file_system, home_path, open_home
from problems.errors import ConfigError, InfrastructureError
from problems.machine import load_machine
from problems.record import Record
from problems.speed_of_light import quantity

LEAST_DISK_BYTES = 2 << 30
_COMPILE_S = 60
_PROGRAM = """#include <omp.h>
#include <vector>
int main() { std::vector<int> threads(omp_get_max_threads()); return threads.empty(); }
"""
_NAMESPACE_SWITCHES = {
    "user/max_user_namespaces": ("0", "15000", True),
    "kernel/unprivileged_userns_clone": ("0", "1", False),
    "kernel/apparmor_restrict_unprivileged_userns": ("1", "0", False),
}
"""Below /proc/sys: the value that forbids them, one that allows them, whether it binds root."""
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
    found += [_package("torch", Level.MISSING), _compiler(environment), _namespaces()]
    found += [_cgroups(), _home(environment), _disk(environment), _sandbox(environment)]
    found += [_ceilings(environment)]
    found += [_package("chromadb", Level.WARNING, "lessons are compared one by one instead")]
    found += [_package("wordllama", Level.WARNING, "lessons are compared by their words only")]
    return tuple(found)


def _package(name: str, absent: Level, without: str = "") -> Check:
    try:
        return _check(name, Level.OK, metadata.version(name))
    except metadata.PackageNotFoundError:
        detail = "not installed" + (f": {without}" if without else "")
        return _check(name, absent, detail, f"{sys.executable} -m pip install {name}")


def _compiler(environment: Mapping[str, str]) -> Check:
    """Compiles what a kernel needs: C++ with OpenMP for this machine."""
    path = shutil.which("g++", path=environment.get("PATH"))
    if path is None:
        return _check("g++", Level.MISSING, "not installed", f"{_APT} g++")
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "try.cpp").write_text(_PROGRAM)
        command = [path, "-O3", "-march=native", "-fopenmp", "try.cpp", "-o", "try"]
        try:
            ended = subprocess.run(
                command, cwd=folder, capture_output=True, text=True, timeout=_COMPILE_S
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return _check("g++", Level.MISSING, str(error), f"{_APT} --reinstall g++")
    if ended.returncode != 0:
        detail = f"cannot compile C++ with OpenMP: {first_error(ended.stderr)}"
        return _check("g++", Level.MISSING, detail, f"{_APT} --reinstall g++ libgomp1")
    return _check("g++", Level.OK, f"{compiler_version(path)}, compiles")


def _namespaces(settings: Path = Path("/proc/sys")) -> Check:
    """Root needs no permission for them; a kernel that has none refuses root too."""
    for switch, (forbidding, allowing, for_root) in _NAMESPACE_SWITCHES.items():
        try:
            value = (settings / switch).read_text().strip()
        except OSError:
            continue
        if value == forbidding and (for_root or os.geteuid() != 0):
            name = switch.replace("/", ".")
            repair = f"sudo sysctl -w {name}={allowing}"
            return _check("user namespaces", Level.MISSING, f"forbidden: {name} = {value}", repair)
    return _check("user namespaces", Level.OK, "allowed")


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


def _ceilings(environment: Mapping[str, str]) -> Check:
    path = Home(home_path(environment)).machine
    try:
        hardware = load_machine(path)
    except ConfigError as error:
        return _check("ceilings", Level.WARNING, str(error), f"rm {path}")
    if hardware is None or hardware.measured is None:
        return _check("ceilings", Level.OK, "not measured yet: the first run does")
    peaks = hardware.measured
    rates = f"{quantity(peaks.bytes_per_s)}B/s copied, "
    rates += f"{quantity(peaks.vector_operations_per_s)}FLOP/s in float32"
    return _check("ceilings", Level.OK, f"{rates}, measured on {hardware.name}")


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
