"""Bytes by their SHA-256: how files travel between parts without host paths."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from problems.errors import InfrastructureError
from problems.record import Digest, digest_of


class BlobStore:
    """A folder of read-only files named by digest; writes are atomic and safe in parallel."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def put(self, data: bytes) -> Digest:
        """Durable on return (fsync, then rename).

        Raises:
            InfrastructureError: the disk is full or not writable.
        """
        digest = digest_of(data)
        path = self.path(digest)
        if path.exists():
            return digest
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            Path(file.name).rename(path)
        except OSError as error:
            raise InfrastructureError(f"cannot store a blob in {self._folder}: {error}") from error
        return digest

    def get(self, digest: Digest) -> bytes:
        """
        Raises:
            InfrastructureError: it is absent, or its bytes do not have that digest.
        """
        try:
            data = self.path(digest).read_bytes()
        except OSError as error:
            raise InfrastructureError(f"blob {digest[:12]}: {error}") from error
        if digest_of(data) != digest:
            raise InfrastructureError(f"blob {digest[:12]} is damaged: {self.path(digest)}")
        return data

    def path(self, digest: Digest) -> Path:
        return self._folder / digest[:2] / digest
