from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from memory.chroma_index import ChromaIndex, ChromaUnavailable
from memory.embedding import HashingEmbedder, WordLlamaEmbedder, installed_embedder
from memory.exact_index import ExactIndex
from memory.local_memory import LocalMemory
from memory.search import Filters
from memory.vector_index import VectorIndex
from tests.memory.samples import context, trial

TEXTS = {f"lesson-{i}": f"number {i} about {word}" for i, word in enumerate(
    ["rows", "tiles", "vector width", "shared memory", "threads", "softmax", "bank conflicts"]
)}  # fmt: skip


@pytest.fixture(params=["exact", "chroma"])
def index(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[VectorIndex]:
    made: VectorIndex = ExactIndex(HashingEmbedder())
    if request.param == "chroma":
        made = ChromaIndex(tmp_path / "lesson-index", HashingEmbedder())
    yield made
    made.close()


def test_the_nearest_is_the_text_itself_and_changes_are_followed(index: VectorIndex) -> None:
    index.sync({}, 0)
    assert index.nearest("rows") == {}
    index.sync(TEXTS, 1)
    for found, text in TEXTS.items():
        nearest = index.nearest(text, limit=2)
        assert next(iter(nearest)) == found
        assert nearest[found] == pytest.approx(1, abs=1e-5)
        assert len(nearest) == 2
    index.sync(TEXTS | {"lesson-0": "entirely different"}, 2)
    assert next(iter(index.nearest("entirely different"))) == "lesson-0"
    del (shorter := dict(TEXTS))["lesson-1"]
    index.sync(shorter, 3)
    assert "lesson-1" not in index.nearest("tiles")


def test_both_give_the_same_answers(tmp_path: Path) -> None:
    exact, chroma = ExactIndex(HashingEmbedder()), ChromaIndex(tmp_path / "i", HashingEmbedder())
    for made in (exact, chroma):
        made.sync(TEXTS, 1)
    for question in ("vector", "memory bank", "soft"):
        assert chroma.nearest(question) == pytest.approx(exact.nearest(question), abs=1e-5)
    chroma.close()


def open_and_ask(folder: Path, generation: int = 1) -> tuple[str | None, dict[str, float]]:
    index = ChromaIndex(folder, HashingEmbedder())
    index.sync(TEXTS, generation)
    answer = index.nearest("shared memory threads")
    index.close()
    return index.rebuilt, answer


def test_an_index_is_kept_when_whole_and_rebuilt_with_identical_answers(tmp_path: Path) -> None:
    folder = tmp_path / "lesson-index"
    stamp = tmp_path / "lesson-index.stamp"
    reason, first = open_and_ask(folder)
    assert reason == "it is new"
    assert open_and_ask(folder) == (None, first)
    stamp.unlink()
    assert open_and_ask(folder) == ("it was never finished", first)
    fields = json.loads(stamp.read_text())
    for change, expected in {
        ("checksum", "0" * 64): "its rows are not those that were written",
        ("rows", 3): "its rows are not those that were written",
        ("generation", 99): "the lesson store is older than the index",
        ("embedder", "another"): "it was made with another",
    }.items():
        stamp.write_text(json.dumps(fields | dict([change])))
        assert open_and_ask(folder) == (expected, first)
    stamp.write_text("{")
    assert open_and_ask(folder) == ("its stamp is damaged", first)
    (folder / "chroma.sqlite3").write_bytes(b"garbage" * 1000)
    reason, again = open_and_ask(folder)
    assert reason is not None
    assert reason.startswith("Chroma cannot read it")
    assert again == first


def test_only_one_process_has_it_open_and_the_other_searches_exactly(tmp_path: Path) -> None:
    first, second = LocalMemory(tmp_path), LocalMemory(tmp_path)
    first.record(trial())
    asked = [memory.query("row normalisation", Filters())[0].lesson for memory in (first, second)]
    assert asked[0] == asked[1]
    assert (first.index_name, second.index_name) == ("chroma", "exact")
    assert first.notices == ()
    assert second.notices == (
        "memory: another kagent process has the index open; every lesson is compared instead",
    )
    first.close()
    third = LocalMemory(tmp_path)
    third.recall(context(), "rows")
    assert third.index_name == "chroma"
    second.close()
    third.close()


def test_a_folder_that_cannot_be_written_is_replaced_by_the_exact_index(tmp_path: Path) -> None:
    (tmp_path / "lesson-index").write_text("a file where the folder should be")
    (tmp_path / "lesson-index.stamp").mkdir()
    with LocalMemory(tmp_path) as memory:
        memory.record(trial())
        assert memory.recall(context(), "rows").strategies
        assert memory.index_name == "exact"
        (notice,) = memory.notices
        assert notice.startswith("memory: its index failed (")


def test_a_lock_that_is_held_is_named(tmp_path: Path) -> None:
    held = ChromaIndex(tmp_path / "i", HashingEmbedder())
    with pytest.raises(ChromaUnavailable, match="another kagent process"):
        ChromaIndex(tmp_path / "i", HashingEmbedder())
    held.close()


def test_vectors_have_length_one_and_an_unknown_text_none() -> None:
    for embedder in (HashingEmbedder(), installed_embedder()):
        vectors = embedder.embed(["row reduction", ""])
        assert vectors.shape == (2, 256)
        assert float((vectors[0] ** 2).sum()) == pytest.approx(1, abs=1e-5)
        assert float((vectors[1] ** 2).sum()) in (0.0, pytest.approx(1, abs=1e-5))


def test_meaning_is_near_where_no_word_is_shared() -> None:
    embedder = installed_embedder()
    if not isinstance(embedder, WordLlamaEmbedder):
        pytest.skip("wordllama is not installed")
    rows = embedder.embed(["fast addition of numbers", "summing quickly", "the king of France"])
    assert rows[0] @ rows[1] > rows[0] @ rows[2]
