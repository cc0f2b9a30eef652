"""One workload of one paired session: ABBA blocks on cold caches, fresh inputs and pointers.

How a number is made: both sides are called on the same contents, a few calls per observation so
that it lasts about half a millisecond. While a side is not being timed all its processes are
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

from sandbox.guest.call_buffers import CallBuffers, OutputProbe
from sandbox.guest.call_content import Content, copy_rolled, original, variant
from sandbox.guest.correctness import Comparison, worst
from sandbox.guest.input_pool import InputSet
from sandbox.guest.inputs import Value
from sandbox.guest.verifier_native import VerifierNative
from sandbox.guest.worker_session import CandidateFailure, WorkerSession

_OBSERVATION_S = 5e-4
_MAX_CALLS = 32
_MAX_BUFFER_BYTES = 192 << 20
_WARM_UP_CALLS = 2
_VOID_RATIO = 1.3
"""Two observations of the same side in a block that differ by more void it: a burst of other
load. The block is measured again, at most `_MAX_VOID` times as many as there are blocks."""
_MAX_VOID = 3
_SETTLE_S = 5e-4
_IDLE_ORDERS = 7
_MAX_GROUPS = 64
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


class PairedTiming:
    """`sides` are the sessions of the solution and its opponent; `expect` asks the oracle."""

    def __init__(
        self,
        sides: tuple[WorkerSession, WorkerSession],
        call: dict[str, Any],
        pool: list[InputSet],
        native: VerifierNative,
        random_numbers: random.Random,
        expect: Callable[[list[Value]], InputSet],
    ) -> None:
        self._sides = sides
        self._call = call
        self._pool = pool
        self._unused = list(pool)
        self._changes = all(spec["kind"] != "custom" for spec in call["inputs"])
        self._native = native
        self._random = random_numbers
        self._expect = expect
        self._jitters: list[list[int]] = []
        self._next_group = 0
        self._checks: list[Comparison] = []
        self._buffers = CallBuffers(call, 1, 2)

    def run(self, blocks: int, recheck_share: float) -> Timed:
        """
        Raises:
            CandidateFailure: a side failed, or a timed output of the solution was wrong.
            OpponentFailure: the opponent failed, which says nothing about the solution.
        """
        try:
            self._warm_up(blocks)
            return self._measure(blocks, recheck_share)
        finally:
            self._buffers.close()

    def _warm_up(self, blocks: int) -> None:
        """Find how many calls an observation takes, on content that is not scored."""
        quickest = math.inf
        self._prepare(_WARM_UP_CALLS)
        for group in range(_WARM_UP_CALLS):
            contents = [self._variant()]
            for side in (SOLUTION, OPPONENT):
                quickest = min(quickest, self._order(side, group, contents)[0])
        slots = math.ceil(_OBSERVATION_S / max(quickest, _SHORTEST_S))
        slots = max(1, min(slots, _MAX_CALLS, _MAX_BUFFER_BYTES // self._buffers.bytes_per_slot))
        self._buffers.close()
        self._buffers = CallBuffers(self._call, slots, 2)
        self._prepare(min(2 * 2 * blocks, _MAX_GROUPS))
        for side in (SOLUTION, OPPONENT):  # the first order at new buffers is slow in each session
            self._order(side, 0, [self._variant() for _ in range(slots)])

    def _prepare(self, groups: int) -> None:
        """Give both sides their buffers and groups of calls, each at pointers of its own."""
        scalars = self._pool[0].inputs
        self._jitters = [self._buffers.shuffle(self._random) for _ in range(groups)]
        placed: list[list[list[Any]]] = []
        for jitter in self._jitters:
            self._buffers.arrange(jitter)
            slots = range(self._buffers.slots)
            placed.append([self._buffers.places(slot, scalars) for slot in slots])
        for side in (SOLUTION, OPPONENT):
            session = self._sides[side]
            self._tell(side, session.resume)
            buffers = self._buffers.inputs[side], self._buffers.outputs[side]
            self._tell(side, session.use, self._call, *buffers)
            self._tell(side, session.prepare, [*placed, []])
            if session.idle_s is None:
                probe = self._buffers.probe(side, 0, self._random)
                spans = [self._tell(side, session.run, groups, probe) for _ in range(_IDLE_ORDERS)]
                session.idle_s = statistics.median(spans)
            self._tell(side, session.stop)
        self._next_group = 0

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
            if max(high / low for low, high in times) > _VOID_RATIO and void < _MAX_VOID * blocks:
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
        group = self._next_group % len(self._jitters)
        self._next_group += 1
        self._buffers.arrange(self._jitters[group])
        contents = [self._variant() for _ in range(slots)]
        if self._unused:
            contents[self._random.randrange(slots)] = original(self._unused.pop())
        seconds = {}
        for side in order:
            span, probe = self._order(side, group, contents)
            seconds[side] = max(span - (self._sides[side].idle_s or 0.0), _SHORTEST_S) / slots
            if side == SOLUTION and probe.changed():
                raise CandidateFailure(
                    "REWARD_HACK", "it still wrote its output after it had said that it was done"
                )
        self._recheck(contents, recheck_share, recheck_ends)
        return seconds

    def _variant(self) -> Content:
        return variant(self._pool, self._random, changed=self._changes)

    def _write(self, side: int, contents: list[Content]) -> None:
        for slot, content in enumerate(contents):
            views = self._buffers.input_views(side, slot)
            for view, value, shift in zip(
                views, content.source.inputs, content.shifts, strict=True
            ):
                if view is not None and isinstance(value, torch.Tensor):
                    copy_rolled(view, value, shift)
            for index, positions, elements in content.mutations:
                changed = views[index]
                assert changed is not None
                changed.view(-1)[positions] = elements
        self._buffers.poison(side, len(contents), whole=False)

    def _order(self, side: int, group: int, contents: list[Content]) -> tuple[float, OutputProbe]:
        """Write the contents while the side is stopped, evict, run; seconds, and what was there."""
        session = self._sides[side]
        self._buffers.arrange(self._jitters[group])
        self._write(side, contents)
        for address, size in self._buffers.used_ranges(side, len(contents)):
            self._native.evict(address, size)
        probe = self._buffers.probe(side, len(contents) - 1, self._random)
        self._tell(side, session.resume)
        _let_settle()
        seconds = float(self._tell(side, session.run, group, probe))
        self._tell(side, session.stop)
        return seconds, probe

    def _tell(self, side: int, action: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return action(*arguments)
        except CandidateFailure as failure:
            if side == SOLUTION:
                raise
            raise OpponentFailure(failure.log) from None

    def _recheck(self, contents: list[Content], share: float, ends: bool) -> None:
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
                self._require(contents[slot].source.compare(outputs, self._native.errors))
            elif not self._agree(outputs, self._buffers.output_views(OPPONENT, slot)):
                asked = self._asked(slot, contents[slot])
                self._require(asked.compare(outputs, self._native.errors))

    def _asked(self, slot: int, content: Content) -> InputSet:
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
        limits = 2 * tolerance["max_atol"], 2 * tolerance["max_rtol"]
        missing = 1 - tolerance["required_matched_ratio"]
        return all(
            self._native.agree(a, b, *limits, missing)
            if a.dtype.is_floating_point
            else torch.equal(a, b)
            for a, b in zip(ours, theirs, strict=True)
        )


def _let_settle() -> None:
    """Until the side's threads, which were stopped while they spun, run again on their cores.

    Without it a core that had halted took 0.2 to 3.5 ms to take up its thread (2-core virtual
    machine, 2026-12-01). Not a sleep: that would halt this core as well.
    """
    end = time.perf_counter() + _SETTLE_S
    while time.perf_counter() < end:
        pass
