"""The slot: imports what a job will need, runs that one job in a fork, hands over its results.

Started with one JSON argument: `control` (a descriptor), `imports`, `rlimits`. On the control
socket it says `{"ready": true}`, takes one frame `{"argv", "files"}` with the files' bytes and the
job's links, and answers `{"code", "files"}` with the bytes of what lies in `/out`. Once the job
ran, the host takes nothing of that answer on trust.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import resource
import signal
import socket
import stat
import sys
import time
from pathlib import Path
from typing import Any

from sandbox.guest.link import MAX_FDS, LinkError, receive_frame, send_frame

WORK = Path("/work")
OUT = Path("/out")
MAX_FILES = 256
_MAX_ENTRIES = 4096
_MAX_DEPTH = 8
_MAX_FILE_BYTES = (1 << 32) - 1
_KILL_TRIES = 2000


def main() -> None:
    config = json.loads(sys.argv[1])
    control = socket.socket(fileno=config["control"])
    control.set_inheritable(False)
    _limit(config["rlimits"])
    for name in config["imports"]:
        importlib.import_module(name)
    send_frame(control, {"ready": True})
    try:
        order, data, fds = receive_frame(control, _MAX_FILE_BYTES, MAX_FDS)
    except LinkError:
        return
    _write_files(order["files"], data)
    del data
    links = [socket.socket(fileno=fd) for fd in fds]
    for link in links:
        link.set_inheritable(False)
    pid = os.fork()
    if pid == 0:
        control.close()
        code = _run(order["argv"], links)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code & 0xFF)  # taking torch apart would last 0.3 s
    for link in links:
        link.close()
    _, status = os.waitpid(pid, 0)
    _kill_others()
    files, contents = collect(OUT, config["result_bytes"])
    code = os.waitstatus_to_exitcode(status)
    send_frame(control, {"code": code, "files": files}, contents)


def _limit(rlimits: dict[str, int]) -> None:
    for name, value in rlimits.items():
        kind = getattr(resource, f"RLIMIT_{name}")
        _, hard = resource.getrlimit(kind)
        allowed = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(kind, (allowed, allowed))


def _write_files(files: list[Any], data: bytes) -> None:
    start = 0
    for name, size in files:
        path = WORK / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data[start : start + size])
        start += size


def _run(argv: list[str], links: list[socket.socket]) -> int:
    with contextlib.suppress(OSError):  # out of memory, the job should go and not the slot
        Path("/proc/self/oom_score_adj").write_text("500")
    name = argv[0] if argv[0].startswith("programs.") else f"sandbox.guest.{argv[0]}"
    code: int = importlib.import_module(name).main(argv[1:], links)
    return code


def _kill_others() -> None:
    """Everything but this process and the namespace's init, which reaps what is killed."""
    for _ in range(_KILL_TRIES):
        try:
            os.kill(-1, signal.SIGKILL)
        except ProcessLookupError:
            return
        time.sleep(0.0005)


def collect(folder: Path, max_bytes: int) -> tuple[list[list[Any]], bytes]:
    """Plain files below `folder` in the order of their names, as far as the limits go.

    Links, pipes, devices, files with a second name or an unprintable one, and files that do not
    fit are left out.
    """
    files: list[list[Any]] = []
    contents = bytearray()
    for path in _plain_files(folder):
        name = str(path.relative_to(folder))
        data = _read(path, max_bytes - len(contents)) if name.isprintable() else None
        if data is not None:
            files.append([name, len(data)])
            contents += data
        if len(files) == MAX_FILES:
            break
    return files, bytes(contents)


def _plain_files(folder: Path) -> list[Path]:
    found: list[Path] = []
    folders = [(folder, 0)]
    entries = 0
    while folders and entries < _MAX_ENTRIES:
        current, depth = folders.pop()
        with contextlib.suppress(OSError), os.scandir(current) as listing:
            for entry in listing:
                entries += 1
                if entries > _MAX_ENTRIES:
                    break
                if entry.is_dir(follow_symlinks=False):
                    if depth < _MAX_DEPTH:
                        folders.append((Path(entry.path), depth + 1))
                elif entry.is_file(follow_symlinks=False):
                    found.append(Path(entry.path))
    return sorted(found)


def _read(path: Path, max_bytes: int) -> bytes | None:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    with os.fdopen(fd, "rb") as file:
        state = os.fstat(fd)
        if not stat.S_ISREG(state.st_mode) or state.st_nlink != 1 or state.st_size > max_bytes:
            return None
        return file.read(max_bytes)
