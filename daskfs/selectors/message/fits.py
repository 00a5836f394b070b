"""Steps 4 and 5 of MESSAGE: the fits of the subsets on the features that they agreed on, and their average.

A subset's path leaves the moments and correlations of the features it met. Where the chosen features are among them the
least-squares refit follows without its rows; the other subsets' rows of these columns are read.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from daskfs.cluster.workers import Workers
from daskfs.errors import DataError
from daskfs.matrix.base import Matrix
from daskfs.selectors.message.aggregate import (
    Average,
    all_rows_fit,
    least_squares_fits,
    mean_of_fits,
    newton_step,
)
from daskfs.selectors.message.on_block import joined
from daskfs.selectors.message.passes import MessageRun
from daskfs.selectors.message.plan import Shape
from daskfs.selectors.message.second_look import common_z, is_beyond, z_of_slopes, z_of_squares
from daskfs.selectors.message.subset import Point, SelectionSettings


@dataclass
class Part:
    """Rows that came together: their matrix, where it is kept to be read again, and what its subsets chose."""

    matrix: Matrix | None
    shape: Shape
    chosen: dict[str, np.ndarray]

    def without_arrays(self) -> Part:
        """Return the part without its matrix, where that holds arrays in memory."""
        return replace(self, matrix=None) if self.matrix is not None and self.matrix.is_resident else self


Parts = list[tuple[Part, "MessageRun | None"]]
"""Rows that came together, each with the run that reads them; None where they are gone."""


def run_again(part: Part, memory_limit: int | None, workers: Workers) -> MessageRun | None:
    """Return the run that reads a part's rows again, None where they are gone."""
    if part.matrix is None or not part.matrix.exists():
        return None
    return MessageRun(part.matrix, part.shape, memory_limit, workers)


class Refit(NamedTuple):
    """The averaged model, and how the subsets fared."""

    average: Average
    n_cached: int
    """Subsets refitted without a second look at their rows."""
    n_read: int
    """Subsets whose rows of the chosen columns were read."""
    n_lost: int
    """Subsets that needed to be read but are gone: left out of the average."""
    n_singular: int
    n_separable: int
    step: str
    """``one_step``, ``mean``, or why a step that was asked for was not taken: ``lost rows``, ``long step``."""


class SubsetFits:
    """The chosen columns fitted on every subset; what is derived from the fits is made when it is asked for.

    Parameters
    ----------
    parts : Parts
    settings : SelectionSettings
    columns : ndarray of shape (n_selected,), int64, ascending

    Raises
    ------
    DataError
        The rows of all subsets are gone.
    """

    def __init__(self, parts: Parts, settings: SelectionSettings, columns: np.ndarray) -> None:
        found = [_statistics(part, run, settings, columns) for part, run in parts]
        self.parts, self.settings, self.columns = parts, settings, columns
        self.n_cached, self.n_read = (sum(counts) for counts in list(zip(*found, strict=True))[1:])
        self.n_lost = sum(part.shape.n_subsets for part, _ in parts) - self.n_cached - self.n_read
        if not self.n_cached + self.n_read:
            raise DataError("the rows of all subsets are gone", "partial_fit", "keep the stores, or fit once more")
        self.statistics = joined([statistics for statistics, _, _ in found])
        self.is_squared = settings.loss == "squared"
        if self.is_squared:
            self.coef, self.is_singular = least_squares_fits(self.statistics)
            self.is_separable = np.zeros(len(self.coef), dtype=bool)
        else:
            self.coef, self.is_singular = self.statistics["coef"], self.statistics["is_singular"]
            self.is_separable = self.statistics["is_separable"]

    @cached_property
    def mean(self) -> Average:
        """Step 5."""
        if self.is_squared:
            return mean_of_fits(self.coef, self.statistics)
        return mean_of_fits(self.coef, self.statistics, self._is_trusted)

    @property
    def _is_trusted(self) -> np.ndarray:
        """Whose fits count: that of a separable subset is the ridge's."""
        return self.is_separable if self.is_separable.all() else ~self.is_separable

    @cached_property
    def _slopes(self) -> dict[str, np.ndarray]:
        """Gradient and Hessian of every subset at the average."""
        at = Point(self.mean.coef * self.mean.scale, self.mean.centred_intercept, self.mean.mean, self.mean.scale)
        return joined([run.slope(self.settings, self.columns, at) for _, run in self.parts if run is not None])

    def z(self) -> np.ndarray | None:
        """Return the subsets' coefficients over their standard errors; None where rows that it takes are gone."""
        if self.is_squared:
            return z_of_squares(self.statistics, self.coef)
        if self.n_lost:
            return None
        coef = self.coef.copy()
        coef[~self._is_trusted] = np.nan
        dispersion, n_classes = self.statistics["dispersion"], len(self.settings.classes)
        return z_of_slopes(coef, dispersion, self._slopes["hessian"], self.mean.scale, n_classes)

    def averaged(self, average: str) -> Refit:
        """Return the averaged fit, after a Newton step where `average` is ``one_step``."""
        if self.is_squared:
            fitted = all_rows_fit(self.statistics) if average == "one_step" else self.mean
            return Refit(fitted, self.n_cached, self.n_read, self.n_lost, int(self.is_singular.sum()), 0, average)
        fitted, step = self.mean, average if not self.n_lost else "lost rows"
        if step == "one_step":
            stepped = newton_step(fitted, self._slopes, float(self.statistics["total"].sum()))
            fitted, step = (fitted, "long step") if stepped is None else (stepped, step)
        n_singular = int((self.is_singular & ~self.is_separable).sum())
        counts = (n_singular, int(self.is_separable.sum()))
        return Refit(fitted, self.n_cached, self.n_read, self.n_lost, *counts, step)


def confirmed(fits: SubsetFits, is_contender: np.ndarray, n_samples: float, gamma: float) -> np.ndarray:
    """Return the contenders that all subsets together confirm; none where rows that it takes are gone.

    Parameters
    ----------
    fits : SubsetFits
        Of the majority's features and the contenders.
    is_contender : ndarray of shape (n_features,), bool
    n_samples : float
        Of all subsets.
    gamma : float
        Of the criterion, see `feature_penalty`.
    """
    z = fits.z()
    contenders = np.flatnonzero(is_contender)
    if z is None:
        return contenders[:0]
    common = common_z(z)[np.searchsorted(fits.columns, contenders)]
    return contenders[is_beyond(common, n_samples, len(is_contender), gamma)]


def _statistics(
    part: Part, run: MessageRun | None, settings: SelectionSettings, columns: np.ndarray
) -> tuple[dict[str, np.ndarray], int, int]:
    """Return the statistics of a part's subsets in their order, and how many were cached and read."""
    n_subsets = part.shape.n_subsets
    cached: list[dict[str, np.ndarray] | None] = [None] * n_subsets
    if settings.loss == "squared" and "cached" in part.chosen:
        cached = _cached_statistics(part.chosen, columns)
    missing = [i for i in range(n_subsets) if cached[i] is None]
    rows = run.refit(settings, columns, missing) if run is not None and missing else {}
    read = 0
    pieces: list[dict[str, np.ndarray]] = []
    for piece in cached:
        if piece is not None:
            pieces.append(piece)
        elif rows:
            pieces.append({name: array[read : read + 1] for name, array in rows.items()})
            read += 1
    return joined(pieces), n_subsets - len(missing), read


def _cached_statistics(chosen: dict[str, np.ndarray], columns: np.ndarray) -> list[dict[str, np.ndarray] | None]:
    """Return for each subset what `subset_models.refit` would, or None where a column is not in its cache."""
    return [_from_cache(subset, columns) for subset in _by_subset(chosen)]


def _by_subset(chosen: dict[str, np.ndarray]) -> list[dict[str, np.ndarray]]:
    """Return the parts of the arrays that belong to each subset."""
    n_cached, n_constant = chosen["n_cached"], chosen["n_constant"]
    n_below = n_cached * (n_cached - 1) // 2
    lengths = dict.fromkeys(("cached", "cached_mean", "cached_scale", "cached_cross"), n_cached)
    lengths |= {"cached_gram": n_below, "constant": n_constant, "constant_value": n_constant}
    lengths |= {name: np.ones_like(n_cached) for name in ("total", "y_mean", "y_variance")}
    ends = {name: np.cumsum(length) for name, length in lengths.items()}
    return [
        {name: chosen[name][ends[name][i] - length[i] : ends[name][i]] for name, length in lengths.items()}
        for i in range(len(n_cached))
    ]


def _from_cache(subset: dict[str, np.ndarray], columns: np.ndarray) -> dict[str, np.ndarray] | None:
    n = len(columns)
    mean, scale, cross, gram = np.zeros(n), np.zeros(n), np.zeros(n), np.eye(n)
    is_constant, constant = _places(subset["constant"], columns)
    is_cached, targets = _places(subset["cached"], columns)
    if len(constant) + len(targets) < n:
        return None
    mean[constant] = subset["constant_value"][is_constant]
    for name, array in (("mean", mean), ("scale", scale), ("cross", cross)):
        array[targets] = subset[f"cached_{name}"][is_cached]
    below = np.tril_indices(len(targets), -1)
    q, r = np.flatnonzero(is_cached)[np.array(below)]
    here, there = targets[np.array(below)]
    gram[here, there] = subset["cached_gram"][q * (q - 1) // 2 + r]  # holds the rows below the diagonal in a row
    gram[there, here] = gram[here, there]
    arrays = {"mean": mean, "scale": scale, "cross": cross, "gram": gram}
    of_subset = {name: subset[name] for name in ("total", "y_mean", "y_variance")}
    return {name: array[None] for name, array in arrays.items()} | of_subset


def _places(known: np.ndarray, columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return which of some columns are among `columns`, ascending, and where these stand there."""
    places = np.searchsorted(columns, known)
    is_there = columns[np.minimum(places, len(columns) - 1)] == known
    return is_there, places[is_there]
