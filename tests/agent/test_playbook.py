"""The playbook's search on a simulated run: noisy screens, a known best point."""

from __future__ import annotations

import math
from collections.abc import Mapping

import pytest

from agent.attempt import Confirm, Proposal, RunState
from agent.policies.playbook import GENERATION
from tests.agent.simulated_run import (
    BEST,
    LADDERS,
    Kernel,
    Machine,
    memory_bound_gain,
    playbook,
    row_kernel,
)


def test_finds_the_best_point_in_nine_of_ten_searches() -> None:
    within = 0
    for seed in range(10):
        machine = Machine(playbook(row_kernel(), seed=seed), [row_kernel()], noise_seed=seed)
        machine.run()
        needed = machine.screens_until(BEST)
        incumbent = machine.state.incumbent
        assert incumbent is not None
        ended_there = machine.state.attempts[incumbent].parameters == BEST
        within += needed is not None and needed <= 30 and ended_there
    assert within >= 9


@pytest.mark.parametrize("noise_seed", range(3))
def test_never_proposes_a_point_twice(noise_seed: int) -> None:
    machine = Machine(playbook(row_kernel()), [row_kernel()], noise_seed=noise_seed)
    machine.run()
    points = [tuple(p.parameters.items()) for p in machine.proposals()]
    digests = [p.solution.content_digest() for p in machine.proposals()]
    assert len(points) > 2 * GENERATION
    assert len(set(points)) == len(points) == len(set(digests))


def test_a_resumed_run_decides_as_the_killed_one() -> None:
    machine = Machine(playbook(row_kernel(), seed=3), [row_kernel()])
    states = []
    for _ in range(25):
        states.append((machine.state, machine.budget()))
        decision = machine.policy.propose(*states[-1])
        machine.decisions.append(decision)
        if isinstance(decision, Confirm):
            machine._confirm(decision.attempt)
        elif isinstance(decision, Proposal):
            machine._propose(decision)
    for (state, budget), decision in zip(states, machine.decisions, strict=True):
        stored = RunState.model_validate_json(state.model_dump_json())
        assert playbook(row_kernel(), seed=3).propose(stored, budget) == decision


def test_first_proposal_is_confirmed_at_once_and_later_ones_are_held() -> None:
    machine = Machine(playbook(row_kernel()), [row_kernel()])
    machine.run()
    proposals = machine.proposals()
    assert proposals[0].parameters == row_kernel().defaults()
    assert not proposals[0].hold
    assert proposals[0].parent is None
    assert "reads each byte once; predicted faster than the baseline" in proposals[0].hypothesis
    assert all(p.hold and p.parent for p in proposals[1:])


def test_nothing_is_held_until_something_beats_the_baseline() -> None:
    kernel = Kernel("row_kernel", LADDERS, lambda p: memory_bound_gain(p) - math.log(1.5))
    machine = Machine(playbook(kernel), [kernel])
    machine.run()
    promoted = next(a.index for a in machine.state.attempts if a.promoted)
    held = [proposal.hold for proposal in machine.proposals()]
    assert promoted > 0
    assert held == [False] * (promoted + 1) + [True] * (len(held) - promoted - 1)


def test_hypothesis_names_the_change_the_prediction_and_the_attempt() -> None:
    machine = Machine(playbook(row_kernel()), [row_kernel()])
    machine.run()
    texts = [proposal.hypothesis for proposal in machine.proposals()[1:]]
    assert all(" instead of " in text and " against attempt " in text for text in texts)
    assert any("predicted 1." in text for text in texts)
    assert any("was never measured" in text for text in texts)


def test_confirms_at_most_once_a_generation() -> None:
    machine = Machine(playbook(row_kernel()), [row_kernel()])
    machine.run()
    confirmed = sum(isinstance(decision, Confirm) for decision in machine.decisions)
    assert 1 <= confirmed <= len(machine.state.attempts) // GENERATION + 1


def test_every_template_is_tried_before_any_parameter_is_searched() -> None:
    slow = Kernel("slow", {"a": ("1", "2", "3")}, lambda p: math.log(0.3))
    machine = Machine(playbook(slow, row_kernel()), [slow, row_kernel()])
    machine.run()
    names = [proposal.solution.name for proposal in machine.proposals()]
    assert names[:2] == ["slow", "row_kernel"]
    assert set(names[2:]) == {"row_kernel"}, "five times slower is not searched further"


def test_a_close_runner_up_gets_a_share_of_the_screens() -> None:
    rival = Kernel("rival", LADDERS, lambda p: memory_bound_gain(p) + 0.02)
    machine = Machine(playbook(row_kernel(), rival), [row_kernel(), rival])
    machine.run()
    names = [proposal.solution.name for proposal in machine.proposals()]
    assert names.count("row_kernel") > 4
    incumbent = machine.state.incumbent
    assert incumbent is not None
    assert machine.state.attempts[incumbent].name == "rival"


def test_failing_points_do_not_end_the_search() -> None:
    def gain(parameters: Mapping[str, str]) -> float | None:
        return None if parameters["unroll"] in ("1", "8") else memory_bound_gain(parameters)

    kernel = Kernel("row_kernel", LADDERS, gain)
    machine = Machine(playbook(kernel), [kernel])
    machine.run()
    incumbent = machine.state.incumbent
    assert incumbent is not None
    assert machine.state.attempts[incumbent].parameters == BEST
