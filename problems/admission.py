"""Is this a fair problem? Trials of its reference, and its hidden draws, as a report."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from problems.errors import ConfigError, InfrastructureError
from problems.hidden_draw import draw_hidden, workload_bytes
from problems.problem import Problem, Target
from problems.record import NonEmpty, Record, parse_record

HIDDEN_DRAWS = 100
_SEED = b"admission"


class AdmissionCheck(Record):
    name: NonEmpty
    passed: bool
    detail: str
    """What was found, in one line."""


class WorkloadAdmission(Record):
    workload: NonEmpty
    checks: tuple[AdmissionCheck, ...]


class AdmissionReport(Record):
    problem: NonEmpty
    target: Target
    checks: tuple[AdmissionCheck, ...]
    """Of the problem as a whole."""
    workloads: tuple[WorkloadAdmission, ...]

    @property
    def passed(self) -> bool:
        return bool(self.workloads) and not self.failures

    @property
    def failures(self) -> tuple[str, ...]:
        """One line each."""
        of_problem = [f"{c.name}: {c.detail}" for c in self.checks if not c.passed]
        of_workloads = [
            f"workload {w.workload}: {c.name}: {c.detail}"
            for w in self.workloads
            for c in w.checks
            if not c.passed
        ]
        return (*of_problem, *of_workloads)


def admission_target(problem: Problem) -> Target:
    """
    Raises:
        ConfigError: it has no workloads for the CPU.
    """
    if Target.CPU not in problem.targets:
        raise ConfigError(
            f"{problem.name}: its workloads are for {', '.join(problem.targets)} only, and "
            f"checking them needs a GPU; add workloads for cpu to check it here"
        )
    return Target.CPU


def admission_report(
    problem: Problem, target: Target, guest_report: Mapping[str, Any]
) -> AdmissionReport:
    """`guest_report` is what `sandbox/guest/admit.py` wrote.

    Raises:
        InfrastructureError: it is malformed, or lacks a public workload.
    """
    checks = [_hidden_draws(problem, target)]
    if "error" in guest_report:
        checks.append(AdmissionCheck(name="runs", passed=False, detail=str(guest_report["error"])))
        return AdmissionReport(
            problem=problem.name, target=target, checks=tuple(checks), workloads=()
        )
    data = {
        "problem": problem.name,
        "target": target,
        "checks": checks,
        "workloads": guest_report.get("workloads"),
    }
    try:
        report = parse_record(AdmissionReport, data, "admission")
    except ConfigError as error:
        raise InfrastructureError(str(error)) from None
    public = [workload.uuid for workload in problem.targets[target].public]
    if [workload.workload for workload in report.workloads] != public:
        raise InfrastructureError("admission: the workloads are not the public ones")
    return report


def _hidden_draws(problem: Problem, target: Target) -> AdmissionCheck:
    name = f"{HIDDEN_DRAWS} hidden draws"
    workloads = problem.targets[target]
    if not workloads.rules:
        return AdmissionCheck(name=name, passed=True, detail="no rules: nothing hidden is drawn")
    try:
        drawn = draw_hidden(problem, target, _SEED, HIDDEN_DRAWS)
    except ConfigError as error:
        return AdmissionCheck(name=name, passed=False, detail=str(error))
    largest = max(workload_bytes(problem.definition, w) for w in (*drawn.scored, *drawn.neighbours))
    return AdmissionCheck(
        name=name,
        passed=largest <= workloads.max_bytes,
        detail=f"the largest has {largest} bytes, {workloads.max_bytes} are allowed",
    )
