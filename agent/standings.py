"""What a run's attempts say about each template: what was tried, how it did, what it cost."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from agent.advice import technique_tag, template_of
from agent.attempt import Attempt, RunState
from agent.pipeline import SCREEN_PROMOTES_ABOVE
from agent.search import Point, Trial, measured_gains, point_of
from scheduler.job import Stage
from skills.template import Instance, Template

RUNNER_UP_GAP = math.log(1.5)
"""A template that is this far behind the best one is not searched further."""
_MARGIN = math.log(SCREEN_PROMOTES_ABOVE)
_RECENT = 12


class Standings:
    def __init__(self, state: RunState, instances: Sequence[Instance]) -> None:
        self.attempts = state.attempts
        self.instances = {instance.template.name: instance for instance in instances}
        self.gains = measured_gains(state)
        self.incumbent = None if state.incumbent is None else state.attempts[state.incumbent]
        self._attempts_of = _by_template(state.attempts, instances)

    @property
    def incumbent_gain(self) -> float:
        """0 is the baseline's, which stands until something is faster."""
        return 0.0 if self.incumbent is None else self.gains.get(self.incumbent.index, 0.0)

    def trials(self, name: str) -> tuple[Trial, ...]:
        return tuple(
            Trial(point=point, gain=self.gains.get(attempt.index))
            for attempt, point in self._attempts_of[name]
        )

    def tried(self, name: str) -> frozenset[Point]:
        return frozenset(point for _, point in self._attempts_of[name])

    def best(self, name: str) -> tuple[Attempt, Point] | None:
        """The fastest attempt of a template; None if none was measured."""
        measured = [pair for pair in self._attempts_of[name] if pair[0].index in self.gains]
        return max(measured, key=lambda pair: self.gains[pair[0].index], default=None)

    def ranked(self) -> tuple[str, ...]:
        """Templates that are worth a search: the leader, then those close behind it.

        Where no template was ever measured, the one with the fewest failures leads alone.
        """
        gains = {}
        for name in self.instances:
            best = self.best(name)
            if best is not None:
                gains[name] = self.gains[best[0].index]
        if not gains:
            return (min(self.instances, key=lambda name: len(self._attempts_of[name])),)
        limit = max(gains.values()) - RUNNER_UP_GAP
        close = [name for name, gain in gains.items() if gain >= limit]
        return tuple(sorted(close, key=lambda name: -gains[name]))

    def confirmable(self) -> Attempt | None:
        """The best screened attempt that is not confirmed and looks faster than the incumbent."""
        waiting = [
            attempt
            for attempt in self.attempts
            if attempt.confirm is None
            and self.gains.get(attempt.index, -math.inf) > self.incumbent_gain + _MARGIN
        ]
        return max(waiting, key=lambda attempt: self.gains[attempt.index], default=None)

    def confirmations(self) -> int:
        """Since there is an incumbent."""
        promoted = [attempt.index for attempt in self.attempts if attempt.promoted]
        first = promoted[0] if promoted else math.inf
        return sum(a.confirm is not None and a.index > first for a in self.attempts)

    def since_promotion(self) -> int:
        """Attempts after the last one that was promoted."""
        promoted = [attempt.index for attempt in self.attempts if attempt.promoted]
        return len(self.attempts) - 1 - promoted[-1] if promoted else len(self.attempts)

    def screen_s(self) -> float:
        """What an attempt has been taking without its confirmation; 0 before the first."""
        return _median([a.seconds for a in self.attempts if a.screen and a.confirm is None])

    def confirm_s(self) -> float:
        """What a confirmation adds to that; the reserve has the comparison with the baseline."""
        stages = _median(
            [
                a.stage_s[Stage.CONFIRM]
                for a in self.attempts
                if a.confirm and Stage.CONFIRM in a.stage_s
            ]
        )
        whole = _median([a.seconds for a in self.attempts if a.confirm])
        return max(stages, whole - self.screen_s())


def _median(seconds: list[float]) -> float:
    return statistics.median(seconds[-_RECENT:]) if seconds else 0.0


def _by_template(
    attempts: Sequence[Attempt], instances: Sequence[Instance]
) -> dict[str, list[tuple[Attempt, Point]]]:
    found: dict[str, list[tuple[Attempt, Point]]] = {i.template.name: [] for i in instances}
    tags = {tag_name(instance.template): instance.template for instance in instances}
    for attempt in attempts:
        template = tags.get(template_of(attempt.technique))
        if template is None:
            continue
        point = point_of(template, attempt.parameters)
        if point is not None:
            found[template.name].append((attempt, point))
    return found


def tag_name(template: Template) -> str:
    """The template's name as technique tags spell it."""
    return template_of(technique_tag(template, template.defaults()))
