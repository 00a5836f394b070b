"""Forward selection on a Gram matrix: orthogonal least squares with a ridge, for one or several targets together."""

from __future__ import annotations

import numpy as np

from daskfs.kernels.jit import inner_loop

NEGLIGIBLE = 1e-9
"""Share of a column's square, below which the remainder is rounding: the column depends on the chosen ones."""


@inner_loop
def forward_selection(gram, cross, ridge, n_chosen):  # type: ignore[no-untyped-def]
    """Return columns in the order in which each lowers the squared loss most, given those before it.

    The loss is that of all targets together, ``½ Σ_c |y_c - X b_c|² / n + ½ ridge Σ b²``.

    Parameters
    ----------
    gram : ndarray of shape (n_columns, n_columns), float64
        XᵀX / n.
    cross : ndarray of shape (n_targets, n_columns), float64
        Yᵀ X / n; modified.
    ridge : float
    n_chosen : int

    Returns
    -------
    chosen : ndarray of shape (at most n_chosen,), int64
        Ties are resolved by lower column number.
    """
    n_columns = gram.shape[0]
    chosen, is_open = np.empty(n_chosen, np.int64), np.ones(n_columns, np.bool_)
    # The rows of L that belong to the chosen columns, with G + ridge I = L Lᵀ; remainders of the diagonal and of cross.
    factor, left = np.empty((n_chosen, n_columns)), np.empty(n_columns)
    for j in range(n_columns):
        left[j] = gram[j, j] + ridge
    for t in range(n_chosen):
        best, most = -1, 0.0
        for j in range(n_columns):
            if not is_open[j] or not left[j] > NEGLIGIBLE * (gram[j, j] + ridge):
                continue
            gain = 0.0
            for c in range(cross.shape[0]):
                gain += cross[c, j] * cross[c, j]
            gain = np.divide(gain, left[j])
            if gain > most:
                best, most = j, gain
        if best < 0:
            return chosen[:t]
        chosen[t], is_open[best] = best, False
        root = np.sqrt(left[best])
        row = factor[t]
        for j in range(n_columns):
            row[j] = gram[best, j]
        row[best] += ridge
        for s in range(t):
            for j in range(n_columns):
                row[j] -= factor[s, best] * factor[s, j]
        for j in range(n_columns):
            row[j] = np.divide(row[j], root)
            left[j] -= row[j] * row[j]
        for c in range(cross.shape[0]):
            share = np.divide(cross[c, best], root)
            for j in range(n_columns):
                cross[c, j] -= share * row[j]
    return chosen
