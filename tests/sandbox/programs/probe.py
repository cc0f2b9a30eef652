"""Tries everything that must not work, and reports what happened."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import json
import os
import resource
import socket
import stat
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

SYSTEM_CALLS: dict[str, tuple[int, ...]] = {
    "ptrace": (101, 0, 0, 0, 0),
    "chroot": (161, 0),
    "mount": (165, 0, 0, 0, 0, 0),
    "pivot_root": (155, 0, 0),
    "keyctl": (250, 0, 0),
    "unshare a user namespace": (272, 0x10000000),
    "perf_event_open": (298, 0, 0, -1, -1, 0),
    "open_by_handle_at": (304, -1, 0, 0),
    "setns": (308, -1, 0),
    "process_vm_readv": (310, 1, 0, 0, 0, 0, 0),
    "bpf": (321, 0, 0, 0),
    "userfaultfd": (323, 0),
    "io_uring_setup": (425, 1, 0),
    "clone into a user namespace": (56, 0x10000011, 0, 0, 0, 0),
    "clone3": (435, 0, 0),
    "a call of a newer kernel": (463, 0, 0),
    "the x32 ABI": (0x40000000 | 39,),
    "type into a terminal": (16, 0, 0x5412, 0),
    "a console's ioctl": (16, 0, 0x541C, 0),
}
FAMILIES = (
    ("internet", socket.AF_INET),
    ("internet 6", socket.AF_INET6),
    ("netlink", socket.AF_NETLINK),
    ("packet", socket.AF_PACKET),
    ("vsock", socket.AF_VSOCK),
)
ABSENT = ("/root", "/home", "/etc/shadow", "/etc/passwd", "/sys", "/var", "/run", "/mnt")
READ_ONLY = ("/", "/usr", "/usr/bin", "/opt/venv", "/kagent", "/kagent/sandbox/guest", "/etc")
MORE_READ_ONLY = ("/dev", "/proc", "/proc/sys/kernel")


def main(argv: list[str], links: list[socket.socket]) -> int:
    abstract_name, host_pid = argv
    found = {
        "system calls": {name: _system_call(*numbers) for name, numbers in SYSTEM_CALLS.items()},
        "families": {name: _error(partial(socket.socket, number)) for name, number in FAMILIES},
        "abstract": _error(lambda: socket.socket(socket.AF_UNIX).connect("\0" + abstract_name)),
        "unix pairs": _error(socket.socketpair),
        "memory files": _error(lambda: os.close(os.memfd_create("x"))),
        "present": {path: _names(path) for path in ABSENT if Path(path).exists()},
        "writable": [p for p in (*READ_ONLY, *MORE_READ_ONLY) if _writable(Path(p))],
        "work": _names("/work"),
        "devices": _names("/dev"),
        "pids": sorted(int(name) for name in _names("/proc") if name.isdigit()),
        "host pid": _error(lambda: os.kill(int(host_pid), 0)),
        "environments": "".join(_text(p) for p in Path("/proc").glob("[0-9]*/environ")),
        "commands": "".join(_text(p) for p in Path("/proc").glob("[0-9]*/cmdline")),
        "uid": os.getuid(),
        "become root": _error(lambda: os.setuid(0)),
        "mknod": _error(lambda: os.mknod("/tmp/null", 0o666 | stat.S_IFCHR, os.makedev(1, 3))),
        "more processes": _error(_raise_process_limit),
        "status": _status(),
        "descriptors": _descriptors(),
    }
    Path("/out/found.json").write_text(json.dumps(found))
    return 0


def _error(attempt: Callable[[], Any]) -> str:
    try:
        result = attempt()
    except OSError as error:
        return errno.errorcode.get(error.errno or 0, str(error))
    except ValueError:
        return "ValueError"
    for item in result if isinstance(result, tuple) else (result,):
        if isinstance(item, socket.socket):
            item.close()
    return "worked"


def _system_call(*numbers: int) -> str:
    libc = ctypes.CDLL(None, use_errno=True)
    result = libc.syscall(*(ctypes.c_long(number) for number in numbers))
    if result == 0 and numbers[0] == 56:
        os._exit(0)
    return "worked" if result >= 0 else errno.errorcode[ctypes.get_errno()]


def _raise_process_limit() -> None:
    resource.setrlimit(resource.RLIMIT_NPROC, (100_000, 100_000))


def _writable(folder: Path) -> bool:
    try:
        (folder / "written").write_text("x")
    except OSError:
        return False
    return True


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


def _status() -> dict[str, str]:
    lines = Path("/proc/self/status").read_text().splitlines()
    fields = dict(line.split(":", 1) for line in lines)
    return {k: fields[k].strip() for k in ("CapEff", "CapPrm", "CapBnd", "NoNewPrivs", "Seccomp")}


def _descriptors() -> dict[str, str]:
    found = {}
    for path in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # the descriptor of this very listing
            found[path.name] = str(path.readlink())
    return found


def _names(folder: str) -> list[str]:
    return sorted(path.name for path in Path(folder).iterdir())
