"""A problem, its blobs and job specs on the simulated device."""

from __future__ import annotations

import json
from typing import Any

from problems.problem import Problem
from problems.solution import Solution
from sandbox.blob_store import BlobStore
from scheduler.job import JobSpec, Stage, StageResult

WORKLOADS: list[dict[str, Any]] = [
    {"uuid": f"w{rows}", "axes": {"rows": rows}, "inputs": {"x": {"type": "random"}}}
    for rows in (4, 64)
]
PROBLEM = Problem.model_validate(
    {
        "name": "shift",
        "source": "library",
        "definition": {
            "name": "shift",
            "axes": {"rows": {"type": "var"}},
            "inputs": {"x": {"shape": ["rows"], "dtype": "float32"}},
            "outputs": {"y": {"shape": ["rows"], "dtype": "float32"}},
            "reference": "def run(x):\n    return x + 1\n",
        },
        "targets": {"cpu": {"public": WORKLOADS}},
    }
)


def solution(simulate: str) -> Solution:
    return Solution.model_validate(
        {
            "name": "candidate",
            "definition": "shift",
            "author": "test",
            "spec": {"languages": ["cpp"], "entry_point": "kernel.cpp::run"},
            "sources": [{"path": "kernel.cpp", "content": f"// simulate: {simulate}\n"}],
        }
    )


def job(
    blobs: BlobStore, key: str, stage: Stage = Stage.BUILD, simulate: str = "", **changes: Any
) -> JobSpec:
    baseline = blobs.put(solution("latency_ms=2").canonical_json().encode())
    fields: dict[str, Any] = {
        "run": "run-1",
        "key": key,
        "stage": stage,
        "target": "cpu",
        "problem": blobs.put(PROBLEM.canonical_json().encode()),
        "workloads": blobs.put(json.dumps(WORKLOADS).encode()),
        "solution": blobs.put(solution(simulate or "latency_ms=1").canonical_json().encode()),
        "opponent": baseline,
        "measure": {"sessions": 6, "blocks": 6},
    }
    return JobSpec.model_validate(fields | changes)


def result_of(blobs: BlobStore, digest: str | None) -> StageResult:
    assert digest is not None
    return StageResult.model_validate_json(blobs.get(digest))
