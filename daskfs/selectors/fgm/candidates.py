"""The units that FGM selects from, of one or several columns: scored where the data are, read when they are selected.

    StoredColumns      a unit is a column of the matrix: tasks return their best columns, and the values of those that
                       the next group probably takes, since they have just been decoded
    StoredGroups       a unit is a group of columns: tasks return the scores of columns, the client sums them by group
    ImplicitColumns    a unit is defined by a feature map: the matrix of its columns scores itself, in rounds

The passes ask for the best units, for their columns, and for these columns to be added to the restricted problem; they
do not know what a unit is.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import ClassVar, Literal, NamedTuple, TypeAlias

import numpy as np

from daskfs.errors import DataError
from daskfs.feature_maps.base import ImplicitMatrix, MapCost
from daskfs.feature_maps.groups import FeatureGroups
from daskfs.kernels.fgm.pairs import PRIOR_ROWS
from daskfs.kernels.fgm.topk import largest
from daskfs.selectors.fgm.loss_weight import typical_variance
from daskfs.selectors.fgm.plan import Cut, Units
from daskfs.selectors.fgm.restricted_problem import RestrictedProblem
from daskfs.selectors.fgm.standardising import Scaling, blocks_of
from daskfs.selectors.fgm.tasks import (
    Best,
    ScoredBlock,
    best_of_block,
    best_of_both,
    best_of_part,
    make_columns,
    read_columns,
    scores_of_block,
)
from daskfs.selectors.shared.run import Run

GroupScore: TypeAlias = Literal["excess", "sum", "mean"]
"""How the scores of groups are computed."""


class Found(NamedTuple):
    """Result of a worst-case analysis."""

    units: np.ndarray
    """Shape (<= n_wanted,), int64, by falling score, ties by number."""
    scores: np.ndarray
    """Scores of the units, ``Σ_c ‖X̃_uᵀ v_c‖²``."""
    quadratic: float
    """The sum of the B largest scores: the squared dual norm of the k-support norm, k = B."""


class Included(NamedTuple):
    """Columns that are always in the model, without a penalty."""

    columns: np.ndarray = np.empty(0, np.int64)
    units: np.ndarray = np.empty(0, np.int64)
    """The unit of each column."""

    def taken_from(self, units: Units) -> Units:
        """Return the remaining units, which can be selected."""
        return units.without(len(self.columns), len(np.unique(self.units)))


NOTHING = Included()


class Candidates(ABC):
    """Units that FGM selects from.

    Parameters
    ----------
    run : Run
        Over the matrix that has the columns.
    cut : Cut
    """

    kind: ClassVar[str] = "features"
    """The users' word for a unit."""
    makes_several = False
    """Whether a unit has several columns made from one column, with a common scale."""
    included = NOTHING
    """Columns that are in the model from the start, and so are no candidates."""

    def __init__(self, run: Run, cut: Cut) -> None:
        self.run, self.cut = run, cut
        self.n_passes = 0
        """Number of worst-case analyses so far."""

    @property
    @abstractmethod
    def units(self) -> Units:
        """Number of units, and of columns of units."""

    @property
    def n_units(self) -> int:
        """Number of units."""
        return self.units.n_units

    @property
    @abstractmethod
    def variance(self) -> float:
        """Typical variance of the columns as they are scored."""

    @abstractmethod
    def worst_case(self, v: np.ndarray, n_wanted: int, per_pass: int, held: np.ndarray) -> Found:
        """Return the units with the largest scores: Algorithms 2 and 5.

        Parameters
        ----------
        v : ndarray of shape (n_classes, n_samples)
            Dual variables.
        n_wanted : int
        per_pass : int
            The paper's B.
        held : ndarray of int64
            Units whose values are not needed.
        """

    def columns_of(self, units: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the columns of some units, one unit after the other, and the unit of each column."""
        return units, units

    def include(self, problem: RestrictedProblem, weight: np.ndarray) -> None:
        """Read the columns that are always included, and add them to a restricted problem.

        Raises
        ------
        DataError
            A column is constant, or a linear combination of those before it; of a group, all columns are.
        """
        columns, units = self.included
        if not len(columns):
            return
        self.give(problem, columns)
        is_dependent = problem.include(columns, units, weight)
        idle = np.setdiff1d(units, units[~is_dependent])
        if len(idle):
            what, where = self._refusal(int(idle[0]))
            raise DataError(what, where, "drop it")

    def _refusal(self, unit: int) -> tuple[str, str]:
        """Return why a unit cannot be included, and the place for the error."""
        name = str(self.run.matrix.names[unit])
        return "is constant, or a linear combination of the columns before it", f"always_include, column {name!r}"

    def give(self, problem: RestrictedProblem, columns: np.ndarray) -> None:
        """Read columns that a restricted problem does not have yet, and store them there."""
        if len(columns):
            order = np.argsort(columns, kind="stable")
            values = np.empty((len(columns), self.run.matrix.shape[0]), self.run.matrix.dtype)
            order = self._foreseen(columns, order, values)
            groups = self._read_together(columns[order])
            at = np.cumsum([0, *(len(group) for group in groups)])
            for k, part in self._read(groups):
                values[order[at[k] : at[k + 1]]] = part
            problem.keep(columns, values, *self._scaling_of(columns, values))

    def _foreseen(self, columns: np.ndarray, order: np.ndarray, values: np.ndarray) -> np.ndarray:
        """Write the values that were kept during scoring; return the positions of the other columns, in this order."""
        return order

    def _read(self, groups: list[np.ndarray]) -> Iterator[tuple[int, np.ndarray]]:
        """Yield the numbers of groups of columns and their values, in any order."""
        return self.run.each("columns", read_columns, groups)

    @abstractmethod
    def _read_together(self, ascending: np.ndarray) -> list[np.ndarray]:
        """Return the columns grouped by the tasks that read them."""

    @abstractmethod
    def _scaling_of(self, columns: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return centre and inverse of columns: x̃ = (x - centre) * inverse."""

    @abstractmethod
    def notes(self, normalize: bool | str) -> list[str]:
        """Return notes on how the columns were made and standardised."""


class StoredColumns(Candidates):
    """The columns of a matrix, each a unit: standardised on the fly, scored and read by the tasks."""

    def __init__(self, run: Run, cut: Cut, scaling: Scaling, included: Included = NOTHING) -> None:
        super().__init__(run, cut)
        self.scaling, self.included = scaling, included
        scaling.leave_out(included.columns)
        none = np.empty(0, np.int64)
        self._best = Best(none, none, none, np.empty((0, run.matrix.shape[0]), run.matrix.dtype))
        """Result of the last analysis: the best columns, and the values of those that were kept."""

    @property
    def units(self) -> Units:
        """The columns."""
        return self.included.taken_from(Units(self.run.matrix.shape[1]))

    @property
    def variance(self) -> float:
        """Typical variance of the standardised columns."""
        return typical_variance(self.scaling.variance)

    def worst_case(self, v: np.ndarray, n_wanted: int, per_pass: int, held: np.ndarray) -> Found:
        """Return the columns with the largest scores.

        The best columns of the last analysis that are not held are usually the best of this one. Tasks keep the values
        of some of them, so that tiles need not be decoded again for the columns of a group.
        """
        n_asked = n_wanted + self.cut.n_foreseen
        join = partial(best_of_both, n_wanted=n_asked)
        likely = self._likely(self._best.columns, held)
        parts = self.scaling.of_blocks(blocks_of(self.run, self.cut))
        self._best = self.run.reduce("scores", best_of_block, parts, join, v, n_asked, likely)
        self.n_passes += 1
        scores = self._best.scores[:n_wanted]
        return Found(self._best.columns[:n_wanted], scores, float(scores[:per_pass].sum()))

    def _likely(self, columns: np.ndarray, held: np.ndarray) -> np.ndarray:
        return np.sort(columns[~np.isin(columns, held)][: self.cut.n_foreseen])

    def _foreseen(self, columns: np.ndarray, order: np.ndarray, values: np.ndarray) -> np.ndarray:
        kept = {column: at for at, column in enumerate(self._best.kept.tolist())}
        is_kept = np.isin(columns[order], self._best.kept)
        for k in order[is_kept].tolist():
            values[k] = self._best.values[kept[int(columns[k])]]
        return order[~is_kept]

    def _read_together(self, ascending: np.ndarray) -> list[np.ndarray]:
        """Return the columns grouped by the tasks that read them: columns of the same tiles together."""
        if self.run.matrix.is_resident:
            return [ascending]
        tile = max(1, self.run.matrix.tile_shape[1])
        groups: list[list[int]] = []
        for column in ascending.tolist():
            if groups and groups[-1][0] // tile == column // tile and len(groups[-1]) < self.cut.n_read:
                groups[-1].append(column)
            else:
                groups.append([column])
        return [np.array(group, dtype=np.int64) for group in groups]

    def _scaling_of(self, columns: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return self.scaling.centre[columns], self.scaling.inverse[columns]

    def notes(self, normalize: bool | str) -> list[str]:
        """Return notes on how columns were standardised, and how many are constant."""
        found = []
        if normalize == "auto":
            found.append(_how_scaled(self.scaling.n_mostly_zero, self.run.matrix.shape[1]))
        n_constant = int((self.scaling.inverse == 0.0).sum()) - len(self.included.columns)
        if n_constant:
            found.append(f"{n_constant} column(s) are constant and cannot be selected")
        return found


class StoredGroups(StoredColumns):
    """Groups of the columns of a matrix, each a unit."""

    kind = "groups"

    def __init__(
        self,
        run: Run,
        cut: Cut,
        scaling: Scaling,
        groups: FeatureGroups,
        score: GroupScore,
        included: Included = NOTHING,
    ) -> None:
        super().__init__(run, cut, scaling, included)
        self.groups, self.score = groups, score
        self._variances = groups.sums(scaling.variance)
        self.n_visited = 0
        """Number of groups whose scores were summed, in all analyses."""
        self._promising = np.empty(0, np.int64)

    @property
    def units(self) -> Units:
        """The groups."""
        units = Units(self.groups.n_groups, self.groups.most_columns, self.groups.most_groups)
        return self.included.taken_from(units)

    def _refusal(self, unit: int) -> tuple[str, str]:
        problem = "its columns are constant, or linear combinations of the columns before it"
        return problem, f"always_include, group {str(self.groups.names[unit])!r}"

    def worst_case(self, v: np.ndarray, n_wanted: int, per_pass: int, held: np.ndarray) -> Found:
        """Return the groups with the largest scores: sums over their columns, minus those expected by chance, or means.

        If the dual variables are independent of a column, x̃ᵀv has the variance ‖v‖² var(x̃).
        """
        held_columns = self.columns_of(held)[0]
        likely = self._likely(self.columns_of(self._promising)[0], held_columns)
        parts = self.scaling.of_blocks(blocks_of(self.run, self.cut))
        blocks: list[ScoredBlock] = self.run.map("scores", scores_of_block, parts, v, np.unique(likely))
        self.n_passes += 1
        squares = np.concatenate([block.scores for block in blocks])
        kept, values = (np.concatenate([block[at] for block in blocks]) for at in (1, 2))
        self._best = Best(kept[:0], squares[:0], kept, values)
        if self.score == "mean":
            sums = self.groups.sums(squares)
            units, scores = largest(sums / self.groups.sizes, 0, n_wanted)
            n_visited, quadratic = self.n_units, float(largest(sums, 0, per_pass)[1].sum())
        else:
            by_chance = float((v * v).sum()) * self._variances if self.score == "excess" else None
            units, _, n_visited = self.groups.largest(squares, n_wanted, by_chance)
            scores = self.groups.sums(squares, units)
            highest = scores if by_chance is None else self.groups.largest(squares, per_pass)[1]
            quadratic = float(highest[:per_pass].sum())
        self.n_visited += n_visited
        self._promising = units[~np.isin(units, held)]
        return Found(units, scores, quadratic)

    def columns_of(self, units: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the columns of some groups, one group after the other, and the group of each column."""
        return self.groups.columns_of(units)

    def notes(self, normalize: bool | str) -> list[str]:
        """Return notes that describe the groups, and how many of them were visited."""
        found = super().notes(normalize)
        found.append(self.groups.text)
        if self.score == "mean":
            found.append("scores of groups are means over their columns: no subtree could be skipped")
        elif self.groups.is_tree:
            share = self.n_visited / max(1, self.n_passes * self.n_units)
            found.append(f"the tree was pruned: {100 * share:.3g} % of the groups were visited")
        return found


class ImplicitColumns(Candidates):
    """The columns that a feature map makes of a matrix. They are scored without being stored.

    Tasks receive the stored matrix, as for its moments, and separately what makes the map's columns from it.

    Parameters
    ----------
    run, cut : as in `Candidates`
    implicit : ImplicitMatrix
    cost : MapCost
    scaling : callable
        Returns the scaling of the columns of the matrix itself.
    """

    def __init__(
        self, run: Run, cut: Cut, implicit: ImplicitMatrix, cost: MapCost, scaling: Callable[[], Scaling]
    ) -> None:
        super().__init__(run.over(implicit), cut)
        self.implicit, self.cost, self.makes_several = implicit, cost, cost.columns_per_unit > 1
        self.stored, self._apart, self._scaling = run, implicit.apart(), scaling

    @property
    def units(self) -> Units:
        """Units of the map."""
        return Units(self.cost.n_units, self.cost.most_columns, self.cost.most_units)

    @property
    def variance(self) -> float:
        """Typical variance of the columns, from the map."""
        return float(self.implicit.variance)

    def worst_case(self, v: np.ndarray, n_wanted: int, per_pass: int, held: np.ndarray) -> Found:
        """Return the units with the largest scores; each round returns only units that can be among them."""
        join = partial(best_of_both, n_wanted=n_wanted)
        none = np.empty(0, np.int64)
        best = Best(none, np.empty(0), none, np.empty((0, 0), self.implicit.dtype))
        apart = self.run.keep(self._apart)
        for parts in self.implicit.rounds(self.run.limits.n_threads, held):
            floor = float(best.scores[-1]) if len(best.scores) == n_wanted else 0.0
            found = self.stored.reduce("scores", best_of_part, parts, join, apart, v, n_wanted, floor)
            best = best_of_both(best, found, n_wanted)
        self.n_passes += 1
        return Found(best.columns, best.scores, float(best.scores[:per_pass].sum()))

    def columns_of(self, units: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the columns of some units, one unit after the other, and the unit of each column."""
        columns, bounds = self.implicit.columns_of(units)
        return columns, np.repeat(units, np.diff(bounds))

    def scores_of_parents(self, v: np.ndarray) -> np.ndarray:
        """Return the scores of the stored columns themselves, as without a map."""
        parts = self._scaling().of_blocks(blocks_of(self.stored, self.cut))
        blocks: list[ScoredBlock] = self.stored.map("parents", scores_of_block, parts, v, np.empty(0, np.int64))
        return np.concatenate([block.scores for block in blocks])

    def _read(self, groups: list[np.ndarray]) -> Iterator[tuple[int, np.ndarray]]:
        return self.stored.each("columns", make_columns, groups, self.run.keep(self._apart))

    def _read_together(self, ascending: np.ndarray) -> list[np.ndarray]:
        starts: Iterable[int] = range(0, len(ascending), self.cut.n_read)
        return [ascending[start : start + self.cut.n_read] for start in starts]

    def _scaling_of(self, columns: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return self.implicit.scaling_of(columns, values)

    def notes(self, normalize: bool | str) -> list[str]:
        """Return the notes of the map."""
        return list(self.implicit.notes)


def _how_scaled(n_mostly_zero: int, n_features: int) -> str:
    """Return a note on what ``normalize="auto"`` did with the columns."""
    if not n_mostly_zero:
        return "columns were divided by their standard deviations: none has dummies, counts or tf-idf"
    return (
        f"{n_mostly_zero:,} of {n_features:,} columns have zeros and no negative values (dummies, counts, tf-idf): "
        f"they were divided by the standard deviation that {PRIOR_ROWS:g} more rows would give"
    )
