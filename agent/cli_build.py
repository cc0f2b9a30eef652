"""Builds the objects that the commands work with, and nothing else does."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from agent.config import RunConfig
from agent.environment import cores, environment, machine_name
from agent.home import Home
from agent.ladder import first_rung
from agent.pipeline import Pipeline
from agent.policies.playbook import Playbook
from agent.policies.policy import Policy
from memory.local_memory import LocalMemory
from memory.memory import Memory
from problems.admission import AdmissionReport
from problems.errors import ConfigError, InfrastructureError
from problems.evaluation import Status
from problems.hardware import Hardware, cpu_hardware
from problems.machine import load_machine, save_machine
from problems.problem import Problem, Target
from problems.record import Record
from problems.speed_of_light import Analysis, Bound, bound_of
from sandbox.blob_store import BlobStore
from sandbox.bubblewrap_sandbox import BubblewrapSandbox
from scheduler.admit import admit
from scheduler.guest_executor import GuestExecutor
from scheduler.local_scheduler import LocalScheduler

BUSY_SHARE = 0.75
"""Of the cores: a load average above it means that others disturb a measurement."""


def _ignore(notice: str) -> None: ...


def check_target(problem: Problem, target: Target) -> None:
    """
    Raises:
        ConfigError: the target is not built yet, or the problem has no workloads for it.
    """
    first_rung(target)
    if target not in problem.targets:
        raise ConfigError(
            f"{problem.name}: no workloads for target {target}; "
            f"targets: {', '.join(problem.targets)}"
        )


@contextmanager
def open_sandbox(home: Home, blobs: BlobStore) -> Iterator[BubblewrapSandbox]:
    """What earlier, dead processes left behind is killed first.

    Raises:
        SandboxError: bubblewrap is not installed, or cannot work here.
    """
    with BubblewrapSandbox(blobs, home.sandbox) as sandbox:
        sandbox.reap(frozenset())
        yield sandbox


@contextmanager
def open_pipeline(
    home: Home,
    run: str,
    problem: Problem,
    config: RunConfig,
    on_wait: Callable[[], None] = lambda: None,
    notify: Callable[[str], None] = _ignore,
) -> Iterator[Pipeline]:
    """`notify` is told what is weaker here than it should be.

    Raises:
        InfrastructureError: no sandbox, or the scheduler's journal cannot be used.
    """
    blobs = BlobStore(home.blobs)
    with open_sandbox(home, blobs) as sandbox:
        for note in sandbox.isolation_notes:
            notify(note)
        executor = GuestExecutor(sandbox, blobs, environment(), config.call_timeout_s)
        with LocalScheduler(home.scheduler_journal, blobs, executor, run) as scheduler:
            yield Pipeline(scheduler, blobs, run, problem, config.target, on_wait)


def check_problem(home: Home, problem: Problem) -> AdmissionReport:
    """
    Raises:
        ConfigError: the problem has no workloads for the CPU.
        InfrastructureError: the sandbox failed.
    """
    blobs = BlobStore(home.blobs)
    with open_sandbox(home, blobs) as sandbox:
        return admit(problem, sandbox, blobs)


def machine_of(home: Home, pipeline: Pipeline, notify: Callable[[str], None] = _ignore) -> Hardware:
    """From `machine.json`, else measured now, and kept unless others were at work meanwhile.

    Raises:
        InfrastructureError: the ceilings could not be measured or saved.
    """
    known = load_machine(home.machine)
    if known is not None:
        return known
    load = os.getloadavg()[0]
    busy = load > BUSY_SHARE * cores()
    if busy:
        notify(
            f"the ceilings were measured at a load average of {load:.1f} on {cores()} cores, so "
            "they may be too low: they hold for this run only"
        )
    result = pipeline.ceilings()
    if result.ceilings is None or result.hardware_name is None:
        raise InfrastructureError(f"the ceilings could not be measured: {result.log}")
    hardware = cpu_hardware(
        result.ceilings,
        name=machine_name(),
        cores=result.cores or cores(),
        cache_bytes=result.cache_bytes or 0,
        launch_overhead_us=result.launch_overhead_us or 0.0,
    )
    if not busy:
        save_machine(home.machine, hardware)
    return hardware


class Bounds(Record):
    hardware: Hardware
    analyses: tuple[Analysis, ...]
    bounds: tuple[Bound, ...]


def bounds_of(
    home: Home,
    pipeline: Pipeline,
    problem: Problem,
    notify: Callable[[str], None] = _ignore,
) -> Bounds:
    """Of the public workloads, on this machine.

    Raises:
        ConfigError: the reference cannot be traced.
    """
    hardware = machine_of(home, pipeline, notify)
    analyzed = pipeline.analyze()
    if analyzed.status is not Status.PASSED:
        raise ConfigError(f"{problem.name}: the reference cannot be traced: {analyzed.log}")
    bounds = tuple(bound_of(analysis, hardware) for analysis in analyzed.analyses)
    return Bounds(hardware=hardware, analyses=analyzed.analyses, bounds=bounds)


@contextmanager
def open_memory(home: Home) -> Iterator[LocalMemory]:
    """
    Raises:
        ConfigError: `lessons.db` is damaged or from a newer version.
    """
    with LocalMemory(home.root) as memory:
        yield memory


@contextmanager
def memory_of(home: Home, config: RunConfig) -> Iterator[Memory | None]:
    """None where the memory is switched off."""
    if config.memory == "off":
        yield None
    else:
        with open_memory(home) as memory:
            yield memory


def policy_of(config: RunConfig) -> Policy:
    return Playbook(seed=config.seed)
