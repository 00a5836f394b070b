"""Outliers: MESSAGE against one Lasso on all rows, where the errors have heavy tails or rows are corrupted.

    python benchmarks/message_heavy_tails.py --replicates 20                    (a minute)
    python benchmarks/message_heavy_tails.py --n-samples 2000 --n-features 100 --replicates 2
                                                                                (what the test suite runs)

The claim of Wang, Peng and Dunson (2014, section 2): a share of the subsets holds outliers, and the median model does
not follow it. Features, coefficients and subsets of 400 rows are those of their section 4.1, with correlation 0.5
(`daskfs.sources.synthetic`); the errors are normal of standard deviation 2, for comparison, and

    ten rows   in ten rows y is 1000 times a standard normal, whatever X: less than half of the subsets hold one
    t(2)       twice Student's t with two degrees of freedom, which has no variance
    cauchy     in 5 % of the rows a Cauchy of scale 10 is added
    corrupted  in 1 % of the rows y is 50 times a standard normal, whatever X: every subset holds some
    leverage   in 1 % of the rows y and five features that mean nothing are far out together: the rows say that these
               features explain y

Where every subset holds outliers, a vote cannot outlive them, and small subsets see weak signals worse than all rows
do: that takes another loss, Huber's. The error is ‖β̂ - β‖². Full data keeps the Lasso's shrunk coefficients, as in the
paper. Ends with 1 where, with ten corrupted rows, MESSAGE does not find the true model more often than full data.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from daskfs.baselines.lasso.full_data import FullData
from daskfs.matrix.arrays import ArrayMatrix
from daskfs.selectors.message.selector import Message
from daskfs.sources.synthetic import SyntheticSource

NOISES = ("normal", "ten rows", "t(2)", "cauchy", "corrupted", "leverage")
METHODS: dict[str, Callable[[int], Any]] = {
    "message": lambda size: Message(subset_size=size),
    "message, mean": lambda size: Message(subset_size=size, average="mean"),
    "message, huber": lambda size: Message(subset_size=size, loss="huber"),
    "full data": lambda size: FullData(),
    "full data, huber": lambda size: FullData(loss="huber"),
}


def draw(noise: str, n_samples: int, n_features: int, seed: int) -> tuple[ArrayMatrix, SyntheticSource]:
    """Return a data set with errors of one kind."""
    source = SyntheticSource(n_samples, n_features, correlation=0.5, random_state=seed)
    block = next(source.row_blocks(n_samples))
    X, y = block.X, block.y.copy()
    rng = np.random.default_rng([seed, NOISES.index(noise)])
    if noise == "ten rows":
        y[rng.choice(n_samples, 10, replace=False)] = 1000.0 * rng.standard_normal(10)
    elif noise == "t(2)":
        y = X[:, source.support].astype(np.float64) @ source.coef + 2.0 * rng.standard_t(2, n_samples)
    elif noise == "cauchy":
        rows = np.flatnonzero(rng.random(n_samples) < 0.05)
        y[rows] += 10.0 * rng.standard_cauchy(len(rows))
    elif noise == "corrupted":
        rows = rng.choice(n_samples, n_samples // 100, replace=False)
        y[rows] = 50.0 * rng.standard_normal(len(rows))
    elif noise == "leverage":
        rows = rng.choice(n_samples, n_samples // 100, replace=False)
        others = rng.choice(np.setdiff1d(np.arange(n_features), source.support), 5, replace=False)
        size = 10.0 * rng.standard_normal(len(rows))
        X[np.ix_(rows, others)] = size[:, None]
        y[rows] = 5.0 * size
    return ArrayMatrix(X, y, shuffled=True), source


def replicate(noise: str, seed: int, arguments: argparse.Namespace) -> list[dict]:
    """Return one row for each method on one data set."""
    matrix, source = draw(noise, arguments.n_samples, arguments.n_features, seed)
    beta = np.zeros(arguments.n_features)
    beta[source.support] = source.coef
    rows = []
    for method, make in METHODS.items():
        started = time.process_time()
        coef = make(arguments.subset_size).fit_matrix(matrix).coef_
        seconds = time.process_time() - started
        kept = np.flatnonzero(coef)
        rows.append(
            {
                "noise": noise,
                "method": method,
                "P(true model)": float(np.array_equal(kept, source.support)),
                "recall": float(np.isin(source.support, kept).mean()),
                "false features": float(len(np.setdiff1d(kept, source.support))),
                "mean MSE": float(((coef - beta) ** 2).sum()),
                "median MSE": float(((coef - beta) ** 2).sum()),
                "CPU s": seconds,
            }
        )
    return rows


def main(argv: list[str] | None = None) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n-samples", type=int, default=10_000)
    parser.add_argument("--n-features", type=int, default=1000)
    parser.add_argument("--subset-size", type=int, default=400)
    parser.add_argument("--replicates", type=int, default=20)
    arguments = parser.parse_args(argv)
    for make in METHODS.values():  # compile before anything is timed
        make(400).fit_matrix(draw("normal", 800, 50, 0)[0])
    rows = [
        row for noise in NOISES for seed in range(arguments.replicates) for row in replicate(noise, seed, arguments)
    ]
    measures = {
        name: "median" if name == "median MSE" else "mean" for name in rows[0] if name not in ("noise", "method")
    }
    table = pd.DataFrame(rows).groupby(["noise", "method"], sort=False).agg(measures)
    print(f"{arguments.n_samples:,} x {arguments.n_features:,}, {arguments.replicates} data sets each")
    print(table.to_string(float_format=lambda value: f"{value:.4g}"))
    chance = table["P(true model)"]
    holds = chance["ten rows", "message"] > chance["ten rows", "full data"]
    print("with ten corrupted rows MESSAGE finds the true model " + ("more" if holds else "no more") + " often")
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
