from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from problems.catalog import list_problems, load_problem
from problems.errors import ConfigError
from problems.library_source import LIBRARY, LibrarySource
from problems.problem import Target


@pytest.mark.parametrize("spec", ["rmsnorm", "1", "001", "problem_1", "problem_001"])
def test_a_name_and_a_number_are_the_same_problem(spec: str) -> None:
    problem = load_problem(spec)
    assert (problem.name, problem.number, problem.source) == ("rmsnorm", 1, "library")


def test_a_path_is_a_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    assert load_problem(str(LIBRARY / "softmax")).source == "folder"
    monkeypatch.chdir(LIBRARY / "softmax")
    assert load_problem(".").name == "softmax"


def test_a_folder_without_a_slash_is_found_after_the_library(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "mine").symlink_to(LIBRARY / "softmax")
    monkeypatch.chdir(tmp_path)
    assert load_problem("mine").source == "folder"


def test_an_unknown_name_gets_the_closest_and_all_valid_ones() -> None:
    with pytest.raises(ConfigError) as caught:
        load_problem("rmsnrom")
    message = str(caught.value)
    assert "'rmsnrom'; did you mean rmsnorm" in message
    assert all(name in message for name in LibrarySource().names())
    assert "problem_001" in message


@pytest.mark.parametrize(
    "spec", ["", "0", "17", "problem_099", "problem_", "sol-execbench/042", "..", "rms\0norm", "é²"]
)
def test_what_is_no_problem_is_a_config_error(spec: str) -> None:
    with pytest.raises(ConfigError):
        load_problem(spec)


def test_the_list_is_ordered_and_counts_what_loading_finds() -> None:
    summaries = list_problems()
    assert [summary.number for summary in summaries] == list(range(1, 17))
    for summary in summaries:
        problem = load_problem(summary.name)
        assert (summary.track, summary.family) == (problem.track, problem.family)
        assert summary.targets == tuple(problem.targets) == (Target.CUDA, Target.CPU)
        counts = {target: len(found.public) for target, found in problem.targets.items()}
        assert summary.workloads == counts


def test_listing_imports_nothing_heavy() -> None:
    heavy = "{'torch', 'numpy', 'scipy', 'chromadb', 'litellm', 'optuna'}"
    code = (
        "import sys; from problems.catalog import list_problems; list_problems(); "
        f"sys.exit(', '.join({heavy} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr == "\n"
