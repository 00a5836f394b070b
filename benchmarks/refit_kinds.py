"""What `refit: ols | ridge | elastic` is worth beside a selector's own coefficients, on the open data sets.

    DASKFS_DATA=... python benchmarks/refit_kinds.py [--sets riboflavin ...] [--methods FGM ...] [--count 30]

Each selector is fitted once to the rows of a fold for fitting; its selection is then refitted each way on these rows.
R² or accuracy on the rows held out: of its own coefficients, and what each refit changes it by, mean and standard error
over the folds. ``<`` marks a loss, ``>`` a gain of more than a standard error. Prints a table.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import warnings

import numpy as np
import scipy.sparse
from open_sets import SETS, open_set

import daskfs
from daskfs.matrix.arrays import ArrayMatrix
from daskfs.selectors.resulting import PENALTIES
from daskfs.selectors.shared.run import Run

METHODS = ("FGM", "OnlineSubstitution", "Mission", "Message")


def main(argv: list[str] | None = None) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", nargs="+", default=list(SETS))
    parser.add_argument("--methods", nargs="+", default=list(METHODS))
    parser.add_argument("--count", type=int, default=30)
    arguments = parser.parse_args(argv)
    if "DASKFS_DATA" not in os.environ:
        print("set DASKFS_DATA to the folder of the data sets", file=sys.stderr)
        return 2
    warnings.simplefilter("ignore")
    print(f"| set | method | features | own | {' | '.join(PENALTIES)} | CPU s |\n|{'---|' * (5 + len(PENALTIES))}")
    for name in arguments.sets:
        data = open_set(name)
        X = data.X.astype(np.float64)
        y = np.asarray(data.y, dtype=np.float64 if data.task == "regression" else np.int64)
        count = min(arguments.count, X.shape[1] // 2)
        for method in arguments.methods:
            begun, scores, sizes = time.process_time(), [], []
            for train, test in data.folds():
                options = {} if method == "Message" else {"n_features_to_select": count}
                loss = "squared" if data.task == "regression" else "logistic"
                if method in ("Message", "Mission") and data.task == "classes":
                    loss = "multinomial"
                selector = getattr(daskfs, method)(loss=loss, **options)
                try:
                    selector.fit(X[train], y[train])
                except daskfs.errors.DaskfsError as fault:
                    print(f"| {name} | {method} | {type(fault).__name__} |", flush=True)
                    break
                known = X[train].toarray() if scipy.sparse.issparse(X) else X[train]
                run = Run(ArrayMatrix(known, y[train]), "refit")
                sizes.append(len(selector.selected_))
                refitted = [selector.with_refit(run, by)[0] for by in PENALTIES if sizes[-1]] or [selector] * 3
                scores.append([one.score(X[test], y[test]) for one in (selector, *refitted)])
            else:
                print(
                    _line(name, method, float(np.mean(sizes)), np.array(scores), time.process_time() - begun),
                    flush=True,
                )
    return 0


def _line(name: str, method: str, size: float, scores: np.ndarray, seconds: float) -> str:
    changes = scores[:, 1:] - scores[:, :1]
    error = changes.std(axis=0, ddof=1) / np.sqrt(len(changes))
    own_error = scores[:, 0].std(ddof=1) / np.sqrt(len(scores))
    cells = []
    for change, spread in zip(changes.mean(axis=0), error, strict=True):
        mark = "" if abs(change) <= max(spread, 5e-4) else " <" if change < 0.0 else " >"
        cells.append(f"{change:+.3f} ± {spread:.3f}{mark}")
    own = f"{scores[:, 0].mean():.3f} ± {own_error:.3f}"
    return f"| {name} | {method} | {size:.0f} | {own} | {' | '.join(cells)} | {seconds:.1f} |"


if __name__ == "__main__":
    sys.exit(main())
