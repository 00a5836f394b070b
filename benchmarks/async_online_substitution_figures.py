"""Asy-OS simulated: the right columns of figures 1 and 2 of Yang, Fujimaki, Kusumura and Liu (2016), and its stability.

    python benchmarks/async_online_substitution_figures.py figures --figures 1 2 --repeats 30 --output asy_os
    python benchmarks/async_online_substitution_figures.py stability --repeats 5 --output asy_os
    python benchmarks/async_online_substitution_figures.py figures --sizes 200 --n-informative 8 --repeats 1   (small)

Figures: q workers, each of which sees the central prediction as it was q - 1 updates ago, its own update included, one
feature at a time. `improved` is the default (exchange, the central check, 1.5 s places, another worker in the second
epoch, the last choice among what is held); `plain` is the paper's box, s / q places, the same worker, no check, with
the parameter-free steps; `paper` is that with the step of Theorem 2. Beside them the sequential selector.

Stability: blocks of several widths, four epochs, the sequential selector's too, with and without the check. `worst` is
the highest objective of a run in parts of that without features: over 1, it has diverged.

Rows go to results.csv; what stands there is not made again, so that an interrupted run goes on. Ends with 1 where the
default with 20 workers is more than 0.03 of recall behind the sequential selector, or diverges.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from online_substitution_cases import Case, Table, draw, recall_and_error

from daskfs import AsyncOnlineSubstitution, OnlineSubstitution

LOSS = {1: "squared", 2: "squared_hinge"}
SIZES = {1: (4000, 2000, 6000), 2: (3000, 1000, 5000)}
WORKERS = (1, 2, 5, 10, 20)
PLAIN: dict[str, Any] = {"slots": 1.0, "other_worker": False, "check": False}
VARIANTS: dict[str, dict[str, Any]] = {
    "improved": {},
    "plain": {**PLAIN, "rule": "os"},
    "paper": {**PLAIN, "rule": "paper", "step_divisor": 5.0},
}
STRUCTURES = ("independent", "common_factor", "autoregressive")
BLOCKS = {2: (16, 64), 5: (16, 30), 10: (4, 15)}
"""Columns of a block by workers: the wider is about p / 20 q, the most that is recommended."""
BEHIND, HIGHEST = 0.03, 1.0 + 1e-9


def measure(selector: Any, case: Case) -> dict[str, float]:
    """Fit, and return recall, error, CPU seconds and the highest objective in parts of that without features."""
    started = time.process_time()
    selector.fit_matrix(case.train)
    seconds = time.process_time() - started
    recall, error = recall_and_error(selector, case)
    objective = selector.result_.history["objective"].to_numpy()
    y = case.train.target
    null = 0.5 * float(np.var(y)) if selector.loss == "squared" else 0.5
    worst = float(np.nanmax(objective)) / null if len(objective) else 0.0
    return {"recall": recall, "error": error, "seconds": seconds, "worst": worst}


def figures(arguments: argparse.Namespace, table: Table) -> int:
    """Fill the table of the right columns; print it."""
    s = arguments.n_informative
    for figure in arguments.figures:
        for p in arguments.sizes or SIZES[figure]:
            for seed in range(arguments.repeats):
                case = None
                for variant in ("sequential", *arguments.variants):
                    for q in (0,) if variant == "sequential" else WORKERS:
                        place = {"figure": figure, "p": p, "seed": seed, "variant": variant, "q": q}
                        if table.has(**place):
                            continue
                        case = case or draw(p, seed, loss=LOSS[figure], n_informative=s)
                        told = {"n_features_to_select": s, "loss": LOSS[figure], "n_epochs": 2}
                        simulated = {"n_workers": q, "schedule": "simulated", **VARIANTS.get(variant, {})}
                        selector: Any = (
                            AsyncOnlineSubstitution(**told, **simulated) if q else OnlineSubstitution(**told)
                        )
                        with np.errstate(over="ignore", invalid="ignore"):
                            table.add(**place, **measure(selector, case))
    return print_figures(table, arguments.figures)


def print_figures(table: Table, wanted: list[int]) -> int:
    """Print recall and error by workers; return 1 where the default is behind."""
    behind = 0
    for figure in wanted:
        for p in sorted({int(row["p"]) for row in table.rows if row["figure"] == str(figure)}):
            place = {"figure": figure, "p": p}
            found, count = table.mean("recall", **place, q=0)
            print(f"\nfigure {figure}, p = {p:,}: recall / error (data sets); sequential {found:.3f} ({count})")
            print(f"{'workers':<10}" + "".join(f"{q:>20}" for q in WORKERS))
            for variant in VARIANTS:
                line = f"{variant:<10}"
                for q in WORKERS:
                    recall, count = table.mean("recall", **place, variant=variant, q=q)
                    error, _ = table.mean("error", **place, variant=variant, q=q)
                    line += f"     {recall:.3f}/{error:.3f} ({count:2d})" if count else " " * 20
                print(line)
            last, count = table.mean("recall", **place, variant="improved", q=WORKERS[-1])
            behind += bool(count and last < found - BEHIND)
    return 1 if behind else 0


def stability(arguments: argparse.Namespace, table: Table) -> int:
    """Fill the table of correlated designs, workers and block widths; print it."""
    p, s = arguments.n_features, arguments.n_informative
    for seed in range(arguments.repeats):
        for structure in STRUCTURES:
            case = None
            for q, width, checks in _cells():
                place = {"structure": structure, "p": p, "seed": seed, "q": q, "width": width, "check": int(checks)}
                if table.has(**place):
                    continue
                case = case or draw(p, seed, structure=structure, n_informative=s)
                told: dict[str, Any] = {"n_features_to_select": s, "n_epochs": arguments.n_epochs}
                if q:
                    told |= {"n_workers": q, "schedule": "synchronous", "block_columns": width, "check": checks}
                selector: Any = AsyncOnlineSubstitution(**told) if q else OnlineSubstitution(**told)
                with np.errstate(over="ignore", invalid="ignore"):
                    try:
                        found = measure(selector, case)
                    except ValueError:  # numbers too large to be fitted
                        found = {"recall": 0.0, "error": np.nan, "seconds": 0.0, "worst": np.inf}
                table.add(**place, **found)
    return print_stability(table, p)


def _cells() -> list[tuple[int, int, bool]]:
    cells = [(0, 0, True)]
    return cells + [(q, width, checks) for q, widths in BLOCKS.items() for width in widths for checks in (True, False)]


def print_stability(table: Table, p: int) -> int:
    """Print recall, and the highest objective, by design; return 1 where the default diverges or is behind."""
    failed = 0
    print(f"p = {p:,}, synchronous rounds: recall / worst objective in parts of that without features (data sets)")
    for structure in STRUCTURES:
        place = {"structure": structure, "p": p}
        sequential, count = table.mean("recall", **place, q=0)
        print(f"{structure}: sequential {sequential:.3f} ({count})")
        for q, width, checks in _cells()[1:]:
            cell = {**place, "q": q, "width": width, "check": int(checks)}
            recall, count = table.mean("recall", **cell)
            worst = [float(row["worst"]) for row in table.rows if all(row[k] == str(v) for k, v in cell.items())]
            if not count:
                continue
            name = "check" if checks else "none "
            print(f"  q {q:>2} block {width:>3} {name}  {recall:.3f} / {max(worst):.3g} ({count})")
            failed += bool(checks and (max(worst) > HIGHEST or recall < sequential - BEHIND))
    return 1 if failed else 0


def main(argv: list[str] | None = None) -> int:
    """Run what is not there yet, print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("figures", "stability"))
    parser.add_argument("--figures", nargs="+", type=int, default=[1, 2], choices=(1, 2))
    parser.add_argument("--sizes", nargs="+", type=int)
    parser.add_argument("--variants", nargs="+", default=list(VARIANTS), choices=list(VARIANTS))
    parser.add_argument("--n-features", type=int, default=3000)
    parser.add_argument("--n-informative", type=int, default=100)
    parser.add_argument("--n-epochs", type=int, default=4, help="of stability")
    parser.add_argument("--repeats", type=int, default=30)
    parser.add_argument("--output", type=Path, default=Path("asy_os"))
    arguments = parser.parse_args(argv)
    keys = {
        "figures": ("figure", "p", "seed", "variant", "q"),
        "stability": ("structure", "p", "seed", "q", "width", "check"),
    }
    table = Table(arguments.output / f"{arguments.what}.csv", keys[arguments.what])
    return figures(arguments, table) if arguments.what == "figures" else stability(arguments, table)


if __name__ == "__main__":
    sys.exit(main())
