"""Every way in which the playbook ends a run, each with its reason."""

from __future__ import annotations

from agent.attempt import Confirm
from skills.template import Refusal
from tests.agent.simulated_run import LADDERS, Kernel, Machine, playbook, row_kernel


def test_stops_where_every_point_fails() -> None:
    kernel = Kernel("row_kernel", LADDERS, lambda p: None)
    machine = Machine(playbook(kernel), [kernel])
    stop = machine.run()
    assert "none of the 12 attempts passed and was measured" in stop.reason


def test_stops_where_the_space_is_exhausted() -> None:
    kernel = Kernel("tiny", {"a": ("1", "2"), "b": ("x", "y", "z")}, lambda p: 0.1)
    machine = Machine(playbook(kernel), [kernel])
    stop = machine.run()
    assert "exhausted: 6 of 6 points of tiny" in stop.reason
    assert len(machine.state.attempts) == 6


def test_stops_where_nothing_is_gained_and_the_neighbours_are_tried() -> None:
    machine = Machine(playbook(row_kernel()), [row_kernel()])
    stop = machine.run()
    assert "gained nothing, and every neighbour of the best point" in stop.reason


def test_stops_near_the_speed_of_light() -> None:
    machine = Machine(playbook(row_kernel()), [row_kernel()], sol_fraction=0.96)
    stop = machine.run()
    assert stop.reason.startswith("attempt 0 is at 96% of the speed of light")
    assert len(machine.state.attempts) == 1


def test_stops_when_the_budget_does_not_suffice_for_one_more() -> None:
    machine = Machine(playbook(row_kernel()), [row_kernel()], total_s=30)
    stop = machine.run()
    assert "are left to search in" in stop.reason
    assert machine.state.spent_s <= 20


def test_the_best_screen_is_confirmed_before_the_budget_ends() -> None:
    machine = Machine(playbook(row_kernel()), [row_kernel()], total_s=24.0)
    machine.run()
    assert isinstance(machine.decisions[-2], Confirm)


def test_without_a_template_it_stops_with_every_refusal() -> None:
    refusals = (
        Refusal(family="row program", reason="aten.sort is not supported"),
        Refusal(family="matrix product", reason="no matrix product in it"),
    )
    machine = Machine(playbook(refusals=refusals), [])
    assert machine.run().reason == (
        "no template fits this problem (row program: aten.sort is not supported; "
        "matrix product: no matrix product in it)"
    )
    assert not machine.state.attempts
