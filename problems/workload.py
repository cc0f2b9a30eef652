"""One set of concrete sizes and inputs of a definition, in SOL-ExecBench's schema."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from problems.record import ForeignRecord, NonEmpty


class RandomInput(ForeignRecord):
    type: Literal["random"]


class ScalarInput(ForeignRecord):
    type: Literal["scalar"]
    value: int | float | bool


class SafetensorsInput(ForeignRecord):
    type: Literal["safetensors"]
    path: NonEmpty
    tensor_key: NonEmpty


class CustomInput(ForeignRecord):
    type: Literal["custom"]


InputSpec = Annotated[
    RandomInput | ScalarInput | SafetensorsInput | CustomInput, Field(discriminator="type")
]


class Tolerance(ForeignRecord):
    """An element matches if |x - y| <= max_atol + max_rtol * |y| with y the float64 oracle."""

    max_atol: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 1e-2
    max_rtol: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 1e-2
    required_matched_ratio: Annotated[float, Field(gt=0, le=1)] = 0.99
    """Least share of matching elements, in every row and in the whole output."""
    max_error_cap: Annotated[float, Field(gt=0)] | None = None
    """Largest |x - y| of any element; None: no cap."""
    allow_negative_inf: bool = False


class Workload(ForeignRecord):
    uuid: NonEmpty
    axes: dict[str, Annotated[int, Field(ge=0)]]
    """Sizes of the variable axes."""
    inputs: dict[str, InputSpec]
    tolerance: Tolerance = Tolerance()

    @model_validator(mode="after")
    def _custom_is_all_or_nothing(self) -> Workload:
        kinds = {spec.type for spec in self.inputs.values()}
        if "custom" in kinds and len(kinds) > 1:
            others = ", ".join(sorted(kinds - {"custom"}))
            raise ValueError(f"inputs: custom cannot be mixed with {others}")
        return self
