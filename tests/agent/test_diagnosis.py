from __future__ import annotations

from pathlib import Path

from agent.diagnosis import diagnose, first_error, headroom, workload_class
from problems.speed_of_light import WorkloadClass
from tests.agent.fake_run import FakeRun


def test_the_compilers_first_error_has_its_place() -> None:
    log = "In file included from x.h:1:\nkernel.cpp:7:3: error: no 'foo'\nkernel.cpp:9:1: error: b"
    assert first_error(log) == "kernel.cpp:7:3: error: no 'foo'"


def test_of_a_traceback_the_exception_counts() -> None:
    log = "Traceback (most recent call last):\n  File x\nValueError: bad size\n\nSet X=1 for more\n"
    assert first_error(log) == "ValueError: bad size"
    assert first_error("") == "no message"


def test_a_log_cannot_move_the_cursor() -> None:
    assert "\x1b" not in first_error("\x1b[2J\x1b[1;1Herror: \x07gone")


def test_headroom_says_what_to_do_until_there_is_none() -> None:
    assert "move fewer bytes" in headroom(0.5, WorkloadClass.MEMORY_BOUND)
    assert headroom(0.97, WorkloadClass.MEMORY_BOUND) == "97% of the speed of light"


def test_every_attempt_of_a_run_is_diagnosed(tmp_path: Path) -> None:
    state = FakeRun(tmp_path).process()
    lines = {a.name: diagnose(a, state.bounds) for a in state.attempts}
    assert "\n" not in "".join(lines.values())
    assert lines["broken"] == "COMPILE_ERROR in build: simulated COMPILE_ERROR"
    assert lines["again"].startswith("REJECTED in review: duplicate")
    assert lines["first"].startswith("confirmed 2.0")
    assert lines["slower"].startswith("screened 0.")
    assert workload_class(state.bounds) is not None
