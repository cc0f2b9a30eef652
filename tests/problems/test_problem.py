from __future__ import annotations

import pytest
from pydantic import ValidationError

from problems.problem import AxisRule, Problem, Target, WorkloadSet, check_fits
from tests.problems.samples import definition, workload


def problem(**changes: object) -> Problem:
    fields: dict[str, object] = {
        "name": "shift",
        "source": "library",
        "definition": definition(),
        "targets": {Target.CPU: WorkloadSet(public=(workload(),))},
    }
    return Problem.model_validate(fields | changes)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({}, "either choices, or low and high"),
        ({"low": 1}, "either choices, or low and high"),
        ({"low": 1, "high": 2, "choices": (1,)}, "either choices, or low and high"),
        ({"choices": ()}, "choices must not be empty"),
        ({"low": 3, "high": 2}, "no range"),
        ({"low": -1, "high": 2}, "no range"),
        ({"low": 5, "high": 7, "multiple_of": 8}, "no multiple of 8"),
        ({"low": 1, "high": 2, "multiple_of": 0}, "multiple_of"),
        ({"low": 1, "high": 2, "step": 1}, "step"),
    ],
)
def test_an_axis_rule_is_a_range_or_a_choice(fields: dict[str, object], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        AxisRule.model_validate(fields)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"inputs": {"x": {"type": "random"}}}, "inputs: x are not the definition's inputs"),
        ({"axes": {}}, "axes: variable axes are rows; got none"),
        ({"axes": {"rows": 1, "half": 4}}, "axes: variable axes are rows"),
        (
            {"inputs": {"x": {"type": "custom"}, "eps": {"type": "custom"}}},
            "inputs.x: custom needs a custom_inputs_entrypoint",
        ),
        (
            {"inputs": {"x": {"type": "scalar", "value": 1}, "eps": {"type": "random"}}},
            "inputs.x: a scalar for a tensor",
        ),
        (
            {
                "inputs": {
                    "x": {"type": "random"},
                    "eps": {"type": "safetensors", "path": "p", "tensor_key": "k"},
                }
            },
            "inputs.eps: a stored tensor for a scalar",
        ),
    ],
)
def test_a_workload_must_fit_its_definition(changes: dict[str, object], message: str) -> None:
    misfit = workload(3, **changes)
    with pytest.raises(ValueError, match=message):
        check_fits(definition(), misfit)
    with pytest.raises(ValidationError, match=rf"targets.cpu.public\[0\].{message}"):
        problem(targets={Target.CPU: WorkloadSet(public=(misfit,))})


def test_rules_name_every_variable_axis_and_no_other() -> None:
    rule = AxisRule(low=1, high=2)
    with pytest.raises(ValidationError, match=r"targets.cpu.rules: need one for each of rows"):
        problem(targets={Target.CPU: WorkloadSet(public=(workload(),), rules={"columns": rule})})
    rules = {"rows": rule}
    assert problem(targets={Target.CPU: WorkloadSet(public=(workload(),), rules=rules)})


def test_a_target_has_a_workload() -> None:
    with pytest.raises(ValidationError, match="public"):
        WorkloadSet(public=())


def test_a_problem_survives_json_with_its_inputs_in_order() -> None:
    found = Problem.model_validate_json(problem().canonical_json())
    assert found == problem()
    assert list(found.definition.inputs) == ["x", "eps"]
    assert list(found.definition.outputs) == ["y", "total"]
