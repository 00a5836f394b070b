"""How often the intervals after a selection hold the true coefficients, by how strong the signals are.

python benchmarks/inference.py             # all of it: a table for benchmarks/README.md
python benchmarks/inference.py --sets 50   # fewer data sets
python benchmarks/inference.py --best      # logistic intervals: of the truth, and of what the selected explain best
DASKFS_DATA=... python benchmarks/inference.py --beyond   # what lies beyond selections on mice and maize

n = 2,000 rows, p = 100 columns with correlations .5^|j - k|, five subsets. Five true columns, far from each other, with
coefficients of .7 to 4 times the votes' threshold (the standard error times √(m λ)). For each: the share of the sets in
which the column is selected, its mean coefficient then as a share of the truth, and how often its 95 % interval holds
the truth, given that it is selected.
"""

from __future__ import annotations

import argparse
import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone

from daskfs import FGM, Message, OnlineSubstitution, SplitInference
from daskfs.errors import SelectionWarning

N_SAMPLES, N_FEATURES, N_SUBSETS, RHO = 2_000, 100, 5, 0.5
TRUE = np.array([10, 30, 50, 70, 90])
STRENGTHS = np.array([0.7, 1.0, 1.3, 2.0, 4.0])
LOSSES = ("squared", "logistic", "poisson", "huber")


class Drawn(NamedTuple):
    """A data set and its true coefficients."""

    X: np.ndarray
    y: np.ndarray
    coef: np.ndarray


def threshold(loss: str) -> float:
    """Return the coefficient at the votes' threshold, for columns of variance 1."""
    penalty = np.log(N_SAMPLES / N_SUBSETS) + np.log(N_FEATURES)
    information = {"squared": 1.0, "logistic": 0.15, "poisson": 1.0, "huber": 0.55}[loss]
    return float(np.sqrt(N_SUBSETS * penalty / (N_SAMPLES * information * (1.0 - RHO**2))))


def draw(loss: str, seed: int, noise: str = "") -> Drawn:
    """Return a data set; `noise` is "spread" where it is larger the further a row is out, or counts are scattered."""
    rng = np.random.default_rng([seed, LOSSES.index(loss)])
    X = rng.standard_normal((N_SAMPLES, N_FEATURES))
    for j in range(1, N_FEATURES):
        X[:, j] = RHO * X[:, j - 1] + np.sqrt(1.0 - RHO**2) * X[:, j]
    coef = STRENGTHS * threshold(loss) * np.array([1, -1, 1, -1, 1])
    eta = X[:, TRUE] @ coef
    if loss == "logistic":
        return Drawn(X, (rng.random(N_SAMPLES) < 1.0 / (1.0 + np.exp(-eta))).astype(float), coef)
    if loss == "poisson":
        rate = np.exp(eta - 0.5 * (coef @ coef))
        rate = rate * rng.gamma(2.0, 0.5, N_SAMPLES) if noise else rate
        return Drawn(X, rng.poisson(rate).astype(float), coef)
    error = rng.standard_t(3, N_SAMPLES) if loss == "huber" else rng.standard_normal(N_SAMPLES)
    if noise:
        error *= np.sqrt(0.2 + 0.8 * (X[:, TRUE] ** 2).mean(axis=1) ** 2)
    return Drawn(X, eta + error, coef)


def intervals_of_message(**options: Any) -> Callable[[Drawn, str], tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Return what fits MESSAGE, and gives coefficients and intervals of the true columns; NaN where not selected."""

    def fitted(data: Drawn, loss: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        table = Message(n_subsets=N_SUBSETS, loss=loss, **options).fit(data.X, data.y).result_.table
        return in_order(table)

    return fitted


def intervals_of_split(selector: Any) -> Callable[[Drawn, str], tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Return the same of one half of the rows, where a selector has selected on the other."""

    def fitted(data: Drawn, loss: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        inside = clone(selector).set_params(loss=loss)
        return in_order(SplitInference(inside).fit(data.X, data.y).result_.table)

    return fitted


def in_order(table: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return coefficients, lower and upper ends of the true columns of a result's table; NaN where not selected."""
    found = table.set_index("index").reindex(TRUE)
    return tuple(found[name].to_numpy() for name in ("coef", "lower", "upper"))  # type: ignore[return-value]


def simulated(
    how: Callable[[Drawn, str], tuple[np.ndarray, np.ndarray, np.ndarray]], loss: str, n_sets: int, noise: str = ""
) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
    """Return by strength how often it is selected, its mean over the truth and how often covered then; and over all."""
    coef, covered = np.full((2, n_sets, len(TRUE)), np.nan)
    for seed in range(n_sets):
        data = draw(loss, seed, noise)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SelectionWarning)
            found, low, high = how(data, loss)
        is_there = ~np.isnan(low)
        coef[seed, is_there] = (found / data.coef)[is_there]
        covered[seed, is_there] = ((low <= data.coef) & (data.coef <= high))[is_there]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of means of nothing
        return (~np.isnan(coef)).mean(axis=0), np.nanmean(coef, 0), np.nanmean(covered, 0), float(np.nanmean(covered))


def best_coefficients(X: np.ndarray, probability: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Return the logistic coefficients with which some columns explain probabilities best, on many rows."""
    A, b = np.column_stack([np.ones(len(X)), X[:, columns]]), np.zeros(len(columns) + 1)
    for _ in range(12):
        mean = 1.0 / (1.0 + np.exp(-A @ b))
        b += np.linalg.solve((A * (mean * (1.0 - mean))[:, None]).T @ A, A.T @ (probability - mean))
    return b[1:]


def print_best(n_sets: int, n_rows: int = 60_000) -> None:
    """Print how often logistic intervals hold the truth, and the best coefficients of the selected columns alone.

    They differ where a true column is left out: the others' logistic coefficients are nearer to 0 then, whatever
    they correlate with.
    """
    X = np.random.default_rng(99).standard_normal((n_rows, N_FEATURES))
    for j in range(1, N_FEATURES):
        X[:, j] = RHO * X[:, j - 1] + np.sqrt(1.0 - RHO**2) * X[:, j]
    print("| SplitInference, logistic | of the truth | of the best | best ÷ truth |\n|---|---|---|---|")
    for selector in (Message(n_subsets=N_SUBSETS, loss="logistic"), FGM(10, loss="logistic")):
        held = []
        for seed in range(n_sets):
            data = draw("logistic", seed)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", SelectionWarning)
                table = SplitInference(selector).fit(data.X, data.y).result_.table
            probability = 1.0 / (1.0 + np.exp(-X[:, TRUE] @ data.coef))
            best = best_coefficients(X, probability, table["index"].to_numpy())
            truth = dict(zip(TRUE.tolist(), data.coef.tolist(), strict=True))
            for (index, low, high), goal in zip(table[["index", "lower", "upper"]].to_numpy(), best, strict=True):
                if index in truth:
                    held.append((low <= truth[index] <= high, low <= goal <= high, goal / truth[index]))
        of_truth, of_best, ratio = np.mean(held, axis=0)
        print(f"| {selector.method} | {of_truth:.3f} | {of_best:.3f} | {ratio:.3f} |", flush=True)


def print_beyond() -> None:
    """Print what all columns explain beyond ten selected ones, of genotypes."""
    from genotypes_real import SETS

    folder = Path(os.environ["DASKFS_DATA"])
    for name, (load, trait) in SETS.items():
        data = load(folder)
        y = np.asarray(data.phenotypes[trait], dtype=float)
        is_known = np.isfinite(y)
        X = np.asarray(data.dosages, dtype=np.float32)[is_known]
        selector = FGM(10).fit(X, y[is_known])
        print(f"{name}: {selector.signal_beyond(X, y[is_known])}")


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", type=int, default=200)
    parser.add_argument("--beyond", action="store_true")
    parser.add_argument("--best", action="store_true")
    asked = parser.parse_args()
    if asked.beyond:
        print_beyond()
        return
    if asked.best:
        print_best(asked.sets)
        return
    n_sets = asked.sets
    jobs: list[tuple[str, Any, str, str]] = [(f"message, {loss}", intervals_of_message(), loss, "") for loss in LOSSES]
    jobs += [(f"message, {loss}, mean", intervals_of_message(average="mean"), loss, "") for loss in LOSSES[:2]]
    jobs += [(f"message, {loss}, median", intervals_of_message(average="median"), loss, "") for loss in LOSSES[:2]]
    for loss, noise in (("squared", "noise that grows"), ("poisson", "scattered counts")):
        jobs.append((f"message, {loss}, {noise}", intervals_of_message(), loss, noise))
        by_subsets = intervals_of_message(std_errors="subsets")
        jobs.append((f'message, {loss}, {noise}, `std_errors="subsets"`', by_subsets, loss, noise))
    for selector in (Message(n_subsets=N_SUBSETS), FGM(10), OnlineSubstitution(10)):
        for loss in LOSSES[:2]:
            jobs.append((f"SplitInference, {selector.method}, {loss}", intervals_of_split(selector), loss, ""))
    heads = " | ".join(f"{strength:g}" for strength in STRENGTHS)
    print(f"| selected / coefficient ÷ truth / covered, at × threshold | {heads} | covered in all |")
    print("|---|" + "---|" * (len(STRENGTHS) + 1))
    for name, how, loss, noise in jobs:
        selected, ratio, covered, of_all = simulated(how, loss, n_sets, noise)
        cells = [f"{s:.2f} / {r:.2f} / {c:.3f}" for s, r, c in zip(selected, ratio, covered, strict=True)]
        print(f"| {name} | {' | '.join(cells)} | {of_all:.3f} |", flush=True)


if __name__ == "__main__":
    main()
