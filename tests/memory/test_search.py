"""Precision on a small labelled set: which lesson should a question find first?"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from memory.local_memory import LocalMemory
from memory.search import Filters
from tests.memory.samples import context, trial

LESSONS: dict[str, dict[str, Any]] = {
    "row_reduction": {"family": "reduction", "mechanism": "one pass per row, partial sums in "
                      "vector registers"},
    "row_normalisation": {"family": "normalisation", "mechanism": "keeps the row in cache so that "
                          "the second pass does not read memory"},
    "tiled_matmul": {"family": "matmul", "workload_class": "compute-bound", "mechanism": "reuses "
                     "tiles of both operands from registers"},
    "online_softmax": {"family": "softmax", "mechanism": "running maximum and sum, a single pass"},
    "pointwise_chain": {"family": "pointwise", "mechanism": "fuses activation and gating, no "
                        "intermediate tensor is written"},
    "split_k": {"family": "matmul", "target": "cuda", "architecture": "sm_90", "rung": "triton",
                "dtypes": ("bfloat16",), "mechanism": "more blocks for skinny products"},
    "paged_gather": {"family": "attention", "target": "cuda", "architecture": "sm_90",
                     "rung": "triton", "dtypes": ("bfloat16",),
                     "mechanism": "prefetches the page table of the key value cache"},
    "warp_shuffle": {"family": "reduction", "target": "cuda", "architecture": "sm_80",
                     "rung": "cuda_cpp", "dtypes": ("float16",),
                     "mechanism": "reduces within a warp without shared memory"},
}  # fmt: skip
QUESTIONS = {
    "row reductions in f32 on avx512": "row_reduction",
    "how to sum each row of a matrix on the CPU": "row_reduction",
    "rms norm and layer norm on a cpu": "row_normalisation",
    "normalisation of rows": "row_normalisation",
    "matrix multiplication on the cpu": "tiled_matmul",
    "softmax in one pass": "online_softmax",
    "fuse activation functions": "pointwise_chain",
    "skinny matrix products on Hopper": "split_k",
    "attention with a paged key value cache": "paged_gather",
    "reductions on an A100": "warp_shuffle",
    "reduce with warp shuffles in fp16": "warp_shuffle",
    "triton lessons for attention in bf16": "paged_gather",
}


@pytest.fixture(scope="module")
def memory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalMemory]:
    home: Path = tmp_path_factory.mktemp("memory")
    with LocalMemory(home) as made:
        for technique, fields in LESSONS.items():
            made.record(
                trial(
                    technique,
                    technique=technique,
                    title=technique.replace("_", " "),
                    action="",
                    mechanism=fields["mechanism"],
                    problem=f"p_{technique}",
                    context=context(**{k: v for k, v in fields.items() if k != "mechanism"}),
                )  # fmt: skip
            )
        yield made


def test_the_right_lesson_comes_first_for_most_questions(memory: LocalMemory) -> None:
    firsts = {}
    for question, expected in QUESTIONS.items():
        hits = memory.query(question, Filters(), limit=3)
        found = [hit.lesson.technique for hit in hits]
        assert expected in found, f"{question}: {found}"
        firsts[question] = found[0] == expected
    assert sum(firsts.values()) >= 0.8 * len(firsts), firsts


@pytest.mark.parametrize("question", ["anything on blackwell", "reductions on sm_89"])
def test_what_was_learned_on_another_architecture_never_shows(
    memory: LocalMemory, question: str
) -> None:
    assert memory.query(question, Filters()) == ()


def test_statistics_count(memory: LocalMemory) -> None:
    stats = memory.stats()
    assert (stats.lessons, stats.evidence, stats.runs) == (8, 8, 1)
    assert stats.by_outcome == {"faster": 8}
