"""Every example in the bundled manuals is real: it validates, compiles, and computes."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from problems.solution import Solution
from sandbox.guest.cpp_builder import CppBuilder
from skills.skill import SKILLS_FOLDER, bundled_skills

_FENCE = re.compile(r"^```(\w+) example=(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_UNTAGGED = re.compile(r"^```(?:cpp|json|python)\n", re.MULTILINE)


def example(skill: str, language: str, name: str) -> str:
    body = next(s.body for s in bundled_skills() if s.name == skill)
    found = [
        text for kind, title, text in _FENCE.findall(body) if (kind, title) == (language, name)
    ]
    assert len(found) == 1
    return str(found[0])


def run_cpp(
    folder: Path, source: str, tensors: Sequence[torch.Tensor], axes: Mapping[str, int]
) -> None:
    """Through the builder of the sandbox: the calling convention is the real one."""
    (folder / "kernel.cpp").write_text(source)
    plan: dict[str, Any] = {
        "sources": ["kernel.cpp"],
        "entry_path": "kernel.cpp",
        "entry_symbol": "run",
    }
    builder = CppBuilder()
    builder.build(plan, folder, folder / "artifact.so")
    specs = [{"shape": list(t.shape), "dtype": str(t.dtype).partition(".")[2]} for t in tensors]
    call = {"inputs": specs[:-1], "outputs": specs[-1:], "axes": dict(axes)}
    function = builder.load(plan, folder / "artifact.so")
    builder.bind(plan, function, call, [tensor.data_ptr() for tensor in tensors])()


def rmsnorm(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    scaled = x.double() * torch.rsqrt(x.double().pow(2).mean(-1, keepdim=True) + 1e-6)
    return scaled * weight.double()


def test_every_example_is_tagged_so_that_it_is_tested_here() -> None:
    names = []
    for skill in bundled_skills():
        assert not _UNTAGGED.search(skill.body), f"{skill.name}: an example without a name"
        names += [f"{language} {title}" for language, title, _ in _FENCE.findall(skill.body)]
    assert names == ["cpp scale", "cpp tile", "json solution", "cpp rmsnorm", "python rmsnorm"]


def test_the_solution_of_the_manual_is_valid() -> None:
    shown = json.loads(example("framework-awareness", "json", "solution"))
    stored = json.loads((SKILLS_FOLDER / "framework-awareness/templates/rmsnorm.json").read_text())
    solution = Solution.model_validate(stored)
    assert Solution.model_validate(shown).spec == solution.spec
    assert solution.entry_source == example("framework-awareness", "cpp", "rmsnorm")
    assert {**shown, "sources": 0} == {**stored, "sources": 0}


@pytest.mark.sandbox
@pytest.mark.parametrize("shape", [(4, 1024), (3, 77), (1, 1)])
def test_the_rmsnorm_of_the_manual_computes_it(tmp_path: Path, shape: tuple[int, int]) -> None:
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(shape, generator=generator).bfloat16()
    weight = torch.randn(shape[1], generator=generator).bfloat16()
    output = torch.full(shape, float("nan"), dtype=torch.bfloat16)
    axes = {"rows": shape[0], "hidden": shape[1]}
    source = example("framework-awareness", "cpp", "rmsnorm")
    run_cpp(tmp_path, source, [x, weight, output], axes)
    torch.testing.assert_close(output.double(), rmsnorm(x, weight), atol=8e-3, rtol=1.6e-2)


def test_the_pytorch_example_computes_it() -> None:
    names: dict[str, Any] = {}
    exec(example("framework-awareness", "python", "rmsnorm"), names)
    x, weight = torch.randn(4, 64).bfloat16(), torch.randn(64).bfloat16()
    output = torch.empty_like(x)
    names["run"](x, weight, output)
    torch.testing.assert_close(output.double(), rmsnorm(x, weight), atol=8e-3, rtol=1.6e-2)


@pytest.mark.sandbox
@pytest.mark.parametrize("n", [0, 1, 1000, 100_003])
def test_the_streaming_example_writes_every_element_and_no_other(tmp_path: Path, n: int) -> None:
    x, memory = torch.randn(n + 1), torch.full((n + 2,), float("nan"))
    run_cpp(tmp_path, example("cpp", "cpp", "scale"), [x[1:], memory[1 : n + 1]], {"n": n})
    assert torch.equal(memory[1 : n + 1], 2 * x[1:])
    assert memory[0].isnan()
    assert memory[n + 1].isnan()


@pytest.mark.sandbox
def test_the_tile_example_multiplies(tmp_path: Path) -> None:
    a, b = torch.randn(16, 32).bfloat16(), torch.randn(32, 16).bfloat16()
    c = torch.full((16, 16), float("nan"))
    run_cpp(tmp_path, example("cpp", "cpp", "tile"), [a, b, c], {"m": 16, "k": 32, "n": 16})
    torch.testing.assert_close(c, a.float() @ b.float(), atol=1e-4, rtol=1e-4)
