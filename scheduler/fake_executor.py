"""A simulated device, for tests and demonstrations: the source says how fast and how right it is.

A source may hold one line such as `// simulate: latency_ms=0.4, status=INCORRECT_NUMERICAL`
(`#` in Python). Its settings, all optional:

latency_ms  time of one call, 1 by default
status      what the solution gets, PASSED by default, and
at          the stage from which on it gets that (build for COMPILE_ERROR, else check)
noise       standard deviation of a block's log ratio, 0.002 by default
breaks      how many times the machine itself fails before it works
wait_s      how long a job takes for real
Nothing of it is a measurement, and every environment it reports says so.
"""

from __future__ import annotations

import json
import math
import random
import re
import threading
from collections import Counter
from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import Field, ValidationError

from problems.definition import Definition
from problems.errors import InfrastructureError
from problems.evaluation import Clock, Correctness, Environment, Session, Status
from problems.hardware import Peaks
from problems.problem import Problem
from problems.record import Digest, Record, digest_of, first_problem
from problems.solution import Solution
from problems.speed_of_light import Analysis, OpNode
from problems.workload import Workload
from sandbox.blob_store import BlobStore
from scheduler.guest_results import ResultReader
from scheduler.job import JobSpec, MeasureSpec, Stage, StageResult

HARDWARE = "a simulated device"
PEAKS = Peaks(bytes_per_s=1e13, vector_operations_per_s=1e15, matrix_operations_per_s={})
"""Above any real device, so that no simulated latency is implausible by itself."""
_ORDER = (Stage.BUILD, Stage.CHECK, Stage.SCREEN, Stage.CONFIRM, Stage.JUDGE)
_DIRECTIVE = re.compile(r"^\s*(?://|#)\s*simulate:\s*(.*)$", re.MULTILINE)


class Simulation(Record):
    """What a source says about itself."""

    latency_ms: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1.0
    status: Status = Status.PASSED
    at: Stage | None = None
    noise: Annotated[float, Field(ge=0, le=1)] = 0.002
    breaks: Annotated[int, Field(ge=0)] = 0
    wait_s: Annotated[float, Field(ge=0, le=3600)] = 0.0

    @property
    def fails_from(self) -> Stage:
        return self.at or (Stage.BUILD if self.status is Status.COMPILE_ERROR else Stage.CHECK)


def simulation_of(solution: Solution) -> Simulation:
    """
    Raises:
        InfrastructureError: the line holds an unknown setting or value.
    """
    found = _DIRECTIVE.search(solution.entry_source)
    pairs = [part.partition("=") for part in found[1].split(",")] if found else []
    try:
        return Simulation.model_validate({key.strip(): v.strip() for key, _, v in pairs})
    except ValidationError as error:
        raise InfrastructureError(f"simulate: {first_problem(error)}") from None


class FakeExecutor:
    """Deterministic: the same job gives the same result, timestamps aside."""

    def __init__(self, blobs: BlobStore, seed: int = 0) -> None:
        self._blobs = blobs
        self._seed = seed
        self._broken: Counter[str] = Counter()
        self._cancelled = threading.Event()

    def execute(self, spec: JobSpec) -> StageResult:
        self._cancelled.clear()
        if spec.stage is Stage.CEILINGS:
            return _ceilings()
        problem = Problem.model_validate_json(self._blobs.get(spec.problem))
        workloads = tuple(
            Workload.model_validate(item) for item in json.loads(self._blobs.get(spec.workloads))
        )
        if spec.stage is Stage.ANALYZE:
            return _analysis(problem.definition, workloads)
        solution = self._solution(spec.solution)
        simulation = simulation_of(solution)
        self._pass_time(spec, simulation)
        reader = ResultReader(
            spec.stage,
            problem.definition.name,
            solution,
            workloads,
            spec.bounds_ms,
            Environment(hardware=HARDWARE, libs={}),
        )
        fails = simulation.status is not Status.PASSED
        if fails and _ORDER.index(spec.stage) >= _ORDER.index(simulation.fails_from):
            return reader.failed(simulation.status, f"simulated {simulation.status}")
        if spec.stage is Stage.BUILD:
            artifact = self._blobs.put(f"simulated build of {spec.solution}".encode())
            return StageResult(stage=spec.stage, status=Status.PASSED, artifact=artifact)
        return reader.judged(self._reply(spec, simulation, workloads))

    def cancel(self) -> None:
        self._cancelled.set()

    def close(self) -> None:
        self._cancelled.set()

    def _pass_time(self, spec: JobSpec, simulation: Simulation) -> None:
        if self._broken[spec.key] < simulation.breaks:
            self._broken[spec.key] += 1
            raise InfrastructureError(f"simulated break {self._broken[spec.key]}")
        if simulation.wait_s and self._cancelled.wait(simulation.wait_s):
            raise InfrastructureError("cancelled")

    def _reply(
        self, spec: JobSpec, simulation: Simulation, workloads: Sequence[Workload]
    ) -> dict[str, Any]:
        """As a verifier answers."""
        correctness = Correctness(
            max_relative_error=1e-7, max_absolute_error=1e-7, matched_ratio=1.0
        )
        rows = [
            {
                "workload": workload.uuid,
                "status": Status.PASSED.value,
                "log": "",
                "correctness": correctness.model_dump(),
            }
            for workload in workloads
        ]
        sessions: list[dict[str, Any]] = []
        if spec.stage is not Stage.CHECK:
            if spec.measure is None:
                raise InfrastructureError(f"a {spec.stage} job needs a measure")
            opponent = simulation_of(self._solution(spec.opponent))
            for number in range(spec.measure.sessions):
                for workload in workloads:
                    seed = f"{self._seed} {spec.key} {workload.uuid} {number}"
                    noise = random.Random(digest_of(seed.encode()))
                    session = _session(simulation, opponent, spec.measure, noise)
                    first = "opponent" if number % 2 else "solution"
                    sessions.append(session | {"workload": workload.uuid, "first": first})
        return {"workloads": rows, "sessions": sessions}

    def _solution(self, digest: Digest | None) -> Solution:
        if digest is None:
            raise InfrastructureError("the job names no solution")
        return Solution.model_validate_json(self._blobs.get(digest))


def _session(
    own: Simulation, opponent: Simulation, measure: MeasureSpec, noise: random.Random
) -> dict[str, Any]:
    ratio = math.log(opponent.latency_ms / own.latency_ms)
    ratios = [ratio + noise.gauss(0, own.noise) for _ in range(measure.blocks)]
    fields = Session(
        workload="",
        first="solution",
        log_ratios=tuple(ratios),
        solution_ms=own.latency_ms * math.exp(noise.gauss(0, own.noise)),
        opponent_ms=opponent.latency_ms * math.exp(noise.gauss(0, own.noise)),
        clock=Clock.WALL,
        void_blocks=0,
    )
    return fields.model_dump(mode="json")


def _ceilings() -> StageResult:
    return StageResult(
        stage=Stage.CEILINGS,
        status=Status.PASSED,
        ceilings=PEAKS,
        launch_overhead_us=1.0,
        cache_bytes=1 << 25,
        hardware_name=HARDWARE,
    )


def _analysis(definition: Definition, workloads: Sequence[Workload]) -> StageResult:
    analyses = tuple(_analysis_of(definition, workload) for workload in workloads)
    return StageResult(stage=Stage.ANALYZE, status=Status.PASSED, analyses=analyses)


def _analysis_of(definition: Definition, workload: Workload) -> Analysis:
    """Inputs and outputs at their true sizes; one operation per output element."""
    axes = definition.resolve_axes(workload.axes)
    nodes: list[OpNode] = []
    for name, tensor in (definition.inputs | definition.outputs).items():
        shape = definition.shape_of(name, axes)
        if shape is None:
            continue
        is_input = name in definition.inputs
        nodes.append(
            OpNode(
                id=len(nodes),
                op=f"input:{name}" if is_input else f"simulated:{name}",
                inputs=() if is_input else tuple(n.id for n in nodes if not n.inputs),
                attributes={},
                shape=shape,
                dtype=tensor.dtype,
            )
        )
    outputs = [node for node in nodes if node.op.startswith("simulated:")]
    moved = sum(math.prod(node.shape) * node.dtype.size_bytes for node in nodes)
    return Analysis(
        workload=workload.uuid,
        nodes=tuple(nodes),
        outputs=tuple(node.id for node in outputs),
        operations=sum(math.prod(node.shape) for node in outputs),
        matrix_operations=0,
        flop_counter_operations=0,
        compulsory_bytes=max(1, moved),
        unfused_bytes=2 * max(1, moved),
        compute_dtype=outputs[0].dtype,
    )
