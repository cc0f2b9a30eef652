"""Takes more than it should of one thing, named by its first word."""

from __future__ import annotations

import os
import signal
import socket
import sys
from pathlib import Path

MIB = 1 << 20


def main(argv: list[str], links: list[socket.socket]) -> int:
    attacks = {
        "fork": fork_bomb,
        "memory": lambda: take(400),
        "memory of many": memory_of_many,
        "memory in files": memory_in_files,
        "yes": lambda: os.execvp("yes", ["yes"]),
        "stubborn": stubborn,
        "daemon": daemon,
        "kill the slot": lambda: os.kill(os.getppid(), signal.SIGKILL),
        "tricks": tricks,
        "many files": many_files,
        "locked": lambda: Path("/out").chmod(0),
        "stop all": stop_all,
    }
    attacks[argv[0]]()
    return 0


def fork_bomb() -> None:
    count = 0
    while count < 5000:
        try:
            pid = os.fork()
        except OSError:
            break
        if pid == 0:
            signal.pause()
        count += 1
    Path("/out/count").write_text(str(count))


def take(mib: int) -> None:
    taken = bytearray()
    for _ in range(mib):
        taken += os.urandom(16) * (MIB // 16)


def memory_of_many() -> None:
    pids = []
    for _ in range(5):
        pid = os.fork()
        if pid == 0:
            take(60)
            signal.pause()
        pids.append(pid)
    os.waitpid(-1, 0)
    sys.exit(9)


def memory_in_files() -> None:
    for folder in ("/dev/shm", "/tmp"):
        with Path(folder, "x").open("wb") as file:
            for _ in range(200):
                file.write(b"x" * MIB)


def stubborn() -> None:
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)
    while True:
        pass


def daemon() -> None:
    """Holds every link until somebody kills it."""
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            for fd in (0, 1, 2):
                os.close(fd)
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            while True:
                signal.pause()
        os._exit(0)


def stop_all() -> None:
    """A stopped slot cannot answer."""
    os.kill(-1, signal.SIGSTOP)


def tricks() -> None:
    out = Path("/out")
    (out / "good").write_text("good")
    (out / "link").symlink_to("/etc/ld.so.cache")
    (out / "folder").symlink_to("/usr/lib")
    (out / "up").symlink_to("../work")
    os.mkfifo(out / "pipe")
    (out / "first").write_text("x")
    os.link(out / "first", out / "second")
    with (out / "sparse").open("wb") as file:
        file.truncate(200 << 20)
    (out / "closed").write_text("x")
    (out / "closed").chmod(0)
    (out / "new\nline").write_text("x")
    Path(os.fsdecode(b"/out/\xff")).write_text("x")
    socket.socket(socket.AF_UNIX).bind("/out/socket")
    deep = out
    for _ in range(40):
        deep = deep / "d"
        deep.mkdir()
    (deep / "bottom").write_text("x")


def many_files() -> None:
    for number in range(20_000):
        Path(f"/out/{number:05}").touch()
