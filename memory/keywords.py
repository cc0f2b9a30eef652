"""Which texts share words with a question: BM25, and how two rankings become one."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence

_SATURATION = 1.2
_LENGTH_WEIGHT = 0.75
"""BM25's k1 and b at their usual values (Robertson and Zaragoza, 2009)."""
_RANK_OFFSET = 60
"""Reciprocal rank fusion's k (Cormack et al., SIGIR 2009)."""
_STOP_WORDS = frozenset(
    {"a", "an", "and", "are", "as", "at", "be", "been", "by", "for", "from", "has", "have", "how"}
    | {"in", "is", "it", "of", "on", "or", "that", "the", "this", "to", "was", "what", "when"}
    | {"where", "which", "why", "with", "worked", "works"}
)


class KeywordIndex:
    def __init__(self, texts: Mapping[str, str]) -> None:
        self._counts = {found: Counter(words_of(text)) for found, text in texts.items()}
        self._lengths = {found: counts.total() for found, counts in self._counts.items()}
        self._mean_length = sum(self._lengths.values()) / max(1, len(texts)) or 1.0
        self._holders: dict[str, list[str]] = {}
        for found, counts in self._counts.items():
            for word in counts:
                self._holders.setdefault(word, []).append(found)

    def scores(self, question: str) -> dict[str, float]:
        """Of the texts that share a word with it."""
        scores: dict[str, float] = {}
        total = len(self._counts)
        for word in set(words_of(question)):
            holders = self._holders.get(word, ())
            rarity = math.log(1 + (total - len(holders) + 0.5) / (len(holders) + 0.5))
            for found in holders:
                count = self._counts[found][word]
                length = self._lengths[found] / self._mean_length
                scale = _SATURATION * (1 - _LENGTH_WEIGHT + _LENGTH_WEIGHT * length)
                gain = rarity * count * (_SATURATION + 1) / (count + scale)
                scores[found] = scores.get(found, 0.0) + gain
        return scores


def words_of(text: str) -> list[str]:
    """Lower-case words without stop words, plurals as singulars."""
    words = re.findall(r"[a-z0-9]+(?:_[a-z0-9]+)*", text.lower())
    parts = [part for word in words for part in {word, *word.split("_")}]
    return [_singular(part) for part in parts if part not in _STOP_WORDS]


def _singular(word: str) -> str:
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word


def fuse(rankings: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Reciprocal rank fusion of several scores by id; ties within one share their best rank."""
    fused: dict[str, float] = {}
    for scores in rankings:
        ordered = sorted(scores.values(), reverse=True)
        ranks = {score: rank for rank, score in reversed(list(enumerate(ordered, start=1)))}
        for found, score in scores.items():
            fused[found] = fused.get(found, 0.0) + 1 / (_RANK_OFFSET + ranks[score])
    return fused
