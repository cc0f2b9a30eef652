from __future__ import annotations

import json
from pathlib import Path

import pytest

from problems.errors import ConfigError
from problems.folder_source import FolderSource
from problems.problem import AxisRule, Target, Track
from tests.problems.samples import REFERENCE, definition, definition_fields, workload_fields


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A plain SOL-ExecBench folder."""
    folder = tmp_path / "shift"
    folder.mkdir()
    (folder / "definition.json").write_text(json.dumps(definition_fields()))
    write_workloads(folder / "workload.jsonl", workload_fields(3), workload_fields(5))
    return folder


def write_workloads(path: Path, *workloads: dict[str, object]) -> None:
    path.write_text("\n".join(json.dumps(workload) for workload in workloads) + "\n")


def error_of(folder: Path) -> str:
    with pytest.raises(ConfigError) as caught:
        FolderSource(folder).load("shift")
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_a_plain_folder_loads_for_cuda_without_rules(folder: Path) -> None:
    source = FolderSource(folder)
    problem = source.load("shift")
    assert source.names() == ("shift",)
    assert problem.definition == definition()
    assert (problem.number, problem.track, problem.family) == (None, None, None)
    assert list(problem.targets) == [Target.CUDA]
    assert [w.axes["rows"] for w in problem.targets[Target.CUDA].public] == [3, 5]
    assert problem.targets[Target.CUDA].rules == {}


def test_the_reference_may_lie_beside_the_definition(folder: Path) -> None:
    fields = definition_fields()
    del fields["reference"]
    (folder / "definition.json").write_text(json.dumps(fields))
    (folder / "reference.py").write_text(REFERENCE)
    assert FolderSource(folder).load("shift").definition == definition()


def test_a_reference_in_the_definition_wins_over_its_readable_copy(folder: Path) -> None:
    (folder / "reference.py").write_text("not python at all")
    assert FolderSource(folder).load("shift").definition.reference == REFERENCE


def test_problem_toml_adds_number_track_family_rules_and_denied_hosts(folder: Path) -> None:
    write_workloads(folder / "workload.cpu.jsonl", workload_fields(2))
    (folder / "problem.toml").write_text(
        """
        number = 7
        title = "Shift"
        track = "Quant"
        family = "normalisation"
        denied_hosts = ["example.org"]
        [targets.cpu]
        max_bytes = 1000
        rules.rows = { low = 1, high = 4 }
        """
    )
    source = FolderSource(folder)
    problem = source.load("7")
    assert problem == source.load("shift")
    assert (problem.number, problem.track) == (7, Track.QUANT)
    assert problem.denied_hosts == ("example.org",)
    assert problem.targets[Target.CPU].rules == {"rows": AxisRule(low=1, high=4)}
    assert problem.targets[Target.CPU].max_bytes == 1000
    assert problem.targets[Target.CUDA].rules == {}


def test_a_folder_for_the_cpu_alone_loads(folder: Path) -> None:
    (folder / "workload.jsonl").rename(folder / "workload.cpu.jsonl")
    assert list(FolderSource(folder).load("shift").targets) == [Target.CPU]


def test_another_name_is_refused(folder: Path) -> None:
    with pytest.raises(ConfigError, match="holds 'shift', not 'lift'"):
        FolderSource(folder).load("lift")


def test_blank_lines_and_windows_line_ends_are_no_workloads(folder: Path) -> None:
    lines = [json.dumps(workload_fields(rows)) for rows in (3, 5)]
    (folder / "workload.jsonl").write_bytes("\r\n\r\n".join(lines).encode())
    assert len(FolderSource(folder).load("shift").targets[Target.CUDA].public) == 2


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"axes": {"rows": "x"}}, "axes.rows: Input should be a valid integer"),
        ({"axes": {"row": 1}}, "axes: variable axes are rows; got row"),
        ({"inputs": {}}, "inputs: none are not the definition's inputs (x, eps)"),
        ({"tolerance": {"max_atol": "tight"}}, "tolerance.max_atol: "),
        ({"uuid": "w3"}, "uuid: 'w3' is there twice"),
    ],
)
def test_a_malformed_workload_is_named_with_its_line_and_field(
    folder: Path, changes: dict[str, object], message: str
) -> None:
    write_workloads(folder / "workload.jsonl", workload_fields(3), workload_fields(5) | changes)
    assert error_of(folder).startswith(f"shift/workload.jsonl:2: {message}")


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("workload.jsonl", '{"uuid": }', "shift/workload.jsonl:1: column 10: Expecting value"),
        ("workload.jsonl", "[1]", "shift/workload.jsonl:1: Input should be a valid dict"),
        ("workload.jsonl", "\n\n", "shift/workload.jsonl: no workloads"),
        ("workload.jsonl", "[" * 100_000, "shift/workload.jsonl:1: nested too deeply"),
        ("definition.json", '{\n"name" 1}', "shift/definition.json:2: column 8: Expecting ':'"),
        ("definition.json", "[]", "shift/definition.json: must be an object"),
        ("problem.toml", "number = ", "shift/problem.toml: Invalid value"),
        ("problem.toml", "size = 1", "shift/problem.toml: size: Extra inputs"),
        ("problem.toml", "[targets.gpu]", "shift/problem.toml: targets.gpu"),
        (
            "problem.toml",
            "[targets.cuda.rules]\nrows = { low = 1 }",
            "shift/problem.toml: targets.cuda.rules.rows: either choices, or low and high",
        ),
        (
            "problem.toml",
            "[targets.cuda.rules]\ncolumns = { low = 1, high = 2 }",
            "shift/problem.toml: targets.cuda.rules: need one for each of rows",
        ),
        (
            "problem.toml",
            "[targets.cpu]\nmax_bytes = 5",
            "shift/problem.toml: targets.cpu: there is no workload.cpu.jsonl",
        ),
    ],
)
def test_a_malformed_file_is_named_with_its_place(
    folder: Path, file: str, content: str, message: str
) -> None:
    (folder / file).write_text(content)
    assert error_of(folder).startswith(message)


def test_bytes_that_are_no_text_are_an_error(folder: Path) -> None:
    (folder / "definition.json").write_bytes(b"\xff\xfe{}")
    assert error_of(folder).startswith("shift/definition.json: not UTF-8")


def test_what_is_missing_is_said_with_what_is_expected(folder: Path) -> None:
    (folder / "workload.jsonl").unlink()
    assert "no workload.jsonl and no workload.cpu.jsonl" in error_of(folder)
    (folder / "definition.json").unlink()
    assert "no definition.json; expected definition.json (with reference" in error_of(folder)
    assert error_of(folder / "nowhere").endswith("nowhere: no such folder")


def test_a_definition_without_reference_needs_the_file(folder: Path) -> None:
    fields = definition_fields()
    del fields["reference"]
    (folder / "definition.json").write_text(json.dumps(fields))
    assert "no reference.py" in error_of(folder)


def test_a_folder_in_a_files_place_is_an_error(folder: Path) -> None:
    (folder / "workload.jsonl").unlink()
    (folder / "workload.jsonl").mkdir()
    assert "Is a directory" in error_of(folder)
