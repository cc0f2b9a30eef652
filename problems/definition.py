"""What an operator is: its axes, inputs, outputs and reference, in SOL-ExecBench's schema."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field, field_validator, model_validator

from problems.record import ForeignRecord, NonEmpty
from problems.shape_expression import evaluate_shape_expression


class DType(StrEnum):
    """Element types, named as torch and SOL-ExecBench name them."""

    FLOAT64 = "float64"
    FLOAT32 = "float32"
    FLOAT16 = "float16"
    BFLOAT16 = "bfloat16"
    FLOAT8_E4M3FN = "float8_e4m3fn"
    FLOAT8_E5M2 = "float8_e5m2"
    FLOAT4_E2M1 = "float4_e2m1"
    FLOAT4_E2M1FN_X2 = "float4_e2m1fn_x2"
    INT64 = "int64"
    INT32 = "int32"
    INT16 = "int16"
    INT8 = "int8"
    BOOL = "bool"

    @property
    def size_bytes(self) -> int:
        """Bytes of one stored element; packed float4 counts as one byte for two values."""
        return _SIZE_BYTES[self]

    @property
    def floating(self) -> bool:
        return self.value.startswith("float") or self is DType.BFLOAT16


_SIZE_BYTES = {
    DType.FLOAT64: 8, DType.FLOAT32: 4, DType.FLOAT16: 2, DType.BFLOAT16: 2,
    DType.FLOAT8_E4M3FN: 1, DType.FLOAT8_E5M2: 1, DType.FLOAT4_E2M1: 1,
    DType.FLOAT4_E2M1FN_X2: 1, DType.INT64: 8, DType.INT32: 4, DType.INT16: 2,
    DType.INT8: 1, DType.BOOL: 1,
}  # fmt: skip


class ConstAxis(ForeignRecord):
    type: Literal["const"]
    value: Annotated[int, Field(ge=0)]
    description: str | None = None


class VarAxis(ForeignRecord):
    type: Literal["var"]
    description: str | None = None


class ExprAxis(ForeignRecord):
    type: Literal["expr"]
    expression: NonEmpty
    """Arithmetic (+ - * / // % **) over constant and variable axes; must give an integer."""
    description: str | None = None


Axis = Annotated[ConstAxis | VarAxis | ExprAxis, Field(discriminator="type")]


class TensorSpec(ForeignRecord):
    shape: tuple[str, ...] | None
    """Axis names or digits; `()` is a 0-D tensor; None is a Python scalar."""
    dtype: DType
    description: str | None = None


class Definition(ForeignRecord):
    """An operator's interface and its reference, `run(*inputs)`, which returns the outputs."""

    name: NonEmpty
    description: str | None = None
    op_type: str | None = None
    axes: dict[str, Axis]
    custom_inputs_entrypoint: str | None = None
    """A function of the reference, `(axes_and_scalars, device) -> {input: tensor or scalar}`."""
    inputs: dict[str, TensorSpec]
    """Ordered: the order is the calling convention."""
    outputs: dict[str, TensorSpec]
    reference: NonEmpty

    @field_validator("op_type", "description", mode="before")
    @classmethod
    def _blank_is_absent(cls, value: object) -> object:
        return None if value == "" else value

    @model_validator(mode="after")
    def _names_fit(self) -> Definition:
        groups = [set(self.axes), set(self.inputs), set(self.outputs)]
        if len(set.union(*groups)) != sum(map(len, groups)):
            raise ValueError("axes, inputs and outputs must have different names")
        if not self.outputs:
            raise ValueError("outputs: at least one output is needed")
        for kind, tensors in (("inputs", self.inputs), ("outputs", self.outputs)):
            for name, spec in tensors.items():
                for axis in spec.shape or ():
                    if not axis.isdigit() and axis not in self.axes:
                        raise ValueError(
                            f"{kind}.{name}.shape: unknown axis {axis!r}; "
                            f"axes: {', '.join(self.axes)}"
                        )
        _check_reference(self)
        return self

    def resolve_axes(self, variables: Mapping[str, int]) -> dict[str, int]:
        """All axes as sizes, in declaration order.

        Raises:
            ValueError: a variable axis is missing, unknown or negative, or an expression fails.
        """
        names = [name for name, axis in self.axes.items() if isinstance(axis, VarAxis)]
        if set(names) != set(variables):
            raise ValueError(
                f"variable axes are {', '.join(names) or 'none'}; "
                f"got {', '.join(variables) or 'none'}"
            )
        known = {
            name: axis.value for name, axis in self.axes.items() if isinstance(axis, ConstAxis)
        } | dict(variables)
        sizes = {}
        for name, axis in self.axes.items():
            if isinstance(axis, ExprAxis):
                sizes[name] = evaluate_shape_expression(axis.expression, known)
            else:
                sizes[name] = known[name]
            if sizes[name] < 0:
                raise ValueError(f"axis {name} is {sizes[name]}")
        return sizes

    def shape_of(self, tensor: str, axes: Mapping[str, int]) -> tuple[int, ...] | None:
        """The concrete shape of an input or output; None for a Python scalar."""
        spec = self.inputs.get(tensor) or self.outputs[tensor]
        if spec.shape is None:
            return None
        return tuple(int(axis) if axis.isdigit() else axes[axis] for axis in spec.shape)


def _check_reference(definition: Definition) -> None:
    try:
        module = ast.parse(definition.reference)
    except SyntaxError as error:
        raise ValueError(f"reference: line {error.lineno}: {error.msg}") from None
    functions = {node.name: node for node in module.body if isinstance(node, ast.FunctionDef)}
    if "run" not in functions:
        raise ValueError("reference: no top-level function run")
    arguments = functions["run"].args
    names = [argument.arg for argument in (*arguments.posonlyargs, *arguments.args)]
    if names != list(definition.inputs):
        raise ValueError(
            f"reference: run({', '.join(names)}) does not take the inputs "
            f"({', '.join(definition.inputs)}) in their order"
        )
    custom = definition.custom_inputs_entrypoint
    if custom is not None and custom not in functions:
        raise ValueError(f"custom_inputs_entrypoint: the reference has no function {custom}")
