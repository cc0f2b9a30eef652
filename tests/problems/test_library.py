from __future__ import annotations

import json
import math

import pytest

from problems.catalog import load_problem
from problems.hidden_draw import workload_bytes
from problems.library_source import LIBRARY, LibrarySource
from problems.problem import AxisRule, Problem, Target

NAMES = (
    "rmsnorm", "add_rmsnorm", "softmax", "layernorm", "swiglu", "cross_entropy", "rope",
    "row_quant_fp8", "moe_gate", "rmsnorm_small", "swiglu_small", "gemv", "gemm_bias_gelu",
    "gemm_skinny", "causal_attention", "decode_attention",
)  # fmt: skip
LARGEST_ON_CUDA = {
    "rmsnorm": {"rows": 16384, "hidden": 4096},
    "add_rmsnorm": {"rows": 16384, "hidden": 4096},
    "softmax": {"rows": 8192, "columns": 16384},
    "layernorm": {"rows": 16384, "hidden": 8192},
    "swiglu": {"rows": 16384, "intermediate": 14336},
    "cross_entropy": {"rows": 4096, "vocabulary": 128256},
    "rope": {"batch": 4, "sequence": 4096, "heads": 32},
    "row_quant_fp8": {"rows": 16384, "hidden": 8192},
    "moe_gate": {"tokens": 16384, "experts": 256},
    "rmsnorm_small": {"rows": 8, "hidden": 4096},
    "swiglu_small": {"rows": 8, "intermediate": 14336},
    "gemv": {"in_features": 4096, "out_features": 14336},
    "gemm_bias_gelu": {"rows": 8192, "in_features": 4096, "out_features": 16384},
    "gemm_skinny": {"rows": 64, "in_features": 8192, "out_features": 8192},
    "causal_attention": {"batch": 4, "heads": 32, "sequence": 4096},
    "decode_attention": {"batch": 64, "length": 8192},
}
TINY = ("moe_gate", "rmsnorm_small", "swiglu_small")


def test_the_sixteen_have_their_numbers() -> None:
    assert LibrarySource().names() == NAMES
    assert [load_problem(name).number for name in NAMES] == list(range(1, 17))


@pytest.mark.parametrize("name", NAMES)
def test_folder_definition_and_reference_agree(name: str) -> None:
    problem = load_problem(name)
    assert problem.name == problem.definition.name == name
    assert "reference" not in json.loads((LIBRARY / name / "definition.json").read_text())
    assert problem.track
    assert problem.family


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("target", Target)
def test_public_workloads_are_enough_and_distinct(name: str, target: Target) -> None:
    public = load_problem(name).targets[target].public
    assert len(public) >= 6
    assert len({tuple(workload.axes.items()) for workload in public}) == len(public)


@pytest.mark.parametrize("name", NAMES)
def test_the_largest_cuda_workload_is_the_measured_one(name: str) -> None:
    problem = load_problem(name)
    public = problem.targets[Target.CUDA].public
    largest = max(workload_bytes(problem.definition, workload) for workload in public)
    measured = next(w for w in public if w.axes == LARGEST_ON_CUDA[name])
    assert workload_bytes(problem.definition, measured) == largest


@pytest.mark.parametrize("name", NAMES)
def test_cpu_workloads_suit_two_cores(name: str) -> None:
    problem = load_problem(name)
    smallest = 1 << 16 if name in TINY else 1 << 19
    for workload in problem.targets[Target.CPU].public:
        assert smallest <= workload_bytes(problem.definition, workload) <= 17 << 20


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("target", Target)
def test_rules_stay_inside_the_public_range(name: str, target: Target) -> None:
    workloads = load_problem(name).targets[target]
    for axis, rule in workloads.rules.items():
        public = [workload.axes[axis] for workload in workloads.public]
        lowest, highest = bounds(rule)
        assert min(public) <= lowest <= highest <= max(public), axis


def bounds(rule: AxisRule) -> tuple[int, int]:
    if rule.choices is not None:
        return min(rule.choices), max(rule.choices)
    assert rule.low is not None
    assert rule.high is not None
    return rule.low, rule.high


def test_public_workloads_of_all_problems_have_different_uuids() -> None:
    uuids = [
        workload.uuid
        for problem in map(load_problem, NAMES)
        for workloads in problem.targets.values()
        for workload in workloads.public
    ]
    assert len(set(uuids)) == len(uuids)


def test_softmax_tolerates_far_less_than_an_average_element() -> None:
    problem: Problem = load_problem("softmax")
    for workloads in problem.targets.values():
        for workload in workloads.public:
            assert math.isclose(
                workload.tolerance.max_atol * workload.axes["columns"], 0.01, rel_tol=0.1
            )
