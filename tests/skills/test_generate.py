"""Row programs: right for every size and type, or refused with the reason."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from problems.definition import Definition
from problems.errors import ConfigError
from problems.speed_of_light import Analysis
from skills.generate import RowProgram, match_row_program
from skills.kernel_text import KERNEL, template_folder
from skills.template import Refusal
from tests.skills.compiled_solution import analyses_of, compiled, make_definition
from tests.skills.row_programs import largest_errors, library_program, program_of

BF16, F16, F32, FP8, I64 = "bfloat16", "float16", "float32", "float8_e4m3fn", "int64"
PROBLEMS = [
    "rmsnorm", "add_rmsnorm", "softmax", "layernorm", "swiglu", "cross_entropy", "row_quant_fp8",
    "rmsnorm_small", "swiglu_small",
]  # fmt: skip
# One, less than a vector, a vector's neighbours, many vectors and a rest; few and many rows.
SHAPES = [(1, 1), (3, 15), (5, 16), (2, 17), (4, 64), (7, 33), (1, 4097), (37, 129), (64, 256)]
VARIANTS = [
    {},
    {"STREAM": "0", "KEEP": "0", "PREFETCH_BYTES": "0", "NEXT_ROW": "0"},
    {"VECTOR_BYTES": "32", "UNROLL": "1", "SERIAL_BELOW": "0"},
    {"UNROLL": "4", "SERIAL_BELOW": "131072"},
]
XY = {"x": ("M N", BF16), "y": ("M N", BF16)}
XW = {"x": ("M N", BF16), "w": ("N", BF16)}
GRAPHS = [
    (XY, BF16, "F.gelu(x) * y"),
    (XY, BF16, "F.gelu(x, approximate='tanh') + y"),
    (XY, BF16, "x * 0.5 + y / 3"),
    (XY, BF16, "torch.where(x > y, x, y * 0.25)"),
    (XY, BF16, "torch.maximum(x, y).clamp(-1, 2)"),
    (XY, BF16, "F.softplus(x) - F.relu(y)"),
    (XY, BF16, "(x > y).to(x.dtype) - (y == y.amax(-1, keepdim=True)) * x"),
    (XY, BF16, "F.hardswish(x) + F.leaky_relu(y) * (y.mean(-1, keepdim=True) > 0)"),
    (XY, BF16, "torch.lerp(F.elu(x), F.mish(y), 0.25).masked_fill(x > 1, 2)"),
    (XY, BF16, "torch.log1p(x.abs()) * torch.rsqrt(y * y + 1)"),
    (XY, F32, "(x.float() + y.float()).exp()"),
    (XY, BF16, "F.softmax(x.float() * 0.125 + y.float(), -1).to(x.dtype)"),
    (XY, BF16, "F.log_softmax(x, -1) + y"),
    (XY, BF16, "x / x.norm(dim=-1, keepdim=True) + y"),
    (XW, BF16, "F.rms_norm(x, (x.shape[-1],), w, 1e-6)"),
    (XW, BF16, "(x - x.mean(-1, keepdim=True)) * w"),
    (XW, BF16, "x * w / (x.abs().amax(-1, keepdim=True) + 1)"),
    (XW, F32, "F.layer_norm(x.float(), (x.shape[-1],), w.float(), None, 1e-5)"),
    ({"x": ("M N", F32), "w": ("N", F32)}, F32, "F.layer_norm(x, (x.shape[-1],), w, w, 1e-5)"),
    ({"x": ("M N", F32), "y": ("M N", F32)}, F32, "torch.tanh(x) * torch.sigmoid(y)"),
    ({"x": ("M N", F16), "y": ("M N", F16)}, F16, "F.silu(x) * y"),
    ({"x": ("M N", F16), "w": ("N", F32)}, F16, "(F.softmax(x.float(), -1) * w).to(x.dtype)"),
    ({"x": ("M N", BF16), "w": ("N", F32)}, BF16, "(x.float() * w).to(x.dtype)"),
    ({"x": ("M N", BF16), "s": ("M 1", F32)}, BF16, "(x.float() * s).to(x.dtype)"),
    ({"x": ("M N", BF16), "s": ("M", F32)}, BF16, "(x.float() * s[:, None]).to(x.dtype)"),
    ({"x": ("M N", BF16), "s": ("1", F32)}, BF16, "(x.float() * s).to(x.dtype)"),
    ({"x": ("M N", BF16)}, FP8, "(x.float() * 16).clamp(-448, 448).to(torch.float8_e4m3fn)"),
    ({"x": ("M N", F32)}, FP8, "(x / 64).clamp(-448, 448).to(torch.float8_e4m3fn)"),
]
XYZ = {"x": ("B M N", BF16), "c": ("M N", BF16), "r": ("B 1 N", BF16)}
MORE_AXES = [
    (XYZ, "B M N", "x * c + r"),
    (XYZ, "B M N", "F.softmax(x.float() + c.float(), -1).to(x.dtype) * r"),
    (XYZ, "B M N", "F.rms_norm(x, (x.shape[-1],), None, 1e-6) * c"),
    (XYZ, "B M N", "x - c.amax(-1, keepdim=True) * r"),
    (XYZ, "B M N", "x * c[None] + r.squeeze(1).unsqueeze(1)"),
    ({"x": ("B M N", BF16), "s": ("B 1 1", F32)}, "B M N", "(x.float() * s).to(x.dtype)"),
    ({"x": ("B M N", BF16), "s": ("M 1", F32)}, "B M N", "(x.float() / (s.abs() + 1)).to(x.dtype)"),
    ({"x": ("B M N", BF16)}, "B M", "x.amax(-1)"),
    ({"x": ("N", BF16), "y": ("N", BF16)}, "N", "x * y - x.mean()"),
    (
        {"x": ("B M N", BF16)}, "B M N",
        "torch.cat((x[..., x.shape[-1] // 2 :], -x[..., : x.shape[-1] // 2]), -1) * x",
    ),
    (
        {"x": ("B M N", BF16), "y": ("B M N", BF16)}, "B M N",
        "F.softmax(torch.where(y > 0, x.float(), float('-inf')), -1).to(x.dtype)",
    ),
]  # fmt: skip
HALF, LOWER, UPPER = "x.shape[-1] // 2", "x[..., : x.shape[-1] // 2]", "x[..., x.shape[-1] // 2 :]"
PARTS = [
    f"x - {LOWER}.mean(-1, keepdim=True)",
    f"x - {UPPER}.amax(-1, keepdim=True) * x.sum(-1, keepdim=True)",
    f"F.softmax(torch.cat(({LOWER} * 2, {UPPER}), -1), -1)",
    f"x * torch.cat(({LOWER} * 2, {UPPER}), -1).float().var(-1, keepdim=True).to(x.dtype)",
    f"x * torch.cat(({LOWER}.sum(-1, keepdim=True).expand(-1, {HALF}), {UPPER}), -1)",
    f"x + ({LOWER} * {UPPER}).sum(-1, keepdim=True)",
    f"torch.cat((torch.tanh({UPPER}), F.layer_norm({LOWER}, ({HALF},))), -1)",
]
SUMS = [
    ("x.float().sum(-1)", F32), ("x.float().mean(-1)", F32), ("x.float().amax(-1)", F32),
    ("x.amin(-1)", BF16), ("x.float().var(-1, correction=0)", F32),
    ("torch.logsumexp(x.float(), -1)", F32), ("x.float().square().sum(-1).sqrt()", F32),
    ("(x.float() - x.float().mean(-1, keepdim=True)).abs().mean(-1)", F32),
]  # fmt: skip
REFUSED = [
    ({"x": ("M N", BF16)}, ("M N", BF16), "x.cumsum(-1)", "cumsum"),
    ({"x": ("M N", BF16)}, ("M N", BF16), "F.softmax(x, 0)", "last axis"),
    ({"x": ("M N", "float64")}, ("M N", "float64"), "x * 2", "float64"),
    ({"x": ("M N", BF16)}, ("N M", BF16), "x.t() * 2", "per element nor one per row"),
    ({"x": ("M N", BF16)}, ("N", BF16), "x.sum(0)", "per element nor one per row"),
    ({"x": ("M N", BF16)}, ("M N", BF16), "x ** 1.5", "power"),
    ({"x": ("M N", BF16)}, ("M N", BF16), "x / x.shape[-1]", "depends on the workload's sizes"),
    ({"x": ("M N", BF16)}, ("M N", BF16), "(x * 3).to(torch.int32).to(x.dtype)", "integers"),
    ({"x": ("M N", BF16)}, ("M 1", BF16), "(x > 0).sum(-1, keepdim=True).to(x.dtype)", "summed"),
    ({"x": ("M N", "int8")}, ("M N", "int8"), "x + 1", "int8"),
]
EXPECTED_REASONS = (
    "along and across rows",
    "two arrangements of its axes",
    "no simple share of a row",
)
SIZES = [{"M": 12, "N": 48}, {"M": 20, "N": 80}, {"M": 1, "N": 24}]


def sizes_of(definition: Definition, shape: tuple[int, int]) -> dict[str, int]:
    names = [name for name, axis in definition.axes.items() if axis.type == "var"]
    return dict(zip(names, shape, strict=True))


def check(definition: Definition, folder: Path, parameters: dict[str, str]) -> None:
    analyses = analyses_of(definition, *SIZES)
    function = compiled(program_of(definition, analyses).render(parameters), folder)
    for shape in SHAPES:
        if "var" in definition.reference and shape[1] == 1:
            continue
        errors = largest_errors(function, definition, sizes_of(definition, shape))
        assert max(errors) < 1.5, shape


def reason(definition: Definition, analyses: list[Analysis]) -> str:
    refusal = match_row_program(definition, analyses)
    assert isinstance(refusal, Refusal), "it was not refused"
    return refusal.reason


def test_the_template_is_what_rmsnorm_renders_to() -> None:
    """After a change of the generator, `python -m tests.golden` writes it anew."""
    text = library_program("rmsnorm").render({}).entry_source
    assert (template_folder("row_program") / KERNEL).read_text() == text


@pytest.mark.sandbox
@pytest.mark.slow
@pytest.mark.parametrize("problem", PROBLEMS)
def test_the_library_s_problems_at_odd_sizes(problem: str, tmp_path: Path) -> None:
    program = library_program(problem)
    function = compiled(program.render({}), tmp_path)
    for shape in SHAPES:
        if problem == "layernorm" and shape[1] == 1:
            continue
        sizes = sizes_of(program.definition, shape)
        for error in largest_errors(function, program.definition, sizes):
            assert error < 1.5, sizes


@pytest.mark.sandbox
@pytest.mark.slow
@pytest.mark.parametrize("parameters", VARIANTS, ids=lambda p: "-".join(p.values()) or "default")
@pytest.mark.parametrize("problem", ["add_rmsnorm", "softmax", "row_quant_fp8", "swiglu", "rope"])
def test_every_parameter_gives_the_same_answer(
    problem: str, parameters: dict[str, str], tmp_path: Path
) -> None:
    program = library_program(problem)
    function = compiled(program.render(parameters), tmp_path)
    shapes = [(2, 3, 5), (1, 1, 1)] if problem == "rope" else [(3, 513), (16, 512), (1, 31)]
    names = [n for n, a in program.definition.axes.items() if a.type == "var"]
    for shape in shapes:
        sizes = dict(zip(names, shape, strict=True))
        for error in largest_errors(function, program.definition, sizes):
            assert error < 1.5, sizes


@pytest.mark.sandbox
@pytest.mark.slow
@pytest.mark.parametrize(("inputs", "dtype", "code"), GRAPHS, ids=lambda v: str(v)[:40])
def test_graphs_without_a_template(
    inputs: dict[str, tuple[str, str]], dtype: str, code: str, tmp_path: Path
) -> None:
    check(make_definition(inputs, ("M N", dtype), code), tmp_path, {})


@pytest.mark.sandbox
@pytest.mark.slow
@pytest.mark.parametrize(("code", "dtype"), SUMS)
def test_one_value_a_row(code: str, dtype: str, tmp_path: Path) -> None:
    check(make_definition({"x": ("M N", BF16)}, ("M", dtype), code), tmp_path, {})


@pytest.mark.sandbox
@pytest.mark.slow
@pytest.mark.parametrize(("inputs", "output", "code"), MORE_AXES, ids=lambda v: str(v)[:40])
def test_one_and_three_axes(
    inputs: dict[str, tuple[str, str]], output: str, code: str, tmp_path: Path
) -> None:
    definition = make_definition(inputs, (output, BF16), code)
    sizes = [{"B": 2, "M": 6, "N": 48}, {"B": 3, "M": 5, "N": 80}, {"B": 1, "M": 1, "N": 16}]
    axes = list(definition.axes)
    analyses = analyses_of(definition, *({a: s[a] for a in axes} for s in sizes))
    function = compiled(program_of(definition, analyses).render({}), tmp_path)
    for b, m, n in [(1, 1, 2), (2, 3, 18), (3, 2, 34), (1, 5, 128), (4, 1, 4098)]:
        chosen = {a: {"B": b, "M": m, "N": n}[a] for a in axes}
        assert max(largest_errors(function, definition, chosen)) < 1.5, chosen


@pytest.mark.sandbox
@pytest.mark.slow
@pytest.mark.parametrize("code", PARTS)
def test_parts_of_rows(code: str, tmp_path: Path) -> None:
    definition = make_definition({"x": ("M N", BF16)}, ("M N", BF16), code)
    function = compiled(
        program_of(definition, analyses_of(definition, *SIZES)).render({}), tmp_path
    )
    for shape in [(3, 32), (5, 130), (2, 6), (1, 8194), (4, 512), (3, 96)]:
        errors = largest_errors(function, definition, sizes_of(definition, shape))
        assert max(errors) < 1.5, shape


@pytest.mark.sandbox
@pytest.mark.slow
@pytest.mark.parametrize("code", ["F.silu(g) * u", "F.layer_norm(g + u, g.shape[-1:])"])
def test_rows_that_come_in_halves(code: str, tmp_path: Path) -> None:
    definition = Definition.model_validate(
        {
            "name": "packed",
            "axes": {
                "M": {"type": "var"},
                "N": {"type": "var"},
                "W": {"type": "expr", "expression": "2 * N"},
            },
            "inputs": {"x": {"shape": ["M", "W"], "dtype": BF16}},
            "outputs": {"out": {"shape": ["M", "N"], "dtype": BF16}},
            "reference": "import torch\nimport torch.nn.functional as F\n\n\ndef run(x):\n"
            f"    g, u = x.chunk(2, -1)\n    return {code}\n",
        }
    )
    function = compiled(
        program_of(definition, analyses_of(definition, *SIZES)).render({}), tmp_path
    )
    for shape in [(3, 32), (5, 65), (2, 3), (1, 4097), (64, 48)]:
        errors = largest_errors(function, definition, sizes_of(definition, shape))
        assert max(errors) < 1.5, shape


@pytest.mark.parametrize(("inputs", "output", "code", "message"), REFUSED)
def test_other_graphs_are_refused_with_the_reason(
    inputs: dict[str, tuple[str, str]], output: tuple[str, str], code: str, message: str
) -> None:
    definition = make_definition(inputs, output, code)
    assert message in reason(definition, analyses_of(definition, *SIZES))


def test_without_an_analysis_there_is_no_program() -> None:
    definition = make_definition({"x": ("M N", BF16)}, ("M N", BF16), "x * 2")
    assert "not analysed" in reason(definition, [])


def test_an_unknown_parameter_names_the_valid_ones() -> None:
    program = library_program("rmsnorm")
    assert set(program.defaults()) == {p.name for p in program.template.parameters}
    with pytest.raises(ConfigError, match="no parameter 'SPEED'; parameters: STREAM"):
        program.render({"SPEED": "9"})
    with pytest.raises(ConfigError, match="UNROLL: no value '3'; values: 1, 2, 4"):
        program.render({"UNROLL": "3"})


# Random graphs: continuous functions of bounded slope, so that rounding is not magnified.
_LEAVES = ["x", "y", "w", "r"]
_UNARY = [
    "torch.tanh({a})", "torch.sigmoid({a})", "F.silu({a})", "F.gelu({a})", "({a}).abs()", "-({a})",
    "F.relu({a})", "({a}).clamp(-1, 2)", "torch.exp(-({a}).abs())", "({a}) * 0.5 + 1",
    "torch.rsqrt(({a}) * ({a}) + 1)", "({a}).square() / (({a}).square() + 1)",
]  # fmt: skip
_BINARY = [
    "({a}) + ({b})", "({a}) - ({b})", "torch.maximum({a}, {b})", "torch.tanh({a}) * ({b})",
    "({a}) / (1 + ({b}).abs())", "torch.where({a} > {b}, {a}, {b})",
]  # fmt: skip
_ROWS = [
    "{a} - ({a}).mean(-1, keepdim=True)", "{a} / (1 + ({a}).abs().amax(-1, keepdim=True))",
    "F.softmax({a}, -1)", "{a} * torch.rsqrt(({a}).pow(2).mean(-1, keepdim=True) + 1)",
    "F.layer_norm({a}, ({a}).shape[-1:], None, None, 1.0)", "{a} - torch.logsumexp({a}, -1, True)",
]  # fmt: skip


def _inner(child: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    one = st.builds(lambda f, a: f.format(a=a), st.sampled_from(_UNARY + _ROWS), child)
    two = st.builds(lambda f, a, b: f.format(a=a, b=b), st.sampled_from(_BINARY), child, child)
    return one | two


@pytest.mark.sandbox
@pytest.mark.slow
@settings(max_examples=25, deadline=None, derandomize=True, database=None)
@given(
    code=st.recursive(st.sampled_from(_LEAVES), _inner, max_leaves=6),
    dtypes=st.tuples(*(st.sampled_from((BF16, F16, F32)) for _ in range(5))),
)
def test_a_random_graph_is_right_or_refused(code: str, dtypes: tuple[str, ...]) -> None:
    shapes = dict(zip(_LEAVES, ("M N", "M N", "N", "M 1"), strict=True))
    inputs = {leaf: (shapes[leaf], d) for leaf, d in zip(_LEAVES, dtypes, strict=False)}
    widened = "\n    ".join(f"{leaf} = {leaf}.float()" for leaf in _LEAVES)
    definition = make_definition(inputs, ("M N", dtypes[4]), code)
    body = (
        f"    {widened}\n    result = (x + y) * 0 + {code}\n    return result.to(torch.{dtypes[4]})"
    )
    reference = definition.reference.replace(f"    return {code}", body)
    definition = definition.model_copy(update={"reference": reference})
    instance = match_row_program(definition, analyses_of(definition, *SIZES))
    if isinstance(instance, Refusal):
        assert any(word in instance.reason for word in EXPECTED_REASONS), instance.reason
        return
    assert isinstance(instance, RowProgram)
    with tempfile.TemporaryDirectory() as folder:
        function = compiled(instance.render({}), Path(folder))
        for shape in [(1, 9), (3, 15), (2, 77), (5, 128)]:
            errors = largest_errors(function, definition, sizes_of(definition, shape))
            assert max(errors) < 2, (shape, code)
