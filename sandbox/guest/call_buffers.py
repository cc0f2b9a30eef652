"""Where a workload's calls lie in shared memory, and what a verifier looks at there."""

from __future__ import annotations

import mmap
import random
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
from sandbox.guest.worker import tensor_at

_JITTER_BYTES = 4096
"""Calls start at a random aligned offset below this, so that no two see the same pointers."""
_PROBES = 64
_PAGE = 4096


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

    def shuffle(self, random_numbers: random.Random) -> list[int]:
        """New pointers for every slot; what `arrange` takes."""
        steps = _JITTER_BYTES // ALIGNMENT
        self._jitter = [random_numbers.randrange(steps) * ALIGNMENT for _ in range(self.slots)]
        return self._jitter

    def arrange(self, jitter: list[int]) -> None:
        self._jitter = jitter

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

    def poison(self, side: int, slots: int, whole: bool = True) -> None:
        """All of it, or some bytes of every page and the guards around the outputs."""
        raw = self._raw_outputs[side][: slots * self._output_stride]
        if whole:
            raw.fill_(POISON)
            return
        pages = raw[: raw.numel() // _PAGE * _PAGE].view(-1, _PAGE)
        pages[:, :ALIGNMENT].fill_(POISON)
        for slot in range(slots):
            start = slot * self._output_stride + self._jitter[slot]
            for first, last in self._guards():
                raw[start + first : start + last].fill_(POISON)

    def _guards(self) -> list[tuple[int, int]]:
        """Ranges around the outputs of a slot, from its start."""
        ranges, inner = [], 0
        for spec, offset in zip(self.call["outputs"], self._output_offsets, strict=True):
            ranges.append((inner, offset))
            inner = offset + tensor_bytes(spec)
        return [*ranges, (inner, inner + GUARD_BYTES)]

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
        start = slot * self._output_stride + self._jitter[slot]
        return any(
            bool((raw[start + first : start + last] != POISON).any())
            for first, last in self._guards()
        )
