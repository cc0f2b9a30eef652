"""Limits on memory and processes by control groups, version 1 or 2, where they can be made."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path

from sandbox.sandbox import Limits

CGROUPS = Path("/sys/fs/cgroup")
_PARENT = "kagent"
_OVERHEAD_PIDS = 4
"""The slot's own process and bubblewrap's two, and the shell that starts them."""
_TRIES = 100


class CgroupUnavailable(Exception):
    """Why this process cannot make control groups here."""


class Cgroup:
    """Of one slot: the folders that its first process writes itself into."""

    def __init__(self, folders: tuple[Path, ...]) -> None:
        self.folders = folders

    def oom_kills(self) -> int:
        """How often the kernel killed a process of this group for its memory."""
        for name in ("memory.events", "memory.oom_control"):
            with contextlib.suppress(OSError):
                text = (self.folders[0] / name).read_text()
                counts = dict(line.split() for line in text.splitlines())
                return int(counts.get("oom_kill", 0))
        return 0

    def processes(self) -> set[int]:
        found: set[int] = set()
        for folder in self.folders:
            with contextlib.suppress(OSError):
                found |= {int(line) for line in (folder / "cgroup.procs").read_text().split()}
        return found

    def kill(self) -> None:
        """Repeats until nobody is left: a process can fork between the look and the kill."""
        for _ in range(_TRIES):
            found = self.processes()
            if not found:
                return
            for pid in found:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.005)

    def remove(self) -> None:
        """Folders that are still busy stay for the next reaping."""
        for folder in self.folders:
            for _ in range(_TRIES):
                try:
                    folder.rmdir()
                except FileNotFoundError:
                    break
                except OSError:  # the kernel drops the last process some milliseconds after it died
                    time.sleep(0.002)
                else:
                    break


class Cgroups:
    """Where groups can be made; `folders_of` names them without making them."""

    def __init__(self, root: Path = CGROUPS) -> None:
        """
        Raises:
            CgroupUnavailable: no memory and pids controllers, or no permission.
        """
        self._root = root
        controllers = root / "cgroup.controllers"
        self._version = 2 if controllers.exists() else 1
        try:
            if self._version == 2:
                self._delegate()
            else:
                for controller in ("memory", "pids"):
                    if not (root / controller).is_dir():
                        raise CgroupUnavailable(f"no {controller} controller in {root}")
                    (root / controller / _PARENT).mkdir(exist_ok=True)
        except OSError as error:
            raise CgroupUnavailable(f"{error.filename}: {error.strerror}") from None
        for folder in self.folders_of(""):
            if not os.access(folder, os.W_OK):
                raise CgroupUnavailable(f"{folder} is not writable")

    def _delegate(self) -> None:
        """Version 2 gives a group the controllers that its parent enables for its children."""
        (self._root / _PARENT).mkdir(exist_ok=True)
        for folder in (self._root, self._root / _PARENT):
            offered = set((folder / "cgroup.controllers").read_text().split())
            if not {"memory", "pids"} <= offered:
                raise CgroupUnavailable(f"{folder} does not offer memory and pids")
            (folder / "cgroup.subtree_control").write_text("+memory +pids")

    def folders_of(self, name: str) -> tuple[Path, ...]:
        if self._version == 2:
            return (self._root / _PARENT / name,)
        return tuple(self._root / c / _PARENT / name for c in ("memory", "pids"))

    def group(self, name: str) -> Cgroup:
        """The group of that name, whether it exists or not."""
        return Cgroup(self.folders_of(name))

    def create(self, name: str, limits: Limits) -> Cgroup:
        """
        Raises:
            OSError: the kernel refuses.
        """
        group = self.group(name)
        for folder in group.folders:
            folder.mkdir()
        memory = group.folders[0]
        if self._version == 2:
            (memory / "memory.max").write_text(str(limits.memory_bytes))
            swap = memory / "memory.swap.max"
            if swap.exists():
                swap.write_text("0")
        else:
            (memory / "memory.limit_in_bytes").write_text(str(limits.memory_bytes))
            swap = memory / "memory.memsw.limit_in_bytes"
            if swap.exists():
                swap.write_text(str(limits.memory_bytes))
        (group.folders[-1] / "pids.max").write_text(str(limits.pids + _OVERHEAD_PIDS))
        return group
