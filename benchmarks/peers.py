"""Other libraries, each with its best settings, as contenders that select columns of a `benchmarks.data.Planted`.

To add a peer: write a function from the data to ``(columns, coef, intercept)``, decorate it, and name it among the
peers of a job. ``coef`` may be None where a method only ranks. Penalties that no user knows beforehand are found in
`told_penalty`, outside the clock: the peer is faster here than it would be for a user.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks.data import Planted
from benchmarks.harness import Contender

Answer = tuple[np.ndarray, np.ndarray | None, float]
SELECTING: dict[str, Contender] = {}
"""Peers that select columns, by name."""
PEERS_PYTHON = "DASKFS_PEERS_PYTHON"
"""Names the Python with adelie and glmnet, which want NumPy 1: ``FOLDER/numpy1/bin/python`` of environments.py."""


def selecting(
    name: str, *needs: str, prepare: Callable[[Planted], Planted] | None = None
) -> Callable[[Callable[[Planted], Answer]], Callable[[Planted], Answer]]:
    """Register a peer."""

    def register(function: Callable[[Planted], Answer]) -> Callable[[Planted], Answer]:
        SELECTING[name] = Contender(function, needs, prepare)
        return function

    return register


def in_columns(data: Planted) -> Planted:
    """Return float64, one column after the other: what these libraries copy to otherwise."""
    return data if hasattr(data.X, "nnz") else replace(data, X=np.asfortranarray(data.X, dtype=np.float64))


def of_coef(coef: Any, intercept: Any = 0.0, n_wanted: int | None = None) -> Answer:
    """Return the columns with coefficients other than 0, at most the `n_wanted` largest."""
    coef = np.ravel(coef)
    columns = np.flatnonzero(coef) if n_wanted is None else np.argsort(-np.abs(coef), kind="stable")[:n_wanted]
    return columns, coef[columns], float(np.ravel(intercept)[0])


@selecting("abess", "abess", prepare=in_columns)
def abess(data: Planted) -> Answer:
    """Best subsets by splicing; of classes with a screen of 1,000 columns, else it takes minutes."""
    from abess.linear import LinearRegression, LogisticRegression

    if data.is_class:
        screen = min(1000, data.X.shape[1])
        model = LogisticRegression(support_size=data.n_wanted, screening_size=screen, thread=1)
    else:
        model = LinearRegression(support_size=data.n_wanted, thread=1)
    model.fit(data.X, data.y)
    return of_coef(model.coef_, model.intercept_)


@selecting("sklearn OMP", prepare=in_columns)
def omp(data: Planted) -> Answer:
    """Orthogonal matching pursuit, without the Gram matrix of all columns."""
    from sklearn.linear_model import OrthogonalMatchingPursuit

    model = OrthogonalMatchingPursuit(n_nonzero_coefs=data.n_wanted, precompute=False).fit(data.X, data.y)
    return of_coef(model.coef_, model.intercept_)


@selecting("sklearn lars_path", prepare=in_columns)
def lars(data: Planted) -> Answer:
    """The Lasso's path by homotopy, up to the first model with enough columns."""
    from sklearn.linear_model import lars_path

    n_steps = data.n_wanted + data.n_wanted // 4 + 8
    while True:
        _, _, coefs = lars_path(data.X, data.y - data.y.mean(), method="lasso", max_iter=n_steps)
        enough = np.flatnonzero((coefs != 0).sum(axis=0) >= data.n_wanted)
        if len(enough):
            return of_coef(coefs[:, enough[0]], data.y.mean(), data.n_wanted)
        n_steps *= 2


def _skglm_path(data: Planted, make: Callable[[float], Any]) -> Answer:
    penalty = np.abs(data.X.T @ (data.y - data.y.mean())).max() / len(data.y)
    for _ in range(200):
        penalty *= 0.85
        model = make(penalty).fit(data.X, data.y)
        if np.count_nonzero(model.coef_) >= data.n_wanted:
            break
    return of_coef(model.coef_, model.intercept_, data.n_wanted)


@selecting("skglm Lasso", "skglm", prepare=in_columns)
def skglm_lasso(data: Planted) -> Answer:
    """Working sets, by falling penalties up to the first model with enough columns."""
    from skglm import Lasso

    return _skglm_path(data, lambda penalty: Lasso(alpha=penalty, tol=1e-4))


@selecting("skglm MCP", "skglm", prepare=in_columns)
def skglm_mcp(data: Planted) -> Answer:
    """The same with the minimax concave penalty, which shrinks large coefficients less."""
    from skglm import MCPRegression

    return _skglm_path(data, lambda penalty: MCPRegression(alpha=penalty, gamma=3.0, tol=1e-4))


@selecting("sklearn LassoCV", prepare=in_columns)
def lassocv(data: Planted) -> Answer:
    """The Lasso with the penalty of least cross-validated error; its largest coefficients."""
    from sklearn.linear_model import LassoCV

    model = LassoCV(cv=3).fit(data.X, data.y)
    return of_coef(model.coef_, model.intercept_, data.n_wanted)


@selecting("sklearn RFE", prepare=in_columns)
def rfe(data: Planted) -> Answer:
    """Recursive elimination by a ridge, a tenth of the columns at a time."""
    from sklearn.feature_selection import RFE
    from sklearn.linear_model import Ridge

    model = RFE(Ridge(1.0), n_features_to_select=data.n_wanted, step=0.1).fit(data.X, data.y)
    return np.flatnonzero(model.get_support()), None, 0.0


L1_FACTORS = (1.3, 1.6, 2.0, 2.4, 2.8, 3.3, 4.0)
"""Multiples of the least C that selects anything, tried until a fit has nine tenths of the columns asked for."""


def told_penalty(
    fit: Callable[[Planted], Answer], convert: Callable[[Planted], Planted]
) -> Callable[[Planted], Planted]:
    """Return a `prepare` that converts the data and finds the penalty, outside the clock."""

    def prepare(data: Planted) -> Planted:
        data = convert(data)
        top = float(np.abs(data.y @ data.X).max())
        for factor in L1_FACTORS:
            told = replace(data, told=(top, factor))
            if len(fit(told)[0]) >= 0.9 * data.n_wanted:
                break
        return told

    return prepare


def in_float64(data: Planted) -> Planted:
    """Return float64 by rows, to which liblinear copies otherwise."""
    return replace(data, X=data.X.astype(np.float64))


def _l1_svm(data: Planted) -> Answer:
    from sklearn.svm import LinearSVC

    top, factor = data.told
    options = {"penalty": "l1", "dual": False, "C": factor / (2.0 * top), "fit_intercept": False}
    return of_coef(LinearSVC(**options, tol=1e-2, max_iter=1000).fit(data.X, data.y).coef_)


def _l1_logistic(data: Planted) -> Answer:
    from sklearn.linear_model import LogisticRegression

    top, factor = data.told
    options = {"l1_ratio": 1.0, "solver": "liblinear", "C": 2.0 * factor / top, "fit_intercept": False}
    return of_coef(LogisticRegression(**options, tol=1e-2).fit(data.X, data.y).coef_)


def _skglm_logistic(data: Planted) -> Answer:
    from skglm import SparseLogisticRegression

    top, factor = data.told
    alpha = top / (2.0 * len(data.y) * factor)
    return of_coef(SparseLogisticRegression(alpha=alpha, fit_intercept=False, tol=1e-3).fit(data.X, data.y).coef_)


def _celer_logistic(data: Planted) -> Answer:
    from celer import LogisticRegression

    top, factor = data.told
    return of_coef(LogisticRegression(C=2.0 * factor / top, fit_intercept=False, tol=1e-3).fit(data.X, data.y).coef_)


SELECTING |= {
    "liblinear l1-SVM": Contender(_l1_svm, (), told_penalty(_l1_svm, in_float64)),
    "liblinear l1-LR": Contender(_l1_logistic, (), told_penalty(_l1_logistic, in_float64)),
    "skglm l1-LR": Contender(_skglm_logistic, ("skglm",), told_penalty(_skglm_logistic, in_columns)),
    "celer l1-LR": Contender(_celer_logistic, ("celer",), told_penalty(_celer_logistic, in_columns)),
}


def some(*names: str) -> dict[str, Contender]:
    """Return some of the peers that select columns."""
    return {name: SELECTING[name] for name in names}
