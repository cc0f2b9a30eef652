"""The attention template: right on every path, size and grouping; refuses all other graphs."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from problems.catalog import load_problem
from problems.definition import Definition
from problems.problem import Target
from skills.kernel_text import KERNEL, template_folder
from skills.match_attention import AttentionKernel, match_attention
from skills.template import Refusal
from tests.skills.compiled_solution import (
    amx_is_there,
    analyses_of,
    call,
    compiled,
    largest_error,
    make_definition,
    random_inputs,
)

BF16 = "bfloat16"
HEADS = {name: ("B H S 64", BF16) for name in ("q", "k", "v")}
GROUPED = {"q": ("B 8 S 64", BF16), "k": ("B 2 T 64", BF16), "v": ("B 2 T 64", BF16)}
CAUSAL = "F.scaled_dot_product_attention(q, k, v, is_causal=True)"
PLAIN = "F.scaled_dot_product_attention(q, k, v, enable_gqa=True)"
BY_HAND = "torch.softmax(q @ k.transpose(-1, -2) / 8, -1) @ v"
SQUARE = "torch.ones(q.shape[-2], k.shape[-2])"
MASKED = "torch.softmax((q @ k.mT * 0.25).masked_fill({}, float('-inf')), -1) @ v"
FORMS = [
    (HEADS, CAUSAL), (HEADS, BY_HAND), (GROUPED, PLAIN),
    (GROUPED, "F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)"),
    ({name: ("B S 64", BF16) for name in "qkv"}, CAUSAL),
    (HEADS, "F.scaled_dot_product_attention(q, k, v, scale=0.5)"),
    (HEADS, MASKED.format(f"~{SQUARE}.bool().tril()")),
    (HEADS, MASKED.format(f"torch.triu({SQUARE}, 1).bool()")),
    (HEADS, MASKED.format(f"{SQUARE}.tril() == 0")),
]  # fmt: skip
PATHS = [
    {"PATH": "AMX", "KEY_BLOCK": "64"}, {"PATH": "AMX", "KEY_BLOCK": "512", "PREFETCH_BYTES": "0"},
    {"PATH": "VECTOR"}, {"PATH": "VECTOR", "VECTOR_KEYS": "128", "PREFETCH_BYTES": "0"},
    {"PATH": "AUTOMATIC"},
]  # fmt: skip
# One row, primes, a block's size and its neighbours, more keys than one block of any kind.
SIZES = [
    {"B": 1, "H": 2, "S": 1, "T": 1}, {"B": 2, "H": 3, "S": 17, "T": 61},
    {"B": 1, "H": 5, "S": 32, "T": 128}, {"B": 2, "H": 1, "S": 129, "T": 200},
    {"B": 1, "H": 1, "S": 300, "T": 7},
]  # fmt: skip
TRACED = [{"B": 2, "H": 6, "S": 24, "T": 40}, {"B": 3, "H": 5, "S": 16, "T": 48}]


def of(definition: Definition, sizes: list[dict[str, int]]) -> list[dict[str, int]]:
    variables = [name for name in ("B", "H", "S", "T") if name in definition.axes]
    return [{name: size[name] for name in variables} for size in sizes]


def matched(definition: Definition) -> AttentionKernel:
    found = match_attention(definition, analyses_of(definition, *of(definition, TRACED)))
    assert isinstance(found, AttentionKernel), found
    return found


def reason(definition: Definition) -> str:
    found = match_attention(definition, analyses_of(definition, *of(definition, TRACED)))
    assert isinstance(found, Refusal)
    return found.reason


def check(definition: Definition, parameters: dict[str, str], folder: Path) -> None:
    if parameters.get("PATH") == "AMX" and not amx_is_there():
        pytest.skip("the processor has no AMX")
    function = compiled(matched(definition).render(parameters), folder)
    for size in of(definition, SIZES):
        inputs = random_inputs(definition, size)
        inputs[0] *= 2
        found = call(function, definition, inputs, size)
        # Weights are rounded to bfloat16 before they meet the values, as the reference does.
        assert largest_error(definition, inputs, found) < 3, size


@pytest.mark.sandbox
@pytest.mark.slow
@pytest.mark.parametrize("parameters", PATHS, ids=lambda p: "-".join(p.values()))
@pytest.mark.parametrize("code", [CAUSAL, BY_HAND], ids=["causal", "plain"])
def test_every_path_is_right_at_every_size(
    parameters: dict[str, str], code: str, tmp_path: Path
) -> None:
    torch.manual_seed(1)
    check(make_definition(HEADS, ("B H S 64", BF16), code), parameters, tmp_path)


@pytest.mark.sandbox
@pytest.mark.parametrize(("inputs", "code"), FORMS)
def test_forms(inputs: dict[str, tuple[str, str]], code: str, tmp_path: Path) -> None:
    torch.manual_seed(2)
    check(make_definition(inputs, inputs["q"], code), {}, tmp_path)


@pytest.mark.sandbox
def test_large_scores_do_not_overflow(tmp_path: Path) -> None:
    torch.manual_seed(3)
    definition = make_definition(HEADS, ("B H S 64", BF16), CAUSAL)
    function = compiled(matched(definition).render({}), tmp_path)
    size = {"B": 1, "H": 2, "S": 70}
    inputs = random_inputs(definition, size)
    inputs[0] *= 100
    assert largest_error(definition, inputs, call(function, definition, inputs, size)) < 3


@pytest.mark.parametrize(
    ("inputs", "code", "expected"),
    [
        (HEADS, "torch.softmax(q @ k.mT, -2) @ v", "last axis"),
        (HEADS, "torch.softmax((q * 2) @ k.mT, -1) @ v", "computed"),
        (HEADS, "torch.sigmoid(q @ k.mT) @ v", "sigmoid"),
        (HEADS, "torch.softmax(torch.tanh(q @ k.mT), -1) @ v", "tanh"),
        (HEADS, "torch.softmax(q @ k.mT, -1) @ v + q", "add"),
        (HEADS, "torch.softmax(k @ q.mT, -1).mT @ v", "transpose"),
        (HEADS, "torch.softmax(q @ k.mT * -1, -1) @ v", "scaled by -1"),
        (HEADS, CAUSAL.replace("is_causal=True", "attn_mask=(q @ k.mT) > 0"), "tril"),
        (HEADS, MASKED.format(f"torch.triu({SQUARE}, 2).bool()"), "not the causal one"),
        (HEADS, MASKED.format(f"{SQUARE}.tril().bool()"), "not the causal one"),
        ({n: ("B H S 40", BF16) for n in "qkv"}, CAUSAL, "multiple of 32"),
        ({n: ("B H S 64", "float32") for n in "qkv"}, CAUSAL, "float32"),
    ],
)
def test_what_is_not_understood_is_refused(
    inputs: dict[str, tuple[str, str]], code: str, expected: str
) -> None:
    assert expected in reason(make_definition(inputs, inputs["q"], code))


@pytest.mark.parametrize("name", ["causal_attention", "decode_attention"])
def test_the_library_s_attentions_match(name: str) -> None:
    problem = load_problem(name)
    sizes = [workload.axes for workload in problem.targets[Target.CPU].public]
    found = match_attention(problem.definition, analyses_of(problem.definition, *sizes))
    assert isinstance(found, AttentionKernel), found
    if name == "causal_attention":
        # The template is the kernel of this problem, so that it runs as it is.
        kernel = template_folder("attention") / KERNEL
        assert found.render({}).entry_source == kernel.read_text()
