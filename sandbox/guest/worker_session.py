"""The verifier's side of one session: the candidate's process, its buffers, its calls."""

from __future__ import annotations

import mmap
import random
import socket
import time
from collections.abc import Sequence
from typing import Any

import torch

from sandbox.guest.buffers import (
    ALIGNMENT,
    GUARD_BYTES,
    POISON,
    SharedBuffer,
    layout,
    tensor_bytes,
)
from sandbox.guest.inputs import Value
from sandbox.guest.link import LinkError, receive_frame, send_frame
from sandbox.guest.worker import tensor_at

_JITTER_BYTES = 4096
"""Calls start at a random aligned offset below this, so that no two see the same pointers."""
_LOAD_TIMEOUT_S = 60.0
_PROBES = 64


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


class OutputProbe:
    """Random positions in a call's outputs, read the moment that the candidate says it is done."""

    def __init__(self, mapped: mmap.mmap, positions: list[int]) -> None:
        self._mapped = mapped
        self._positions = positions
        self._found = b""

    def look(self) -> None:
        self._found = self._read()

    def changed(self) -> bool:
        """Whether something was still being written after the first look."""
        return self._read() != self._found

    def _read(self) -> bytes:
        mapped = self._mapped
        return bytes([mapped[position] for position in self._positions])


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
        self._called = False
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
        self._send(message, "map its buffers", (inputs.fd, outputs.fd))
        self._called = False

    def prepare(self, places: Sequence[Sequence[Any]]) -> None:
        self._send({"op": "prepare", "places": [list(p) for p in places]}, "prepare a call")

    def run(self, probe: OutputProbe) -> float:
        """Run the prepared calls; the seconds between the order and the first look at the outputs.

        The look lies within the time: what is not there then was not done in time.

        Raises:
            CandidateFailure: it raised, crashed, hung or lost the link.
        """
        timeout_s = self._call_timeout_s if self._called else self._first_call_timeout_s
        self._called = True
        self._link.settimeout(timeout_s)
        started = time.perf_counter()
        try:
            self._link.sendall(b"g")
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


class CallBuffers:
    """Room for several calls of one workload, for each side its own.

    Not shared between the sides: the second one must not see its inputs while the first runs.
    """

    def __init__(self, call: dict[str, Any], slots: int, sides: int) -> None:
        self.call = call
        self.slots = slots
        self._input_offsets, input_bytes = layout(call["inputs"])
        self._output_offsets, output_bytes = layout(call["outputs"])
        self._input_stride = input_bytes + _JITTER_BYTES
        self._output_stride = output_bytes + _JITTER_BYTES
        self.inputs = [
            SharedBuffer.create(self._input_stride * slots, others_may_write=False)
            for _ in range(sides)
        ]
        self.outputs = [
            SharedBuffer.create(self._output_stride * slots, others_may_write=True)
            for _ in range(sides)
        ]
        self._raw_outputs = [torch.frombuffer(o.map, dtype=torch.uint8) for o in self.outputs]
        self._jitter = [0] * slots

    def close(self) -> None:
        for buffer in (*self.inputs, *self.outputs):
            buffer.close()

    def shuffle(self, random_numbers: random.Random) -> None:
        """New pointers for every slot."""
        steps = _JITTER_BYTES // ALIGNMENT
        self._jitter = [random_numbers.randrange(steps) * ALIGNMENT for _ in range(self.slots)]

    def places(self, slot: int, scalars: Sequence[Value]) -> list[Any]:
        """Offsets of each tensor in its buffer, and the scalars themselves."""
        input_base = slot * self._input_stride + self._jitter[slot]
        output_base = slot * self._output_stride + self._jitter[slot]
        made: list[Any] = [
            input_base + offset if spec["shape"] is not None else scalars[index]
            for index, (spec, offset) in enumerate(
                zip(self.call["inputs"], self._input_offsets, strict=True)
            )
        ]
        return made + [output_base + offset for offset in self._output_offsets]

    @property
    def bytes_per_slot(self) -> int:
        return (self._input_stride + self._output_stride) * len(self.inputs)

    def input_views(self, side: int, slot: int) -> list[torch.Tensor | None]:
        """None for a Python scalar."""
        base = slot * self._input_stride + self._jitter[slot]
        return [
            tensor_at(self.inputs[side].map, base + offset, spec)
            if spec["shape"] is not None
            else None
            for spec, offset in zip(self.call["inputs"], self._input_offsets, strict=True)
        ]

    def output_views(self, side: int, slot: int) -> list[torch.Tensor]:
        base = slot * self._output_stride + self._jitter[slot]
        return [
            tensor_at(self.outputs[side].map, base + offset, spec)
            for spec, offset in zip(self.call["outputs"], self._output_offsets, strict=True)
        ]

    def poison(self, side: int, slots: int) -> None:
        self._raw_outputs[side][: slots * self._output_stride].fill_(POISON)

    def used_ranges(self, side: int, slots: int) -> list[tuple[int, int]]:
        """Addresses and sizes that a call may touch: what is evicted before it."""
        return [
            (self.inputs[side].address, slots * self._input_stride),
            (self.outputs[side].address, slots * self._output_stride),
        ]

    def probe(self, side: int, slot: int, random_numbers: random.Random) -> OutputProbe:
        base = slot * self._output_stride + self._jitter[slot]
        positions = []
        for spec, offset in zip(self.call["outputs"], self._output_offsets, strict=True):
            size = tensor_bytes(spec)
            if size:
                positions += [
                    base + offset + random_numbers.randrange(size) for _ in range(_PROBES)
                ]
        return OutputProbe(self.outputs[side].map, positions)

    def wrote_outside(self, side: int, slot: int) -> bool:
        """Whether a guard around an output of the slot is not poison any more."""
        raw = self._raw_outputs[side]
        base = slot * self._output_stride
        start = base + self._jitter[slot]
        end = base + self._output_stride
        inner = start
        for spec, offset in zip(self.call["outputs"], self._output_offsets, strict=True):
            if bool((raw[inner : start + offset] != POISON).any()):
                return True
            inner = start + offset + tensor_bytes(spec)
        return bool((raw[inner : min(end, inner + GUARD_BYTES)] != POISON).any())
