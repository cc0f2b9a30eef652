from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from problems.errors import ConfigError
from problems.record import ForeignRecord, Record, digest_of, parse_record


class Point(Record):
    x: float
    names: dict[str, int] = {}


class ForeignPoint(ForeignRecord):
    x: float


def test_a_record_is_frozen_and_refuses_what_it_does_not_know() -> None:
    point = Point(x=1)
    with pytest.raises(ValidationError, match="frozen"):
        point.x = 2  # type: ignore[misc]
    with pytest.raises(ValidationError, match="y"):
        Point.model_validate({"x": 1, "y": 2})
    assert ForeignPoint.model_validate({"x": 1, "y": 2}) == ForeignPoint(x=1)


@given(st.dictionaries(st.text(), st.integers(-(2**63), 2**63)))
def test_json_keeps_the_order_of_a_mapping(names: dict[str, int]) -> None:
    point = Point(x=1, names=names)
    again = Point.model_validate_json(point.canonical_json())
    assert list(again.names.items()) == list(names.items())
    assert again.content_digest() == point.content_digest()


def test_the_order_of_a_mapping_is_part_of_the_content() -> None:
    one, other = Point(x=1, names={"a": 1, "b": 2}), Point(x=1, names={"b": 2, "a": 1})
    assert one.content_digest() != other.content_digest()


def test_what_json_cannot_hold_has_no_digest() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        Point(x=math.nan).content_digest()


def test_parsing_names_the_place_the_field_and_how_many_more() -> None:
    with pytest.raises(ConfigError) as caught:
        parse_record(Point, {"x": "a", "names": {"b": "c"}}, "file.json:3")
    message = str(caught.value)
    assert message.startswith("file.json:3: x: ")
    assert message.endswith("(and 1 more)")
    assert "\n" not in message


def test_digest_is_sha256() -> None:
    assert digest_of(b"") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
