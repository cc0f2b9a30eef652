"""The loop of one run: every step follows from the journal, so that a killed run goes on."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from agent import events
from agent.attempt import Budget, Confirm, Phase, RunState, Stop
from agent.budget import budget_of
from agent.journal import Journal
from agent.judge import Judge
from agent.learner import learn
from agent.pipeline import Pipeline
from agent.policies.policy import Policy
from agent.recall_context import context_of, question_of
from agent.trials import Trials
from memory.memory import Memory
from problems.errors import ConfigError
from problems.evaluation import Status
from problems.hardware import Hardware
from problems.speed_of_light import bound_of

MAX_REJECTED = 20
"""Rejections in a row after which a policy is taken to have no more ideas."""


@dataclass(frozen=True)
class Parts:
    """What a run works with; `watch` is called after every event."""

    journal: Journal
    pipeline: Pipeline
    policy: Policy
    trials: Trials
    judge: Judge
    memory: Memory | None
    hardware: Callable[[], Hardware]
    architecture: str
    report: Callable[[RunState], Path]
    clock: Callable[[], float]
    hidden_workloads: int
    watch: Callable[[RunState], None] = lambda state: None


class Run:
    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    def finish(self) -> RunState:
        """Goes on from where the journal ends, to the end.

        Raises:
            ConfigError: the reference cannot be traced, loaded or does not pass.
            InfrastructureError: the machine failed; the run can be resumed.
        """
        if not self._state.bounds:
            self._analyze()
        if self._state.context is None:
            self._recall()
        while self._state.stop_reason is None:
            for event in self._step(self._state):
                self._append(event)
        return self._close()

    @property
    def _state(self) -> RunState:
        return self._parts.journal.state

    def _append(self, event: events.Event) -> None:
        self._parts.watch(self._parts.journal.append(event))

    def _analyze(self) -> None:
        hardware = self._parts.hardware()
        result = self._parts.pipeline.analyze()
        if result.status is not Status.PASSED:
            raise ConfigError(f"{self._state.problem.name}: the reference fails: {result.log}")
        bounds = tuple(bound_of(analysis, hardware) for analysis in result.analyses)
        self._append(events.Analyzed(hardware=hardware, analyses=result.analyses, bounds=bounds))

    def _recall(self) -> None:
        context = context_of(self._state, self._parts.architecture)
        memory = self._parts.memory
        recall = memory.recall(context, question_of(self._state.problem)) if memory else None
        notices = memory.notices if memory else ()
        self._append(events.Recalled(context=context, recall=recall, notices=notices))

    def _step(self, state: RunState) -> Iterable[events.Event]:
        trials = self._parts.trials
        if state.pending:
            return trials.evaluate(state)
        if state.best and state.best.against_baseline is None:
            return [trials.compare_with_baseline(state, state.best)]
        budget = budget_of(state, self._parts.journal.active_s, self._parts.hidden_workloads)
        decision = _end(state, budget) or self._parts.policy.propose(state, budget)
        if isinstance(decision, Stop):
            return [events.Stopped(reason=decision.reason)]
        if isinstance(decision, Confirm):
            return [trials.confirm(state, decision)]
        return [events.Proposed(index=len(state.attempts), proposal=decision)]

    def _close(self) -> RunState:
        if self._state.phase is Phase.SEARCHING:
            self._append(events.Judged(judge=self._parts.judge.judge(self._state)))
        if self._state.lessons_written is None:
            self._append(events.LessonsWritten(lessons=self._learn()))
        if self._state.phase is not Phase.FINISHED:
            self._append(events.ReportWritten(path=str(self._parts.report(self._state))))
            self._append(events.Finished())
        return self._state

    def _learn(self) -> tuple[str, ...]:
        state, memory = self._state, self._parts.memory
        if memory is None or state.context is None:
            return ()
        return learn(state, state.context, memory, self._parts.clock())


def _end(state: RunState, budget: Budget) -> Stop | None:
    recent = state.attempts[-MAX_REJECTED:]
    if len(recent) == MAX_REJECTED and all(a.status is Status.REJECTED for a in recent):
        return Stop(reason=f"the last {MAX_REJECTED} proposals were rejected")
    return Stop(reason="the time is used") if budget.left_s <= 0 else None
