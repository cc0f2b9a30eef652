"""The permanent record of one evaluation."""

from __future__ import annotations

from problems.evaluation import Evaluation, Status
from problems.record import Record
from problems.workload import Workload

_EXPORTED_STATUS = {Status.REJECTED: Status.REWARD_HACK, Status.QUARANTINED: Status.REWARD_HACK}


class Trace(Record):
    definition: str
    workload: Workload
    solution: str
    """Name of the solution."""
    evaluation: Evaluation

    def as_sol_execbench(self) -> dict[str, object]:
        """The trace in SOL-ExecBench's schema: its statuses only, and its performance fields."""
        evaluation = self.evaluation
        status = _EXPORTED_STATUS.get(evaluation.status, evaluation.status)
        performance = evaluation.performance if status is Status.PASSED else None
        exported: dict[str, object] = {
            "status": status.value,
            "environment": evaluation.environment.model_dump(),
            "timestamp": evaluation.timestamp,
            "log": evaluation.log,
            "correctness": None,
            "performance": None,
        }
        if evaluation.correctness and status in (Status.PASSED, Status.INCORRECT_NUMERICAL):
            found = evaluation.correctness
            exported["correctness"] = {
                "max_relative_error": found.max_relative_error,
                "max_absolute_error": found.max_absolute_error,
                "has_nan": found.has_nan,
                "has_inf": found.has_inf,
                "extra": {"matched_ratio": found.matched_ratio},
            }
        if performance:
            exported["performance"] = {
                "latency_ms": performance.latency_ms,
                "reference_latency_ms": performance.opponent_latency_ms,
                "speedup_factor": performance.speedup,
            }
        return {
            "definition": self.definition,
            "solution": self.solution,
            "workload": self.workload.model_dump(mode="json"),
            "evaluation": exported,
        }
