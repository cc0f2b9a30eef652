"""The verifier: owns reference, inputs, expected outputs, clock and verdict; trusted.

It never imports candidate code. Its first link takes tasks from the host, each a frame with the
control sockets of the workers as descriptors: the solution's, and for a measurement the
opponent's. It serves one problem for as long as the host keeps it, and answers each task with
`{"status", "log", "workloads": [...], "sessions": [...]}`.
"""

from __future__ import annotations

import gc
import json
import os
import random
import socket
import statistics
from collections import OrderedDict
from functools import partial
from pathlib import Path
from typing import Any

import torch

from sandbox.guest.call_buffers import CallBuffers
from sandbox.guest.correctness import Comparison, worst
from sandbox.guest.input_pool import (
    SETS,
    InputSet,
    InvalidReferenceError,
    expectations_of,
    make_set,
)
from sandbox.guest.inputs import Value, load_reference
from sandbox.guest.link import LinkError, receive_frame, send_frame
from sandbox.guest.oracle import expected_outputs
from sandbox.guest.paired_timing import SOLUTION, OpponentFailure, PairedTiming, Timed
from sandbox.guest.verifier_native import VerifierNative
from sandbox.guest.worker_session import CandidateFailure, WorkerSession

_MAX_POOLS = 12
_CHECK_ROUNDS = SETS


def main(argv: list[str], links: list[socket.socket]) -> int:
    verifier = Verifier(json.loads(Path("/work/plan.json").read_text()))
    while True:
        try:
            task, _, fds = receive_frame(links[0], max_fds=2)
        except LinkError:
            return 0
        workers = [socket.socket(fileno=fd) for fd in fds]
        try:
            send_frame(links[0], verifier.serve(task, workers))
        finally:
            for worker in workers:
                worker.close()


class Verifier:
    """Serves the tasks of one problem, and keeps its secret input sets."""

    def __init__(self, plan: dict[str, Any]) -> None:
        self._reference = load_reference(plan["reference"])
        self._entrypoint = plan["custom_inputs_entrypoint"]
        self._pools: OrderedDict[str, list[InputSet]] = OrderedDict()
        self._native = VerifierNative()
        self._random = random.Random(os.urandom(32))

    def serve(self, task: dict[str, Any], workers: list[socket.socket]) -> dict[str, Any]:
        try:
            if task["op"] == "check":
                return self._check(task, workers[0])
            return self._measure(task, workers)
        except InvalidReferenceError as error:
            return _failed_everywhere(task, "INVALID_REFERENCE", str(error))
        except OpponentFailure as failure:
            return {"opponent_failed": str(failure)}

    def _pool(self, call: dict[str, Any]) -> list[InputSet]:
        key = json.dumps(call, sort_keys=True)
        if key not in self._pools:
            torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
            self._pools[key] = [
                make_set(call, self._reference, self._entrypoint, self._random.getrandbits(63))
                for _ in range(SETS)
            ]
            if len(self._pools) > _MAX_POOLS:
                self._pools.popitem(last=False)
        self._pools.move_to_end(key)
        return self._pools[key]

    def _check(self, task: dict[str, Any], worker: socket.socket) -> dict[str, Any]:
        """Correctness of every workload; a crash in one does not hide the others."""
        workloads = []
        session: WorkerSession | None = None
        for call in task["calls"]:
            pool = self._pool(call)
            try:
                session = session or _new_session(worker, task, SOLUTION)
                comparison = self._check_workload(session, call, pool)
                workloads.append(_checked(call, comparison))
            except CandidateFailure as failure:
                workloads.append(_failed(call, failure.status, failure.log))
                if session is not None:
                    session.close()
                session = None
        if session is not None:
            session.close()
        return {"workloads": workloads, "sessions": []}

    def _check_workload(
        self, session: WorkerSession, call: dict[str, Any], pool: list[InputSet]
    ) -> Comparison:
        buffers = CallBuffers(call, 1, 1)
        try:
            session.use(call, buffers.inputs[0], buffers.outputs[0])
            comparisons = []
            for chosen in pool:
                buffers.shuffle(self._random)
                for view, value in zip(buffers.input_views(0, 0), chosen.inputs, strict=True):
                    if view is not None and isinstance(value, torch.Tensor):
                        view.copy_(value)
                buffers.poison(0, 1)
                session.prepare([[buffers.places(0, chosen.inputs)]])
                probe = buffers.probe(0, 0, self._random)
                session.run(0, probe)
                comparisons.append(chosen.compare(buffers.output_views(0, 0), self._native.errors))
                if probe.changed():
                    raise CandidateFailure(
                        "REWARD_HACK", "it still wrote its output after it said that it was done"
                    )
                if buffers.wrote_outside(0, 0):
                    raise CandidateFailure("RUNTIME_ERROR", "it wrote outside its outputs")
            return worst(comparisons)
        finally:
            buffers.close()

    def _measure(self, task: dict[str, Any], workers: list[socket.socket]) -> dict[str, Any]:
        """Paired sessions over all workloads; the first failure of the solution ends them."""
        for call in task["calls"]:
            self._pool(call)
        torch.set_num_threads(1)  # idle OpenMP threads of this process would spin beside a worker
        gc.disable()
        allowed = os.sched_getaffinity(0)
        # Beside the worker's main thread, which sleeps when this process runs and the reverse: on
        # another core its wake-up would wait, up to a tick of 4 ms, for a spinning OpenMP thread.
        os.sched_setaffinity(0, {min(allowed)})
        sessions: list[dict[str, Any]] = []
        checks: dict[str, list[Comparison]] = {c["workload"]: [] for c in task["calls"]}
        try:
            for index in range(task["sessions"]):
                self._session(task, workers, index, sessions, checks)
        except _WorkloadFailure as error:
            failure = error.failure
            result = _failed_everywhere(task, failure.status, failure.log, error.workload)
            return {**result, "sessions": []}
        finally:
            os.sched_setaffinity(0, allowed)
            gc.enable()
        return {
            "workloads": [_checked(c, worst(checks[c["workload"]])) for c in task["calls"]],
            "sessions": sessions,
        }

    def _session(
        self,
        task: dict[str, Any],
        workers: list[socket.socket],
        index: int,
        sessions: list[dict[str, Any]],
        checks: dict[str, list[Comparison]],
    ) -> None:
        """One fresh process per side; which is started first alternates."""
        order = (0, 1) if index % 2 == 0 else (1, 0)
        started: dict[int, WorkerSession] = {}
        call = task["calls"][0]
        try:
            for side in order:
                try:
                    started[side] = _new_session(workers[side], task, side)
                except CandidateFailure as failure:
                    if side != SOLUTION:
                        raise OpponentFailure(failure.log) from None
                    raise
            for call in task["calls"]:
                timing = PairedTiming(
                    (started[0], started[1]),
                    call,
                    self._pool(call),
                    self._native,
                    self._random,
                    partial(self._ask, call),
                )
                timed = timing.run(task["blocks"], task["recheck_share"])
                if timed.rechecked:
                    checks[call["workload"]].append(timed.rechecked)
                sessions.append(_session_record(call, order[0] == SOLUTION, timed))
        except CandidateFailure as failure:
            raise _WorkloadFailure(call["workload"], failure) from None
        finally:
            for session in started.values():
                session.close()

    def _ask(self, call: dict[str, Any], inputs: list[Value]) -> InputSet:
        return InputSet(inputs, expectations_of(call, expected_outputs(self._reference, inputs)))


def _new_session(worker: socket.socket, task: dict[str, Any], side: int) -> WorkerSession:
    return WorkerSession(worker, task["call_timeout_s"], task["first_call_timeout_s"][side])


class _WorkloadFailure(Exception):
    def __init__(self, workload: str, failure: CandidateFailure) -> None:
        super().__init__(failure.log)
        self.workload = workload
        self.failure = failure


def _session_record(call: dict[str, Any], solution_first: bool, timed: Timed) -> dict[str, Any]:
    return {
        "workload": call["workload"],
        "first": "solution" if solution_first else "opponent",
        "log_ratios": timed.log_ratios,
        "solution_ms": statistics.median(timed.seconds[0]) * 1e3,
        "opponent_ms": statistics.median(timed.seconds[1]) * 1e3,
        "clock": "wall",
        "void_blocks": timed.void_blocks,
    }


def _checked(call: dict[str, Any], comparison: Comparison) -> dict[str, Any]:
    return {
        "workload": call["workload"],
        "status": "PASSED" if comparison.passed else "INCORRECT_NUMERICAL",
        "log": comparison.reason,
        "correctness": comparison.correctness(),
    }


def _failed(call: dict[str, Any], status: str, log: str) -> dict[str, Any]:
    return {"workload": call["workload"], "status": status, "log": log, "correctness": None}


def _failed_everywhere(
    task: dict[str, Any], status: str, log: str, workload: str | None = None
) -> dict[str, Any]:
    """A trace per workload always; the others name the one that failed."""
    rows = []
    for call in task["calls"]:
        elsewhere = workload is not None and call["workload"] != workload
        text = f"not scored: workload {workload} failed: {log}" if elsewhere else log
        rows.append(_failed(call, status, text))
    return {"workloads": rows, "sessions": []}
