"""Where in a template's parameter space to look next, from what was measured there so far."""

from __future__ import annotations

import math
import random
import warnings
from collections.abc import Mapping, Sequence, Set
from itertools import product
from typing import Any

import numpy as np

from agent.attempt import RunState
from problems.evaluation import Status
from problems.record import Record
from skills.template import Parameter, Template

Point = tuple[str, ...]
"""One value per parameter, in the template's order."""

STARTUP_TRIALS = 8
"""Points that the sampler draws at random before it models anything."""
_ASKS = 24
"""A sampler that proposes tried points only this many times is overruled by a random draw."""
_ENUMERABLE = 20_000
_RIDGE = 0.5
"""Pseudo-observations of "no effect" per parameter value: shrinks what was seen once or twice."""


class Trial(Record):
    """One tried point of a template."""

    point: Point
    gain: float | None
    """Natural logarithm of the speedup over the run's baseline; None: it failed."""


def measured_gains(state: RunState) -> dict[int, float]:
    """Log speedup over the baseline by attempt, chained through the opponents' own gains.

    The ratio of a confirmation is used where there is one, else that of the screen. An attempt
    that failed, or whose opponent is not of this run, is absent.
    """
    by_solution = {state.baseline.solution: 0.0} if state.baseline else {}
    gains = {}
    for attempt in state.attempts:
        comparison = attempt.confirm or attempt.screen
        if attempt.status is not Status.PASSED or comparison is None:
            continue
        if attempt.opponent in by_solution:
            gain = by_solution[attempt.opponent] + math.log(comparison.ratio)
            gains[attempt.index] = gain
            by_solution.setdefault(attempt.solution, gain)
    return gains


def point_of(template: Template, parameters: Mapping[str, str]) -> Point | None:
    """None where a value is missing or unknown, as after an upgrade of the template."""
    point = tuple(parameters.get(parameter.name, "") for parameter in template.parameters)
    known = all(
        value in parameter.values
        for value, parameter in zip(point, template.parameters, strict=True)
    )
    return point if known else None


def parameters_at(template: Template, point: Point) -> dict[str, str]:
    names = [parameter.name for parameter in template.parameters]
    return dict(zip(names, point, strict=True))


def space_size(template: Template) -> int:
    return math.prod(len(parameter.values) for parameter in template.parameters)


def neighbours(template: Template, point: Point) -> tuple[Point, ...]:
    """Points that differ in one parameter: by one step where values are numbers, else freely."""
    found = []
    for position, parameter in enumerate(template.parameters):
        here = parameter.values.index(point[position])
        for there, value in enumerate(parameter.values):
            if there != here and (abs(there - here) == 1 or not is_ordered(parameter)):
                found.append((*point[:position], value, *point[position + 1 :]))
    return tuple(found)


def is_ordered(parameter: Parameter) -> bool:
    """Whether the order of the values means something: they are all numbers."""
    return all(value.lstrip("-").replace(".", "", 1).isdigit() for value in parameter.values)


def suggest(
    template: Template, trials: Sequence[Trial], excluded: Set[Point], seed: int
) -> Point | None:
    """An untried point by a tree-structured Parzen estimator; None: the space is exhausted.

    The same arguments give the same point: the study is built anew from `trials`.
    """
    if space_size(template) <= len(excluded) and not _untried(template, excluded):
        return None
    study, distributions = _study(template, trials, seed)
    for _ in range(_ASKS):
        point = _to_point(template, study.ask(distributions).params)
        if point not in excluded:
            return point
    left = _untried(template, excluded)
    return random.Random(seed).choice(left) if left else None


def predicted_gain(
    template: Template, trials: Sequence[Trial], point: Point, parent: Point
) -> float | None:
    """Log speedup of `point` over `parent` if parameters act independently of each other.

    Ridge regression on one indicator per parameter value. None where some value of `point` has
    never been measured: then there is nothing to predict from.
    """
    measured = [trial for trial in trials if trial.gain is not None]
    for position, value in enumerate(point):
        if value != parent[position] and all(t.point[position] != value for t in measured):
            return None
    if not measured:
        return None
    features = np.array([_indicators(template, trial.point) for trial in measured])
    gains = np.array([trial.gain for trial in measured])
    squares = features.T @ features + _RIDGE * np.eye(features.shape[1])
    effects = np.linalg.solve(squares, features.T @ (gains - gains.mean()))
    change = _indicators(template, point) - _indicators(template, parent)
    return float(change @ effects)


def _indicators(template: Template, point: Point) -> np.ndarray[Any, np.dtype[np.float64]]:
    flags = [
        float(value == candidate)
        for value, parameter in zip(point, template.parameters, strict=True)
        for candidate in parameter.values
    ]
    return np.array(flags)


def _untried(template: Template, excluded: Set[Point]) -> list[Point]:
    if space_size(template) > _ENUMERABLE:
        return _sampled(template, excluded)
    every = product(*(parameter.values for parameter in template.parameters))
    return [point for point in every if point not in excluded]


def _sampled(template: Template, excluded: Set[Point]) -> list[Point]:
    draw = random.Random(len(excluded))
    points = (tuple(draw.choice(p.values) for p in template.parameters) for _ in range(256))
    return [point for point in points if point not in excluded]


def _study(template: Template, trials: Sequence[Trial], seed: int) -> tuple[Any, dict[str, Any]]:
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    distributions: dict[str, Any] = {
        p.name: optuna.distributions.IntDistribution(0, len(p.values) - 1)
        if is_ordered(p)
        else optuna.distributions.CategoricalDistribution(p.values)
        for p in template.parameters
    }
    with warnings.catch_warnings():
        # `multivariate` is marked experimental since 2020.
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        sampler = optuna.samplers.TPESampler(
            seed=seed, multivariate=True, n_startup_trials=STARTUP_TRIALS
        )
    study = optuna.create_study(direction="maximize", sampler=sampler)
    # Failures are told as pruned: the sampler then counts them among the worst, where a trial
    # told as failed would teach it nothing.
    study.add_trials(
        [
            optuna.trial.create_trial(
                params=_to_params(template, trial.point),
                distributions=distributions,
                value=trial.gain,
                state=optuna.trial.TrialState.PRUNED
                if trial.gain is None
                else optuna.trial.TrialState.COMPLETE,
            )
            for trial in trials
        ]
    )
    return study, distributions


def _to_params(template: Template, point: Point) -> dict[str, int | str]:
    return {
        parameter.name: parameter.values.index(value) if is_ordered(parameter) else value
        for parameter, value in zip(template.parameters, point, strict=True)
    }


def _to_point(template: Template, params: Mapping[str, Any]) -> Point:
    return tuple(
        parameter.values[params[parameter.name]]
        if is_ordered(parameter)
        else str(params[parameter.name])
        for parameter in template.parameters
    )
