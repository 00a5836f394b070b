"""The features that fewer than half of the subsets chose: which of them are looked at again, and which are kept.

A subset sees a weak feature with some chance, 0.4 say. More subsets of the same size do not find it by a vote: they
make its loss certain, though all rows together show it plainly.

    Input: the votes, the majority M
    1. The contenders C: features with more votes than noise gets, the expected number of features of noise with as many
       votes v being below 0.1: p P(B >= v) < 0.1, B binomial of the subsets and the mean frequency below the majority.
    2. Fit M ∪ C on every subset i: z_ij = b_ij / se(b_ij), that of any other feature being near 0.
    3. T_j = sqrt(2 m / π) median_i z_ij, standard normal over many subsets where feature j is of no use.
    4. Keep the contenders with T_j² > log n + 2 gamma log p, the criterion of all rows.

The median keeps what MESSAGE is for: subsets with outliers, as long as they are fewer than half, decide nothing.
This step is not in the paper; ``Message(second_look=False)`` leaves it out.
"""

from __future__ import annotations

import math

import numpy as np

from daskfs.kernels.lasso.criteria import binomial_tail, feature_penalty

FALSE_CONTENDERS = 0.1  # features of noise that may be expected to be looked at again


def least_votes(n_votes: int, n_ballots: int, n_subsets: int, n_features: int) -> int:
    """Return with how many votes a feature is unlikely to be noise.

    Parameters
    ----------
    n_votes, n_ballots : int
        Of the features below the majority: how often one was chosen by a subset, of how many times it could have been.
    n_subsets, n_features : int

    Examples
    --------
    >>> least_votes(n_votes=100, n_ballots=25 * 1000, n_subsets=25, n_features=1000)
    4
    >>> least_votes(n_votes=20, n_ballots=5 * 1000, n_subsets=5, n_features=1000)
    3
    """
    share = n_votes / max(n_ballots, 1)
    v = 1
    while v <= n_subsets and n_features * binomial_tail(n_subsets, share, v) >= FALSE_CONTENDERS:
        v += 1
    return v


def z_of_squares(statistics: dict[str, np.ndarray], coef: np.ndarray) -> np.ndarray:
    """Return coefficients over their standard errors, of least squares on every subset; NaN where there is none.

    Parameters
    ----------
    statistics : dict of ndarray
        ``total`` and ``y_variance`` of shape (n_subsets,), ``scale`` and ``cross`` of (n_subsets, n_columns), ``gram``
        of (n_subsets, n_columns, n_columns).
    coef : ndarray of shape (n_subsets, n_columns)
        On the scale of the data.
    """
    z = np.full(coef.shape, np.nan)
    for i, total in enumerate(statistics["total"]):
        varies = np.flatnonzero(statistics["scale"][i] > 0.0)
        b = coef[i, varies] * statistics["scale"][i, varies]
        left = float(statistics["y_variance"][i] - b @ statistics["cross"][i, varies])
        dispersion = left * total / max(total - len(varies) - 1.0, 1.0)
        gram = statistics["gram"][i][np.ix_(varies, varies)]
        z[i, varies] = b / _standard_errors(total * gram, dispersion)
    return z


def z_of_slopes(
    coef: np.ndarray, dispersion: np.ndarray, hessian: np.ndarray, scale: np.ndarray, n_classes: int
) -> np.ndarray:
    """Return coefficients over their standard errors, of maximum likelihood on every subset; NaN where there is none.

    Parameters
    ----------
    coef : ndarray of shape (n_subsets, n_columns) or (n_subsets, n_classes, n_columns)
        On the scale of the data; NaN where a subset does not know.
    dispersion : ndarray of shape (n_subsets,)
        Noise of the score over its slope, 1 for a likelihood.
    hessian : ndarray of shape (n_subsets, k, k)
        As `newton_step` takes it.
    scale : ndarray of shape (n_columns,)
        Of the columns in which `hessian` is.
    n_classes : int
        0 where there is one coefficient for each column.
    """
    z = np.full(coef.shape, np.nan)
    n_columns = coef.shape[-1]
    for i, matrix in enumerate(hessian):
        varies = np.flatnonzero(~np.isnan(coef[i]).reshape(-1, n_columns).any(axis=0))
        kept = np.concatenate([[0], 1 + varies])
        if not n_classes:
            errors = _standard_errors(matrix[np.ix_(kept, kept)], dispersion[i])
            z[i, varies] = coef[i, varies] * scale[varies] / errors[1:]
            continue
        width = 1 + n_columns
        places = (np.arange(n_classes - 1)[:, None] * width + kept).ravel()
        errors = _errors_of_classes(matrix[np.ix_(places, places)], n_classes)
        z[i][:, varies] = coef[i][:, varies] * scale[varies] / errors[:, 1:]
    return z


def _standard_errors(hessian: np.ndarray, dispersion: float) -> np.ndarray:
    """Return the square roots of the inverse's diagonal; infinite where there is no inverse."""
    variance = np.diag(_inverse(hessian)) * dispersion
    return np.sqrt(np.where(variance > 0.0, variance, np.inf))


def _errors_of_classes(hessian: np.ndarray, n_classes: int) -> np.ndarray:
    """Return the standard errors of the coefficients of all classes, of sum 0, from the Hessian of all but the last."""
    n_free = n_classes - 1
    covariance = _inverse(hessian).reshape(n_free, len(hessian) // n_free, n_free, -1)
    centring = np.eye(n_classes, n_free) - 1.0 / n_classes
    variance = np.einsum("ca,aqbq,cb->cq", centring, covariance, centring)
    return np.sqrt(np.where(variance > 0.0, variance, np.inf))


def _inverse(hessian: np.ndarray) -> np.ndarray:
    try:
        return np.linalg.inv(hessian)
    except np.linalg.LinAlgError:
        return np.full_like(hessian, np.inf)


def common_z(z: np.ndarray) -> np.ndarray:
    """Return T of each column: the median of the subsets' z on the scale of all rows; the class' whose T is largest.

    Parameters
    ----------
    z : ndarray of shape (n_subsets, n_columns) or (n_subsets, n_classes, n_columns)
        NaN where a subset does not know.

    Returns
    -------
    ndarray of shape (n_columns,)
        0 where no subset knows.
    """
    known = ~np.isnan(z)
    n_known = known.sum(axis=0)
    middle = np.nanmedian(np.where(known.any(axis=0), z, 0.0), axis=0)
    common = np.sqrt(2.0 * n_known / math.pi) * np.abs(middle)
    return common.max(axis=0) if common.ndim > 1 else common


def is_beyond(common: np.ndarray, n_samples: float, n_features: int, gamma: float) -> np.ndarray:
    """Return which columns the criterion of all rows keeps."""
    kept: np.ndarray = common**2 > feature_penalty("ebic", n_samples, n_features, gamma)
    return kept
