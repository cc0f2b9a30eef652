"""The command line that starts a slot: bubblewrap, and what must happen in front of it."""

from __future__ import annotations

import json
import os
import shutil
import stat
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from problems.errors import SandboxError
from sandbox.sandbox import Limits, Warmth

SLOT_UID = 10001
"""Not nobody: file systems may reserve blocks for it (resuid=65534)."""
IMPORTS = {
    Warmth.PLAIN: (),
    Warmth.TORCH: ("torch",),
    Warmth.COMPILE: ("torch", "torch._dynamo", "torch._inductor.compile_fx"),
}
SYSTEM_PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
_PASSED_ON = ("OPENBLAS_", "NVPL_")
_GUEST = Path(__file__).with_name("guest")
_PROGRAM = "import sys; sys.path.insert(0, '/kagent'); from sandbox.guest.slot import main; main()"
_VENV = "/opt/venv"
_SHARED_MEMORY_BYTES = 1 << 30
_PAGE = 4096
_STAGES = ("/mnt", "/media", "/srv", "/var/tmp", "/tmp")
_ENTER_CGROUPS = """set -e
while [ "$1" != -- ]; do echo 0 > "$1/cgroup.procs"; shift; done; shift
exec "$@"
"""
_STAGE = """set -e
stage=$1; shift; n=0
mount -t tmpfs -o size=64k,mode=0755,nosuid,nodev kagent "$stage"
while [ "$1" != -- ]; do
  if [ -d "$1" ]; then mkdir "$stage/$n"; else : > "$stage/$n"; fi
  mount --bind "$1" "$stage/$n"; n=$((n+1)); shift
done; shift
exec "$@"
"""


@dataclass(frozen=True)
class Bind:
    """A file or folder of the host that slots see, read-only."""

    source: Path
    destination: str


@dataclass(frozen=True)
class Descriptors:
    """Inherited by bubblewrap under the same numbers."""

    control: int
    seccomp: int
    info: int

    @property
    def all(self) -> tuple[int, ...]:
        return (self.control, self.seccomp, self.info)


class BubblewrapCommand:
    """Found once per sandbox; `argv` is what one slot is started with.

    Bubblewrap started by root would map any sandbox uid to the host's root (measured), so root
    gives up its uid first. Such a process cannot reach a Python below a private folder like
    `/root`: what it could not reach is mounted, in a mount namespace of its own, where it can.
    """

    def __init__(self, venv: Path | None, programs: Path | None, environment: Mapping[str, str]):
        """
        Raises:
            SandboxError: a program that is needed is not installed.
        """
        self._as_root = os.geteuid() == 0
        self._bwrap = _installed("bwrap", "bubblewrap", environment)
        self._shell = _installed("sh", "dash", environment)
        self._setpriv = _installed("setpriv", "util-linux", environment) if self._as_root else ""
        self._unshare = _installed("unshare", "util-linux", environment) if self._as_root else ""
        self._passed_on = {k: v for k, v in environment.items() if k.startswith(_PASSED_ON)}
        binds = _python_binds(venv)
        binds += [
            Bind(_GUEST.with_name("__init__.py"), "/kagent/sandbox/__init__.py"),
            Bind(_GUEST, "/kagent/sandbox/guest"),
        ]
        if programs is not None:
            binds.append(Bind(programs.resolve(), "/kagent/programs"))
        hidden = [b for b in binds if self._as_root and not reachable_by_all(b.source)]
        self._hidden = tuple(b.source for b in hidden)
        self._stage = _stage_for([b.source for b in binds]) if hidden else ""
        self._binds = [b for b in binds if b not in hidden] + [
            Bind(Path(self._stage, str(n)), b.destination) for n, b in enumerate(hidden)
        ]
        self._python = f"{_VENV}/bin/python" if _is_bound(binds, _VENV) else sys.executable

    def argv(
        self,
        warmth: Warmth,
        limits: Limits,
        cgroup: tuple[Path, ...] | None,
        descriptors: Descriptors,
    ) -> list[str]:
        command: list[str] = []
        if cgroup is not None:
            command += [self._shell, "-c", _ENTER_CGROUPS, "sh", *map(str, cgroup), "--"]
        if self._hidden:
            command += [self._unshare, "--mount", "--propagation", "private", self._shell, "-c"]
            command += [_STAGE, "sh", self._stage, *map(str, self._hidden), "--"]
        if self._as_root:
            command += [self._setpriv, f"--reuid={SLOT_UID}", f"--regid={SLOT_UID}"]
            command += ["--clear-groups", "--inh-caps=-all", "--bounding-set=-all", "--"]
        command += self._isolation(limits, descriptors)
        config = {
            "control": descriptors.control,
            "imports": IMPORTS[warmth],
            "result_bytes": limits.result_bytes,
            "rlimits": _rlimits(limits, has_cgroup=cgroup is not None),
        }
        return [*command, "--", self._python, "-I", "-B", "-c", _PROGRAM, json.dumps(config)]

    def _isolation(self, limits: Limits, descriptors: Descriptors) -> list[str]:
        words = [self._bwrap, "--die-with-parent", "--new-session", "--clearenv", "--unshare-all"]
        words += ["--unshare-user", "--disable-userns", "--hostname", "sandbox"]
        words += ["--ro-bind", "/usr", "/usr", *_system_links(), *_folders(self._binds)]
        words += ["--ro-bind-try", "/etc/ld.so.cache", "/etc/ld.so.cache"]
        words += ["--ro-bind-try", "/etc/alternatives", "/etc/alternatives"]
        for bind in self._binds:
            words += ["--ro-bind", str(bind.source), bind.destination]
        words += ["--proc", "/proc", "--dev", "/dev"]
        sizes = {
            "/dev/shm": min(_SHARED_MEMORY_BYTES, limits.memory_bytes),
            "/tmp": 4 * limits.result_bytes,
            "/work": 4 * limits.result_bytes,
            "/out": limits.result_bytes + 256 * _PAGE,
        }
        for path, size in sizes.items():
            words += ["--perms", "1777", "--size", str(-(-size // _PAGE) * _PAGE), "--tmpfs", path]
        words += ["--remount-ro", "/dev", "--remount-ro", "/", "--chdir", "/tmp"]
        for name, value in self._environment(limits).items():
            words += ["--setenv", name, value]
        return [
            *words,
            *("--seccomp", str(descriptors.seccomp)),
            *("--info-fd", str(descriptors.info)),
        ]

    def _environment(self, limits: Limits) -> dict[str, str]:
        return {
            "PATH": f"{_VENV}/bin:/usr/bin:/bin",
            "HOME": "/tmp",
            "USER": "sandbox",
            "LOGNAME": "sandbox",
            "TMPDIR": "/tmp",
            "LANG": "C.UTF-8",
            "OMP_NUM_THREADS": str(limits.cores),
            # libgomp finds no places on its own where there is no /sys
            "OMP_PLACES": ",".join(f"{{{cpu}}}" for cpu in _cpus(limits.cores)),
            "OMP_PROC_BIND": "true",
            "TORCHINDUCTOR_CACHE_DIR": "/tmp/inductor",
            "PYTHONDONTWRITEBYTECODE": "1",
            **self._passed_on,
        }


def _cpus(count: int) -> list[int]:
    return sorted(os.sched_getaffinity(0))[:count]


def _installed(program: str, package: str, environment: Mapping[str, str]) -> str:
    path = f"{environment.get('PATH', '')}:{SYSTEM_PATH}"
    found = shutil.which(program, path=path)
    if found is None:
        name = "bubblewrap" if program == "bwrap" else program
        raise SandboxError(f"{name} is not installed: apt-get install {package}")
    return found


def _python_binds(venv: Path | None) -> list[Bind]:
    """The virtual environment, and the Python that it was made from at its own path."""
    if venv is None and sys.prefix != sys.base_prefix:
        venv = Path(sys.prefix)
    binds = []
    base = Path(sys.base_prefix)
    for path in dict.fromkeys((base, base.resolve())):
        if not path.is_relative_to("/usr"):
            binds.append(Bind(base.resolve(), str(path)))
    if venv is not None:
        if not (venv / "bin" / "python").exists():
            raise SandboxError(f"{venv} is no virtual environment: it has no bin/python")
        binds.append(Bind(venv.resolve(), _VENV))
    return binds


def _is_bound(binds: list[Bind], destination: str) -> bool:
    return any(bind.destination == destination for bind in binds)


def reachable_by_all(path: Path) -> bool:
    others = stat.S_IROTH | stat.S_IXOTH if path.is_dir() else stat.S_IROTH
    if path.stat().st_mode & others != others:
        return False
    return all(parent.stat().st_mode & stat.S_IXOTH for parent in path.resolve().parents)


def _stage_for(sources: list[Path]) -> str:
    """A folder of the host that a private mount may cover."""
    for stage in _STAGES:
        if Path(stage).is_dir() and not any(s.is_relative_to(stage) for s in sources):
            return stage
    raise SandboxError(f"no folder to stage Python for the sandbox: tried {', '.join(_STAGES)}")


def _system_links() -> list[str]:
    """Modern systems have `/lib` and its like as links into `/usr`; older ones as folders."""
    words = []
    for name in ("bin", "sbin", "lib", "lib32", "lib64", "libx32"):
        path = Path("/", name)
        if path.is_symlink():
            words += ["--symlink", str(path.readlink()), str(path)]
        elif path.is_dir():
            words += ["--ro-bind", str(path), str(path)]
    return words


def _folders(binds: list[Bind]) -> list[str]:
    """Mount points; those that bubblewrap makes by itself are closed to everybody (0700)."""
    needed = {"/etc"}
    for bind in binds:
        needed |= {str(p) for p in Path(bind.destination).parents if str(p) != "/"}
    made = sorted(p for p in needed if p != "/usr" and not p.startswith("/usr/"))
    return [word for path in made for word in ("--perms", "0755", "--dir", path)]


def _rlimits(limits: Limits, *, has_cgroup: bool) -> dict[str, int]:
    """Set inside the slot: the number of processes is then counted in its own user namespace."""
    rlimits = {
        "CORE": 0,
        "NOFILE": 4096,
        "FSIZE": limits.memory_bytes,
        "NPROC": limits.pids,
    }
    return rlimits if has_cgroup else {**rlimits, "DATA": limits.memory_bytes}
