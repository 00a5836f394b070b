"""State shared by the steps of a group Lasso path."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from daskfs.kernels.glm.newton import Predictions, new_predictions
from daskfs.kernels.glm.state import DIRECTIONS

ENTERED, POSITIONS, KNOWN, PASSES, UNSOLVED, SEPARABLE_REFITS, KNOWN_DIRECTIONS, FACTORED = range(8)


class GroupState(NamedTuple):
    """Positions are the orthonormal columns of the entered groups, concatenated; position 0 is the intercept."""

    columns: np.ndarray  # (capacity, n) copies; no rows if all correlations are known
    entered: np.ndarray  # (n_groups,) in order of entry; the next three follow this order
    starts: np.ndarray  # (n_groups + 1,) group e has positions [1 + starts[e], 1 + starts[e + 1])
    prices: np.ndarray  # (n_groups,)
    reach: np.ndarray  # (n_groups,) upper bound of the largest eigenvalue of a group's block of the Hessian
    is_settled: np.ndarray  # (n_groups,) by group number: entered, or cannot enter
    reference: np.ndarray  # (p,) Q_gᵀ r of all groups at the reference residual, in the order of their members
    reference_size: np.ndarray  # (n_groups,) ‖Q_gᵀ r‖ there
    reference_residual: np.ndarray  # (n,)
    directions: np.ndarray  # (DIRECTIONS, n) orthonormal changes of the residuals between references, over the shares
    images: np.ndarray  # (DIRECTIONS, p) products of all Q_g with the directions
    predicted: np.ndarray  # (p,) Q_gᵀ r as far as reference and images determine it
    identity: np.ndarray  # (capacity + 1,) 0, 1, 2, ...: all positions as members
    at: Predictions
    weight: np.ndarray  # (n,) weights of the Hessian
    work: np.ndarray  # (n,)
    hessian: np.ndarray  # (capacity + 1, capacity + 1)
    coef: np.ndarray  # (capacity + 1,)
    base: np.ndarray  # (capacity + 1,) coefficients of the predictions
    gradient: np.ndarray  # (capacity + 1,) at `base`
    left: np.ndarray  # (capacity + 1,) at `coef`, according to the Hessian
    null_gradient: np.ndarray  # (capacity + 1,) of the null model
    null_residual: np.ndarray  # (n,)
    refit_at: Predictions
    refitted: np.ndarray  # (capacity + 1,) coefficients of the last refit
    members: np.ndarray  # (largest model,) rows of `columns` of the last refit, of which FACTORED are in the factor
    refit_weight: np.ndarray  # (n,) weights of the last refit's Hessian
    refit_hessian: np.ndarray  # (largest model + 1, largest model + 1)
    refit_factor: np.ndarray  # its Cholesky factor, or that of the correlations
    active: np.ndarray  # (n_groups,) positions in `entered` of the groups in the model
    counts: np.ndarray  # (8,) see the names above


def new_state(
    n_samples: int, n_features: int, n_groups: int, capacity: int, max_columns: int, is_whole: bool
) -> GroupState:
    """Return the initial state. `is_whole`: all correlations are known, and no row is read."""
    n, largest = 0 if is_whole else n_samples, min(max_columns, capacity)
    return GroupState(
        columns=np.empty((0 if is_whole else capacity, n)),  # memory pages are used only when columns are copied
        entered=np.zeros(n_groups, dtype=np.int64),
        starts=np.zeros(n_groups + 1, dtype=np.int64),
        prices=np.zeros(n_groups),
        reach=np.zeros(n_groups),
        is_settled=np.zeros(n_groups, dtype=np.bool_),
        reference=np.zeros(n_features),
        reference_size=np.zeros(n_groups),
        reference_residual=np.zeros(n),
        directions=np.empty((DIRECTIONS, n)),
        images=np.empty((DIRECTIONS, n_features)),
        predicted=np.zeros(n_features),
        identity=np.arange(capacity + 1),
        at=new_predictions(n),
        weight=np.zeros(n),
        work=np.zeros(n),
        hessian=np.zeros((capacity + 1, capacity + 1)),
        coef=np.zeros(capacity + 1),
        base=np.zeros(capacity + 1),
        gradient=np.zeros(capacity + 1),
        left=np.zeros(capacity + 1),
        null_gradient=np.zeros(capacity + 1),
        null_residual=np.zeros(n),
        refit_at=new_predictions(n),
        refitted=np.zeros(capacity + 1),
        members=np.zeros(largest, dtype=np.int64),
        refit_weight=np.zeros(n),
        refit_hessian=np.empty((largest + 1, largest + 1)),
        refit_factor=np.empty((largest + 1, largest + 1)),
        active=np.full(n_groups, -1, dtype=np.int64),
        counts=np.zeros(8, dtype=np.int64),
    )
