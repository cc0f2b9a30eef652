"""The verifier's side of one session: the candidate's process and its calls."""

from __future__ import annotations

import socket
import time
from collections.abc import Sequence
from typing import Any

from sandbox.guest.buffers import SharedBuffer
from sandbox.guest.call_buffers import OutputProbe
from sandbox.guest.link import LinkError, receive_frame, send_frame
from sandbox.guest.worker import LEAVE

_LOAD_TIMEOUT_S = 60.0


class CandidateFailure(Exception):
    """The candidate failed in a call; `status` is its trace's."""

    def __init__(self, status: str, log: str) -> None:
        super().__init__(log)
        self.status = status
        self.log = log


_STATUS_BY_KIND = {
    "BuildError": "COMPILE_ERROR",
    "ShapeError": "INCORRECT_SHAPE",
    "DTypeError": "INCORRECT_DTYPE",
}


class WorkerSession:
    """A fresh process of one worker that has loaded its candidate; a context manager."""

    def __init__(
        self, control: socket.socket, call_timeout_s: float, first_call_timeout_s: float
    ) -> None:
        """The first call of a workload may compile; it has a time of its own.

        Raises:
            CandidateFailure: the candidate could not be loaded.
        """
        self._control = control
        self._call_timeout_s = call_timeout_s
        self._first_call_timeout_s = first_call_timeout_s
        self._called = self._prepared = False
        self.idle_s: float | None = None
        """What an order of no calls takes, once it was measured."""
        control.settimeout(_LOAD_TIMEOUT_S)
        try:
            send_frame(control, {"op": "session"})
            message, _, fds = receive_frame(control, max_fds=1)
            self._pid = int(message["pid"])
            self._link = socket.socket(fileno=fds[0])
        except (LinkError, OSError, KeyError, IndexError, TypeError, ValueError) as error:
            raise CandidateFailure("RUNTIME_ERROR", f"its worker was lost: {error}") from None
        self.ended = False
        try:
            self._answer(_LOAD_TIMEOUT_S, "load")
        except CandidateFailure:
            self.close()
            raise

    def __enter__(self) -> WorkerSession:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        if self.ended:
            return
        self.ended = True
        self._link.close()
        self._end()

    def stop(self) -> None:
        """Halt every process of the candidate: nothing is computed ahead, nothing spins."""
        self._control_order("stop")

    def resume(self) -> None:
        self._control_order("continue")

    def _control_order(self, op: str) -> None:
        try:
            send_frame(self._control, {"op": op})
            receive_frame(self._control)
        except (LinkError, OSError) as error:
            raise CandidateFailure("RUNTIME_ERROR", f"its worker was lost: {error}") from None

    def _end(self) -> int | None:
        """Kill the session's process; its exit status, None where the worker itself is gone."""
        try:
            send_frame(self._control, {"op": "end", "pid": self._pid})
            message, _, _ = receive_frame(self._control)
        except (LinkError, OSError):
            return None
        code = message.get("ended")
        return code if isinstance(code, int) else None

    def use(self, call: dict[str, Any], inputs: SharedBuffer, outputs: SharedBuffer) -> None:
        sizes = [inputs.size, outputs.size]
        message = {"op": "workload", "call": call, "sizes": sizes}
        self._leave()
        self._send(message, "map its buffers", (inputs.fd, outputs.fd))
        self._called = False

    def prepare(self, groups: Sequence[Sequence[Sequence[Any]]]) -> None:
        """Bind groups of calls, at most 255; each call is its tensors' places and its scalars."""
        self._leave()
        self._send({"op": "prepare", "groups": groups}, "prepare a call")
        self._prepared = True

    def _leave(self) -> None:
        if self._prepared:
            self._prepared = False
            try:
                self._link.sendall(bytes([LEAVE]))
            except OSError:
                raise self._death("between two workloads") from None

    def run(self, group: int, probe: OutputProbe) -> float:
        """Run a prepared group of calls; seconds from the order to the first look at the outputs.

        The look lies within the time: what is not there then was not done in time.

        Raises:
            CandidateFailure: it raised, crashed, hung or lost the link.
        """
        timeout_s = self._call_timeout_s if self._called else self._first_call_timeout_s
        self._called = True
        self._link.settimeout(timeout_s)
        started = time.perf_counter()
        try:
            self._link.sendall(bytes([group]))
            answer = self._link.recv(1)
        except TimeoutError:
            raise CandidateFailure(
                "TIMEOUT", f"a call did not end within {timeout_s:g} s"
            ) from None
        except OSError:
            answer = b""
        probe.look()
        ended = time.perf_counter()
        if answer == b"k":
            return ended - started
        if answer == b"f":
            self._answer(self._call_timeout_s, "call")
        raise self._death("in a call")

    def _send(self, message: dict[str, Any], doing: str, fds: tuple[int, ...] = ()) -> None:
        self._link.settimeout(self._call_timeout_s)
        try:
            send_frame(self._link, message, fds=fds)
        except OSError:
            raise self._death(f"before it was told to {doing}") from None
        self._answer(self._call_timeout_s, doing)

    def _answer(self, timeout_s: float, doing: str) -> None:
        self._link.settimeout(timeout_s)
        try:
            message, _, _ = receive_frame(self._link)
        except TimeoutError:
            raise CandidateFailure("TIMEOUT", f"it did not {doing} in {timeout_s:g} s") from None
        except (LinkError, OSError):
            raise self._death(f"when told to {doing}") from None
        if message.get("ok") is not True:
            status = _STATUS_BY_KIND.get(str(message.get("kind")), "RUNTIME_ERROR")
            raise CandidateFailure(status, str(message.get("log", "")))

    def _death(self, when: str) -> CandidateFailure:
        self.ended = True
        self._link.close()
        code = self._end()
        how = f"signal {-code}" if code is not None and code < 0 else f"exit status {code}"
        hint = " (its inputs are read-only)" if code == -11 else ""
        return CandidateFailure("RUNTIME_ERROR", f"the process died {when}: {how}{hint}")
