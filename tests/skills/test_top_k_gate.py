"""The gate template: the largest k with their weights, for every form of the graph, or refused."""

from __future__ import annotations

import ctypes
from pathlib import Path

import pytest
import torch

from problems.catalog import load_problem
from problems.definition import Definition
from problems.problem import Target
from problems.speed_of_light import Analysis
from sandbox.guest.analyze import analysis_report
from sandbox.guest.inputs import load_reference
from sandbox.guest.oracle import expected_outputs
from scheduler.plan import plan_of
from skills.kernel_text import KERNEL, template_folder
from skills.match_top_k_gate import TopKGate, match_top_k_gate
from skills.template import Refusal
from tests.skills.compiled_solution import analyses_of, compiled
from tests.skills.row_programs import before_a_guard_page, call_all, error_of

SIZES = [{"T": 12, "E": 48}, {"T": 20, "E": 80}]
SHAPES = [(1, 8), (3, 9), (2, 31), (5, 64), (1, 1031), (1, 4096), (40, 256), (70, 33)]
SOFTMAX = "torch.softmax(x.float(), -1)"
FORMS = [
    (f"v, i = torch.topk({SOFTMAX}, 8)", "v / v.sum(-1, keepdim=True), i.to(torch.int32)", "int32"),
    (f"v, i = torch.topk({SOFTMAX}, 8, dim=-1)", "v, i", "int64"),
    ("v, i = torch.topk(x.float(), 3)", "torch.softmax(v, -1), i", "int64"),
    ("v, i = x.topk(1)", "v.float(), i", "int64"),
]
REFUSED = [
    ("v, i = torch.topk(x.float(), 3, largest=False)", "v, i", "neither"),
    ("v, i = torch.topk(torch.sigmoid(x.float()), 3)", "v, i", "neither"),
    (f"v, i = torch.topk({SOFTMAX}, 3, dim=0)", "v.t(), i.t()", "neither"),
    (f"v, i = torch.topk({SOFTMAX}, 3)", "v * 2, i", "neither"),
    ("v, i = torch.topk(torch.softmax(x, -1), 3)", "v.float(), i", "neither"),
    ("v, i = torch.sort(x.float())", "v, i", "not one topk"),
]


def gate_definition(first: str, result: str, index_dtype: str, k: int) -> Definition:
    return Definition.model_validate(
        {
            "name": "gate",
            "axes": {"T": {"type": "var"}, "E": {"type": "var"}},
            "inputs": {"x": {"shape": ["T", "E"], "dtype": "bfloat16"}},
            "outputs": {
                "weights": {"shape": ["T", str(k)], "dtype": "float32"},
                "indices": {"shape": ["T", str(k)], "dtype": index_dtype},
            },
            "reference": f"import torch\n\n\ndef run(x):\n    {first}\n    return {result}\n",
        }
    )


def distinct_logits(rows: int, columns: int) -> torch.Tensor:
    """Of both signs, no two of a row alike, so that the choice has one answer."""
    steps = torch.rand(rows, columns).argsort(-1) - columns // 3
    bits = steps.abs().to(torch.int16) + 0x3C00
    values = bits.view(torch.bfloat16)
    return torch.where(steps < 0, -values, values)


@pytest.mark.sandbox
@pytest.mark.slow
@pytest.mark.parametrize("parameters", [{}, {"VECTOR_BYTES": "32", "CHAINS": "2"}])
@pytest.mark.parametrize(("first", "result", "index_dtype"), FORMS)
def test_the_chosen_and_their_weights(
    first: str, result: str, index_dtype: str, parameters: dict[str, str], tmp_path: Path
) -> None:
    k = 8 if ", 8" in first else int(first.rpartition("(")[2].rpartition(" ")[2].strip(")"))
    definition = gate_definition(first, result, index_dtype, k)
    gate = match_top_k_gate(definition, analyses_of(definition, *SIZES))
    assert isinstance(gate, TopKGate), gate
    function = compiled(gate.render(parameters), tmp_path)
    for rows, columns in SHAPES:
        if columns == 4096 and SOFTMAX in first:
            continue  # the smaller of so many different weights are all zero
        sizes = {"T": rows, "E": columns}
        logits = distinct_logits(rows, columns)
        guarded, _memory = before_a_guard_page(logits)
        found = call_all(function, definition, [guarded], sizes)
        expected = expected_outputs(load_reference(definition.reference), [logits])
        assert error_of(found[0], expected[0]) < 1, sizes
        assert error_of(found[1], expected[1]) == 0, sizes


@pytest.mark.parametrize(("first", "result", "message"), REFUSED)
def test_other_graphs_are_refused(first: str, result: str, message: str) -> None:
    k = "T" if "dim=0" in first else "E" if "sort" in first else "3"
    definition = gate_definition(first, result, "int64", 3)
    if k != "3":
        shape = ["E", "3"] if k == "T" else ["T", "E"]
        outputs = {n: s.model_copy(update={"shape": shape}) for n, s in definition.outputs.items()}
        definition = definition.model_copy(update={"outputs": outputs})
    refusal = match_top_k_gate(definition, analyses_of(definition, *SIZES))
    assert isinstance(refusal, Refusal)
    assert message in refusal.reason


@pytest.mark.sandbox
@pytest.mark.parametrize(("rows", "columns"), [(0, 64), (4, 7), (4, 4097)])
def test_a_size_that_it_cannot_do_is_an_error_of_the_call(
    rows: int, columns: int, tmp_path: Path
) -> None:
    definition = gate_definition(FORMS[1][0], "v, i", "int64", 8)
    gate = match_top_k_gate(definition, analyses_of(definition, *SIZES))
    assert isinstance(gate, TopKGate)
    function = compiled(gate.render({}), tmp_path)
    absent = ctypes.c_void_p(0)
    assert function(absent, absent, absent, ctypes.c_int64(rows), ctypes.c_int64(columns)) != 0


def test_the_template_is_what_the_library_s_gate_renders_to() -> None:
    problem = load_problem("moe_gate")
    plan = plan_of(problem.definition, problem.targets[Target.CPU].public)
    analyses = [Analysis.model_validate(a) for a in analysis_report(plan)["analyses"]]
    gate = match_top_k_gate(problem.definition, analyses)
    assert isinstance(gate, TopKGate)
    assert gate.render({}).entry_source == (template_folder("top_k_gate") / KERNEL).read_text()
