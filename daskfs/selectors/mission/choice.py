"""Of more features of large weight than are wanted, those that explain the target together, by exact statistics.

Weights of stochastic descent say how much of the prediction a feature carries beside all others that are active: of
features that say the same each has a part, and several of a bundle come before the only one of another. The second
moments of some hundreds of features fit in memory and are a sum over rows. On them each next feature is the one that
lowers the squared loss most beside those before it (of classes that of their indicators, all together).
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
"""Times the mean square of a column, and s² or s, where s = min(1, k log p / n).

Standardised columns need a ridge where rows are few; where they are many, one lets stand-ins of chosen columns in. On
columns as they come it keeps those of few rows back. Both measured on open sets of their kind, beside 1 to 100 and
other powers of s.
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
    """Return the positions of the columns to keep, ascending; without those that are constant.

    Parameters
    ----------
    run : Run
        As `daskfs.selectors.shared.refit.refit_selected` takes it.
    columns : ndarray of shape (n_columns,), int64
        Ascending.
    n_keep : int
    positives : sequence of float or None
        The target's value for each class that is told from the rest; [None] for a target of numbers.
    standardize : bool
        Whether columns are compared as if their standard deviations were 1. Where they are not, the ridge keeps back
        what few rows have.
    always : sequence of int
        Columns that are kept whatever else; the others are compared by what these leave of them and of the target.
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
    cross -= cross[:, is_held] @ by_held  # Frisch, Waugh and Lovell: without a ridge on these
    gram -= gram[:, is_held] @ by_held
    held, others = varies[is_held], varies[~is_held]
    left = np.ascontiguousarray(gram[np.ix_(~is_held, ~is_held)]), np.ascontiguousarray(cross[:, ~is_held])
    return np.sort(np.concatenate([held, others[forward_selection(*left, ridge, n_keep - len(held))]]))
