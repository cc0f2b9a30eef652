"""Small valid records that the tests of this folder start from."""

from __future__ import annotations

from problems.definition import Definition
from problems.evaluation import Clock, Correctness, Environment, Evaluation, Performance, Status
from problems.solution import Solution
from problems.workload import Workload

REFERENCE = """
def run(x, eps):
    return x + eps


def get_inputs(axes_and_scalars, device):
    return {}
"""


def definition_fields() -> dict[str, object]:
    """Rows x (2 * half), a scalar, and an expression axis."""
    return {
        "name": "shift",
        "axes": {
            "rows": {"type": "var"},
            "half": {"type": "const", "value": 4},
            "width": {"type": "expr", "expression": "2 * half"},
        },
        "inputs": {
            "x": {"shape": ["rows", "width"], "dtype": "bfloat16"},
            "eps": {"shape": None, "dtype": "float32"},
        },
        "outputs": {
            "y": {"shape": ["rows", "width"], "dtype": "bfloat16"},
            "total": {"shape": [], "dtype": "float32"},
        },
        "reference": REFERENCE,
    }


def definition(**changes: object) -> Definition:
    return Definition.model_validate(definition_fields() | changes)


def workload_fields(rows: int = 3) -> dict[str, object]:
    return {
        "uuid": f"w{rows}",
        "axes": {"rows": rows},
        "inputs": {"x": {"type": "random"}, "eps": {"type": "scalar", "value": 1e-6}},
    }


def workload(rows: int = 3, /, **changes: object) -> Workload:
    return Workload.model_validate(workload_fields(rows) | changes)


def solution_fields() -> dict[str, object]:
    return {
        "name": "mine",
        "definition": "shift",
        "author": "me",
        "spec": {"languages": ["cpp"], "entry_point": "kernel.cpp::run"},
        "sources": [{"path": "kernel.cpp", "content": "void run() {}"}],
    }


def solution(**changes: object) -> Solution:
    return Solution.model_validate(solution_fields() | changes)


CORRECT = Correctness(max_relative_error=0.01, max_absolute_error=0.5, matched_ratio=1.0)
FAST = Performance(
    latency_ms=1.0,
    opponent_latency_ms=2.0,
    speedup=2.0,
    speedup_low=1.9,
    speedup_high=2.1,
    clock=Clock.WALL,
)


def evaluation(
    status: Status,
    correctness: Correctness | None = None,
    performance: Performance | None = None,
) -> Evaluation:
    return Evaluation(
        status=status,
        environment=Environment(hardware="a CPU", libs={"torch": "2"}),
        timestamp="2026-12-01T00:00:00Z",
        correctness=correctness,
        performance=performance,
    )
