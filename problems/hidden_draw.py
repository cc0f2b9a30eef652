"""Draw the workloads that a solution is judged on and has never seen, from a secret seed."""

from __future__ import annotations

import hashlib
import math
import uuid
from collections.abc import Iterator
from random import Random

from problems.definition import Definition
from problems.errors import ConfigError
from problems.problem import AxisRule, Problem, Target, WorkloadSet
from problems.record import Digest, Record, digest_of
from problems.workload import Workload

_ATTEMPTS_PER_DRAW = 1000


class HiddenDraw(Record):
    scored: tuple[Workload, ...]
    """As the rules say, none of them public."""
    neighbours: tuple[Workload, ...]
    """Off by one and prime in one axis, which may leave the public range by one: checked, never
    timed."""


def seed_commitment(seed: bytes) -> Digest:
    """What is journaled when a run starts; the seed itself is revealed in its bundle."""
    return digest_of(seed)


def draw_hidden(problem: Problem, target: Target, seed: bytes, count: int) -> HiddenDraw:
    """`count` scored workloads, and up to three neighbours of each axis that allows them.

    The same seed gives the same draw. A target without rules has no hidden workloads.

    Raises:
        ConfigError: the problem has no such target, or its rules have no room for `count`.
    """
    if target not in problem.targets:
        raise ConfigError(
            f"{problem.name}: no target {target}; targets: {', '.join(problem.targets)}"
        )
    drawer = _Drawer(problem, target, seed)
    if not problem.targets[target].rules:
        return HiddenDraw(scored=(), neighbours=())
    return HiddenDraw(
        scored=tuple(drawer.scored(index) for index in range(count)),
        neighbours=tuple(drawer.neighbours()),
    )


def workload_bytes(definition: Definition, workload: Workload) -> int:
    """Of all input and output tensors.

    Raises:
        ValueError: the workload's axes are not the definition's.
    """
    axes = definition.resolve_axes(workload.axes)
    tensors = definition.inputs | definition.outputs
    return sum(
        math.prod(definition.shape_of(name, axes) or ()) * spec.dtype.size_bytes
        for name, spec in tensors.items()
        if spec.shape is not None
    )


class _Drawer:
    def __init__(self, problem: Problem, target: Target, seed: bytes) -> None:
        self._place = f"{problem.name}/problem.toml: targets.{target}.rules"
        self._definition = problem.definition
        self._workloads: WorkloadSet = problem.targets[target]
        self._key = hashlib.sha256(
            b"\0".join((problem.name.encode(), target.encode(), seed))
        ).digest()
        self._random = Random(self._key)
        self._taken = [dict(workload.axes) for workload in self._workloads.public]

    def scored(self, index: int) -> Workload:
        for _ in range(_ATTEMPTS_PER_DRAW):
            workload = self._workload(self._draw_axes(), f"scored {index}")
            if workload is not None:
                return workload
        raise ConfigError(
            f"{self._place}: found only {index} workloads that are not public and have at most "
            f"{self._workloads.max_bytes} bytes"
        )

    def neighbours(self) -> Iterator[Workload]:
        for axis, rule in self._workloads.rules.items():
            if not rule.neighbours:
                continue
            for kind in ("less", "more", "prime"):
                for _ in range(_ATTEMPTS_PER_DRAW):
                    axes = self._draw_axes()
                    axes[axis] = _neighbour(axes[axis], kind)
                    workload = self._workload(axes, f"neighbour {axis} {kind}")
                    if workload is not None:
                        yield workload
                        break

    def _draw_axes(self) -> dict[str, int]:
        return {axis: _draw(rule, self._random) for axis, rule in self._workloads.rules.items()}

    def _workload(self, axes: dict[str, int], label: str) -> Workload | None:
        """None if these sizes were there before, are too large or do not fit the definition."""
        if axes in self._taken or min(axes.values()) < 1:
            return None
        nearest = min(self._workloads.public, key=lambda public: _distance(public.axes, axes))
        digest = hashlib.sha256(self._key + label.encode()).digest()
        workload = nearest.model_copy(
            update={"uuid": str(uuid.UUID(bytes=digest[:16], version=4)), "axes": axes}
        )
        try:
            size = workload_bytes(self._definition, workload)
        except ValueError:
            return None
        if size > self._workloads.max_bytes:
            return None
        self._taken.append(axes)
        return workload


def _draw(rule: AxisRule, random: Random) -> int:
    if rule.choices is not None:
        return random.choice(rule.choices)
    assert rule.low is not None  # a rule is a choice or a range
    assert rule.high is not None
    first, last = -(-rule.low // rule.multiple_of), rule.high // rule.multiple_of
    if not rule.logarithmic:
        return random.randint(first, last) * rule.multiple_of
    exponent = random.uniform(math.log(max(first, 1)), math.log(last + 1))
    return min(max(int(math.exp(exponent)), first), last) * rule.multiple_of


def _neighbour(size: int, kind: str) -> int:
    if kind == "prime":
        return next((n for n in range(size, 1, -1) if _is_prime(n)), 2)
    return size - 1 if kind == "less" else size + 1


def _is_prime(number: int) -> bool:
    return number > 1 and all(number % d for d in range(2, math.isqrt(number) + 1))


def _distance(a: dict[str, int], b: dict[str, int]) -> float:
    return sum(abs(math.log((a[axis] + 1) / (b[axis] + 1))) for axis in b)
