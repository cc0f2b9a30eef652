from __future__ import annotations

import pytest
from pydantic import ValidationError

from problems.solution import MAX_SOURCE_BYTES, Language, Solution
from tests.problems.samples import solution


def spec(**changes: object) -> dict[str, object]:
    return {"languages": ["cpp"], "entry_point": "kernel.cpp::run"} | changes


def test_the_entry_is_split_and_found() -> None:
    found = solution()
    assert found.language is Language.CPP
    assert (found.entry_path, found.entry_symbol) == ("kernel.cpp", "run")
    assert found.entry_source == "void run() {}"
    assert found.spec.destination_passing_style


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"sources": []}, "sources"),
        ({"sources": [{"path": "other.cpp", "content": ""}]}, "no source 'kernel.cpp'"),
        ({"sources": [{"path": "/etc/passwd", "content": ""}]}, "must be relative"),
        ({"sources": [{"path": "a/../../b.cpp", "content": ""}]}, "without '..'"),
        ({"sources": [{"path": "kernel.cpp", "content": ""}] * 2}, "there twice"),
        ({"sources": [{"path": "kernel.cpp", "content": "x" * MAX_SOURCE_BYTES + "y"}]}, "limit"),
        ({"spec": spec(entry_point="kernel.cpp")}, "path::symbol"),
        ({"spec": spec(entry_point="kernel.cpp::run::it")}, "path::symbol"),
        ({"spec": spec(entry_point="::run")}, "path::symbol"),
        ({"spec": spec(languages=["triton"])}, "a triton entry ends in .py"),
        ({"spec": spec(languages=["cpp", "triton"])}, "one language"),
        ({"spec": spec(languages=["rust"])}, "spec.languages.0"),
        ({"spec": spec(languages=[])}, "spec.languages"),
    ],
)
def test_what_is_malformed(changes: dict[str, object], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        solution(**changes)


def test_fields_that_its_owner_has_and_we_do_not_are_ignored() -> None:
    found = solution(spec=spec(pip_packages=["x"], target_hardware=["B200"]))
    assert found.spec.target_hardware == ("B200",)


def test_the_digest_changes_with_every_part_of_the_content() -> None:
    variants = [
        solution(),
        solution(sources=[{"path": "kernel.cpp", "content": "void run() { }"}]),
        solution(spec=spec(destination_passing_style=False)),
        solution(spec=spec(compile_options={"cflags": ["-O1"]})),
    ]
    assert len({found.content_digest() for found in variants}) == len(variants)


def test_a_solution_survives_json() -> None:
    assert Solution.model_validate_json(solution().canonical_json()) == solution()
