"""Do stability selection and knockoffs keep what they promise, and what do they find beside others?

    python benchmarks/error_control.py                    # false selections and power, 200 data sets of each design
    python benchmarks/error_control.py --knockpy          # the same draws and distances as knockpy's, and its power
    python benchmarks/error_control.py --weakness         # stability selection with columns weighed at random
    python benchmarks/error_control.py --wide             # knockoffs of 1,200 columns, in blocks and by common factors
    python benchmarks/error_control.py --speed            # 50 pairs on one worker and on two

Rows are normal with unit variances: independent, AR(1) or equicorrelated. Signals stand at random places with random
signs, of one size (Barber and Candes 2015, Shah and Samworth 2013). What is false is known, so that false selections
and discoveries are counted.
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from daskfs import FGM, Knockoffs, Message, StabilitySelection
from daskfs.baselines import LassoCut, OrthogonalMatchingPursuit
from daskfs.errors import SelectionWarning

N_SETS = 200
DESIGNS = ("independent", "AR(1)", "equicorrelated")


class Planted(NamedTuple):
    """A data set, and which of its features are true."""

    X: np.ndarray
    y: np.ndarray
    is_true: np.ndarray


def planted(design: str, seed: int, n: int = 300, p: int = 100, k: int = 20, size: float = 0.35) -> Planted:
    rng = np.random.default_rng([seed, 7])
    Z = rng.standard_normal((n, p))
    if design == "AR(1)":
        X = Z.copy()
        for j in range(1, p):
            X[:, j] = 0.5 * X[:, j - 1] + math.sqrt(0.75) * Z[:, j]
    elif design == "equicorrelated":
        X = math.sqrt(0.5) * Z + math.sqrt(0.5) * rng.standard_normal((n, 1))
    else:
        X = Z
    is_true = np.isin(np.arange(p), rng.choice(p, k, replace=False))
    beta = np.where(is_true, size * rng.choice([-1.0, 1.0], p), 0.0)
    return Planted(X, X @ beta + rng.standard_normal(n), is_true)


def stand_in(seed: int, n: int = 200, p: int = 200) -> Planted:
    """Return the example of Meinshausen and Buehlmann (2010): the third column stands in for the two that are true."""
    rng = np.random.default_rng([seed, 9])
    correlation = np.eye(p)
    correlation[[0, 1, 2, 2], [2, 2, 0, 1]] = 0.6
    X = rng.standard_normal((n, p)) @ np.linalg.cholesky(correlation).T
    return Planted(X, X[:, 0] + X[:, 1] + 0.5 * rng.standard_normal(n), np.arange(p) < 2)


def labels(data: Planted, seed: int) -> np.ndarray:
    """Return two classes that hang on the same features by a logistic model."""
    rng = np.random.default_rng([seed, 8])
    beta = np.linalg.lstsq(data.X, data.y, rcond=None)[0] * data.is_true
    return (rng.random(len(data.y)) < 1.0 / (1.0 + np.exp(-2.0 * data.X @ beta))).astype(float)


class Counted(NamedTuple):
    """Of many data sets: the mean number of false selections, the mean share of them, power; with standard errors."""

    n_false: float
    n_false_error: float
    share: float
    share_error: float
    power: float
    bound: float
    """Mean of what was promised."""


def counted(found: Iterator[tuple[np.ndarray, np.ndarray, float]]) -> Counted:
    lines = np.array(
        [
            [selected[~is_true].sum(), selected[~is_true].sum() / max(1, selected.sum()), selected[is_true].mean(), b]
            for selected, is_true, b in found
        ]
    )
    mean, error = lines.mean(axis=0), lines.std(axis=0) / math.sqrt(len(lines))
    return Counted(mean[0], error[0], mean[1], error[1], mean[2], mean[3])


def stability(design: str, n_sets: int = N_SETS, inside: Any = None, n_pairs: int = 25, **options: Any) -> Counted:
    """Count what stability selection selects falsely, beside its bound."""

    def each() -> Iterator[tuple[np.ndarray, np.ndarray, float]]:
        for seed in range(n_sets):
            data = planted(design, seed, n=200, k=8, size=0.45)
            selector = OrthogonalMatchingPursuit(12) if inside is None else inside
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", SelectionWarning)
                fitted = StabilitySelection(selector, n_pairs, random_state=seed, **options).fit(data.X, data.y)
            yield fitted.support_, data.is_true, fitted.pfer_bound_

    return counted(each())


def randomised(inside: Any, weakness: float | None, n_sets: int, n_pairs: int = 25) -> np.ndarray:
    """Return means over data sets with a stand-in, as `weakness_table` shows them."""
    lines = []
    for seed in range(n_sets):
        data = stand_in(seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SelectionWarning)
            fitted = StabilitySelection(inside, n_pairs, weakness=weakness, random_state=seed).fit(data.X, data.y)
        frequency, support = fitted.frequencies_, fitted.support_
        n_false = support[~data.is_true].sum()
        lines.append([frequency[:2].mean(), frequency[2], support[:2].mean(), support[2], n_false, fitted.pfer_bound_])
    return np.array(lines).mean(axis=0)


def weakness_table(n_sets: int) -> None:
    """Show what columns weighed at random do to a stand-in."""
    print("| selector | weakness | frequency: true | stand-in | selected: true | stand-in | false | promised |")
    print("|---|---|---|---|---|---|---|---|")
    for inside in (LassoCut(3), OrthogonalMatchingPursuit(3)):
        for weakness in (None, 0.8, 0.5, 0.2):
            row = " | ".join(f"{value:.2f}" for value in randomised(inside, weakness, n_sets))
            print(f"| {inside.method} | {weakness or 'none'} | {row} |", flush=True)


def knockoffs(design: str, n_sets: int = N_SETS, n_told: int = 60, classes: bool = False, **options: Any) -> Counted:
    """Count what knockoffs select falsely; of two classes more rows, for a label says less than a number."""

    def each() -> Iterator[tuple[np.ndarray, np.ndarray, float]]:
        for seed in range(n_sets):
            data = planted(design, seed, n=900 if classes else 300)
            selector = FGM(n_told, loss="logistic") if classes else OrthogonalMatchingPursuit(n_told)
            y = labels(data, seed) if classes else data.y
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", SelectionWarning)
                fitted = Knockoffs(selector, random_state=seed, **{"statistic": "lasso", **options}).fit(data.X, y)
            yield fitted.support_, data.is_true, fitted.fdr

    return counted(each())


def wide_knockoffs(design: str, n_sets: int, **options: Any) -> Counted:
    """Count what knockoffs of so many columns select falsely that their law is one of blocks and common factors."""

    def each() -> Iterator[tuple[np.ndarray, np.ndarray, float]]:
        for seed in range(n_sets):
            data = planted(design, seed, n=500, p=1_200, k=30)
            selector = Knockoffs(OrthogonalMatchingPursuit(60), statistic="lasso", random_state=seed, **options)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", SelectionWarning)
                fitted = selector.fit(data.X, data.y)
            yield fitted.support_, data.is_true, fitted.fdr

    return counted(each())


def lasso_cv(design: str, n_sets: int = 30, **options: Any) -> Counted:
    """Count what the Lasso selects whose penalty cross-validation chooses."""
    from sklearn.linear_model import LassoCV

    def each() -> Iterator[tuple[np.ndarray, np.ndarray, float]]:
        for seed in range(n_sets):
            data = planted(design, seed, **options)
            yield LassoCV(cv=5).fit(data.X, data.y).coef_ != 0.0, data.is_true, math.nan

    return counted(each())


def knockpy_filter(design: str, n_sets: int = 30, fdr: float = 0.1, classes: bool = False) -> Counted:
    """Count what knockpy selects, with covariances estimated from the data as here."""
    from knockpy.knockoff_filter import KnockoffFilter

    def each() -> Iterator[tuple[np.ndarray, np.ndarray, float]]:
        for seed in range(n_sets):
            np.random.seed(seed)  # noqa: NPY002  (which knockpy draws from)
            data = planted(design, seed, n=900 if classes else 300)
            y = labels(data, seed) if classes else data.y
            filtered = KnockoffFilter(ksampler="gaussian", fstat="lasso", knockoff_kwargs={"method": "mvr"})
            yield filtered.forward(X=data.X, y=y, fdr=fdr).astype(bool), data.is_true, fdr

    return counted(each())


class Agreement(NamedTuple):
    """With knockpy, on the draws that it made."""

    n_sets: int
    n_same: int
    """Data sets of which the same features are selected."""
    statistics: float
    """Largest difference of a statistic."""
    distance: float
    """Largest difference of s, on the true correlations."""


def same_draws(design: str, n_sets: int = 20, fdr: float = 0.2) -> Agreement:
    """Compare with knockpy: least squares on its knockoffs, its threshold, its minimum variance distance."""
    from knockpy.knockoff_stats import OLSStatistic, data_dependent_threshhold
    from knockpy.knockoffs import GaussianSampler
    from knockpy.smatrix import compute_smatrix

    from daskfs.kernels.linear.knockoffs import minimum_variance
    from daskfs.model_selection.knockoff_filter import knockoff_threshold

    n_same, statistics = 0, 0.0
    for seed in range(n_sets):
        np.random.seed(seed)  # noqa: NPY002  (which knockpy draws from)
        data = planted(design, seed, n=500, p=40, k=12)
        drawn = GaussianSampler(data.X, mu=data.X.mean(axis=0), Sigma=np.cov(data.X, rowvar=False), method="mvr")
        X, copies, y = (one - one.mean(axis=0) for one in (data.X, drawn.sample_knockoffs(), data.y))
        W = OLSStatistic().fit(X, copies, y)
        theirs = data_dependent_threshhold(W, fdr) <= W
        size = np.abs(OrthogonalMatchingPursuit(80, loss="squared").fit(np.c_[X, copies], y).coef_)
        ours = size[:40] - size[40:]
        n_same += bool(np.array_equal(ours >= knockoff_threshold(ours, fdr), theirs))
        statistics = max(statistics, float(np.abs(ours - W).max()))
    correlation = np.cov(planted(design, 0, n=200_000, p=30).X, rowvar=False)
    scale = np.sqrt(np.diag(correlation))
    correlation /= np.outer(scale, scale)
    distance = np.abs(
        minimum_variance(correlation, 1e-8, 200) - np.diag(compute_smatrix(correlation, method="mvr"))
    ).max()
    return Agreement(n_sets, n_same, statistics, float(distance))


def tall(n_samples: int) -> tuple[np.ndarray, np.ndarray]:
    """Return rows of 400 columns, 20 of which matter, and their target."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n_samples, 400), dtype=np.float32)
    return X, X[:, :20].sum(axis=1) + rng.standard_normal(n_samples)


def seconds_of_fits(n_fits: int) -> float:
    """Return how long so many fits of a half take, in a process that has nothing else to do."""
    X, y = tall(10_000)
    OrthogonalMatchingPursuit(40).fit(X, y)  # kernels are loaded
    start = time.perf_counter()
    for _ in range(n_fits):
        OrthogonalMatchingPursuit(40).fit(X, y)
    return time.perf_counter() - start


def speed(rounds: int = 3) -> None:
    """Time 50 pairs on one worker and on two, and as many fits in processes that never hear of each other."""
    from distributed import Client, LocalCluster

    with multiprocessing.get_context("spawn").Pool(2) as pool:
        alone = pool.map(seconds_of_fits, [60], chunksize=1)[0]
        beside = max(pool.map(seconds_of_fits, [30, 30], chunksize=1))
    print(f"two processes on their own: {alone / beside:.2f} times")
    X, y = tall(20_000)
    seconds: dict[int, list[float]] = {1: [], 2: []}
    for n_workers in (1, 2) * rounds:
        with (
            LocalCluster(n_workers=n_workers, threads_per_worker=1, dashboard_address=None) as cluster,
            Client(cluster) as client,
        ):
            selector = StabilitySelection(OrthogonalMatchingPursuit(40), 50, client=client)
            StabilitySelection(OrthogonalMatchingPursuit(40), 2 * n_workers, client=client).fit(
                X, y
            )  # kernels are loaded
            start = time.perf_counter()
            selector.fit(X, y)
            seconds[n_workers].append(time.perf_counter() - start)
    one, two = (float(np.median(seconds[n])) for n in (1, 2))
    print(f"one worker {one:.1f} s, two {two:.1f} s: {one / two:.2f} times (median of {rounds})")


def _show(title: str, by_method: dict[str, Callable[[str], Counted]], designs: Sequence[str] = DESIGNS) -> None:
    print(f"\n{title}\n| design | method | false | promised | share false | power |\n|---|---|---|---|---|---|")
    for design in designs:
        for method, count in by_method.items():
            c = count(design)
            promised = "" if math.isnan(c.bound) else f"{c.bound:.2f}"
            false, share = f"{c.n_false:.2f} ± {c.n_false_error:.2f}", f"{c.share:.3f} ± {c.share_error:.3f}"
            print(f"| {design} | {method} | {false} | {promised} | {share} | {c.power:.2f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--knockpy", action="store_true")
    parser.add_argument("--speed", action="store_true")
    parser.add_argument("--weakness", action="store_true")
    parser.add_argument("--wide", action="store_true")
    parser.add_argument("--designs", nargs="+", choices=DESIGNS, default=DESIGNS, help="of --wide")
    parser.add_argument("--sets", type=int, default=N_SETS)
    asked = parser.parse_args()
    if asked.speed:
        speed()
    elif asked.wide:
        title = "Knockoffs, fdr 0.1, 30 true of 1,200, 500 rows"
        _show(title, {"lasso": lambda design: wide_knockoffs(design, asked.sets)}, asked.designs)
    elif asked.weakness:
        weakness_table(asked.sets)
    elif asked.knockpy:
        for design in DESIGNS:
            print(design, same_draws(design))
        _show(
            "Knockoffs, fdr 0.1",
            {
                "knockpy, Lasso": lambda design: knockpy_filter(design, min(30, asked.sets)),
                "knockpy, two classes": lambda design: knockpy_filter(design, min(30, asked.sets), classes=True),
            },
        )
    else:
        of_stability = {
            "OMP, 12 of 100": lambda design: stability(design, asked.sets),
            "OMP, pfer 1": lambda design: stability(design, asked.sets, OrthogonalMatchingPursuit(), pfer=1.0),
            "MESSAGE": lambda design: stability(design, asked.sets, Message(n_subsets=1)),
            "Lasso, cross-validation": lambda design: lasso_cv(design, 30, n=200, k=8, size=0.45),
        }
        _show("Stability selection, 25 pairs: expected false selections", of_stability)
        of_knockoffs = {
            "Lasso": lambda design: knockoffs(design, asked.sets),
            "Lasso, two classes": lambda design: knockoffs(design, asked.sets, classes=True),
            "Lasso, fdr 0.2": lambda design: knockoffs(design, asked.sets, fdr=0.2),
            "Lasso, fdr 0.2, 5 draws": lambda design: knockoffs(design, asked.sets, fdr=0.2, n_draws=5),
            "OMP, 30 of 200": lambda design: knockoffs(design, asked.sets, 30, statistic="coefficient"),
            "OMP, 60 of 200": lambda design: knockoffs(design, asked.sets, 60, statistic="coefficient"),
            "Lasso, cross-validation": lambda design: lasso_cv(design),
        }
        _show("Knockoffs, fdr 0.1: share of false discoveries", of_knockoffs)


if __name__ == "__main__":
    main()
