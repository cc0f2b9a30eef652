"""Writes the files anew that tests compare with what the code makes: `python -m tests.golden`."""

from __future__ import annotations

from problems.catalog import load_problem
from problems.problem import Target
from problems.speed_of_light import Analysis
from sandbox.guest.analyze import analysis_report
from scheduler.plan import plan_of
from skills.kernel_text import KERNEL, template_folder
from skills.template import match_templates

KERNELS = {"row_program": "rmsnorm", "top_k_gate": "moe_gate"}
"""Generated templates, and the problem of the library that each is the kernel of."""


def write_kernels() -> None:
    for template, name in KERNELS.items():
        problem = load_problem(name)
        plan = plan_of(problem.definition, problem.targets[Target.CPU].public)
        analyses = [Analysis.model_validate(a) for a in analysis_report(plan)["analyses"]]
        instance = match_templates(problem.definition, analyses)[0]
        path = template_folder(template) / KERNEL
        path.write_text(instance.render({}).entry_source)


if __name__ == "__main__":
    write_kernels()
