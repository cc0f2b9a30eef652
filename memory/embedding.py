"""From texts to unit vectors without a download: WordLlama's shipped weights, else hashing.

WordLlama (the package `wordllama`, MIT) ships vectors that were trained from the token embeddings
of Llama-2-class models; whoever distributes them further must check that model's licence too.
"""

from __future__ import annotations

import hashlib
import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray

    Vectors = NDArray[numpy.float32]

DIMENSION = 256


class Embedder(Protocol):
    id: str
    """Another id means other vectors: an index made with one is of no use to another."""
    notice: str | None
    """What the user must be told about it."""

    def embed(self, texts: Sequence[str]) -> Vectors:
        """One row of length 1 per text; a text without a known word is a row of zeros."""


class WordLlamaEmbedder:
    """The mean of static token vectors: 0.1 s to load, 0.04 ms a text (facts/stack.md, 6)."""

    id = "wordllama-l2_supercat-256"
    notice: str | None = None

    def __init__(self, package: Path) -> None:
        self._package = package
        self._loaded: tuple[Vectors, Any] | None = None

    def embed(self, texts: Sequence[str]) -> Vectors:
        import numpy

        weights, tokenizer = self._load()
        vectors = numpy.zeros((len(texts), DIMENSION), dtype=numpy.float32)
        encodings = tokenizer.encode_batch(list(texts), add_special_tokens=False)
        for row, encoding in enumerate(encodings):
            if encoding.ids:
                vectors[row] = weights[encoding.ids].mean(axis=0)
        return _unit(vectors)

    def _load(self) -> tuple[Vectors, Any]:
        if self._loaded is None:
            import numpy
            from safetensors.numpy import load_file
            from tokenizers import Tokenizer

            (weights,) = load_file(str(weights_path(self._package))).values()
            tokenizer = Tokenizer.from_file(str(tokenizer_path(self._package)))
            tokenizer.no_padding()
            tokenizer.no_truncation()
            self._loaded = weights.astype(numpy.float32), tokenizer
        return self._loaded


class HashingEmbedder:
    """Signed hashes of words and of their three- to five-letter parts; knows no synonyms."""

    id = "hashing-256-v1"

    def __init__(self, notice: str | None = None) -> None:
        self.notice = notice

    def embed(self, texts: Sequence[str]) -> Vectors:
        import numpy

        vectors = numpy.zeros((len(texts), DIMENSION), dtype=numpy.float32)
        for row, text in enumerate(texts):
            for word in text.lower().split():
                for part in _parts(word):
                    digest = hashlib.blake2b(part.encode(), digest_size=4).digest()
                    sign = 1.0 if digest[0] & 1 else -1.0
                    vectors[row, int.from_bytes(digest[1:3], "big") % DIMENSION] += sign
        return _unit(vectors)


def installed_embedder() -> Embedder:
    """WordLlama's vectors where the package is installed; otherwise hashing, and it says so."""
    found = importlib.util.find_spec("wordllama")
    package = Path(found.origin).parent if found and found.origin else None
    if package and weights_path(package).is_file() and tokenizer_path(package).is_file():
        return WordLlamaEmbedder(package)
    return HashingEmbedder(
        "memory: the package wordllama is not installed, so lessons are found by their words only"
    )


def weights_path(package: Path) -> Path:
    return package / "weights" / "l2_supercat_256.safetensors"


def tokenizer_path(package: Path) -> Path:
    return package / "tokenizers" / "l2_supercat_tokenizer_config.json"


def _parts(word: str) -> list[str]:
    framed = f"<{word}>"
    return [framed] + [
        framed[start : start + size]
        for size in (3, 4, 5)
        for start in range(len(framed) - size + 1)
    ]


def _unit(vectors: Vectors) -> Vectors:
    import numpy

    lengths = numpy.linalg.norm(vectors, axis=1, keepdims=True)
    return numpy.divide(vectors, numpy.where(lengths > 0, lengths, 1), dtype=numpy.float32)
