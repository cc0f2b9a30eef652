"""The seam: texts by id, and how near each is to a question; rebuildable, never the record."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Protocol

from problems.record import digest_of

NEAREST = 200
"""Neighbours that a question asks for; what is farther has similarity 0."""


class VectorIndex(Protocol):
    name: str

    def sync(self, texts: Mapping[str, str], generation: int) -> None:
        """Make it hold exactly `texts`, as the store had them at `generation`."""

    def nearest(self, question: str, limit: int = NEAREST) -> dict[str, float]:
        """Cosine by id, largest first."""

    def close(self) -> None: ...


def text_checksums(texts: Mapping[str, str]) -> dict[str, str]:
    return {found: digest_of(text.encode()) for found, text in texts.items()}


def checksum_of(checksums: Mapping[str, str]) -> str:
    """Of all rows, whatever their order."""
    whole = hashlib.sha256()
    for found, checksum in sorted(checksums.items()):
        whole.update(f"{found} {checksum}\n".encode())
    return whole.hexdigest()
