from __future__ import annotations

import json
from pathlib import Path

import pytest

from agent.solution_file import load_solution
from problems.catalog import load_problem
from problems.errors import ConfigError
from problems.solution import Language

DEFINITION = load_problem("rmsnorm").definition
CPP = 'extern "C" void run(const void* x, const void* w, void* y) {}\n'
SOLUTION = {
    "name": "mine",
    "definition": "rmsnorm",
    "author": "me",
    "spec": {"languages": ["cpp"], "entry_point": "kernel.cpp::run"},
    "sources": [{"path": "kernel.cpp", "content": CPP}],
}
ARGUMENTS = ", ".join(DEFINITION.inputs)
OUTPUTS = ", ".join(DEFINITION.outputs)


def test_a_bare_cpp_file(tmp_path: Path) -> None:
    (tmp_path / "fast.cpp").write_text(CPP)
    solution = load_solution(tmp_path / "fast.cpp", DEFINITION)
    assert solution.language is Language.CPP
    assert solution.spec.entry_point == "fast.cpp::run"
    assert solution.spec.destination_passing_style


@pytest.mark.parametrize(
    ("arguments", "writes"), [(ARGUMENTS, False), (f"{ARGUMENTS}, {OUTPUTS}", True)]
)
def test_a_bare_python_file_by_its_arguments(tmp_path: Path, arguments: str, writes: bool) -> None:
    (tmp_path / "fast.py").write_text(f"def run({arguments}):\n    return x\n")
    solution = load_solution(tmp_path / "fast.py", DEFINITION)
    assert solution.language is Language.PYTORCH
    assert solution.spec.destination_passing_style is writes


def test_a_compiled_python_entry_is_found(tmp_path: Path) -> None:
    (tmp_path / "fast.py").write_text("import torch\nrun = torch.compile(lambda x, w: x)\n")
    assert not load_solution(tmp_path / "fast.py", DEFINITION).spec.destination_passing_style


def test_a_folder_with_headers(tmp_path: Path) -> None:
    (tmp_path / "kernel.cpp").write_text('#include "lib/part.h"\n' + CPP)
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "part.h").write_text("#pragma once\n")
    solution = load_solution(tmp_path, DEFINITION)
    assert {source.path for source in solution.sources} == {"kernel.cpp", "lib/part.h"}


def test_a_folder_with_solution_json_and_its_files(tmp_path: Path) -> None:
    data = SOLUTION | {"sources": [{"path": "kernel.cpp"}]}
    (tmp_path / "solution.json").write_text(json.dumps(data))
    (tmp_path / "kernel.cpp").write_text(CPP)
    assert load_solution(tmp_path, DEFINITION).entry_source == CPP
    assert load_solution(tmp_path / "solution.json", DEFINITION).name == "mine"


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("absent.cpp", None, "expected solution.json, a folder"),
        ("x.rs", "", "unknown kind of file"),
        ("x.cpp", "int go() {}", "no function run"),
        ("x.py", "def go(): pass", "no function run"),
        ("x.py", "def run(a): pass", f"must take {len(DEFINITION.inputs)}"),
        ("x.json", "{", "x.json"),
        ("x.json", "[]", "x.json"),
        ("x.json", json.dumps({"name": "a"}), "Field required"),
        ("x.json", json.dumps(SOLUTION | {"sources": []}), "sources"),
        (
            "x.json",
            json.dumps(
                SOLUTION | {"spec": {"languages": ["cpp"], "entry_point": "kernel.cpp::gone"}}
            ),
            "no function 'gone'",
        ),
        (
            "x.json",
            json.dumps(SOLUTION | {"sources": [{"path": "../../etc/passwd"}]}),
            "sources.0",
        ),
    ],
)
def test_what_is_wrong_is_named(
    tmp_path: Path, file: str, content: str | None, message: str
) -> None:
    if content is not None:
        (tmp_path / file).write_text(content)
    with pytest.raises(ConfigError) as caught:
        load_solution(tmp_path / file, DEFINITION)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_folder_with_two_entries_is_ambiguous(tmp_path: Path) -> None:
    for name in ("a.cpp", "b.cpp"):
        (tmp_path / name).write_text(CPP)
    with pytest.raises(ConfigError, match=r"found a\.cpp, b\.cpp"):
        load_solution(tmp_path, DEFINITION)
