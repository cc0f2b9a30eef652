"""The processes of one slot, seen from the host: started, watched, killed, accounted for."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import time

from problems.errors import SandboxError
from sandbox.bubblewrap_command import BubblewrapCommand, Descriptors
from sandbox.cgroup import Cgroup
from sandbox.sandbox import Limits, Warmth
from sandbox.seccomp import bpf

_KILL_TIMEOUT_S = 5.0
_INFO_TIMEOUT_S = 10.0
_NO_NAMESPACE = ("No permissions to creat", "namespace failed", "setting up uid map", "RTM_NEWADDR")


class SlotProcess:
    """Bubblewrap, the init of its process namespace and everything below.

    The namespace's init is held by a pidfd: killing it kills everything in the namespace, and
    the kernel reports its end only once all of that is gone.
    """

    def __init__(
        self,
        slot: str,
        process: subprocess.Popen[bytes],
        init: int,
        control: socket.socket,
        cgroup: Cgroup | None,
    ) -> None:
        assert process.stdout is not None
        self.slot = slot
        self.control = control
        self.output = process.stdout
        self.init = init
        self._process = process
        self._cgroup = cgroup
        self._init_fd = os.pidfd_open(init)
        os.set_blocking(self.output.fileno(), False)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def gone(self) -> bool:
        return self._wait_gone(0)

    def kill(self) -> None:
        """Everything is gone on return.

        Raises:
            SandboxError: something did not die.
        """
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._init_fd, signal.SIGKILL)
        if not self._wait_gone(_KILL_TIMEOUT_S):
            raise SandboxError(f"slot {self.slot} does not die: process {self.init} is stuck")

    def out_of_memory(self) -> bool:
        return self._cgroup is not None and self._cgroup.oom_kills() > 0

    def read_output(self, max_bytes: int) -> bytes | None:
        """What is there now; None where nothing is, empty at the end."""
        return self.output.read(max_bytes)

    def release(self) -> None:
        """After its end: what it held on the host."""
        self._process.kill()
        self._process.wait()
        self.output.close()
        self.control.close()
        os.close(self._init_fd)
        if self._cgroup is not None:
            self._cgroup.remove()

    def _wait_gone(self, timeout_s: float) -> bool:
        return _is_readable(self._init_fd, timeout_s)


def spawn(
    slot: str,
    command: BubblewrapCommand,
    warmth: Warmth,
    limits: Limits,
    cgroup: Cgroup | None,
) -> SlotProcess:
    """The calling thread must live as long as the slot: its end kills the slot (measured).

    Raises:
        SandboxError: bubblewrap did not start; the message says what is missing.
    """
    with contextlib.ExitStack() as until_started, contextlib.ExitStack() as handed_over:
        ours, theirs = socket.socketpair()
        until_started.enter_context(ours)
        handed_over.enter_context(theirs)
        info_read, info_write = os.pipe()
        until_started.callback(os.close, info_read)
        handed_over.callback(os.close, info_write)
        seccomp = _memory_file(bpf())
        handed_over.callback(os.close, seccomp)
        descriptors = Descriptors(theirs.fileno(), seccomp, info_write)
        process = subprocess.Popen(
            command.argv(warmth, limits, cgroup.folders if cgroup else None, descriptors),
            bufsize=0,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            pass_fds=descriptors.all,
            cwd="/",
            env={},  # a slot can read bubblewrap's own environment in /proc/1/environ
        )
        handed_over.close()
        init = _init_of(info_read)
        if init is not None:
            with contextlib.suppress(ProcessLookupError):
                return SlotProcess(slot, process, init, ours.dup(), cgroup)
        process.kill()
        output, _ = process.communicate()
        raise SandboxError(explain(output.decode(errors="replace")))


def _is_readable(fd: int, timeout_s: float) -> bool:
    poll = select.poll()  # unlike select, for descriptors above 1023 too
    poll.register(fd, select.POLLIN)
    return bool(poll.poll(timeout_s * 1000))


def _memory_file(data: bytes) -> int:
    fd = os.memfd_create("seccomp", os.MFD_CLOEXEC)
    os.write(fd, data)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


def _init_of(info: int) -> int | None:
    """The process id that bubblewrap reports; None where it ended before."""
    deadline = time.monotonic() + _INFO_TIMEOUT_S
    text = b""
    while _is_readable(info, max(0.0, deadline - time.monotonic())):
        part = os.read(info, 4096)
        text += part
        if not part or b"}" in part:
            break
    try:
        return int(json.loads(text)["child-pid"])
    except (ValueError, KeyError):
        return None


def explain(output: str) -> str:
    """One line from what bubblewrap and the slot printed before they ended."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    last = lines[-1] if lines else "it ended without a word"
    if any(text in output for text in _NO_NAMESPACE):
        return (
            f"unprivileged user namespaces are disabled ({last}): sysctl -w "
            "user.max_user_namespaces=15000 kernel.unprivileged_userns_clone=1 "
            "kernel.apparmor_restrict_unprivileged_userns=0, whichever of them exists"
        )
    if "Unknown option" in output:
        return f"bubblewrap 0.8 or newer is needed ({last})"
    return f"the sandbox did not start: {last}"
