"""State shared by the steps of a group Lasso path."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from daskfs.kernels.glm.newton import Predictions, new_predictions

ENTERED, POSITIONS, KNOWN, PASSES, UNSOLVED, SEPARABLE_REFITS = range(6)


class GroupState(NamedTuple):
    """Positions are the orthonormal columns of the entered groups, concatenated; position 0 is the intercept."""

    columns: np.ndarray  # (capacity, n) copies; no rows if all correlations are known
    entered: np.ndarray  # (n_groups,) in order of entry; the next three follow this order
    starts: np.ndarray  # (n_groups + 1,) group e has positions [1 + starts[e], 1 + starts[e + 1])
    prices: np.ndarray  # (n_groups,)
    reach: np.ndarray  # (n_groups,) upper bound of the largest eigenvalue of a group's block of the Hessian
    is_settled: np.ndarray  # (n_groups,) by group number: entered, or cannot enter
    reference: np.ndarray  # (p,) gradient of every column at the reference residual
    reference_size: np.ndarray  # (n_groups,) ‖Q_gᵀ r‖ there
    reference_residual: np.ndarray  # (n,)
    identity: np.ndarray  # (capacity,) 0, 1, 2, ...: all positions as members
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
    active: np.ndarray  # (n_groups,) positions in `entered` of the groups in the model
    counts: np.ndarray  # (6,) see the names above


def new_state(n_samples: int, n_features: int, n_groups: int, capacity: int, is_whole: bool) -> GroupState:
    """Return the initial state. `is_whole`: all correlations are known, and no row is read."""
    n = 0 if is_whole else n_samples
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
        identity=np.arange(capacity),
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
        active=np.full(n_groups, -1, dtype=np.int64),
        counts=np.zeros(6, dtype=np.int64),
    )
