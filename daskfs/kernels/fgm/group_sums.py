"""Scores of groups: sums of the scores of their columns, in the order of the group's columns."""

from __future__ import annotations

from daskfs.kernels.jit import is_stopped, kernel


@kernel
def sums_of(scores, members, bounds, groups, out):  # type: ignore[no-untyped-def]
    """Write the sum of the scores of the columns for some groups.

    Parameters
    ----------
    scores : ndarray of shape (n_columns,), float64
    members : ndarray of shape (n_members,), int64
        Columns, concatenated by group.
    bounds : ndarray of shape (n_groups + 1,), int64
        Group g has ``members[bounds[g]:bounds[g + 1]]``.
    groups : ndarray of shape (n_wanted,), int64
    out : ndarray of shape (n_wanted,), float64
    """
    for k in range(groups.shape[0]):
        if k % 4096 == 0 and is_stopped():
            break
        total = 0.0
        for m in range(bounds[groups[k]], bounds[groups[k] + 1]):
            total += scores[members[m]]
        out[k] = total
