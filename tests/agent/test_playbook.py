"""The playbook on a simulated machine: noisy screens, a known best point, one journal."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Mapping, Sequence

import pytest

from agent.attempt import Attempt, Baseline, Budget, Confirm, Phase, Proposal, RunState, Stop
from agent.policies.playbook import GENERATION, Playbook
from agent.policies.policy import Policy
from agent.policies.scripted_policy import ScriptedPolicy
from agent.search import Trial, measured_gains, predicted_gain, suggest
from memory.lesson import Conditions, Hit, Lesson, LessonKind, LessonStatus, Recall
from problems.definition import Definition
from problems.evaluation import Status, Verdict
from problems.paired import Comparison
from problems.problem import Problem, Target, WorkloadSet
from problems.record import digest_of
from problems.solution import Language, Solution
from problems.speed_of_light import Analysis
from scheduler.job import Stage
from skills.template import Instance, Parameter, Refusal, Template, choose_parameters

BASELINE = digest_of(b"baseline")
SCREEN_S, CONFIRM_S = 1.0, 4.0


class Kernel:
    """An `Instance` whose true log speedup over the baseline is a function of its parameters."""

    def __init__(
        self,
        name: str,
        values: Mapping[str, Sequence[str]],
        gain: Callable[[Mapping[str, str]], float | None],
    ) -> None:
        self.gain = gain
        self.template = Template(
            name=name,
            family="test",
            language=Language.CPP,
            title=f"The {name} kernel",
            mechanism="reads each byte once",
            action="Read each byte once.",
            parameters=tuple(
                Parameter(name=n, values=tuple(v), default=v[0], description=f"what {n} is")
                for n, v in values.items()
            ),
        )

    def defaults(self) -> dict[str, str]:
        return self.template.defaults()

    def render(self, parameters: Mapping[str, str]) -> Solution:
        chosen = choose_parameters(self.template, self.defaults(), parameters)
        return Solution.model_validate(
            {
                "name": self.template.name,
                "definition": "copy",
                "author": "test",
                "spec": {"languages": ["cpp"], "entry_point": "kernel.cpp::run"},
                "sources": [{"path": "kernel.cpp", "content": f"// {chosen}"}],
            }
        )


LADDERS = {
    "vector_width": ("4", "8", "16"),
    "unroll": ("1", "2", "4", "8"),
    "prefetch": ("0", "1024", "2048", "4096"),
    "store": ("plain", "streaming"),
    "rows": ("1", "2", "4"),
}
BEST = {
    "vector_width": "16",
    "unroll": "4",
    "prefetch": "2048",
    "store": "streaming",
    "rows": "2",
}


def memory_bound_gain(parameters: Mapping[str, str]) -> float:
    """288 points, one best; streaming stores only pay with wide vectors, as on a real machine."""
    gain = math.log(2.0)
    gain -= {"4": 0.15, "8": 0.05, "16": 0.0}[parameters["vector_width"]]
    gain -= {"1": 0.06, "2": 0.02, "4": 0.0, "8": 0.03}[parameters["unroll"]]
    gain -= {"0": 0.10, "1024": 0.03, "2048": 0.0, "4096": 0.02}[parameters["prefetch"]]
    gain -= {"1": 0.03, "2": 0.0, "4": 0.02}[parameters["rows"]]
    if parameters["store"] == "plain":
        gain -= 0.2
    elif parameters["vector_width"] == "4":
        gain -= 0.25
    return gain


class Machine:
    """Plays the run's loop: carries out decisions and folds them into the state."""

    def __init__(
        self,
        policy: Policy,
        kernels: Sequence[Kernel],
        *,
        noise_seed: int = 0,
        total_s: float = 300,
        recall: Recall | None = None,
        sol_fraction: float | None = None,
    ) -> None:
        self.policy = policy
        self.kernels = {kernel.template.name: kernel for kernel in kernels}
        self.noise = random.Random(noise_seed)
        self.sol_fraction = sol_fraction
        self.decisions: list[Proposal | Confirm | Stop] = []
        self.true_gains: dict[str, float] = {BASELINE: 0.0}
        self.state = RunState(
            run="run",
            problem=copy_problem(),
            target=Target.CPU,
            phase=Phase.SEARCHING,
            total_s=total_s,
            spent_s=0,
            recall=recall,
            baseline=Baseline(
                solution=BASELINE, build=None, kind="eager", eager_over_compiled=None, latency_ms=1
            ),
        )

    def budget(self) -> Budget:
        return Budget(total_s=self.state.total_s, spent_s=self.state.spent_s, reserve_s=10)

    def run(self, most: int = 400) -> Stop:
        for _ in range(most):
            decision = self.policy.propose(self.state, self.budget())
            self.decisions.append(decision)
            if isinstance(decision, Stop):
                return decision
            if isinstance(decision, Confirm):
                self._confirm(decision.attempt)
            else:
                self._propose(decision)
        raise AssertionError(f"no stop within {most} decisions")

    def proposals(self) -> list[Proposal]:
        return [d for d in self.decisions if isinstance(d, Proposal)]

    def screens_until(self, parameters: Mapping[str, str]) -> int | None:
        tried = [attempt.parameters for attempt in self.state.attempts]
        return tried.index(dict(parameters)) + 1 if dict(parameters) in tried else None

    def _opponent(self) -> str:
        incumbent = self.state.incumbent
        return BASELINE if incumbent is None else self.state.attempts[incumbent].solution

    def _compare(self, solution: str, sessions: int) -> Comparison:
        sd = 0.004 / math.sqrt(sessions)
        true = self.true_gains[solution] - self.true_gains[self._opponent()]
        log_ratio = true + self.noise.gauss(0, sd)
        half = 2.6 * sd if sessions > 1 else 0.0
        faster = log_ratio - half > 0.005
        return Comparison(
            ratio=math.exp(log_ratio),
            low=math.exp(log_ratio - half),
            high=math.exp(log_ratio + half),
            sessions=sessions,
            verdict=None if sessions == 1 else Verdict.FASTER if faster else Verdict.AMBIGUOUS,
        )

    def _propose(self, proposal: Proposal) -> None:
        digest = proposal.solution.content_digest()
        gain = self.kernels[proposal.solution.name].gain(proposal.parameters)
        attempt = Attempt(
            index=len(self.state.attempts),
            solution=digest,
            name=proposal.solution.name,
            language=Language.CPP,
            hypothesis=proposal.hypothesis,
            technique=proposal.technique,
            parameters=proposal.parameters,
            lessons=proposal.lessons,
            parent=proposal.parent,
            stage=Stage.BUILD if gain is None else Stage.SCREEN,
            status=Status.COMPILE_ERROR if gain is None else Status.PASSED,
            at_s=self.state.spent_s,
            seconds=SCREEN_S,
        )
        if gain is not None:
            self.true_gains[digest] = gain
            attempt = attempt.model_copy(
                update={"opponent": self._opponent(), "screen": self._compare(digest, 1)}
            )
        self._store(attempt, SCREEN_S)
        if attempt.screen and attempt.screen.ratio > 1.003 and not proposal.hold:
            self._confirm(attempt.index)

    def _confirm(self, index: int) -> None:
        attempt = self.state.attempts[index]
        confirm = self._compare(attempt.solution, 6)
        promoted = confirm.verdict is Verdict.FASTER
        changed = {
            "confirm": confirm,
            "opponent": self._opponent(),
            "promoted": promoted,
            "seconds": attempt.seconds + CONFIRM_S,
            "sol_fraction": self.sol_fraction if promoted else None,
        }
        self._store(attempt.model_copy(update=changed), CONFIRM_S)

    def _store(self, attempt: Attempt, seconds: float) -> None:
        attempts = [*self.state.attempts[: attempt.index], attempt]
        attempts += self.state.attempts[attempt.index + 1 :]
        self.state = self.state.model_copy(
            update={
                "attempts": tuple(attempts),
                "spent_s": self.state.spent_s + seconds,
                "incumbent": attempt.index if attempt.promoted else self.state.incumbent,
            }
        )


def copy_problem() -> Problem:
    definition = Definition.model_validate(
        {
            "name": "copy",
            "axes": {"n": {"type": "var"}},
            "inputs": {"x": {"shape": ["n"], "dtype": "float32"}},
            "outputs": {"y": {"shape": ["n"], "dtype": "float32"}},
            "reference": "def run(x):\n    return x.clone()\n",
        }
    )
    workloads = WorkloadSet.model_validate(
        {"public": [{"uuid": "w", "axes": {"n": 8}, "inputs": {"x": {"type": "random"}}}]}
    )
    return Problem(
        name="copy", source="library", definition=definition, targets={Target.CPU: workloads}
    )


def playbook(*kernels: Kernel, seed: int = 0, refusals: tuple[Refusal, ...] = ()) -> Playbook:
    def match(definition: Definition, analyses: Sequence[Analysis]) -> tuple[Instance, ...]:
        return kernels

    def refuse(definition: Definition, analyses: Sequence[Analysis]) -> tuple[Refusal, ...]:
        return refusals

    return Playbook(match, refuse, seed)


def row_kernel() -> Kernel:
    return Kernel("row_kernel", LADDERS, memory_bound_gain)


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


def test_finds_the_best_point_in_nine_of_ten_searches() -> None:
    within = 0
    for seed in range(10):
        machine = Machine(playbook(row_kernel(), seed=seed), [row_kernel()], noise_seed=seed)
        machine.run()
        needed = machine.screens_until(BEST)
        incumbent = machine.state.incumbent
        assert incumbent is not None
        ended_there = machine.state.attempts[incumbent].parameters == BEST
        within += needed is not None and needed <= 30 and ended_there
    assert within >= 9


@pytest.mark.parametrize("noise_seed", range(3))
def test_never_proposes_a_point_twice(noise_seed: int) -> None:
    machine = Machine(playbook(row_kernel()), [row_kernel()], noise_seed=noise_seed)
    machine.run()
    points = [tuple(p.parameters.items()) for p in machine.proposals()]
    digests = [p.solution.content_digest() for p in machine.proposals()]
    assert len(points) > 2 * GENERATION
    assert len(set(points)) == len(points) == len(set(digests))


def test_a_resumed_run_decides_as_the_killed_one() -> None:
    machine = Machine(playbook(row_kernel(), seed=3), [row_kernel()])
    states = []
    for _ in range(25):
        states.append((machine.state, machine.budget()))
        decision = machine.policy.propose(*states[-1])
        machine.decisions.append(decision)
        if isinstance(decision, Confirm):
            machine._confirm(decision.attempt)
        elif isinstance(decision, Proposal):
            machine._propose(decision)
    for (state, budget), decision in zip(states, machine.decisions, strict=True):
        stored = RunState.model_validate_json(state.model_dump_json())
        assert playbook(row_kernel(), seed=3).propose(stored, budget) == decision


def test_first_proposal_is_confirmed_at_once_and_later_ones_are_held() -> None:
    machine = Machine(playbook(row_kernel()), [row_kernel()])
    machine.run()
    proposals = machine.proposals()
    assert proposals[0].parameters == row_kernel().defaults()
    assert not proposals[0].hold
    assert proposals[0].parent is None
    assert "reads each byte once; predicted faster than the baseline" in proposals[0].hypothesis
    assert all(p.hold and p.parent for p in proposals[1:])


def test_nothing_is_held_until_something_beats_the_baseline() -> None:
    kernel = Kernel("row_kernel", LADDERS, lambda p: memory_bound_gain(p) - math.log(1.5))
    machine = Machine(playbook(kernel), [kernel])
    machine.run()
    promoted = next(a.index for a in machine.state.attempts if a.promoted)
    held = [proposal.hold for proposal in machine.proposals()]
    assert promoted > 0
    assert held == [False] * (promoted + 1) + [True] * (len(held) - promoted - 1)


def test_hypothesis_names_the_change_the_prediction_and_the_attempt() -> None:
    machine = Machine(playbook(row_kernel()), [row_kernel()])
    machine.run()
    texts = [proposal.hypothesis for proposal in machine.proposals()[1:]]
    assert all(" instead of " in text and " against attempt " in text for text in texts)
    assert any("predicted 1." in text for text in texts)
    assert any("was never measured" in text for text in texts)


def test_confirms_at_most_once_a_generation() -> None:
    machine = Machine(playbook(row_kernel()), [row_kernel()])
    machine.run()
    confirmed = sum(isinstance(decision, Confirm) for decision in machine.decisions)
    assert 1 <= confirmed <= len(machine.state.attempts) // GENERATION + 1


def test_every_template_is_tried_before_any_parameter_is_searched() -> None:
    slow = Kernel("slow", {"a": ("1", "2", "3")}, lambda p: math.log(0.3))
    machine = Machine(playbook(slow, row_kernel()), [slow, row_kernel()])
    machine.run()
    names = [proposal.solution.name for proposal in machine.proposals()]
    assert names[:2] == ["slow", "row_kernel"]
    assert set(names[2:]) == {"row_kernel"}, "five times slower is not searched further"


def test_a_close_runner_up_gets_a_share_of_the_screens() -> None:
    rival = Kernel("rival", LADDERS, lambda p: memory_bound_gain(p) + 0.02)
    machine = Machine(playbook(row_kernel(), rival), [row_kernel(), rival])
    machine.run()
    names = [proposal.solution.name for proposal in machine.proposals()]
    assert names.count("row_kernel") > 4
    incumbent = machine.state.incumbent
    assert incumbent is not None
    assert machine.state.attempts[incumbent].name == "rival"


def test_failing_points_do_not_end_the_search() -> None:
    def gain(parameters: Mapping[str, str]) -> float | None:
        return None if parameters["unroll"] in ("1", "8") else memory_bound_gain(parameters)

    kernel = Kernel("row_kernel", LADDERS, gain)
    machine = Machine(playbook(kernel), [kernel])
    machine.run()
    incumbent = machine.state.incumbent
    assert incumbent is not None
    assert machine.state.attempts[incumbent].parameters == BEST


def test_stops_where_every_point_fails() -> None:
    kernel = Kernel("row_kernel", LADDERS, lambda p: None)
    machine = Machine(playbook(kernel), [kernel])
    stop = machine.run()
    assert "none of the 12 attempts passed" in stop.reason


def test_stops_where_the_space_is_exhausted() -> None:
    kernel = Kernel("tiny", {"a": ("1", "2"), "b": ("x", "y", "z")}, lambda p: 0.1)
    machine = Machine(playbook(kernel), [kernel])
    stop = machine.run()
    assert "exhausted: 6 of 6 points of tiny" in stop.reason
    assert len(machine.state.attempts) == 6


def test_stops_where_nothing_is_gained_and_the_neighbours_are_tried() -> None:
    machine = Machine(playbook(row_kernel()), [row_kernel()])
    stop = machine.run()
    assert "gained nothing, and every neighbour of the best point" in stop.reason


def test_stops_near_the_speed_of_light() -> None:
    machine = Machine(playbook(row_kernel()), [row_kernel()], sol_fraction=0.96)
    stop = machine.run()
    assert stop.reason.startswith("attempt 0 is at 96% of the speed of light")
    assert len(machine.state.attempts) == 1


def test_stops_when_the_budget_does_not_suffice_for_one_more() -> None:
    machine = Machine(playbook(row_kernel()), [row_kernel()], total_s=30)
    stop = machine.run()
    assert "are left to search in" in stop.reason
    assert machine.state.spent_s <= 20


def test_the_best_screen_is_confirmed_before_the_budget_ends() -> None:
    machine = Machine(playbook(row_kernel()), [row_kernel()], total_s=24.0)
    machine.run()
    assert isinstance(machine.decisions[-2], Confirm)


def test_without_a_template_it_stops_with_every_refusal() -> None:
    refusals = (
        Refusal(family="row program", reason="aten.sort is not supported"),
        Refusal(family="matrix product", reason="no matrix product in it"),
    )
    machine = Machine(playbook(refusals=refusals), [])
    assert machine.run().reason == (
        "no template fits this problem (row program: aten.sort is not supported; "
        "matrix product: no matrix product in it)"
    )
    assert not machine.state.attempts


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


def test_gains_chain_through_the_opponents() -> None:
    machine = Machine(playbook(row_kernel()), [row_kernel()])
    machine.run()
    gains = measured_gains(machine.state)
    for attempt in machine.state.attempts:
        true = machine.true_gains[attempt.solution]
        assert gains[attempt.index] == pytest.approx(true, abs=0.03)


def test_prediction_learns_an_independent_effect() -> None:
    template = row_kernel().template
    parameters = dict(BEST)
    trials = []
    for store in ("plain", "streaming"):
        for unroll in ("2", "4"):
            values = parameters | {"store": store, "unroll": unroll}
            point = tuple(values[name] for name in LADDERS)
            trials.append(Trial(point=point, gain=memory_bound_gain(values)))
    slow, fast = trials[1].point, trials[3].point
    gain = predicted_gain(template, trials, fast, slow)
    assert gain is not None
    assert 0.1 < gain < 0.2, "shrunk towards nothing, as two trials a value are few"
    assert predicted_gain(template, trials, ("4", *fast[1:]), fast) is None


def test_deciding_after_two_hundred_attempts_is_fast() -> None:
    template = row_kernel().template
    draw = random.Random(0)
    points = {tuple(draw.choice(p.values) for p in template.parameters) for _ in range(400)}
    trials = [Trial(point=point, gain=draw.random()) for point in sorted(points)[:200]]
    excluded = frozenset(trial.point for trial in trials)
    suggest(template, trials[:10], frozenset(), 0)
    start = time.perf_counter()
    point = suggest(template, trials, excluded, 1)
    took_s = time.perf_counter() - start
    assert point is not None
    assert point not in excluded
    assert took_s < 0.25, "50 ms on an idle core"


def test_scripted_policy_carries_out_its_script_once() -> None:
    kernel = row_kernel()
    script = [
        Proposal(
            solution=kernel.render({"unroll": unroll}),
            hypothesis="as written",
            technique="row_kernel",
            parameters=kernel.defaults() | {"unroll": unroll},
            hold=True,
        )
        for unroll in ("1", "2")
    ]
    machine = Machine(ScriptedPolicy([script[0], Confirm(attempt=0), script[1]]), [kernel])
    assert machine.run() == Stop(reason="the script is at its end")
    assert machine.decisions[:3] == [script[0], Confirm(attempt=0), script[1]]
