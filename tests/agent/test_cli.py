"""The command line without a sandbox: what it prints, its exit codes, one line for every error."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agent import cli
from problems.catalog import list_problems
from problems.problem import Target


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "home"
    monkeypatch.setenv("KAGENT_HOME", str(folder))
    return folder


Output = pytest.CaptureFixture[str]


def run_json(capsys: Output, *arguments: str) -> Any:
    code = cli.run_command([*arguments, "--json"])
    assert code == 0, capsys.readouterr().err
    return json.loads(capsys.readouterr().out)


def error_of(capsys: Output, *arguments: str, code: int = 2) -> str:
    """The only line on stderr; nothing is on stdout."""
    assert cli.run_command(list(arguments)) == code
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("error: ")
    assert printed.err.count("\n") == 1
    return printed.err


def test_problems_list(capsys: Output) -> None:
    found = run_json(capsys, "problems", "list")
    assert [problem["name"] for problem in found] == [p.name for p in list_problems()]
    keys = {"name", "number", "source", "track", "class", "workloads", "targets"}
    assert keys <= set(found[0])


def test_problems_show(capsys: Output) -> None:
    assert cli.run_command(["problems", "show", "1"]) == 0
    assert "def run(" in capsys.readouterr().out


@pytest.mark.parametrize("command", [["problems", "show"], ["optimize"]])
def test_an_unknown_problem_names_the_closest(capsys: Output, command: list[str]) -> None:
    assert "did you mean softmax" in error_of(capsys, *command, "sofmax")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--minutes", "0"], "--minutes: must be above 0"),
        (["--hours", "-1"], "--hours: must be above 0"),
        (["--hours", "nan"], "--hours: must be above 0"),
        (["--hours", "1", "--minutes", "1"], "not both"),
        (["--hours", "1e9"], "total_s"),
        (["--target", "cuda"], "not built yet; targets with a ladder: cpu"),
        (["--target", "tpu"], "target"),
        (["--sandbox", "docker"], "sandbox"),
        (["--set", "unknown=1"], "unknown key 'unknown'; keys: target"),
        (["--set", "hidden_workloads"], "must be key=value"),
        (["--no-such-option"], "No such option"),
    ],
)
def test_a_wrong_option_is_one_line(
    capsys: Output, home: Path, arguments: list[str], expected: str
) -> None:
    assert expected in error_of(capsys, "optimize", "rmsnorm", *arguments)
    assert not list(home.glob("runs/*"))


def test_optimize_needs_a_problem(capsys: Output) -> None:
    assert "PROBLEM is missing" in error_of(capsys, "optimize")


@pytest.mark.parametrize(
    "arguments",
    [["runs", "show", "x"], ["runs", "report", "x"], ["optimize", "--resume", "x"]],
)
def test_an_unknown_run(capsys: Output, arguments: list[str]) -> None:
    assert "unknown run 'x'" in error_of(capsys, *arguments)


def test_a_malformed_solution_names_its_field(capsys: Output, tmp_path: Path) -> None:
    solution = tmp_path / "solution.json"
    solution.write_text(json.dumps({"name": "x", "definition": "rmsnorm", "author": "me"}))
    message = error_of(capsys, "eval", "rmsnorm", str(solution))
    assert f"{solution}: spec: " in message


def test_a_solution_that_is_not_there(capsys: Output, tmp_path: Path) -> None:
    assert "no.json" in error_of(capsys, "eval", "rmsnorm", str(tmp_path / "no.json"))


def test_an_unknown_opponent(capsys: Output) -> None:
    message = error_of(capsys, "eval", "rmsnorm", "x.cpp", "--against", "me")
    assert "valid: baseline, eager, compiled" in message


def test_a_rejected_solution_has_a_trace_for_every_workload(capsys: Output, tmp_path: Path) -> None:
    source = tmp_path / "kernel.cpp"
    source.write_text('extern "C" int run() { return system("true"); }\n')
    assert cli.run_command(["eval", "rmsnorm", str(source), "--json"]) == 1
    result = json.loads(capsys.readouterr().out)
    assert result["status"] == "REJECTED"
    assert {trace["evaluation"]["status"] for trace in result["traces"]} == {"REWARD_HACK"}
    assert len(result["traces"]) == next(
        p.workloads[Target.CPU] for p in list_problems() if p.name == "rmsnorm"
    )
    assert result["speedup"] is None
    assert "system" in result["traces"][0]["evaluation"]["log"]


def test_an_empty_memory_answers(capsys: Output) -> None:
    assert run_json(capsys, "memory", "query", "row reductions in bf16") == []
    assert run_json(capsys, "memory", "list") == []
    assert run_json(capsys, "memory", "stats")["lessons"] == 0


def test_an_unknown_lesson(capsys: Output) -> None:
    assert "no lesson 'x'" in error_of(capsys, "memory", "show", "x")


def test_a_wrong_filter_names_the_valid_values(capsys: Output) -> None:
    assert "bfloat16" in error_of(capsys, "memory", "query", "x", "--dtype", "bf17")


def test_no_runs_yet(capsys: Output) -> None:
    assert run_json(capsys, "runs", "list") == []


def test_skills(capsys: Output, tmp_path: Path) -> None:
    assert "cpp" in {skill["name"] for skill in run_json(capsys, "skills", "list")}
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "SKILL.md").write_text("no frontmatter")
    assert "SKILL.md:1" in error_of(capsys, "skills", "check", str(tmp_path))


def test_a_home_that_is_a_file(capsys: Output, home: Path) -> None:
    home.write_text("")
    assert "set KAGENT_HOME" in error_of(capsys, "runs", "list")


def test_a_damaged_configuration(capsys: Output, home: Path) -> None:
    home.mkdir()
    (home / "config.toml").write_text("total_s = ")
    assert "config.toml" in error_of(capsys, "optimize", "rmsnorm")


def test_what_nobody_foresaw_goes_into_a_log(
    capsys: Output, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken() -> None:
        raise RuntimeError("a mistake of ours")

    monkeypatch.setattr("problems.catalog.list_problems", broken)
    message = error_of(capsys, "problems", "list", code=3)
    assert "a mistake of ours" in message
    (log,) = (home / "logs").iterdir()
    assert str(log) in message
    assert "Traceback" in log.read_text()


@pytest.mark.parametrize("module", ["torch", "chromadb", "rich.console", "agent.pipeline"])
def test_help_imports_nothing_heavy(module: str) -> None:
    program = (
        "import sys; from agent import cli; code = cli.run_command(['--help']); "
        f"sys.exit(code or ({module!r} in sys.modules))"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    assert "optimize" in ended.stdout
