"""The Lasso path of a loss by least-squares approximation, for blocks of few columns and many rows.

Wang and Leng (2007), Unified LASSO estimation by least squares approximation, JASA 102, 1039-1048. The fit b̂ of all
columns is computed once. For the rest of the path the mean loss is replaced by its quadratic approximation there, with
the Hessian H at b̂:

    loss(b) ≈ loss(b̂) + ½ (b - b̂)' H (b - b̂)

A path then costs about as much as one fit. Unlike the paper's, the penalty is not adaptive: it is that of the exact
path, `daskfs.kernels.glm.path`, which this path approximates.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from daskfs.kernels.glm.fit import fit_columns
from daskfs.kernels.glm.minimise import descend
from daskfs.kernels.glm.newton import Problem, estimate_dispersion, hessian_weights, new_predictions, new_problem
from daskfs.kernels.glm.path import ABOVE, default_max_features, lambda_grid
from daskfs.kernels.jit import is_stopped, kernel
from daskfs.kernels.lasso.result import STOPS, LassoPath
from daskfs.kernels.lasso.steps import (
    GRID_ENDED,
    OUT_OF_PATIENCE,
    RSS_FLOOR,
    TOO_MANY_FEATURES,
    new_rule,
    rate,
)
from daskfs.kernels.linear.columns import copy_columns, copy_into
from daskfs.kernels.linear.linalg import factorise, solve_cholesky
from daskfs.kernels.linear.moments import Moments, moments
from daskfs.kernels.linear.weighted_gram import extend_hessian
from daskfs.kernels.losses import one_sided_intercept, saturated_values
from daskfs.losses import find_loss

TOLERANCE = 1e-8  # of coordinate descent, in standard deviations of the coefficients times √n


class _Parabola(NamedTuple):
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
    parabola = _fit_parabola(problem, X, m, free)
    cross = parabola.hessian @ parabola.full
    n_free = int(np.isin(parabola.features, free).sum())
    if lambdas is None:
        held, others = slice(n_free + 1), slice(n_free + 1, None)
        of_held = np.linalg.solve(parabola.hessian[held, held], cross[held])
        at_null = cross[others] - parabola.hessian[others, held] @ of_held
        largest = float(np.max(np.abs(at_null), initial=0.0)) * (ABOVE if n_free else 1.0)
        lambdas = lambda_grid(largest, m.total, X.shape[1], n_lambdas, min_ratio)
        if not len(lambdas):
            lambdas = np.full(min(1, n_free), 1e-14 * math.sqrt(m.y_variance))  # free columns only
    if not len(parabola.features):
        lambdas = lambdas[:0]
    if max_features is None:
        max_features = min(default_max_features(m.total, X.shape[1]) + len(free), X.shape[1])
    noise = parabola.dispersion if sigma2 is None else float(sigma2)
    smallest = 2.0 * (m.total * parabola.mean_loss - float(weight @ saturated_values(record.code, y)))
    rule = new_rule(penalty, noise, gic_rss, patience, max_features)
    df, deviance, gic, coef, n_followed, best, stop, n_unsolved = _follow(
        parabola.hessian, n_free, parabola.full, cross, lambdas, rule, m.total, smallest, TOLERANCE * math.sqrt(noise)
    )
    keep = slice(n_followed)
    shrunk = coef[keep, 1:].copy()
    is_active = shrunk != 0.0
    is_active[:, :n_free] = True
    return LassoPath(
        m, lambdas[keep], df[keep], deviance[keep], gic[keep], parabola.features, shrunk, coef[keep, 0].copy(),
        is_active, best, STOPS[stop], loss, problem.threshold, "deviance", dispersion=noise,
        n_separable=int(parabola.is_separable), n_hessians=1, n_unsolved=n_unsolved,
    )  # fmt: skip


def _fit_parabola(problem: Problem, X: np.ndarray, m: Moments, free: np.ndarray) -> _Parabola:
    y = problem.y
    features = np.concatenate([free, np.setdiff1d(np.arange(len(m.scale)), free)])
    features = features[m.scale[features] > 0.0]
    if one_sided_intercept(problem.loss.code, y, m.total) is not None or not (y != y[0]).any() or not len(features):
        return _Parabola(features[:0], np.zeros(1), np.eye(1), 0.0, 1.0, False)
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
    return _Parabola(features, full, hessian, fit.mean_loss, dispersion, fit.is_separable)


def lsa_path_nbytes(n_samples: int, n_features: int, n_lambdas: int) -> int:
    """Return the peak memory in bytes of `lsa_path` in addition to its block."""
    return 8 * (n_samples * (n_features + 24) + (n_features + 1) * (6 * n_features + n_lambdas + 24))


@kernel
def _follow(hessian, n_free, full, cross, lambdas, rule, total, smallest, tol):  # type: ignore[no-untyped-def]
    """Return df, deviance, GIC, coefficients at each λ; the number of λ, the best, the reason to stop, n_unsolved."""
    n, n_lambdas = full.shape[0], lambdas.shape[0]
    df = np.zeros(n_lambdas, np.int64)
    deviance, gic, coefs = np.zeros(n_lambdas), np.zeros(n_lambdas), np.zeros((n_lambdas, n))
    coef, gradient = np.zeros(n), cross.copy()
    members = np.zeros(n, np.int64)
    n_members = -1
    best, n_unsolved = -1, 0
    for k in range(n_lambdas):
        if is_stopped():
            break
        n_unsolved += not descend(hessian, n, n_free, gradient, coef, lambdas[k], tol)
        is_new, n_active = False, 0
        for q in range(1, n):
            if coef[q] != 0.0 or q <= n_free:
                is_new = is_new or n_active >= n_members or members[n_active] != q
                members[n_active] = q
                n_active += 1
        if n_active > rule.max_df:
            return df, deviance, gic, coefs, k, best, TOO_MANY_FEATURES, n_unsolved
        if not rule.refit:
            deviance[k] = smallest + total * _distance(coef, full, cross, gradient)
        elif is_new or n_active != n_members:
            deviance[k] = smallest + total * _refitted_distance(hessian, full, cross, members, n_active)
        else:
            deviance[k] = deviance[k - 1]
        n_members = n_active
        df[k] = n_active
        copy_into(coef, coefs[k])
        best, is_over = rate(k, k, df, df, deviance, total, rule.noise, rule, gic)
        if is_over:
            return df, deviance, gic, coefs, k + 1, best, OUT_OF_PATIENCE, n_unsolved
    return df, deviance, gic, coefs, n_lambdas, best, GRID_ENDED, n_unsolved


@kernel
def _distance(coef, full, cross, gradient):  # type: ignore[no-untyped-def]
    """Return (b - b̂)' H (b - b̂); the gradient is H (b̂ - b)."""
    square = 0.0
    for q in range(coef.shape[0]):
        square += (full[q] - coef[q]) * gradient[q]
    return square


@kernel
def _refitted_distance(hessian, full, cross, members, n_members):  # type: ignore[no-untyped-def]
    """Return the minimum of (b - b̂)' H (b - b̂) over the coefficients of a model."""
    n = n_members + 1
    inner, factor, right, out = np.empty((n, n)), np.zeros((n, n)), np.empty(n), np.empty(n)
    total = 0.0
    for q in range(full.shape[0]):
        total += full[q] * cross[q]
    for a in range(n):
        row = members[a - 1] if a > 0 else 0
        right[a] = cross[row]
        for b in range(n):
            inner[a, b] = hessian[row, members[b - 1] if b > 0 else 0]
    factorise(inner, n, 0.0, factor)
    return max(total - solve_cholesky(factor, n, right, out), 0.0)
