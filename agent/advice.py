"""Between a template's parameters and the technique tags that lessons carry."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from memory.lesson import Recall
from problems.record import Record
from skills.template import Instance, Template

_MAX_TAG = 120
"""`Evidence.technique`'s limit."""
_NOT_IN_TAGS = re.compile(r"[^a-z0-9_.-]")


class Advice(Record):
    """Parameters that a lesson recommends for a template, or warns of."""

    template: str
    parameters: dict[str, str]
    lesson: str
    title: str


def technique_tag(template: Template, parameters: Mapping[str, str]) -> str:
    """`TEMPLATE:name=value,name=value`; values at their default are left out if it gets long."""
    defaults = template.defaults()
    named = [(p.name, parameters[p.name]) for p in template.parameters]
    tag = _tag(template.name, named)
    if len(tag) > _MAX_TAG:
        tag = _tag(template.name, [(n, v) for n, v in named if v != defaults[n]])
    return tag[:_MAX_TAG].rstrip(",=:")


def template_of(technique: str) -> str:
    return technique.partition(":")[0]


def strategies(recall: Recall | None, instances: Sequence[Instance]) -> tuple[Advice, ...]:
    """Of lessons that name one of the templates, in their order."""
    hits = recall.strategies if recall else ()
    return _read([(h.lesson.id, h.lesson.title, h.lesson.technique) for h in hits], instances)


def warnings_of(recall: Recall | None, instances: Sequence[Instance]) -> tuple[Advice, ...]:
    hits = recall.anti_patterns if recall else ()
    return _read([(h.lesson.id, h.lesson.title, h.lesson.technique) for h in hits], instances)


def _read(
    lessons: Sequence[tuple[str, str, str]], instances: Sequence[Instance]
) -> tuple[Advice, ...]:
    by_name = {_clean(instance.template.name): instance for instance in instances}
    found = []
    for lesson, title, technique in lessons:
        instance = by_name.get(template_of(technique))
        if instance is not None:
            parameters = instance.defaults() | _values(instance.template, technique)
            found.append(
                Advice(
                    template=instance.template.name,
                    parameters=parameters,
                    lesson=lesson,
                    title=title,
                )
            )
    return tuple(found)


def _values(template: Template, technique: str) -> dict[str, str]:
    """Values that the template still knows; a lesson may be older than the template."""
    named = dict(
        part.partition("=")[::2] for part in technique.partition(":")[2].split(",") if "=" in part
    )
    return {
        parameter.name: value
        for parameter in template.parameters
        for value in parameter.values
        if named.get(_clean(parameter.name)) == _clean(value)
    }


def _tag(template: str, named: Sequence[tuple[str, str]]) -> str:
    pairs = ",".join(f"{_clean(name)}={_clean(value)}" for name, value in named)
    return f"{_clean(template)}:{pairs}"


def _clean(text: str) -> str:
    return _NOT_IN_TAGS.sub("-", text.lower())
