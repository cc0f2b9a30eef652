"""The command line: its JSON, its exit codes, and one line for whatever a user gets wrong."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from agent import cli
from agent.commands.shared import FAILED, INFRASTRUCTURE, USER_ERROR
from agent.config import RunConfig, save_config
from agent.home import write_secret
from agent.journal import Journal
from problems.catalog import list_problems, load_problem
from problems.problem import Target
from tests.agent.fake_machine import FakeClock
from tests.agent.fake_run import RUN, SEED, FakeRun, Killed

BROKEN = 'extern "C" void run(const void* x) { int y = "text"; }\n'
FORKS = 'extern "C" void run(const void* x) { if (fork()) return; }\n'


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KAGENT_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def _fake_run(home: Path, dies_at: int | None = None) -> None:
    run = FakeRun(home / "runs")
    save_config(RunConfig(total_s=600), home / "runs" / RUN / "config.json")
    write_secret(home / "runs" / RUN / "judge.seed", SEED)
    try:
        run.process(dies_at)
    except Killed:
        assert dies_at is not None


def _json(arguments: Sequence[str], capsys: pytest.CaptureFixture[str], code: int = 0) -> Any:
    assert cli.run_command([*arguments, "--json"]) == code
    printed = capsys.readouterr()
    return json.loads(printed.out)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["optimize", "rmsnrom", "--minutes", "1"], "did you mean rmsnorm"),
        (["optimize", "problem_999"], "unknown problem 'problem_999'"),
        (["optimize"], "PROBLEM is missing"),
        (["optimize", "rmsnorm", "--minutes", "0"], "--minutes: must be above 0, not 0"),
        (["optimize", "rmsnorm", "--hours", "-1"], "--hours: must be above 0, not -1"),
        (["optimize", "rmsnorm", "--hours", "nan"], "--hours: must be above 0"),
        (["optimize", "rmsnorm", "--hours", "1", "--minutes", "1"], "not both"),
        (["optimize", "rmsnorm", "--minutes", "soon"], "--minutes"),
        (["optimize", "rmsnorm", "--target", "cuda"], "targets with a ladder: cpu"),
        (["optimize", "rmsnorm", "--target", "tpu"], "target: Input should be 'cuda' or 'cpu'"),
        (["optimize", "rmsnorm", "--set", "sead=1"], "unknown key 'sead'"),
        (["optimize", "rmsnorm", "--memory", "perhaps"], "'on' or 'off'"),
        (["optimize", "rmsnorm", "--sandbox", "none"], "'auto' or 'bubblewrap'"),
        (["optimize", "--resume", "gone"], "unknown run 'gone'"),
        (["optimise"], "No such command 'optimise'"),
        (["eval", "rmsnorm", "/absent.cpp"], "/absent.cpp: No such file"),
        (["eval", "gone", "/absent.cpp"], "unknown problem 'gone'"),
        (["problems", "show", "./absent"], "no such folder"),
        (["problems", "check"], "either PROBLEM or --all"),
        (["runs", "show", "gone"], "there are no runs"),
        (["runs", "report", "last"], "there are no runs"),
        (["memory", "show", "x"], "no lesson 'x'; lessons: none"),
        (["memory", "query", "x", "--dtype", "fp99"], "filter: dtype"),
        (["skills", "check", "/absent"], "no such folder of skills"),
    ],
)
def test_what_a_user_gets_wrong_is_one_line(
    home: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert cli.run_command(arguments) == USER_ERROR
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("error: ")
    assert printed.err.count("\n") == 1
    assert message in printed.err
    assert not (home / "runs").exists()


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("definition.json", "{", "definition.json:1: column 2"),
        ("definition.json", '{"name": "x", "axes": 3, "reference": "x = 1"}', "axes: "),
        ("workload.jsonl", "nonsense\n", "workload.jsonl:1"),
        ("workload.jsonl", '{"uuid": "a", "axes": {"rows": "x"}, "inputs": {}}\n', "axes.rows"),
    ],
)
def test_a_malformed_problem_is_named_with_its_field(
    home: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    file: str,
    text: str,
    message: str,
) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    definition = load_problem("rmsnorm").definition
    (folder / "definition.json").write_text(definition.model_dump_json())
    (folder / file).write_text(text)
    assert cli.run_command(["optimize", str(folder), "--minutes", "1"]) == USER_ERROR
    assert message in capsys.readouterr().err


def test_a_home_that_cannot_be_written_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("KAGENT_HOME", str(tmp_path / "file"))
    assert cli.run_command(["runs", "list"]) == USER_ERROR
    assert "set KAGENT_HOME" in capsys.readouterr().err


def test_no_traceback_reaches_a_user(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    @cli.app.command("explode")
    def explode() -> None:
        raise RuntimeError("a bug")

    try:
        assert cli.run_command(["explode"]) == INFRASTRUCTURE
    finally:
        cli.app.registered_commands.pop()
    printed = capsys.readouterr().err
    assert printed.startswith("error: RuntimeError: a bug; details: ")
    assert printed.count("\n") == 1
    assert "Traceback" in Path(printed.strip().rpartition(" ")[2]).read_text()


def test_a_finished_run_cannot_be_resumed(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _fake_run(home)
    assert cli.run_command(["optimize", "--resume", RUN]) == USER_ERROR
    assert "is finished" in capsys.readouterr().err


def test_a_resumed_run_stays_what_it_was(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _fake_run(home, dies_at=5)
    assert cli.run_command(["optimize", "softmax", "--resume", "last"]) == USER_ERROR
    assert "works on rmsnorm, not on softmax" in capsys.readouterr().err
    assert cli.run_command(["optimize", "--resume", RUN, "--minutes", "9"]) == USER_ERROR
    assert "keeps its configuration" in capsys.readouterr().err


def test_a_run_that_another_process_works_on_is_refused(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _fake_run(home, dies_at=5)
    with Journal(home / "runs" / RUN, FakeClock(), FakeClock()):
        assert cli.run_command(["optimize", "--resume", RUN]) == USER_ERROR
    assert "another kagent process is at work" in capsys.readouterr().err


def test_another_seed_cannot_be_slipped_in(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _fake_run(home, dies_at=5)
    write_secret(home / "runs" / RUN / "judge.seed", b"another")
    assert cli.run_command(["optimize", "--resume", RUN]) != 0
    assert "not the seed whose hash" in capsys.readouterr().err


def test_runs_as_json(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _json(["runs", "list"], capsys) == []
    _fake_run(home)
    shown = _json(["runs", "show", "last"], capsys)
    keys = "run problem target status best attempts judge lessons seconds report"
    assert set(keys.split()) <= set(shown)
    best = "solution language speedup speedup_low speedup_high sol_fraction"
    assert set(best.split()) <= set(shown["best"])
    assert {"passed", "public_speedup", "private_speedup"} <= set(shown["judge"])
    assert shown["status"] == "passed"
    assert [run["run"] for run in _json(["runs", "list"], capsys)] == [RUN]


def test_a_run_is_shown_as_text(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _fake_run(home)
    assert cli.run_command(["runs", "show", "last"]) == 0
    shown = capsys.readouterr().out
    for expected in ("rmsnorm", "problem_001", "COMPILE_ERROR", "REJECTED", "passed", "★"):
        assert expected in shown
    assert max(len(line) for line in shown.splitlines() if str(home) not in line) <= 100
    assert cli.run_command(["runs", "list"]) == 0
    assert RUN in capsys.readouterr().out


def test_a_run_that_was_killed_is_shown_as_unfinished(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _fake_run(home, dies_at=6)
    assert _json(["runs", "show", RUN], capsys)["status"] == "unfinished"


def test_the_report_is_written_anew(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _fake_run(home)
    (home / "blobs").symlink_to(home / "runs" / "blobs")
    assert cli.run_command(["runs", "report", "last"]) == 0
    report = Path(capsys.readouterr().out.strip())
    assert "<html" in report.read_text()


def test_problems_as_json(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    listed = _json(["problems", "list"], capsys)
    assert [problem["name"] for problem in listed] == [p.name for p in list_problems()]
    keys = {"name", "number", "source", "track", "class", "workloads", "targets"}
    assert all(keys <= set(problem) for problem in listed)
    by_name = _json(["problems", "show", "rmsnorm"], capsys)
    assert by_name == _json(["problems", "show", "problem_001"], capsys)


def test_everything_that_is_listed_has_a_text_form(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for arguments in (
        ["problems", "list"],
        ["problems", "show", "rmsnorm"],
        ["memory", "list"],
        ["memory", "stats"],
        ["memory", "query", "row reductions in bf16"],
        ["skills", "list"],
        ["skills", "check"],
        ["runs", "list"],
    ):
        assert cli.run_command(arguments) == 0
        assert capsys.readouterr().out.strip()


def test_an_empty_memory_as_json(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _json(["memory", "query", "anything"], capsys) == []
    assert _json(["memory", "list"], capsys) == []
    assert _json(["memory", "stats"], capsys)["lessons"] == 0


def test_a_rejected_solution_has_a_trace_for_every_workload(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "bad.cpp").write_text(FORKS)
    shown = _json(["eval", "rmsnorm", str(tmp_path / "bad.cpp")], capsys, FAILED)
    assert shown["status"] == "REJECTED"
    assert shown["verdict"] is None
    assert len(shown["traces"]) == len(load_problem("rmsnorm").targets[Target.CPU].public)
    assert {trace["evaluation"]["status"] for trace in shown["traces"]} == {"REWARD_HACK"}
    keys = "problem solution target traces speedup speedup_low speedup_high sol_fraction"
    assert set(keys.split()) <= set(shown)


@pytest.mark.sandbox
def test_a_compile_error_has_a_trace_for_every_workload(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "bad.cpp").write_text(BROKEN)
    arguments = ["eval", "rmsnorm", str(tmp_path / "bad.cpp")]
    shown = _json(arguments, capsys, FAILED)
    assert shown["status"] == "COMPILE_ERROR"
    logs = {trace["evaluation"]["log"] for trace in shown["traces"]}
    assert len(logs) == 1
    assert "bad.cpp:1" in logs.pop()
    assert cli.run_command(arguments) == FAILED
    assert "COMPILE_ERROR: bad.cpp:1" in capsys.readouterr().out


def test_help_is_quick_and_imports_nothing_heavy() -> None:
    code = (
        "import sys; from agent.cli import run_command; run_command(['--help']); "
        "print([m for m in ('pydantic', 'rich', 'torch', 'chromadb') if m in sys.modules], "
        "file=sys.stderr)"
    )
    started = time.perf_counter()
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=os.environ
    )
    assert time.perf_counter() - started < 2, "it takes 0.08 s on an idle machine"
    assert ended.stderr.strip() == "[]"
    for command in ("optimize", "eval", "problems", "memory", "runs", "skills", "doctor"):
        assert command in ended.stdout
