"""The library's references run, are right at their tolerances, and cheap answers are not."""

from __future__ import annotations

import types
from collections.abc import Sequence
from typing import Any

import pytest

from problems.catalog import load_problem
from problems.hidden_draw import draw_hidden, workload_bytes
from problems.library_source import LibrarySource
from problems.problem import Problem, Target
from problems.workload import Workload

pytestmark = pytest.mark.slow
NAMES = LibrarySource().names()


def call_of(problem: Problem, workload: Workload) -> dict[str, Any]:
    axes = problem.definition.resolve_axes(workload.axes)
    inputs = [
        {
            "name": name,
            "kind": workload.inputs[name].type,
            "shape": problem.definition.shape_of(name, axes),
            "dtype": spec.dtype.value,
        }
        for name, spec in problem.definition.inputs.items()
    ]
    return {"axes": axes, "inputs": inputs}


def inputs_of(problem: Problem, workload: Workload, seed: int) -> tuple[types.ModuleType, Any]:
    from sandbox.guest.inputs import load_reference, make_inputs

    reference = load_reference(problem.definition.reference)
    entrypoint = problem.definition.custom_inputs_entrypoint
    made = make_inputs(call_of(problem, workload), reference, entrypoint, seed, "cpu")
    return reference, made


def passes(problem: Problem, workload: Workload, outputs: Sequence[Any], expected: Any) -> bool:
    from sandbox.guest.correctness import compare_output

    tolerance = workload.tolerance.model_dump()
    names = problem.definition.outputs
    return all(
        compare_output(name, output, wanted, tolerance).passed
        for name, output, wanted in zip(names, outputs, expected, strict=True)
    )


@pytest.mark.parametrize("name", NAMES)
def test_every_cpu_workload_is_honest_and_hard_to_fake(name: str) -> None:
    import torch

    from sandbox.guest.oracle import expected_outputs, native_outputs

    problem = load_problem(name)
    for workload in problem.targets[Target.CPU].public[:3]:
        reference, inputs = inputs_of(problem, workload, seed=1)
        expected = expected_outputs(reference, inputs)
        native = native_outputs(reference, inputs)
        axes = problem.definition.resolve_axes(workload.axes)
        for (output, spec), found in zip(problem.definition.outputs.items(), native, strict=True):
            assert tuple(found.shape) == problem.definition.shape_of(output, axes)
            assert str(found.dtype) == f"torch.{spec.dtype}"
        assert passes(problem, workload, native, expected)

        other = native_outputs(reference, inputs_of(problem, workload, seed=2)[1])
        means = [
            torch.full_like(e.double(), float(e.double().mean())).to(e.dtype) for e in expected
        ]
        noise = [(torch.randn(e.shape) * e.double().std()).to(e.dtype) for e in expected]
        fakes = {
            "zeros": [torch.zeros_like(e) for e in expected],
            "ones": [torch.ones_like(e) for e in expected],
            "mean": means,
            "noise": noise,
            "another seed": other,
        }
        for index, x in enumerate(inputs):
            same = [x if x.shape == e.shape else e for e in expected]
            if any(x.shape == e.shape for e in expected):
                fakes[f"copy of input {index}"] = same
        for fake, outputs in fakes.items():
            assert not passes(problem, workload, outputs, expected), fake


@pytest.mark.parametrize("name", NAMES)
def test_every_input_matters(name: str) -> None:
    from sandbox.guest.oracle import expected_outputs, native_outputs

    problem = load_problem(name)
    workload = problem.targets[Target.CPU].public[0]
    reference, inputs = inputs_of(problem, workload, seed=1)
    others = inputs_of(problem, workload, seed=2)[1]
    expected = expected_outputs(reference, inputs)
    for index in range(len(inputs)):
        changed = [*inputs[:index], others[index], *inputs[index + 1 :]]
        outputs = native_outputs(reference, changed)
        assert not passes(problem, workload, outputs, expected), index


@pytest.mark.parametrize("name", NAMES)
def test_hidden_draws_and_neighbours_are_honest_too(name: str) -> None:
    from sandbox.guest.oracle import expected_outputs, native_outputs

    problem = load_problem(name)
    found = draw_hidden(problem, Target.CPU, b"tests", 40)
    smallest = sorted(found.scored, key=lambda w: workload_bytes(problem.definition, w))[:2]
    for workload in (*smallest, *found.neighbours):
        reference, inputs = inputs_of(problem, workload, seed=3)
        expected = expected_outputs(reference, inputs)
        assert passes(problem, workload, native_outputs(reference, inputs), expected)
