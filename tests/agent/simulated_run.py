"""A simulated run: kernels whose true speed is a formula, and noisy screens of them."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence

from agent.attempt import Attempt, Baseline, Budget, Confirm, Phase, Proposal, RunState, Stop
from agent.policies.playbook import Playbook
from agent.policies.policy import Policy
from memory.lesson import Recall
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
