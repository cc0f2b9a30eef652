"""The matrix product template: right on every path, size and layout; refuses all other graphs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from problems.catalog import load_problem
from problems.definition import Definition
from problems.errors import ConfigError
from problems.problem import Target
from skills.kernel_text import KERNEL, template_folder
from skills.match_matrix_product import MatrixProduct, match_matrix_product
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

BF16, F16, F32 = "bfloat16", "float16", "float32"
SIZES = [{"M": 24, "N": 48, "K": 64}, {"M": 40, "N": 96, "K": 32}]
# One, primes, a tile's size and its neighbours: whole tiles, tails of every axis, less than a tile.
SHAPES = [
    (1, 1, 1), (1, 7, 31), (3, 17, 33), (16, 16, 32), (17, 33, 65), (64, 128, 256), (5, 300, 1000),
    (65, 47, 127), (100, 70, 8), (1, 513, 1024), (40, 16, 64), (33, 15, 64), (2, 64, 2051),
]  # fmt: skip
PATHS = [
    {"PATH": "DOT"}, {"PATH": "DOT", "STREAM": "LHS", "DOT_ROWS": "4", "PREFETCH_BYTES": "0"},
    {"PATH": "DOT", "DOT_ROWS": "2", "DOT_COLUMNS": "8"}, {"PATH": "AMX"},
    {"PATH": "AMX", "STREAM": "LHS", "PREFETCH_BYTES": "0"},
    {"PATH": "AMX", "ROW_TILES": "1", "COLUMN_TILES": "2", "PREFETCH_LEVEL": "3"},
    {"PATH": "AMX", "ROW_TILES": "2", "COLUMN_TILES": "1"}, {"PATH": "AUTOMATIC"},
]  # fmt: skip
LINEAR = {"x": ("M K", BF16), "w": ("N K", BF16)}
RIGHT = {"x": ("M K", BF16), "w": ("K N", BF16)}
WIDENED = "x @ w.t() if x.dtype == torch.double else x.float() @ w.float().t()"
SHARED = "torch.bmm(x, w.expand(x.shape[0], -1, -1))"
BATCHED = {"x": ("B M K", BF16), "w": ("B N K", BF16)}
EPILOGUES = [
    ({**LINEAR, "c": ("N", BF16)}, "F.relu(F.linear(x, w, c))"),
    ({**LINEAR, "c": ("N", F32)}, "F.gelu(F.linear(x, w).to(c.dtype) + c)"),
    ({**LINEAR, "c": ("M N", BF16)}, "F.silu(x @ w.t()) * 0.5 + c"),
    ({**LINEAR, "c": ("M 1", BF16)}, "torch.tanh(x @ w.t() * c)"),
    ({**LINEAR, "c": ("N M", BF16)}, "torch.sigmoid(x @ w.t() + c.t())"),
    ({**LINEAR, "c": ("N", BF16)}, "torch.clamp(torch.addmm(c, x, w.t(), alpha=0.5), -1, 1)"),
    ({**LINEAR, "c": ("N", BF16)}, "F.gelu(x @ w.t() - c, approximate='tanh') / 3"),
    ({**LINEAR, "c": ("M N", BF16)}, "torch.where((y := x @ w.t()) > c, y, y * 0.1)"),
]


def matched(definition: Definition, *sizes: dict[str, int]) -> MatrixProduct:
    instance = match_matrix_product(definition, analyses_of(definition, *(sizes or SIZES)))
    assert isinstance(instance, MatrixProduct), instance
    return instance


def check(function: Any, definition: Definition, sizes: dict[str, int]) -> None:
    inputs = random_inputs(definition, sizes)
    inputs[0] *= sizes["K"] ** -0.5
    found = call(function, definition, inputs, sizes)
    assert largest_error(definition, inputs, found) < 1.5, sizes


def reason(definition: Definition, *sizes: dict[str, int]) -> str:
    refusal = match_matrix_product(definition, analyses_of(definition, *(sizes or SIZES)))
    assert isinstance(refusal, Refusal)
    return refusal.reason


@pytest.mark.sandbox
@pytest.mark.slow
@pytest.mark.parametrize("parameters", PATHS, ids=lambda p: "-".join(p.values()))
def test_every_path_is_right_at_every_size(parameters: dict[str, str], tmp_path: Path) -> None:
    if parameters["PATH"] == "AMX" and not amx_is_there():
        pytest.skip("the processor has no AMX")
    torch.manual_seed(1)
    definition = make_definition(LINEAR, ("M N", BF16), "x @ w.t()")
    function = compiled(matched(definition).render(parameters), tmp_path)
    for M, N, K in SHAPES:
        check(function, definition, {"M": M, "N": N, "K": K})


@pytest.mark.sandbox
@pytest.mark.parametrize(("inputs", "code"), EPILOGUES, ids=[code for _, code in EPILOGUES])
def test_epilogues(inputs: dict[str, tuple[str, str]], code: str, tmp_path: Path) -> None:
    torch.manual_seed(2)
    dtype = F32 if "to(c.dtype)" in code else BF16
    definition = make_definition(inputs, ("M N", dtype), code)
    function = compiled(matched(definition).render({}), tmp_path)
    for M, N, K in [(1, 33, 64), (19, 35, 40), (64, 96, 128)]:
        check(function, definition, {"M": M, "N": N, "K": K})


@pytest.mark.sandbox
@pytest.mark.parametrize(
    ("inputs", "output", "code"),
    [
        (RIGHT, ("M N", BF16), "x @ w"),
        ({"x": ("K M", BF16), "w": ("N K", BF16)}, ("M N", BF16), "x.t() @ w.t()"),
        (LINEAR, ("M N", BF16), "(w @ x.t()).t()"),
        (LINEAR, ("M N", F32), WIDENED),
        ({"x": ("K", BF16), "w": ("N K", BF16)}, ("N", BF16), "w @ x"),
        ({"x": ("M K", F32), "w": ("N K", F32)}, ("M N", F32), "x @ w.t()"),
        ({"x": ("M K", F16), "w": ("N K", F16)}, ("M N", F16), "x @ w.t()"),
        (BATCHED, ("B M N", BF16), "x @ w.transpose(1, 2)"),
        ({**BATCHED, "c": ("B N", BF16)}, ("B M N", BF16), "x @ w.transpose(1, 2) + c[:, None]"),
        ({"x": ("B M K", BF16), "w": ("N K", BF16)}, ("B M N", BF16), "F.linear(x, w)"),
        ({"x": ("B M K", BF16), "w": ("K N", BF16)}, ("B M N", BF16), SHARED),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_layouts_types_and_batches(
    inputs: dict[str, tuple[str, str]], output: tuple[str, str], code: str, tmp_path: Path
) -> None:
    torch.manual_seed(3)
    definition = make_definition(inputs, output, code)
    names = set(definition.axes)
    shapes = [{"B": 3, "M": 24, "N": 48, "K": 64}, {"B": 2, "M": 40, "N": 96, "K": 32}]
    traced = [{name: shape[name] for name in names} for shape in shapes]
    function = compiled(matched(definition, *traced).render({}), tmp_path)
    for B, M, N, K in [(1, 1, 33, 64), (3, 19, 35, 40), (2, 64, 96, 128)]:
        sizes = {"B": B, "M": M, "N": N, "K": K}
        check(function, definition, {name: sizes[name] for name in names})


@pytest.mark.sandbox
@pytest.mark.parametrize("size", [{"M": 0, "N": 5, "K": 7}, {"M": 2, "N": 0, "K": 7}])
def test_an_empty_product_writes_nothing(size: dict[str, int], tmp_path: Path) -> None:
    definition = make_definition(LINEAR, ("M N", BF16), "x @ w.t()")
    function = compiled(matched(definition).render({}), tmp_path)
    assert call(function, definition, random_inputs(definition, size), size).numel() == 0


@pytest.mark.sandbox
def test_no_terms_give_zeros(tmp_path: Path) -> None:
    definition = make_definition(LINEAR, ("M N", BF16), "x @ w.t()")
    function = compiled(matched(definition).render({}), tmp_path)
    size = {"M": 9, "N": 5, "K": 0}
    assert call(function, definition, random_inputs(definition, size), size).eq(0).all()


@pytest.mark.parametrize(
    ("inputs", "code", "expected"),
    [
        (LINEAR, "(x * 2) @ w.t()", "computed with before the product"),
        (LINEAR, "torch.softmax(x @ w.t(), -1)", "amax"),
        (LINEAR, "(x @ w.t()) + (x @ w.t().clone() * 2)", "more than one matrix product"),
        ({**LINEAR, "c": ("N", BF16)}, "x @ w.t() + torch.exp(c)", "computed with before"),
        (LINEAR, "torch.erfinv(x @ w.t())", "erfinv"),
        (LINEAR, "(x @ w.t()).cumsum(0)", "cumsum"),
        (LINEAR, "torch.triu(x @ w.t())", "triu"),
    ],
)
def test_what_is_not_understood_is_refused(
    inputs: dict[str, tuple[str, str]], code: str, expected: str
) -> None:
    assert expected in reason(make_definition(inputs, ("M N", BF16), code))


def test_a_size_that_differs_between_workloads_is_no_constant() -> None:
    definition = make_definition(LINEAR, ("M N", BF16), "x @ w.t() * x.shape[1] ** -0.5")
    assert "differs between workloads" in reason(definition)


def test_without_an_analysis_there_is_no_match() -> None:
    definition = make_definition(LINEAR, ("M N", BF16), "x @ w.t()")
    refusal = match_matrix_product(definition, [])
    assert isinstance(refusal, Refusal)


def test_float64_is_refused() -> None:
    inputs = {"x": ("M K", "float64"), "w": ("N K", "float64")}
    assert "float64" in reason(make_definition(inputs, ("M N", "float64"), "x @ w.t()"))


def test_the_larger_operand_is_streamed() -> None:
    tall = [{"M": 96, "N": 16, "K": 64}, {"M": 64, "N": 24, "K": 32}]
    definition = make_definition(LINEAR, ("M N", BF16), "x @ w.t()")
    assert matched(definition).defaults()["STREAM"] == "RHS"
    assert matched(definition, *tall).defaults()["STREAM"] == "LHS"


def test_an_unknown_value_names_the_valid_ones() -> None:
    definition = make_definition(LINEAR, ("M N", BF16), "x @ w.t()")
    with pytest.raises(ConfigError, match="values: AUTOMATIC, AMX, DOT"):
        matched(definition).render({"PATH": "GPU"})


@pytest.mark.parametrize("name", ["gemv", "gemm_skinny", "gemm_bias_gelu"])
def test_the_library_s_products_match(name: str) -> None:
    problem = load_problem(name)
    sizes = [workload.axes for workload in problem.targets[Target.CPU].public]
    instance = matched(problem.definition, *sizes)
    if name == "gemm_bias_gelu":
        kernel = template_folder("matrix_product") / KERNEL
        # The template is the kernel of this problem, so that it runs as it is.
        assert instance.render({}).entry_source == kernel.read_text()
