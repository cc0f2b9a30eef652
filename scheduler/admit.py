"""Runs the admission of a problem in one sandbox."""

from __future__ import annotations

import json

from problems.admission import AdmissionReport, admission_report, admission_target
from problems.problem import Problem
from sandbox.blob_store import BlobStore
from sandbox.sandbox import Limits, Sandbox, Warmth
from scheduler.guest_programs import GuestPrograms, report_of
from scheduler.plan import plan_of

_LIMITS = Limits(wall_s=300)


def admit(problem: Problem, sandbox: Sandbox, blobs: BlobStore) -> AdmissionReport:
    """Every public workload of the CPU target, in seconds.

    Raises:
        ConfigError: the problem has no workloads for the CPU.
        InfrastructureError: the sandbox failed.
    """
    target = admission_target(problem)
    plan = plan_of(problem.definition, problem.targets[target].public)
    files = {"plan.json": json.dumps(plan).encode()}
    running, ended = GuestPrograms(sandbox, blobs).run(["admit"], files, _LIMITS, Warmth.TORCH)
    return admission_report(problem, target, report_of(running, ended, "admission.json"))
