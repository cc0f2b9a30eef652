"""Lessons that name a template: followed, cited, heeded."""

from __future__ import annotations

from agent.policies.playbook import GENERATION
from memory.lesson import Conditions, Hit, Lesson, LessonKind, LessonStatus, Recall
from tests.agent.simulated_run import BEST, Kernel, Machine, playbook, row_kernel


def lesson(technique: str, kind: LessonKind = LessonKind.STRATEGY) -> Hit:
    return Hit(
        lesson=Lesson(
            id=f"lesson-{technique}",
            kind=kind,
            title="Wide vectors pay",
            technique=technique,
            mechanism="",
            action="",
            status=LessonStatus.CANDIDATE,
            conditions=Conditions(),
            evidence=(),
            lower_bound=0.1,
        ),
        score=1,
        similarity=1,
        reason="same family",
    )


def test_follows_and_cites_a_lesson() -> None:
    hit = lesson("row_kernel:vector_width=16,unroll=9,store=streaming")
    other = lesson("someone_else:tile=64")
    recall = Recall(strategies=(other, hit), anti_patterns=(), abstained=None)
    machine = Machine(playbook(row_kernel()), [row_kernel()], recall=recall)
    machine.run()
    first = machine.proposals()[0]
    advised = {"vector_width": "16", "unroll": "1", "store": "streaming"}
    assert first.parameters == row_kernel().defaults() | advised, "a value unknown today is left"
    assert first.lessons == (hit.lesson.id,)
    assert hit.lesson.id in first.hypothesis
    assert not any(proposal.lessons for proposal in machine.proposals()[1:])


def test_a_point_that_a_lesson_warns_of_is_not_searched() -> None:
    bad = dict(BEST)
    technique = "row_kernel:" + ",".join(f"{name}={value}" for name, value in bad.items())
    warning = lesson(technique, LessonKind.ANTI_PATTERN)
    recall = Recall(strategies=(), anti_patterns=(warning,), abstained=None)
    machine = Machine(playbook(row_kernel()), [row_kernel()], recall=recall)
    machine.run()
    assert machine.screens_until(BEST) is None
    assert len(machine.state.attempts) > GENERATION


def test_technique_tags_fit_the_memory() -> None:
    many = {f"a_rather_long_name_{i}": ("1024", "2048") for i in range(9)}
    kernel = Kernel("Kernel-Nine", many, lambda p: 0.1)
    machine = Machine(playbook(kernel), [kernel], total_s=60)
    machine.run()
    techniques = [proposal.technique for proposal in machine.proposals()]
    assert all(len(technique) <= 120 for technique in techniques)
    assert techniques[0] == "kernel-nine"
    assert techniques[1].startswith("kernel-nine:a_rather_long_name_")
