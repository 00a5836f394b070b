"""How FGM depends on C, B and its tolerances: the tables behind its defaults (section 8.4.3 of its paper).

    python benchmarks/fgm_sensitivity.py                            (4096 x 4096 Gaussian set of the paper)
    DASKFS_DATA=... python benchmarks/fgm_sensitivity.py --real     (gisette's recipe and 20 newsgroups as well)

C: accuracy on the test rows (and, where the truth is known, right or probe features) of 50, 100 and 200 features for
C n from 1 to 10,000, beside the default and the one that rows held out choose. B: 200 features, 2 to 100 in a pass.
Tolerances: of the subproblem (inner_tol, the paper's inexact FGM) and of the passes (tol, without a number asked for).
"""

from __future__ import annotations

import argparse
import sys
import time
from typing import Any

import numpy as np
from fgm_linear import draw
from fgm_real import Fold, folds

from daskfs.selectors.fgm.selector import FGM

C_TIMES_N = (1.0, 10.0, 30.0, 100.0, 300.0, 1000.0, 10_000.0)
COUNTS = (50, 100, 200)
BATCHES = (2, 5, 10, 20, 40, 100)
INNER = (1e-1, 1e-2, 1e-3, 1e-4, 1e-6)
OUTER = (1e-2, 1e-3, 1e-4)


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
                found = FGM(count, loss=loss, C=value / n if isinstance(value, float) else value).fit(*fold[:2])
                cells.append(described(found, fold, support, is_probe))
                shown = f"{found.C_ * n:g}" if value is None else shown
            label = {None: f"default ({shown})", "validation": "held out"}.get(value, f"{value}")  # type: ignore[call-overload]
            print(f"| {label} | {' | '.join(cells)} |", flush=True)


def vary_batch(name: str, fold: Fold, support: Any, is_probe: Any, C: float | None) -> None:
    """Print the table of B."""
    print(f"\n{name}: B, 200 features, C = {C or 'default'}\n\n| B | accuracy | passes | CPU s |\n|---|---|---|---|")
    for batch in BATCHES:
        started = time.process_time()
        found = FGM(200, n_features_per_pass=batch, C=C).fit(*fold[:2])
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
            found = FGM(wanted, n_features_per_pass=16, C=C, max_inner=500, **{key: value}).fit(*fold[:2])
            seconds = time.process_time() - started
            cell = described(found, fold, support, is_probe)
            print(f"| {key} = {value:g} | {len(found.selected_)} | {cell} | {seconds:.2f} |", flush=True)


def main() -> int:
    """Print all tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--real", action="store_true")
    parser.add_argument("--size", default="4096x4096")
    parser.add_argument("--n-informative", type=int, default=300)
    options = parser.parse_args()
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
