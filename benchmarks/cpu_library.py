"""The playbook on the CPU target over the library: one `kagent optimize` a problem, one table.

Each problem gets its own run of the command line, as a user would start it. With --eager the best
kernel is then measured once more, against eager PyTorch, by `kagent eval --against eager`.
Results are appended to a JSON-lines file as they come, so that the benchmark can be spread over
several calls and resumed.

    python benchmarks/cpu_library.py [--minutes 2] [--only rmsnorm,softmax] [--results FILE]
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

KAGENT = str(Path(sys.executable).with_name("kagent"))


def main() -> None:
    options = _options()
    names = options.only.split(",") if options.only else _library()
    done = {row["problem"]: row for row in _read(options.results)}
    for name in names:
        if name in done:
            continue
        print(f"{name} …", file=sys.stderr, flush=True)
        row = _one(name, options)
        done[name] = row
        with options.results.open("a") as file:
            file.write(json.dumps(row) + "\n")
    print(_table([done[name] for name in names if name in done]))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=2.0)
    parser.add_argument("--only", default="", help="names, separated by commas")
    parser.add_argument("--eager", action="store_true", help="measure against eager as well")
    parser.add_argument("--memory", default="off", choices=("on", "off"))
    parser.add_argument(
        "--results", type=Path, default=Path(tempfile.gettempdir()) / "kagent_cpu_library.jsonl"
    )
    return parser.parse_args()


def _library() -> list[str]:
    return [entry["name"] for entry in _kagent("problems", "list", "--json")]


def _one(name: str, options: argparse.Namespace) -> dict[str, Any]:
    started = time.monotonic()
    run = _kagent(
        "optimize", name, "--target", "cpu", "--minutes", f"{options.minutes}",
        "--memory", options.memory, "--json",
    )  # fmt: skip
    row: dict[str, Any] = {
        "problem": name,
        "baseline": run.get("baseline"),
        "best": run["best"],
        "attempts": run["attempts"],
        "first_valid_s": run.get("first_valid_s"),
        "judge": run["judge"],
        "seconds": time.monotonic() - started,
        "status": run["status"],
        "against_eager": None,
    }
    row["eager_over_compiled"] = run.get("eager_over_compiled")
    if run["best"] and options.eager:
        solution = Path(run["best"]["path"])
        verdict = _kagent(
            "eval", name, str(solution), "--target", "cpu", "--against", "eager", "--json"
        )
        row["against_eager"] = verdict["speedup"]
    return row


def _kagent(*arguments: str) -> Any:
    done = subprocess.run(
        [KAGENT, *arguments], capture_output=True, text=True, env=os.environ.copy()
    )
    if done.returncode not in (0, 1) or not done.stdout.strip():
        raise SystemExit(f"kagent {' '.join(arguments)}: {done.returncode}\n{done.stderr}")
    return json.loads(done.stdout)


def _read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def _table(rows: list[dict[str, Any]]) -> str:
    lines = [
        "| problem | baseline | speedup [95 %] | against eager | share of SOL | hidden | attempts "
        "| first valid, s |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        best, judge = row["best"], row["judge"]
        cells = [row["problem"], row["baseline"] or "–"]
        if best:
            interval = f"[{_floor(best['speedup_low'])}, {_floor(best['speedup_high'])}]"
            eager = row["against_eager"]
            cells += [f"{_floor(best['speedup'])}× {interval}"]
            cells += [f"{_floor(eager)}×" if eager is not None else "not measured"]
            share = best["sol_fraction"]
            cells += [f"{int(100 * share)} %" if share is not None else "–"]
        else:
            cells += ["–", "–", "–"]
        cells += [_hidden(judge), str(row["attempts"])]
        first = row["first_valid_s"]
        cells += [f"{first:.1f}" if first is not None else "–"]
        lines.append("| " + " | ".join(cells) + " |")
    won = [row for row in rows if row["best"]]
    if won:
        speedup = _geometric_mean([row["best"]["speedup"] for row in won])
        lines.append(
            f"\n{len(won)} of {len(rows)} problems have a confirmed faster kernel; geometric mean "
            f"over these {_floor(speedup)}× the baseline."
        )
        eager = [row["against_eager"] for row in won if row["against_eager"] is not None]
        if len(eager) == len(won):
            lines.append(f"Against eager: {_floor(_geometric_mean(eager))}×.")
        everywhere = [row["best"]["speedup"] if row["best"] else 1.0 for row in rows]
        lines.append(f"Counting the others as 1: {_floor(_geometric_mean(everywhere))}×.")
    return "\n".join(lines)


def _hidden(judge: dict[str, Any] | None) -> str:
    if judge is None:
        return "–"
    private = judge["private_speedup"]
    return f"{_floor(private)}×" if judge["passed"] and private else "failed"


def _floor(value: float) -> str:
    """Rounded down to two digits."""
    return f"{math.floor(value * 100) / 100:.2f}"


def _geometric_mean(values: list[float]) -> float:
    return math.exp(sum(map(math.log, values)) / len(values))


if __name__ == "__main__":
    main()
