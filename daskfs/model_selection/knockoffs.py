"""Knockoffs: a selection of which a known share is false at most, from any selector.

    Input: a selector, a false discovery rate q, a number of draws
    1. Means, deviations and correlations of all columns; of many within blocks, and through common factors.
    2. A draw: knockoffs X~ that have the columns' correlations, and know nothing of the target. They are not stored.
    3. Fit a Lasso whose penalty is cross-validated, or the selector, on the columns and their knockoffs together.
    4. W_j: by how much column j counts for more than its knockoff. Of noise, either sign is equally likely.
    5. One draw: select {j : W_j >= T}, T the smallest t with (1 + #{W <= -t}) / #{W >= t} <= q (knockoff+).
       Several: average the e-values of the draws, and select by these.

E. Candes, Y. Fan, L. Janson, J. Lv (2018): Panning for gold: model-X knockoffs for high dimensional controlled variable
selection. J. R. Stat. Soc. B 80, 551-577. R. F. Barber, E. J. Candes (2015): Controlling the false discovery rate via
knockoffs. Ann. Stat. 43, 2055-2085. A. Spector, L. Janson (2022): Powerful knockoffs via minimizing
reconstructability. Ann. Stat. 50, 252-276. R. Dai, R. F. Barber (2016): The knockoff filter for FDR control in
group-sparse and multitask regression. ICML. Z. Ren, R. F. Barber (2024): Derandomised knockoffs: leveraging e-values
for false discovery rate control. J. R. Stat. Soc. B 86, 122-154.

The Lasso is `daskfs.model_selection.lasso_statistic`. A selector that is told a number says nothing of the columns that
it leaves out, and of those that it takes the coefficients of noise are not shrunk: both cost power.

Differs from the papers: means and correlations are estimated from the same rows, and of many columns within blocks,
beside factors that all blocks have in common (`daskfs.model_selection.common_factors`). Columns and knockoffs are
presented in an order drawn for each pair, so that a selector that prefers the first of equals cannot tell them apart.
The semidefinite programme for the distance of knockoffs is not offered: minimum variance is more powerful, by Spector
and Janson, and is solved here.
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
"""Up to so many columns all correlations are estimated; of more, those within blocks of so many at most."""
LAW_VALUES = 1 << 25
"""Of numbers of all blocks' laws, twice as many as columns times columns of a block: 512 MiB."""
COLUMNS_OF_A_FACTOR = 8
"""At least: of fewer columns fewer factors are looked for."""
FACTORS_NBYTES = 1 << 31
"""Of what looks for common factors, where the memory limit does not ask for less."""
LASSO_NOTE = "statistics are of a Lasso of columns and knockoffs, its penalty cross-validated"
SUPPOSED = (
    "it holds if the columns are normally distributed with the correlations that were estimated ({estimated}), and "
    "approximately if these first two moments describe them"
)


@dataclass(frozen=True)
class Draw:
    """One draw of knockoffs of all rows."""

    number: int
    seed: int
    order: int | None
    """Seed of the order in which the rows are presented; None: as they stand."""

    @property
    def name(self) -> str:
        """Under which a checkpoint keeps its statistics."""
        return f"{self.number}"

    def of(self, matrix: Matrix) -> Matrix:
        """Return all rows."""
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
    """Return by how much each group of columns counts for more than its knockoffs."""
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
    """Select the features that count for more than their knockoffs, a share of `fdr` of which is false at most.

    Parameters
    ----------
    fdr : float
        False discovery rate: what share of the selected features may be false, on average over such data. A feature is
        false that says nothing of the target beyond what all others say.
    n_draws : int
        Of knockoffs. The selection by one draw depends on it; that by several less, at the price of a fit each, and it
        is empty more often where fewer than ``2 / fdr`` features stand out.
    statistic : {"lasso", "coefficient", "score", "rank"}
        What a column is compared with its knockoff by: its standardised coefficient in a Lasso of all of them with a
        cross-validated penalty, for which the selector inside is not fitted and only says which loss is meant; or
        what the selector makes of it: its standardised coefficient, its score, or its place among the selected.
    distance : {"mvr", "equicorrelated"}
        How far knockoffs lie from their columns: minimum variance-based reconstructability, or equally far. Those of
        groups are equicorrelated.
    block_columns : int, optional
        Columns whose correlations are estimated together; those of two blocks correlate through common factors alone.
        By default all of up to 1,000, then 512 or what 512 MiB hold.
    max_factors : int
        Common factors of several blocks that are looked for at most. There are as many as principal components stand
        out; 0 takes columns of two blocks for independent.

    Attributes
    ----------
    statistics_ : ndarray of shape (n_features,)
        Of each column, or with `feature_groups` of each group: W of the draw, of several draws the mean e-value.
    threshold_ : float
        Selected is what reaches it; infinite where nothing is.
    draws_ : ndarray of shape (n_draws, n_features)
        W of each draw.
    selected_, support_, coef_, intercept_, classes_, scores_, result_
        As of every selector; `scores_` are the statistics, coefficients those of a ridge fit of the selected features.

    Notes
    -----
    With a statistic of its own the selector is fitted on twice as many columns, for each draw: tell it to select more
    features than are expected to be true, or leave it to find out, so that some knockoffs are among them. Fewer than
    ``1 / fdr`` features are never selected, for their share could not be told. Columns and knockoffs are read as one
    matrix, which makes knockoffs when they are read: ``2 w`` multiplications for each value, with w columns to a block.

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
            "feature_map": ("columns are paired with knockoffs, what a map makes of them is not", "leave it out"),
            "always_include": (
                "every column is compared with its knockoff, and none is selected without",
                "leave it out: covariates are tested as other columns; StabilitySelection and SplitInference keep them",
            ),
            "feature_groups": ("columns are paired with knockoffs here", "give feature_groups to Knockoffs"),
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
        """What `scores_` are."""
        return "knockoff statistic" if self.n_draws == 1 else "mean e-value"

    @property
    def _fitted(self) -> Recipe:
        """What is fitted to columns and knockoffs."""
        return Recipe(LassoSizes, {}, self.loss_) if self.statistic == "lasso" else self.recipe

    def _width(self, n_features: int) -> int:
        if self.block_columns is not None:
            return min(self.block_columns, n_features)
        if n_features <= WHOLE_COLUMNS:
            return n_features
        return int(min(MOST_COLUMNS, max(2, LAW_VALUES // n_features)))

    @property
    def groups_are_cut_by(self) -> str:
        """What cuts groups of rows: the folds of the Lasso, or what the selector inside draws."""
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
        sizes.law.refuse_over(limits.task_nbytes, f"{sizes.width:,} columns take", "set block_columns")
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
            client=fits.client + Budget({"how knockoffs are made": sizes.law_nbytes}),
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
        """Step 1; of several blocks what they have in common too."""
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
        """Steps 2 to 4."""
        seed = seed_of(self.random_state) or 0
        order = seed if run.matrix.is_resident and not run.matrix.rows_are_random else None
        seeds = np.random.SeedSequence(seed).generate_state(self.n_draws, np.uint32).tolist()
        draws = [Draw(k, one, order) for k, one in enumerate(seeds)]
        shared = blocks, laws, factors, self.statistic
        found = on_samples(run, "draws", statistics_on, self._fitted, draws, *shared, shape=double)
        return np.array([one["statistics"] for one in found])

    def _select(self, draws: np.ndarray) -> None:
        """Step 5."""
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
        """Return the sentence on the false discovery rate."""
        what = "features" if self.feature_groups is None else "groups"
        how = "knockoff+" if self.n_draws == 1 else f"e-values of {self.n_draws} draws"
        shrinkage = max(law.shrinkage for law in laws)
        estimated = f"within {_blocks_text(blocks)}" if len(blocks) > 1 else "of all columns"
        if shrinkage > 0.0:
            estimated += f", shrunk by {shrinkage:.0%} at most"
        note = (
            f"false discovery rate: at most {self.fdr:g} of the selected {what} on average ({how}); "
            f"{SUPPOSED.format(estimated=estimated)}"
        )
        note += f"; knockoffs correlate {_mean_correlation(laws):.2f} with their columns"
        if len(blocks) > 1:
            if factors is not None:
                n_factors = factors.mean.shape[1]
                note += f"; correlations between blocks are those of {n_factors} common factor{'s'[: n_factors > 1]}"
            else:
                why = ": no component of all columns stands out" if has_looked else ""
                note += f"; correlations between blocks were taken for 0{why}"
        least = math.ceil(1.0 / self.fdr)
        return note if n_selected else f"{note}; fewer than {least} {what} are never selected"


class _Sizes(NamedTuple):
    """What knockoffs take, of blocks of so many columns."""

    width: int
    double: DataShape
    """Of columns and knockoffs together."""
    law: Budget
    """Of a task that finds how knockoffs of a block are made."""
    piece_rows: int
    """That it reads at a time."""
    beside: Budget
    """What a task that reads knockoffs holds for it."""
    law_nbytes: int
    left: int | None
    """Of a task's limit, for what it does with them."""
    n_factors: int
    """That are looked for: none of one block, or where they have no room."""

    @classmethod
    def of(cls, shape: DataShape, blocks: list[ColumnGroups], max_factors: int, limits: Limits) -> _Sizes:
        """Return the sizes, for a limit."""
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
        beside = Budget({"how knockoffs are made": law_nbytes})
        beside.add("columns that knockoffs are made of", 3 * PIECE_NBYTES)
        if n_factors:
            law.add("common factors", directions_nbytes)
            beside.add("common factors", 24 * shape.n_samples * n_factors + 16 * shape.n_features * n_factors)
        left = None if limit is None else max(1, limit - beside.nbytes)
        return cls(width, double, law.add("tiles", shape.tiles_nbytes), piece_rows, beside, law_nbytes, left, n_factors)


def _mean_correlation(laws: list[BlockLaw]) -> float:
    sizes = [len(law.mean) for law in laws]
    return float(np.average([law.correlation for law in laws], weights=sizes))


def _group_of(blocks: list[ColumnGroups]) -> np.ndarray:
    """Return the number of each column's group."""
    found = np.empty(sum(len(block.columns) for block in blocks), np.int64)
    for block in blocks:
        found[block.columns] = block.groups
    return found


def _blocks_text(blocks: list[ColumnGroups]) -> str:
    width = max(len(block.columns) for block in blocks)
    return f"all {width:,} columns" if len(blocks) == 1 else f"{len(blocks):,} blocks of up to {width:,} columns"
