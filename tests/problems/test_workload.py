from __future__ import annotations

import pytest
from pydantic import ValidationError

from problems.workload import Tolerance, Workload
from tests.problems.samples import workload


def test_a_tolerance_that_is_absent_is_the_owners_default() -> None:
    assert workload().tolerance == Tolerance(
        max_atol=1e-2, max_rtol=1e-2, required_matched_ratio=0.99
    )


def test_the_misspelled_ratio_of_the_public_set_is_ignored_as_its_owner_does() -> None:
    found = workload(tolerance={"max_atol": 0.5, "required_match_ratio": 0.1})
    assert found.tolerance.max_atol == 0.5
    assert found.tolerance.required_matched_ratio == 0.99


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"uuid": ""}, "uuid"),
        ({"axes": {"rows": -1}}, "axes.rows"),
        ({"axes": {"rows": "many"}}, "axes.rows"),
        ({"inputs": {"x": {"type": "zeros"}}}, "inputs.x"),
        ({"inputs": {"x": {"type": "safetensors", "path": "p"}}}, "tensor_key"),
        ({"tolerance": {"max_atol": -1}}, "tolerance.max_atol"),
        ({"tolerance": {"max_rtol": float("nan")}}, "tolerance.max_rtol"),
        ({"tolerance": {"max_rtol": float("inf")}}, "tolerance.max_rtol"),
        ({"tolerance": {"required_matched_ratio": 0}}, "tolerance.required_matched_ratio"),
        ({"tolerance": {"required_matched_ratio": 1.5}}, "tolerance.required_matched_ratio"),
    ],
)
def test_what_is_malformed(changes: dict[str, object], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        workload(**changes)


def test_custom_inputs_are_all_or_nothing() -> None:
    custom = {"type": "custom"}
    assert workload(inputs={"x": custom, "eps": custom}).inputs["x"].type == "custom"
    with pytest.raises(ValidationError, match="cannot be mixed with random"):
        workload(inputs={"x": custom, "eps": {"type": "random"}})


def test_a_workload_survives_json() -> None:
    assert Workload.model_validate_json(workload().canonical_json()) == workload()
