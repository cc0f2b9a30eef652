from __future__ import annotations

import ast
from typing import Any

import pytest
import torch

from problems.catalog import load_problem
from problems.library_source import LibrarySource
from problems.problem import Target
from problems.speed_of_light import Analysis
from sandbox.guest.analyze import analysis_report
from sandbox.guest.inputs import load_reference, make_inputs
from sandbox.guest.oracle import native_outputs
from scheduler.plan import plan_of
from tests.guest.reference_plans import plan, tensor


def analysis(body: str, inputs: list[Any], outputs: list[Any]) -> Analysis:
    report = analysis_report(plan(body, inputs, outputs))
    assert "error" not in report, report
    return Analysis.model_validate(report["analyses"][0])


def ops(found: Analysis) -> list[str]:
    return [node.op.split(".")[1] for node in found.nodes if node.op.startswith("aten.")]


def error_of(body: str, outputs: list[Any] | None = None) -> str:
    x, y = tensor("x", [4, 8]), tensor("y", [4, 8])
    report = analysis_report(plan(body, [x], outputs or [y]))
    return str(report["error"])


def test_a_pointwise_chain() -> None:
    found = analysis(
        "def run(x, w):\n    return x.to(torch.float32) * 2 + w",
        [tensor("x", [4, 8], "bfloat16"), tensor("w", [8])],
        [tensor("y", [4, 8])],
    )
    assert [n.op for n in found.nodes] == [
        "input:x", "input:w", "aten._to_copy.default", "aten.mul.Tensor", "aten.add.Tensor",
    ]  # fmt: skip
    assert [n.inputs for n in found.nodes[2:]] == [(0,), (2,), (3, 1)]
    assert found.nodes[2].attributes == {"dtype": "'float32'"}
    assert found.nodes[3].attributes == {"other": "2"}
    assert found.outputs == (4,)
    assert found.operations == 2 * 32
    assert found.compulsory_bytes == 32 * 2 + 8 * 4 + 32 * 4
    assert found.unfused_bytes == 32 * (2 + 4) + 32 * (4 + 4) + 32 * (4 + 4) + 8 * 4


def test_composites_become_simple_operators() -> None:
    x, y = tensor("x", [4, 8], "bfloat16"), tensor("y", [4, 8], "bfloat16")
    w = tensor("w", [8], "bfloat16")
    softmax = analysis("def run(x):\n    return torch.softmax(x, -1)", [x], [y])
    assert ops(softmax) == ["_to_copy", "amax", "sub", "exp", "sum", "div", "_to_copy"]
    assert softmax.nodes[2].attributes == {"dim": "[1]", "keepdim": "True"}
    assert softmax.unfused_bytes == softmax.compulsory_bytes
    norm = analysis("def run(x, w):\n    return F.layer_norm(x, (8,), w)", [x, w], [y])
    assert ops(norm) == [
        "_to_copy", "var", "mean", "add", "rsqrt", "sub", "mul", "mul", "_to_copy",
    ]  # fmt: skip
    silu = analysis("def run(x):\n    return F.silu(x)", [x], [y])
    assert ops(silu) == ["_to_copy", "sigmoid", "mul", "_to_copy"]


def test_linear_is_a_product_and_an_addition() -> None:
    found = analysis(
        "def run(x, w, b):\n    return F.linear(x, w, b)",
        [tensor("x", [2, 3, 16]), tensor("w", [5, 16]), tensor("b", [5])],
        [tensor("y", [2, 3, 5])],
    )
    assert ops(found) == ["transpose", "view", "mm", "add", "view"]
    assert found.matrix_operations == found.flop_counter_operations == 2 * 6 * 16 * 5
    assert found.operations == found.matrix_operations + 6 * 5


def test_widened_operands_count_as_what_they_were() -> None:
    found = analysis(
        "def run(x, w):\n    return x.float() @ w.float().T",
        [tensor("x", [4, 8], "bfloat16"), tensor("w", [16, 8], "bfloat16")],
        [tensor("y", [4, 16])],
    )
    assert found.compute_dtype == "bfloat16"


def test_causal_attention_counts_what_the_mask_leaves() -> None:
    tensors = [tensor(name, [2, 4, 8, 16], "bfloat16") for name in "qkv"]
    body = "def run(q, k, v):\n    return F.scaled_dot_product_attention(q, k, v{})"
    y = [tensor("y", [2, 4, 8, 16], "bfloat16")]
    full = analysis(body.format(""), tensors, y)
    causal = analysis(body.format(", is_causal=True"), tensors, y)
    assert full.matrix_operations == full.flop_counter_operations == 2 * 2 * 8 * 8 * 8 * 16
    assert causal.flop_counter_operations == full.matrix_operations
    assert causal.matrix_operations == full.matrix_operations * 36 // 64
    assert causal.compute_dtype == "bfloat16"
    assert causal.unfused_bytes == causal.compulsory_bytes == 4 * 1024 * 2


def test_grouped_heads_repeat_nothing() -> None:
    found = analysis(
        "def run(q, k, v):\n    return F.scaled_dot_product_attention(q, k, v, enable_gqa=True)",
        [tensor("q", [1, 8, 1, 16]), tensor("k", [1, 2, 32, 16]), tensor("v", [1, 2, 32, 16])],
        [tensor("y", [1, 8, 1, 16])],
    )
    assert found.matrix_operations == found.flop_counter_operations
    assert max(len(n.shape) and n.shape[-2] for n in found.nodes if "bmm" in n.op) == 4


def test_a_gather_reads_what_it_takes() -> None:
    found = analysis(
        "def run(table, rows):\n    return F.embedding(rows, table)",
        [tensor("table", [1000, 8]), tensor("rows", [3], "int64")],
        [tensor("y", [3, 8])],
    )
    assert found.compulsory_bytes == 3 * 8 * 4 + 3 * 8 + 3 * 8 * 4
    half = analysis(
        "def run(x):\n    return x[:, :4] * 2", [tensor("x", [4, 8])], [tensor("y", [4, 4])]
    )
    assert half.compulsory_bytes == 2 * 16 * 4


def test_mutation_of_own_tensors_is_rewritten() -> None:
    body = """def run(x):
    y = torch.empty_like(x)
    y[:, ::2] = x[:, ::2] * 2
    y[:, 1::2] = 3
    y += torch.tensor([1.0, 2.0]).repeat(4)
    return y
"""
    found = analysis(body, [tensor("x", [4, 8])], [tensor("y", [4, 8])])
    assert ops(found)[-1] == "add"
    assert [n.attributes for n in found.nodes if n.op == "constant"] == [{"value": "[1.0, 2.0]"}]


def test_several_results_and_unused_nodes() -> None:
    body = """def run(x):
    values, places = torch.topk(x, 2)
    unused = x.exp()
    return values, x.max(-1).values, places
"""
    outputs = [tensor("v", [4, 2]), tensor("m", [4]), tensor("p", [4, 2], "int64")]
    found = analysis(body, [tensor("x", [4, 8])], outputs)
    assert [n.op for n in found.nodes] == [
        "input:x", "aten.topk.default", "getitem", "getitem", "aten.amax.default",
    ]  # fmt: skip
    assert found.outputs == (2, 4, 3)


def test_scalars_are_their_values() -> None:
    found = analysis(
        "def run(x, eps):\n    return x + eps",
        [tensor("x", [4, 8]), tensor("eps", None, kind="scalar", value=0.5)],
        [tensor("y", [4, 8])],
    )
    assert found.nodes[1].attributes == {"value": "0.5"}
    assert found.nodes[2].attributes == {"other": "0.5"}


def test_custom_scalars_come_from_the_input_function() -> None:
    body = """def run(x, n):
    return x * n
def get_inputs(axes, device):
    return {"x": torch.zeros(4, 8, device=device), "n": 3}
"""
    x, n = tensor("x", [4, 8], kind="custom"), tensor("n", None, "int64", kind="custom")
    found = analysis(body, [x, n], [tensor("y", [4, 8])])
    assert found.nodes[2].attributes == {"other": "3"}


def test_devices_in_the_reference_do_not_matter() -> None:
    body = "def run(x):\n    return (x.cuda() + torch.ones(8, device='cuda')).to('cuda')"
    assert ops(analysis(body, [tensor("x", [4, 8])], [tensor("y", [4, 8])])) == ["full", "add"]


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        ("def run(x):\n    if x.sum() > 0:\n        return x\n    return -x", "reference line 4: "),
        ("def run(x):\n    raise KeyError('bad')", "reference line 4: KeyError: 'bad'"),
        ("def run(x):\n    x.add_(1)\n    return x", "reference: it mutates its input x"),
        ("def run(x):\n    x[0] = 1\n    return x + 1", "reference: it mutates its input x"),
        ("def run(x):\n    return {'y': x}", "reference: it returns a dict, not a tensor"),
        ("def run(x):\n    return x, x", "reference: it returns 2 tensors, 1 outputs"),
        ("def run(x):\n    return x.sum(-1)", "reference: output y is float32 [4], declared"),
        ("def run(x):\n    return x.bool()", "reference: output y is bool [4, 8], declared"),
        ("def run(x):\n  return x +", "reference line 4: SyntaxError"),
    ],
)
def test_what_cannot_be_traced_is_one_line(body: str, wanted: str) -> None:
    error = error_of(body)
    assert error.startswith(wanted)
    assert "\n" not in error


@pytest.mark.slow
@pytest.mark.parametrize("name", LibrarySource().names())
def test_the_library(name: str) -> None:
    problem = load_problem(name)
    for workloads in problem.targets.values():
        report = analysis_report(plan_of(problem.definition, workloads.public))
        found = [Analysis.model_validate(item) for item in report["analyses"]]
        assert len({tuple(n.op for n in a.nodes) for a in found}) == 1
        for item in found:
            assert item.matrix_operations <= item.flop_counter_operations
            if name != "causal_attention":
                assert item.matrix_operations == item.flop_counter_operations
            assert item.unfused_bytes >= item.compulsory_bytes


@pytest.mark.parametrize("name", ["rmsnorm", "softmax", "layernorm", "gemm_bias_gelu"])
def test_the_graph_computes_what_the_reference_does(name: str) -> None:
    """Interpreted node by node, it gives the reference's own result."""
    problem = load_problem(name)
    made = plan_of(problem.definition, problem.targets[Target.CPU].public[:1])
    found = Analysis.model_validate(analysis_report(made)["analyses"][0])
    reference = load_reference(made["reference"])
    inputs = make_inputs(made["calls"][0], reference, made["custom_inputs_entrypoint"], 1, "cpu")
    values: dict[int, Any] = {}
    for node in found.nodes:
        values[node.id] = interpret(node, values, inputs)
    wanted = native_outputs(reference, inputs)
    for output, expected in zip(found.outputs, wanted, strict=True):
        torch.testing.assert_close(values[output], expected, rtol=2e-2, atol=2e-2)


def interpret(node: Any, values: dict[int, Any], inputs: list[Any]) -> Any:
    if node.op.startswith("input:"):
        return inputs[node.id]
    _, name, overload = node.op.split(".")
    func = getattr(getattr(torch.ops.aten, name), overload)
    given = {key: ast.literal_eval(text) for key, text in node.attributes.items()}
    if isinstance(given.get("dtype"), str):
        given["dtype"] = getattr(torch, given["dtype"])
    tensors = iter(node.inputs)
    arguments = {
        argument.name: values[next(tensors)]
        for argument in func._schema.arguments
        if argument.name not in given and "Tensor" in str(argument.type)
    }
    return func(**arguments, **given)
