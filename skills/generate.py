"""From an operator graph to one fused C++ kernel, or to the reason why there is none."""

from __future__ import annotations

from collections.abc import Sequence

from problems.definition import Definition
from problems.speed_of_light import Analysis
from skills.template import Instance, Refusal

FAMILY = "row program"


def match_row_program(definition: Definition, analyses: Sequence[Analysis]) -> Instance | Refusal:
    """The kernel that runs the whole graph row by row, if every operator of it can be fused."""
    if not analyses:
        return Refusal(family=FAMILY, reason="the reference was not analysed")
    return Refusal(family=FAMILY, reason=f"{definition.name}: no operator is supported yet")
