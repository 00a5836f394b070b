"""What is promised of errors: false selections of stability selection and knockoffs, coverage of intervals.

Tests of tests/benchmarks hold the promises with these functions; the jobs compare with knockpy and the Lasso.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.harness import Contender, Job

DESIGNS = ("independent", "AR(1)", "equicorrelated")


class Planted(NamedTuple):
    """A data set, and which of its features are true."""

    X: np.ndarray
    y: np.ndarray
    is_true: np.ndarray


def planted(design: str, seed: int, n: int = 300, p: int = 100, k: int = 20, size: float = 0.35) -> Planted:
    """Draw normal rows of unit variances; signals of one size at random places with random signs."""
    rng = np.random.default_rng([seed, 7])
    Z = rng.standard_normal((n, p))
    X = Z
    if design == "AR(1)":
        X = Z.copy()
        for j in range(1, p):
            X[:, j] = 0.5 * X[:, j - 1] + math.sqrt(0.75) * Z[:, j]
    elif design == "equicorrelated":
        X = math.sqrt(0.5) * Z + math.sqrt(0.5) * rng.standard_normal((n, 1))
    is_true = np.isin(np.arange(p), rng.choice(p, k, replace=False))
    beta = np.where(is_true, size * rng.choice([-1.0, 1.0], p), 0.0)
    return Planted(X, X @ beta + rng.standard_normal(n), is_true)


def labels(data: Planted, seed: int) -> np.ndarray:
    """Return two classes that depend on the same features by a logistic model."""
    rng = np.random.default_rng([seed, 8])
    beta = np.linalg.lstsq(data.X, data.y, rcond=None)[0] * data.is_true
    return (rng.random(len(data.y)) < 1.0 / (1.0 + np.exp(-2.0 * data.X @ beta))).astype(float)


class Counted(NamedTuple):
    """Means over data sets, with standard errors."""

    n_false: float
    n_false_error: float
    share: float
    share_error: float
    power: float
    bound: float
    """Mean of what was promised."""


def counted(found: Iterator[tuple[np.ndarray, np.ndarray, float]]) -> Counted:
    """Count false and true selections."""
    lines = np.array(
        [
            [selected[~is_true].sum(), selected[~is_true].sum() / max(1, selected.sum()), selected[is_true].mean(), b]
            for selected, is_true, b in found
        ]
    )
    mean, error = lines.mean(axis=0), lines.std(axis=0) / math.sqrt(len(lines))
    return Counted(mean[0], error[0], mean[1], error[1], mean[2], mean[3])


def fitted(selector: Any, X: np.ndarray, y: np.ndarray) -> Any:
    """Fit without warnings about the selection."""
    from daskfs.errors import SelectionWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SelectionWarning)
        return selector.fit(X, y)


def stability(design: str, n_sets: int, inside: Any = None, n_pairs: int = 25, **options: Any) -> Counted:
    """Count what stability selection selects, beside its bound on false selections."""
    from daskfs import StabilitySelection
    from daskfs.baselines import OrthogonalMatchingPursuit

    def each() -> Iterator[tuple[np.ndarray, np.ndarray, float]]:
        for seed in range(n_sets):
            data = planted(design, seed, n=200, k=8, size=0.45)
            selector = OrthogonalMatchingPursuit(12) if inside is None else inside
            found = fitted(StabilitySelection(selector, n_pairs, random_state=seed, **options), data.X, data.y)
            yield found.support_, data.is_true, found.pfer_bound_

    return counted(each())


def knockoffs(design: str, n_sets: int = 200, n_told: int = 60, classes: bool = False, **options: Any) -> Counted:
    """Count what knockoffs select; of two classes more rows, since a label says less than a number."""
    from daskfs import FGM, Knockoffs
    from daskfs.baselines import OrthogonalMatchingPursuit

    def each() -> Iterator[tuple[np.ndarray, np.ndarray, float]]:
        for seed in range(n_sets):
            data = planted(design, seed, n=900 if classes else 300)
            selector = FGM(n_told, loss="logistic") if classes else OrthogonalMatchingPursuit(n_told)
            y = labels(data, seed) if classes else data.y
            found = fitted(Knockoffs(selector, random_state=seed, **{"statistic": "lasso", **options}), data.X, y)
            yield found.support_, data.is_true, found.fdr

    return counted(each())


def lasso_cv(design: str, n_sets: int, **options: Any) -> Counted:
    """Count what the Lasso selects with the penalty of least cross-validated error."""
    from sklearn.linear_model import LassoCV

    sets = (planted(design, seed, **options) for seed in range(n_sets))
    return counted((LassoCV(cv=5).fit(one.X, one.y).coef_ != 0.0, one.is_true, math.nan) for one in sets)


def knockpy_filter(design: str, n_sets: int, fdr: float = 0.1) -> Counted:
    """Count what knockpy selects, with covariances estimated from the data as ours."""
    from knockpy.knockoff_filter import KnockoffFilter

    def each() -> Iterator[tuple[np.ndarray, np.ndarray, float]]:
        for seed in range(n_sets):
            np.random.seed(seed)  # noqa: NPY002  (which knockpy draws from)
            data = planted(design, seed)
            found = KnockoffFilter(ksampler="gaussian", fstat="lasso", knockoff_kwargs={"method": "mvr"})
            yield found.forward(X=data.X, y=data.y, fdr=fdr).astype(bool), data.is_true, fdr

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


def same_draws(design: str, n_sets: int, fdr: float = 0.2) -> Agreement:
    """Compare with knockpy: least squares on its knockoffs, its threshold, its minimum variance distance."""
    from knockpy.knockoff_stats import OLSStatistic, data_dependent_threshhold
    from knockpy.knockoffs import GaussianSampler
    from knockpy.smatrix import compute_smatrix

    from daskfs.baselines import OrthogonalMatchingPursuit
    from daskfs.kernels.linear.knockoffs import minimum_variance
    from daskfs.model_selection.knockoff_filter import knockoff_threshold

    n_same, statistics = 0, 0.0
    for seed in range(n_sets):
        np.random.seed(seed)  # noqa: NPY002  (which knockpy draws from)
        data = planted(design, seed, n=500, p=40, k=12)
        drawn = GaussianSampler(data.X, mu=data.X.mean(axis=0), Sigma=np.cov(data.X, rowvar=False), method="mvr")
        X, copies, y = (one - one.mean(axis=0) for one in (data.X, drawn.sample_knockoffs(), data.y))
        W = OLSStatistic().fit(X, copies, y)
        size = np.abs(OrthogonalMatchingPursuit(80, loss="squared").fit(np.c_[X, copies], y).coef_)
        ours = size[:40] - size[40:]
        theirs = data_dependent_threshhold(W, fdr) <= W
        n_same += bool(np.array_equal(ours >= knockoff_threshold(ours, fdr), theirs))
        statistics = max(statistics, float(np.abs(ours - W).max()))
    correlation = np.corrcoef(planted(design, 0, n=200_000, p=30).X, rowvar=False)
    expected = np.diag(compute_smatrix(correlation, method="mvr"))
    return Agreement(
        n_sets, n_same, statistics, float(np.abs(minimum_variance(correlation, 1e-8, 200) - expected).max())
    )


N_SAMPLES, N_FEATURES, N_SUBSETS, RHO = 2_000, 100, 5, 0.5
TRUE = np.array([10, 30, 50, 70, 90])
STRENGTHS = np.array([0.7, 1.0, 1.3, 2.0, 4.0])
"""Coefficients of the true columns, as multiples of the votes' threshold."""
LOSSES = ("squared", "logistic", "poisson", "huber")
Intervals = Callable[["Drawn", str], tuple[np.ndarray, np.ndarray, np.ndarray]]
"""From a data set and a loss to coefficients, lower and upper ends of the true columns; NaN where not selected."""


class Drawn(NamedTuple):
    """A data set and its true coefficients."""

    X: np.ndarray
    y: np.ndarray
    coef: np.ndarray


def threshold(loss: str) -> float:
    """Return the coefficient at the votes' threshold, for columns of variance 1: standard error times √(m λ)."""
    penalty = np.log(N_SAMPLES / N_SUBSETS) + np.log(N_FEATURES)
    information = {"squared": 1.0, "logistic": 0.15, "poisson": 1.0, "huber": 0.55}[loss]
    return float(np.sqrt(N_SUBSETS * penalty / (N_SAMPLES * information * (1.0 - RHO**2))))


def draw(loss: str, seed: int, noise: str = "") -> Drawn:
    """Draw columns with correlations .5^|j - k|; with `noise`, errors grow with the signal or counts are scattered."""
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


def of_table(table: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return coefficients and ends of intervals of the true columns."""
    found = table.set_index("index").reindex(TRUE)
    return tuple(found[name].to_numpy() for name in ("coef", "lower", "upper"))  # type: ignore[return-value]


def intervals_of_message(**options: Any) -> Intervals:
    """Return MESSAGE's own intervals."""
    from daskfs import Message

    return lambda data, loss: of_table(
        fitted(Message(n_subsets=N_SUBSETS, loss=loss, **options), data.X, data.y).result_.table
    )


def intervals_of_split(selector: Any) -> Intervals:
    """Return intervals of one half of the rows, after a selection on the other."""
    from sklearn.base import clone

    from daskfs import SplitInference

    def intervals(data: Drawn, loss: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return of_table(fitted(SplitInference(clone(selector).set_params(loss=loss)), data.X, data.y).result_.table)

    return intervals


def simulated(
    how: Intervals, loss: str, n_sets: int, noise: str = ""
) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
    """Return by strength how often a column is selected, its mean over the truth, its coverage; and that of all."""
    coef, covered = np.full((2, n_sets, len(TRUE)), np.nan)
    for seed in range(n_sets):
        data = draw(loss, seed, noise)
        found, low, high = how(data, loss)
        is_there = ~np.isnan(low)
        coef[seed, is_there] = (found / data.coef)[is_there]
        covered[seed, is_there] = ((low <= data.coef) & (data.coef <= high))[is_there]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of means of nothing
        return (~np.isnan(coef)).mean(axis=0), np.nanmean(coef, 0), np.nanmean(covered, 0), float(np.nanmean(covered))


@dataclass
class Sets:
    """Which data sets a contender draws, and how many."""

    design: str
    n_sets: int


def sets(folder: Path, seed: int, design: str, n_sets: int) -> Sets:
    """Return the designs: seeds of the data sets are 0 to `n_sets` whatever the repeat."""
    return Sets(design, n_sets)


def counting(count: Callable[..., Counted], *needs: str, **options: Any) -> Contender:
    """Return a contender that counts over all data sets."""
    return Contender(lambda data: count(data.design, data.n_sets, **options), needs)


def by_pfer(design: str, n_sets: int) -> Counted:
    """Count what stability selection selects that is asked for at most one false selection."""
    from daskfs.baselines import OrthogonalMatchingPursuit

    return stability(design, n_sets, OrthogonalMatchingPursuit(), pfer=1.0)


def covering(loss: str, **options: Any) -> Contender:
    """Return a contender that counts how often MESSAGE's intervals hold the truth."""
    noise = str(options.pop("noise", ""))
    return Contender(lambda data: simulated(intervals_of_message(**options), loss, data.n_sets, noise))


def judge_counts(data: Sets, found: Counted) -> dict[str, float]:
    """Return counts beside what is promised."""
    promised = {} if math.isnan(found.bound) else {"promised": found.bound}
    return {"false": found.n_false, "share false": found.share, **promised, "power": found.power}


def judge_intervals(data: Sets, found: tuple[np.ndarray, np.ndarray, np.ndarray, float]) -> dict[str, float]:
    """Return coverage at each strength, and of all selected columns."""
    shown = zip(STRENGTHS, found[2], strict=True)
    return {"covered": found[3], **{f"covered at {strength:g}": value for strength, value in shown}}


def designs(n_sets: int, *names: str) -> list[dict[str, Any]]:
    """Return cases."""
    return [{"design": name, "n_sets": n_sets} for name in names]


JOBS = [
    Job(
        "stability",
        "False selections of stability selection",
        sets,
        {
            "stability selection of OMP": counting(stability),
            "the same, pfer 1": counting(by_pfer),
        },
        {"sklearn LassoCV": counting(partial(lasso_cv, n=200, k=8, size=0.45))},
        judge_counts,
        {"smoke": designs(2, "AR(1)"), "small": designs(30, *DESIGNS), "full": designs(200, *DESIGNS)},
        about=(
            "8 true of 100 columns, 200 rows, 25 pairs of halves. Promised is the bound on the number of false "
            "selections."
        ),
        repeats=1,
    ),
    Job(
        "knockoffs",
        "False discoveries of knockoffs",
        sets,
        {"knockoffs, fdr .1": counting(knockoffs), "knockoffs, fdr .2": counting(knockoffs, fdr=0.2)},
        {"knockpy, fdr .1": counting(knockpy_filter, "knockpy"), "sklearn LassoCV": counting(lasso_cv)},
        judge_counts,
        {"smoke": designs(2, "AR(1)"), "small": designs(30, *DESIGNS), "full": designs(200, *DESIGNS)},
        about=(
            "20 true of 100 columns, 300 rows, the statistic of the Lasso. Promised is the share of false discoveries."
        ),
        rival="knockpy, fdr .1",
        repeats=1,
    ),
    Job(
        "intervals",
        "Coverage of MESSAGE's 95 % intervals",
        sets,
        {
            **{f"{loss} loss": covering(loss) for loss in LOSSES},
            "squared loss, noise that grows": covering("squared", noise="spread"),
            'the same, std_errors="subsets"': covering("squared", noise="spread", std_errors="subsets"),
        },
        {},
        judge_intervals,
        {"smoke": designs(2, "AR(1)"), "small": designs(40, "AR(1)"), "full": designs(200, "AR(1)")},
        about=(
            "2,000 rows, 100 columns, five subsets; five true columns of .7 to 4 times the threshold of the "
            "votes. Coverage is that of selected columns, by strength."
        ),
        repeats=1,
    ),
]
