"""Compare an output with the oracle: element tolerance, per-row share, cap, finite mask."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch

QuickErrors = Callable[[torch.Tensor, torch.Tensor, float, float], tuple[float, float] | None]
"""`VerifierNative.errors`."""


@dataclass(frozen=True)
class Comparison:
    """Of one or more outputs; the errors are None where not every element was finite."""

    passed: bool
    matched_ratio: float
    """Of the worst row."""
    max_absolute_error: float | None
    max_relative_error: float | None
    has_nan: bool
    has_inf: bool
    reason: str
    """Empty if passed."""

    def correctness(self) -> dict[str, Any]:
        """The fields of `problems.evaluation.Correctness`."""
        fields = asdict(self)
        return {k: v for k, v in fields.items() if k not in ("passed", "reason")}


class Expectation:
    """One expected output with what does not depend on the candidate computed once.

    A verifier keeps it for all candidates of a run: comparing then costs a few passes.
    """

    def __init__(self, name: str, expected: torch.Tensor, tolerance: dict[str, Any]) -> None:
        """`expected` is float64, or exact for integers and booleans."""
        self.name = name
        self.expected = expected
        self._tolerance = tolerance
        if expected.dtype.is_floating_point:
            size = expected.abs()
            self._all_finite = bool(size.isfinite().all())
            self._allowed = tolerance["max_atol"] + tolerance["max_rtol"] * size
            self._scale = size.clamp_min_(max(tolerance["max_atol"], 1e-300))

    def compare(self, output: torch.Tensor, quick: QuickErrors | None = None) -> Comparison:
        """`output` has the declared shape and dtype. Predicates are such that a NaN fails them.

        `quick` answers for an output whose every element matches, in one pass instead of ten.
        """
        if not output.dtype.is_floating_point:
            return _compare_exact(self.name, output, self.expected)
        if quick is not None and self._all_finite and self._tolerance.get("max_error_cap") is None:
            limits = self._tolerance["max_atol"], self._tolerance["max_rtol"]
            errors = quick(output, self.expected, *limits)
            if errors is not None:
                return Comparison(True, 1.0, errors[0], errors[1], False, False, "")
        found = output.to(torch.float64)
        error = (found - self.expected).abs_()
        largest = float(error.max()) if error.numel() else 0.0
        if self._all_finite and math.isfinite(largest):
            return self._compare_finite(found, error, largest)
        return self._compare_special(found)

    def _compare_finite(
        self, found: torch.Tensor, error: torch.Tensor, largest: float
    ) -> Comparison:
        required = self._tolerance["required_matched_ratio"]
        matched = error <= self._allowed
        ratio, passed = (1.0, True) if bool(matched.all()) else _row_shares(matched, required)
        reason = ""
        if not passed:
            where = tuple(int(i) for i in (~matched).nonzero()[0])
            reason = (
                f"{self.name}: a row matches in {ratio:.1%} of its elements, needed "
                f"{required:.1%}; largest error {largest:.3g}; first mismatch at {list(where)}: "
                f"{float(found[where]):.6g} instead of {float(self.expected[where]):.6g}"
            )
        cap = self._tolerance.get("max_error_cap")
        if cap is not None and not largest <= cap:
            reason = reason or f"{self.name}: an error of {largest:.3g} is above the cap {cap:.3g}"
        relative = float((error / self._scale).max()) if error.numel() else 0.0
        return Comparison(not reason, ratio, largest, relative, False, False, reason)

    def _compare_special(self, found: torch.Tensor) -> Comparison:
        """Somewhere NaN or infinity: the masks must be equal, and the finite rest must match."""
        has_nan, has_inf = bool(found.isnan().any()), bool(found.isinf().any())
        finite = self.expected.isfinite()
        same = (found.isfinite() == finite) & (found.isnan() == self.expected.isnan())
        same &= (found.isinf() & (found > 0)) == (self.expected.isinf() & (self.expected > 0))
        if not bool(same.all()):
            what = "NaN" if has_nan else "not finite"
            return Comparison(
                passed=False,
                matched_ratio=float(same.to(torch.float64).mean()),
                max_absolute_error=None,
                max_relative_error=None,
                has_nan=has_nan,
                has_inf=has_inf,
                reason=f"{self.name}: {what} where the reference is not, or the reverse",
            )
        zero = torch.zeros((), dtype=torch.float64)
        rest = Expectation(self.name, torch.where(finite, self.expected, zero), self._tolerance)
        compared = rest.compare(torch.where(finite, found, zero))
        return replace(compared, has_nan=has_nan, has_inf=has_inf)


def compare_output(
    name: str, output: torch.Tensor, expected: torch.Tensor, tolerance: dict[str, Any]
) -> Comparison:
    """`expected` is float64, or exact for integers and booleans."""
    return Expectation(name, expected, tolerance).compare(output)


def worst(comparisons: list[Comparison]) -> Comparison:
    """One verdict over all outputs of a call, or over all calls of a workload."""
    failed = [c for c in comparisons if not c.passed]
    return Comparison(
        passed=bool(comparisons) and not failed,
        matched_ratio=min((c.matched_ratio for c in comparisons), default=0.0),
        max_absolute_error=_largest([c.max_absolute_error for c in comparisons]),
        max_relative_error=_largest([c.max_relative_error for c in comparisons]),
        has_nan=any(c.has_nan for c in comparisons),
        has_inf=any(c.has_inf for c in comparisons),
        reason=failed[0].reason if failed else "",
    )


def _largest(errors: list[float | None]) -> float | None:
    known = [error for error in errors if error is not None]
    return max(known) if known and len(known) == len(errors) else None


def _compare_exact(name: str, output: torch.Tensor, expected: torch.Tensor) -> Comparison:
    if output.dtype is torch.bool:
        output = output.view(torch.uint8)  # a byte other than 0 and 1 is no boolean
        expected = expected.to(torch.uint8)
    equal = output.to(torch.int64) == expected.to(torch.int64)
    if not equal.numel():
        return Comparison(True, 1.0, 0.0, None, False, False, "")
    error = float((output.to(torch.float64) - expected.to(torch.float64)).abs().max())
    share = float(equal.to(torch.float64).mean())
    reason = "" if bool(equal.all()) else f"{name}: {1 - share:.2%} of its integers differ"
    return Comparison(not reason, share, error, None, False, False, reason)


def _row_shares(matched: torch.Tensor, required: float) -> tuple[float, bool]:
    if not matched.numel():
        return 1.0, True
    rows = matched.reshape(-1, matched.shape[-1] if matched.dim() else 1)
    missed = (~rows).sum(-1)
    allowed = int((1 - required) * rows.shape[1] + 1e-9)
    worst_missed = int(missed.max())
    whole = float(rows.to(torch.float64).mean())
    ratio = 1 - worst_missed / rows.shape[1]
    return ratio, worst_missed <= allowed and whole >= required
