"""The loop on fakes: what a run decides, and that it can die at any event."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.attempt import Confirm, Phase, RunState, Stop
from agent.journal import read_entries, read_state
from problems.evaluation import Status
from tests.agent.fake_run import EAGER_MS, RUN, SCRIPT, FakeRun, Killed, proposal


def test_the_fastest_correct_kernel_wins(tmp_path: Path) -> None:
    state = FakeRun(tmp_path).process()
    assert state.phase is Phase.FINISHED
    assert state.baseline is not None
    assert state.baseline.kind == "torch.compile"
    assert state.baseline.eager_over_compiled == pytest.approx(EAGER_MS, rel=0.01)
    assert [attempt.name for attempt in state.attempts if attempt.promoted] == [
        "first",
        "held",
        "better",
    ]
    assert state.best is not None
    assert state.best.name == "better"
    assert state.best.against_baseline is not None
    assert state.best.against_baseline.ratio == pytest.approx(1 / 0.3, rel=0.01)
    assert state.judge is not None
    assert state.judge.passed
    assert state.judge.workloads == 4


def test_each_failure_ends_at_its_stage(tmp_path: Path) -> None:
    state = FakeRun(tmp_path).process()
    ends = {a.name: (a.stage, a.status) for a in state.attempts}
    assert ends["broken"] == ("build", Status.COMPILE_ERROR)
    assert ends["wrong"] == ("check", Status.INCORRECT_NUMERICAL)
    assert ends["again"] == ("review", Status.REJECTED)
    assert ends["slower"] == ("screen", Status.PASSED)
    assert "attempt 0" in state.attempts[3].log


def test_the_first_valid_candidate_is_there_before_the_baseline(tmp_path: Path) -> None:
    run = FakeRun(tmp_path)
    state = run.process()
    kinds = [entry.event.kind for entry in read_entries(tmp_path / RUN)]
    assert kinds.index("first_checked") < kinds.index("baseline_measured")
    assert state.first_valid_s is not None
    assert state.first_valid_s < 10


@pytest.mark.slow
@pytest.mark.parametrize("before_commit", [True, False])
def test_a_kill_at_any_event_changes_nothing(tmp_path: Path, before_commit: bool) -> None:
    whole = FakeRun(tmp_path / "whole")
    expected = _without_times(whole.process())
    count = len(read_entries(tmp_path / "whole" / RUN))
    assert count > 15
    for number in range(1, count + 1):
        run = FakeRun(tmp_path / str(number))
        with pytest.raises(Killed):
            run.process(number, before_commit=before_commit)
        spent_s = 0.0 if before_commit and number == 1 else run_spent(run)
        resumed = run.process()
        assert _without_times(resumed) == expected, number
        assert sorted(run.machine.executed) == sorted(set(run.machine.executed)), number
        assert sorted(run.machine.executed) == sorted(whole.machine.executed), number
        assert resumed.spent_s >= spent_s, number
        assert resumed == read_state(run.folder / RUN)


def test_a_run_that_dies_again_and_again_still_ends(tmp_path: Path) -> None:
    expected = _without_times(FakeRun(tmp_path / "whole").process())
    run = FakeRun(tmp_path / "dying")
    state = None
    deaths = 0
    while state is None:
        try:
            state = run.process(1 if deaths % 2 else 2)
        except Killed:
            deaths += 1
    assert deaths > 10
    assert _without_times(state) == expected
    assert len(run.machine.executed) == len(set(run.machine.executed))


def run_spent(run: FakeRun) -> float:
    return read_state(run.folder / RUN).spent_s


def _without_times(state: RunState) -> RunState:
    """What must be the same: everything but when it happened and where it lies."""
    attempts = tuple(attempt.model_copy(update={"at_s": 0.0}) for attempt in state.attempts)
    times = {"spent_s": 0.0, "started_unix_s": 0.0, "first_valid_s": 0.0, "report": None}
    return state.model_copy(update={"attempts": attempts, **times})


def test_no_attempt_beats_the_baseline(tmp_path: Path) -> None:
    script = (proposal("slow", "latency_ms=2"), Stop(reason="no ideas"))
    state = FakeRun(tmp_path, script).process()
    assert state.best is None
    assert state.judge is None
    assert state.phase is Phase.FINISHED
    assert state.attempts[0].status is Status.PASSED


def test_a_winner_that_fails_on_hidden_workloads_does_not_pass(tmp_path: Path) -> None:
    script = (proposal("cheat", "latency_ms=0.5, status=INCORRECT_NUMERICAL, at=judge"),)
    state = FakeRun(tmp_path, script).process()
    assert state.judge is not None
    assert not state.judge.passed
    assert state.judge.status is Status.INCORRECT_NUMERICAL
    assert state.judge.private_speedup is None


def test_the_search_ends_when_the_time_is_used(tmp_path: Path) -> None:
    script = [proposal(f"p{n}", f"latency_ms={0.5 - n / 1000}", hold=n > 0) for n in range(100)]
    state = FakeRun(tmp_path, script, total_s=90.0).process()
    assert state.stop_reason == "the time is used"
    assert 3 < len(state.attempts) < 60
    assert state.spent_s < 90.0


def test_an_impossible_confirmation_ends_the_search(tmp_path: Path) -> None:
    script = (proposal("first", "latency_ms=0.5"), Confirm(attempt=7))
    state = FakeRun(tmp_path, script).process()
    assert state.stop_reason is not None
    assert "attempt 7" in state.stop_reason
    assert state.judge is not None


def test_rejections_in_a_row_end_the_search(tmp_path: Path) -> None:
    script = (SCRIPT[0],) + tuple(
        proposal(f"n{n}", "latency_ms=0.5", body="first") for n in range(50)
    )
    state = FakeRun(tmp_path, script).process()
    assert state.stop_reason == "the last 20 proposals were rejected"


def test_every_event_is_seen(tmp_path: Path) -> None:
    run = FakeRun(tmp_path)
    run.process()
    entries = read_entries(tmp_path / RUN)
    assert len(run.seen) == len(entries) - 1
    assert [e.active_s for e in entries] == sorted(e.active_s for e in entries)
