from __future__ import annotations

import hashlib
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from problems.catalog import load_problem
from problems.errors import ConfigError
from problems.hidden_draw import HiddenDraw, draw_hidden, seed_commitment, workload_bytes
from problems.library_source import LibrarySource
from problems.problem import AxisRule, Problem, Target, WorkloadSet
from tests.problems.samples import definition, workload

NAMES = LibrarySource().names()
LIBRARY_PROBLEMS = {name: load_problem(name) for name in NAMES}


def small_problem(rule: AxisRule | None, max_bytes: int = 1 << 20) -> Problem:
    public = (workload(3), workload(100, tolerance={"max_atol": 0.5}))
    rules = {"rows": rule} if rule else {}
    return Problem(
        name="shift",
        source="folder",
        definition=definition(),
        targets={Target.CPU: WorkloadSet(public=public, rules=rules, max_bytes=max_bytes)},
    )


def rows(found: HiddenDraw) -> list[int]:
    return [scored.axes["rows"] for scored in found.scored]


def obeys(rule: AxisRule, size: int) -> bool:
    if rule.choices is not None:
        return size in rule.choices
    assert rule.low is not None
    assert rule.high is not None
    return rule.low <= size <= rule.high and size % rule.multiple_of == 0


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("target", Target)
def test_a_hundred_draws_obey_the_rules_and_the_cap(name: str, target: Target) -> None:
    problem = LIBRARY_PROBLEMS[name]
    workloads = problem.targets[target]
    found = draw_hidden(problem, target, b"a secret", 100)
    everything = [*workloads.public, *found.scored, *found.neighbours]
    assert len(found.scored) == 100
    assert len({tuple(sorted(w.axes.items())) for w in everything}) == len(everything)
    assert len({w.uuid for w in everything}) == len(everything)
    for drawn in (*found.scored, *found.neighbours):
        assert 0 < workload_bytes(problem.definition, drawn) <= workloads.max_bytes
        assert set(drawn.inputs) == set(problem.definition.inputs)
    for drawn in found.scored:
        assert all(obeys(rule, drawn.axes[axis]) for axis, rule in workloads.rules.items())


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("target", Target)
def test_neighbours_differ_from_the_rules_in_one_axis(name: str, target: Target) -> None:
    problem = LIBRARY_PROBLEMS[name]
    rules = problem.targets[target].rules
    neighbours = draw_hidden(problem, target, b"another", 2).neighbours
    assert len(neighbours) == 3 * sum(rule.neighbours for rule in rules.values())
    for neighbour in neighbours:
        outside = [a for a, rule in rules.items() if not obeys(rule, neighbour.axes[a])]
        assert len(outside) <= 1


@given(st.sampled_from(NAMES), st.sampled_from(Target), st.binary(max_size=40))
def test_the_seed_alone_decides(name: str, target: Target, seed: bytes) -> None:
    problem = LIBRARY_PROBLEMS[name]
    found = draw_hidden(problem, target, seed, 8)
    assert found == draw_hidden(problem, target, seed, 8)
    assert found.scored != draw_hidden(problem, target, seed + b"x", 8).scored
    assert found.scored[:4] == draw_hidden(problem, target, seed, 4).scored


def test_a_draw_is_the_same_on_every_machine() -> None:
    found = draw_hidden(small_problem(AxisRule(low=1, high=90)), Target.CPU, b"fixed", 4)
    assert rows(found) == [26, 63, 30, 85]
    assert found.scored[0].uuid == "16e983a4-fe2f-42dc-a61d-b736aace2acb"


@given(st.integers(1, 50), st.integers(0, 400), st.integers(1, 7), st.booleans(), st.binary())
def test_any_range_is_obeyed(
    low: int, span: int, multiple_of: int, logarithmic: bool, seed: bytes
) -> None:
    high = low + span + 6
    rule = AxisRule(low=low, high=high, multiple_of=multiple_of, logarithmic=logarithmic)
    drawn = rows(draw_hidden(small_problem(rule), Target.CPU, seed, 1))
    assert all(obeys(rule, size) for size in drawn)


def test_logarithmic_draws_halve_where_the_logarithm_does() -> None:
    rule = AxisRule(low=1, high=4096, logarithmic=True)
    drawn = rows(draw_hidden(small_problem(rule), Target.CPU, b"s", 400))
    uniform = rows(draw_hidden(small_problem(AxisRule(low=1, high=4096)), Target.CPU, b"s", 400))
    assert sum(size < 512 for size in drawn) > 200
    assert sum(size < 512 for size in uniform) < 100


def test_tolerance_and_scalars_come_from_the_nearest_public_workload() -> None:
    found = draw_hidden(small_problem(AxisRule(choices=(4, 90))), Target.CPU, b"s", 2)
    atol = {drawn.axes["rows"]: drawn.tolerance.max_atol for drawn in found.scored}
    assert atol == {4: 1e-2, 90: 0.5}
    assert all(drawn.inputs == workload().inputs for drawn in found.scored)


def test_an_axis_may_forbid_neighbours() -> None:
    rule = AxisRule(low=10, high=90, neighbours=False)
    assert draw_hidden(small_problem(rule), Target.CPU, b"s", 3).neighbours == ()


def test_neighbours_are_one_less_one_more_and_a_prime() -> None:
    rule = AxisRule(choices=(64,))
    found = draw_hidden(small_problem(rule), Target.CPU, b"s", 1)
    assert [neighbour.axes["rows"] for neighbour in found.neighbours] == [63, 65, 61]


def test_without_rules_nothing_is_hidden() -> None:
    found = draw_hidden(small_problem(None), Target.CPU, b"s", 5)
    assert found == HiddenDraw(scored=(), neighbours=())


def test_rules_with_too_little_room_are_named() -> None:
    with pytest.raises(ConfigError, match=r"shift/problem.toml: targets.cpu.rules: found only 2 "):
        draw_hidden(small_problem(AxisRule(choices=(3, 4, 5))), Target.CPU, b"s", 5)
    with pytest.raises(ConfigError, match="at most 20 bytes"):
        draw_hidden(small_problem(AxisRule(low=1, high=9), max_bytes=20), Target.CPU, b"s", 1)


def test_a_target_that_is_not_there_is_named() -> None:
    with pytest.raises(ConfigError, match="no target cuda; targets: cpu"):
        draw_hidden(small_problem(None), Target.CUDA, b"s", 1)


def test_the_commitment_is_the_seeds_sha256() -> None:
    assert seed_commitment(b"seed") == hashlib.sha256(b"seed").hexdigest()


@given(st.integers(0, 1000))
def test_bytes_are_those_of_all_tensors(size: int) -> None:
    assert workload_bytes(definition(), workload(size)) == 2 * (2 * math.prod((size, 8))) + 4
