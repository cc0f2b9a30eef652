"""Runs one job in sandboxes: the only place that knows which guest programs a stage needs."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from pydantic import ValidationError

from problems.errors import InfrastructureError, SandboxError
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
from problems.problem import Problem
from problems.record import Digest
from problems.score import IMPLAUSIBLE_FRACTION
from problems.solution import Language, Solution
from problems.speed_of_light import Analysis
from problems.trace import Trace
from problems.workload import Workload
from sandbox.blob_store import BlobStore
from sandbox.guest.link import LinkError, receive_frame, send_frame
from sandbox.sandbox import EndReason, Exit, Limits, Running, Sandbox, Warmth
from scheduler.job import JobSpec, Stage, StageResult
from scheduler.plan import call_of, plan_of

CALL_TIMEOUT_S = 10.0
_MAX_REPORT_BYTES = 32 << 20
_RESIDENT_WALL_S = 24 * 3600.0


class GuestExecutor:
    """Implements `scheduler.scheduler.Executor` over a sandbox.

    A verifier runs trusted code only and serves one problem: it is kept between jobs, with its
    input sets. So is the worker of an opponent, which a job may not choose. A solution's worker
    lives for one job.
    """

    def __init__(
        self, sandbox: Sandbox, blobs: BlobStore, cores: int, environment: Environment
    ) -> None:
        self._sandbox = sandbox
        self._blobs = blobs
        self._cores = cores
        self._environment = environment
        self._verifiers: dict[Digest, _Resident] = {}
        self._opponents: dict[Digest, _Resident] = {}
        self._running: list[Running] = []
        self._lock = threading.Lock()
        self._cancelled = False

    def execute(self, spec: JobSpec) -> StageResult:
        """
        Raises:
            InfrastructureError: the machine failed, not the candidate.
        """
        self._cancelled = False
        started = time.monotonic()
        result = _STAGES[spec.stage](self, spec)
        return result.model_copy(update={"seconds": time.monotonic() - started})

    def cancel(self) -> None:
        with self._lock:
            self._cancelled = True
            for running in self._running:
                running.kill()

    def close(self) -> None:
        for resident in (*self._verifiers.values(), *self._opponents.values()):
            resident.close()
        self._verifiers.clear()
        self._opponents.clear()

    # one sandbox, one program, files out

    def _run_program(
        self,
        argv: Sequence[str],
        files: Mapping[str, bytes],
        limits: Limits,
        warmth: Warmth,
    ) -> tuple[Running, Exit]:
        running = self._start(argv, files, limits, warmth)
        try:
            ended = running.wait(limits.wall_s + 10)
            if ended is None:
                running.kill()
                raise SandboxError(f"{argv[0]} did not end though its time was over")
        finally:
            self._forget(running)
        if self._cancelled:
            raise InfrastructureError("cancelled")
        return running, ended

    def _start(
        self,
        argv: Sequence[str],
        files: Mapping[str, bytes],
        limits: Limits,
        warmth: Warmth,
        links: Sequence[socket.socket] = (),
    ) -> Running:
        slot = self._sandbox.prepare(warmth, limits)
        digests = {path: self._blobs.put(data) for path, data in files.items()}
        running = self._sandbox.start(slot, digests, argv, links)
        with self._lock:
            self._running.append(running)
        return running

    def _forget(self, running: Running) -> None:
        with self._lock:
            if running in self._running:
                self._running.remove(running)

    def _analyze(self, spec: JobSpec) -> StageResult:
        problem, workloads = self._problem(spec), self._workloads(spec)
        plan = _json(plan_of(problem.definition, workloads))
        running, ended = self._run_program(
            ["analyze"], {"plan.json": plan}, spec.limits, Warmth.TORCH
        )
        report = _report(running, ended, "analysis.json")
        if "error" in report:
            return StageResult(
                stage=spec.stage, status=Status.INVALID_REFERENCE, log=str(report["error"])
            )
        analyses = tuple(Analysis.model_validate(item) for item in report["analyses"])
        return StageResult(stage=spec.stage, status=Status.PASSED, analyses=analyses)

    def _ceilings(self, spec: JobSpec) -> StageResult:
        running, ended = self._run_program(
            ["ceilings"], {"plan.json": b"{}"}, spec.limits, Warmth.PLAIN
        )
        report = _report(running, ended, "ceilings.json")
        return ceilings_result(report)

    def _build(self, spec: JobSpec) -> StageResult:
        solution = self._solution(spec.solution)
        problem, workloads = self._problem(spec), self._workloads(spec)
        plan = {
            **_solution_plan(solution),
            "calls": [call_of(problem.definition, workload) for workload in workloads],
        }
        files = {"plan.json": _json(plan)}
        files |= {f"sources/{s.path}": s.content.encode() for s in solution.sources}
        running, ended = self._run_program(
            ["build"], files, spec.limits, _warmth_to_build(solution)
        )
        if ended.reason is not EndReason.EXITED or ended.code != 0:
            status = _status_of_end(ended, Status.COMPILE_ERROR)
            log = f"the build ended by {ended.reason}, code {ended.code}: {ended.log[-1000:]}"
            return self._failed(spec, status, log)
        report = _report(running, ended, "report.json")
        if report.get("ok") is not True:
            return self._failed(spec, Status.COMPILE_ERROR, str(report.get("log", "")))
        artifact = self._blobs.put(running.read("artifact", spec.limits.result_bytes))
        return StageResult(
            stage=spec.stage,
            status=Status.PASSED,
            log=str(report.get("log", "")),
            artifact=artifact,
        )

    # a verifier and its workers

    def _evaluate(self, spec: JobSpec) -> StageResult:
        problem, workloads = self._problem(spec), self._workloads(spec)
        task: dict[str, Any] = {
            "op": "check" if spec.stage is Stage.CHECK else "measure",
            "calls": [call_of(problem.definition, workload) for workload in workloads],
            "call_timeout_s": CALL_TIMEOUT_S,
        }
        if spec.stage is not Stage.CHECK:
            if spec.measure is None or spec.opponent is None or spec.opponent_build is None:
                raise InfrastructureError(f"a {spec.stage} job needs an opponent and a measure")
            task |= spec.measure.model_dump()
        reply = self._ask_verifier(spec, problem, task)
        return self._judged(spec, problem, workloads, reply)

    def _ask_verifier(
        self, spec: JobSpec, problem: Problem, task: dict[str, Any]
    ) -> dict[str, Any]:
        verifier = self._verifier(spec, problem)
        worker, worker_running = self._worker(spec.solution, spec.build, spec.limits)
        sockets = [worker]
        try:
            if task["op"] == "measure":
                opponent = self._opponent(spec)
                sockets.append(opponent.link)
            verifier.link.settimeout(spec.limits.wall_s + 30)
            send_frame(verifier.link, task, fds=tuple(s.fileno() for s in sockets))
            reply, _, _ = receive_frame(verifier.link)
        except TimeoutError:
            self._drop_residents(spec)
            return {"timeout": f"it did not end within {spec.limits.wall_s:g} s"}
        except (LinkError, OSError) as error:
            self._drop_residents(spec)
            raise InfrastructureError(f"the verifier was lost: {error}") from error
        finally:
            worker.close()
            worker_running.kill()
            self._forget(worker_running)
        if self._cancelled:
            self._drop_residents(spec)
            raise InfrastructureError("cancelled")
        if "opponent_failed" in reply:
            self._drop_residents(spec)
            raise InfrastructureError(f"the opponent failed: {reply['opponent_failed']}")
        return reply

    def _verifier(self, spec: JobSpec, problem: Problem) -> _Resident:
        kept = self._verifiers.get(spec.problem)
        if kept is None:
            plan = plan_of(problem.definition, self._workloads(spec))
            kept = self._resident(
                ["verifier"], {"plan.json": _json(plan)}, spec.limits, Warmth.TORCH
            )
            self._verifiers[spec.problem] = kept
        return kept

    def _opponent(self, spec: JobSpec) -> _Resident:
        assert spec.opponent is not None
        assert spec.opponent_build is not None
        kept = self._opponents.get(spec.opponent)
        if kept is None:
            solution = self._solution(spec.opponent)
            kept = self._resident(
                ["worker"],
                self._worker_files(solution, spec.opponent_build),
                spec.limits,
                _warmth_to_run(solution),
            )
            self._opponents[spec.opponent] = kept
        return kept

    def _resident(
        self, argv: Sequence[str], files: Mapping[str, bytes], limits: Limits, warmth: Warmth
    ) -> _Resident:
        ours, theirs = socket.socketpair()
        endless = limits.model_copy(update={"wall_s": _RESIDENT_WALL_S})
        running = self._start(argv, files, endless, warmth, [theirs])
        theirs.close()
        return _Resident(ours, running)

    def _worker(
        self, solution: Digest | None, build: Digest | None, limits: Limits
    ) -> tuple[socket.socket, Running]:
        if build is None:
            raise InfrastructureError("the job names no build of its solution")
        record = self._solution(solution)
        ours, theirs = socket.socketpair()
        running = self._start(
            ["worker"],
            self._worker_files(record, build),
            limits,
            _warmth_to_run(record),
            [theirs],
        )
        theirs.close()
        return ours, running

    def _worker_files(self, solution: Solution, build: Digest) -> dict[str, bytes]:
        return {
            "plan.json": _json(_solution_plan(solution)),
            "artifact": self._blobs.get(build),
        }

    def _drop_residents(self, spec: JobSpec) -> None:
        for kept in (
            self._verifiers.pop(spec.problem, None),
            self._opponents.pop(spec.opponent or "", None),
        ):
            if kept is not None:
                kept.close()
                self._forget(kept.running)

    # from the guest's JSON, read as hostile, to records

    def _judged(
        self,
        spec: JobSpec,
        problem: Problem,
        workloads: tuple[Workload, ...],
        reply: dict[str, Any],
    ) -> StageResult:
        if "timeout" in reply:
            return self._failed(spec, Status.TIMEOUT, reply["timeout"])
        try:
            sessions = tuple(Session.model_validate(s) for s in reply["sessions"])
            rows = {row["workload"]: row for row in reply["workloads"]}
            evaluations = [
                self._evaluation(spec, index, rows[workload.uuid], sessions)
                for index, workload in enumerate(workloads)
            ]
        except (ValidationError, KeyError, TypeError) as error:
            raise InfrastructureError(f"the verifier's answer is malformed: {error}") from error
        traces = tuple(
            self._trace(spec, problem, workload, evaluation)
            for workload, evaluation in zip(workloads, evaluations, strict=True)
        )
        status = worst_status(tuple(evaluation.status for evaluation in evaluations))
        log = next((e.log for e in evaluations if e.status is status and e.log), "")
        return StageResult(
            stage=spec.stage, status=status, log=log, traces=traces, sessions=sessions
        )

    def _evaluation(
        self, spec: JobSpec, index: int, row: dict[str, Any], sessions: tuple[Session, ...]
    ) -> Evaluation:
        status = Status(row["status"])
        correctness = row["correctness"] and Correctness.model_validate(row["correctness"])
        performance = None
        log = str(row["log"])
        if status is Status.PASSED and sessions:
            performance = _performance(sessions, row["workload"])
            bound_ms = spec.bounds_ms[index] if spec.bounds_ms else 0.0
            if performance.latency_ms * IMPLAUSIBLE_FRACTION < bound_ms:
                status = Status.QUARANTINED
                log = (
                    f"{performance.latency_ms:.4g} ms is below 0.97 of the speed of light of "
                    f"{bound_ms:.4g} ms: not scored"
                )
        return Evaluation(
            status=status,
            environment=self._environment,
            timestamp=datetime.now(UTC).isoformat(timespec="seconds"),
            log=log,
            correctness=correctness,
            performance=performance,
        )

    def _trace(
        self, spec: JobSpec, problem: Problem, workload: Workload, evaluation: Evaluation
    ) -> Trace:
        return Trace(
            definition=problem.definition.name,
            workload=workload,
            solution=self._solution(spec.solution).name,
            evaluation=evaluation,
        )

    def _failed(self, spec: JobSpec, status: Status, log: str) -> StageResult:
        """The same trace for every workload."""
        evaluation = Evaluation(
            status=status,
            environment=self._environment,
            timestamp=datetime.now(UTC).isoformat(timespec="seconds"),
            log=log,
        )
        problem = self._problem(spec)
        traces = tuple(
            self._trace(spec, problem, workload, evaluation) for workload in self._workloads(spec)
        )
        return StageResult(stage=spec.stage, status=status, log=log, traces=traces)

    def _problem(self, spec: JobSpec) -> Problem:
        return Problem.model_validate_json(self._blobs.get(spec.problem))

    def _workloads(self, spec: JobSpec) -> tuple[Workload, ...]:
        items = json.loads(self._blobs.get(spec.workloads))
        return tuple(Workload.model_validate(item) for item in items)

    def _solution(self, digest: Digest | None) -> Solution:
        if digest is None:
            raise InfrastructureError("the job names no solution")
        return Solution.model_validate_json(self._blobs.get(digest))


class _Resident:
    """A program that serves several jobs, and the host's end of its link."""

    def __init__(self, link: socket.socket, running: Running) -> None:
        self.link = link
        self.running = running

    def close(self) -> None:
        self.link.close()
        self.running.kill()


_STAGES: dict[Stage, Callable[[GuestExecutor, JobSpec], StageResult]] = {
    Stage.ANALYZE: GuestExecutor._analyze,
    Stage.CEILINGS: GuestExecutor._ceilings,
    Stage.BUILD: GuestExecutor._build,
    Stage.CHECK: GuestExecutor._evaluate,
    Stage.SCREEN: GuestExecutor._evaluate,
    Stage.CONFIRM: GuestExecutor._evaluate,
    Stage.JUDGE: GuestExecutor._evaluate,
}


def _performance(sessions: Sequence[Session], workload: str) -> Performance:
    import statistics

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


def _warmth_to_build(solution: Solution) -> Warmth:
    if solution.language is Language.PYTORCH and _uses_compiler(solution):
        return Warmth.COMPILE
    return Warmth.PLAIN


def _warmth_to_run(solution: Solution) -> Warmth:
    if solution.language is not Language.PYTORCH:
        return Warmth.PLAIN
    return Warmth.COMPILE if _uses_compiler(solution) else Warmth.TORCH


def _status_of_end(ended: Exit, otherwise: Status) -> Status:
    return Status.TIMEOUT if ended.reason is EndReason.TIMEOUT else otherwise


def _report(running: Running, ended: Exit, path: str) -> dict[str, Any]:
    """A trusted program's JSON.

    Raises:
        InfrastructureError: it did not end well.
    """
    if ended.reason is not EndReason.EXITED:
        raise InfrastructureError(f"{path}: ended by {ended.reason}: {ended.log[-500:]}")
    try:
        report = json.loads(running.read(path, _MAX_REPORT_BYTES))
    except (SandboxError, ValueError) as error:
        raise InfrastructureError(f"{path}: {error}: {ended.log[-500:]}") from error
    if not isinstance(report, dict):
        raise InfrastructureError(f"{path} is no JSON object")
    return report


def ceilings_result(report: dict[str, Any]) -> StageResult:
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
                vector_operations_per_s=report["vector_operations_per_s"],
                matrix_operations_per_s=report["matrix_operations_per_s"],
            ),
            launch_overhead_us=report["launch_overhead_us"],
            cache_bytes=report["cache_bytes"],
            hardware_name=report["hardware_name"],
        )
    except (KeyError, ValidationError) as error:
        raise InfrastructureError(f"ceilings: {error}") from error


def _json(value: object) -> bytes:
    return json.dumps(value, allow_nan=False).encode()
