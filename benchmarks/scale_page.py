"""The page docs/scale.md, from the records of `benchmarks.scale`: ``python -m benchmarks.scale page``."""

from __future__ import annotations

import heapq
import math
import textwrap
from collections import Counter
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from daskfs.pipeline.cost import SHARED, Machine, StepCost, cost_of_step, shown_s
from daskfs.selectors.shared.work import Work

PAGE = Path(__file__).resolve().parents[1] / "docs" / "scale.md"
WORKERS = 1, 10, 100, 1000
Record: TypeAlias = dict[str, Any]


def page(records: Sequence[Record]) -> str:
    """Return the text of the page."""
    runs = [one for one in records if one["kind"] == "run"]
    plans = [one for one in records if one["kind"] == "plan"]
    constants = next(one for one in records if one["kind"] == "constants")
    cluster = next(one for one in records if one["kind"] == "cluster")
    parts = [
        INTRODUCTION,
        _measured(records, runs),
        MODEL,
        _errors(runs, constants),
        _predictions(plans, runs, constants, cluster),
        _memory(plans),
        _asy_os(records),
        FAILURES,
    ]
    return "\n\n".join(_filled(block) for part in parts for block in part.strip().split("\n\n")) + "\n"


def _filled(block: str) -> str:
    """Return a paragraph with lines of at most 120 characters; tables, lists, formulas and pictures as they are."""
    if block.startswith(("|", "* ", "$$", "<", "#")):
        return block
    return textwrap.fill(block, 120, break_long_words=False, break_on_hyphens=False)


def _shown(seconds: float) -> str:
    """Return a time; more than two years in years."""
    years = seconds / (365.25 * 86_400)
    return f"{years:,.0f} years" if years >= 2 else shown_s(seconds)


INTRODUCTION = """
<!-- Written by `python -m benchmarks.scale page` from benchmarks/records/scale.jsonl. Do not edit. -->

# Scale

How long would a selection from 10⁹ rows × 10⁶ columns take, on 1 to 1,000 workers? Nothing of this size was run. This
page measures runs that fit on one machine, fits a cost model to them, checks the model on runs three times larger,
and applies it to the large problem. The last part simulates Asy-OS with up to 64 workers.

To forecast your own run, use [`daskfs plan --on`](hpc.md#what-would-a-run-take-on-another-cluster).
"""

MODEL = """
## The model

The plan of a method counts its operations before it reads any data: values decoded, products with selected columns,
candidates scored, values in the refit, tasks, requests and passes. One core needs $a_u$ seconds for an operation of
kind $u$. With $n_u$ operations in the tasks, $m_u$ in the client process, and $c$ cores, a step takes

$$
T = \\max\\Big(\\frac{1}{k} \\sum_u a_u n_u,\\; \\frac{R\\,\\ell}{k\\,h},\\; N t\\Big) + \\sum_u a_u m_u + P r,
\\qquad k = \\min(c, \\text{tasks of a pass}),
$$

where $R$ is the number of requests to the store, $\\ell$ their latency (0 here: a local disk), $h$ the number of
concurrent requests, $N$ the number of tasks, $t$ the seconds of the scheduler for one task, $P$ the number of passes
and $r$ the seconds between two passes.

The $a_u$ minimise the sum of squared relative errors of all runs, with $a_u \\ge 0$ (`scipy.optimize.nnls`). So a run
of 30 ms counts as much as one of 10 s. Reading and the refit have the same constants in all methods.
"""

FAILURES = """
## When the model fails

* **It extrapolates far.** The largest measured run has 10⁷ to 10⁸ values; the predictions are for 10¹⁵. The intervals
  contain the error at three times the size. They cannot contain an effect that appears only at a larger size.
* **Fits stop earlier than planned.** Plans assume the maximum number of passes. A fit that converges earlier takes
  less time.
* **Steps that depend on the data** are not counted: Newton steps, steps of FGM's inner problems, groups with
  unforeseen columns.
* **Caches.** Vectors over the rows exceed the processor's caches above some 10⁵ rows, and random access to them
  becomes slower. Runs of both kinds were fitted, so the constants are averages.
* **The cluster's own costs** are left out: starting jobs, waiting in a queue, stragglers, lost workers, a shared file
  system or network that is slower than the cores. Measure one step on a few nodes and compare it with the forecast.
* **Other processes were running** while these runs were measured (see the load above). CPU seconds of the same run
  then vary by up to a third.
* **Memory is a separate limit.** Some of these runs need a client with more memory than machines have.
"""


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(row) + " |" for row in (head, ["---"] * len(head), *rows)]
    return "\n".join(lines).replace("| --- ", "|---").replace("|--- |", "|---|").replace("---|", "---|")


# What was measured


def _measured(records: Sequence[Record], runs: Sequence[Record]) -> str:
    dates, commits = sorted({one["date"] for one in records}), sorted({one["commit"] for one in records})
    loads = [one["load"] for one in records]
    versions = records[0]["versions"]
    fit, larger = ([run for run in runs if (run["role"] == "fit") == is_fit] for is_fit in (True, False))
    sizes = [math.prod(run["shape"]) for run in runs if "sparse" not in run["job"]]
    return f"""## What was measured

| | |
|---|---|
| date | {" to ".join(dict.fromkeys((dates[0], dates[-1])))} |
| commit | {", ".join(f"`{commit}`" for commit in commits)} |
| machine | {", ".join(sorted({one["machine"] for one in records}))}; load {min(loads):.0f} to {max(loads):.0f} |
| versions | {", ".join(f"{name} {version}" for name, version in versions.items())} |
| runs | {len(fit)} to fit to, and {len(larger)} with three times the rows, columns, selected features or subsets |
| sizes | dense: {_power(min(sizes))} to {_power(max(sizes))} float32 values; sparse: 30 entries a row |
| clock | CPU seconds of one process; the least of two that agree to 5 %, or of four |

Data are Gaussian with ten true features. Every record is a line of `benchmarks/records/scale.jsonl`."""


def _power(value: float) -> str:
    exponent = math.floor(math.log10(value))
    return f"{value / 10**exponent:.1f} × 10{str(exponent).translate(str.maketrans('0123456789', '⁰¹²³⁴⁵⁶⁷⁸⁹'))}"


# The error on held-out sizes


def _predicted(counts: Mapping[str, float], work_s: Mapping[str, float]) -> float:
    return sum(work_s.get(unit, 0.0) * count for unit, count in counts.items())


def _ratios(runs: Sequence[Record], constants: Record) -> list[float]:
    """Return measured / predicted of the larger runs, by constants that were fitted to the smaller ones."""
    larger = [run for run in runs if run["role"] != "fit"]
    return [run["seconds"] / _predicted(run["counts"], constants["of_role_fit"]) for run in larger]


def _percent(errors: Sequence[float]) -> str:
    low, high = f"{100 * min(errors):+.0f}", f"{100 * max(errors):+.0f}"
    return f"{low} %" if low == high else f"{low} to {high} %"


def _named(run: Record) -> str:
    """Return a run in words."""
    settings = ", ".join(f"`{name}={value!r}`" for name, value in run["settings"].items())
    return f"{run['job']}, {run['shape'][0]:,} × {run['shape'][1]:,}, {settings}"


def _errors(runs: Sequence[Record], constants: Record) -> str:
    work_s, rows = constants["of_role_fit"], []
    for job in dict.fromkeys(run["job"] for run in runs):
        its = [run for run in runs if run["job"] == job]

        def errors(role: str, counts: str, its: list[Record] = its) -> list[float]:
            chosen = [run for run in its if (run["role"] == "fit") == (role == "fit")]
            return [_predicted(run[counts], work_s) / run["seconds"] - 1.0 for run in chosen]

        cells = [errors("fit", "counts"), errors("larger", "counts"), errors("larger", "planned_counts")]
        rows.append([job, str(len(cells[0])), *(_percent(one) if one else "not measured" for one in cells)])
    ratios = np.array(_ratios(runs, constants))
    within = [int((np.abs(1 / ratios - 1) <= limit).sum()) for limit in (0.2, 0.5)]
    head = ["method", "runs", "error, fitted", "error, 3 × larger", "the same, as planned"]
    larger = [run for run in runs if run["role"] != "fit"]
    worst = max(larger, key=lambda run: abs(math.log(run["seconds"] / _predicted(run["counts"], work_s))))
    points = [(_predicted(run["counts"], work_s), run["seconds"], run["role"] != "fit") for run in runs]
    return f"""## The error on held-out sizes

The model of this section is fitted to the smaller runs only. The error is predicted / measured − 1. "As planned" has
the maximum number of passes; the other columns have the passes that were made.

{_table(head, rows)}

Of {len(ratios)} larger runs, {within[0]} are predicted within 20 % and {within[1]} within 50 %. The worst is
{_percent([_predicted(worst["counts"], work_s) / worst["seconds"] - 1.0])}: {_named(worst)}.

{_scatter(points)}"""


# Predictions


def _cost(plan: Record, n_workers: int, machine: Machine) -> StepCost:
    n_tasks = int(max(plan["n_tasks"], min(plan["read_nbytes"] // 2**26, 64_000 * plan["n_passes"])))
    work = None
    if plan["by_tasks"] is not None:
        work = Work(plan["by_tasks"], plan["in_client"], plan["n_at_once"] or math.inf)
    return cost_of_step(
        plan["method"], plan["read_nbytes"], plan["n_passes"], n_tasks, n_workers, machine, work=work
    )  # fmt: skip


def _machine(work_s: Mapping[str, float], cluster: Record, plans: Sequence[Record]) -> Machine:
    """Return a machine; operations that no run had take no time."""
    units = {
        f"{plan['method']}: {unit}" for plan in plans for unit in {**(plan["by_tasks"] or {}), **plan["in_client"]}
    }
    whole = {**dict.fromkeys([*units, *SHARED, "ingest", "other"], 0.0), **work_s}
    parts = {name: cluster[name] for name in ("task_s", "n_ahead", "round_trip_s")}
    return Machine(whole, **parts)


def _shares(plan: Record, work_s: Mapping[str, float]) -> str:
    counts = plan["by_tasks"] or {"ingest": plan["read_nbytes"] / 4, "values read": plan["read_nbytes"] / 4}
    spent: Counter[str] = Counter()
    for part, where in ((counts, ""), (plan["in_client"], " (client)")):
        for unit, count in part.items():
            name = unit if unit in SHARED or unit == "ingest" else f"{plan['method']}: {unit}"
            spent[unit + where] += work_s.get(name, 0.0) * count
    total = sum(spent.values())
    return ", ".join(
        f"{unit} {seconds / total:.0%}" for unit, seconds in spent.most_common(2) if seconds > 0.01 * total
    )


BOUNDS = {
    "cores": "cores",
    "tasks": "too few tasks for the cores",
    "scheduler": "scheduler",
    "client": "client process",
    "requests": "requests",
}


def _predictions(plans: Sequence[Record], runs: Sequence[Record], constants: Record, cluster: Record) -> str:
    machine = _machine(constants["work_s"], cluster, plans)
    others = [_machine(work_s, cluster, plans) for work_s in constants["bootstrap"]]
    ratios = np.array(_ratios(runs, constants))
    rows, causes, lines = [], [], {}
    for plan in plans:
        costs, cells = [_cost(plan, n, machine) for n in WORKERS], []
        for n, cost in zip(WORKERS, costs, strict=True):
            spread = np.outer([_cost(plan, n, other).seconds for other in others], ratios)
            low, high = np.quantile(spread, [0.05, 0.95])
            cells.append(f"{_shown(cost.seconds)} ({_shown(low)} – {_shown(high)})")
        rows.append([plan["name"], *cells])
        causes.append([plan["name"], *(BOUNDS[cost.bound] for cost in costs), _shares(plan, constants["work_s"])])
        lines[plan["name"]] = [(n, cost.seconds) for n, cost in zip(WORKERS, costs, strict=True)]
    heads = [f"{n:,} worker{'s' * (n > 1)}" for n in WORKERS]
    at_most = 1 / cluster["task_s"]
    return f"""## Predictions for 10⁹ rows × 10⁶ columns

A worker is one core. The constants are fitted to all runs. In brackets: from the 5 % to the 95 % quantile of the
predictions by {len(others)} bootstrap samples of the runs, times the ratios measured / predicted of the {len(ratios)}
larger runs. The interval is the error that was seen at three times the size, and no guarantee at 10⁷ times.

{_table(["job", *heads], rows)}

Asy-OS with 1,000 workers holds 1,000 columns; the other selectors select 20. "10^14 products" is FGM on all pairs of
14 million sparse columns, of which only the products that occur in the rows are visited.

{_loglog(lines, "workers", "seconds", "Predicted time by number of workers")}

## What dominates where

The bottleneck by number of workers, and the operations that take most of the cores' time:

{_table(["job", *heads, "most core seconds"], causes)}

"Too few tasks" means that a pass has fewer parts than there are cores; more cores do not help. The scheduler with the
client handles about {at_most:,.0f} tasks per second ({1e3 * cluster["task_s"]:.1f} ms each, measured with 50 workers
that do nothing). Operations that always occur together in the runs cannot be separated; then their shares are as the
fit divides them. Narrow tiles (32,768 × 32) help methods that read columns, because a block of columns then decodes
few values that it does not need."""


def _memory(plans: Sequence[Record]) -> str:
    rows = []
    for plan in plans:
        if plan["client"]:
            cells = [
                f"{plan[who][0] / 1e9:,.1f} | {plan[who][1]}, {plan[who][2] / 1e9:,.1f}" for who in ("client", "worker")
            ]
            rows.append([plan["name"], *cells])
    head = ["job", "client, GB", "largest term", "each worker, GB", "largest term"]
    return f"""## Memory

What the plans count with 1,000 workers, including the processes themselves. These are bytes by formula, not estimates.

{_table(head, rows)}"""


# Asy-OS

MANY = 1, 2, 4, 8, 16, 32, 64
SIMULATED = (10**4, 2**16), (10**5, 2**16), (10**6, 2**16), (10**5, 2**20), (10**6, 2**20), (10**7, 2**20)


def simulated(n: int, p: int, s: int, q: int, messages: Record, columns: Record) -> tuple[float, float, float]:
    """Return the seconds of two epochs of Asy-OS, the share in which the central node is busy, and the mean staleness.

    Each worker computes on a block of columns, sends n numbers, and waits for n numbers. The central node answers one
    message at a time, in the order of arrival.
    """
    sizes = [int(size) for size in messages["trip_s"]]

    def seconds_of(name: str) -> float:
        measured = list(messages[name].values())
        return float(np.interp(n, sizes, measured)) * max(1.0, n / sizes[-1])  # longer ones are in proportion

    trip, service = seconds_of("trip_s"), seconds_of("node_s")
    held = s if q == 1 else 1.5 * s / q
    column = n * (held * columns["of_each_held_s"] + columns["of_a_column_s"])
    width = max(1, int(min(max(10.0 * trip / column, 1.0), max(1.0, p / (20 * q)))))
    n_blocks = -(-2 * p // width)
    # Half of a round trip is the work of the central node's process: it decodes a message and encodes the answer.
    arrivals = [(width * column + 0.5 * trip, worker) for worker in range(q)]
    heapq.heapify(arrivals)
    free, busy, stale, read_at = 0.0, 0.0, 0, [0] * q
    for version in range(1, n_blocks + 1):
        arrived, worker = heapq.heappop(arrivals)
        free = max(arrived, free) + service + 0.5 * trip
        busy += service + 0.5 * trip
        stale += version - 1 - read_at[worker]
        read_at[worker] = version
        heapq.heappush(arrivals, (free + width * column + 0.5 * trip, worker))
    return free, busy / free, stale / n_blocks


def _asy_os(records: Sequence[Record]) -> str:
    messages, columns, real = (
        next(one for one in records if one["kind"] == "asy-os" and one["what"] == what)
        for what in ("messages", "columns", "workers")
    )
    s, rows, speed_ups = 64, [], {}
    for n, p in SIMULATED:
        found = [simulated(n, p, s, q, messages, columns) for q in MANY]
        best = min(range(len(MANY)), key=lambda k, found=found: found[k][0])
        cells = [f"{_shown(seconds)}{' *' if busy > 0.9 else ''}" for seconds, busy, _ in found]
        cells[best] = f"**{cells[best]}**"
        shape = f"{n:,} × {p:,}"
        rows.append([shape, *cells, f"{found[-1][2]:.0f}"])
        speed_ups[shape] = [(q, found[0][0] / seconds) for q, (seconds, _, _) in zip(MANY, found, strict=True)]
    runs = [one for one in records if one["kind"] == "simulated"]
    quality = []
    for design in dict.fromkeys(one["design"] for one in runs):
        its = [one for one in runs if one["design"] == design]
        for name, what in (("recall", "recall"), ("residual", "squared error / variance")):
            cells = [f"{np.mean([one[name][str(q)] for one in its]):.3f}" for q in (0, *MANY)]
            quality.append([f"{design}, {what}", *cells])
    n_seeds = len({one["seed"] for one in runs})
    expected = {
        q: simulated(real["n_samples"], real["n_features"], real["s"], int(q), messages, columns)[0] for q in "12"
    }
    said = "; ".join(
        f"{q} worker{'s' * (q == '2')}: {real['seconds'][q]:.2f} s measured, {expected[q]:.2f} s simulated"
        for q in "12"
    )
    trips = ", ".join(f"{1e3 * seconds:.1f} ms for n = {int(n):,}" for n, seconds in messages["trip_s"].items())
    heads = [f"q = {q}" for q in MANY]
    return f"""## Asy-OS with up to 64 workers

**Time.** An event simulation: each of q workers computes on a block of columns, sends n numbers to the central node,
and waits for its answer; the node answers one message at a time. The durations were measured here: a round trip takes
{trips}; a column takes {1e9 * columns["of_a_column_s"]:.2f} ns per row, and {1e9 * columns["of_each_held_s"]:.3f} ns
more per row and column held. {s} columns are selected in two epochs. Bold: the fastest. An asterisk: the central node
is busy for more than 90 % of the time, and more workers do not help.

{_table(["data", *heads, "mean staleness, q = 64"], rows)}

{_loglog(speed_ups, "workers", "times faster than one worker", "Simulated speed-up of Asy-OS")}

Two workers are more than twice as fast as one, because each holds fewer columns: all workers together hold 1.5 × {s},
and a column costs a product with each column held. Then messages limit. As in daskfs, a block is so wide that
messages take less than a tenth of the time, but a worker has at least 20 blocks per epoch. With many workers and few
columns blocks become narrow, and the central node answers more messages than one process can.

Real runs of two epochs on this machine ({real["n_samples"]:,} × {real["n_features"]:,}, two cores, load
{real["load"]:.0f}): {said}. With a load above the number of cores, wall time says little about speed-up; and the
simulation leaves out reading, exchanges and start.

**Quality.** Workers compute with a copy of the prediction that is up to q − 1 updates old. `schedule="simulated"`
gives exactly this staleness in one process. 1,000 rows × 1,000 columns, 64 true features, two epochs, means of
{n_seeds} data sets; the first column is the sequential selector. "Correlated 0.7": each column has this correlation
with the one before it.

{_table(["", "sequential", *heads], quality)}

With 64 workers for {s} features each worker holds one or two columns and sees little of the others. Compare the
objective with that of `OnlineSubstitution` on a part of the rows before you use so many."""


# Pictures

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 700, 360, 70, 250, 14, 46
DASHES = "none", "8 3", "2 3", "10 3 2 3", "5 5", "14 4", "1 5", "6 2 2 2 2 2"


def _axes(xs: Sequence[float], ys: Sequence[float], x_name: str, y_name: str, right: int) -> tuple[Any, Any, list[str]]:
    """Return the scales of two logarithmic axes, and their shapes."""
    low, high = ([math.log10(function(values)) for values in (xs, ys)] for function in (min, max))
    low[1], high[1] = low[1] - 0.1, high[1] + 0.1

    def x_of(value: float) -> float:
        return LEFT + (math.log10(value) - low[0]) / (high[0] - low[0]) * (WIDTH - LEFT - right)

    def y_of(value: float) -> float:
        return HEIGHT - BOTTOM - (math.log10(value) - low[1]) / (high[1] - low[1]) * (HEIGHT - TOP - BOTTOM)

    shapes = [
        f'<path d="M{LEFT} {TOP} V{HEIGHT - BOTTOM} H{WIDTH - right}" fill="none" stroke="currentColor"/>',
        _text((LEFT + WIDTH - right) / 2, HEIGHT - 8, x_name, "middle"),
        f'<g transform="rotate(-90 14 {HEIGHT / 2:g})">{_text(14, HEIGHT / 2, y_name, "middle")}</g>',
    ]
    for k in range(math.ceil(low[0]), math.floor(high[0]) + 1):
        shapes.append(_text(x_of(10.0**k), HEIGHT - BOTTOM + 16, f"{10.0**k:,g}", "middle"))
    for k in range(math.ceil(low[1]), math.floor(high[1]) + 1):
        shapes.append(_text(LEFT - 6, y_of(10.0**k) + 4, f"{10.0**k:,g}", "end"))
        line = f'<path d="M{LEFT} {y_of(10.0**k):.1f} H{WIDTH - right}" stroke="currentColor" stroke-opacity="0.15"/>'
        shapes.append(line)
    return x_of, y_of, shapes


def _text(x: float, y: float, words: str, anchor: str) -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"'
    return f'<text {place} font-size="12" fill="currentColor">{escape(words)}</text>'


def _figure(shapes: Sequence[str], title: str, words: str) -> str:
    label = escape(f"{title}. {words}")
    return (
        f'<figure class="picture"><svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{label}" '
        f'font-family="system-ui, sans-serif">{"".join(shapes)}</svg><figcaption>{escape(title)}</figcaption></figure>'
    )


def _loglog(lines: Mapping[str, Sequence[tuple[float, float]]], x_name: str, y_name: str, title: str) -> str:
    """Return lines on logarithmic axes, with their names at the right end."""
    xs, ys = ([point[k] for line in lines.values() for point in line] for k in (0, 1))
    x_of, y_of, shapes = _axes(xs, ys, x_name, y_name, RIGHT)
    heights = sorted((y_of(line[-1][1]), name) for name, line in lines.items())
    place, last = {}, -math.inf
    for height, name in heights:
        last = place[name] = max(height, last + 14)
    beyond = max(0.0, last - (HEIGHT - BOTTOM))
    for dash, (name, line) in zip(DASHES * len(lines), lines.items(), strict=False):
        path = " L".join(f"{x_of(x):.1f} {y_of(y):.1f}" for x, y in line)
        end = y_of(line[-1][1])
        shapes += [
            f'<path d="M{path}" fill="none" stroke="currentColor" stroke-width="1.6" stroke-dasharray="{dash}"/>',
            f'<path d="M{WIDTH - RIGHT + 2} {end:.1f} L{WIDTH - RIGHT + 10} {place[name] - beyond:.1f}" '
            'stroke="currentColor" stroke-opacity="0.4"/>',
            _text(WIDTH - RIGHT + 12, place[name] - beyond + 4, name if len(name) <= 38 else f"{name[:37]}…", "start"),
        ]
    words = "; ".join(f"{name}: {line[0][1]:.3g} to {line[-1][1]:.3g}" for name, line in lines.items())
    return _figure(shapes, title, f"{y_name} by {x_name}. {words}")


def _scatter(points: Sequence[tuple[float, float, bool]]) -> str:
    """Return measured seconds by predicted ones; runs that were not fitted are filled."""
    both = [value for point in points for value in point[:2]]
    x_of, y_of, shapes = _axes(both, both, "predicted, CPU seconds", "measured, CPU seconds", 40)
    low, high = min(both), max(both)
    ends = f"M{x_of(low):.1f} {y_of(low):.1f} L{x_of(high):.1f} {y_of(high):.1f}"
    shapes.append(f'<path d="{ends}" stroke="currentColor" stroke-dasharray="4 4"/>')
    for x, y, is_larger in points:
        fill = "currentColor" if is_larger else "none"
        shapes.append(f'<circle cx="{x_of(x):.1f}" cy="{y_of(y):.1f}" r="3.5" fill="{fill}" stroke="currentColor"/>')
    title = "Measured and predicted time. Hollow: fitted; filled: three times larger; line: equal"
    return _figure(shapes, title, f"{len(points)} runs from {low:.2g} to {high:.2g} seconds.")
