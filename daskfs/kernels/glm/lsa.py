"""The Lasso path of a loss by least-squares approximation, for blocks of few columns and many rows.

Wang and Leng (2007), Unified LASSO estimation by least squares approximation, JASA 102, 1039-1048. The fit b̂ of all
columns is computed once. For the rest of the path the mean loss is replaced by its quadratic approximation there, with
the Hessian H at b̂:

    loss(b) ≈ loss(b̂) + ½ (b - b̂)' H (b - b̂)

This is the least-squares path with H as Gram matrix (`daskfs.kernels.lasso.steps`), which costs about as much as one
fit. Unlike the paper's, the penalty is not adaptive: it is that of the exact
path, `daskfs.kernels.glm.path`, which this path approximates.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from daskfs.kernels.blocks.dense_block import as_block
from daskfs.kernels.glm.fit import fit_columns
from daskfs.kernels.glm.newton import Problem, estimate_dispersion, hessian_weights, new_predictions, new_problem
from daskfs.kernels.glm.path import ABOVE, default_max_features
from daskfs.kernels.lasso.path import by_descent, lambda_grid
from daskfs.kernels.lasso.result import LassoPath
from daskfs.kernels.lasso.steps import RSS_FLOOR, hold, keep_rows, new_rule, new_state
from daskfs.kernels.linear.columns import copy_columns
from daskfs.kernels.linear.linalg import factorise
from daskfs.kernels.linear.moments import Moments, moments
from daskfs.kernels.linear.weighted_gram import extend_hessian
from daskfs.kernels.losses import one_sided_intercept, saturated_values
from daskfs.losses import find_loss


class _Quadratic(NamedTuple):
    """Quadratic approximation of the mean loss: its value and Hessian at its minimum `full`, intercept first."""

    features: np.ndarray
    full: np.ndarray
    hessian: np.ndarray
    mean_loss: float
    dispersion: float
    is_separable: bool


def lsa_path(
    X: np.ndarray,
    y: np.ndarray,
    weight: np.ndarray,
    *,
    loss: str,
    penalty: float,
    threshold: float | None = None,
    sigma2: float | None = None,
    lambdas: np.ndarray | None = None,
    n_lambdas: int = 100,
    min_ratio: float | None = None,
    gic_rss: str = "refit",
    patience: int | None = 10,
    max_features: int | None = None,
    free: np.ndarray | None = None,
) -> LassoPath:
    """Follow the approximate Lasso path of one block and select a model by ``deviance / dispersion + penalty |M|``.

    Parameters and result are those of `daskfs.kernels.glm.path.glm_path`, with these differences: deviances are
    those of the quadratic approximation. The dispersion is that of the fit of all columns. All columns have entered,
    except those that depend linearly on earlier ones. `n_separable` is 1 if that fit has no finite minimum, so that a
    ridge fit is approximated.

    Returns
    -------
    LassoPath
    """
    if not weight.all():
        X, y, weight = X[weight > 0.0], y[weight > 0.0], weight[weight > 0.0]
    record, m = find_loss(loss), moments(X, y, weight)
    problem = new_problem(record, threshold, y, weight)
    free = np.empty(0, dtype=np.int64) if free is None else free
    quadratic = _approximate(problem, X, m, free)
    if max_features is None:
        max_features = min(default_max_features(m.total, X.shape[1]) + len(free), X.shape[1])
    noise = quadratic.dispersion if sigma2 is None else float(sigma2)
    rule = new_rule(penalty, noise, gic_rss, patience, max_features)
    # least squares with the Hessian as Gram matrix: of the columns, without the part that the intercept explains
    features, full, with_intercept = quadratic.features, quadratic.full, quadratic.hessian[0] / quadratic.hessian[0, 0]
    gram = quadratic.hessian[1:, 1:] - np.outer(quadratic.hessian[1:, 0], with_intercept[1:])
    unit = float(np.diag(gram).max(initial=1e-300))  # columns of length 1 at most
    gram, cross = gram / unit, gram @ full[1:] / unit
    smallest = 2.0 * (quadratic.mean_loss - float(weight @ saturated_values(record.code, y)) / m.total)
    of_gram = Moments(
        m.total * unit, 0.0, smallest / unit + float(full[1:] @ cross), m.mean[features], np.ones(len(features)), cross
    )
    state = new_state(len(features), len(features), len(features), np.sqrt(np.diag(gram)))
    keep_rows(gram, of_gram.scale, state)
    no_rows, held = as_block(np.empty((0, len(features)))), np.arange(int(np.isin(features, free).sum()))
    state.gradient[:] = cross
    if len(held):
        hold(no_rows, np.empty(0), of_gram, held, state)
    if lambdas is None:
        largest = unit * float(np.max(np.abs(state.gradient[len(held) :]), initial=0.0)) * (ABOVE if len(held) else 1.0)
        lambdas = lambda_grid(largest, m.total, X.shape[1], n_lambdas, min_ratio)
        if not len(lambdas):
            lambdas = np.full(min(1, len(held)), 1e-14 * math.sqrt(m.y_variance))  # free columns only
    if not len(features):
        lambdas = lambdas[:0]
    path = by_descent(no_rows, np.empty(0), of_gram, lambdas / unit, rule, state, "", 0)
    shape = (len(path.lambdas), len(features))
    coef, is_active = np.zeros(shape), np.zeros(shape, dtype=bool)
    coef[:, path.entered], is_active[:, path.entered] = path.coef, path.is_active
    return LassoPath(
        m, lambdas[: shape[0]], path.df, path.fit * of_gram.total, path.gic, features, coef,
        full[0] - (coef - full[1:]) @ with_intercept[1:], is_active, path.best, path.stop, loss, problem.threshold,
        "deviance", dispersion=noise, n_separable=int(quadratic.is_separable), n_unsolved=path.n_unsolved,
    )  # fmt: skip


def _approximate(problem: Problem, X: np.ndarray, m: Moments, free: np.ndarray) -> _Quadratic:
    y = problem.y
    features = np.concatenate([free, np.setdiff1d(np.arange(len(m.scale)), free)])
    features = features[m.scale[features] > 0.0]
    if one_sided_intercept(problem.loss.code, y, m.total) is not None or not (y != y[0]).any() or not len(features):
        return _Quadratic(features[:0], np.zeros(1), np.eye(1), 0.0, 1.0, False)
    columns = np.empty((len(features), len(y)))
    copy_columns(X, m.mean, m.scale, features, columns)
    n, at, members = len(features) + 1, new_predictions(len(y)), np.arange(len(features))
    fit = fit_columns(problem, columns, m.total, at)
    full = fit.solution
    hessian, factor = np.zeros((2, n, n))
    weights = np.empty(len(y))
    hessian_weights(problem, at, weights)
    extend_hessian(columns, members, n - 1, 0, weights, hessian, np.empty(len(y)))
    dispersion = max(estimate_dispersion(problem, at, m.total, float(n)), RSS_FLOOR * m.y_variance)
    if fit.is_singular:
        factorise(hessian, n, 0.0, factor)
        kept = np.flatnonzero(np.diag(factor) > 0.0)
        target = (hessian @ full)[kept]
        hessian = np.ascontiguousarray(hessian[np.ix_(kept, kept)])
        full = np.linalg.solve(hessian, target)
        features = features[kept[1:] - 1]
    return _Quadratic(features, full, hessian, fit.mean_loss, dispersion, fit.is_separable)


def lsa_path_nbytes(n_samples: int, n_features: int, n_lambdas: int) -> int:
    """Return the peak memory in bytes of `lsa_path` in addition to its block."""
    return 8 * (n_samples * (n_features + 24) + (n_features + 1) * (8 * n_features + 3 * n_lambdas + 24))
