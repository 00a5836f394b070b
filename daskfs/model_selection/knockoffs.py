"""Knockoffs: selection with a bounded false discovery rate, from any selector.

    Input: a selector, a false discovery rate q, a number of draws
    1. Estimate means, deviations and correlations of all columns; for many columns within blocks, plus common factors.
    2. Draw knockoffs X~ with the correlations of the columns but independent of the target. They are not stored.
    3. Fit a Lasso with a cross-validated penalty, or the selector, on the columns and their knockoffs together.
    4. Compute W_j, the importance of column j minus that of its knockoff. For null columns, both signs are equally
       likely.
    5. With one draw, select {j : W_j >= T}, where T is the smallest t with (1 + #{W <= -t}) / #{W >= t} <= q
       (knockoff+). With several draws, average their e-values and select by these.

E. Candes, Y. Fan, L. Janson, J. Lv (2018): Panning for gold: model-X knockoffs for high dimensional controlled variable
selection. J. R. Stat. Soc. B 80, 551-577. R. F. Barber, E. J. Candes (2015): Controlling the false discovery rate via
knockoffs. Ann. Stat. 43, 2055-2085. A. Spector, L. Janson (2022): Powerful knockoffs via minimizing
reconstructability. Ann. Stat. 50, 252-276. R. Dai, R. F. Barber (2016): The knockoff filter for FDR control in
group-sparse and multitask regression. ICML. Z. Ren, R. F. Barber (2024): Derandomised knockoffs: leveraging e-values
for false discovery rate control. J. R. Stat. Soc. B 86, 122-154.

The Lasso is `daskfs.model_selection.lasso_statistic`. A selector with a fixed number of features gives no information
on the columns it leaves out, and does not shrink the coefficients of null columns that it selects; both reduce the
power.

Differs from the papers: means and correlations are estimated from the same rows; for many columns within blocks, plus
common factors of all blocks (`daskfs.model_selection.common_factors`). The order of a column and its knockoff is drawn
for each pair, so that a selector which prefers the first of equal columns is not biased. The semidefinite programme
for the distance of knockoffs is not offered, because minimum variance is more powerful (Spector and Janson).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from annotated_types import Ge, Gt, Lt

from daskfs.errors import PlanError
from daskfs.feature_maps.groups import FeatureGroups
from daskfs.matrix.base import Matrix
from daskfs.model_selection.base import MetaSelector
from daskfs.model_selection.common_factors import (
    MOST_FACTORS,
    SPARE,
    STEPS,
    CommonFactors,
    factors_given_columns,
    principal_components,
)
from daskfs.model_selection.knockoff_columns import PIECE_NBYTES, KnockoffMatrix, column_blocks, dtype_of
from daskfs.model_selection.knockoff_filter import derandomised, knockoff_threshold
from daskfs.model_selection.lasso_statistic import LassoSizes
from daskfs.model_selection.second_order import (
    BlockLaw,
    ColumnGroups,
    Distance,
    block_nbytes,
    law_beside,
    law_of,
    rows_within,
)
from daskfs.parameters import Count
from daskfs.selectors.grouped import SelectsGroups
from daskfs.selectors.inputs import seed_of
from daskfs.selectors.shared.budget import Budget, DataShape, Limits, SelectorPlan
from daskfs.selectors.shared.rows import ingest_order
from daskfs.selectors.shared.run import Run
from daskfs.selectors.shared.samples import Recipe, on_samples, plan_samples

WHOLE_COLUMNS, MOST_COLUMNS = 1000, 512
"""Maximum number of columns for estimating all correlations; with more, maximum number of columns of a block."""
LAW_VALUES = 1 << 25
"""Maximum of columns times columns of a block; the laws of all blocks have twice as many values: 512 MiB."""
COLUMNS_OF_A_FACTOR = 8
"""Minimum number of columns per common factor."""
FACTORS_NBYTES = 1 << 31
"""Memory for finding common factors, unless the memory limit requires less."""
LASSO_NOTE = "statistics are from a Lasso on columns and knockoffs with a cross-validated penalty"
ASSUMPTION_TEXT = (
    "it holds if the columns are normally distributed with the estimated correlations ({estimated}), and "
    "approximately if these first two moments describe them"
)


@dataclass(frozen=True)
class Draw:
    """One draw of knockoffs of all rows."""

    number: int
    seed: int
    order: int | None
    """Seed of the order in which the rows are presented; None for the stored order."""

    @property
    def name(self) -> str:
        """Name of its statistics in a checkpoint."""
        return f"{self.number}"

    def of(self, matrix: Matrix) -> Matrix:
        """Return all rows in the order of the draw."""
        return matrix if self.order is None else matrix.take(ingest_order(matrix.shape[0], self.order))


def statistics_on(
    selector: Any,
    run: Run,
    draw: Draw,
    blocks: list[ColumnGroups],
    laws: list[BlockLaw],
    factors: CommonFactors | None,
    statistic: str,
) -> dict[str, np.ndarray]:
    """Return the importance of each group of columns minus that of its knockoffs."""
    order = None if draw.order is None else ingest_order(run.matrix.shape[0], draw.order)
    of_all = None if factors is None else factors.drawn(draw.seed, order)
    matrix = KnockoffMatrix(run.matrix, blocks, laws, draw.seed, order is not None, of_all)
    selector.fit_run(run.over(matrix))
    if statistic == "lasso":
        size = selector.sizes_
    elif statistic == "coefficient":
        size = np.sqrt((np.atleast_2d(selector.coef_) ** 2).sum(axis=0)) * np.repeat(matrix.deviations, 2)
    elif statistic == "score":
        size = np.abs(np.nan_to_num(selector.scores_))
    else:
        size = np.zeros(matrix.shape[1])
        size[selector.selected_] = np.arange(len(selector.selected_), 0, -1)
    (of_columns, of_knockoffs), group_of = matrix.parted(size), _group_of(blocks)
    return {"statistics": np.bincount(group_of, of_columns) - np.bincount(group_of, of_knockoffs)}


class Knockoffs(MetaSelector, SelectsGroups):
    """Select features that are more important than their knockoffs, with a false discovery rate of at most `fdr`.

    Parameters
    ----------
    fdr : float
        False discovery rate: maximum expected proportion of false features among the selected. A feature is false if
        it is independent of the target given all other features.
    n_draws : int
        Number of draws of knockoffs. With more draws the selection depends less on a draw. Each draw needs a fit, and
        the selection is more often empty if fewer than ``2 / fdr`` features stand out.
    statistic : {"lasso", "coefficient", "score", "rank"}
        Statistic by which a column is compared with its knockoff. "lasso" is the standardised coefficient in a Lasso
        with a cross-validated penalty; the selector is then not fitted and only defines the loss. The others are the
        selector's standardised coefficient, score, or rank among the selected features.
    distance : {"mvr", "equicorrelated"}
        Construction of the knockoffs: minimum variance-based reconstructability, or equicorrelated. Knockoffs of groups
        are equicorrelated.
    block_columns : int, optional
        Number of columns whose correlations are estimated together; columns of different blocks correlate only through
        common factors. Default: all columns up to 1,000, beyond that 512 or as many as 512 MiB allow.
    max_factors : int
        Maximum number of common factors of several blocks. The number is that of outstanding principal components; 0
        treats columns of different blocks as independent.

    Attributes
    ----------
    statistics_ : ndarray of shape (n_features,)
        For each column, or each group with `feature_groups`: W of the draw, or the mean e-value of several draws.
    threshold_ : float
        Features that reach it are selected; infinite if none is selected.
    draws_ : ndarray of shape (n_draws, n_features)
        W of each draw.
    selected_, support_, coef_, intercept_, classes_, scores_, result_
        As in every selector; `scores_` are the statistics, and coefficients are from a ridge fit of the selected
        features.

    Notes
    -----
    Except with "lasso", the selector is fitted on twice as many columns for each draw. Let it select more features than
    are expected to be true, or choose the number itself, so that it also selects some knockoffs. Selections have at
    least ``1 / fdr`` features or are empty, because a smaller proportion cannot be estimated. Columns and knockoffs are
    read as one matrix that computes knockoffs on reading: ``2 w`` multiplications per value, with w columns per block.

    Examples
    --------
    >>> import numpy as np
    >>> from daskfs import OnlineSubstitution
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((400, 40))
    >>> y = X[:, :15].sum(axis=1) + rng.standard_normal(400)
    >>> selector = Knockoffs(OnlineSubstitution(30), fdr=0.1).fit(X, y)
    >>> set(range(15)) <= set(selector.selected_)
    True
    """

    method = "knockoffs"
    _takes_selection = False
    refused_inside = MappingProxyType(
        {
            "feature_map": ("knockoffs do not support feature maps", "leave it out"),
            "always_include": (
                "every column must be compared with its knockoff to be selected",
                "leave it out (covariates are tested like other columns), or use StabilitySelection or SplitInference",
            ),
            "feature_groups": ("expected this parameter in Knockoffs", "pass feature_groups to Knockoffs"),
        }
    )

    fdr: Annotated[float, Gt(0), Lt(1)] = 0.1
    n_draws: Count = 1
    statistic: Literal["lasso", "coefficient", "score", "rank"] = "coefficient"
    distance: Distance = "mvr"
    block_columns: Annotated[int, Ge(2)] | None = None
    max_factors: Annotated[int, Ge(0)] = MOST_FACTORS

    @property
    def score_kind(self) -> str:  # type: ignore[override]
        """Kind of `scores_`."""
        return "knockoff statistic" if self.n_draws == 1 else "mean e-value"

    @property
    def _fitted(self) -> Recipe:
        """Recipe of the selector that is fitted on columns and knockoffs."""
        return Recipe(LassoSizes, {}, self.loss_) if self.statistic == "lasso" else self.recipe

    def _width(self, n_features: int) -> int:
        if self.block_columns is not None:
            return min(self.block_columns, n_features)
        if n_features <= WHOLE_COLUMNS:
            return n_features
        return int(min(MOST_COLUMNS, max(2, LAW_VALUES // n_features)))

    @property
    def groups_are_cut_by(self) -> str:
        """The part that splits groups of rows: folds of the Lasso, or samples of the nested selector."""
        return "folds of the Lasso's penalty" if self.statistic == "lasso" else super().groups_are_cut_by

    def _blocks(self, n_features: int, groups: FeatureGroups | None) -> list[ColumnGroups]:
        alone = np.arange(n_features)[:, None]
        lists = list(alone) if groups is None else [groups[g] for g in range(groups.n_groups)]
        return column_blocks(lists, self._width(n_features))

    def _plan(self, shape: DataShape, limits: Limits) -> SelectorPlan:
        blocks = self._blocks(shape.n_features, self._planned_groups(shape))
        sizes = _Sizes.of(shape, blocks, self.max_factors, limits)
        try:
            fits = plan_samples(self._fitted, sizes.double, replace(limits, task_nbytes=sizes.left), self.n_draws, "")
        except PlanError as fault:
            with_factors = _Sizes.of(shape, blocks, self.max_factors, Limits(None, limits.n_threads))
            fault = fault.beside(max(sizes.beside.nbytes, with_factors.beside.nbytes))
            if sizes.law.nbytes <= (fault.needed_nbytes or 0):
                raise fault from None
            fits = plan_samples(self._fitted, sizes.double, Limits(None, limits.n_threads), self.n_draws, "")
        sizes.law.refuse_over(limits.task_nbytes, f"{sizes.width:,} columns need", "set block_columns")
        task = max(sizes.law, sizes.beside + fits.task, key=lambda budget: budget.nbytes)
        factors = f" and up to {sizes.n_factors} common factors" if sizes.n_factors else ""
        n_passes = 3 + 2 * STEPS if sizes.n_factors else 1
        draws = "one draw" if self.n_draws == 1 else f"{self.n_draws} draws"
        return replace(
            fits,
            n_tasks=fits.n_tasks + n_passes * len(blocks),
            n_passes=fits.n_passes + n_passes,
            read_nbytes=fits.read_nbytes // 2 + n_passes * shape.nbytes,
            task=task,
            client=fits.client + Budget({"laws of knockoffs": sizes.law_nbytes}),
            text=f"correlations within {_blocks_text(blocks)}{factors}, then {draws} of knockoffs{fits.text}",
        )

    def _fit(self, run: Run) -> None:
        shape = self._shape_of(run)
        self._plan(shape, run.limits)
        groups = self._groups_of(run.matrix)
        blocks = self._blocks(shape.n_features, groups)
        sizes = _Sizes.of(shape, blocks, self.max_factors, run.limits)
        by_columns = run.over(run.matrix, by="columns")
        laws, factors = self._laws(by_columns, blocks, sizes)
        by_rows = run.over(run.matrix, by="rows", task_limit=sizes.left)
        draws = self._on_draws(by_rows, blocks, laws, factors, sizes.double)
        self._select(draws)
        is_reached = self.statistics_ >= self.threshold_
        group_of = _group_of(blocks)
        notes = [
            self._rate_note(blocks, laws, factors, bool(sizes.n_factors), int(is_reached.sum())),
            *([LASSO_NOTE] if self.statistic == "lasso" else []),
            *self._take_columns(run, np.flatnonzero(is_reached[group_of]), self.statistics_[group_of]),
        ]
        columns = {}
        if groups is not None:
            chosen = np.flatnonzero(is_reached)
            chosen = chosen[np.lexsort((chosen, -self.statistics_[chosen]))]
            columns = self._set_groups(groups, chosen, self.statistics_[chosen])
        history = {"draw": np.arange(self.n_draws), "n_positive": (draws > 0).sum(axis=1)}
        history["n_negative"] = (draws < 0).sum(axis=1)
        chosen_here = {"threshold": self.threshold_} if math.isfinite(self.threshold_) else {}
        self.result_ = self._result_of(run, notes=notes, history=history, columns=columns, chosen=chosen_here)

    def _laws(self, run: Run, blocks: list[ColumnGroups], sizes: _Sizes) -> tuple[list[BlockLaw], CommonFactors | None]:
        """Run step 1, with common factors for several blocks."""
        how = self.distance, sizes.piece_rows
        laws = run.map("correlations", law_of, blocks, *how, record=BlockLaw)
        if not sizes.n_factors:
            return laws, None
        components = principal_components(run, blocks, laws, sizes.n_factors)
        if not components.shape[1]:
            return laws, None
        laws = run.map("loadings", law_beside, blocks, *how, run.keep(components), record=BlockLaw)
        return laws, factors_given_columns(run, blocks, laws)

    def _on_draws(
        self, run: Run, blocks: list[ColumnGroups], laws: list[BlockLaw], factors: CommonFactors | None,
        double: DataShape,
    ) -> np.ndarray:  # fmt: skip
        """Run steps 2 to 4."""
        seed = seed_of(self.random_state) or 0
        order = seed if run.matrix.is_resident and not run.matrix.rows_are_random else None
        seeds = np.random.SeedSequence(seed).generate_state(self.n_draws, np.uint32).tolist()
        draws = [Draw(k, one, order) for k, one in enumerate(seeds)]
        shared = blocks, laws, factors, self.statistic
        found = on_samples(run, "draws", statistics_on, self._fitted, draws, *shared, shape=double)
        return np.array([one["statistics"] for one in found])

    def _select(self, draws: np.ndarray) -> None:
        """Run step 5."""
        self.draws_ = draws
        if self.n_draws == 1:
            self.statistics_, self.threshold_ = draws[0], knockoff_threshold(draws[0], self.fdr)
            return
        self.statistics_, is_selected = derandomised(list(draws), self.fdr)
        self.threshold_ = float(self.statistics_[is_selected].min()) if is_selected.any() else math.inf

    def _rate_note(
        self,
        blocks: list[ColumnGroups],
        laws: list[BlockLaw],
        factors: CommonFactors | None,
        has_looked: bool,
        n_selected: int,
    ) -> str:
        """Return the note on the false discovery rate."""
        what = "features" if self.feature_groups is None else "groups"
        how = "knockoff+" if self.n_draws == 1 else f"e-values of {self.n_draws} draws"
        shrinkage = max(law.shrinkage for law in laws)
        estimated = f"within {_blocks_text(blocks)}" if len(blocks) > 1 else "of all columns"
        if shrinkage > 0.0:
            estimated += f", shrunk by at most {shrinkage:.0%}"
        note = (
            f"false discovery rate: at most {self.fdr:g} of the selected {what} on average ({how}); "
            f"{ASSUMPTION_TEXT.format(estimated=estimated)}"
        )
        note += f"; knockoffs correlate {_mean_correlation(laws):.2f} with their columns"
        if len(blocks) > 1:
            if factors is not None:
                n_factors = factors.mean.shape[1]
                note += f"; correlations between blocks are from {n_factors} common factor{'s'[: n_factors > 1]}"
            else:
                why = ", because no principal component stands out" if has_looked else ""
                note += f"; correlations between blocks were assumed to be 0{why}"
        least = math.ceil(1.0 / self.fdr)
        return note if n_selected else f"{note}; this rate requires a selection of at least {least} {what}"


class _Sizes(NamedTuple):
    """Sizes and memory of knockoffs for blocks of a given width."""

    width: int
    double: DataShape
    """Shape of columns and knockoffs together."""
    law: Budget
    """Memory of a task that computes the law of a block."""
    piece_rows: int
    """Number of rows that it reads at a time."""
    beside: Budget
    """Additional memory of a task that reads knockoffs."""
    law_nbytes: int
    left: int | None
    """Rest of a task's limit, for the fit."""
    n_factors: int
    """Maximum number of common factors; 0 for one block, or if there is not enough memory."""

    @classmethod
    def of(cls, shape: DataShape, blocks: list[ColumnGroups], max_factors: int, limits: Limits) -> _Sizes:
        """Return the sizes for a memory limit."""
        width = max(len(block.columns) for block in blocks)
        limit, tile_rows = limits.task_nbytes, (shape.tile_shape or (1, 1))[0]
        sizes = shape.n_samples, 2 * shape.n_features, dtype_of(shape.dtype), (tile_rows, 2 * width)
        double = DataShape(*sizes, n_classes=shape.n_classes, n_stored=shape.n_samples)
        max_factors = min(max_factors, shape.n_features // COLUMNS_OF_A_FACTOR)
        directions_nbytes = 8 * 4 * shape.n_samples * (max_factors + SPARE)
        has_room = directions_nbytes <= (FACTORS_NBYTES if limit is None else limit // 4)
        n_factors = max_factors if len(blocks) > 1 and has_room else 0
        for_rows = None if limit is None else limit - shape.tiles_nbytes - (directions_nbytes if n_factors else 0)
        piece_rows = rows_within(for_rows, shape.n_samples, width, shape.itemsize)
        law = Budget({"correlations of a block of columns": block_nbytes(width, piece_rows, shape.itemsize)})
        law_nbytes = 16 * shape.n_features * width + 32 * shape.n_features
        beside = Budget({"laws of knockoffs": law_nbytes})
        beside.add("columns read to make knockoffs", 3 * PIECE_NBYTES)
        if n_factors:
            law.add("common factors", directions_nbytes)
            beside.add("common factors", 24 * shape.n_samples * n_factors + 16 * shape.n_features * n_factors)
        left = None if limit is None else max(1, limit - beside.nbytes)
        return cls(width, double, law.add("tiles", shape.tiles_nbytes), piece_rows, beside, law_nbytes, left, n_factors)


def _mean_correlation(laws: list[BlockLaw]) -> float:
    sizes = [len(law.mean) for law in laws]
    return float(np.average([law.correlation for law in laws], weights=sizes))


def _group_of(blocks: list[ColumnGroups]) -> np.ndarray:
    """Return the group number of each column."""
    found = np.empty(sum(len(block.columns) for block in blocks), np.int64)
    for block in blocks:
        found[block.columns] = block.groups
    return found


def _blocks_text(blocks: list[ColumnGroups]) -> str:
    width = max(len(block.columns) for block in blocks)
    return f"all {width:,} columns" if len(blocks) == 1 else f"{len(blocks):,} blocks of up to {width:,} columns"
