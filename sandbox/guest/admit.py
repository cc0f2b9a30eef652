"""Is this a fair problem? Runs a reference on every workload of a plan, and cheats against it.

Reads `/work/plan.json` (`scheduler.plan.plan_of`), writes `/out/admission.json`:
`{"workloads": [{"workload", "checks": [{"name", "passed", "detail"}]}]}`, or `{"error": line}`
and exit status 1. A check has passed if the problem is fair in that respect. Each output is faked
alone, the others being right: a cheap answer to one of them must fail as well.
"""

from __future__ import annotations

import json
import socket
import types
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from sandbox.guest.correctness import Comparison, Expectation, worst
from sandbox.guest.inputs import Value, dtype_of, load_reference, make_inputs
from sandbox.guest.oracle import expected_outputs, native_outputs
from sandbox.guest.reference_errors import REFERENCE_ERRORS, UnfitReferenceError, located

_SEEDS = (11, 12)


@dataclass(frozen=True)
class Check:
    name: str
    passed: bool
    detail: str


def main(argv: list[str], links: list[socket.socket]) -> int:
    report = admission_of(json.loads(Path("/work/plan.json").read_text()))
    Path("/out/admission.json").write_text(json.dumps(report))
    return 1 if "error" in report else 0


def admission_of(plan: dict[str, Any]) -> dict[str, Any]:
    """What `/out/admission.json` contains for a plan."""
    try:
        reference = load_reference(plan["reference"])
        entrypoint = plan["custom_inputs_entrypoint"]
        workloads = [
            {
                "workload": call["workload"],
                "checks": [asdict(c) for c in Trial(reference, entrypoint, call).checks()],
            }
            for call in plan["calls"]
        ]
    except REFERENCE_ERRORS as error:
        return {"error": located(error)}
    return {"workloads": workloads}


class Trial:
    """One workload under two seeds, each with its own answer."""

    def __init__(
        self, reference: types.ModuleType, entrypoint: str | None, call: dict[str, Any]
    ) -> None:
        self._reference = reference
        self._entrypoint = entrypoint
        self._call = call
        self._inputs, self._other_inputs = (self._make(seed) for seed in _SEEDS)
        self._answer = self._run(self._inputs)
        self._other_answer = self._run(self._other_inputs)
        self._expectations = self._expect(self._inputs)

    def checks(self) -> Iterator[Check]:
        yield self._passes("passes itself", self._answer, self._expectations)
        other = self._expect(self._other_inputs)
        yield self._passes("passes itself under another seed", self._other_answer, other)
        yield self._repeats()
        for index, expectation in enumerate(self._expectations):
            for name, fake in self._fakes(index):
                outputs = [*self._answer]
                outputs[index] = fake
                yield self._refuses(f"{expectation.name}: {name}", outputs)
        for index, spec in enumerate(self._call["inputs"]):
            if spec["shape"] is not None:
                yield self._reacts(index, spec["name"])

    def _make(self, seed: int) -> list[Value]:
        return make_inputs(self._call, self._reference, self._entrypoint, seed, "cpu")

    def _run(self, inputs: Sequence[Value]) -> list[torch.Tensor]:
        outputs = native_outputs(self._reference, inputs)
        declared = self._call["outputs"]
        if len(outputs) != len(declared):
            raise UnfitReferenceError(
                f"it returns {len(outputs)} outputs, {len(declared)} are declared"
            )
        for spec, output in zip(declared, outputs, strict=True):
            wanted = (tuple(spec["shape"]), dtype_of(spec["dtype"]))
            if (tuple(output.shape), output.dtype) != wanted:
                raise UnfitReferenceError(
                    f"output {spec['name']} is {tuple(output.shape)} {output.dtype}, declared "
                    f"{wanted[0]} {wanted[1]}"
                )
        return outputs

    def _expect(self, inputs: Sequence[Value]) -> list[Expectation]:
        expected = expected_outputs(self._reference, inputs)
        return [
            Expectation(spec["name"], output, self._call["tolerance"])
            for spec, output in zip(self._call["outputs"], expected, strict=True)
        ]

    def _passes(
        self, name: str, outputs: Sequence[torch.Tensor], expectations: Sequence[Expectation]
    ) -> Check:
        verdict = _compare(outputs, expectations)
        return Check(name, verdict.passed, verdict.reason or _closeness(verdict))

    def _refuses(self, name: str, outputs: Sequence[torch.Tensor]) -> Check:
        verdict = _compare(outputs, self._expectations)
        detail = verdict.reason or "it passes: the tolerance is too lax, or the inputs too tame"
        return Check(f"refuses {name}", not verdict.passed, detail)

    def _repeats(self) -> Check:
        name = "repeats itself"
        for spec, once, again in zip(
            self._call["inputs"], self._inputs, self._make(_SEEDS[0]), strict=True
        ):
            if not _same(once, again):
                return Check(name, False, f"input {spec['name']} differs under the same seed")
        for spec, once, again in zip(
            self._call["outputs"], self._answer, self._run(self._inputs), strict=True
        ):
            if not _same(once, again):
                return Check(name, False, f"output {spec['name']} differs for the same inputs")
        return Check(name, True, "twice the same bytes")

    def _fakes(self, index: int) -> Iterator[tuple[str, torch.Tensor]]:
        """Cheap answers to one output, in its shape and type."""
        answer = self._answer[index]
        yield "zeros", torch.zeros_like(answer)
        yield "ones", torch.ones(answer.shape).to(answer.dtype)
        values = answer.to(torch.float64)
        finite = values[values.isfinite()]
        mean = float(finite.mean()) if finite.numel() else 0.0
        yield "the mean", torch.full(answer.shape, mean).to(answer.dtype)
        yield "noise", _noise_like(answer, mean, finite)
        yield "another seed's answer", self._other_answer[index]
        for spec, value in zip(self._call["inputs"], self._inputs, strict=True):
            if isinstance(value, torch.Tensor) and value.shape == answer.shape:
                yield f"a copy of {spec['name']}", value.to(answer.dtype)

    def _reacts(self, index: int, name: str) -> Check:
        """Whether the answer to other values of one input differs by more than the tolerance."""
        title = f"reacts to {name}"
        changed = list(self._inputs)
        changed[index] = self._other_inputs[index]
        if _same(changed[index], self._inputs[index]):
            changed[index] = _disturbed(self._inputs[index])
        if _same(changed[index], self._inputs[index]):
            return Check(title, False, "its values are the same in every draw")
        try:
            outputs = self._run(changed)
        except REFERENCE_ERRORS as error:
            return Check(title, True, f"other values do not fit the other inputs: {error}"[:200])
        verdict = _compare(outputs, self._expectations)
        ignored = "other values give the same answer within the tolerance"
        return Check(title, not verdict.passed, verdict.reason or ignored)


def _compare(outputs: Sequence[torch.Tensor], expectations: Sequence[Expectation]) -> Comparison:
    return worst(
        [
            expectation.compare(output)
            for expectation, output in zip(expectations, outputs, strict=True)
        ]
    )


def _closeness(verdict: Comparison) -> str:
    return f"{verdict.matched_ratio:.2%} of the worst row's elements match"


def _same(once: Value, again: Value) -> bool:
    if isinstance(once, torch.Tensor) and isinstance(again, torch.Tensor):
        bytes_of_once, bytes_of_again = (
            x.contiguous().view(-1).view(torch.uint8) for x in (once, again)
        )
        return torch.equal(bytes_of_once, bytes_of_again)
    return bool(once == again)


def _noise_like(answer: torch.Tensor, mean: float, finite: torch.Tensor) -> torch.Tensor:
    """Random numbers of the answer's mean and spread."""
    if not finite.numel():
        return torch.randn(answer.shape).to(answer.dtype)
    if not answer.dtype.is_floating_point:
        low, high = int(finite.min()), int(finite.max())
        return torch.randint(low, high + 1, answer.shape).to(answer.dtype)
    spread = float(finite.std(correction=0))
    return (mean + spread * torch.randn(answer.shape)).to(answer.dtype)


def _disturbed(value: Value) -> Value:
    if not isinstance(value, torch.Tensor):
        return value
    if value.dtype.is_floating_point:
        factors = 1 + torch.randn(value.shape)
        return (value.to(torch.float32) * factors).to(value.dtype)
    return value.reshape(-1).flip(0).reshape(value.shape)
