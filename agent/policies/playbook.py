"""The policy that needs no model: tested templates, and a search of their parameters."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from agent.advice import Advice, strategies, technique_tag, warnings_of
from agent.attempt import Attempt, Budget, Confirm, Decision, Proposal, RunState, Stop
from agent.search import (
    Point,
    neighbours,
    parameters_at,
    point_of,
    predicted_gain,
    space_size,
    suggest,
)
from agent.standings import Standings
from problems.definition import Definition
from problems.score import HEADROOM_LIMIT
from problems.speed_of_light import Analysis
from skills.template import Instance, Refusal, match_templates, template_refusals

GENERATION = 6
"""Attempts between two confirmations."""
STAGNANT = 2 * GENERATION
"""Attempts without a promotion after which only the best one's neighbours are still tried."""

Match = Callable[[Definition, Sequence[Analysis]], Sequence[Instance]]
Refuse = Callable[[Definition, Sequence[Analysis]], Sequence[Refusal]]


class Playbook:
    """Every matching template once, then the parameters of those that lead.

    Screens are held back, and the best one of a generation is confirmed. What was tried is read
    from the state's attempts, so that a resumed run goes on as the killed one.
    """

    name = "playbook"

    def __init__(
        self, match: Match = match_templates, refuse: Refuse = template_refusals, seed: int = 0
    ) -> None:
        self._match = match
        self._refuse = refuse
        self._seed = seed

    def propose(self, state: RunState, budget: Budget) -> Decision:
        definition = state.problem.definition
        instances = self._match(definition, state.analyses)
        if not instances:
            return _no_template(self._refuse(definition, state.analyses))
        standings = Standings(state, instances)
        return _Turn(state, standings, self._seed).decide(budget)


class _Turn:
    """One decision."""

    def __init__(self, state: RunState, standings: Standings, seed: int) -> None:
        self._state = state
        self._standings = standings
        self._seed = seed * 1_000_003 + len(state.attempts)
        instances = tuple(standings.instances.values())
        self._warned = warnings_of(state.recall, instances)
        self._advised = strategies(state.recall, instances)

    def decide(self, budget: Budget) -> Decision:
        reason = self._reason_to_end(budget)
        if reason is not None:
            return self._last_confirm(budget) or Stop(reason=reason)
        opening = self._opening()
        if opening is not None:
            return opening
        if len(self._state.attempts) % GENERATION == 0:
            confirm = self._confirm()
            if confirm is not None:
                return confirm
        return self._next_screen() or self._last_confirm(budget) or Stop(reason=self._why_done())

    def _reason_to_end(self, budget: Budget) -> str | None:
        incumbent = self._standings.incumbent
        fraction = incumbent.sol_fraction if incumbent else None
        if incumbent and fraction is not None and fraction >= HEADROOM_LIMIT:
            return (
                f"attempt {incumbent.index} is at {fraction:.0%} of the speed of light, so that "
                f"less than {1 - HEADROOM_LIMIT:.0%} is left to gain"
            )
        one_more_s = self._standings.screen_s() + self._standings.confirm_s()
        if budget.left_s <= one_more_s:
            return (
                f"{budget.left_s:.1f} s are left to search in, and one more attempt with its "
                f"confirmation has been taking {one_more_s:.1f} s"
            )
        return None

    def _opening(self) -> Proposal | None:
        """The next template, or piece of advice, that was not tried yet."""
        for instance, point, advice in _openings(self._standings, self._advised):
            if point not in self._standings.tried(instance.template.name):
                return self._proposal(instance, point, advice)
        return None

    def _confirm(self) -> Confirm | None:
        """One for each generation that ended."""
        allowed = len(self._state.attempts) // GENERATION
        attempt = self._standings.confirmable()
        if attempt is None or self._standings.confirmations() >= allowed:
            return None
        return Confirm(attempt=attempt.index)

    def _last_confirm(self, budget: Budget) -> Confirm | None:
        attempt = self._standings.confirmable()
        allowed = len(self._state.attempts) // GENERATION + 1
        affordable = budget.left_s > 0 and budget.left_s >= self._standings.confirm_s()
        if attempt is None or not affordable or self._standings.confirmations() >= allowed:
            return None
        return Confirm(attempt=attempt.index)

    def _next_screen(self) -> Proposal | None:
        """Alternately a neighbour of the best point, and a draw of the sampler."""
        ranked = self._standings.ranked()
        count = len(self._state.attempts)
        if len(ranked) > 1 and count % 3 == 2:
            ranked = (ranked[1], ranked[0], *ranked[2:])
        stagnant = self._standings.since_promotion() >= STAGNANT
        for name in ranked:
            point = self._neighbour(name) if stagnant or count % 2 else None
            if point is None and not stagnant:
                point = self._draw(name) or self._neighbour(name)
            if point is not None:
                return self._proposal(self._standings.instances[name], point)
        return None

    def _neighbour(self, name: str) -> Point | None:
        """The untried one that the measured effects make the most promising."""
        best = self._standings.best(name)
        if best is None:
            return None
        template = self._standings.instances[name].template
        excluded = self._excluded(name)
        trials = self._standings.trials(name)
        untried = [point for point in neighbours(template, best[1]) if point not in excluded]

        def promise(point: Point) -> float:
            return predicted_gain(template, trials, point, best[1]) or 0.0

        return max(untried, key=promise, default=None)

    def _draw(self, name: str) -> Point | None:
        template = self._standings.instances[name].template
        return suggest(template, self._standings.trials(name), self._excluded(name), self._seed)

    def _excluded(self, name: str) -> frozenset[Point]:
        """What was tried, and what lessons warn of."""
        template = self._standings.instances[name].template
        warned = [point_of(template, w.parameters) for w in self._warned if w.template == name]
        return self._standings.tried(name) | {point for point in warned if point is not None}

    def _proposal(self, instance: Instance, point: Point, advice: Advice | None = None) -> Proposal:
        template = instance.template
        best = self._standings.best(template.name)
        parameters = parameters_at(template, point)
        return Proposal(
            solution=instance.render(parameters),
            hypothesis=self._hypothesis(instance, point, best, advice),
            parent=best[0].solution if best else None,
            technique=technique_tag(template, parameters),
            parameters=parameters,
            lessons=(advice.lesson,) if advice else (),
            hold=self._standings.incumbent is not None,
        )

    def _hypothesis(
        self,
        instance: Instance,
        point: Point,
        best: tuple[Attempt, Point] | None,
        advice: Advice | None,
    ) -> str:
        template = instance.template
        lesson = (
            f", with the parameters of lesson {advice.lesson} ({advice.title})" if advice else ""
        )
        if best is None:
            against = self._standings.incumbent
            than = f"attempt {against.index}" if against else "the baseline"
            return f"{template.title}{lesson}: {template.mechanism}; predicted faster than {than}"
        attempt, parent = best
        changes = ", ".join(
            f"{parameter.name} {new} instead of {old} ({parameter.description})"
            for parameter, new, old in zip(template.parameters, point, parent, strict=True)
            if new != old
        )
        trials = self._standings.trials(template.name)
        gain = predicted_gain(template, trials, point, parent)
        prediction = (
            "no prediction, as a value in it was never measured"
            if gain is None
            else f"predicted {math.exp(gain):.3f}×"
        )
        return f"{changes}{lesson}: {prediction} against attempt {attempt.index}"

    def _why_done(self) -> str:
        ranked = self._standings.ranked()
        sizes = {name: space_size(self._standings.instances[name].template) for name in ranked}
        tried = {name: len(self._standings.tried(name)) for name in ranked}
        counts = ", ".join(f"{tried[name]} of {sizes[name]} points of {name}" for name in ranked)
        if not self._standings.gains:
            return (
                f"none of the {len(self._state.attempts)} attempts passed and was measured "
                f"({counts} were tried)"
            )
        if all(len(self._excluded(name)) >= sizes[name] for name in ranked):
            return f"the search space is exhausted: {counts} were tried"
        return (
            f"the last {self._standings.since_promotion()} attempts gained nothing, and every "
            f"neighbour of the best point was among them or tried before ({counts})"
        )


def _openings(
    standings: Standings, advised: Sequence[Advice]
) -> list[tuple[Instance, Point, Advice | None]]:
    """What lessons advise, in their order, then the defaults of the templates without advice."""
    openings: list[tuple[Instance, Point, Advice | None]] = []
    for advice in advised:
        instance = standings.instances[advice.template]
        point = point_of(instance.template, advice.parameters)
        if point is not None:
            openings.append((instance, point, advice))
    named = {instance.template.name for instance, _, _ in openings}
    for name, instance in standings.instances.items():
        point = point_of(instance.template, instance.defaults())
        if name not in named and point is not None:
            openings.append((instance, point, None))
    return openings


def _no_template(refusals: Sequence[Refusal]) -> Stop:
    reasons = "; ".join(f"{refusal.family}: {refusal.reason}" for refusal in refusals)
    return Stop(reason=f"no template fits this problem ({reasons or 'there are no templates'})")
