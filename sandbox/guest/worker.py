"""The worker: loads one candidate and calls it when told to; nothing that it says is trusted.

Its one link takes control frames from the verifier. `session` forks a fresh process that loads
the candidate, and hands the verifier a socket to it; `stop` and `continue` halt and resume that
process and everything that it started, `end` kills them. In a session: `workload` maps the
shared buffers, `prepare` binds groups of calls to places in them; then each byte runs the group
of that number, answered by `k`, or `f` and a frame, until the byte LEAVE.
"""

from __future__ import annotations

import json
import mmap
import os
import signal
import socket
import sys
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sandbox.guest.buffers import SharedBuffer
from sandbox.guest.build import BUILDERS
from sandbox.guest.builder import Function
from sandbox.guest.link import LinkError, receive_frame, send_frame

LEAVE = 255
_MAX_LOG = 2000


def main(argv: list[str], links: list[socket.socket]) -> int:
    plan = json.loads(Path("/work/plan.json").read_text())
    control = links[0]
    BUILDERS[plan["language"]].prepare(plan, Path("/work/artifact"))
    while True:
        try:
            message, _, _ = receive_frame(control)
        except LinkError:
            return 0
        if message["op"] == "session":
            _start_session(plan, control)
        elif message["op"] in ("stop", "continue"):
            stopping = message["op"] == "stop"
            _signal_others(signal.SIGSTOP if stopping else signal.SIGCONT)
            send_frame(control, {"ok": True})
        elif message["op"] == "end":
            send_frame(control, {"ended": _end_session(message["pid"])})


def _start_session(plan: dict[str, Any], control: socket.socket) -> None:
    ours, theirs = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        control.close()
        ours.close()
        _serve(plan, theirs)
        os._exit(0)
    send_frame(control, {"pid": pid}, fds=(ours.fileno(),))
    ours.close()
    theirs.close()


def _end_session(pid: int) -> int:
    """Kill the session's process and all that it left behind; its exit status."""
    done, status = os.waitpid(pid, os.WNOHANG)
    if not done:
        os.kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
    for _ in range(100):
        if not _signal_others(signal.SIGKILL):
            break
    return os.waitstatus_to_exitcode(status)


def _signal_others(number: int) -> int:
    """To every process of the sandbox but its init, the slot and this one; how many there were."""
    spared = {1, os.getpid(), os.getppid()}
    others = {int(name) for name in os.listdir("/proc") if name.isdigit()} - spared  # noqa: PTH208
    for other in others:
        try:
            os.kill(other, number)
        except (ProcessLookupError, PermissionError):
            continue
    return len(others)


class _Session:
    """What a session's process holds."""

    def __init__(self, plan: dict[str, Any], function: Function) -> None:
        self._plan = plan
        self._function = function
        self._call: dict[str, Any] = {}
        self._inputs: SharedBuffer | None = None
        self._outputs: SharedBuffer | None = None
        self.prepared: list[list[Callable[[], None]]] = []

    def workload(self, message: dict[str, Any], fds: list[int]) -> None:
        self.prepared = []
        self._call = message["call"]
        self._inputs = SharedBuffer(fds[0], message["sizes"][0], writable=False)
        self._outputs = SharedBuffer(fds[1], message["sizes"][1], writable=True)
        for fd in fds:
            os.close(fd)

    def prepare(self, message: dict[str, Any]) -> None:
        builder = BUILDERS[self._plan["language"]]
        self.prepared = [
            [
                builder.bind(self._plan, self._function, self._call, self._places(places))
                for places in group
            ]
            for group in message["groups"]
        ]

    def _places(self, places: list[Any]) -> list[Any]:
        """Addresses for a C ABI, tensors for PyTorch; a scalar is its own place."""
        assert self._inputs is not None
        assert self._outputs is not None
        count = len(self._call["inputs"])
        specs = [*self._call["inputs"], *self._call["outputs"]]
        made = []
        for index, (spec, place) in enumerate(zip(specs, places, strict=True)):
            buffer = self._inputs if index < count else self._outputs
            if spec["shape"] is None:
                made.append(place)
            elif self._plan["language"] == "pytorch":
                made.append(tensor_at(buffer.map, place, spec))
            else:
                made.append(buffer.address + place)
        return made


def tensor_at(mapped: mmap.mmap, offset: int, spec: dict[str, Any]) -> Any:
    """A tensor over shared memory, without a copy."""
    import torch

    from sandbox.guest.inputs import dtype_of

    dtype = dtype_of(spec["dtype"])
    count = 1
    for size in spec["shape"]:
        count *= size
    if not count:
        return torch.empty(spec["shape"], dtype=dtype)
    raw = torch.frombuffer(mapped, dtype=torch.uint8, count=count * dtype.itemsize, offset=offset)
    return raw.view(dtype).view(spec["shape"])


def _serve(plan: dict[str, Any], link: socket.socket) -> None:
    """Answer until the verifier closes the link; every failure is an answer."""
    warnings.simplefilter("ignore")
    try:
        session = _Session(plan, BUILDERS[plan["language"]].load(plan, Path("/work/artifact")))
        send_frame(link, {"ok": True})
    except Exception as error:
        send_frame(link, _failure(error))
        return
    while True:
        try:
            message, _, fds = receive_frame(link, max_fds=2)
        except LinkError:
            return
        try:
            if message["op"] == "workload":
                session.workload(message, fds)
            elif message["op"] == "prepare":
                session.prepare(message)
            send_frame(link, {"ok": True})
            if message["op"] == "prepare":
                _run_when_told(session, link)
        except Exception as error:
            send_frame(link, _failure(error))
        sys.stdout.flush()


def _run_when_told(session: _Session, link: socket.socket) -> None:
    """The timed part: between the order and the answer nothing but the calls happens."""
    groups = session.prepared
    while True:
        order = link.recv(1)
        if not order or order[0] == LEAVE:
            return
        calls = groups[order[0]]
        try:
            for call in calls:
                call()
        except Exception as error:
            link.sendall(b"f")
            send_frame(link, _failure(error))
        else:
            link.sendall(b"k")


def _failure(error: Exception) -> dict[str, Any]:
    where = traceback.format_exc(limit=-3)
    return {"ok": False, "kind": type(error).__name__, "log": f"{error}\n{where}"[:_MAX_LOG]}
