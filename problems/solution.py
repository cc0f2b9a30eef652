"""Candidate source code with its language and entry point, in SOL-ExecBench's schema."""

from __future__ import annotations

from enum import StrEnum
from pathlib import PurePosixPath

from pydantic import Field, field_validator, model_validator

from problems.record import ForeignRecord, NonEmpty


class Language(StrEnum):
    """SOL-ExecBench's names, and ours where it has none (tilelang, ptx, cpp)."""

    PYTORCH = "pytorch"
    TRITON = "triton"
    TILELANG = "tilelang"
    CUTE_DSL = "cute_dsl"
    CUDA_CPP = "cuda_cpp"
    PTX = "ptx"
    CPP = "cpp"


SUFFIXES = {
    Language.PYTORCH: (".py",),
    Language.TRITON: (".py",),
    Language.TILELANG: (".py",),
    Language.CUTE_DSL: (".py",),
    Language.CUDA_CPP: (".cu", ".cpp", ".cc", ".cxx", ".cuh"),
    Language.PTX: (".ptx",),
    Language.CPP: (".cpp", ".cc", ".cxx", ".c"),
}
MAX_SOURCE_BYTES = 1 << 20


class SourceFile(ForeignRecord):
    path: NonEmpty
    """Relative, without `..`."""
    content: str

    @field_validator("path")
    @classmethod
    def _stays_inside(cls, path: str) -> str:
        parts = PurePosixPath(path).parts
        if path.startswith("/") or ".." in parts or not parts or "\0" in path:
            raise ValueError(f"{path!r} must be relative and without '..'")
        return path


class CompileOptions(ForeignRecord):
    cflags: tuple[str, ...] = ()
    cuda_cflags: tuple[str, ...] = ("-O3", "--use_fast_math")
    ld_flags: tuple[str, ...] = ("-lcuda",)


class SolutionSpec(ForeignRecord):
    languages: tuple[Language, ...] = Field(min_length=1)
    target_hardware: tuple[NonEmpty, ...] = Field(default=("LOCAL",), min_length=1)
    entry_point: NonEmpty
    """`path::symbol`."""
    dependencies: tuple[str, ...] = ()
    destination_passing_style: bool = True
    """True: called as `run(*inputs, *outputs)`; False: returns the outputs."""
    binding: str | None = None
    compile_options: CompileOptions | None = None

    @field_validator("entry_point")
    @classmethod
    def _has_path_and_symbol(cls, value: str) -> str:
        path, separator, symbol = value.partition("::")
        if not (path and separator and symbol.isidentifier()):
            raise ValueError(f"{value!r} is not of the form path::symbol")
        return value

    @field_validator("languages")
    @classmethod
    def _is_one_language(cls, value: tuple[Language, ...]) -> tuple[Language, ...]:
        if len(set(value)) != 1:
            raise ValueError(f"one language is needed, not {', '.join(value)}")
        return value


class Solution(ForeignRecord):
    name: NonEmpty
    definition: NonEmpty
    author: NonEmpty
    description: str | None = None
    spec: SolutionSpec
    sources: tuple[SourceFile, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _entry_is_there(self) -> Solution:
        paths = [source.path for source in self.sources]
        if len(set(paths)) != len(paths):
            raise ValueError("sources: a path is there twice")
        if self.entry_path not in paths:
            raise ValueError(
                f"spec.entry_point: no source {self.entry_path!r}; sources: {', '.join(paths)}"
            )
        if not self.entry_path.endswith(SUFFIXES[self.language]):
            raise ValueError(
                f"spec.entry_point: a {self.language} entry ends in "
                f"{' or '.join(SUFFIXES[self.language])}"
            )
        size = sum(len(source.content.encode()) for source in self.sources)
        if size > MAX_SOURCE_BYTES:
            raise ValueError(f"sources: {size} bytes are above the limit of {MAX_SOURCE_BYTES}")
        return self

    @property
    def language(self) -> Language:
        return self.spec.languages[0]

    @property
    def entry_path(self) -> str:
        return self.spec.entry_point.partition("::")[0]

    @property
    def entry_symbol(self) -> str:
        return self.spec.entry_point.partition("::")[2]

    @property
    def entry_source(self) -> str:
        return next(s.content for s in self.sources if s.path == self.entry_path)
