"""The stages that need no candidate, in the real sandbox."""

from __future__ import annotations

from pathlib import Path

import pytest

from problems.catalog import load_problem
from problems.definition import DType
from problems.evaluation import Status
from problems.problem import Problem, Target
from sandbox.blob_store import BlobStore
from sandbox.bubblewrap_sandbox import BubblewrapSandbox
from sandbox.sandbox import Limits
from scheduler.guest_executor import GuestExecutor
from scheduler.job import JobSpec, Stage, StageResult
from tests.evaluation import ENVIRONMENT

pytestmark = [pytest.mark.sandbox, pytest.mark.slow]


def run(folder: Path, stage: Stage, problem: Problem) -> StageResult:
    blobs = BlobStore(folder / "blobs")
    public = problem.targets[Target.CPU].public
    listed = "[" + ",".join(w.model_dump_json() for w in public) + "]"
    spec = JobSpec(
        run="test",
        key=stage,
        stage=stage,
        target=Target.CPU,
        problem=blobs.put(problem.canonical_json().encode()),
        workloads=blobs.put(listed.encode()),
        limits=Limits(wall_s=60),
    )
    with BubblewrapSandbox(blobs, folder / "sandbox") as sandbox:
        executor = GuestExecutor(sandbox, blobs, ENVIRONMENT)
        try:
            return executor.execute(spec)
        finally:
            executor.close()


def test_analyze(tmp_path: Path) -> None:
    problem = load_problem("causal_attention")
    result = run(tmp_path, Stage.ANALYZE, problem)
    assert result.status is Status.PASSED
    public = [workload.uuid for workload in problem.targets[Target.CPU].public]
    assert [analysis.workload for analysis in result.analyses] == public
    assert {analysis.compute_dtype for analysis in result.analyses} == {DType.BFLOAT16}


def test_a_reference_that_cannot_be_traced(tmp_path: Path) -> None:
    problem = load_problem("softmax")
    source = problem.definition.reference.replace(
        "return torch.softmax", "assert logits.sum() > 0\n    return torch.softmax"
    )
    definition = problem.definition.model_copy(update={"reference": source})
    result = run(tmp_path, Stage.ANALYZE, problem.model_copy(update={"definition": definition}))
    assert result.status is Status.INVALID_REFERENCE
    line = source.splitlines().index("    assert logits.sum() > 0") + 1
    assert result.log.startswith(f"reference line {line}: ")
    assert result.analyses == ()


def test_ceilings(tmp_path: Path) -> None:
    result = run(tmp_path, Stage.CEILINGS, load_problem("softmax"))
    assert result.status is Status.PASSED
    assert result.ceilings is not None
    assert result.ceilings.read_bytes_per_s is not None
    assert result.ceilings.matrix_operations_per_s[DType.FLOAT32] > 1e9
    assert (result.cores or 0) >= 1
    assert result.launch_overhead_us is not None
    assert result.hardware_name
