"""The Lasso, or an L1-penalised classifier, at the first penalty that keeps at least s columns, cut to the s largest.

    Input: rows (X, y), number of features s
    1. Lower λ until the minimum of f(w) + λ ‖w‖₁ has at least s nonzero coefficients.
    2. The features are the s with the largest coefficients.

The L1 regularised batch methods of section 5 of H. Yang, R. Fujimaki, Y. Kusumura and J. Liu, "Online Feature
Selection: A Limited-Memory Substitution Algorithm and Its Asynchronous Parallel Variation", Proceedings of the 22nd
ACM SIGKDD Conference (2016): the Lasso, and the squared hinge of LIBLINEAR.

Differs from the paper
----------------------
* Squared loss: the exact path of scikit-learn's `lars_path` instead of proximal gradient descent at one λ. If the
  columns are too collinear for it, coordinate descent on decreasing λ.
* Other losses: LIBLINEAR as in the paper, through scikit-learn, on decreasing λ. It penalises the intercept like a
  coefficient.
* Columns are standardised.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import ClassVar

import numpy as np

from daskfs import interrupts
from daskfs.baselines.columns.base import Chosen, ColumnBaseline, largest
from daskfs.baselines.liblinear import LIBLINEAR, l1_model
from daskfs.baselines.standard_columns import StandardColumns
from daskfs.kernels.glm.newton import Problem
from daskfs.selectors.inputs import seed_of

# scikit-learn's solvers are imported on use: they take 30 MiB, which no other method needs.
GROWTH = 1.2  # factor of 1/λ from one trial to the next if there is no exact path
MAX_TRIALS = 60
LEAST_SHARE = 1e-4  # share of the largest λ


class LassoCut(ColumnBaseline):
    """Select with the largest L1 penalty that keeps enough columns, and cut to s columns.

    Parameters
    ----------
    random_state : int, RandomState or None
        Seed of the order of LIBLINEAR's steps.

    Attributes
    ----------
    selected_, support_, coef_, intercept_, scores_ : see `daskfs.baselines.columns.base.ColumnBaseline`
    penalty_ : float
        λ, in units of the mean loss over standardised columns.
    n_active_ : int
        Number of columns with a nonzero coefficient before the cut.
    result_ : SelectionResult
        The history has one row for each penalty: penalty, n_active.

    Notes
    -----
    The fit needs all columns in memory: 16 bytes per value with the squared loss (lars_path works on a copy), 40 with
    the others (LIBLINEAR uses 16 per value in addition to the array). A `memory_limit` that is too small raises an
    error. The other baselines stream the columns.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).standard_normal((500, 30))
    >>> LassoCut(2).fit(X, 2 * X[:, 3] - X[:, 7]).selected_
    array([3, 7])
    """

    method = "lasso_cut"
    _weighs_columns = True
    history_columns: ClassVar = {"penalty": float, "n_active": int}

    def _held_nbytes(self, n_samples: int, n_features: int, n_select: int) -> int:
        values = n_samples * n_features
        path = 8 * n_features * 3 * n_select + 16 * n_samples * n_select
        return 16 * values + path if self._loss.is_quadratic else 40 * values

    def _planned_passes(self, n_select: int) -> tuple[int, str]:
        return 1, "all columns in memory"

    @property
    def penalty_(self) -> float:
        """λ of the model that was cut."""
        return float(self.result_.history["penalty"].iloc[int(self.result_.history["n_active"].argmax())])

    @property
    def n_active_(self) -> int:
        """Number of columns with a nonzero coefficient before the cut."""
        return int(self.result_.history["n_active"].max())

    def _select(self, columns: StandardColumns, problem: Problem, n_select: int) -> Chosen:
        rows = np.empty((columns.n_features, columns.n_samples))
        for first, block in columns.blocks():
            rows[first : first + len(block)] = block
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            tried = self._trials(rows.T, problem, n_select)
        notes = sorted({f"scikit-learn: {str(warning.message).splitlines()[0]}" for warning in caught})
        lines: list[tuple[float, ...]] = [(penalty, int(np.count_nonzero(coef))) for penalty, coef in tried]
        best = max(range(len(tried)), key=lambda k: lines[k][1])  # the first with most columns
        notes.append(f"they have the largest of {lines[best][1]} coefficients at the penalty {lines[best][0]:.4g}")
        return largest(np.abs(tried[best][1]), n_select), lines, notes

    def _trials(self, X: np.ndarray, problem: Problem, n_select: int) -> list[tuple[float, np.ndarray]]:
        """Return penalties and coefficients, in order, up to the first that keeps enough columns."""
        if not self._loss.is_quadratic:
            return _up_to(_liblinear(X, problem, self.loss_, seed_of(self.random_state)), n_select)
        y = problem.y - problem.share @ problem.y
        root = np.sqrt(problem.share * len(y))
        if not np.allclose(root, 1.0, rtol=1e-12):
            X, y = X * root[:, None], y * root
        tried = _lars(X, y, n_select)
        if np.count_nonzero(tried[-1][1]) >= n_select:
            return tried
        return _up_to(_descent(X, y), n_select)


def _up_to(tries: Iterator[tuple[float, np.ndarray]], n_select: int) -> list[tuple[float, np.ndarray]]:
    found = []
    for penalty, coef in tries:
        found.append((penalty, coef))
        if np.count_nonzero(coef) >= n_select:
            break
    return found


def _lars(X: np.ndarray, y: np.ndarray, n_select: int) -> list[tuple[float, np.ndarray]]:
    """Follow the exact path for all its steps. Columns also leave it, so up to twice as many steps may be needed."""
    from sklearn.linear_model import lars_path

    n_steps, most = n_select + n_select // 4 + 8, 8 * min(X.shape)
    while True:
        alphas, _, coefs = lars_path(X, y, method="lasso", max_iter=n_steps, copy_X=True)
        enough = np.flatnonzero((coefs != 0).sum(axis=0) >= n_select)
        if len(enough) or len(alphas) <= n_steps or n_steps >= most:
            stop = int(enough[0]) + 1 if len(enough) else len(alphas)
            return [(float(alphas[k]), coefs[:, k]) for k in range(stop)]
        n_steps *= 2


def _descent(X: np.ndarray, y: np.ndarray) -> Iterator[tuple[float, np.ndarray]]:
    """Yield Lasso fits on a decreasing penalty, each started from the one before."""
    from sklearn.linear_model import Lasso

    penalty = float(np.abs(X.T @ y).max()) / len(y)
    least = LEAST_SHARE * penalty
    model = Lasso(alpha=penalty, fit_intercept=False, warm_start=True, tol=1e-4, max_iter=2000)
    while penalty > least:
        penalty /= GROWTH
        yield penalty, interrupts.call_aside(model.set_params(alpha=penalty).fit, X, y).coef_.copy()


def _liblinear(X: np.ndarray, problem: Problem, loss: str, seed: int | None) -> Iterator[tuple[float, np.ndarray]]:
    """Yield LIBLINEAR fits on a decreasing penalty. Its C multiplies a sum; its hinge has no ½."""
    from sklearn.svm import l1_min_c

    X = np.ascontiguousarray(X)
    weight = problem.share * len(problem.y)
    theirs = LIBLINEAR[loss]
    C = float(l1_min_c(X, problem.y, loss=theirs.name, fit_intercept=True))
    for _ in range(MAX_TRIALS):
        C *= GROWTH
        model = l1_model(loss, C, tol=1e-3, max_iter=1000, random_state=seed)
        fitted = interrupts.call_aside(model.fit, X, problem.y, sample_weight=weight)
        yield 1.0 / (theirs.factor * C * len(problem.y)), fitted.coef_[0].copy()
