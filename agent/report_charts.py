"""The report's charts as inline SVG whose colours follow the page's light or dark scheme."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from agent.attempt import RunState
from problems.evaluation import Status
from problems.hardware import Hardware

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_COLOURS = {"ink": "#010101", "muted": "#020202", "grid": "#030303", "accent": "#040404"}
"""Drawn with these, then replaced by the page's CSS variables of the same names."""
_WIDTH_IN, _HEIGHT_IN = 7.2, 3.6


def score_svg(state: RunState) -> str:
    """Share of the speed of light of every measured attempt against time, and the best so far."""
    axes, finish = _figure()
    minutes = 1 / 60
    measured = [a for a in state.attempts if a.sol_fraction is not None]
    axes.scatter(
        [a.at_s * minutes for a in measured],
        [100 * (a.sol_fraction or 0) for a in measured],
        s=22,
        color=_COLOURS["muted"],
        alpha=0.75,
        linewidths=0,
        label="attempt",
    )
    best = [a for a in measured if a.promoted]
    if best:
        times = [a.at_s * minutes for a in best] + [state.spent_s * minutes]
        values = [100 * (a.sol_fraction or 0) for a in best]
        axes.step(
            times,
            [*values, values[-1]],
            where="post",
            color=_COLOURS["accent"],
            linewidth=2,
            label="best, confirmed",
        )
        axes.scatter(times[:-1], values, s=34, color=_COLOURS["accent"], zorder=3, linewidths=0)
    failed = [a for a in state.attempts if a.status is not Status.PASSED]
    if failed:
        axes.scatter(
            [a.at_s * minutes for a in failed],
            [0.0] * len(failed),
            marker="x",
            s=22,
            color=_COLOURS["muted"],
            label="failed",
        )
    axes.axhline(100, color=_COLOURS["ink"], linewidth=1, linestyle=(0, (4, 3)))
    axes.set_xlim(0, max(state.spent_s, 1) * minutes * 1.02)
    axes.set_ylim(-3, 108)
    axes.set_xlabel("minutes of the run")
    axes.set_ylabel("share of SOL, %")
    return finish("Share of the speed of light of every attempt over the run")


def roofline_svg(state: RunState, hardware: Hardware) -> str:
    """Every workload of every measured attempt under the machine's measured roof."""
    axes, finish = _figure()
    peaks = hardware.measured or hardware.datasheet
    bounds = {bound.workload: bound for bound in state.bounds}
    intensities = [max(b.arithmetic_intensity, 1e-3) for b in bounds.values()] or [1.0]
    operations_peak = max(
        [peaks.vector_operations_per_s]
        + [peaks.operations_per_s(a.compute_dtype) for a in state.analyses if a.matrix_operations]
    )
    low, high = min(intensities) / 4, max(max(intensities), operations_peak / peaks.bytes_per_s) * 4
    xs = [low, operations_peak / peaks.bytes_per_s, high]
    axes.plot(
        xs,
        [min(x * peaks.bytes_per_s, operations_peak) / 1e9 for x in xs],
        color=_COLOURS["ink"],
        linewidth=1.4,
        label="measured ceilings",
    )
    for attempt in state.attempts:
        best = attempt.index == state.incumbent
        points = [
            (bounds[uuid].arithmetic_intensity, bounds[uuid].operations / latency_ms / 1e6)
            for uuid, latency_ms in attempt.workload_latencies_ms.items()
            if uuid in bounds and bounds[uuid].operations
        ]
        if points:
            axes.scatter(
                [x for x, _ in points],
                [y for _, y in points],
                s=34 if best else 16,
                color=_COLOURS["accent" if best else "muted"],
                alpha=1.0 if best else 0.5,
                linewidths=0,
                zorder=3 if best else 2,
                label="best" if best else None,
            )
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(low, high)
    axes.set_xlabel("arithmetic intensity, operations per compulsory byte")
    axes.set_ylabel("Gop/s")
    return finish("Roofline with every attempt")


def _figure() -> tuple[Axes, Callable[[str], str]]:
    import matplotlib as mpl

    mpl.use("svg")
    from matplotlib.figure import Figure

    style = {
        "svg.fonttype": "none",
        "font.family": "sans-serif",
        "font.size": 10,
        "axes.edgecolor": _COLOURS["grid"],
        "axes.labelcolor": _COLOURS["muted"],
        "xtick.color": _COLOURS["muted"],
        "ytick.color": _COLOURS["muted"],
        "text.color": _COLOURS["ink"],
        "axes.spines.top": False,
        "axes.spines.right": False,
        "grid.color": _COLOURS["grid"],
        "svg.hashsalt": "kagent",
    }
    with mpl.rc_context(style):
        figure = Figure(figsize=(_WIDTH_IN, _HEIGHT_IN), layout="constrained")
        axes = figure.add_subplot()
        axes.grid(visible=True, linewidth=0.6)
        axes.set_axisbelow(True)

    def finish(title: str) -> str:
        if axes.get_legend_handles_labels()[0]:
            axes.legend(frameon=False, fontsize=9, loc="best")
        text = io.StringIO()
        with mpl.rc_context(style):
            figure.savefig(text, format="svg", transparent=True, metadata={"Date": None})
        return _as_inline(text.getvalue(), title)

    return axes, finish


def _as_inline(svg: str, title: str) -> str:
    body = svg[svg.index("<svg") :]
    for name, colour in _COLOURS.items():
        body = body.replace(colour, f"var(--{name})")
    body = re.sub(r'<svg ([^>]*?)width="[^"]*" height="[^"]*"', r"<svg \1", body, count=1)
    body = re.sub(r'<svg height="[^"]*"', "<svg", body, count=1)
    body = re.sub(r' width="[\d.]+pt"', "", body, count=1)
    return body.replace("<svg ", f'<svg role="img" aria-label="{title}" ', 1)
