"""Stability selection: features that are selected on most subsamples, with a bound on the false selections.

    Input: a selector, B pairs, a threshold τ
    1. Draw two disjoint halves of the rows, stratified by class; B times.
    2. Select on each of the 2 B halves, as views of the rows. With a weakness a < 1, multiply column j in half b by a
       weight w_bj drawn between a and 1.
    3. Select the features that at least a proportion τ of the halves selects.

R. D. Shah, R. J. Samworth (2013): Variable selection with error control: another look at stability selection.
J. R. Stat. Soc. B 75, 55-80. N. Meinshausen, P. Buehlmann (2010): Stability selection. J. R. Stat. Soc. B 72, 417-473.

Differs from the papers: the average number of features that a half selects, which enters the bound, is estimated from
the 2 B halves, unless the selector has a fixed number. MESSAGE already votes on disjoint subsets of the rows. Their
votes can be used as frequencies (`subsamples="own"`) with the same bound, which only needs disjoint subsamples. It is
then for features that subsets of that size select by chance. The weights are uniform, as in R's c060 (the theory of
2010 uses two values), and are drawn for each half separately. The two halves of a pair therefore stay independent, and
the bounds of 2013, which hold for any procedure, hold for the randomised one. They also hold if the things that halves
select are blocks of correlated neighbours (`block_r2`): a half selects a block if it selects any of its columns.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from annotated_types import Gt, Le

from daskfs.errors import Caution, ConfigError
from daskfs.losses import find_loss
from daskfs.matrix.base import Matrix
from daskfs.matrix.column_weights import ColumnWeights
from daskfs.matrix.split import in_whole_groups
from daskfs.model_selection.base import MetaSelector
from daskfs.model_selection.error_bounds import Assumption, expected_false_selections, largest_n_selected
from daskfs.model_selection.neighbour_blocks import block_budget, neighbour_blocks
from daskfs.model_selection.stability_index import StabilityIndex, stability_index
from daskfs.parameters import Count, Positive, PositiveShare, RowGroups
from daskfs.selectors.base import BaseSelector
from daskfs.selectors.inputs import seed_of
from daskfs.selectors.message.plan import choose_n_subsets
from daskfs.selectors.message.selector import Message
from daskfs.selectors.shared.budget import DataShape, Limits, SelectorPlan
from daskfs.selectors.shared.run import Run
from daskfs.selectors.shared.samples import Recipe, on_samples, plan_samples

MIN_SUBSETS = 20
"""Minimum number of MESSAGE's subsets for using their votes as frequencies; fewer would be too coarse."""
ASSUMPTIONS = {
    "r-concave": "if the selection frequencies of null features have an r-concave distribution",
    "unimodal": "if the selection frequencies of null features have a unimodal distribution",
    "none": "whatever the distribution of the selection frequencies",
}


@dataclass(frozen=True)
class Half:
    """A random half of the rows; the other half of its pair is disjoint."""

    seed: int
    pair: int
    is_second: bool
    by_class: bool
    weakness: float | None = None
    """Smallest weight of a column: see `StabilitySelection`."""
    groups: Any = None
    """Groups of the rows: see `StabilitySelection`."""

    @property
    def name(self) -> str:
        """Name of the selection in a checkpoint."""
        return f"{self.pair}{'b' if self.is_second else 'a'}"

    def of(self, matrix: Matrix) -> Matrix:
        """Return a view of these rows with column weights; rows of weight zero are in neither half."""
        weight = matrix.read_weight(slice(None))
        rows = np.arange(matrix.shape[0]) if weight is None else np.flatnonzero(weight > 0.0)
        classes = np.zeros(len(rows), np.int64)
        if self.by_class:
            classes = np.unique(np.asarray(matrix.read_target(slice(None)))[rows], return_inverse=True)[1].ravel()
        groups = (
            None if self.groups is None else np.unique(matrix.row_groups(self.groups)[rows], return_inverse=True)[1]
        )
        if groups is not None:  # the class of a group is that of most of its rows
            table = np.zeros((int(groups.max()) + 1, int(classes.max()) + 1), np.int64)
            np.add.at(table, (groups, classes), 1)
            classes = table.argmax(axis=1)[groups]
        rng, taken = np.random.default_rng([self.seed, self.pair]), []
        for label in np.unique(classes):
            stratum = rows[classes == label]
            half = len(stratum) // 2
            if groups is not None:
                is_first = in_whole_groups(groups[classes == label], half, rng)
                taken.append(stratum[is_first != self.is_second])
            else:
                drawn = rng.permutation(stratum)
                taken.append(drawn[half : 2 * half] if self.is_second else drawn[:half])
        if not sum(map(len, taken)):
            raise ConfigError(
                "expected several groups of rows, found one", "groups", "leave it out, or use other groups"
            )
        found = matrix.take(np.sort(np.concatenate(taken)))
        if self.weakness is None:
            return found
        return found.with_column_weights(ColumnWeights((self.seed, self.pair, int(self.is_second)), self.weakness))


def selected_on(selector: BaseSelector, run: Run, sample: Half) -> dict[str, np.ndarray]:
    """Return the columns selected on a half of the rows."""
    return {"columns": np.flatnonzero(selector.fit_run(run).support_)}


class Frequencies(NamedTuple):
    """Selection frequencies of features, or of blocks of them."""

    share: np.ndarray
    n_selected: np.ndarray
    """Shape (n_subsamples,)."""
    alike: StabilityIndex | None
    of_columns: np.ndarray | None = None
    """Those of single features, if `share` is of blocks."""

    def bound(self, threshold: float, assumption: Assumption) -> float:
        """Return the bound on the expected number of false selections.

        With an odd number of subsamples one is unpaired; without it, a feature has at most one vote less.
        """
        m, q = len(self.n_selected), float(self.n_selected.mean())
        least = (math.ceil(round(m * threshold, 9)) - m % 2) / (m - m % 2) if m > 1 else 0.0
        return expected_false_selections(least, q, len(self.share), m // 2, assumption)

    def least_threshold(self, pfer: float, assumption: Assumption) -> float:
        """Return the smallest threshold above 1/2 for which the bound is at most `pfer`."""
        m = len(self.n_selected)
        for n_needed in range(m // 2 + 1, m + 1):
            if self.bound(n_needed / m, assumption) <= pfer:
                return n_needed / m
        least, q = self.bound(1.0, assumption), float(self.n_selected.mean())
        problem = f"{q:.3g} selected features on average give a bound of {least:.3g} false selections, above {pfer:g}"
        raise ConfigError(f"{problem}, even with a threshold of 1", "pfer", "raise it, or select fewer features")


class StabilitySelection(MetaSelector):
    """Select features that are stable over random halves of the rows, with a bound on the false selections.

    Parameters
    ----------
    n_pairs : int
        Number of pairs of halves; the papers use 50.
    threshold : float
        Proportion of the halves that must select a feature.
    pfer : float, optional
        Maximum expected number of false selections. If the selector has no fixed number of features, it gets the
        largest for which the bound holds; otherwise the threshold is raised until the bound holds.
    assumption : {"r-concave", "unimodal", "none"}
        Assumption about the selection frequencies of null features: see `daskfs.model_selection.error_bounds`.
    subsamples : {"auto", "halves", "own"}
        "own" uses the votes of MESSAGE's subsets as frequencies, in one fit. "auto" does so if MESSAGE selects columns
        with at least 20 subsets, and `weakness` and `groups` are not given.
    weakness : float, optional
        Randomises the selector; 0.2 to 0.8 in the paper. On each half, the standardised values of every column are
        multiplied by a weight drawn between `weakness` and 1, which divides an l1 penalty by the weight. Of
        interchangeable columns, the selected one then varies. For selectors that compare coefficients or gradients of
        columns, not for feature groups or maps.
    groups : array of shape (n_samples,) or str, optional
        Keeps rows that belong together (of a patient or family) in one half: a label for each row of the source, or
        the name of a store column that is not a feature (role id or split; "fid" of PLINK files for families). Halves
        that share relatives would agree too often. Not for MESSAGE's own subsets.
    block_r2 : float, optional
        Counts the selection of blocks of correlated neighbours instead of single columns, for variants in linkage
        disequilibrium: halves select now one, now another variant of a block, and none of them is stable. Columns at
        most 64 apart with at least this squared correlation, and those between them, are one block; 0.1 to 0.3 are
        usual. The bound is then for the number of false blocks. Columns that are always included are not counted.

    Attributes
    ----------
    frequencies_ : ndarray of shape (n_features,)
        Proportion of the halves that selected a feature; equal to `scores_`. With `block_r2`: that selected any feature
        of its block, and 1 for columns that are always included.
    selected_ : ndarray of shape (n_selected,)
        Features that reach the threshold, the most frequent first. With `block_r2`: of each block that reaches it, the
        feature that most halves selected. The result's table says how many features the block has, and which are its
        first and last.
    blocks_ : ndarray of shape (n_features,), int64
        With `block_r2`: the number of each feature's block, -1 for columns that are always included.
    pfer_bound_ : float
        Bound on the expected number of false selections. A selection is false if a half selects the feature with a
        probability of at most chance level, ``n_selected_per_half_ / n_features``.
    threshold_ : float
    n_selected_per_half_ : float
        Average number of features selected on a half.
    stability_ : StabilityIndex
        Nogueira's stability index of the selections on halves, with its interval; None for MESSAGE's own subsets.
    support_, coef_, intercept_, classes_, result_
        As in every selector; coefficients are from a ridge fit of the selected features on all rows. The history of
        the result has the number of features selected on each half.

    Notes
    -----
    Runs 2 `n_pairs` fits on half of the rows. A small fit is one task; larger fits run one at a time, each in several
    tasks. Every finished fit is saved in the checkpoint. Halves are drawn by their number, so that results do not
    depend on workers, order or resuming.

    Examples
    --------
    >>> import numpy as np
    >>> from daskfs import FGM
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((200, 30))
    >>> y = X[:, 3] - X[:, 7] + rng.standard_normal(200)
    >>> selector = StabilitySelection(FGM(4), n_pairs=10).fit(X, y)
    >>> sorted(selector.selected_.tolist()), round(selector.pfer_bound_, 2)
    ([3, 7], 0.27)
    """

    method = "stability"
    score_kind = "inclusion frequency"
    _takes_selection = False
    refused_inside = MappingProxyType(
        {"feature_map": ("stability selection does not support feature maps", "leave it out")}
    )

    n_pairs: Count = 50
    threshold: Annotated[float, Gt(0.5), Le(1)] = 0.75
    pfer: Positive | None = None
    assumption: Literal["r-concave", "unimodal", "none"] = "r-concave"
    subsamples: Literal["auto", "halves", "own"] = "auto"
    weakness: PositiveShare | None = None
    groups: RowGroups = None
    block_r2: PositiveShare | None = None

    def _check_combination(self) -> None:
        super()._check_combination()
        if self.subsamples == "own" and not _votes_on_columns(self.selector):
            raise ConfigError('"own" requires Message without feature_groups', "subsamples", 'leave it at "auto"')
        for name in ("groups", "block_r2"):
            if self.subsamples == "own" and getattr(self, name) is not None:
                raise ConfigError('has no effect with subsamples="own"', name, "leave out subsamples")
        if self.weakness is not None:
            self._check_weakness()

    def _check_weakness(self) -> None:
        """Refuse column weights that would have no effect."""
        if self.subsamples == "own":
            raise ConfigError('has no effect with subsamples="own"', "weakness", "leave out subsamples")
        if not self.selector.weighs_columns:
            problem = f"{type(self.selector).__name__} with these parameters does not support column weights"
            remedy = "leave it out, or select columns with LassoCut, FullData, Message, FGM or OnlineSubstitution"
            raise ConfigError(problem, "weakness", remedy)

    def _plan(self, shape: DataShape, limits: Limits) -> SelectorPlan:
        if self._takes_own(shape.n_samples, shape.n_features):
            return plan_samples(self.recipe, shape, limits, 1, "its own subsets vote")
        what = f"{self.n_pairs} pairs of halves of the rows"
        if self.groups is not None:
            what += " in whole groups"
        if self.block_r2 is not None:
            what += f", counted by blocks of neighbours with r² of at least {self.block_r2:g}"
        if self.weakness is not None:
            what += f", columns weighted at random from {self.weakness:g} to 1"
        found = plan_samples(self._recipe(shape.n_features), shape, limits, 2 * self.n_pairs, what)
        if self.block_r2 is None:
            return found
        return replace(found, task=max(found.task, block_budget(shape), key=lambda budget: budget.nbytes))

    def _takes_own(self, n_samples: int, n_features: int) -> bool:
        """Return whether MESSAGE's subsets are used as subsamples."""
        if (
            self.subsamples == "halves"
            or self.weakness is not None
            or self.groups is not None
            or self.block_r2 is not None
            or not _votes_on_columns(self.selector_)
        ):
            return False
        given: Any = self.selector_
        n_subsets = choose_n_subsets(n_samples, n_features, given.n_subsets, given.subset_size)
        return self.subsamples == "own" or n_subsets >= MIN_SUBSETS

    def _recipe(self, n_features: int, n_included: int = 0) -> Recipe:
        """Return the recipe of a fit on a half; with `pfer`, it selects as many features as the bound allows.

        Parameters
        ----------
        n_features : int
            Number of features or blocks that are counted.
        n_included : int
            Number of features that are not.
        """
        is_open = getattr(self.selector_, "n_features_to_select", 0) is None
        if self.pfer is None or not is_open:
            return self.recipe
        q = largest_n_selected(self.threshold, self.pfer, n_features, self.n_pairs, self.assumption)
        return Recipe.of(self.selector_, n_features_to_select=min(q, n_features) + n_included)

    def _fit(self, run: Run) -> None:
        self._plan(self._shape_of(run), run.limits)
        found = self._votes(run) if self._takes_own(*run.matrix.shape) else self._on_halves(run)
        q, p = float(found.n_selected.mean()), len(found.share)
        self.threshold_ = self.threshold
        if self.pfer is not None:
            self.threshold_ = max(self.threshold, found.least_threshold(self.pfer, self.assumption))
        self.pfer_bound_ = found.bound(self.threshold_, self.assumption)
        columns, share = np.flatnonzero(found.share >= self.threshold_ - 1e-12), found.share
        if found.of_columns is not None:
            columns, share = self._leads(columns, found)
        self.frequencies_, self.n_selected_per_half_, self.stability_ = share, q, found.alike
        notes = [self._bound_note(p), *self._take_columns(run, columns, share)]
        of_blocks: dict[str, np.ndarray] = {}
        if found.of_columns is not None:
            of_blocks = self._table_of_blocks(run.matrix.names)
            notes.append(
                f"{p:,} blocks of neighbours with r² of at least {self.block_r2:g} were counted, of up to "
                f"{int(np.bincount(self.blocks_[self.blocks_ >= 0]).max()):,} columns; the column that most halves "
                "selected stands for its block"
            )
        if self.weakness is not None:
            notes.append(f"on each half, columns had random weights between {self.weakness:g} and 1")
        if found.alike is not None and np.isfinite(found.alike.value):
            value, _, low, high = found.alike
            notes.append(f"stability of the selections (Nogueira): {value:.2f}, 95 % interval {low:.2f} to {high:.2f}")
        history = {"subsample": np.arange(len(found.n_selected)), "n_selected": found.n_selected}
        chosen = {"threshold": self.threshold_}
        self.result_ = self._result_of(run, notes=notes, history=history, chosen=chosen, columns=of_blocks)

    def _leads(self, blocks: np.ndarray, found: Frequencies) -> tuple[np.ndarray, np.ndarray]:
        """Return the column that stands for each of some blocks, and those always included; and shares of columns."""
        assert found.of_columns is not None
        order = np.lexsort((-found.of_columns, self.blocks_))
        leads = order[np.searchsorted(self.blocks_[order], blocks)]
        share = np.where(self.blocks_ < 0, 1.0, found.share[self.blocks_])
        return np.append(np.flatnonzero(self.blocks_ < 0), leads), share

    def _table_of_blocks(self, names: Any) -> dict[str, np.ndarray]:
        """Return size, first and last column of the selected columns' blocks; a column without block is alone."""
        size, first, last = [], [], []
        for column in self.selected_.tolist():
            block = self.blocks_[column]
            members = np.flatnonzero(self.blocks_ == block) if block >= 0 else np.array([column])
            size.append(len(members))
            first.append(str(names[int(members[0])]))
            last.append(str(names[int(members[-1])]))
        return {"block_size": np.array(size), "block_first": np.array(first), "block_last": np.array(last)}

    def _on_halves(self, run: Run) -> Frequencies:
        """Run steps 1 and 2."""
        seed, by_class = seed_of(self.random_state) or 0, find_loss(self.loss_).is_classifier
        pairs = range(self.n_pairs)
        how = by_class, self.weakness, run.matrix.rows_together if self.groups is None else self.groups
        halves = [Half(seed, pair, second, *how) for pair in pairs for second in (False, True)]
        n_features, n_included = run.matrix.shape[1], 0
        if self.block_r2 is not None:
            included = self.included_columns(run.matrix)
            self.blocks_, n_included = neighbour_blocks(run, self.block_r2, included), len(included)
        p = n_features if self.block_r2 is None else int(self.blocks_.max()) + 1
        answers = on_samples(run, "halves", selected_on, self._recipe(p, n_included), halves)
        sets, of_columns = [one["columns"] for one in answers], None
        if self.block_r2 is not None:
            of_columns = np.bincount(np.concatenate(sets), minlength=n_features) / len(sets)
            blocks = [np.unique(self.blocks_[columns]) for columns in sets]
            sets = [some[some >= 0] for some in blocks]
        share = np.bincount(np.concatenate(sets), minlength=p) / len(sets)
        return Frequencies(share, np.array([len(one) for one in sets]), stability_index(sets, p), of_columns)

    def _votes(self, run: Run) -> Frequencies:
        """Return the votes of MESSAGE's subsets."""
        fitted = self.recipe.make().fit_run(run.within("votes"))
        return Frequencies(np.nan_to_num(fitted.scores_), np.asarray(fitted.n_selected_per_subset_), None)

    def _bound_note(self, p: int) -> str:
        """Return the note on false selections."""
        bound, q, unit = self.pfer_bound_, self.n_selected_per_half_, "feature" if self.block_r2 is None else "block"
        said = (
            f"expected false selections: at most {bound:.3g} of the {p:,} {unit}s, {ASSUMPTIONS[self.assumption]}; a "
            f"selection is false if a subsample selects the {unit} with a probability of at most {q / p:.3g}, the "
            f"average over {unit}s ({q:.3g} selected): one that is correlated with a true {unit} may not count as false"
        )
        return Caution(f"{said}: this bound is not informative; select fewer features or raise the threshold") if (
            bound >= p
        ) else said  # fmt: skip


def _votes_on_columns(selector: BaseSelector) -> bool:
    return isinstance(selector, Message) and selector.feature_groups is None
