from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from memory.embedding import HashingEmbedder
from memory.fake_memory import FakeMemory
from memory.lesson import LessonKind, LessonStatus
from memory.local_memory import LocalMemory
from memory.memory import Memory
from memory.search import Filters, as_json
from tests.memory.samples import context, failed, slower, trial

MAKERS: dict[str, Callable[[Path], Memory]] = {
    "fake": lambda _: FakeMemory(),
    "local": lambda home: LocalMemory(home, HashingEmbedder()),
    "local with the installed vectors": lambda home: LocalMemory(home),
}


@pytest.fixture(params=MAKERS)
def memory(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Memory]:
    made = MAKERS[request.param](tmp_path)
    yield made
    made.close()


def test_an_empty_memory_abstains_and_says_why(memory: Memory) -> None:
    recall = memory.recall(context(), "rmsnorm")
    assert (recall.strategies, recall.anti_patterns) == ((), ())
    assert recall.abstained == "no lesson is known yet"
    assert memory.query("anything", Filters()) == ()


def test_one_clean_finding_is_shown_labelled_weak_with_its_numbers(memory: Memory) -> None:
    lesson = memory.record(trial())
    (hit,) = memory.recall(context(), "rmsnorm").strategies
    assert hit.lesson.id == lesson
    assert hit.lesson.status is LessonStatus.CANDIDATE
    assert hit.reason == (
        "faster than the baseline by 31 % [28.4, 33.6] on rmsnorm (6 sessions), "
        "same family and dtype; one problem only: weak"
    )


def test_a_small_clean_gain_is_shown_too_though_its_bound_is_not_positive(memory: Memory) -> None:
    memory.record(trial(log_speedup=0.02, log_low=0.01, log_high=0.03))
    (hit,) = memory.recall(context(), "rmsnorm").strategies
    assert hit.lesson.lower_bound is not None
    assert hit.lesson.lower_bound < 0
    assert hit.reason.endswith("weak")


def test_recording_again_changes_nothing(memory: Memory) -> None:
    first = memory.record(trial())
    again = memory.record(trial(unix_s=2_000.0))
    assert first == again
    assert [len(lesson.evidence) for lesson in memory.lessons()] == [1]


def test_a_second_run_or_problem_makes_a_lesson_active(memory: Memory) -> None:
    memory.record(trial("a"))
    memory.record(trial("b", run="run-2"))
    (lesson,) = memory.lessons()
    assert lesson.status is LessonStatus.ACTIVE
    (hit,) = memory.recall(context(), "rmsnorm").strategies
    assert "weak" not in hit.reason


def test_the_gate_refuses_and_nothing_is_kept(memory: Memory) -> None:
    assert memory.record(trial(log_low=-0.01)) is None
    assert memory.record(trial(sol_fraction_after=1.2)) is None
    assert memory.lessons() == ()


@pytest.mark.parametrize(
    "changes",
    [
        {"target": "cuda"},
        {"architecture": "avx2"},
        {"dtypes": ("bfloat16", "int32")},
        {"rung": "triton"},
        {"workload_class": "compute-bound"},
        {"arithmetic_intensity": 50.0},
        {"compulsory_bytes": 1 << 34},
    ],
)
def test_where_a_condition_does_not_hold_nothing_is_shown(
    memory: Memory, changes: dict[str, object]
) -> None:
    memory.record(trial("a"))
    memory.record(failed("b", technique="tiled"))
    recall = memory.recall(context(**changes), "rmsnorm on avx512")
    assert (recall.strategies, recall.anti_patterns) == ((), ())
    assert recall.abstained is not None
    assert recall.abstained.startswith("none of 2 lessons was learned under these conditions")


def test_index_tensors_do_not_decide_about_dtypes(memory: Memory) -> None:
    memory.record(trial(context=context(dtypes=("float32", "int32"))))
    assert not memory.recall(context(dtypes=("bfloat16", "int32")), "gather").strategies
    assert memory.recall(context(dtypes=("float32", "int64")), "gather").strategies


def test_another_familys_evidence_counts_half_and_says_so(memory: Memory) -> None:
    memory.record(trial("a"))
    memory.record(trial("b", run="run-2"))
    (own,) = memory.recall(context(), "").strategies
    (other,) = memory.recall(context(family="reduction"), "").strategies
    assert other.score < own.score
    assert "another family (normalisation), so at half weight" in other.reason
    memory.record(trial("c", technique="small", log_speedup=0.02, log_low=0.01, log_high=0.03))
    other_techniques = [
        hit.lesson.technique for hit in memory.recall(context(family="reduction"), "").strategies
    ]
    assert "small" not in other_techniques


def test_at_most_three_strategies_of_different_templates_and_two_anti_patterns(
    memory: Memory,
) -> None:
    for template in "abcde":
        for width in (1, 2):
            memory.record(trial(f"{template}{width}", technique=f"{template}:width={width}"))
            memory.record(slower(f"s{template}{width}", technique=f"bad_{template}:w={width}"))
    recall = memory.recall(context(), "rmsnorm")
    assert len({hit.lesson.template for hit in recall.strategies}) == 3
    assert {hit.lesson.template for hit in recall.strategies} < set("abcde")
    assert len({hit.lesson.template for hit in recall.anti_patterns}) == 2
    assert len(recall.strategies) + len(recall.anti_patterns) == 5
    assert len(memory.recall(context(), "rmsnorm", limit=1).strategies) == 1


def test_the_lower_bound_rules_and_similarity_only_breaks_ties(memory: Memory) -> None:
    memory.record(trial("a", technique="a", title="rmsnorm rmsnorm rmsnorm"))
    memory.record(
        trial("b", technique="b", title="x", log_speedup=0.6, log_low=0.55, log_high=0.65)
    )
    hits = memory.recall(context(), "rmsnorm rmsnorm rmsnorm").strategies
    assert [hit.lesson.technique for hit in hits] == ["b", "a"]


def test_failures_are_anti_patterns_unless_the_same_technique_worked(memory: Memory) -> None:
    memory.record(failed("a", "incorrect", technique="flush_to_zero"))
    memory.record(failed("b", "timeout", run="run-2"))
    memory.record(trial("c"))
    recall = memory.recall(context(), "rmsnorm")
    assert [hit.lesson.technique for hit in recall.anti_patterns] == ["flush_to_zero"]
    (hit,) = recall.strategies
    assert "but also timeout on rmsnorm (1 trials)" in hit.reason


def test_a_contradiction_is_contested_and_lowers_the_bound(memory: Memory) -> None:
    memory.record(trial("a"))
    (alone,) = memory.lessons()
    memory.record(slower("b", run="run-2"))
    both = {lesson.kind: lesson for lesson in memory.lessons()}
    assert {lesson.status for lesson in both.values()} == {LessonStatus.CONTESTED}
    bound = both[LessonKind.STRATEGY].lower_bound
    assert bound is not None
    assert alone.lower_bound is not None
    assert bound < alone.lower_bound
    for hit in memory.recall(context(), "rmsnorm").strategies:
        assert "but also slower than the baseline" in hit.reason


def test_slower_elsewhere_contradicts_nothing(memory: Memory) -> None:
    memory.record(trial("a"))
    memory.record(slower("b", context=context(architecture="avx2")))
    assert {lesson.status for lesson in memory.lessons()} == {LessonStatus.CANDIDATE}


def test_slower_than_a_better_variant_does_not_contest_a_gain_on_the_baseline(
    memory: Memory,
) -> None:
    memory.record(trial("a"))
    memory.record(slower("b", compared_with="1" * 64))
    recall = memory.recall(context(), "rmsnorm")
    assert [hit.lesson.status for hit in recall.strategies] == [LessonStatus.CANDIDATE]
    assert recall.anti_patterns == ()


def test_poison_is_gone_after_revoking_its_run_and_stays_in_the_record(memory: Memory) -> None:
    poison = {"run": "cheat", "log_speedup": 2.5, "log_low": 2.4, "log_high": 2.6}
    for index in range(5):
        memory.record(trial(f"p{index}", technique=f"magic_{index}", **poison))
    memory.record(trial("honest"))
    assert memory.revoke("cheat") == 5
    assert memory.revoke("cheat") == 0
    (hit,) = memory.recall(context(), "rmsnorm magic").strategies
    assert hit.lesson.technique == "row_normalisation:vector_width=16"
    assert all(h.lesson.technique == hit.lesson.technique for h in memory.query("magic", Filters()))
    revoked = [x for x in memory.lessons() if x.status is LessonStatus.REVOKED]
    assert len(revoked) == 5
    assert memory.record(trial("late", technique="magic_9", **poison)) is None


def test_one_wild_number_cannot_outweigh_repeated_evidence(memory: Memory) -> None:
    memory.record(trial("wild", technique="wild", log_speedup=3.0, log_low=0.1, log_high=5.9))
    for index in range(4):
        memory.record(
            trial(
                f"{index}",
                technique="solid",
                run=f"run-{index}",
                log_speedup=0.3,
                log_low=0.28,
                log_high=0.32,
            )  # fmt: skip
        )
    first = memory.recall(context(), "").strategies[0]
    assert first.lesson.technique == "solid"


def test_a_query_in_plain_words_with_filters(memory: Memory) -> None:
    memory.record(
        trial(
            "a",
            technique="row_reduction:threads=2",
            title="row reduction with threads 2",
            context=context(family="reduction", dtypes=("bfloat16",)),
            problem="row_sum",
        )  # fmt: skip
    )
    memory.record(
        trial(
            "b",
            technique="tile",
            title="matrix product in tiles",
            problem="gemm",
            mechanism="reuse",
            action="tile",
            context=context(family="matmul", rung="triton", target="cuda", architecture="sm_90"),
        )  # fmt: skip
    )
    hits = memory.query("row reductions in bf16 on avx512", Filters())
    assert [hit.lesson.technique for hit in hits] == ["row_reduction:threads=2"]
    assert [h.lesson.technique for h in memory.query("matrix product on hopper", Filters())] == [
        "tile"
    ]
    assert memory.query("matrix product on sm_100", Filters()) == ()
    filtered = memory.query("row reduction or matrix", Filters.model_validate({"target": "cuda"}))
    assert [hit.lesson.technique for hit in filtered] == ["tile"]
    assert memory.query("chocolate", Filters()) == ()
    assert set(as_json(hits[0])) >= {
        "lesson", "title", "kind", "lower_bound", "conditions", "evidence", "reason",
    }  # fmt: skip


def test_a_dtype_that_was_not_measured_is_shown_last_and_said(memory: Memory) -> None:
    memory.record(trial("a", technique="in_float32"))
    memory.record(trial("b", technique="in_bfloat16", context=context(dtypes=("bfloat16",))))
    hits = memory.query("row normalisation in bf16", Filters())
    assert [hit.lesson.technique for hit in hits] == ["in_bfloat16", "in_float32"]
    assert "not measured in bfloat16" in hits[1].reason
