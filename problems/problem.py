"""A definition with its workloads for each target, and the rules that hidden ones are drawn by."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field, model_validator

from problems.definition import Definition, VarAxis
from problems.record import NonEmpty, Record
from problems.workload import Workload


class Target(StrEnum):
    CUDA = "cuda"
    CPU = "cpu"


class Track(StrEnum):
    """SOL-ExecBench's four."""

    L1 = "L1"
    """Single operators."""
    L2 = "L2"
    """Fused chains."""
    QUANT = "Quant"
    INFERENCE = "FlashInfer-Bench"


class AxisRule(Record):
    """From which values a hidden workload's variable axis is drawn."""

    choices: tuple[int, ...] | None = None
    low: int | None = None
    """Inclusive, as `high`; both or `choices` must be there."""
    high: int | None = None
    multiple_of: Annotated[int, Field(ge=1)] = 1
    logarithmic: bool = False
    """Draw uniformly in the logarithm."""
    neighbours: bool = True
    """Off-by-one and prime sizes are legal too: the judge checks them without scoring them."""

    @model_validator(mode="after")
    def _is_a_range_or_a_choice(self) -> AxisRule:
        if self.low is None or self.high is None:
            if self.choices is None:
                raise ValueError("either choices, or low and high")
        elif self.choices is not None:
            raise ValueError("either choices, or low and high")
        elif not 0 <= self.low <= self.high:
            raise ValueError(f"low {self.low} and high {self.high} are no range")
        elif self.high // self.multiple_of * self.multiple_of < self.low:
            raise ValueError(f"no multiple of {self.multiple_of} in {self.low} … {self.high}")
        if self.choices is not None and not self.choices:
            raise ValueError("choices must not be empty")
        return self


class WorkloadSet(Record):
    """The workloads of one target."""

    public: tuple[Workload, ...] = Field(min_length=1)
    rules: dict[str, AxisRule] = {}
    """By variable axis; without rules there are no hidden workloads, and the report says so."""
    max_bytes: Annotated[int, Field(gt=0)] = 1 << 31
    """Largest sum of inputs and outputs of a hidden draw."""


class Problem(Record):
    name: NonEmpty
    number: int | None = None
    source: NonEmpty
    """`library`, or the suite that it was imported from."""
    track: Track | None = None
    family: str | None = None
    """Operator family that lessons are grouped by, e.g. `normalisation`."""
    definition: Definition
    targets: dict[Target, WorkloadSet]
    denied_hosts: tuple[str, ...] = ()
    """Hosts that a workspace may not reach: the upstream project whose kernel this is."""

    @model_validator(mode="after")
    def _workloads_fit(self) -> Problem:
        for target, workloads in self.targets.items():
            for index, workload in enumerate(workloads.public):
                try:
                    check_fits(self.definition, workload)
                except ValueError as error:
                    raise ValueError(f"targets.{target}.public[{index}].{error}") from None
            variables = {n for n, a in self.definition.axes.items() if isinstance(a, VarAxis)}
            if workloads.rules and set(workloads.rules) != variables:
                raise ValueError(
                    f"targets.{target}.rules: need one for each of {', '.join(sorted(variables))}"
                )
        return self


def check_fits(definition: Definition, workload: Workload) -> None:
    """
    Raises:
        ValueError: the workload's inputs or axes are not the definition's; starts with the field.
    """
    if set(workload.inputs) != set(definition.inputs):
        raise ValueError(
            f"inputs: {', '.join(workload.inputs) or 'none'} are not the definition's inputs "
            f"({', '.join(definition.inputs)})"
        )
    for name, spec in workload.inputs.items():
        is_tensor = definition.inputs[name].shape is not None
        if spec.type == "custom" and definition.custom_inputs_entrypoint is None:
            raise ValueError(f"inputs.{name}: custom needs a custom_inputs_entrypoint")
        if spec.type == "scalar" and is_tensor:
            raise ValueError(f"inputs.{name}: a scalar for a tensor")
        if spec.type == "safetensors" and not is_tensor:
            raise ValueError(f"inputs.{name}: a stored tensor for a scalar")
    try:
        definition.resolve_axes(workload.axes)
    except ValueError as error:
        raise ValueError(f"axes: {error}") from None
