"""SGD-SLR: sparse logistic regression by proximal stochastic dual coordinate ascent.

    Input: rows (X, y), weight of the loss C (σ = 1 / (n C)), ridge λ
    1. α = 0, u = 0; w_j = sign(u_j) max(|u_j| - σ / λ, 0).
    2. For each row, in a random order: α_i moves towards -loss'(x_iᵀ w), and u is updated.
    3. Until the duality gap is below tol, or after n_epochs.

S. Shalev-Shwartz and T. Zhang, "Accelerated proximal stochastic dual coordinate ascent for regularized loss
minimization", Mathematical Programming 155 (2016); a baseline of Tan, Tsang and Wang (2014), section 8, who set
λ = 1e-4 and tol = 1e-5 and vary σ.

Differs from the paper
----------------------
* The number of features may be given: the penalty is bisected.
* Dense columns are standardised first. A sparse matrix is made dense, and its columns are not standardised.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from daskfs.baselines.linear.base import LinearBaseline, PenalisedFit
from daskfs.kernels.baselines.sdca import sdca_epoch, sdca_gap
from daskfs.parameters import Count, Positive
from daskfs.selectors.inputs import seed_of

CHECK_EPOCHS = 5  # epochs between two computations of the gap


class SgdSlr(LinearBaseline, renamed={"max_epochs": "n_epochs"}):
    """Select by l1 and ridge penalties on a logistic loss, fitted one row at a time, in memory.

    Parameters
    ----------
    C : float, optional
        Weight of the loss; an alternative to `n_features_to_select`. The paper's σ is 1 / (n C). By default ten times
        the smallest that selects anything.
    ridge : float
        The paper's λ.
    tol : float
        Tolerance of the duality gap of the mean loss.
    n_epochs : int
        Maximum number of passes over the rows.
    fit_intercept : bool
        Whether there is an intercept; the ridge shrinks it too.
    random_state : int, RandomState or None
        Seed of the order of the rows.

    Attributes
    ----------
    selected_, support_, coef_, intercept_, classes_, scores_, C_, n_fits_, n_iter_, result_
        See `daskfs.baselines.linear.l1_liblinear.L1Liblinear`; an iteration is an epoch.

    Notes
    -----
    The fit holds all values as float64. As in `L1Liblinear`, a checkpoint stores the fit of each C, and the columns of
    a sparse matrix are not standardised: the selection may differ from that of the same numbers in a dense matrix.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).standard_normal((500, 30))
    >>> np.sort(SgdSlr(2).fit(X, X[:, 3] > X[:, 7]).selected_)
    array([3, 7])
    """

    method = "sgd_slr"
    _weighs_columns = True
    copies = 8
    loss = "logistic"

    ridge: Positive = 1e-4
    tol: Positive = 1e-4
    n_epochs: Count = 200
    fit_intercept: bool = True

    def _least(self, X: Any, y: np.ndarray, weight: np.ndarray) -> float:
        largest = float(np.abs(X.T @ (weight * y)).max())
        return 2.0 / largest if largest > 0.0 else 1.0

    def _solve(self, C: float, X: Any, y: np.ndarray, weight: np.ndarray, start: PenalisedFit | None) -> PenalisedFit:
        X = X.toarray() if hasattr(X, "toarray") else X
        share = weight / weight.sum()
        penalty = 1.0 / (C * weight.sum())
        rng = np.random.default_rng(seed_of(self.random_state))
        alpha, u = np.zeros(len(y)), np.zeros(X.shape[1] + 1)
        squares = np.einsum("ij,ij->i", X, X) + self.fit_intercept
        w = u
        for epoch in range(self.n_epochs):
            order = rng.permutation(len(y))
            sdca_epoch(X, y, share, squares, self.ridge, penalty, order, alpha, u, self.fit_intercept)
            if epoch % CHECK_EPOCHS == CHECK_EPOCHS - 1 or epoch == self.n_epochs - 1:
                gap, w = sdca_gap(X, y, share, self.ridge, penalty, alpha, u)
                if gap <= self.tol:
                    break
        return PenalisedFit(w[:-1].copy(), float(w[-1]), epoch + 1)
