"""What a reader of MESSAGE's result must know, in words, and small sums for it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

import numpy as np

from daskfs.selectors.message.fits import Refit

Number = TypeVar("Number", int, float)

STEPS_NOT_TAKEN = {
    "lost rows": "the Newton step after the average was not taken: the rows of some subsets are gone",
    "long step": "the Newton step after the average was not taken: it would have been too long to be trusted",
}


def notes_on(scores: np.ndarray, n_subsets: int, refit: Refit | None, names: np.ndarray | None) -> list[str]:
    """Return the notes on votes and refit.

    Parameters
    ----------
    scores : ndarray of shape (n_features,)
        NaN where a column is constant in all subsets.
    n_subsets : int
    refit : Refit or None
        None where nothing was selected.
    names : ndarray of shape (n_features,), optional
    """
    notes = []
    constant = np.flatnonzero(np.isnan(scores))
    if len(constant):
        shown = ", ".join(f"x{j}" if names is None else str(names[j]) for j in constant[:5])
        more = ", ..." if len(constant) > 5 else ""
        notes.append(f"{len(constant)} column(s) are constant and cannot be selected: {shown}{more}")
    if refit is None:
        return [*notes, "no feature was chosen by a majority of the subsets"]
    if refit.n_singular:
        notes.append(
            f"in {refit.n_singular} of {n_subsets} subsets the selected columns are linearly "
            "dependent; their shortest solution was taken"
        )
    if refit.n_separable:
        whose = (
            "all subsets were" if refit.n_separable == n_subsets else f"{refit.n_separable} of {n_subsets} subsets were"
        )
        fate = (
            "a weak ridge bounds their fits"
            if refit.n_separable == n_subsets
            else "their fits are left out of the mean"
        )
        notes.append(f"{whose} told apart without error by the selected features; {fate}")
    if refit.n_cached and refit.n_read:
        notes.append(f"{refit.n_read} of {n_subsets} subsets had to read the selected columns again for the refit")
    if refit.n_lost:
        notes.append(
            f"{refit.n_lost} of {n_subsets} subsets have not met all selected features and their rows are gone: "
            "they are left out of the average"
        )
    if refit.step in STEPS_NOT_TAKEN:
        notes.append(STEPS_NOT_TAKEN[refit.step])
    return notes


def note_on_contenders(n_contenders: int, n_kept: int) -> str:
    """Return the note on features that were looked at again.

    Examples
    --------
    >>> note_on_contenders(1, 0)
    '1 feature(s) had fewer votes than a majority and more than chance gives: 0 kept for what all subsets show together'
    """
    return (
        f"{n_contenders} feature(s) had fewer votes than a majority and more than chance gives: "
        f"{n_kept} kept for what all subsets show together"
    )


def notes_on_paths(chosen: dict[str, np.ndarray]) -> list[str]:
    """Return the notes on subsets that had no vote, and on paths that are not exact everywhere."""
    notes, m = [], len(chosen["n_selected"])
    if n_silent := int(chosen["abstains"].sum()):
        notes.append(f"the target is constant on {n_silent} of {m} subsets: they have no vote")
    if n_unsolved := int((chosen["n_unsolved"] > 0).sum()):
        notes.append(
            f"on {n_unsolved} of {m} subsets columns nearly depend on each other, and descent along the path stopped "
            "before it was exact"
        )
    return notes


def path_of_first(chosen: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the path of the first subset as columns of a table; empty where a user's estimator followed none."""
    names = ("lambda", "df", "rss", "deviance", "gic")
    path: dict[str, np.ndarray] = {name: chosen[name] for name in names if name in chosen}
    if path:
        path["chosen"] = np.arange(len(path["gic"])) == chosen["best"][0]
    return path


def summed(counts: Iterable[dict[str, Number]]) -> dict[str, Number]:
    """Return the sums of several counts by name.

    Examples
    --------
    >>> summed([{"select": 2}, {"select": 1, "refit": 5}])
    {'select': 3, 'refit': 5}
    """
    total: dict[str, Number] = {}
    for count in counts:
        for name, number in count.items():
            total[name] = total[name] + number if name in total else number
    return total
