"""Stability selection: which features would come back with other rows, and how many of them may be false.

    Input: a selector, B pairs, a threshold τ
    1. Draw two halves of the rows that have none in common, of each class alike; B times.
    2. Select on each of the 2 B halves, as views of the rows; with a weakness a < 1, column j of half b times a weight
       w_bj, drawn between a and 1.
    3. Select the features that a share of τ of the halves selects, or more.

R. D. Shah, R. J. Samworth (2013): Variable selection with error control: another look at stability selection.
J. R. Stat. Soc. B 75, 55-80. N. Meinshausen, P. Buehlmann (2010): Stability selection. J. R. Stat. Soc. B 72, 417-473.

Differs from the papers: the average number that a half selects, which the bound is of, is estimated by that of the
2 B halves, unless the selector is told a number. MESSAGE votes on disjoint subsets of the rows anyway: their votes can
be taken as they are (`subsamples="own"`), with the same bound, for it asks of two subsamples only that they have no
rows in common. It is then of features that so few rows select by chance. The weights
are uniform, as in R's c060 (the theory of 2010 has two values), and drawn for each half by itself: so the two of a pair
stay independent, and the bounds of 2013, which are of any procedure, hold of the randomised one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
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
"""Of MESSAGE, with fewer of which its votes are too coarse to be frequencies."""
SUPPOSED = {
    "r-concave": "the frequencies of features of noise have an r-concave distribution",
    "unimodal": "the frequencies of features of noise have a unimodal distribution",
    "none": "nothing of the distribution of the frequencies",
}


@dataclass(frozen=True)
class Half:
    """Half of the rows, drawn; the other half of its pair has the others."""

    seed: int
    pair: int
    is_second: bool
    by_class: bool
    weakness: float | None = None
    """Least weight of a column: see `StabilitySelection`."""
    groups: Any = None
    """Of the rows: see `StabilitySelection`."""

    @property
    def name(self) -> str:
        """Under which a checkpoint keeps what was selected."""
        return f"{self.pair}{'b' if self.is_second else 'a'}"

    def of(self, matrix: Matrix) -> Matrix:
        """Return these rows, a view, and weights of columns of their own; rows of weight zero are in neither half."""
        weight = matrix.read_weight(slice(None))
        rows = np.arange(matrix.shape[0]) if weight is None else np.flatnonzero(weight > 0.0)
        classes = np.zeros(len(rows), np.int64)
        if self.by_class:
            classes = np.unique(np.asarray(matrix.read_target(slice(None)))[rows], return_inverse=True)[1].ravel()
        groups = (
            None if self.groups is None else np.unique(matrix.row_groups(self.groups)[rows], return_inverse=True)[1]
        )
        if groups is not None:  # a group counts as of the class that most of its rows have
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
                "expected several groups of rows, found one", "groups", "leave it out, or name other groups"
            )
        found = matrix.take(np.sort(np.concatenate(taken)))
        if self.weakness is None:
            return found
        return found.with_column_weights(ColumnWeights((self.seed, self.pair, int(self.is_second)), self.weakness))


def selected_on(selector: BaseSelector, run: Run, sample: Half) -> dict[str, np.ndarray]:
    """Return which columns are selected on a half of the rows."""
    return {"columns": np.flatnonzero(selector.fit_run(run).support_)}


class Frequencies(NamedTuple):
    """How often features were selected."""

    share: np.ndarray
    n_selected: np.ndarray
    """Shape (n_subsamples,)."""
    alike: StabilityIndex | None

    def bound(self, threshold: float, assumption: Assumption) -> float:
        """Return how many false selections may be expected at most.

        Of an odd number of subsamples one has no other: without it a feature has at most one vote less.
        """
        m, q = len(self.n_selected), float(self.n_selected.mean())
        least = (math.ceil(round(m * threshold, 9)) - m % 2) / (m - m % 2) if m > 1 else 0.0
        return expected_false_selections(least, q, len(self.share), m // 2, assumption)

    def least_threshold(self, pfer: float, assumption: Assumption) -> float:
        """Return the smallest threshold over 1/2 with which at most so many may be expected."""
        m = len(self.n_selected)
        for n_needed in range(m // 2 + 1, m + 1):
            if self.bound(n_needed / m, assumption) <= pfer:
                return n_needed / m
        least, q = self.bound(1.0, assumption), float(self.n_selected.mean())
        problem = f"{q:.3g} features selected on average can be {least:.3g} false selections, over {pfer:g}"
        raise ConfigError(f"{problem}, with a threshold of 1", "pfer", "raise it, or select fewer features")


class StabilitySelection(MetaSelector):
    """Select the features that come back on other halves of the rows, with a bound of how many may be false.

    Parameters
    ----------
    n_pairs : int
        Pairs of halves; 50 are the papers'.
    threshold : float
        Share of the halves that have to select a feature.
    pfer : float, optional
        How many false selections may be expected. A selector that was not told a number of features is told the largest
        with which the bound keeps to it; of others the threshold is raised until it does.
    assumption : {"r-concave", "unimodal", "none"}
        What the bound supposes of the frequencies of features of noise: see `daskfs.model_selection.error_bounds`.
    subsamples : {"auto", "halves", "own"}
        "own" takes the votes of MESSAGE's subsets for frequencies, in one fit; "auto" does where it has 20 or more, of
        columns, and `weakness` is not given.
    weakness : float, optional
        Randomises the selector, 0.2 to 0.8 in the paper: on each half every column has a weight of its own, drawn
        between `weakness` and 1, which its standardised values are multiplied by; an l1 penalty is divided by it. Of
        columns that stand in for each other not always the same one is then selected. For selectors that compare
        coefficients or gradients of columns, not for feature groups or maps.
    groups : array of shape (n_samples,) or str, optional
        Rows that belong together (a patient's, a family's) lie in one half: a label for each row of the source, or the
        name of a column of the store that is no feature (role id or split; "fid" of PLINK's files: families). Halves
        that have relatives in common would agree too often. Not of MESSAGE's own subsets.

    Attributes
    ----------
    frequencies_ : ndarray of shape (n_features,)
        Share of the halves that selected a feature; `scores_` are the same.
    selected_ : ndarray of shape (n_selected,)
        Those that reach the threshold, the most frequent first.
    pfer_bound_ : float
        How many false selections may be expected at most: of features that a half selects no more often than chance,
        which would be ``n_selected_per_half_ / n_features``.
    threshold_ : float
    n_selected_per_half_ : float
        On average.
    stability_ : StabilityIndex
        Nogueira's index of how alike the halves' selections are, with its interval; None of MESSAGE's own subsets.
    support_, coef_, intercept_, classes_, result_
        As of every selector; coefficients are of a ridge fit of the selected features on all rows. The history of the
        result has the number of features selected on each half.

    Notes
    -----
    Takes 2 `n_pairs` fits on half of the rows. Each is one task where it is small, else they follow each other, and
    each runs in tasks of its own. Every finished one is kept in the checkpoint. A half is drawn by number: results do
    not depend on workers, order or resumes.

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
        {"feature_map": ("halves are compared by columns, not by what a map makes of them", "leave it out")}
    )

    n_pairs: Count = 50
    threshold: Annotated[float, Gt(0.5), Le(1)] = 0.75
    pfer: Positive | None = None
    assumption: Literal["r-concave", "unimodal", "none"] = "r-concave"
    subsamples: Literal["auto", "halves", "own"] = "auto"
    weakness: PositiveShare | None = None
    groups: RowGroups = None

    def _check_combination(self) -> None:
        super()._check_combination()
        if self.subsamples == "own" and not _votes_on_columns(self.selector):
            raise ConfigError("are those of Message, of columns", "subsamples", 'leave it at "auto"')
        if self.subsamples == "own" and self.groups is not None:
            raise ConfigError("are of halves, not of MESSAGE's subsets", "groups", "leave out subsamples")
        if self.weakness is not None:
            self._check_weakness()

    def _check_weakness(self) -> None:
        """Refuse weights of columns where they would have no effect."""
        if self.subsamples == "own":
            raise ConfigError(
                "weighs the columns of halves, not of MESSAGE's subsets", "weakness", "leave out subsamples"
            )
        if not self.selector.weighs_columns:
            problem = f"{type(self.selector).__name__} as it is declared here takes no weights of columns"
            remedy = "leave it out, or select columns with LassoCut, FullData, Message, FGM or OnlineSubstitution"
            raise ConfigError(problem, "weakness", remedy)

    def _plan(self, shape: DataShape, limits: Limits) -> SelectorPlan:
        if self._takes_own(shape.n_samples, shape.n_features):
            return plan_samples(self.recipe, shape, limits, 1, "its own subsets vote")
        what = f"{self.n_pairs} pairs of halves of the rows"
        if self.groups is not None:
            what += " in whole groups"
        if self.weakness is not None:
            what += f", columns weighed at random from {self.weakness:g} to 1"
        return plan_samples(self._recipe(shape.n_features), shape, limits, 2 * self.n_pairs, what)

    def _takes_own(self, n_samples: int, n_features: int) -> bool:
        """Return whether the subsets of MESSAGE are the subsamples."""
        if (
            self.subsamples == "halves"
            or self.weakness is not None
            or self.groups is not None
            or not _votes_on_columns(self.selector_)
        ):
            return False
        given: Any = self.selector_
        n_subsets = choose_n_subsets(n_samples, n_features, given.n_subsets, given.subset_size)
        return self.subsamples == "own" or n_subsets >= MIN_SUBSETS

    def _recipe(self, n_features: int) -> Recipe:
        """Return how a half is selected on: with `pfer`, so many features as the bound allows."""
        is_open = getattr(self.selector_, "n_features_to_select", 0) is None
        if self.pfer is None or not is_open:
            return self.recipe
        q = largest_n_selected(self.threshold, self.pfer, n_features, self.n_pairs, self.assumption)
        return Recipe.of(self.selector_, n_features_to_select=min(q, n_features))

    def _fit(self, run: Run) -> None:
        self._plan(self._shape_of(run), run.limits)
        found = self._votes(run) if self._takes_own(*run.matrix.shape) else self._on_halves(run)
        q, p = float(found.n_selected.mean()), run.matrix.shape[1]
        self.threshold_ = self.threshold
        if self.pfer is not None:
            self.threshold_ = max(self.threshold, found.least_threshold(self.pfer, self.assumption))
        self.pfer_bound_ = found.bound(self.threshold_, self.assumption)
        self.frequencies_, self.n_selected_per_half_, self.stability_ = found.share, q, found.alike
        columns = np.flatnonzero(found.share >= self.threshold_ - 1e-12)
        notes = [self._bound_note(p), *self._take_columns(run, columns, found.share)]
        if self.weakness is not None:
            notes.append(f"on each half every column had a weight of its own, drawn between {self.weakness:g} and 1")
        if found.alike is not None and np.isfinite(found.alike.value):
            value, _, low, high = found.alike
            notes.append(f"stability of the selections (Nogueira): {value:.2f}, 95 % interval {low:.2f} to {high:.2f}")
        history = {"subsample": np.arange(len(found.n_selected)), "n_selected": found.n_selected}
        chosen = {"threshold": self.threshold_}
        self.result_ = self._result_of(run, notes=notes, history=history, chosen=chosen)

    def _on_halves(self, run: Run) -> Frequencies:
        """Steps 1 and 2."""
        seed, by_class = seed_of(self.random_state) or 0, find_loss(self.loss_).is_classifier
        pairs = range(self.n_pairs)
        how = by_class, self.weakness, run.matrix.rows_together if self.groups is None else self.groups
        halves = [Half(seed, pair, second, *how) for pair in pairs for second in (False, True)]
        p = run.matrix.shape[1]
        answers = on_samples(run, "halves", selected_on, self._recipe(p), halves)
        sets = [one["columns"] for one in answers]
        share = np.bincount(np.concatenate(sets), minlength=p) / len(sets)
        return Frequencies(share, np.array([len(one) for one in sets]), stability_index(sets, p))

    def _votes(self, run: Run) -> Frequencies:
        """Return the votes of MESSAGE's subsets."""
        fitted = self.recipe.make().fit_run(run.within("votes"))
        return Frequencies(np.nan_to_num(fitted.scores_), np.asarray(fitted.n_selected_per_subset_), None)

    def _bound_note(self, p: int) -> str:
        """Return the sentence on false selections."""
        bound, q = self.pfer_bound_, self.n_selected_per_half_
        said = (
            f"expected false selections: at most {bound:.3g} of the {p:,} features, if {SUPPOSED[self.assumption]}; "
            f"false are those that a subsample selects with a probability of at most {q / p:.3g}, its average "
            f"({q:.3g} features)"
        )
        return Caution(f"{said}: the bound says nothing; select fewer features or raise the threshold") if (
            bound >= p
        ) else said  # fmt: skip


def _votes_on_columns(selector: BaseSelector) -> bool:
    return isinstance(selector, Message) and selector.feature_groups is None
