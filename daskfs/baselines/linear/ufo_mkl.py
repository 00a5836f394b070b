"""UFO-MKL: the group lasso by stochastic descent, in the dual of a mixed norm.

    Input: rows (X, y), weight of the loss C (λ = 1 / (n C)), ridge λ₂, q = 2 log(number of groups)
    1. θ = 0, w = 0. Row after row, in a random order, for t = 1, 2, ...:
    2.     θ = θ - loss'(y_i x_iᵀ w) x_i
    3.     v_g = (‖θ_g‖ - t λ p_g)₊;    w_g = v_g^(q-1) / (λ₂ t ‖v‖_q^(q-2)) θ_g / ‖θ_g‖
    4. Stop after n_epochs.

It minimises λ₂/2 ‖w‖²_(2,p) + λ Σ_g p_g ‖w_g‖ + the mean loss, with 1/p + 1/q = 1. F. Orabona and L. Jie, "Ultra-fast
optimization algorithm for sparse multi kernel learning", ICML (2011), Algorithm 1; used in section 8.6 of Tan, Tsang
and Wang (2014) with the logistic loss and 20 epochs. It converges because of the ridge, which the group lasso lacks.

Differs from the paper
----------------------
* The number of groups may be given: C is bisected.
* Columns are standardised. The intercept is a group of its own that is not penalised.
"""

from __future__ import annotations

import math

import numpy as np

from daskfs.baselines.linear.base import PenalisedFit
from daskfs.baselines.linear.groups import GroupBaseline, Grouped
from daskfs.kernels.baselines.group_lasso import ufo_epoch
from daskfs.parameters import Count, Positive
from daskfs.selectors.inputs import seed_of


class UfoMkl(GroupBaseline):
    """Select groups by stochastic descent over single rows.

    Parameters
    ----------
    C : float, optional
        Weight of the loss; an alternative to `n_features_to_select`. λ is 1 / (n C). By default ten times the smallest
        that selects anything.
    ridge : float
        λ₂.
    n_epochs : int
        Number of passes over the rows.
    random_state : int, RandomState or None
        Seed of the order of the rows.

    Attributes
    ----------
    selected_, support_, coef_, intercept_, classes_, scores_, groups_, group_names_, group_scores_, C_, n_fits_, \
n_iter_, result_
        See `GroupLasso`; an iteration is an epoch.

    Notes
    -----
    The fit holds all values twice as float64. A checkpoint stores the fit of each C.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).standard_normal((500, 30))
    >>> selector = UfoMkl(2, feature_groups=np.arange(30) // 3).fit(X, X[:, 3] - X[:, 4] > X[:, 7])
    >>> np.sort(selector.group_names_).tolist()
    ['1', '2']
    """

    method = "ufo_mkl"
    copies = 16
    loss = "logistic"

    ridge: Positive = 1e-2
    n_epochs: Count = 20

    def _solve(
        self, C: float, X: Grouped, y: np.ndarray, weight: np.ndarray, start: PenalisedFit | None
    ) -> PenalisedFit:
        rng = np.random.default_rng(seed_of(self.random_state))
        n_samples, n_members = len(y), len(X.groups.members)
        rows, share = np.ascontiguousarray(X.columns.columns.T), weight / weight.mean()
        power, lam = max(2.0, 2.0 * math.log(X.groups.n_groups)), 1.0 / (C * weight.sum())
        theta, coef = np.zeros((2, n_members + 1))
        for epoch in range(self.n_epochs):
            order, first = rng.permutation(n_samples), epoch * n_samples
            ufo_epoch(rows, X.columns, y, share, order, first, self.ridge, lam, power, theta, coef)
        return PenalisedFit(coef[:-1].copy(), float(coef[-1]), self.n_epochs)
