"""From a guest's JSON, read as hostile, to traces and results."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from pydantic import ValidationError

from problems.errors import InfrastructureError
from problems.evaluation import (
    Correctness,
    Environment,
    Evaluation,
    Performance,
    Session,
    Status,
    worst_status,
)
from problems.hardware import Peaks
from problems.paired import compare_workload
from problems.score import IMPLAUSIBLE_FRACTION
from problems.solution import Solution
from problems.trace import Trace
from problems.workload import Workload
from scheduler.job import Stage, StageResult


class ResultReader:
    """Makes the results of one job."""

    def __init__(
        self,
        stage: Stage,
        definition: str,
        solution: Solution,
        workloads: Sequence[Workload],
        bounds_ms: Sequence[float],
        environment: Environment,
    ) -> None:
        self._stage = stage
        self._definition = definition
        self._solution = solution
        self._workloads = workloads
        self._bounds_ms = bounds_ms or [0.0] * len(workloads)
        self._environment = environment

    def failed(self, status: Status, log: str) -> StageResult:
        """The same trace for every workload: there always is one each."""
        evaluations = [self._evaluation(status, log) for _ in self._workloads]
        return self._result(evaluations, ())

    def judged(self, reply: Mapping[str, Any]) -> StageResult:
        """Of a verifier's answer.

        Raises:
            InfrastructureError: the answer is malformed.
        """
        try:
            sessions = tuple(Session.model_validate(item) for item in reply["sessions"])
            rows = {row["workload"]: row for row in reply["workloads"]}
            evaluations = [
                self._judge(rows[workload.uuid], sessions, bound_ms)
                for workload, bound_ms in zip(self._workloads, self._bounds_ms, strict=True)
            ]
        except (ValidationError, KeyError, TypeError, ValueError) as error:
            raise InfrastructureError(f"the verifier's answer is malformed: {error}") from error
        return self._result(evaluations, sessions)

    def _judge(
        self, row: Mapping[str, Any], sessions: Sequence[Session], bound_ms: float
    ) -> Evaluation:
        status, log = Status(row["status"]), str(row["log"])
        correctness = row["correctness"] and Correctness.model_validate(row["correctness"])
        performance = None
        if status is Status.PASSED and sessions:
            performance = performance_of(sessions, row["workload"])
            if performance.latency_ms * IMPLAUSIBLE_FRACTION < bound_ms:
                status = Status.QUARANTINED
                log = (
                    f"{performance.latency_ms:.4g} ms is below 0.97 of the speed of light, "
                    f"{bound_ms:.4g} ms: not scored"
                )
        return self._evaluation(status, log, correctness or None, performance)

    def _evaluation(
        self,
        status: Status,
        log: str,
        correctness: Correctness | None = None,
        performance: Performance | None = None,
    ) -> Evaluation:
        return Evaluation(
            status=status,
            environment=self._environment,
            timestamp=datetime.now(UTC).isoformat(timespec="seconds"),
            log=log,
            correctness=correctness,
            performance=performance,
        )

    def _result(self, evaluations: list[Evaluation], sessions: tuple[Session, ...]) -> StageResult:
        traces = tuple(
            Trace(
                definition=self._definition,
                workload=workload,
                solution=self._solution.name,
                evaluation=evaluation,
            )
            for workload, evaluation in zip(self._workloads, evaluations, strict=True)
        )
        status = worst_status(tuple(evaluation.status for evaluation in evaluations))
        logs = [e.log for e in evaluations if e.status is status and e.log]
        own = [log for log in logs if not log.startswith("not scored: workload")]
        log = (own or logs or [""])[0]
        return StageResult(
            stage=self._stage, status=status, log=log, traces=traces, sessions=sessions
        )


def performance_of(sessions: Sequence[Session], workload: str) -> Performance:
    own = [session for session in sessions if session.workload == workload]
    ratio = compare_workload(sessions, workload)
    return Performance(
        latency_ms=statistics.median(session.solution_ms for session in own),
        opponent_latency_ms=statistics.median(session.opponent_ms for session in own),
        speedup=ratio.ratio,
        speedup_low=ratio.low,
        speedup_high=ratio.high,
        clock=own[0].clock,
    )


def ceilings_result(report: Mapping[str, Any]) -> StageResult:
    """
    Raises:
        InfrastructureError: the report lacks a field.
    """
    try:
        return StageResult(
            stage=Stage.CEILINGS,
            status=Status.PASSED,
            ceilings=Peaks(
                bytes_per_s=report["bytes_per_s"],
                read_bytes_per_s=report["read_bytes_per_s"],
                vector_operations_per_s=report["vector_operations_per_s"],
                matrix_operations_per_s=report["matrix_operations_per_s"],
            ),
            launch_overhead_us=report["launch_overhead_us"],
            cache_bytes=report["cache_bytes"],
            hardware_name=report["hardware_name"],
            cores=report["cores"],
        )
    except (KeyError, ValidationError) as error:
        raise InfrastructureError(f"ceilings: {error}") from error
