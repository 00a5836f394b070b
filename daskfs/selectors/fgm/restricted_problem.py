"""The restricted problem of FGM: groups of columns in memory, their coefficients, the dual variables, the bounds.

The objective is ½ (Σ_t ‖ω_t‖)² + Σ_i share_i loss(z_i, y_i), with share_i = C w_i and z = Σ_t X̃_t ω_t + shift. The
shift is the part without a penalty: the intercept, and the columns that are always included. The dual variables carry
the sign of the class, v_i = -share_i loss'(z_i, y_i), so that the scores are (x̃_jᵀ v)². For the squared hinge v_i is C
w_i y_i ξ_i, the paper's α_i y_i.

With several classes, each against the rest, every column has a coefficient for each class: ω_t is a matrix with the
Frobenius norm, the loss is summed over the classes, and the scores are Σ_c (x̃_jᵀ v_c)². The paper applies unchanged to
the n_classes · n rows of this one problem, whose columns are shared.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from daskfs.kernels.fgm.apg import START, descend
from daskfs.kernels.fgm.grouped_columns import Groups, add_predictions
from daskfs.kernels.fgm.mkl import alternate, simple_mkl
from daskfs.kernels.fgm.scores import scores_of
from daskfs.kernels.fgm.shift import Rows, dual_variables, fit_shift, new_rows
from daskfs.kernels.linear.linalg import factorise
from daskfs.kernels.linear.weighted_gram import extend_hessian
from daskfs.selectors.shared.record import Record

MAX_SHIFT_STEPS = 100
EXACT_SHIFT = 1e-13  # of the derivative in the shift when dual variables are computed, so that they sum to 0
POLISH_TOLERANCE = 1e-9
POLISH_FITS = 100
SCALING_STEPS = 60


@dataclass(frozen=True, slots=True)
class SolverSettings:
    """How a subproblem is solved."""

    solver: str
    inner_tol: float
    max_inner: int
    fit_intercept: bool
    n_kept: int
    conjugate: str
    """Conjugate of the loss, see `daskfs.losses.Loss`."""


@dataclass(frozen=True, slots=True)
class Solution(Record):
    """The state of a restricted problem, without the columns themselves."""

    ids: np.ndarray
    """Columns that are kept, in the order of their arrival."""
    members: np.ndarray
    """Columns of the matrix, group after group."""
    units: np.ndarray
    """The unit of each member."""
    bounds: np.ndarray
    """Group t has the members from ``bounds[t]`` to ``bounds[t + 1]``."""
    coef: np.ndarray
    """Coefficients of standardised columns; within a group all members for the first class, then for the second, ..."""
    shift: np.ndarray
    """For each class the intercept, then the coefficients of the columns that are always included."""
    tau: float
    """The last step length of the descent."""
    objective: float
    loss: float


class RestrictedProblem:
    """The problem on the present groups of columns, and its solution.

    Parameters
    ----------
    rows : Rows
        Loss, target and share of every row; held-out rows have share 0.
    n_classes : int
        Number of problems that share their columns: 1 for two classes or regression.
    settings : SolverSettings
    capacity : int
        Number of columns to reserve memory for.
    dtype : dtype
        Of the columns that are kept.
    """

    def __init__(self, rows: Rows, n_classes: int, settings: SolverSettings, capacity: int, dtype: np.dtype) -> None:
        self.rows, self.n_classes, self.settings, self.dtype = rows, n_classes, settings, dtype
        self.n_samples = len(rows.y) // n_classes
        self.ids, self.members, self.units = np.empty((3, 0), np.int64)
        self.bounds, self.coef = np.zeros(1, np.int64), np.empty(0)
        self.included, self.included_units = np.empty((2, 0), np.int64)
        self.tau = START * float(rows.share[: self.n_samples].sum())
        self._columns = np.empty((capacity, self.n_samples), dtype)
        self._centre, self._inverse = np.zeros((2, capacity))
        self._position: dict[int, int] = {}
        self.start()

    def start(self) -> None:
        """Fit the model without groups: only the part without a penalty, or nothing."""
        zero = np.zeros(len(self.rows.y))
        self.shift, self.loss = self._shifted(zero, np.zeros(self.n_classes * (1 + len(self.included))))
        self.objective = self.loss

    def include(self, columns: np.ndarray, units: np.ndarray, weight: np.ndarray) -> np.ndarray:
        """Add kept columns to the model without a penalty, like the intercept.

        Parameters
        ----------
        columns, units : ndarray of shape (n_columns,), int64
            The columns, and the unit of each.
        weight : ndarray of shape (n_samples,), float64
            Weights with which the columns are standardised, as for the coefficients that are compared.

        Returns
        -------
        ndarray of shape (n_columns,), bool
            Which columns are constant or a linear combination of those before them; their coefficients are 0.
        """
        places = self._places(columns)
        free = self._columns[places].astype(np.float64)
        with_shift, share = self.settings.fit_intercept, weight / weight.sum()
        centre = np.array(free[:, int(np.argmax(share > 0.0))]) if with_shift else np.zeros(len(columns))
        free -= centre[:, None]  # first by one of its own values, so that a constant column becomes exactly 0
        if with_shift:
            mean = np.einsum("ji,i->j", free, share)
            free -= mean[:, None]
            centre += mean
        scale = np.sqrt(np.einsum("ji,ji,i->j", free, free, share))
        inverse = np.divide(1.0, scale, out=np.zeros(len(scale)), where=scale > 0.0)
        free *= inverse[:, None]
        self._centre[places], self._inverse[places] = centre, inverse
        n = len(columns) + 1
        gram, factor = np.zeros((2, n, n))
        extend_hessian(free, np.arange(n - 1), n - 1, 0, share, gram, np.empty(len(share)))
        if not with_shift:
            gram[0], gram[:, 0] = 0.0, 0.0
        factorise(gram, n, 0.0, factor)
        self.included, self.included_units = columns, units
        self.rows = self._rows_with(self.rows.share[: self.n_samples], free)
        self.start()
        return np.diag(factor)[1:] <= 0.0

    def _shifted(self, z: np.ndarray, shift: np.ndarray) -> tuple[np.ndarray, float]:
        """Return the optimal shift for given predictions, and the loss there."""
        with_shift = self.settings.fit_intercept
        n_steps = MAX_SHIFT_STEPS if with_shift or len(self.included) else 0
        shift, loss = fit_shift(self.rows, z, shift, n_steps, EXACT_SHIFT, with_shift)
        return shift, loss

    def missing(self, columns: np.ndarray) -> np.ndarray:
        """Return the columns that are not kept yet."""
        return np.array([j for j in dict.fromkeys(columns.tolist()) if j not in self._position], dtype=np.int64)

    def keep(self, columns: np.ndarray, values: np.ndarray, centre: np.ndarray, inverse: np.ndarray) -> None:
        """Keep columns and their scaling; `values` has one column per row."""
        first = len(self._position)
        last = first + len(columns)
        if last > len(self._columns):
            self._make_room(last)
        self._columns[first:last] = values
        self._centre[first:last], self._inverse[first:last] = centre, inverse
        for k, column in enumerate(columns.tolist()):
            self._position[column] = first + k
        self.ids = np.concatenate([self.ids, columns])

    def _make_room(self, wanted: int) -> None:
        """Double the reserved memory if features leave and others enter."""
        more = max(wanted, 2 * len(self._columns)) - len(self._columns)
        self._columns = np.concatenate([self._columns, np.empty((more, self._columns.shape[1]), self.dtype)])
        self._centre = np.concatenate([self._centre, np.zeros(more)])
        self._inverse = np.concatenate([self._inverse, np.zeros(more)])

    def add_group(self, columns: np.ndarray, units: np.ndarray) -> None:
        """Add a group of columns, each with its unit; their coefficients start at 0."""
        self.members, self.units = np.concatenate([self.members, columns]), np.concatenate([self.units, units])
        self.bounds = np.concatenate([self.bounds, [len(self.members)]])
        self.coef = np.concatenate([self.coef, np.zeros(len(columns) * self.n_classes)])

    @property
    def features(self) -> np.ndarray:
        """Columns in any group, ascending."""
        return np.unique(self.members)

    def coefficients(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the columns in any group or always included, ascending, and their standardised coefficients.

        The coefficients have shape (n_classes, n_features).
        """
        return _summed(np.concatenate([self.members, self.included]), self._coef_of_classes())

    def norms(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the units in any group or always included, ascending, their norms, and which are used.

        A column of several units has a coefficient for each. A unit is used if any coefficient of it is nonzero, or if
        it is always included.
        """
        members = np.concatenate([self.members, self.included])
        units, of_unit = np.unique(np.concatenate([self.units, self.included_units]), return_inverse=True)
        pairs, place = np.unique(np.stack([of_unit, members]), axis=1, return_inverse=True)
        coef = _summed(place.ravel(), self._coef_of_classes())[1]
        is_used = np.bincount(pairs[0], weights=coef.any(axis=0), minlength=len(units)) > 0.0
        is_used |= np.isin(units, self.included_units)
        return units, np.sqrt(np.bincount(pairs[0], weights=(coef**2).sum(axis=0), minlength=len(units))), is_used

    def _coef_of_classes(self) -> np.ndarray:
        """Return the coefficients as a matrix of shape (n_classes, n_members + n_included)."""
        spans = [(self.n_classes * a, self.n_classes * b) for a, b in pairwise(self.bounds)]
        parts = [self.coef[a:b].reshape(self.n_classes, -1) for a, b in spans]
        return np.concatenate([*parts, self.shift.reshape(self.n_classes, -1)[:, 1:]], axis=1)

    @property
    def intercept(self) -> np.ndarray:
        """The intercept of each class for standardised columns; shape (n_classes,)."""
        return self.shift.reshape(self.n_classes, -1)[:, 0]

    def kept(self, features: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the kept columns as they are stored, one per row, and the positions of some of them."""
        return self._columns[: len(self._position)], self._places(features)

    def scaling_of(self, features: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the scaling of kept columns: x̃ = (x - centre) * inverse."""
        places = self._places(features)
        return self._centre[places], self._inverse[places]

    def scores(self, features: np.ndarray, v: np.ndarray) -> np.ndarray:
        """Return the scores Σ_c (x̃ᵀ v_c)² of kept columns; v has shape (n_classes, n_samples)."""
        places = self._places(features)
        products = np.zeros((len(v), len(places)))
        for place, of_column in zip(places.tolist(), products.T, strict=True):
            for c, vector in enumerate(v):
                scores_of(self._columns[place][:, None], vector, of_column[c : c + 1])
        products -= self._centre[places] * v.sum(axis=1)[:, None]
        products *= self._inverse[places]
        found: np.ndarray = (products * products).sum(axis=0)
        return found

    def _places(self, features: np.ndarray) -> np.ndarray:
        return np.array([self._position[j] for j in features.tolist()], dtype=np.int64)

    def groups(self) -> Groups:
        """Return the columns in groups, and the groups, in the form that the kernels take."""
        used = len(self._position)
        position = self._places(self.members)
        n_classes = self.n_classes
        parts = [(position[a:b] * n_classes + np.arange(n_classes)[:, None]).ravel() for a, b in pairwise(self.bounds)]
        members, bounds = np.concatenate([np.empty(0, np.int64), *parts]), self.bounds * n_classes
        return Groups(self._columns[:used], self._centre[:used], self._inverse[:used], members, bounds, n_classes)

    def solve(self) -> int:
        """Solve the subproblem (31) with a warm start; return the number of iterations."""
        groups, settings, with_shift = self.groups(), self.settings, self.settings.fit_intercept
        ends: dict[str, Any] = {"tol": settings.inner_tol, "max_iter": settings.max_inner}
        if settings.solver == "simple_mkl":
            end = simple_mkl(groups, self.rows, self.coef, self.shift, fit_intercept=with_shift, **ends)
            self.coef, self.shift, n_iter = end.coef, end.shift, end.n_iter
        else:
            point = (self.coef, self.shift, self.tau)
            found = descend(groups, self.rows, *point, fit_intercept=with_shift, n_kept=settings.n_kept, **ends)
            self.coef, self.shift, self.tau, n_iter = found.coef, found.shift, found.tau, found.n_iter
        if settings.solver == "exact":
            ends = {"tol": POLISH_TOLERANCE, "max_iter": POLISH_FITS}
            end = alternate(groups, self.rows, self.coef, self.shift, fit_intercept=with_shift, **ends)
            self.coef, self.shift, n_iter = end.coef, end.shift, n_iter + end.n_iter
        self.shift, self.loss = self._shifted(self.predictions(), self.shift)
        norms = [np.linalg.norm(self.coef[a:b]) for a, b in pairwise(self.bounds * self.n_classes)]
        self.objective = 0.5 * float(np.sum(norms)) ** 2 + self.loss
        return int(n_iter)

    def refit(self, share: np.ndarray, n_groups: int) -> int:
        """Solve again on the first groups, with other shares of the rows; return the number of iterations."""
        self.bounds = self.bounds[: n_groups + 1]
        last = self.bounds[-1]
        self.members, self.units = self.members[:last], self.units[:last]
        self.coef = self.coef[: last * self.n_classes]
        self.rows = self._rows_with(share)
        if len(self.coef):
            return self.solve()
        self.start()
        return 0

    def _rows_with(self, share: np.ndarray, free: np.ndarray | None = None) -> Rows:
        free = self.rows.free if free is None else free
        return new_rows(self.rows.loss, self.rows.y.reshape(self.n_classes, -1), share, free)

    def predictions(self) -> np.ndarray:
        """Return z without the shift, recomputed from the columns, shape (n_classes * n_samples,)."""
        z = np.zeros(len(self.rows.y))
        if len(self.coef):
            add_predictions(self.groups(), 0, len(self.coef), self.coef, z)
        return z

    def fitted(self) -> np.ndarray:
        """Return the predictions with the shift, shape (n_classes, n_samples)."""
        of_included = self.shift.reshape(self.n_classes, -1)[:, 1:]
        z = self.predictions().reshape(self.n_classes, -1) + self.intercept[:, None]
        for column, coef in zip(self.rows.free, of_included.T, strict=True):
            z += coef[:, None] * column
        return z

    def dual(self) -> np.ndarray:
        """Return the dual variables v, shape (n_classes, n_samples)."""
        v = np.empty(len(self.rows.y))
        dual_variables(self.rows, self.predictions(), self.shift, v)
        return v.reshape(self.n_classes, -1)

    def unit_dual(self) -> np.ndarray:
        """Return the dual variables, scaled so that no column of variance 1 scores above 1 (Cauchy-Schwarz)."""
        v, share = self.dual(), self.rows.share.reshape(self.n_classes, -1)
        squares = np.divide(v * v, share, out=np.zeros_like(v), where=share > 0.0)
        most = float(squares.sum() * share[0].sum())
        return v / np.sqrt(most) if most > 0.0 else v

    def mean_loss(self, weight: np.ndarray) -> float:
        """Return the mean loss for other weights of the rows, for example those held out."""
        other = self._rows_with(weight)
        fit = fit_shift(other, self.predictions(), self.shift, 0, 0.0, self.settings.fit_intercept)
        return float(fit[1] / weight.sum())

    def solution(self) -> Solution:
        """Return the state of the problem."""
        state = (self.ids, self.members, self.units, self.bounds, self.coef)
        return Solution(*state, self.shift, float(self.tau), float(self.objective), float(self.loss))

    def restore(self, solution: Solution) -> None:
        """Restore a solution; its columns are kept already."""
        self.members, self.units = solution.members, solution.units
        self.bounds, self.coef = solution.bounds, solution.coef
        self.shift, self.tau = solution.shift, solution.tau
        self.objective, self.loss = solution.objective, solution.loss


def _summed(labels: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the distinct labels, ascending, and for each the sum of its columns of `values` (n_values, n_labels)."""
    distinct, place = np.unique(labels, return_inverse=True)
    return distinct, np.array([np.bincount(place, weights=row, minlength=len(distinct)) for row in values])


def lower_bound(rows: Rows, v: np.ndarray, quadratic: float, conjugate: str) -> float:
    """Return the largest value of the dual along multiples of v: a lower bound of the optimum of the whole problem.

    Parameters
    ----------
    rows : Rows
    v : ndarray of shape (n_classes * n_samples,)
        Dual variables. Those of a class are orthogonal to the part without a penalty, so with an intercept they sum to
        0.
    quadratic : float
        The sum of the B largest scores: the squared dual norm of the k-support norm, k = B, at Xᵀ v.
    conjugate : {"quadratic", "entropy"}
        Conjugate of the loss.

    Returns
    -------
    float
        max over s of -Σ_i conjugate_i(-s v_i) - ½ s² quadratic.
    """
    used = rows.share > 0.0
    y, share, v = rows.y[used], rows.share[used], v[used]
    if conjugate == "quadratic":
        linear, square = float(y @ v), float(v @ (v / share)) + quadratic
        return 0.5 * linear**2 / square if square > 0.0 and linear > 0.0 else 0.0
    alpha = np.clip(y * v, 0.0, share)
    low, high = 0.0, 1.0
    for _ in range(SCALING_STEPS):
        s = 0.5 * (low + high)
        low, high = (s, high) if _slope(s, alpha, share, quadratic) > 0.0 else (low, s)
    s = 0.5 * (low + high)
    return float(_entropy(s * alpha, share).sum()) - 0.5 * s * s * quadratic


def _slope(s: float, alpha: np.ndarray, share: np.ndarray, quadratic: float) -> float:
    a = s * alpha
    with np.errstate(divide="ignore"):
        each = np.where(alpha > 0.0, alpha * (np.log(share - a) - np.log(np.where(a > 0.0, a, 1.0))), 0.0)
    return float(each.sum()) - s * quadratic


def _entropy(alpha: np.ndarray, share: np.ndarray) -> np.ndarray:
    """Return minus the conjugate of C log(1 + exp(-z)): 0 at 0 and at C."""
    p = alpha / share
    with np.errstate(divide="ignore", invalid="ignore"):
        result: np.ndarray = -share * np.where((p > 0.0) & (p < 1.0), p * np.log(p) + (1.0 - p) * np.log1p(-p), 0.0)
    return result
