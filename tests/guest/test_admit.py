from __future__ import annotations

from typing import Any

from sandbox.guest.admit import admission_of
from tests.guest.reference_plans import plan, tensor

X, Y = tensor("x", [16, 64]), tensor("y", [16, 64])
NORMALISE = "def run(x):\n    return x / x.pow(2).mean(-1, keepdim=True).sqrt()\n"


def checks(
    body: str,
    inputs: list[Any] | None = None,
    outputs: list[Any] | None = None,
    tolerance: dict[str, Any] | None = None,
) -> dict[str, bool]:
    report = admission_of(plan(body, inputs or [X], outputs or [Y], tolerance))
    assert "error" not in report, report
    (workload,) = report["workloads"]
    return {check["name"]: check["passed"] for check in workload["checks"]}


def failed(*arguments: Any, **named: Any) -> set[str]:
    return {name for name, passed in checks(*arguments, **named).items() if not passed}


def test_a_fair_problem_passes_everything() -> None:
    found = checks(NORMALISE)
    assert set(found) == {
        "passes itself", "passes itself under another seed", "repeats itself",
        "refuses y: zeros", "refuses y: ones", "refuses y: the mean", "refuses y: noise",
        "refuses y: another seed's answer", "refuses y: a copy of x", "reacts to x",
    }  # fmt: skip
    assert all(found.values())


def test_a_constant_output_is_refused() -> None:
    assert failed("def run(x):\n    return torch.ones_like(x)\n") == {
        "refuses y: ones", "refuses y: the mean", "refuses y: noise",
        "refuses y: another seed's answer", "reacts to x",
    }  # fmt: skip


def test_an_ignored_input_is_refused() -> None:
    body = "def run(x, bias):\n    return x * 2 + 1e-9 * bias\n"
    assert failed(body, [X, tensor("bias", [64])]) == {"reacts to bias"}


def test_an_input_that_never_changes_is_disturbed() -> None:
    body = """def run(x, table):
    return x * table
def get_inputs(axes, device):
    return {"x": torch.randn(16, 64), "table": torch.arange(1.0, 65.0)}
"""
    custom = [X | {"kind": "custom"}, tensor("table", [64], kind="custom")]
    assert failed(body, custom) == set()
    constant = body.replace("torch.arange(1.0, 65.0)", "torch.zeros(64)").replace("*", "+")
    assert failed(constant, custom) == {"refuses y: a copy of x", "reacts to table"}


def test_a_lax_tolerance_is_refused() -> None:
    lax = {"max_atol": 10.0, "max_rtol": 0.0, "required_matched_ratio": 0.99}
    assert "refuses y: zeros" in failed(NORMALISE, tolerance=lax)


def test_one_cheap_output_of_two_is_refused() -> None:
    body = "def run(x):\n    return x * 2, x.mean(-1) * 1e-6\n"
    assert "refuses mean: zeros" in failed(body, outputs=[Y, tensor("mean", [16])])


def test_an_inaccurate_reference_is_refused() -> None:
    body = "def run(x):\n    return (x * 3).to(torch.bfloat16) / 3 * x\n"
    outputs = [tensor("y", [16, 64])]
    exact = {"max_atol": 0.0, "max_rtol": 1e-7, "required_matched_ratio": 1.0}
    assert failed(body, outputs=outputs, tolerance=exact) == {
        "passes itself", "passes itself under another seed",
    }  # fmt: skip


def test_a_random_reference_is_refused() -> None:
    body = "def run(x):\n    return x * 2 + torch.rand(16, 64)\n"
    assert "repeats itself" in failed(body)


def test_integers_and_booleans() -> None:
    body = "def run(x):\n    return x.argmax(-1), x > 0\n"
    outputs = [tensor("place", [16], "int64"), tensor("positive", [16, 64], "bool")]
    assert failed(body, outputs=outputs) == set()


def test_a_failing_reference_is_one_line() -> None:
    report = admission_of(plan("def run(x):\n    return x.nothing\n", [X], [Y]))
    assert report["error"].startswith("reference line 4: AttributeError")
    wrong = admission_of(plan("def run(x):\n    return x.sum(-1)\n", [X], [Y]))
    assert wrong["error"].startswith("reference: output y is (16,) torch.float32, declared")
