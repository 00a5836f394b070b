"""OMP: the column most correlated with the residual joins the model, and the model is refitted; repeated s times.

    Input: rows (X, y), number of features s, columns per pass B
    1. S = ∅, r = y - ȳ.
    2. In a pass over all columns: S = S ∪ {the B columns outside S of largest |x_j' r| / ‖x_j‖};
    3. refit the columns of S; r = residuals (for other losses, minus the derivatives of the loss).

Y. C. Pati, R. Rezaiifar and P. S. Krishnaprasad, "Orthogonal Matching Pursuit", Proceedings of the 27th Asilomar
Conference on Signals, Systems and Computers (1993). With B > 1 it is the generalised OMP of J. Wang, S. Kwon and B.
Shim, IEEE Transactions on Signal Processing 60 (2012). It is the batch method that online methods are measured against.

Differs from the papers
-----------------------
* Out of core: columns are read in blocks, and the selected ones are kept. With B = 1 the columns, their order and the
  coefficients are those of scikit-learn's OrthogonalMatchingPursuit, which needs all columns in memory.
* A column that is a linear combination of the selected ones is skipped, and the next one is taken.
* Losses other than squares are refitted by Newton's method, with a small ridge while columns are added.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from daskfs.baselines.columns.base import TOLERANCE, Chosen, ColumnBaseline, largest
from daskfs.baselines.null_model import null_model
from daskfs.baselines.standard_columns import StandardColumns
from daskfs.kernels.baselines.online_descent import predict, products, refresh
from daskfs.kernels.glm.newton import Predictions, Problem, mean_loss, newton
from daskfs.kernels.linear.linalg import extend_cholesky, solve_cholesky
from daskfs.parameters import Count, NotNegative

EXPLAINED = 1e-12  # share of the largest product at the start; below it nothing is left to explain


class OrthogonalMatchingPursuit(ColumnBaseline, renamed={"per_pass": "n_features_per_pass"}):
    """Select by orthogonal matching pursuit, with one or more columns per pass over the data.

    Parameters
    ----------
    n_features_per_pass : int
        Number of columns that join in one pass, the B of generalised OMP.
    ridge : float, optional
        Ridge of the refits between passes, in units of the mean loss. The default is 0 with the squared loss and 3 % of
        the curvature's bound with the others. The final refit has no ridge.

    Attributes
    ----------
    selected_, support_, coef_, intercept_, scores_ : see `daskfs.baselines.columns.base.ColumnBaseline`
    result_ : SelectionResult
        The history has one row for each column, in the order in which they joined: index, pass, product (with the
        residual), objective (after the pass).

    Notes
    -----
    The fit reads the matrix once per `n_features_per_pass` columns, unless all columns stay in memory (up to 1 GiB, or
    what `memory_limit` leaves). It holds the selected columns, 8 n s bytes.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).standard_normal((500, 30))
    >>> OrthogonalMatchingPursuit(2).fit(X, 2 * X[:, 3] - X[:, 7]).selected_
    array([3, 7])
    """

    method = "orthogonal_matching_pursuit"
    _weighs_columns = True
    keeps_columns, joins_for_good = True, True
    history_columns: ClassVar = {"index": int, "pass": int, "product": float, "objective": float}

    n_features_per_pass: Count = 1
    ridge: NotNegative | None = None

    def _held_nbytes(self, n_samples: int, n_features: int, n_select: int) -> int:
        return 8 * n_samples * (n_select + 12) + 40 * (n_select + 1) ** 2 + 40 * n_features

    def _planned_passes(self, n_select: int) -> tuple[int, str]:
        n_passes = -(-n_select // self.n_features_per_pass)
        return n_passes, f"a pass over all columns for every {self.n_features_per_pass} selected"

    def _select(self, columns: StandardColumns, problem: Problem, n_select: int) -> Chosen:
        ridge = self._loss.ridge * self._loss.curvature_bound if self.ridge is None else self.ridge
        first, at = null_model(problem)
        model = _Growing(problem, n_select, first, ridge)
        is_out = np.zeros(columns.n_features, dtype=bool)
        lines: list[tuple[float, ...]] = []
        notes, enough = [], 0.0
        while len(lines) < n_select:
            found = columns.products(at.residual)
            size = np.where(is_out, 0.0, np.abs(found))
            enough = enough or EXPLAINED * float(size.max())
            size[size <= enough] = 0.0
            wanted = min(self.n_features_per_pass, n_select - len(lines))
            joined = model.extend(columns, largest(size, columns.n_features), wanted, is_out)
            if not joined:
                notes.append("no column is left that explains more")
                break
            model.refit(at)
            objective = mean_loss(problem, at.z, at)
            lines += [(j, columns.n_passes, found[j], objective) for j in joined]
        notes.append("each had the largest product with the residual when it joined")
        return np.array([line[0] for line in lines], dtype=np.int64), lines, notes


class _Growing:
    """A model to which columns are only added: its columns, their Gram matrix with its factor, and the fit."""

    def __init__(self, problem: Problem, capacity: int, intercept: float, ridge: float) -> None:
        self.problem, self.ridge, self.n = problem, ridge, 0
        self.columns = np.empty((capacity, len(problem.y)))
        self.members = np.arange(capacity)
        self.gram, self.factor = np.zeros((2, capacity, capacity))
        self.cross = np.zeros(capacity)
        self.coef = np.zeros(capacity + 1)
        self.coef[0] = intercept

    def extend(self, source: StandardColumns, order: np.ndarray, wanted: int, is_out: np.ndarray) -> list[int]:
        """Add the first columns in `order` that are not linear combinations of others, and return them."""
        joined: list[int] = []
        for j in order:
            if len(joined) == wanted:
                break
            is_out[j] = True
            k = self.n
            self.columns[k] = source.of(np.array([j]))[0]
            products(self.columns[: k + 1], self.problem.share * self.columns[k], self.gram[k, : k + 1])
            weight = source.matrix.weights_of_columns(np.array([j]))
            self.gram[k, k] = 1.0 if weight is None else weight[0] ** 2
            self.gram[:k, k] = self.gram[k, :k]
            rank = extend_cholesky(self.gram, self.members, k + 1, k, self.factor)
            if rank == k + 1:
                self.cross[k] = source.cross[j]
                joined.append(int(j))
                self.n += 1
        return joined

    def refit(self, at: Predictions) -> None:
        """Fit the columns and update predictions and residuals."""
        n = self.n
        if self.problem.loss.is_quadratic and self.ridge == 0.0:
            solve_cholesky(self.factor, n, self.cross, self.coef[1:])
        else:
            hessian, factor = np.zeros((2, n + 1, n + 1))
            newton(
                self.problem, self.columns, self.members, n, self.ridge, TOLERANCE, 1e-3, self.coef, at, hessian, factor
            )  # fmt: skip
        predict(self.columns, n, self.coef[1:], self.coef[0], at.z)
        refresh(self.problem, at)
