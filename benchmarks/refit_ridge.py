"""What the ridge of a refit and of a selection is worth on open data sets, and what a search costs.

    DASKFS_DATA=... python benchmarks/refit_ridge.py [--sets riboflavin ...] [--counts 10 30] [--search 0 0.15 1]

Columns: those that correlate most with the target (`f`), and those of `OnlineSubstitution` without a ridge (`os 0`) and
with the one that it chooses (`os`). Each is refitted without a ridge, with the chosen ridge for each price of a search
(`daskfs.selectors.shared.ridge.SEARCH`), and with a ridge by scikit-learn's cross-validation on the selected columns.
Mean R² or accuracy on the rows held out, with the standard error of the last; prints a table.
"""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from collections import defaultdict
from collections.abc import Iterator
from functools import partial

import numpy as np
import scipy.sparse
from open_sets import open_set
from sklearn.linear_model import LogisticRegressionCV, RidgeCV

from daskfs import OnlineSubstitution
from daskfs.matrix.arrays import ArrayMatrix
from daskfs.selectors.shared import refit, ridge
from daskfs.selectors.shared.run import Run

SOME = ("riboflavin", "maize", "mice", "alon", "golub", "gravier", "arcene", "pcmac", "higgs h2o", "a9a")
PENALTIES = np.logspace(-4, 3, 15)


def selections(X: np.ndarray, y: np.ndarray, k: int, loss: str) -> Iterator[tuple[str, np.ndarray]]:
    """Yield the columns that each method selects."""
    Z, z = X - X.mean(axis=0), y - y.mean()
    size = np.sqrt(np.maximum((Z**2).sum(axis=0), 1e-12))
    yield "f", np.argsort(-np.abs(Z.T @ z) / size)[:k]
    for name, given in (("os 0", 0.0 if loss == "squared" else 1e-4), ("os", None)):
        yield name, OnlineSubstitution(k, loss=loss, ridge=given).fit(X, y).selected_


def refits(X: np.ndarray, y: np.ndarray, p: int, loss: str, searches: list[float], T: np.ndarray) -> list[np.ndarray]:
    """Return the predictions of each refit on the test rows."""
    found = []
    for search in (None, *searches):
        refit.Effort = partial(ridge.Effort, search=search or 0.0)  # type: ignore[misc,assignment]
        settings = refit.MeanLoss(loss, None if loss == "squared" else 1.0, ridge=0.0 if search is None else None)
        columns = np.arange(X.shape[1])
        fit = refit.refit_selected(Run(ArrayMatrix(X, y), "refit"), columns, settings, n_candidates=p)
        found.append(T @ fit.coef + fit.intercept)
    refit.Effort = ridge.Effort  # type: ignore[misc]
    mean, scale = X.mean(axis=0), np.where(X.std(axis=0) > 0.0, X.std(axis=0), 1.0)
    if loss == "squared":
        model = RidgeCV(PENALTIES * len(y), cv=5).fit((X - mean) / scale, y)
        return [*found, model.predict((T - mean) / scale)]
    grid = LogisticRegressionCV(Cs=PENALTIES[::2], cv=5, scoring="neg_log_loss").fit((X - mean) / scale, y)
    return [*found, grid.decision_function((T - mean) / scale)]


def main(argv: list[str] | None = None) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", nargs="+", default=list(SOME))
    parser.add_argument("--counts", nargs="+", type=int, default=[10, 30, 100])
    parser.add_argument("--search", nargs="+", type=float, default=[ridge.SEARCH])
    arguments = parser.parse_args(argv)
    if "DASKFS_DATA" not in os.environ:
        print("set DASKFS_DATA to the folder of the data sets", file=sys.stderr)
        return 2
    warnings.simplefilter("ignore")
    heads = ["none", *(f"chosen, {search:g}" for search in arguments.search), "cross-validated", "SE"]
    print(f"| set | columns | s | {' | '.join(heads)} |\n|{'---|' * (3 + len(heads))}")
    for name in arguments.sets:
        data = open_set(name)
        X = data.X.toarray() if scipy.sparse.issparse(data.X) else data.X
        X, y, rows = np.asarray(X, dtype=float), np.asarray(data.y, dtype=float), defaultdict(list)
        loss = "squared" if data.task == "regression" else "logistic"
        if loss == "logistic":
            y = np.where(y == np.bincount(y.astype(int)).argmax(), 1.0, -1.0)  # of several, the most frequent
        for train, test in data.folds():
            for k in (k for k in arguments.counts if k <= X.shape[1] // 2):
                for method, columns in selections(X[train], y[train], k, loss):
                    of_columns = np.ix_(train, columns), np.ix_(test, columns)
                    found = refits(X[of_columns[0]], y[train], X.shape[1], loss, arguments.search, X[of_columns[1]])
                    rows[method, k].append([_score(y[test], z, y[train].mean(), loss) for z in found])
        for (method, k), scores in sorted(rows.items()):
            error = np.std([line[-1] for line in scores], ddof=1) / np.sqrt(len(scores))
            shown = " | ".join(f"{value:.3f}" for value in (*np.mean(scores, axis=0), error))
            print(f"| {name} | {method} | {k} | {shown} |", flush=True)
    return 0


def _score(y: np.ndarray, z: np.ndarray, mean: float, loss: str) -> float:
    if loss == "squared":
        return float(1.0 - ((z - y) ** 2).sum() / ((y - mean) ** 2).sum())
    return float(((z > 0.0) == (y > 0.0)).mean())


if __name__ == "__main__":
    sys.exit(main())
