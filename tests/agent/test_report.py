"""The report of a run on fakes: what it must say, and that it loads nothing from elsewhere."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from agent.attempt import RunState
from agent.report import floor_text, render_report, write_report
from problems.evaluation import Environment
from problems.solution import Solution
from tests.agent.fake_run import FakeRun

ENVIRONMENT = Environment(hardware="test machine", libs={"torch": "2.13.0"})


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[RunState, Solution]:
    fake = FakeRun(tmp_path_factory.mktemp("run"))
    state = fake.process()
    assert state.best is not None
    return state, Solution.model_validate_json(fake.blobs.get(state.best.solution))


def _html(run: tuple[RunState, Solution]) -> str:
    state, best = run
    assert state.hardware is not None
    return render_report(state, state.hardware, ENVIRONMENT, best)


def test_it_is_self_contained(run: tuple[RunState, Solution]) -> None:
    html = _html(run)
    links = re.findall(r'(?:src|href)="([^"#][^"]*)"', html)
    assert links == []
    assert html.count("<svg") == 2


def test_it_shows_every_attempt_and_the_kernel(run: tuple[RunState, Solution]) -> None:
    html = _html(run)
    state, best = run
    for attempt in state.attempts:
        assert attempt.hypothesis in html
    assert best.sources[0].content in html
    assert "COMPILE_ERROR" in html
    assert state.judge is not None
    assert state.judge.seed in html


def test_hostile_text_is_escaped(run: tuple[RunState, Solution]) -> None:
    state, best = run
    bad = state.attempts[1].model_copy(update={"hypothesis": "<script>alert(1)</script>"})
    attempts = (state.attempts[0], bad, *state.attempts[2:])
    html = _html((state.model_copy(update={"attempts": attempts}), best))
    assert "<script>" not in html
    assert "&lt;script&gt;" in html


def test_a_run_without_a_best_says_so(run: tuple[RunState, Solution]) -> None:
    state, _ = run
    assert state.hardware is not None
    empty = state.model_copy(update={"attempts": (), "incumbent": None, "judge": None})
    assert "No kernel beat the baseline" in render_report(empty, state.hardware, ENVIRONMENT, None)


def test_numbers_are_rounded_down() -> None:
    assert floor_text(2.399) == "2.39"
    assert floor_text(99.9, 0) == "99"


@pytest.mark.slow
def test_a_real_browser_shows_it(run: tuple[RunState, Solution], tmp_path: Path) -> None:
    browser = shutil.which("chromium")
    if browser is None:
        pytest.skip("no Chromium")
    state, best = run
    assert state.hardware is not None
    page = write_report(state, state.hardware, ENVIRONMENT, best, tmp_path / "report.html")
    shown = subprocess.run(
        [
            browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic",
            "--no-first-run", "--disable-background-networking", "--disable-component-update",
            "--disable-sync", f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom",
            page.as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=60,
    ).stdout  # fmt: skip
    assert "the speed of" in shown
    assert shown.count("<path") > 10
