"""FGM with maps of single variables beside the linear one, and gradient boosted trees: test error, CPU seconds.

    DASKFS_DATA=... python benchmarks/fgm_maps.py [--only magic pcmac] [--counts 10 50 200]

Data and folds are those of `open_sets.py`: texts as tf-idf, tables with categories as dummies. Every method gets the
same columns and the same number of variables to select (all of them, where there are fewer); trees get all columns,
sparse ones the 2,000 of the largest variance, for they take dense ones alone. Numbers are means over the folds of the
accuracy (R² where the target is a number); CPU seconds are those of the fit alone, kernels compiled before.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse
from open_sets import OpenSet, open_set
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

from daskfs import FGM
from daskfs.errors import DataError
from daskfs.feature_maps import AdditiveChi2, AdditiveGaussian, HistogramIntersection, Splines

COUNTS = (10, 50, 200)
SETS = (
    "20news pc v mac", "pcmac", "basehock", "relathe", "rtpolarity", "smsspam", "aclimdb", "rcv1",
    "magic", "skin", "adult", "higgs h2o", "mnist 3v8", "golub", "power hourly",
)  # fmt: skip
MAPS: dict[str, Any] = {
    "linear": None,
    "intersection": HistogramIntersection(),
    "gaussian": AdditiveGaussian(),
    "chi2": AdditiveChi2(),
    "splines": Splines(),
}
N_DENSE = 2000


def of_map(data: OpenSet, count: int, feature_map: Any) -> np.ndarray:
    """Return the mean score of FGM over the folds with so many variables, and the seconds that a fit took."""
    found = []
    for train, test in data.folds():
        selector = FGM(count, feature_map=feature_map)
        try:
            clone(selector).fit(data.X[train[:50]], data.y[train[:50]])  # compiles
        except DataError:  # values below 0
            return np.full(2, np.nan)
        found.append(timed(partial(selector.fit, data.X[train], data.y[train]), data.X[test], data.y[test]))
    return np.mean(found, axis=0)


def trees(data: OpenSet, train: np.ndarray, test: np.ndarray) -> tuple[float, float]:
    """Return the score of gradient boosted trees and the seconds that they took."""
    X = data.X
    if scipy.sparse.issparse(X):
        squares = X[train].multiply(X[train]).sum(axis=0) - np.asarray(X[train].sum(axis=0)) ** 2 / len(train)
        X = X[:, np.sort(np.argsort(-np.asarray(squares).ravel())[:N_DENSE])].toarray()
    kind = HistGradientBoostingRegressor if data.task == "regression" else HistGradientBoostingClassifier
    return timed(partial(kind(random_state=0).fit, X[train], data.y[train]), X[test], data.y[test])


def timed(fit: Callable[[], Any], X: Any, y: np.ndarray) -> tuple[float, float]:
    """Return the score of a fit, and its CPU seconds."""
    start = time.process_time()
    model = fit()
    seconds = time.process_time() - start
    return float(model.score(X, y)), seconds


def main() -> None:
    """Print a table for each set."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", default=SETS)
    parser.add_argument("--counts", nargs="+", type=int, default=COUNTS)
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    for name in asked.only:
        data = open_set(name)
        n, p = data.X.shape
        print(f"\n{name}: {n:,} x {p:,}\n{'variables':>10}" + "".join(f"{label:>22}" for label in (*MAPS, "trees")))
        of_trees = np.mean([trees(data, *fold) for fold in data.folds()], axis=0)
        for count in sorted({min(count, p) for count in asked.counts}):
            cells = [*(of_map(data, count, feature_map) for feature_map in MAPS.values()), of_trees]
            print(f"{count:>10}" + "".join(f"{score:>13.4f} ({cpu:6.2f})" for score, cpu in cells), flush=True)


if __name__ == "__main__":
    main()
