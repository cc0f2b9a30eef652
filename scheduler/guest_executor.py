"""Runs one job in sandboxes: the only place that knows which guest programs a stage needs."""

from __future__ import annotations

import json
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from pydantic import ValidationError

from problems.errors import InfrastructureError
from problems.evaluation import Environment, Status
from problems.problem import Problem
from problems.record import Digest
from problems.solution import Language, Solution
from problems.speed_of_light import Analysis
from problems.workload import Workload
from sandbox.blob_store import BlobStore
from sandbox.guest.link import LinkError, receive_frame, send_frame
from sandbox.sandbox import EndReason, Limits, Sandbox, Warmth
from scheduler.guest_programs import GuestPrograms, Resident, report_of
from scheduler.guest_results import ResultReader, ceilings_result
from scheduler.job import JobSpec, Stage, StageResult
from scheduler.plan import call_of, plan_of

CALL_TIMEOUT_S = 10.0
COMPILING_CALL_TIMEOUT_S = 90.0
_MAX_OPPONENTS = 3


class GuestExecutor:
    """Implements `scheduler.scheduler.Executor` over a sandbox.

    A verifier runs trusted code only and serves one problem: it is kept between jobs, with its
    input sets. So is an opponent's worker, whose sessions are processes of their own. A
    solution's worker lives for one job.
    """

    def __init__(
        self,
        sandbox: Sandbox,
        blobs: BlobStore,
        environment: Environment,
        call_timeout_s: float = CALL_TIMEOUT_S,
    ) -> None:
        self._blobs = blobs
        self._environment = environment
        self._call_timeout_s = call_timeout_s
        self._programs = GuestPrograms(sandbox, blobs)
        self._verifiers: dict[Digest, Resident] = {}
        self._opponents: OrderedDict[tuple[str, str], Resident] = OrderedDict()

    def execute(self, spec: JobSpec) -> StageResult:
        """
        Raises:
            InfrastructureError: the machine failed, not the candidate.
        """
        stages: dict[Stage, Callable[[JobSpec], StageResult]] = {
            Stage.ANALYZE: self._analyze,
            Stage.CEILINGS: self._ceilings,
            Stage.BUILD: self._build,
            Stage.CHECK: self._evaluate,
            Stage.SCREEN: self._evaluate,
            Stage.CONFIRM: self._evaluate,
            Stage.JUDGE: self._evaluate,
        }
        if spec.stage not in stages:
            raise InfrastructureError(f"no program runs {spec.stage} jobs")
        self._programs.cancelled = False
        started = time.monotonic()
        result = stages[spec.stage](spec)
        return result.model_copy(update={"seconds": time.monotonic() - started})

    def cancel(self) -> None:
        self._programs.cancel()

    def close(self) -> None:
        for resident in (*self._verifiers.values(), *self._opponents.values()):
            self._programs.end(resident)
        self._verifiers.clear()
        self._opponents.clear()

    def _analyze(self, spec: JobSpec) -> StageResult:
        plan = _json(plan_of(self._problem(spec).definition, self._workloads(spec)))
        running, ended = self._programs.run(
            ["analyze"], {"plan.json": plan}, spec.limits, Warmth.TORCH
        )
        report = report_of(running, ended, "analysis.json")
        if "error" in report:
            return StageResult(
                stage=spec.stage, status=Status.INVALID_REFERENCE, log=str(report["error"])
            )
        try:
            analyses = tuple(Analysis.model_validate(item) for item in report["analyses"])
        except (ValidationError, KeyError, TypeError) as error:
            raise InfrastructureError(f"the analysis is malformed: {error}") from error
        return StageResult(stage=spec.stage, status=Status.PASSED, analyses=analyses)

    def _ceilings(self, spec: JobSpec) -> StageResult:
        running, ended = self._programs.run(
            ["ceilings"], {"plan.json": b"{}"}, spec.limits, Warmth.PLAIN
        )
        return ceilings_result(report_of(running, ended, "ceilings.json"))

    def _build(self, spec: JobSpec) -> StageResult:
        solution = self._solution(spec.solution)
        definition = self._problem(spec).definition
        calls = [call_of(definition, workload) for workload in self._workloads(spec)]
        files = {"plan.json": _json({**_solution_plan(solution), "calls": calls})}
        files |= {f"sources/{s.path}": s.content.encode() for s in solution.sources}
        compiles = solution.language is Language.PYTORCH and _uses_compiler(solution)
        running, ended = self._programs.run(
            ["build"], files, spec.limits, Warmth.COMPILE if compiles else Warmth.PLAIN
        )
        reader = self._reader(spec)
        if ended.reason is not EndReason.EXITED or ended.code != 0:
            status = Status.TIMEOUT if ended.reason is EndReason.TIMEOUT else Status.COMPILE_ERROR
            why = f"the build ended by {ended.reason}, code {ended.code}"
            return reader.failed(status, f"{why}: {ended.log[-1000:]}".rstrip(": "))
        report = report_of(running, ended, "report.json")
        log = str(report.get("log", ""))
        if report.get("ok") is not True:
            return reader.failed(Status.COMPILE_ERROR, log)
        artifact = self._blobs.put(running.read("artifact", spec.limits.result_bytes))
        return StageResult(stage=spec.stage, status=Status.PASSED, log=log, artifact=artifact)

    def _evaluate(self, spec: JobSpec) -> StageResult:
        definition = self._problem(spec).definition
        task: dict[str, Any] = {
            "op": "check" if spec.stage is Stage.CHECK else "measure",
            "calls": [call_of(definition, workload) for workload in self._workloads(spec)],
            "call_timeout_s": self._call_timeout_s,
            "first_call_timeout_s": [
                self._first_call_timeout_s(spec.solution),
                self._first_call_timeout_s(spec.opponent),
            ],
        }
        if spec.stage is not Stage.CHECK:
            if spec.measure is None or spec.opponent is None:
                raise InfrastructureError(f"a {spec.stage} job needs an opponent and a measure")
            task |= spec.measure.model_dump()
        reader = self._reader(spec)
        worker = self._worker(spec.solution, spec.build, spec.limits, endless=False)
        try:
            reply = self._ask_verifier(spec, task, worker)
        except TimeoutError:
            self._drop_residents(spec)
            return reader.failed(
                Status.TIMEOUT, f"the {spec.stage} did not end within {spec.limits.wall_s:g} s"
            )
        except (LinkError, OSError) as error:
            log = self._last_words(spec)
            self._drop_residents(spec)
            raise InfrastructureError(f"the verifier was lost: {error}{log}") from error
        finally:
            self._programs.end(worker)
        if self._programs.cancelled:
            self._drop_residents(spec)
            raise InfrastructureError("cancelled")
        if "opponent_failed" in reply:
            self._drop_residents(spec)
            raise InfrastructureError(f"the opponent failed: {reply['opponent_failed']}")
        return reader.judged(reply)

    def _ask_verifier(
        self, spec: JobSpec, task: dict[str, Any], worker: Resident
    ) -> dict[str, Any]:
        verifier = self._verifier(spec)
        links = [worker.link]
        if spec.stage is not Stage.CHECK:
            links.append(self._opponent(spec).link)
        verifier.link.settimeout(spec.limits.wall_s)
        send_frame(verifier.link, task, fds=tuple(link.fileno() for link in links))
        reply, _, _ = receive_frame(verifier.link)
        return reply

    def _verifier(self, spec: JobSpec) -> Resident:
        if spec.problem not in self._verifiers:
            plan = plan_of(self._problem(spec).definition, self._workloads(spec))
            self._verifiers[spec.problem] = self._programs.serve(
                ["verifier"], {"plan.json": _json(plan)}, spec.limits, Warmth.TORCH
            )
        return self._verifiers[spec.problem]

    def _opponent(self, spec: JobSpec) -> Resident:
        """Kept between jobs; a run has its baseline and its best as opponents."""
        key = (spec.opponent or "", spec.opponent_build or "")
        if key not in self._opponents:
            self._opponents[key] = self._worker(
                spec.opponent, spec.opponent_build, spec.limits, endless=True
            )
            if len(self._opponents) > _MAX_OPPONENTS:
                self._programs.end(self._opponents.popitem(last=False)[1])
        self._opponents.move_to_end(key)
        return self._opponents[key]

    def _worker(
        self, solution: Digest | None, build: Digest | None, limits: Limits, endless: bool
    ) -> Resident:
        if build is None:
            raise InfrastructureError("the job names a solution without its build")
        record = self._solution(solution)
        files = {"plan.json": _json(_solution_plan(record)), "artifact": self._blobs.get(build)}
        return self._programs.serve(["worker"], files, limits, _warmth_to_run(record), endless)

    def _drop_residents(self, spec: JobSpec) -> None:
        for kept in (
            self._verifiers.pop(spec.problem, None),
            self._opponents.pop((spec.opponent or "", spec.opponent_build or ""), None),
        ):
            if kept is not None:
                self._programs.end(kept)

    def _last_words(self, spec: JobSpec) -> str:
        """What a verifier that ended printed last."""
        verifier = self._verifiers.get(spec.problem)
        ended = verifier.running.wait(1.0) if verifier else None
        return f": {ended.log[-400:].strip()}" if ended else ""

    def _first_call_timeout_s(self, solution: Digest | None) -> float:
        """PyTorch may compile in the first call of a shape."""
        compiles = solution is not None and _uses_compiler(self._solution(solution))
        return COMPILING_CALL_TIMEOUT_S if compiles else self._call_timeout_s

    def _reader(self, spec: JobSpec) -> ResultReader:
        return ResultReader(
            spec.stage,
            self._problem(spec).definition.name,
            self._solution(spec.solution),
            self._workloads(spec),
            spec.bounds_ms,
            self._environment,
        )

    def _problem(self, spec: JobSpec) -> Problem:
        return Problem.model_validate_json(self._blobs.get(spec.problem))

    def _workloads(self, spec: JobSpec) -> tuple[Workload, ...]:
        items = json.loads(self._blobs.get(spec.workloads))
        return tuple(Workload.model_validate(item) for item in items)

    def _solution(self, digest: Digest | None) -> Solution:
        if digest is None:
            raise InfrastructureError("the job names no solution")
        return Solution.model_validate_json(self._blobs.get(digest))


def _solution_plan(solution: Solution) -> dict[str, Any]:
    return {
        "language": solution.language.value,
        "entry_path": solution.entry_path,
        "entry_symbol": solution.entry_symbol,
        "destination_passing_style": solution.spec.destination_passing_style,
        "sources": [source.path for source in solution.sources],
    }


def _uses_compiler(solution: Solution) -> bool:
    return any("torch.compile" in source.content for source in solution.sources)


def _warmth_to_run(solution: Solution) -> Warmth:
    if solution.language is not Language.PYTORCH:
        return Warmth.PLAIN
    return Warmth.COMPILE if _uses_compiler(solution) else Warmth.TORCH


def _json(value: object) -> bytes:
    return json.dumps(value, allow_nan=False).encode()
