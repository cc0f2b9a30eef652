"""Templates load, refuse what is malformed, and choose parameters from what is declared."""

from __future__ import annotations

from pathlib import Path

import pytest

from problems.errors import ConfigError
from problems.solution import Language
from skills.template import Parameter, Template, choose_parameters, load_template, load_templates

UNROLL = Parameter(name="UNROLL", values=("1", "2"), default="2", description="vectors a step")
TEMPLATE = Template(
    name="copy", family="row program", language=Language.CPP, title="Copy",
    mechanism="reads once", action="Copy.", parameters=(UNROLL,),
)  # fmt: skip
TOML = """
name = "copy"
family = "row program"
language = "cpp"
title = "Copy"
mechanism = "reads once"
action = "Copy."

[[parameters]]
name = "UNROLL"
values = ["1", "2"]
default = "2"
description = "vectors a step"
"""


def write_toml(folder: Path, text: str) -> Path:
    folder.mkdir()
    (folder / "template.toml").write_text(text)
    return folder


def test_a_template_is_read_from_its_folder(tmp_path: Path) -> None:
    assert load_template(write_toml(tmp_path / "copy", TOML)) == TEMPLATE


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('default = "2"', 'default = "3"', "default '3' must be one of"),
        ('name = "copy"', 'name = "other"', "not the folder's name"),
        ('language = "cpp"', 'language = "cobol"', "language: "),
        ('title = "Copy"', "", "title: Field required"),
        ('title = "Copy"', "title = ", "Invalid value"),
    ],
)
def test_a_malformed_template_is_one_line(tmp_path: Path, old: str, new: str, message: str) -> None:
    folder = write_toml(tmp_path / "copy", TOML.replace(old, new, 1))
    with pytest.raises(ConfigError, match=message) as error:
        load_template(folder)
    assert str(folder / "template.toml") in str(error.value)
    assert "\n" not in str(error.value)


def test_parameters_are_chosen_from_what_is_declared() -> None:
    assert choose_parameters(TEMPLATE, TEMPLATE.defaults(), {}) == {"UNROLL": "2"}
    assert choose_parameters(TEMPLATE, TEMPLATE.defaults(), {"UNROLL": "1"}) == {"UNROLL": "1"}
    with pytest.raises(ConfigError, match="UNROLL: no value '9'; values: 1, 2"):
        choose_parameters(TEMPLATE, TEMPLATE.defaults(), {"UNROLL": "9"})
    with pytest.raises(ConfigError, match="no parameter 'SPEED'; parameters: UNROLL"):
        choose_parameters(TEMPLATE, TEMPLATE.defaults(), {"SPEED": "9"})


def test_the_shipped_templates_load() -> None:
    assert all(template.language is Language.CPP for template in load_templates())
