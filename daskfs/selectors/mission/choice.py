"""Selection among the candidates with the largest weights: those that explain the target together, by exact statistics.

A weight of stochastic descent says how much of the prediction a feature carries in addition to all other active
features. Redundant features share it, and several features of a bundle may come before the only feature of another. The
second moments of some hundreds of features fit in memory and are sums over rows. On them, forward selection adds the
feature that lowers the squared loss most (for classes, the loss of their indicators together).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from daskfs.kernels.linear.forward_selection import forward_selection
from daskfs.selectors.shared.refit import SelectedBlocks
from daskfs.selectors.shared.refit_on_block import Model
from daskfs.selectors.shared.run import Run

RIDGE_OF_STANDARDISED, RIDGE_OF_RAW = 3.0, 10.0
"""Ridges, as multiples of the mean square of a column times s² or s, where s = min(1, k log p / n).

Standardised columns need a ridge if there are few rows; with many rows, a ridge admits substitutes of chosen columns.
For unscaled columns it restrains those that are nonzero in few rows. Both were measured on public data sets, against
values from 1 to 100 and other powers of s.
"""


def choose(
    run: Run,
    columns: np.ndarray,
    n_keep: int,
    positives: Sequence[float | None],
    *,
    standardize: bool,
    always: Sequence[int] = (),
) -> np.ndarray:
    """Return the positions of the columns to keep, ascending; constant columns are left out.

    Parameters
    ----------
    run : Run
        As for `daskfs.selectors.shared.refit.refit_selected`.
    columns : ndarray of shape (n_columns,), int64
        Ascending.
    n_keep : int
    positives : sequence of float or None
        The target's value for each class that is fitted against the rest; [None] for regression.
    standardize : bool
        Whether to compare columns as if their standard deviations were 1. Otherwise the ridge restrains columns that
        are nonzero in few rows.
    always : sequence of int
        Columns that are always kept. The others are compared after regression on these, as is the target.
    """
    with run.timed("choice"):
        blocks = SelectedBlocks(run, columns)
        total, _, centre, scale = blocks.moments(positives[0])
        varies = np.flatnonzero(scale > 0.0)
        if len(varies) <= n_keep:
            return varies
        unit = scale if standardize else (scale > 0.0).astype(np.float64)
        model = Model("squared", positives[0], 0.0, np.zeros(len(columns) + 1), centre, unit)
        terms = [blocks.terms(replace(model, positive=positive), total) for positive in positives]
    gram = np.ascontiguousarray(terms[0].hessian[1:, 1:][np.ix_(varies, varies)])
    cross = np.array([-one.gradient[1:][varies] for one in terms])
    share = min(1.0, n_keep * math.log(run.matrix.shape[1]) / total)
    ridge = RIDGE_OF_STANDARDISED * share**2 if standardize else RIDGE_OF_RAW * share
    ridge *= float(np.diag(gram).mean())
    is_held = np.isin(columns[varies], np.array(always, dtype=np.int64))
    if not is_held.any():
        return np.sort(varies[forward_selection(gram, cross, ridge, n_keep)])
    by_held = np.linalg.pinv(gram[np.ix_(is_held, is_held)], hermitian=True) @ gram[is_held]
    cross -= cross[:, is_held] @ by_held  # the Frisch-Waugh-Lovell theorem: these have no ridge
    gram -= gram[:, is_held] @ by_held
    held, others = varies[is_held], varies[~is_held]
    left = np.ascontiguousarray(gram[np.ix_(~is_held, ~is_held)]), np.ascontiguousarray(cross[:, ~is_held])
    return np.sort(np.concatenate([held, others[forward_selection(*left, ridge, n_keep - len(held))]]))
