"""Estimate of how much all columns together explain beyond the selected ones, as many weak effects would.

If a trait depends on hundreds of features, each too weak to be found, a short selection explains little, and nothing in
it shows this. A ridge on all columns does not need to find them:

    1. Take some rows. Standardise all columns on them, and compute the Gram matrix of the rows K = Z Zᵀ / p, block by
       block. With more than 8,192 columns, first add these with random signs into as many buckets (a count sketch,
       E K' = K).
    2. For each of five folds: fit the selected columns on the other folds, then a ridge with K on the residuals, its
       strength chosen by leave-one-out; predict the fold by the first alone, and by both.
    3. The gain of both over the first: the mean over the rows of the difference of squared errors, as a share of the
       target's variance, with its standard error from the rows.

The selection was made on these rows, so the estimate of what it explains is too large, and of what lies beyond it too
small.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from daskfs.matrix.base import Matrix
from daskfs.matrix.blocks import as_vector
from daskfs.matrix.split import folds_of_groups
from daskfs.selectors.diagnostics.stand_ins import Candidates
from daskfs.selectors.shared.run import Run

N_ROWS, N_BUCKETS, N_COLUMNS, N_FOLDS = 2_000, 8_192, 1_024, 5
STRENGTHS = 10.0 ** np.arange(-3.0, 4.01, 0.5)
"""Strengths of the ridge, as multiples of the mean of K's diagonal."""
WORTH_SAYING = 0.02
"""Share of the variance beyond the selection, at the lower end of its interval, that counts as much."""


@dataclass(frozen=True)
class SignalBeyond:
    """What the selected columns explain, and all columns together beyond them, as shares of the target's variance."""

    n_selected: int
    n_features: int
    n_rows: int
    """Number of rows of the estimate."""
    selected: float
    """R² of the selected columns, cross-validated on the rows of the selection, so rather too large."""
    beyond: float
    """What a ridge on all columns adds."""
    std_error: float
    low: float
    high: float
    """End of its 95 % interval, as `low`."""

    @property
    def is_polygenic(self) -> bool:
        """Whether many columns that were not selected carry signal together."""
        return self.low > WORTH_SAYING

    def __str__(self) -> str:
        """Return the result as a sentence."""
        found = f"the {self.n_selected:,} selected features explain {self.selected:.0%} of the target's variance"
        between = f"{self.beyond:.0%} ({self.low:.0%} to {self.high:.0%})"
        if not self.is_polygenic:
            return f"{found}; all {self.n_features:,} together explain {between} more: no sign of many weak effects"
        remedy = "n_features_to_select='cv' chooses the number that predicts best; a ridge on all columns uses the rest"
        beyond = f"all {self.n_features:,} together explain {between} more: many weak features carry signal"
        return f"{found}; {beyond}. {remedy}"


def signal_beyond(
    run: Run, columns: np.ndarray, is_classifier: bool, random_state: int | None, n_rows: int = N_ROWS
) -> SignalBeyond:
    """Return how much all columns of a run's matrix explain beyond some of them.

    Parameters
    ----------
    run : Run
    columns : ndarray of shape (n_selected,), int64, ascending
    is_classifier : bool
        Whether the target's values are classes, each of which is explained as an indicator.
    random_state : int or None
        Seed for rows, folds and signs.
    n_rows : int
        Largest number of rows: the first ones if they are in random order.
    """
    rng, matrix = np.random.default_rng(random_state), run.matrix
    n_samples, n_features = matrix.shape
    drawn = np.arange(min(n_samples, n_rows))
    if not matrix.rows_are_random:
        drawn = np.sort(rng.permutation(n_samples)[:n_rows])
    some = matrix.take(drawn)
    n_buckets = min(n_features, N_BUCKETS)
    seed = int(rng.integers(2**31))
    parts = [Candidates(str(j), slice(j, min(j + N_COLUMNS, n_features))) for j in range(0, n_features, N_COLUMNS)]
    if n_buckets < n_features:  # sums of all blocks, and one Gram matrix of them
        sketch = sum(run.over(some, by="columns").map("beyond", sketched_block, parts, n_buckets, seed))
        gram = sketch @ sketch.T / n_features
    else:
        gram = sum(run.over(some, by="columns").map("beyond", gram_of_block, parts)) / n_features
    y = as_vector(some.read_target(slice(None)))
    targets = (y[:, None] == np.unique(y)).astype(float) if is_classifier else y[:, None]
    targets = targets[:, 1:] if is_classifier and targets.shape[1] == 2 else targets
    given = some.read_weight(slice(None))
    weight = np.ones(len(y)) if given is None else as_vector(given)
    X = np.asarray(some.read(slice(None), columns), dtype=np.float64)
    fold = rng.permutation(np.arange(len(y)) % N_FOLDS)
    groups = some.declared_groups
    if groups is not None and len(np.unique(groups)) >= N_FOLDS:
        fold = folds_of_groups(groups, N_FOLDS) - 1
    alone, both = np.empty(targets.shape), np.empty(targets.shape)
    for k in np.unique(fold):
        alone[fold == k], both[fold == k] = _predicted(X, gram, targets, weight, fold == k)
    spread = float((weight @ (targets - weight @ targets / weight.sum()) ** 2).sum()) / weight.sum()
    errors, errors_of_both = ((targets - one) ** 2 for one in (alone, both))
    gained = (errors - errors_of_both).sum(axis=1) / spread if spread > 0.0 else np.zeros(len(y))
    beyond, half = float(np.average(gained, weights=weight)), NormalDist().inv_cdf(0.975)
    std_error = math.sqrt(float((weight**2 * (gained - beyond) ** 2).sum())) / float(weight.sum())
    explained = 1.0 - float(np.average(errors.sum(axis=1), weights=weight)) / spread if spread > 0.0 else 0.0
    ends = beyond - half * std_error, beyond + half * std_error
    return SignalBeyond(len(columns), n_features, len(y), explained, beyond, std_error, *ends)


def gram_of_block(matrix: Matrix, part: Candidates) -> np.ndarray:
    """Return Z Zᵀ of some standardised columns."""
    Z = _standardised(matrix, part)
    return Z @ Z.T


def sketched_block(matrix: Matrix, n_buckets: int, seed: int, part: Candidates) -> np.ndarray:
    """Return some standardised columns, added with random signs into buckets."""
    Z = _standardised(matrix, part)
    rng = np.random.default_rng([seed, part.columns.start])
    bucket, sign = rng.integers(n_buckets, size=Z.shape[1]), rng.choice([-1.0, 1.0], size=Z.shape[1])
    sums = np.zeros((n_buckets, len(Z)))
    np.add.at(sums, bucket, (Z * sign).T)
    return sums.T


def _standardised(matrix: Matrix, part: Candidates) -> np.ndarray:
    # a copy: it may be a view of the user's data
    Z = np.array(matrix.read(slice(None), part.columns), dtype=np.float64)
    Z -= Z.mean(axis=0)
    scale = np.sqrt((Z**2).mean(axis=0))
    return np.divide(Z, scale, out=np.zeros_like(Z), where=scale > 0.0)


def _predicted(
    X: np.ndarray, gram: np.ndarray, targets: np.ndarray, weight: np.ndarray, is_out: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return predictions for the held-out rows from the selected columns, and from these with the ridge."""
    into = ~is_out & (weight > 0.0)
    root = np.sqrt(weight[into])[:, None]
    A = np.column_stack([np.ones(len(X)), X])
    coef = np.linalg.lstsq(A[into] * root, targets[into] * root, rcond=1e-10)[0]
    alone, left = A[is_out] @ coef, targets[into] - A[into] @ coef
    # the ridge uses rows times the roots of their weights; (K + λ)⁻¹ r divided by that matrix's diagonal leaves one row
    # out
    values, axes = np.linalg.eigh(gram[np.ix_(into, into)] * root * root.T)
    values, rotated = np.maximum(values, 0.0), axes.T @ (left * root)
    best, dual = math.inf, np.zeros_like(left)
    for strength in STRENGTHS * max(float(values.mean()), 1e-300):
        inverse = 1.0 / (values + strength)
        found = axes @ (rotated * inverse[:, None])
        loss = float(((found / ((axes**2) @ inverse)[:, None]) ** 2).sum())
        if loss < best:
            best, dual = loss, found
    return alone, alone + gram[np.ix_(is_out, into)] @ (dual * root)
