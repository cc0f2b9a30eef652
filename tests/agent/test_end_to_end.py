"""The real thing: the command in a process of its own, in real sandboxes, on a small problem."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.sandbox, pytest.mark.slow]
KAGENT = [sys.executable, "-c", "from agent.cli import main; main()"]
BUDGET = ["--set", "total_s=20"]
DEFINITION = {
    "name": "scale_and_shift",
    "axes": {"rows": {"type": "var"}, "columns": {"type": "const", "value": 512}},
    "inputs": {
        "x": {"shape": ["rows", "columns"], "dtype": "float32"},
        "bias": {"shape": ["columns"], "dtype": "float32"},
    },
    "outputs": {"y": {"shape": ["rows", "columns"], "dtype": "float32"}},
    "reference": "def run(x, bias):\n    return x * 1.5 + bias\n",
}
HONEST = """#include <cstdint>
extern "C" int run(const float* x, const float* bias, float* y, int64_t rows, int64_t columns) {
#pragma omp parallel for
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c) y[r * columns + c] = x[r * columns + c] * 1.5f + bias[c];
  return 0;
}
"""
WRONG = HONEST.replace("bias[c]", "0")


def workload(rows: int) -> dict[str, object]:
    return {
        "uuid": f"rows-{rows}",
        "axes": {"rows": rows},
        "inputs": {"x": {"type": "random"}, "bias": {"type": "random"}},
        "tolerance": {"max_atol": 1e-4, "max_rtol": 1e-4, "required_matched_ratio": 1.0},
    }


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A problem's folder, and the home beside it, so that the ceilings are measured once."""
    folder = tmp_path_factory.mktemp("end-to-end")
    (folder / "problem").mkdir()
    (folder / "problem" / "definition.json").write_text(json.dumps(DEFINITION))
    lines = [json.dumps(workload(rows)) for rows in (256, 384)]
    (folder / "problem" / "workload.cpu.jsonl").write_text("\n".join(lines))
    return folder


def start(folder: Path, arguments: Sequence[str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*KAGENT, *arguments],
        env={**os.environ, "KAGENT_HOME": str(folder / "home")},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def kagent(folder: Path, *arguments: str) -> tuple[int, str, str]:
    with start(folder, arguments) as process:
        out, err = process.communicate(timeout=600)
    assert "Traceback" not in err
    return process.returncode, out, err


def document(folder: Path, *arguments: str) -> tuple[int, Any]:
    code, out, err = kagent(folder, *arguments, "--json")
    assert out, err
    return code, json.loads(out)


def test_a_run_from_its_start_to_its_report(folder: Path) -> None:
    code, found = document(folder, "optimize", str(folder / "problem"), *BUDGET)
    assert code == (0 if found["status"] == "passed" else 1)
    assert found["problem"] == "scale_and_shift"
    assert found["attempts"] >= 1
    assert found["baseline"] in ("eager", "torch.compile")
    assert found["judge"] is None, "the problem has no rules to draw hidden workloads from"
    assert Path(found["report"]).read_text().startswith("<!doctype html>")
    best = found["best"]
    if best is not None:
        assert best["speedup_low"] <= best["speedup"] <= best["speedup_high"]
        _, result = document(folder, "eval", str(folder / "problem"), best["path"])
        assert result["status"] == "PASSED"
    _, shown = document(folder, "runs", "show", found["run"])
    assert shown == found
    code, _, err = kagent(folder, "optimize", "--resume", found["run"])
    assert code == 2
    assert "is finished" in err


def test_an_interrupted_run_goes_on(folder: Path) -> None:
    with start(folder, ["optimize", str(folder / "problem"), *BUDGET]) as process:
        assert process.stderr is not None
        seen: list[str] = []
        for line in process.stderr:
            seen.append(line)
            if line.startswith("  lessons"):
                break
        process.send_signal(signal.SIGINT)
        _, rest = process.communicate(timeout=60)
    assert process.returncode == 130, "".join([*seen, rest])
    assert "Traceback" not in rest
    run = rest.split("--resume ")[1].split()[0]
    _, stopped = document(folder, "runs", "show", run)
    assert stopped["status"] == "unfinished"
    _, found = document(folder, "optimize", "--resume", run)
    assert found["run"] == run
    assert found["status"] != "unfinished"
    assert found["seconds"] >= stopped["seconds"]


@pytest.mark.parametrize(
    ("source", "status", "code"),
    [(HONEST, "PASSED", 0), (WRONG, "INCORRECT_NUMERICAL", 1), ("int run(", "COMPILE_ERROR", 1)],
)
def test_the_verdict_on_a_bare_source(folder: Path, source: str, status: str, code: int) -> None:
    kernel = folder / "kernel.cpp"
    kernel.write_text(source)
    ended, found = document(
        folder, "eval", str(folder / "problem"), str(kernel), "--against", "eager"
    )
    assert (ended, found["status"]) == (code, status)
    assert len(found["traces"]) == 2
    if status == "PASSED":
        assert found["speedup_low"] <= found["speedup"] <= found["speedup_high"]
        assert found["opponent"] == "eager"
        assert found["verdict"] in ("faster", "slower", "equivalent", "ambiguous")
    else:
        assert found["speedup"] is None
    if status == "COMPILE_ERROR":
        assert "kernel.cpp:1:" in found["traces"][0]["evaluation"]["log"]


def test_explain_searches_nothing(folder: Path) -> None:
    code, found = document(folder, "optimize", str(folder / "problem"), "--explain")
    assert code == 0
    assert found["rung"]["language"] == "cpp"
    assert len(found["bounds"]) == 2
    assert all(bound["measured_ms"] > 0 for bound in found["bounds"])
