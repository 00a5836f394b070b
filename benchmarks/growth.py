"""How a fit's CPU time grows with rows, columns, non-zeros, features wanted and workers.

    OPENBLAS_NUM_THREADS=1 python benchmarks/growth.py [--rounds 5] [--doublings 4] [--only fgm message]

Each line doubles one size and keeps the others; the sizes take turns, a first fit of each compiles and does not count.
Shown are the least CPU seconds of the smallest and the largest size, the exponent b of seconds = a size^b by least
squares of the logarithms over all sizes, and over the last doubling. Theory says at most 1 everywhere, and 0 for
workers that share the same work; what does not depend on the size makes the exponent smaller, and caches that become
too small make it larger.
"""

from __future__ import annotations

import argparse
import logging
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
from before_and_after import entries, planted

import daskfs
from daskfs import baselines

Fit = Callable[[], Any]


@dataclass(frozen=True)
class Growth:
    """One method, and what of its data or settings is doubled."""

    method: str
    what: str
    first: int
    prepared: Callable[[int], Fit]
    """What is to be fitted at a size, its data made."""


def fit_of(make: Callable[..., Any], data: Callable[[int], Any], options: Callable[[int], dict[str, Any]]) -> Any:
    """Return `Growth.prepared`."""

    def prepared(size: int) -> Fit:
        X, y = data(size)
        return lambda: make(**options(size)).fit(X, y)

    return prepared


def growths() -> list[Growth]:
    """Return the lines of the table."""
    message, fgm, mission, substitution = daskfs.Message, daskfs.FGM, daskfs.Mission, daskfs.OnlineSubstitution
    found: list[Growth] = []

    def add(
        name: str, what: str, first: int, make: Callable[..., Any], data: Callable[[int], Any], **options: Any
    ) -> None:
        """Options that can be called are of the size."""

        def at(size: int) -> dict[str, Any]:
            return {key: value(size) if callable(value) else value for key, value in options.items()}

        found.append(Growth(name, what, first, fit_of(make, data, at)))

    rows_of_400 = {"n_subsets": lambda n: n // 400}
    add("MESSAGE", "rows, subsets of 400", 16_000, message, lambda n: planted(n, 200), **rows_of_400)
    add("MESSAGE", "rows, four subsets", 16_000, message, lambda n: planted(n, 200), n_subsets=4)
    add("MESSAGE", "columns", 1000, message, lambda p: planted(4000, p), n_subsets=10)
    add(
        "MESSAGE, logistic", "rows, subsets of 400", 16_000, message,
        lambda n: planted(n, 100, "logistic"), loss="logistic", **rows_of_400,
    )  # fmt: skip
    add(
        "MESSAGE, logistic", "columns", 1000, message,
        lambda p: planted(4000, p, "logistic"), loss="logistic", n_subsets=10,
    )  # fmt: skip
    add(
        "MESSAGE, sparse", "non-zeros in a row", 10, message,
        lambda k: entries(8000, 4000, k), loss="logistic", n_subsets=3,
    )  # fmt: skip
    add("OnlineSubstitution", "columns", 2000, substitution, lambda p: planted(2000, p), n_features_to_select=50)
    add("OnlineSubstitution", "rows", 1000, substitution, lambda n: planted(n, 4000), n_features_to_select=50)
    add("OnlineSubstitution", "features wanted", 12, substitution, lambda _: planted(4000, 4000),
        n_features_to_select=lambda s: s)  # fmt: skip
    add("Asy-OS, simulated", "columns", 1000, daskfs.AsyncOnlineSubstitution, lambda p: planted(1000, p),
        n_features_to_select=20, n_workers=4, schedule="simulated")  # fmt: skip
    add("FGM", "columns", 1000, fgm, lambda p: planted(8192, p, "logistic"), n_features_to_select=20)
    add("FGM", "rows", 2000, fgm, lambda n: planted(n, 4096, "logistic"), n_features_to_select=20)
    add("FGM", "features wanted", 12, fgm, lambda _: planted(8192, 4096, "logistic"),
        n_features_to_select=lambda s: s)  # fmt: skip
    add("FGM, sparse", "non-zeros in a row", 20, fgm, lambda k: entries(20_000, 2**18, k), n_features_to_select=40)
    one_pass = {"loss": "logistic", "n_epochs": 1, "refit": None}
    add("Mission", "rows", 10_000, mission, lambda n: entries(n, 2**18, 80), n_features_to_select=500, **one_pass)
    add("Mission", "non-zeros in a row", 20, mission, lambda k: entries(40_000, 2**18, k),
        n_features_to_select=500, **one_pass)  # fmt: skip
    add("Mission", "columns", 2**16, mission, lambda p: entries(40_000, p, 80), n_features_to_select=500, **one_pass)
    add("Mission", "features wanted", 500, mission, lambda _: entries(40_000, 2**18, 80),
        n_features_to_select=lambda k: k, **one_pass)  # fmt: skip
    add("OMP", "columns", 2000, baselines.OrthogonalMatchingPursuit, lambda p: planted(4000, p),
        n_features_to_select=20)  # fmt: skip
    found.append(Growth("MESSAGE", "workers, threads", 1, partial(_on_workers, *planted(64_000, 200))))
    return found


def _on_workers(X: Any, y: Any, n_workers: int) -> Fit:
    """Return a fit of the same rows in 160 subsets on so many workers, threads of this process."""
    from dask.distributed import Client, LocalCluster

    cluster = LocalCluster(
        n_workers, threads_per_worker=1, processes=False, dashboard_address=None, silence_logs=logging.ERROR
    )
    client = Client(cluster)

    def fit() -> Any:
        return daskfs.Message(n_subsets=160, client=client).fit(X, y)

    return fit


def measured(growth: Growth, sizes: list[int], rounds: int) -> np.ndarray:
    """Return the least CPU seconds of each size; all take turns."""
    fits = [growth.prepared(size) for size in sizes]
    seconds = np.full((rounds, len(sizes)), np.inf)
    for k in range(-1, rounds):
        for i, fit in enumerate(fits):
            start = time.process_time()
            fit()
            if k >= 0:
                seconds[k, i] = time.process_time() - start
    return seconds.min(axis=0)


def main() -> None:
    """Print the table, a line as soon as it is measured."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--doublings", type=int, default=4)
    parser.add_argument("--only", nargs="*", help="beginnings of methods' names")
    options = parser.parse_args()
    print("| | doubled | sizes | CPU s | exponent | last doubling |\n|---|---|---|---|---|---|")
    for growth in growths():
        if options.only and not growth.method.lower().startswith(tuple(name.lower() for name in options.only)):
            continue
        sizes = [growth.first << k for k in range(options.doublings + 1)]
        seconds = measured(growth, sizes, options.rounds)
        exponent = np.polyfit(np.log(sizes), np.log(seconds), 1)[0]
        last = np.log2(seconds[-1] / seconds[-2])
        print(
            f"| {growth.method} | {growth.what} | {sizes[0]:,} to {sizes[-1]:,} "
            f"| {seconds[0]:.3f} to {seconds[-1]:.3f} | {exponent:.2f} | {last:.2f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
