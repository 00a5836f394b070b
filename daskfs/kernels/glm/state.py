"""What the steps of the Lasso path of a loss share, in units of the standardised columns."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from daskfs.kernels.blocks.any_columns import new_columns
from daskfs.kernels.glm.newton import Predictions, new_predictions

NEAR = 32  # columns copied although not entered: their gradients come near λ
NEAR_ENTRIES = 256  # the same where columns stay entries: nothing is copied
DIRECTIONS = 4  # in which gradients are foretold
ENTERED, NEARBY, PASSES, SEPARABLE_REFITS, NEWTON_STEPS, HESSIANS, KNOWN, UNSOLVED = range(8)  # of GlmState.counts


class GlmState(NamedTuple):
    """What the steps of one path share."""

    columns: Any  # the entered features, standardised: copies of shape (capacity, n), or EnteredEntries
    near: Any  # of columns not entered
    near_features: np.ndarray  # room for the numbers of those
    near_slot: np.ndarray  # (p,) feature -> row of `near`, or -1
    is_settled: np.ndarray  # (p,) entered, or the twin of one that is
    entered: np.ndarray  # (capacity,) features in order of entry
    identity: np.ndarray  # (capacity,) 0, 1, 2 ...: all entered features as members
    reference: np.ndarray  # (p,) gradient of every column at the reference residual
    reference_residual: np.ndarray  # (n,)
    directions: np.ndarray  # (DIRECTIONS, n) orthonormal, that the residuals went between references; over the shares
    images: np.ndarray  # (DIRECTIONS, p) products of the columns with the directions
    predicted: np.ndarray  # (p,) gradient as far as reference and images tell
    at: Predictions
    weight: np.ndarray  # (n,) of which `hessian` is made
    work: np.ndarray  # (n,)
    hessian: np.ndarray  # (capacity + 1, capacity + 1) position 0 is the intercept
    coef: np.ndarray  # (capacity + 1,)
    gradient: np.ndarray  # (capacity + 1,)
    refit_at: Predictions
    members: np.ndarray  # (capacity,) positions of the features in the model that was refitted last
    refitted: np.ndarray  # (capacity,) coefficients of that refit
    counts: np.ndarray  # (8,)


def new_state(X: Any, capacity: int) -> GlmState:
    """Return the state before the first step, with room for `capacity` entered features of a block."""
    n_samples, n_features = X.shape
    n_near = min(NEAR if isinstance(X, np.ndarray) else NEAR_ENTRIES, n_features)
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
        work=np.zeros(n_samples),
        hessian=np.zeros((capacity + 1, capacity + 1)),
        coef=np.zeros(capacity + 1),
        gradient=np.zeros(capacity + 1),
        refit_at=new_predictions(n_samples),
        members=np.full(capacity, -1, dtype=np.int64),
        refitted=np.zeros(capacity),
        counts=np.zeros(8, dtype=np.int64),
    )
