"""Which language a run starts in on its target, and why."""

from __future__ import annotations

from problems.errors import ConfigError
from problems.problem import Target
from problems.record import Record
from problems.solution import Language


class Rung(Record):
    """One step of a target's ladder."""

    language: Language
    reason: str
    """One sentence, for the report."""


LADDER = {
    Target.CPU: (
        Rung(
            language=Language.CPP,
            reason="C++ with OpenMP and SIMD is the only rung of the CPU target: it reaches the "
            "machine's own copy bandwidth and its vector and matrix units.",
        ),
    ),
    Target.CUDA: (),
}
"""From the highest level of abstraction to the lowest; a run climbs down it."""


def first_rung(target: Target) -> Rung:
    """
    Raises:
        ConfigError: no rung of the target is built yet.
    """
    if not LADDER[target]:
        built = ", ".join(name for name, rungs in LADDER.items() if rungs)
        raise ConfigError(
            f"target {target}: its rungs are not built yet; targets with a ladder: {built}"
        )
    return LADDER[target][0]


def choose_rung(target: Target, language: Language | None = None) -> Rung:
    """The rung that the user asked for, else the first.

    Raises:
        ConfigError: the target has no such rung.
    """
    first = first_rung(target)
    if language is None:
        return first
    for rung in LADDER[target]:
        if rung.language is language:
            return rung
    raise ConfigError(
        f"target {target}: no rung {language}; rungs: "
        f"{', '.join(rung.language for rung in LADDER[target])}"
    )
