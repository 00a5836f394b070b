"""How FGM depends on C, B and its tolerances: the tables behind its defaults (section 8.4.3 of its paper).

    python benchmarks/fgm_sensitivity.py                            (4096 x 4096 Gaussian set of the paper)
    DASKFS_DATA=... python benchmarks/fgm_sensitivity.py --real     (gisette's recipe and 20 newsgroups as well)
    DASKFS_DATA=... python benchmarks/fgm_sensitivity.py --normalize [SET ...] [--keep rows.jsonl]   (all open sets)

C: accuracy on the test rows (and, where the truth is known, right or probe features) of 50, 100 and 200 features for
C n from 1 to 10,000, beside the default and the one that rows held out choose. B: 200 features, 2 to 100 in a pass.
Tolerances: of the subproblem (inner_tol, the paper's inexact FGM) and of the passes (tol, without a number asked for).
normalize: sets, folds, refit and measures of `quality.py`; mean and standard error of 10, 30 and 100 features, and the
mean difference of "auto" from either with its standard error over the sets. Before there was "auto", True was default.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from fgm_linear import draw
from fgm_real import Fold, folds
from open_sets import SETS, open_set
from quality import SIZES, of_peer, read_rows, refit, sizes_of

from daskfs.selectors.fgm.selector import FGM

C_TIMES_N = (1.0, 10.0, 30.0, 100.0, 300.0, 1000.0, 10_000.0)
COUNTS = (50, 100, 200)
BATCHES = (2, 5, 10, 20, 40, 100)
INNER = (1e-1, 1e-2, 1e-3, 1e-4, 1e-6)
OUTER = (1e-2, 1e-3, 1e-4)
AS_FITTED: dict[str, Any] = {"loss": "squared_hinge", "debias": False}
NORMALIZE = (True, False, "auto", "l1")
SEVERAL_CLASSES = ("khan", "breast tcga", "kddcup99", "news20")
TWO_CLASSES_OR_NUMBERS = [name for name in SETS if name not in SEVERAL_CLASSES]


def described(found: FGM, fold: Fold, support: np.ndarray | None, is_probe: np.ndarray | None) -> str:
    """Return accuracy and what is known of the features."""
    text = f"{found.score(fold[2], fold[3]):.3f}"
    if support is not None:
        text += f", {int(np.isin(found.selected_, support).sum())} right"
    if is_probe is not None:
        text += f", {int(is_probe[found.selected_].sum())} probes"
    return text


def vary_C(name: str, fold: Fold, support: Any, is_probe: Any) -> None:
    """Print the table of C."""
    n = len(fold[1])
    for loss in ("squared_hinge", "logistic"):
        print(f"\n{name}, {loss}: C n\n\n| C n | {' | '.join(map(str, COUNTS))} |\n|---|{'---|' * len(COUNTS)}")
        for value in (*C_TIMES_N, None, "validation"):
            cells, shown = [], ""
            for count in COUNTS:
                found = FGM(count, loss=loss, debias=False, C=value / n if isinstance(value, float) else value).fit(
                    *fold[:2]
                )
                cells.append(described(found, fold, support, is_probe))
                shown = f"{found.C_ * n:g}" if value is None else shown
            label = {None: f"default ({shown})", "validation": "held out"}.get(value, f"{value}")  # type: ignore[call-overload]
            print(f"| {label} | {' | '.join(cells)} |", flush=True)


def vary_batch(name: str, fold: Fold, support: Any, is_probe: Any, C: float | None) -> None:
    """Print the table of B."""
    print(f"\n{name}: B, 200 features, C = {C or 'default'}\n\n| B | accuracy | passes | CPU s |\n|---|---|---|---|")
    for batch in BATCHES:
        started = time.process_time()
        found = FGM(200, loss="squared_hinge", n_features_per_pass=batch, C=C, debias=False).fit(*fold[:2])
        seconds = time.process_time() - started
        print(
            f"| {batch} | {described(found, fold, support, is_probe)} | {found.n_passes_} | {seconds:.2f} |", flush=True
        )


def vary_tolerances(name: str, fold: Fold, support: Any, is_probe: Any, C: float | None) -> None:
    """Print the tables of the tolerances."""
    print(
        f"\n{name}: tolerances, B = 16, C = {C or 'default'}\n\n"
        "| tolerance | features | accuracy | CPU s |\n|---|---|---|---|"
    )
    for key, values in (("inner_tol", INNER), ("tol", OUTER)):
        for value in values:
            wanted = min(320, fold[0].shape[1]) if key == "inner_tol" else None
            started = time.process_time()
            found = FGM(wanted, n_features_per_pass=16, C=C, max_inner=500, **AS_FITTED, **{key: value}).fit(*fold[:2])
            seconds = time.process_time() - started
            cell = described(found, fold, support, is_probe)
            print(f"| {key} = {value:g} | {len(found.selected_)} | {cell} | {seconds:.2f} |", flush=True)


def measured_normalize(names: list[str], keep: Path | None) -> list[dict[str, Any]]:
    """Return a row for each set, fold, number of features and way of dividing columns; those in a file from there."""
    rows = read_rows(keep)
    there = {(row["set"], row["fold"], row["size"], row["normalize"]) for row in rows}
    for name in names:
        data = open_set(name)
        for fold, (train, test) in enumerate(data.folds()):
            for size in sizes_of(data, "fgm", list(SIZES)):
                for normalize in NORMALIZE:
                    if (name, fold, size, str(normalize)) in there or (normalize == "l1" and data.task != "binary"):
                        continue
                    if normalize == "l1":
                        found = of_peer("l1", size, data, train, test)
                        columns = found[0] if found else np.empty(0, int)
                    else:
                        loss = "squared" if data.task == "regression" else "squared_hinge"
                        fitted = FGM(size, loss=loss, normalize=normalize).fit(data.X[train], data.y[train])
                        columns = np.sort(fitted.selected_)
                    score = refit(data, columns, train, test)
                    row = {"set": name, "fold": fold, "size": size, "normalize": str(normalize), "refit": score}
                    rows.append(row)
                    if keep:
                        with keep.open("a") as file:
                            file.write(json.dumps(row) + "\n")
    return rows


def vary_normalize(rows: list[dict[str, Any]]) -> None:
    """Print the table of `normalize`."""
    table = pd.DataFrame(rows).pivot_table(
        index=["set", "size"], columns="normalize", values="refit", aggfunc=["mean", "sem"], sort=False
    )
    ways = [way for way in map(str, NORMALIZE) if way in table["mean"]]
    print(f"\n| set | features | {' | '.join(ways)} |\n|---|---|{'---|' * len(ways)}")
    for (name, size), line in table.iterrows():
        cells = [f"{line['mean', way]:.3f} ± {line['sem', way]:.3f}" for way in ways]
        print(f"| {name} | {size} | {' | '.join(cells)} |")
    others = [way for way in ways if way != "auto"]
    print("\n| features | " + " | ".join(f"auto - {way}" for way in others) + f" |\n|---|{'---|' * len(others)}")
    for size in SIZES:
        mean = table["mean"].xs(size, level="size")
        gains = [(mean["auto"] - mean[way]).dropna() for way in others]
        print(f"| {size} | " + " | ".join(f"{g.mean():+.4f} ± {g.sem():.4f} ({len(g)} sets)" for g in gains) + " |")


def main() -> int:
    """Print all tables, or that of `normalize` alone."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--real", action="store_true")
    parser.add_argument("--normalize", nargs="*", choices=list(SETS), metavar="SET")
    parser.add_argument("--keep", type=Path, help="of --normalize: a file of rows, read first and added to")
    parser.add_argument("--size", default="4096x4096")
    parser.add_argument("--n-informative", type=int, default=300)
    options = parser.parse_args()
    if options.normalize is not None:
        vary_normalize(measured_normalize(options.normalize or TWO_CLASSES_OR_NUMBERS, options.keep))
        return 0
    n_samples, n_features = (int(part) for part in options.size.split("x"))
    *parts, support = draw(n_samples, n_features, options.n_informative, 0)
    gaussian: Fold = (parts[0], parts[1], parts[2], parts[3])
    vary_C("Gaussian", gaussian, support, None)
    vary_batch("Gaussian", gaussian, support, None, 10.0)
    vary_tolerances("Gaussian", gaussian, support, None, 10.0)
    for name in ("gisette_0", "20news_comp_sci", "20news_pc_mac") if options.real else ():
        loaded, is_probe = folds(name)
        vary_C(name, loaded[0], None, is_probe)
        vary_batch(name, loaded[0], None, is_probe, None)
    return 0


if __name__ == "__main__":
    sys.exit(main())
