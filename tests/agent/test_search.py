"""What is concluded from measured points, and where to look next."""

from __future__ import annotations

import random
import time

import pytest

from agent.search import Trial, measured_gains, predicted_gain, suggest
from tests.agent.simulated_run import (
    BEST,
    LADDERS,
    Machine,
    memory_bound_gain,
    playbook,
    row_kernel,
)


def test_gains_chain_through_the_opponents() -> None:
    machine = Machine(playbook(row_kernel()), [row_kernel()])
    machine.run()
    gains = measured_gains(machine.state)
    for attempt in machine.state.attempts:
        true = machine.true_gains[attempt.solution]
        assert gains[attempt.index] == pytest.approx(true, abs=0.03)


def test_prediction_learns_an_independent_effect() -> None:
    template = row_kernel().template
    parameters = dict(BEST)
    trials = []
    for store in ("plain", "streaming"):
        for unroll in ("2", "4"):
            values = parameters | {"store": store, "unroll": unroll}
            point = tuple(values[name] for name in LADDERS)
            trials.append(Trial(point=point, gain=memory_bound_gain(values)))
    slow, fast = trials[1].point, trials[3].point
    gain = predicted_gain(template, trials, fast, slow)
    assert gain is not None
    assert 0.1 < gain < 0.2, "shrunk towards nothing, as two trials a value are few"
    assert predicted_gain(template, trials, ("4", *fast[1:]), fast) is None


def test_deciding_after_two_hundred_attempts_is_fast() -> None:
    template = row_kernel().template
    draw = random.Random(0)
    points = {tuple(draw.choice(p.values) for p in template.parameters) for _ in range(400)}
    trials = [Trial(point=point, gain=draw.random()) for point in sorted(points)[:200]]
    excluded = frozenset(trial.point for trial in trials)
    suggest(template, trials[:10], frozenset(), 0)
    start = time.perf_counter()
    point = suggest(template, trials, excluded, 1)
    took_s = time.perf_counter() - start
    assert point is not None
    assert point not in excluded
    assert took_s < 0.25, "50 ms on an idle core"
