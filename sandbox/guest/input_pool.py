"""Secret input sets of one workload with their expected outputs, kept for a whole run.

The sets never leave the verifier but as bytes in a buffer of a call, each at most once per
session in its original form: a candidate cannot meet the same content twice in one process.
"""

from __future__ import annotations

import types
from dataclasses import dataclass
from typing import Any

import torch

from sandbox.guest.correctness import Comparison, Expectation, QuickErrors, worst
from sandbox.guest.inputs import Value, make_inputs
from sandbox.guest.oracle import expected_outputs

SETS = 2


@dataclass(frozen=True)
class InputSet:
    inputs: list[Value]
    expectations: list[Expectation]

    def compare(self, outputs: list[torch.Tensor], quick: QuickErrors | None = None) -> Comparison:
        pairs = zip(self.expectations, outputs, strict=True)
        return worst([expectation.compare(output, quick) for expectation, output in pairs])


class InvalidReferenceError(Exception):
    """The reference fails on its own inputs, or returns what its definition does not declare."""


def make_set(
    call: dict[str, Any], reference: types.ModuleType, entrypoint: str | None, seed: int
) -> InputSet:
    """
    Raises:
        InvalidReferenceError: see there.
    """
    try:
        inputs = make_inputs(call, reference, entrypoint, seed, "cpu")
        expected = expected_outputs(reference, inputs)
    except (RuntimeError, ValueError, TypeError, IndexError, AttributeError, KeyError) as error:
        raise InvalidReferenceError(f"the reference fails: {error}") from None
    return InputSet(inputs, expectations_of(call, expected))


def expectations_of(call: dict[str, Any], expected: list[torch.Tensor]) -> list[Expectation]:
    declared = call["outputs"]
    if len(expected) != len(declared):
        raise InvalidReferenceError(
            f"the reference returns {len(expected)} outputs, {len(declared)} are declared"
        )
    for spec, output in zip(declared, expected, strict=True):
        if list(output.shape) != list(spec["shape"]):
            raise InvalidReferenceError(
                f"the reference's {spec['name']} has shape {tuple(output.shape)}, "
                f"declared {tuple(spec['shape'])}"
            )
    return [
        Expectation(spec["name"], output, call["tolerance"])
        for spec, output in zip(declared, expected, strict=True)
    ]
