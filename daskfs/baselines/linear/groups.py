"""Base class of the FGM baselines that select groups; all columns are in memory, ordered by group."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

from daskfs.baselines.linear.base import LaidOut, LinearBaseline
from daskfs.baselines.null_model import null_model
from daskfs.baselines.standard_columns import StandardColumns, blocks_nbytes
from daskfs.feature_maps.groups import FeatureGroups, GroupsGiven
from daskfs.kernels.baselines.group_lasso import GroupedColumns, gradient_norms
from daskfs.kernels.glm.newton import Problem
from daskfs.matrix.base import Matrix
from daskfs.matrix.names import Names
from daskfs.selectors.grouped import SelectsGroups
from daskfs.selectors.shared.budget import Budget, DataShape
from daskfs.selectors.shared.rows import weighted_rows
from daskfs.selectors.shared.run import Run


class Grouped(NamedTuple):
    """All columns ordered by group, and the groups."""

    columns: GroupedColumns
    groups: FeatureGroups


class GroupBaseline(LinearBaseline, SelectsGroups, kw_only=True):
    """Base class of the group lasso and UFO-MKL.

    Parameters
    ----------
    n_features_to_select : int or "cv" or mapping, optional
        Number of groups: those with the largest coefficients in the fit of the largest penalty that keeps as many. "cv"
        chooses the number by cross-validation. A mapping does so with the options `cv`, `sizes`, `rule`, `metric`,
        `groups` and `order` of `daskfs.SelectionCV`.
    feature_groups : "schema", array of labels, list of arrays, or mapping, optional
        Columns that are selected together or not at all, as in `FGM`. A column of several groups has a coefficient in
        each of them, as in the latent group lasso.
    group_penalty : {"sqrt_size", "equal"}
        Factor of the norm of a group's coefficients: the root of the group's size, as in Yuan and Lin (2006), or 1, as
        in (15) of the paper.
    """

    copies = 8
    _takes_overlap = True

    feature_groups: GroupsGiven | None = None
    group_penalty: Literal["sqrt_size", "equal"] = "sqrt_size"

    def _held(self, shape: DataShape) -> Budget:
        groups = self._planned_groups(shape)
        n_members = shape.n_features if groups is None else len(groups.members)
        blocks = blocks_nbytes(shape.n_samples, shape.n_features, shape.itemsize)
        return Budget().add("blocks of columns", blocks).add("coefficients and groups", 100 * n_members)

    def _n_units(self, run: Run) -> int:
        return self._every_group(run.matrix).n_groups

    @property
    def _n_asked(self) -> int | None:
        return self.n_features_to_select if self.feature_groups is None else None

    def _every_group(self, matrix: Matrix) -> FeatureGroups:
        """Return the groups; without groups, one for each column."""
        n_features, groups = int(matrix.shape[1]), self._groups_of(matrix)
        if groups is not None:
            return groups
        return FeatureGroups(np.arange(n_features), np.arange(n_features + 1), Names(n_features))

    def _laid_out(self, run: Run, y: np.ndarray, weight: np.ndarray) -> LaidOut:
        rows, used = weighted_rows(run.matrix), weight > 0.0
        standard = StandardColumns(Run(rows, self.method), y[used], weight[used], keep=True)
        groups, values = self._every_group(run.matrix), standard.all()
        sizes = groups.sizes.astype(np.float64)
        penalty = np.sqrt(sizes) if self.group_penalty == "sqrt_size" else np.ones(len(sizes))
        columns = GroupedColumns(values, groups.members, groups.bounds, penalty, np.zeros(len(sizes)))
        inverse = np.divide(1.0, standard.scale, out=np.zeros(len(values)), where=standard.scale > 0.0)
        return LaidOut(Grouped(columns, groups), standard.mean, inverse)

    def _least(self, X: Grouped, y: np.ndarray, weight: np.ndarray) -> float:
        norms = np.empty(X.groups.n_groups)
        gradient_norms(X.columns, null_model(self._problem(y, weight))[1].residual, norms)
        largest = float((norms / X.columns.penalty).max())
        return 1.0 / (largest * weight.sum()) if largest > 0.0 else 1.0

    def _problem(self, y: np.ndarray, weight: np.ndarray) -> Problem:
        return Problem(self._loss.facts, 0.0, y, weight / weight.sum())

    def _sizes(self, X: Grouped, coef: np.ndarray) -> np.ndarray:
        return np.sqrt(np.add.reduceat(coef**2, X.groups.bounds[:-1]))

    def _without(self, X: Grouped, coef: np.ndarray, dropped: np.ndarray) -> np.ndarray:
        is_dropped = np.zeros(X.groups.n_groups, dtype=bool)
        is_dropped[dropped] = True
        return np.where(np.repeat(is_dropped, X.groups.sizes), 0.0, coef)

    def _take(self, laid_out: LaidOut, coef: np.ndarray, intercept: float) -> dict[str, np.ndarray]:
        (columns, groups), norms = laid_out.X, self._sizes(laid_out.X, coef)
        kept = np.flatnonzero(norms)
        selected, _ = groups.columns_of(kept)
        selected = np.unique(selected)
        standardised = np.bincount(columns.members, weights=coef, minlength=len(laid_out.mean))[selected]
        on_scale = standardised * laid_out.inverse[selected]
        shift = (laid_out.mean[selected] * on_scale).sum()
        self._set_selection(selected, np.abs(standardised), on_scale, intercept - shift)
        if self.feature_groups is None:
            return {}
        strongest = kept[np.lexsort((kept, -norms[kept]))]
        return self._set_groups(groups, strongest, norms[strongest])
