"""One workload of one paired session: ABBA blocks on cold caches, fresh inputs and pointers.

How a number is made: both sides are called on the same contents, a few calls per observation so
that it lasts about two milliseconds. While a side is not being timed all its processes are
stopped, so that nothing is computed ahead and no idle thread spins beside the other side. The
contents are written, the outputs poisoned and every buffer evicted from the caches while the
side is stopped. The time is this process's own clock around the whole observation, a first look
at the outputs included, less that of an empty one. Nothing that a worker says about time is used.
"""

from __future__ import annotations

import math
import random
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from sandbox.guest.cold_cache import ColdCache
from sandbox.guest.correctness import Comparison, worst
from sandbox.guest.input_pool import InputSet
from sandbox.guest.inputs import Value
from sandbox.guest.worker_session import CallBuffers, CandidateFailure, OutputProbe, WorkerSession

_OBSERVATION_S = 2e-3
_MAX_CALLS = 32
_MAX_BUFFER_BYTES = 192 << 20
_WARM_UP_CALLS = 3
_VOID_RATIO = 1.5
"""Two observations of the same side in a block that differ by more void it: a burst of other
load. The block is measured again, at most as many times as there are blocks."""
_MUTATIONS = 4
_SETTLE_S = 5e-4
_SHORTEST_S = 1e-8
SOLUTION, OPPONENT = 0, 1


class OpponentFailure(Exception):
    """The opponent, which passed its own checks before, failed beside this solution."""


@dataclass(frozen=True)
class Timed:
    """What one workload of one session gave."""

    log_ratios: list[float]
    seconds: tuple[list[float], list[float]]
    void_blocks: int
    rechecked: Comparison | None
    """Of the solution's timed outputs."""


@dataclass(frozen=True)
class _Content:
    """What one call's inputs are, written alike for both sides."""

    source: InputSet
    original: bool
    """The set as it is, whose expected output is known; else a variant of it."""
    shifts: list[int]
    """Rows by which each input is rolled; 0 for what cannot be."""
    mutations: list[tuple[int, torch.Tensor, torch.Tensor]]
    """Input, flat positions, new elements."""


class PairedTiming:
    """`sides` are the sessions of the solution and its opponent; `expect` asks the oracle."""

    def __init__(
        self,
        sides: tuple[WorkerSession, WorkerSession],
        call: dict[str, Any],
        pool: list[InputSet],
        cold: ColdCache,
        random_numbers: random.Random,
        expect: Callable[[list[Value]], InputSet],
    ) -> None:
        self._sides = sides
        self._call = call
        self._pool = pool
        self._unused = list(pool)
        self._cold = cold
        self._random = random_numbers
        self._expect = expect
        self._idle_s = [0.0, 0.0]
        self._checks: list[Comparison] = []
        self._buffers = CallBuffers(call, 1, 2)

    def run(self, blocks: int, recheck_share: float) -> Timed:
        """
        Raises:
            CandidateFailure: a side failed, or a timed output of the solution was wrong.
            OpponentFailure: the opponent failed, which says nothing about the solution.
        """
        try:
            self._warm_up()
            return self._measure(blocks, recheck_share)
        finally:
            self._buffers.close()

    def _warm_up(self) -> None:
        """Find how many calls an observation takes, on content that is not scored."""
        self._give_buffers()
        quickest = math.inf
        for _ in range(_WARM_UP_CALLS):
            contents = [self._variant()]
            for side in (SOLUTION, OPPONENT):
                quickest = min(quickest, self._order(side, contents)[0])
        slots = math.ceil(_OBSERVATION_S / max(quickest, _SHORTEST_S))
        slots = max(1, min(slots, _MAX_CALLS, _MAX_BUFFER_BYTES // self._buffers.bytes_per_slot))
        self._buffers.close()
        self._buffers = CallBuffers(self._call, slots, 2)
        self._give_buffers()
        for side in (SOLUTION, OPPONENT):
            spans = []
            for _ in range(5):
                self._tell(side, self._sides[side].resume)
                self._tell(side, self._sides[side].prepare, [])
                probe = self._buffers.probe(side, slots - 1, self._random)
                spans.append(self._tell(side, self._sides[side].run, probe))
                self._tell(side, self._sides[side].stop)
            self._idle_s[side] = statistics.median(spans)

    def _give_buffers(self) -> None:
        for side in (SOLUTION, OPPONENT):
            buffers = self._buffers.inputs[side], self._buffers.outputs[side]
            self._tell(side, self._sides[side].resume)
            self._tell(side, self._sides[side].use, self._call, *buffers)
            self._tell(side, self._sides[side].stop)

    def _measure(self, blocks: int, recheck_share: float) -> Timed:
        log_ratios: list[float] = []
        seconds: tuple[list[float], list[float]] = ([], [])
        void = 0
        while len(log_ratios) < blocks:
            last = len(log_ratios) == blocks - 1
            pairs = (
                self._observe_pair((SOLUTION, OPPONENT), recheck_share, not log_ratios),
                self._observe_pair((OPPONENT, SOLUTION), recheck_share, last),
            )
            times = [sorted(pair[side] for pair in pairs) for side in (SOLUTION, OPPONENT)]
            if max(high / low for low, high in times) > _VOID_RATIO and void < blocks:
                void += 1
                continue
            for side in (SOLUTION, OPPONENT):
                seconds[side].extend(times[side])
            log_ratios.append(
                statistics.fmean(map(math.log, times[OPPONENT]))
                - statistics.fmean(map(math.log, times[SOLUTION]))
            )
        return Timed(log_ratios, seconds, void, worst(self._checks) if self._checks else None)

    def _observe_pair(
        self, order: tuple[int, int], recheck_share: float, recheck_ends: bool
    ) -> dict[int, float]:
        """Both sides on the same contents; per-call seconds by side."""
        slots = self._buffers.slots
        self._buffers.shuffle(self._random)
        contents = [self._variant() for _ in range(slots)]
        if self._unused:
            contents[self._random.randrange(slots)] = self._original(self._unused.pop())
        seconds = {}
        for side in order:
            span, probe = self._order(side, contents)
            seconds[side] = max(span - self._idle_s[side], _SHORTEST_S) / slots
            if side == SOLUTION and probe.changed():
                raise CandidateFailure(
                    "REWARD_HACK", "it still wrote its output after it had said that it was done"
                )
        self._recheck(contents, recheck_share, recheck_ends)
        return seconds

    def _original(self, source: InputSet) -> _Content:
        return _Content(source, True, [0] * len(source.inputs), [])

    def _variant(self) -> _Content:
        source = self._random.choice(self._pool)
        shifts, mutations = [], []
        for index, value in enumerate(source.inputs):
            if not isinstance(value, torch.Tensor) or not value.dtype.is_floating_point:
                shifts.append(0)
                continue
            rows = value.shape[0] if value.dim() else 1
            shifts.append(self._random.randrange(rows) if rows > 1 else 0)
            if value.numel():
                picked = [
                    torch.tensor([self._random.randrange(value.numel()) for _ in range(_MUTATIONS)])
                    for _ in range(2)
                ]
                mutations.append((index, picked[0], value.view(-1)[picked[1]]))
        return _Content(source, False, shifts, mutations)

    def _write(self, side: int, contents: list[_Content]) -> None:
        for slot, content in enumerate(contents):
            views = self._buffers.input_views(side, slot)
            for view, value, shift in zip(
                views, content.source.inputs, content.shifts, strict=True
            ):
                if view is not None and isinstance(value, torch.Tensor):
                    _copy_rolled(view, value, shift)
            for index, positions, elements in content.mutations:
                changed = views[index]
                assert changed is not None
                changed.view(-1)[positions] = elements
        self._buffers.poison(side, len(contents))

    def _order(self, side: int, contents: list[_Content]) -> tuple[float, OutputProbe]:
        """Write the contents while the side is stopped, evict, run; seconds, and what was there."""
        session = self._sides[side]
        places = [
            self._buffers.places(slot, content.source.inputs)
            for slot, content in enumerate(contents)
        ]
        self._tell(side, session.resume)
        self._tell(side, session.prepare, places)
        self._tell(side, session.stop)
        self._write(side, contents)
        for address, size in self._buffers.used_ranges(side, len(contents)):
            self._cold.evict(address, size)
        probe = self._buffers.probe(side, len(contents) - 1, self._random)
        self._tell(side, session.resume)
        _let_settle()
        seconds = float(self._tell(side, session.run, probe))
        self._tell(side, session.stop)
        return seconds, probe

    def _tell(self, side: int, action: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return action(*arguments)
        except CandidateFailure as failure:
            if side == SOLUTION:
                raise
            raise OpponentFailure(failure.log) from None

    def _recheck(self, contents: list[_Content], share: float, ends: bool) -> None:
        """Verify a random share of the solution's outputs, and the ends of the measurement.

        Against the oracle where the expected output is known; else against the opponent's output
        on the same content, and the oracle decides where the two differ.
        """
        slots = self._buffers.slots
        chosen = {slot for slot in range(slots) if self._random.random() < share}
        chosen |= {slot for slot in range(slots) if contents[slot].original}
        if ends:
            chosen |= {0, slots - 1}
        for slot in sorted(chosen):
            if self._buffers.wrote_outside(SOLUTION, slot):
                raise CandidateFailure("RUNTIME_ERROR", "it wrote outside its outputs")
            outputs = self._buffers.output_views(SOLUTION, slot)
            if contents[slot].original:
                self._require(contents[slot].source.compare(outputs))
            elif not self._agree(outputs, self._buffers.output_views(OPPONENT, slot)):
                self._require(self._asked(slot, contents[slot]).compare(outputs))

    def _asked(self, slot: int, content: _Content) -> InputSet:
        views = self._buffers.input_views(SOLUTION, slot)
        pairs = zip(views, content.source.inputs, strict=True)
        return self._expect([v.clone() if v is not None else scalar for v, scalar in pairs])

    def _require(self, comparison: Comparison) -> None:
        self._checks.append(comparison)
        if not comparison.passed:
            raise CandidateFailure(
                "REWARD_HACK",
                "an output of a timed call is wrong although the checked calls were right: "
                + comparison.reason,
            )

    def _agree(self, ours: list[torch.Tensor], theirs: list[torch.Tensor]) -> bool:
        """Within twice the tolerance, as each may be off by one; integers exactly."""
        tolerance = self._call["tolerance"]
        for a, b in zip(ours, theirs, strict=True):
            if not a.dtype.is_floating_point:
                if not torch.equal(a, b):
                    return False
                continue
            x, y = a.to(torch.float32), b.to(torch.float32)
            allowed = y.abs().mul_(2 * tolerance["max_rtol"]).add_(2 * tolerance["max_atol"])
            if not bool(((x - y).abs_() <= allowed).all()):
                return False
        return True


def _let_settle() -> None:
    """Until the side's threads, which were stopped while they spun, run again on their cores.

    Without it a core that had halted took 0.2 to 3.5 ms to take up its thread (2-core virtual
    machine, 2026-12-01). Not a sleep: that would halt this core as well.
    """
    end = time.perf_counter() + _SETTLE_S
    while time.perf_counter() < end:
        pass


def _copy_rolled(view: torch.Tensor, value: torch.Tensor, shift: int) -> None:
    rest = value.shape[0] - shift if value.dim() else 0
    if not shift:
        view.copy_(value)
        return
    view[:rest].copy_(value[shift:])
    view[rest:].copy_(value[:shift])
