"""The group lasso over all columns in memory: FISTA, block coordinate descent, or an active set.

    min over w, b of Σ_g p_g ‖w_g‖ + C Σ_i loss(x_iᵀ w + b, y_i)

    fista       gradient steps of all groups with momentum and the penalty's proximal map; step size by backtracking
    bcd         one group at a time, in sweeps over all groups
    active_set  bcd over the groups with nonzero coefficients; groups whose gradient exceeds their penalty join, the
                worst first, up to doubling their number in each round, until there are none

M. Yuan and Y. Lin, "Model selection and estimation in regression with grouped variables", Journal of the Royal
Statistical Society B 68 (2006); (15) of Tan, Tsang and Wang (2014), who compare FGM in section 8.6 with FISTA (J. Liu
and J. Ye, "Moreau-Yosida regularization for grouped tree structure learning", NIPS 2010: SLEP), block coordinate
descent (Z. Qin, K. Scheinberg and D. Goldfarb, "Efficient block-coordinate descent algorithms for the group lasso",
2010) and active sets (F. Bach, arXiv 0909.0844, 2009; V. Roth and B. Fischer, ICML 2008).

Differs from the paper
----------------------
* A group's own problem is not solved by Newton's method but by a gradient step with the group's curvature and the
  proximal map (P. Tseng and S. Yun, Mathematical Programming 117, 2009). For groups of one column it is exact.
* The active set takes many groups at once; Bach's takes one. Strong rules (R. Tibshirani et al., Journal of the Royal
  Statistical Society B 74, 2012) would save nothing, because the groups that they discard must be checked anyway.
* The number of groups may be given: C is bisected, and each fit starts from the one before.
* Columns are standardised, and the intercept is not penalised.
"""

from __future__ import annotations

import math
from typing import Annotated, Literal

import numpy as np

from daskfs.baselines.linear.base import PenalisedFit
from daskfs.baselines.linear.groups import GroupBaseline, Grouped
from daskfs.baselines.null_model import null_model
from daskfs.kernels.baselines.group_lasso import descend_groups, gradient_norms, penalty_of, shrink_groups
from daskfs.kernels.baselines.online_descent import predict, products, refresh
from daskfs.kernels.glm.newton import Predictions, Problem, new_predictions
from daskfs.kernels.losses import values
from daskfs.losses import BOUNDED_CURVATURE, ONE_PREDICTION, find_loss
from daskfs.parameters import Count, LossOf, Positive

GROWTH = 2.0  # factor of the step's curvature if the step was too long
RELAXATION = 0.9  # factor of the curvature before each step; steps grow again, as in SLEP
ROUNDING = 1e-12  # share of a loss, by which the quadratic approximation may lie below it
FEWEST_NEW = 10  # smallest number of groups that join an active set


class GroupLasso(GroupBaseline):
    """Select whole groups by the norm of their coefficients.

    Parameters
    ----------
    loss : {"auto", "squared", "logistic", "squared_hinge"}
        Loss of two classes, or of numbers.
    solver : {"active_set", "bcd", "fista"}
        All solvers reach the same coefficients, because the problem is convex.
    tol : float
        Stop when no group's step, times the curvature, is larger than this share of its penalty.
    max_iter : int
        Maximum number of sweeps over the groups, or of FISTA's steps.
    debias : bool
        Whether `coef_` is from a refit on the selected features alone, as in `FGM`.
    random_state : int, RandomState or None
        Has no effect.

    Attributes
    ----------
    selected_ : ndarray of shape (n_selected,)
        Columns of the selected groups, by `scores_`.
    support_ : ndarray of shape (n_features,), bool
    coef_ : ndarray of shape (n_features,)
        Coefficients on the scale of the data. They are shrunk by the penalty unless `debias`.
    intercept_ : float
    classes_ : ndarray of shape (2,)
        Set for a loss of classes.
    scores_ : ndarray of shape (n_features,)
        Absolute value of the standardised coefficient.
    groups_, group_names_, group_scores_ : ndarray of shape (n_selected_groups,)
        Set if `feature_groups` is given: numbers, names, and norms of the standardised coefficients.
    C_ : float
    n_fits_, n_iter_ : int
        Number of fits, and number of sweeps or steps of the last one.
    result_ : SelectionResult

    Notes
    -----
    The fit holds all values as float64, also those of sparse columns. A checkpoint stores the fit of each C.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).standard_normal((500, 30))
    >>> selector = GroupLasso(2, feature_groups=np.arange(30) // 3).fit(X, X[:, 3] - X[:, 4] > X[:, 7])
    >>> selector.group_names_.tolist(), np.sort(selector.selected_).tolist()
    (['1', '2'], [3, 4, 5, 6, 7, 8])
    """

    method = "group_lasso"

    loss: Annotated[str, LossOf(BOUNDED_CURVATURE, ONE_PREDICTION, among=("squared", "logistic", "squared_hinge"))] = (
        "auto"
    )
    solver: Literal["active_set", "bcd", "fista"] = "active_set"
    tol: Positive = 1e-4
    max_iter: Count = 1000
    debias: bool = False

    def _solve(
        self, C: float, X: Grouped, y: np.ndarray, weight: np.ndarray, start: PenalisedFit | None
    ) -> PenalisedFit:
        problem, lam = self._problem(y, weight), 1.0 / (C * weight.sum())
        coef, intercept = np.zeros(len(X.groups.members)), np.zeros(1)
        if start is None:
            intercept[0] = null_model(problem)[0]
        else:
            coef[:], intercept[0] = start.coef, start.intercept
        solve = {"fista": self._fista, "bcd": self._descend_all, "active_set": self._descend_active}[self.solver]
        n_iter = solve(problem, X, lam, coef, intercept)
        return PenalisedFit(coef, float(intercept[0]), n_iter)

    def _descend_all(self, problem: Problem, X: Grouped, lam: float, coef: np.ndarray, intercept: np.ndarray) -> int:
        at, every = _predicted(problem, X, np.append(coef, intercept)), np.arange(X.groups.n_groups)
        return self._descend(problem, X, every, lam, coef, intercept, at)

    def _descend_active(self, problem: Problem, X: Grouped, lam: float, coef: np.ndarray, intercept: np.ndarray) -> int:
        at, norms = _predicted(problem, X, np.append(coef, intercept)), np.empty(X.groups.n_groups)
        is_active, n_iter = self._sizes(X, coef) > 0.0, 0
        while n_iter < self.max_iter:
            gradient_norms(X.columns, at.residual, norms)
            excess = np.where(is_active, 0.0, norms / (lam * X.columns.penalty) - 1.0)
            joining = np.flatnonzero(excess > self.tol)
            n_active = int(is_active.sum())
            if n_iter and not len(joining):
                break
            joining = joining[np.lexsort((joining, -excess[joining]))][: max(FEWEST_NEW, n_active)]
            is_active[joining] = True
            n_iter += self._descend(problem, X, np.flatnonzero(is_active), lam, coef, intercept, at)
        return n_iter

    def _descend(
        self,
        problem: Problem,
        X: Grouped,
        which: np.ndarray,
        lam: float,
        coef: np.ndarray,
        intercept: np.ndarray,
        at: Predictions,
    ) -> int:
        bound = find_loss(self.loss_).curvature_bound
        return int(descend_groups(problem, bound, X.columns, which, lam, coef, intercept, at, self.tol, self.max_iter))

    def _fista(self, problem: Problem, X: Grouped, lam: float, coef: np.ndarray, intercept: np.ndarray) -> int:
        """Take accelerated steps. A step that raises the objective is repeated without momentum."""
        members, here = X.groups.members, np.append(coef, intercept)
        beyond, momentum = here.copy(), 1.0
        curvature, objective = find_loss(self.loss_).curvature_bound, math.inf
        n_iter = 0
        while n_iter < self.max_iter:
            n_iter += 1
            at = _predicted(problem, X, beyond)
            product = np.empty(len(X.columns.columns))
            products(X.columns.columns, at.residual, product)
            down, value = np.append(product[members], at.residual.sum()), _mean_loss(problem, at)
            curvature *= RELAXATION
            while True:
                found = beyond + down / curvature
                shrink_groups(X.columns, found.copy(), 1.0 / curvature, lam, found)
                step, then = found - beyond, _predicted(problem, X, found)
                model = value - down @ step + 0.5 * curvature * (step @ step)
                if _mean_loss(problem, then) <= model + ROUNDING * abs(value):
                    break
                curvature *= GROWTH
            now = _mean_loss(problem, then) + lam * penalty_of(X.columns, found)
            if now > objective and momentum > 1.0:
                beyond, momentum = here.copy(), 1.0
                continue
            faster = 0.5 * (1.0 + math.sqrt(1.0 + 4.0 * momentum**2))
            beyond = found + (momentum - 1.0) / faster * (found - here)
            here, momentum, objective = found, faster, now
            longest = float((self._sizes(X, step[:-1]) / X.columns.penalty).max())
            if curvature * max(longest, lam * abs(step[-1])) <= self.tol * lam:
                break
        coef[:], intercept[0] = here[:-1], here[-1]
        return n_iter


def _predicted(problem: Problem, X: Grouped, coef: np.ndarray) -> Predictions:
    """Return the predictions of the coefficients; the intercept is the last one."""
    at = new_predictions(len(problem.y))
    of_columns = np.bincount(X.groups.members, weights=coef[:-1], minlength=len(X.columns.columns))
    predict(X.columns.columns, len(of_columns), of_columns, coef[-1], at.z)
    refresh(problem, at)
    return at


def _mean_loss(problem: Problem, at: Predictions) -> float:
    values(problem.loss.code, problem.threshold, at.z, problem.y, at.scratch, at.bits)
    return float(problem.share @ at.scratch)
