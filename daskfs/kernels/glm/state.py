"""What the steps of the Lasso path of a loss share, in units of the standardised columns."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from daskfs.kernels.blocks.any_columns import new_columns
from daskfs.kernels.blocks.column_entries import ColumnEntries
from daskfs.kernels.glm.newton import Predictions, new_predictions

NEAR = 32  # columns copied although not entered: their gradients come near λ
NEAR_ENTRIES = 256  # the same where columns stay entries: nothing is copied
DIRECTIONS = 4  # in which gradients are foretold
COMBINED = 4  # Hessians kept, of which later ones are combined
ENTERED, NEARBY, PASSES, SEPARABLE_REFITS, NEWTON_STEPS, HESSIANS, KNOWN, UNSOLVED, KNOWN_HESSIANS, FREE = range(10)


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
    directions: np.ndarray  # (DIRECTIONS, n) orthonormal changes of the residuals between references, over the shares
    images: np.ndarray  # (DIRECTIONS, p) products of the columns with the directions
    predicted: np.ndarray  # (p,) gradient as far as reference and images tell
    at: Predictions
    weight: np.ndarray  # (n,) of which `hessian` is made
    weights: np.ndarray  # (COMBINED, n) of the Hessians that were made
    weight_products: np.ndarray  # (COMBINED, COMBINED)
    hessians: np.ndarray  # (COMBINED, capacity + 1, capacity + 1) what is above the diagonal is of no use
    mix: np.ndarray  # (COMBINED,) the combination that `hessian` is
    work: np.ndarray  # (n,)
    hessian: np.ndarray  # (capacity + 1, capacity + 1) position 0 is the intercept
    coef: np.ndarray  # (capacity + 1,)
    base: np.ndarray  # (capacity + 1,) where the predictions are: less than a tolerance away, by the last step
    gradient: np.ndarray  # (capacity + 1,) at `base`
    left: np.ndarray  # (capacity + 1,) the gradient at `coef`, as the Hessian has it
    refit_at: Predictions
    members: np.ndarray  # (capacity,) positions of the features in the model that was refitted last
    refit_base: np.ndarray  # (capacity + 1,) where the predictions of `refit_at` are
    refitted: np.ndarray  # (capacity,) coefficients of that refit
    counts: np.ndarray  # (10,) see the names above; the entered features that are FREE of the penalty come first


def new_state(X: Any, capacity: int) -> GlmState:
    """Return the state before the first step, with room for `capacity` entered features of a block."""
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
        counts=np.zeros(10, dtype=np.int64),
    )
