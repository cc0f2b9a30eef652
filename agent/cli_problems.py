"""`kagent problems`: the library as tables, one problem in full, and its admission."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from agent.layout import fact
from problems.catalog import ProblemSummary
from problems.definition import ConstAxis, Definition, ExprAxis, TensorSpec
from problems.problem import Problem, Target

if TYPE_CHECKING:
    from problems.admission import AdmissionReport


def summary_json(summary: ProblemSummary) -> dict[str, object]:
    """The stable keys of `kagent problems list --json`; the class needs a trace: see `show`."""
    return {
        "name": summary.name,
        "number": summary.number,
        "source": summary.source,
        "track": summary.track.value if summary.track else None,
        "class": None,
        "family": summary.family,
        "title": summary.title,
        "workloads": {target.value: count for target, count in summary.workloads.items()},
        "targets": [target.value for target in summary.targets],
    }


def table(summaries: tuple[ProblemSummary, ...]) -> Table:
    listed = Table(box=None, pad_edge=False, header_style="bold bright_black")
    listed.add_column("number")
    listed.add_column("name", style="bold", no_wrap=True)
    listed.add_column("title")
    listed.add_column("track")
    listed.add_column("family")
    listed.add_column("workloads", no_wrap=True)
    for summary in summaries:
        counts = ", ".join(f"{count} {target}" for target, count in summary.workloads.items())
        number = f"{summary.number:03d}" if summary.number is not None else ""
        cells = [number, summary.name, summary.title, summary.track or "", summary.family or ""]
        listed.add_row(*(Text(cell) for cell in [*cells, counts]))
    return listed


def show(problem: Problem) -> Group:
    definition = problem.definition
    parts: list[RenderableType] = [
        Text(problem.name, style="bold"),
        Text((definition.description or "").strip(), style="italic"),
        Text(""),
        fact("axes", _axes(definition)),
        fact("inputs", _tensors(definition.inputs)),
        fact("outputs", _tensors(definition.outputs)),
    ]
    parts += [fact(target.value, _workloads(problem, target)) for target in problem.targets]
    from rich.syntax import Syntax

    reference = Syntax(definition.reference.rstrip(), "python", theme="ansi_light")
    return Group(*parts, Text("\n  reference\n", style="bold bright_black"), reference)


def _axes(definition: Definition) -> str:
    described = []
    for name, axis in definition.axes.items():
        if isinstance(axis, ConstAxis):
            described.append(f"{name} = {axis.value}")
        elif isinstance(axis, ExprAxis):
            described.append(f"{name} = {axis.expression}")
        else:
            described.append(name)
    return ", ".join(described)


def _tensors(tensors: dict[str, TensorSpec]) -> str:
    return "\n".join(
        f"{name}: {spec.dtype}" + ("" if spec.shape is None else f" [{', '.join(spec.shape)}]")
        for name, spec in tensors.items()
    )


def _workloads(problem: Problem, target: Target) -> str:
    workloads = problem.targets[target]
    sizes = [
        ", ".join(f"{axis} {size}" for axis, size in workload.axes.items())
        for workload in workloads.public
    ]
    rules = []
    for axis, rule in workloads.rules.items():
        span = (
            f"one of {', '.join(map(str, rule.choices))}"
            if rule.choices
            else f"{rule.low} to {rule.high}"
        )
        multiple = f" in steps of {rule.multiple_of}" if rule.multiple_of > 1 else ""
        rules.append(f"{axis} {span}{multiple}")
    hidden = f"hidden: {'; '.join(rules)}" if rules else "no hidden workloads"
    return "\n".join([*sizes, hidden])


def check_lines(report: AdmissionReport) -> Text:
    checks = len(report.checks) + sum(len(workload.checks) for workload in report.workloads)
    if report.passed:
        return Text.assemble(
            ("passed", "green"),
            f"  {report.problem}: {checks} checks on {len(report.workloads)} workloads",
        )
    lines = Text.assemble(("failed", "red"), f"  {report.problem}")
    for failure in report.failures:
        lines.append(f"\n        {failure}")
    return lines
