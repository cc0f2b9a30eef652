"""From a decision of the policy to the events that its stages make."""

from __future__ import annotations

from collections.abc import Iterator

from agent import events
from agent.attempt import Attempt, Confirm, RunState
from agent.baseline import measure_baseline
from agent.controller import Controller
from agent.outcome import confirmed_attempt, new_attempt, rejected_attempt
from agent.pipeline import Built, Pipeline, comparison_of
from problems.errors import InfrastructureError
from problems.evaluation import Status
from problems.solution import Solution
from scheduler.job import Stage


class Trials:
    """Journals nothing itself; every method may run again after a kill."""

    def __init__(self, pipeline: Pipeline, controller: Controller) -> None:
        self._pipeline = pipeline
        self._controller = controller

    def evaluate(self, state: RunState) -> Iterator[events.Event]:
        """The pending proposal; where there is no baseline yet, that comes first, alone."""
        assert state.pending is not None
        proposal = state.pending.proposal
        rejection = self._controller.review(proposal.solution, state.attempts)
        if rejection is not None:
            self._pipeline.store(proposal.solution)
            yield events.AttemptEnded(attempt=rejected_attempt(state.pending, rejection))
        elif state.baseline is None:
            yield from self._measure_baseline(state, proposal.solution)
        else:
            through = Stage.SCREEN if proposal.hold else Stage.CONFIRM
            opponent = self._opponent(state)
            outcome = self._pipeline.evaluate(proposal.solution, opponent, state.bounds, through)
            yield events.AttemptEnded(attempt=new_attempt(state, outcome, opponent))

    def confirm(self, state: RunState, decision: Confirm) -> events.Event:
        waiting = [a for a in state.attempts if a.status is Status.PASSED and a.confirm is None]
        attempt = next((a for a in waiting if a.index == decision.attempt), None)
        opponent = self._opponent(state)
        if attempt is None or opponent is None:
            reason = f"the policy asked to confirm attempt {decision.attempt}, which cannot be"
            return events.Stopped(reason=reason)
        built = self._built(attempt)
        result = self._pipeline.measure(Stage.CONFIRM, built, opponent, state.bounds)
        return events.AttemptEnded(attempt=confirmed_attempt(state, attempt, opponent, result))

    def compare_with_baseline(self, state: RunState, best: Attempt) -> events.Event:
        built, baseline = self._built(best), _baseline(state)
        assert baseline is not None
        result = self._pipeline.measure(Stage.CONFIRM, built, baseline, state.bounds)
        ratio = comparison_of(result)
        if ratio is None:
            return events.Demoted(index=best.index, status=result.status, log=result.log)
        return events.ComparedWithBaseline(index=best.index, comparison=ratio)

    def _measure_baseline(self, state: RunState, first: Solution) -> Iterator[events.Event]:
        """After the first candidate's check: torch.compile takes long, a first answer must not."""
        checked = self._pipeline.evaluate(first, None, state.bounds, Stage.CHECK)
        if checked.last.status is Status.PASSED and state.first_valid_s is None:
            yield events.FirstChecked()
        yield events.BaselineMeasured(baseline=measure_baseline(self._pipeline, state.problem))

    def _opponent(self, state: RunState) -> Built | None:
        return self._built(state.best) if state.best else _baseline(state)

    def _built(self, attempt: Attempt) -> Built:
        """The job is there, so that nothing is built again."""
        result = self._pipeline.build(self._pipeline.solution(attempt.solution))
        if result.artifact is None:
            raise InfrastructureError(f"attempt {attempt.index} was built before: {result.log}")
        return Built(solution=attempt.solution, artifact=result.artifact)


def _baseline(state: RunState) -> Built | None:
    baseline = state.baseline
    if baseline is None or baseline.build is None:
        return None
    return Built(solution=baseline.solution, artifact=baseline.build)
