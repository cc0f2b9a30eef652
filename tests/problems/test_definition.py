from __future__ import annotations

import pytest
from pydantic import ValidationError

from problems.definition import Definition, DType
from tests.problems.samples import REFERENCE, definition, definition_fields


def test_axes_resolve_in_declaration_order() -> None:
    axes = definition().resolve_axes({"rows": 5})
    assert list(axes.items()) == [("rows", 5), ("half", 4), ("width", 8)]


def test_shapes_of_tensors_scalars_and_zero_dimensional_ones() -> None:
    found = definition()
    axes = found.resolve_axes({"rows": 5})
    assert found.shape_of("x", axes) == (5, 8)
    assert found.shape_of("eps", axes) is None
    assert found.shape_of("total", axes) == ()


def test_a_shape_may_hold_digits() -> None:
    outputs = {"y": {"shape": ["rows", "1"], "dtype": "float32"}}
    found = definition(outputs=outputs)
    assert found.shape_of("y", {"rows": 5}) == (5, 1)


@pytest.mark.parametrize("variables", [{}, {"rows": 1, "half": 4}, {"row": 1}])
def test_the_variable_axes_must_be_given(variables: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="variable axes are rows"):
        definition().resolve_axes(variables)


def test_a_negative_size_is_an_error() -> None:
    axes = definition_fields()["axes"]
    assert isinstance(axes, dict)
    found = definition(axes=axes | {"width": {"type": "expr", "expression": "half - rows"}})
    with pytest.raises(ValueError, match="axis width is -1"):
        found.resolve_axes({"rows": 5})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"reference": "def run(x, eps:"}, "reference: line 1"),
        ({"reference": "def walk(x, eps): pass"}, "no top-level function run"),
        ({"reference": "def run(eps, x): pass"}, "does not take the inputs"),
        ({"reference": "def run(x): pass"}, "does not take the inputs"),
        ({"custom_inputs_entrypoint": "make"}, "has no function make"),
        ({"outputs": {}}, "at least one output"),
        ({"outputs": {"x": {"shape": [], "dtype": "int8"}}}, "must have different names"),
        ({"outputs": {"rows": {"shape": [], "dtype": "int8"}}}, "must have different names"),
        ({"outputs": {"y": {"shape": ["columns"], "dtype": "int8"}}}, "unknown axis 'columns'"),
        ({"outputs": {"y": {"shape": [], "dtype": "uint8"}}}, "outputs.y.dtype"),
        ({"axes": {"rows": {"type": "const", "value": -1}}}, "greater than or equal to 0"),
        ({"axes": {"rows": {"type": "dynamic"}}}, "axes.rows"),
    ],
)
def test_what_is_malformed(changes: dict[str, object], message: str) -> None:
    with pytest.raises(ValidationError, match=message.replace("(", r"\(")):
        definition(**changes)


def test_keys_that_its_owner_ignores_are_ignored_and_blank_is_absent() -> None:
    found = definition(hf_id="", constraints=["rows > 1"], op_type="", description="")
    assert found.op_type is None
    assert found.description is None


def test_a_custom_input_function_is_found_in_the_reference() -> None:
    assert definition(custom_inputs_entrypoint="get_inputs").reference == REFERENCE


def test_a_definition_survives_json() -> None:
    found = definition()
    assert Definition.model_validate_json(found.canonical_json()) == found
    assert found.content_digest() != definition(name="other").content_digest()


def test_every_dtype_has_a_size_and_a_kind() -> None:
    assert all(dtype.size_bytes in (1, 2, 4, 8) for dtype in DType)
    assert {dtype for dtype in DType if not dtype.floating} == {
        DType.INT64, DType.INT32, DType.INT16, DType.INT8, DType.BOOL,
    }  # fmt: skip
