"""A tiny problem, solutions for it, and the real evaluator over a real sandbox, for the tests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from problems.definition import Definition
from problems.evaluation import Environment
from problems.problem import Problem, Target, WorkloadSet
from problems.record import parse_record
from problems.solution import Solution
from problems.workload import Workload
from sandbox.blob_store import BlobStore
from sandbox.bubblewrap_sandbox import BubblewrapSandbox
from sandbox.sandbox import Limits
from scheduler.guest_executor import GuestExecutor
from scheduler.job import JobSpec, MeasureSpec, Stage, StageResult

ENVIRONMENT = Environment(hardware="test machine", libs={})
REFERENCE = """import torch

def run(x, bias, scale):
    return x * scale + bias
"""
HONEST = """#include <cstdint>
extern "C" int run(const float* x, const float* bias, double scale, float* y, int64_t rows,
                   int64_t columns) {
#pragma omp parallel for
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c)
      y[r * columns + c] = x[r * columns + c] * (float)scale + bias[c];
  return 0;
}
"""


def scale_problem(workloads: int = 2) -> Problem:
    """y = x * scale + bias over rows; sizes small enough for many tests, large enough to time."""
    definition = {
        "name": "scale_and_shift",
        "axes": {"rows": {"type": "var"}, "columns": {"type": "const", "value": 512}},
        "inputs": {
            "x": {"shape": ["rows", "columns"], "dtype": "float32"},
            "bias": {"shape": ["columns"], "dtype": "float32"},
            "scale": {"shape": None, "dtype": "float32"},
        },
        "outputs": {"y": {"shape": ["rows", "columns"], "dtype": "float32"}},
        "reference": REFERENCE,
    }
    public = [
        {
            "uuid": f"rows-{rows}",
            "axes": {"rows": rows},
            "inputs": {
                "x": {"type": "random"},
                "bias": {"type": "random"},
                "scale": {"type": "scalar", "value": 1.5},
            },
            "tolerance": {"max_atol": 1e-4, "max_rtol": 1e-4, "required_matched_ratio": 1.0},
        }
        for rows in (256, 384, 511)[:workloads]
    ]
    return Problem(
        name="scale_and_shift",
        source="test",
        definition=parse_record(Definition, definition, "test"),
        targets={Target.CPU: WorkloadSet(public=tuple(Workload.model_validate(w) for w in public))},
    )


def cpp_solution(source: str, name: str = "candidate") -> Solution:
    return _solution(name, "cpp", "kernel.cpp", source, destination_passing=True)


def pytorch_solution(
    source: str, name: str = "candidate", destination_passing: bool = False
) -> Solution:
    return _solution(name, "pytorch", "kernel.py", source, destination_passing)


def _solution(
    name: str, language: str, path: str, source: str, destination_passing: bool
) -> Solution:
    return Solution.model_validate(
        {
            "name": name,
            "definition": "scale_and_shift",
            "author": "test",
            "spec": {
                "languages": [language],
                "entry_point": f"{path}::run",
                "destination_passing_style": destination_passing,
            },
            "sources": [{"path": path, "content": source}],
        }
    )


class Evaluator:
    """Stages of one problem, straight through the executor."""

    def __init__(self, executor: GuestExecutor, blobs: BlobStore, problem: Problem) -> None:
        self._executor = executor
        self._blobs = blobs
        self.problem = problem

    def stage(
        self,
        stage: Stage,
        solution: Solution,
        opponent: Solution | None = None,
        sessions: int = 1,
        limits: Limits | None = None,
        bounds_ms: tuple[float, ...] = (),
    ) -> StageResult:
        """Builds whatever the stage needs; a failed build is the result."""
        built = self._execute(Stage.BUILD, solution)
        if built.artifact is None or stage is Stage.BUILD:
            return built
        against = self._execute(Stage.BUILD, opponent) if opponent else None
        spec = self._spec(stage, solution).model_copy(
            update={
                "build": built.artifact,
                "opponent": self._put(opponent) if opponent else None,
                "opponent_build": against.artifact if against else None,
                "measure": MeasureSpec(sessions=sessions, blocks=3) if opponent else None,
                "limits": limits or Limits(wall_s=60),
                "bounds_ms": bounds_ms,
            }
        )
        return self._executor.execute(spec)

    def _execute(self, stage: Stage, solution: Solution) -> StageResult:
        return self._executor.execute(self._spec(stage, solution))

    def _spec(self, stage: Stage, solution: Solution) -> JobSpec:
        workloads = self.problem.targets[Target.CPU].public
        listed = "[" + ",".join(w.model_dump_json() for w in workloads) + "]"
        return JobSpec(
            run="test",
            key=f"{stage}:{solution.content_digest()}",
            stage=stage,
            target=Target.CPU,
            problem=self._blobs.put(self.problem.canonical_json().encode()),
            workloads=self._blobs.put(listed.encode()),
            solution=self._put(solution),
        )

    def _put(self, solution: Solution) -> str:
        return self._blobs.put(solution.canonical_json().encode())


@contextmanager
def real_evaluator(folder: Path, problem: Problem | None = None) -> Iterator[Evaluator]:
    blobs = BlobStore(folder / "blobs")
    with BubblewrapSandbox(blobs, folder / "sandbox") as sandbox:
        executor = GuestExecutor(sandbox, blobs, ENVIRONMENT, call_timeout_s=1.0)
        try:
            yield Evaluator(executor, blobs, problem or scale_problem())
        finally:
            executor.close()
