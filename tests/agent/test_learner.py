from __future__ import annotations

from typing import Any

import pytest

from agent.attempt import Attempt, RunState
from agent.learner import learn, safe_tag
from memory.fake_memory import FakeMemory
from memory.lesson import LessonKind, Outcome
from problems.evaluation import Status
from tests.memory.samples import context

BASELINE, FIRST, BEST = "b" * 64, "1" * 64, "2" * 64
FASTER = {"ratio": 1.31, "low": 1.28, "high": 1.34, "sessions": 6, "verdict": "faster"}
SLOWER = {"ratio": 0.8, "low": 0.78, "high": 0.82, "sessions": 6, "verdict": "slower"}
SCREENED = {"ratio": 0.7, "low": 0.7, "high": 0.7, "sessions": 1, "verdict": None}
AMBIGUOUS = {"ratio": 1.1, "low": 0.9, "high": 1.3, "sessions": 6, "verdict": "ambiguous"}
EQUIVALENT = {"ratio": 1.0, "low": 0.99, "high": 1.01, "sessions": 6, "verdict": "equivalent"}


def attempt(index: int, **changes: Any) -> Attempt:
    fields: dict[str, Any] = {
        "index": index,
        "solution": BEST,
        "name": f"attempt {index}",
        "language": "cpp",
        "hypothesis": "one pass instead of three",
        "technique": "row_normalisation:vector_width=16",
        "parent": None,
        "stage": "confirm",
        "status": "PASSED",
        "opponent": BASELINE,
        "at_s": 10.0,
        "seconds": 2.5,
    }
    return Attempt.model_validate(fields | changes)


def state(*attempts: Attempt, **changes: Any) -> RunState:
    definition = {
        "name": "rmsnorm",
        "axes": {"rows": {"type": "var"}},
        "inputs": {"x": {"shape": ["rows"], "dtype": "float32"}},
        "outputs": {"y": {"shape": ["rows"], "dtype": "float32"}},
        "reference": "def run(x):\n    return x\n",
    }
    workload = {"uuid": "w", "axes": {"rows": 4}, "inputs": {"x": {"type": "random"}}}
    fields: dict[str, Any] = {
        "run": "run-1",
        "problem": {
            "name": "rmsnorm",
            "source": "library",
            "definition": definition,
            "targets": {"cpu": {"public": [workload]}},
        },
        "target": "cpu",
        "phase": "judged",
        "total_s": 120.0,
        "spent_s": 60.0,
        "baseline": {
            "solution": BASELINE,
            "build": None,
            "kind": "eager",
            "eager_over_compiled": None,
            "latency_ms": 1.0,
        },
        "attempts": [a.model_dump() for a in attempts],
    }
    return RunState.model_validate(fields | changes)


def judged(status: str, passed: bool = False) -> dict[str, Any]:
    return {
        "passed": passed,
        "status": status,
        "public_speedup": 1.3,
        "private_speedup": None,
        "private_low": None,
        "private_high": None,
        "workloads": 4,
        "checked_only": 2,
        "seed": "s",
        "seed_sha256": "0" * 64,
        "log": "row 3 is wrong",
    }


def outcomes(memory: FakeMemory) -> set[tuple[str, Outcome, str]]:
    return {
        (trial.id, trial.outcome, trial.compared_with)
        for lesson in memory.lessons()
        for trial in lesson.evidence
    }


def test_the_final_best_is_remembered_against_the_baseline_and_the_incumbent() -> None:
    memory = FakeMemory()
    run = state(
        attempt(0, solution=FIRST, technique="row_normalisation:vector_width=8", confirm=FASTER,
                sol_fraction=0.5, against_baseline=FASTER, promoted=True),
        attempt(1, opponent=FIRST, confirm=FASTER, against_baseline=FASTER, promoted=True),
        incumbent=1,
        judge=judged("PASSED", passed=True),
    )  # fmt: skip
    written = learn(run, context(), memory, 1_000.0)
    assert outcomes(memory) == {
        ("run-1:0:baseline", Outcome.FASTER, "baseline"),
        ("run-1:1:incumbent", Outcome.FASTER, FIRST),
        ("run-1:1:baseline", Outcome.FASTER, "baseline"),
    }
    assert set(written) == {lesson.id for lesson in memory.lessons()}
    best = next(x for x in memory.lessons() if x.technique.endswith("=16"))
    assert best.title == "row normalisation with vector_width=16 in cpp"
    assert best.mechanism == "one pass instead of three"
    assert {trial.sol_fraction_before for trial in best.evidence} == {0.5}
    hits = memory.recall(context(), "rmsnorm").strategies
    assert hits[0].reason.startswith("faster than the baseline by 31 % [28, 34] on rmsnorm")


def test_learning_again_adds_nothing() -> None:
    memory = FakeMemory()
    run = state(attempt(0, confirm=FASTER), attempt(1, status="COMPILE_ERROR", stage="build"))
    first = learn(run, context(), memory, 1_000.0)
    before = memory.lessons()
    assert learn(run, context(), memory, 2_000.0) == first
    assert memory.lessons() == before


@pytest.mark.parametrize(
    "changes",
    [
        {"screen": SCREENED, "stage": "screen"},
        {"confirm": AMBIGUOUS},
        {"confirm": FASTER, "status": "QUARANTINED"},
        {"confirm": FASTER, "status": "REWARD_HACK"},
        {"status": "REJECTED", "stage": "review"},
        {"status": "INVALID_REFERENCE"},
        {"confirm": FASTER, "sol_fraction": 1.2},
    ],
)
def test_what_was_not_confirmed_or_is_not_clean_teaches_nothing(changes: dict[str, Any]) -> None:
    memory = FakeMemory()
    assert learn(state(attempt(0, **changes)), context(), memory, 0.0) == ()
    assert memory.lessons() == ()


@pytest.mark.parametrize(
    ("status", "outcome"),
    [
        (Status.COMPILE_ERROR, Outcome.COMPILE_ERROR),
        (Status.INCORRECT_NUMERICAL, Outcome.INCORRECT),
        (Status.INCORRECT_SHAPE, Outcome.INCORRECT),
        (Status.RUNTIME_ERROR, Outcome.RUNTIME_ERROR),
        (Status.TIMEOUT, Outcome.TIMEOUT),
    ],
)
def test_failures_are_remembered_as_anti_patterns(status: Status, outcome: Outcome) -> None:
    memory = FakeMemory()
    learn(state(attempt(0, status=status, stage="check", log="no\nway")), context(), memory, 0.0)
    (lesson,) = memory.lessons()
    assert lesson.kind is LessonKind.ANTI_PATTERN
    assert lesson.evidence[0].outcome is outcome
    assert lesson.mechanism == f"{outcome} in check: no way"


def test_slower_and_equivalent_are_remembered_as_what_they_are() -> None:
    memory = FakeMemory()
    run = state(
        attempt(0, technique="a", confirm=SLOWER), attempt(1, technique="b", confirm=EQUIVALENT)
    )
    learn(run, context(), memory, 0.0)
    assert {o for _, o, _ in outcomes(memory)} == {Outcome.SLOWER, Outcome.NO_DIFFERENCE}


def test_a_best_that_fails_its_judge_is_no_strategy() -> None:
    memory = FakeMemory()
    fields = {"confirm": FASTER, "against_baseline": FASTER, "promoted": True}
    wrong = state(attempt(0, **fields), incumbent=0, judge=judged("INCORRECT_NUMERICAL"))
    learn(wrong, context(), memory, 0.0)
    (lesson,) = memory.lessons()
    assert lesson.kind is LessonKind.ANTI_PATTERN
    assert lesson.mechanism == "incorrect in judge: row 3 is wrong"
    memory = FakeMemory()
    cheat = state(attempt(0, **fields), incumbent=0, judge=judged("REWARD_HACK"))
    assert learn(cheat, context(), memory, 0.0) == ()


@pytest.mark.parametrize(
    ("technique", "parameters", "tag"),
    [
        ("rows", {"width": "16", "threads": "2"}, "rows:threads=2,width=16"),
        ("rows:width=8", {"width": "16"}, "rows:width=8"),
        ("My Idea!", {}, "my_idea"),
        ("é", {}, "unnamed"),
    ],
)
def test_tags(technique: str, parameters: dict[str, str], tag: str) -> None:
    assert safe_tag(technique, parameters) == tag


def test_a_long_tag_ends_after_a_whole_parameter() -> None:
    tag = safe_tag("rows", {f"parameter_{i:02}": "value" for i in range(20)})
    assert len(tag) <= 120
    assert tag.endswith("=value")
