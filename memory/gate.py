"""What may enter the memory: confirmed, clean and physically possible; all else is refused."""

from __future__ import annotations

from memory.lesson import Evidence, Integrity, Outcome

SOL_TOLERANCE = 0.97
"""A time below this share of the bound is implausible: a cheat or a broken bound."""
EQUIVALENT_WITHIN = 0.02


def refusal(trial: Evidence) -> str | None:
    """Why the trial may not enter, in one sentence; None if it may."""
    if trial.integrity is not Integrity.CLEAN:
        return f"its integrity is {trial.integrity}"
    if trial.sol_fraction_after is not None and trial.sol_fraction_after > 1 / SOL_TOLERANCE:
        return f"{trial.sol_fraction_after:.2f} of the speed of light is more than there is"
    if trial.outcome.failed:
        return None if trial.log_speedup is None else f"{trial.outcome} cannot have a speedup"
    return _measurement_refusal(trial)


def _measurement_refusal(trial: Evidence) -> str | None:
    value, low, high = trial.log_speedup, trial.log_low, trial.log_high
    if value is None or low is None or high is None:
        return f"{trial.outcome} needs a speedup with an interval"
    if not low <= value <= high:
        return f"its interval [{low:.3f}, {high:.3f}] does not hold its value {value:.3f}"
    if trial.outcome is Outcome.NO_DIFFERENCE:
        if trial.sessions < 1:
            return "no_difference needs a session"
        within = max(abs(low), abs(high)) <= EQUIVALENT_WITHIN
        return None if low <= 0 <= high or within else "its interval shows a difference"
    if trial.sessions < 2:
        return f"{trial.outcome} needs two sessions or more, not {trial.sessions}"
    if trial.outcome is Outcome.FASTER and low <= 0:
        return f"its interval [{low:.3f}, {high:.3f}] does not exclude that nothing changed"
    if trial.outcome is Outcome.SLOWER and high >= 0:
        return f"its interval [{low:.3f}, {high:.3f}] does not exclude that nothing changed"
    return None
