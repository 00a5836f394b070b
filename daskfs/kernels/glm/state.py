"""State shared by the steps of a loss's Lasso path, in units of the standardised columns."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from daskfs.kernels.blocks.any_columns import new_columns
from daskfs.kernels.blocks.column_entries import ColumnEntries
from daskfs.kernels.glm.newton import Predictions, new_predictions

NEAR = 32  # columns that are copied although not entered, because their gradients are close to λ
NEAR_ENTRIES = 256  # the same for sparse columns, which are not copied
DIRECTIONS = 4  # of residuals, from which gradients are predicted
COMBINED = 4  # number of Hessians that are kept for combinations
ENTERED, NEARBY, PASSES, SEPARABLE_REFITS, NEWTON_STEPS, KNOWN, UNSOLVED, KNOWN_HESSIANS, FREE = range(9)


class GlmState(NamedTuple):
    """State shared by the steps of one path."""

    columns: Any  # the entered features, standardised: copies of shape (capacity, n), or EnteredEntries
    near: Any  # columns that have not entered
    near_features: np.ndarray  # room for their numbers
    near_slot: np.ndarray  # (p,) feature -> row of `near`, or -1
    is_settled: np.ndarray  # (p,) entered, or equal to an entered column
    entered: np.ndarray  # (capacity,) features in order of entry
    identity: np.ndarray  # (capacity,) 0, 1, 2 ...: members if all entered features are
    reference: np.ndarray  # (p,) gradient of every column at the reference residual
    reference_residual: np.ndarray  # (n,)
    directions: np.ndarray  # (DIRECTIONS, n) orthonormal changes of the residuals between references, over the shares
    images: np.ndarray  # (DIRECTIONS, p) products of the columns with the directions
    predicted: np.ndarray  # (p,) gradient as far as reference and images determine it
    at: Predictions
    weight: np.ndarray  # (n,) weights of `hessian`
    weights: np.ndarray  # (COMBINED, n) weights of the stored Hessians
    weight_products: np.ndarray  # (COMBINED, COMBINED)
    hessians: np.ndarray  # (COMBINED, capacity + 1, capacity + 1) the upper triangle is not used
    mix: np.ndarray  # (COMBINED,) coefficients of the combination in `hessian`
    work: np.ndarray  # (n,)
    hessian: np.ndarray  # (capacity + 1, capacity + 1) position 0 is the intercept
    coef: np.ndarray  # (capacity + 1,)
    base: np.ndarray  # (capacity + 1,) coefficients of the predictions, up to a last step below a tolerance
    gradient: np.ndarray  # (capacity + 1,) at `base`
    left: np.ndarray  # (capacity + 1,) the gradient at `coef` according to the Hessian
    refit_at: Predictions
    members: np.ndarray  # (capacity,) positions of the features of the last refit
    refit_base: np.ndarray  # (capacity + 1,) coefficients of the predictions of `refit_at`
    refitted: np.ndarray  # (capacity,) coefficients of the last refit
    counts: np.ndarray  # (9,) see the names above; the FREE entered features, without a penalty, come first


def new_state(X: Any, capacity: int) -> GlmState:
    """Return the initial state, with room for `capacity` entered features of a block."""
    n_samples, n_features = X.shape
    n_near = min(NEAR_ENTRIES if isinstance(X, ColumnEntries) else NEAR, n_features)
    return GlmState(
        columns=new_columns(X, capacity),
        near=new_columns(X, n_near, makes_hessians=False),
        near_features=np.zeros(n_near, dtype=np.int64),
        near_slot=np.full(n_features, -1, dtype=np.int64),
        is_settled=np.zeros(n_features, dtype=np.bool_),
        entered=np.zeros(capacity, dtype=np.int64),
        identity=np.arange(capacity),
        reference=np.zeros(n_features),
        reference_residual=np.zeros(n_samples),
        directions=np.empty((DIRECTIONS, n_samples)),
        images=np.empty((DIRECTIONS, n_features)),
        predicted=np.zeros(n_features),
        at=new_predictions(n_samples),
        weight=np.zeros(n_samples),
        weights=np.zeros((COMBINED, n_samples)),
        weight_products=np.zeros((COMBINED, COMBINED)),
        hessians=np.empty((COMBINED, capacity + 1, capacity + 1)),
        mix=np.zeros(COMBINED),
        work=np.zeros(n_samples),
        hessian=np.zeros((capacity + 1, capacity + 1)),
        coef=np.zeros(capacity + 1),
        base=np.zeros(capacity + 1),
        gradient=np.zeros(capacity + 1),
        left=np.zeros(capacity + 1),
        refit_at=new_predictions(n_samples),
        members=np.full(capacity, -1, dtype=np.int64),
        refit_base=np.zeros(capacity + 1),
        refitted=np.zeros(capacity),
        counts=np.zeros(9, dtype=np.int64),
    )
