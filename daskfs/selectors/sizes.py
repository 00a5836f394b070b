"""A fit on a run: of one number of features, of several, or of as many as cross-validation says."""

from __future__ import annotations

from abc import ABCMeta, abstractmethod
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np

from daskfs.errors import ConfigError
from daskfs.parameters import CV
from daskfs.selectors.inputs import seed_of
from daskfs.selectors.refitting import PENALTIES, Refits
from daskfs.selectors.shared.budget import DataShape, Limits, SelectorPlan
from daskfs.selectors.shared.cross_validation import SizeSearch
from daskfs.selectors.shared.refit import TOLERANCE, ClassFits, fit_each_size
from daskfs.selectors.shared.rows import weighted_rows
from daskfs.selectors.shared.run import Run
from daskfs.selectors.shared.samples import Recipe

SIZE = "n_features_to_select"


class FitsSizes(Refits, metaclass=ABCMeta):
    """Fits numbers of features."""

    random_state: Any
    ridge_of_path: ClassVar[float | None] = None
    """Of the fits of fewer features, see `fit_path`; None: chosen from the data."""

    @abstractmethod
    def _fit(self, run: Run) -> None:
        """Select on the matrix of a run."""

    @abstractmethod
    def _plan(self, shape: DataShape, limits: Limits) -> SelectorPlan:
        """Return what fitting a matrix of this shape will read and hold."""

    def fit_run(self, run: Run) -> Self:
        """Select on the matrix of a run, for whose target the loss is settled."""
        self._take_names(run.matrix)
        if self._chooses_size:
            self._fit_chosen_size(run)
        else:
            self._fit(run)
            self._take_refit(run)
        return self

    @property
    def is_nested(self) -> bool:
        """Whether one fit holds the selections of fewer features, see `fit_path`; with these parameters.

        By default where no number of features is asked for, and so one fit has all there are to choose from.
        """
        return "n_features_to_select" not in self._parameter_owners

    def _path_order(self, run: Run) -> np.ndarray:
        """Return the columns of a fit on a run in the order in which fewer of them are selected, the first first."""
        return self.selected_

    def fit_path(self, run: Run, sizes: Sequence[int], tolerance: float = TOLERANCE) -> list[Self]:
        """Return this selector fitted for each of several numbers of features.

        Where one fit holds the answers (`is_nested`) the last is that fit, and the others have the first of its
        features in the order of the method, with the loss fitted on them by a ridge that the data choose, or by the
        refit that is asked for. Else there is a fit for each.

        Parameters
        ----------
        run : Run
        sizes : sequence of int
            Ascending.
        tolerance : float
            Of the fits of fewer features, see `MeanLoss.tolerance`.
        """
        if not self.is_nested:
            return [self._of_size(size).fit_run(run.within(f"size-{size}")) for size in sizes]
        largest = self._of_size(sizes[-1]).fit_run(run)
        order, is_asked = largest._path_order(run), "n_features_to_select" in self._parameter_owners
        smaller = sorted({min(size, len(order)) for size in sizes if size < len(order) or not is_asked} - {0})
        penalty = PENALTIES[self.refit] if self._refits else {"ridge": self.ridge_of_path}
        penalty = penalty | {"free": largest.included_columns(run.matrix)}
        fits = []
        if smaller:
            fits = fit_each_size(run, order[: max(smaller)], smaller, self.loss_, tolerance=tolerance, **penalty)
        found = {size: largest._with(order[:size], fit) for size, fit in zip(smaller, fits, strict=True)}
        return [found.get(min(size, len(order)), largest) for size in sizes]

    def _of_size(self, size: int) -> Self:
        """Return a selector like this one that selects so many features, where a number can be asked for."""
        found = copy(self)
        if "n_features_to_select" in self._parameter_owners:
            found.n_features_to_select = size  # type: ignore[attr-defined]
        return found

    def _with(self, columns: np.ndarray, fit: ClassFits) -> Self:
        """Return this fitted selector with some of its columns selected, and another fit of these."""
        found, scores = copy(self), self.scores_[columns]
        found._set_selection(columns, scores, fit.coef, fit.intercept)
        found.selected_, found.scores_, found.loss_ = columns, np.array(self.scores_), fit.loss
        return found

    @property
    def _chooses_size(self) -> bool:
        """Whether cross-validation is to say how many features."""
        asked = getattr(self, SIZE, None)
        return isinstance(asked, Mapping) or bool(asked == CV)

    def _refuse_second_look(self, where: str) -> None:
        """Refuse to choose the size, or to refit, where rows or columns come once."""
        self._refuse_refit(where)
        if self._chooses_size:
            raise ConfigError(f"'cv' reads all rows several times, {where} once", SIZE, "give a number, or use fit")

    def _fit_chosen_size(self, run: Run) -> None:
        """Select as many features as cross-validation says."""
        search, rows, seed = SizeSearch.of(getattr(self, SIZE)), run.over(weighted_rows(run.matrix)), self._seed
        largest = search.sizes_of(*rows.matrix.shape, self.n_included)[-1]
        recipe = Recipe.of(self, n_features_to_select=largest, random_state=seed)
        found = search.fit(rows, recipe, self.loss_, seed)
        kept = {*self._parameter_owners, "is_silent"}
        self.__dict__.update({name: value for name, value in vars(found.selector).items() if name not in kept})
        self.n_features_to_select_, self.cv_results_ = found.size, found.curve.results()
        chosen = {SIZE: found.size, "metric": found.curve.metric, **found.search.words()}
        told = found.told
        if self._refits:
            told["notes"].append(
                f"refit ({self.refit}): coef is of a fit to the selected features alone, in each fold too"
            )
        self.result_ = self._result_of(run, history_kind="cross-validation", chosen=chosen, **told)

    @property
    def _seed(self) -> int | None:
        return seed_of(self.random_state)

    def _planned(self, shape: DataShape, limits: Limits) -> SelectorPlan:
        """Return the plan of a fit, of the size that is asked for or of the choice of one, and of a refit."""
        if self._chooses_size:
            search = SizeSearch.of(getattr(self, SIZE))
            largest = search.sizes_of(shape.n_samples, shape.n_features, self.n_included)[-1]
            found = search.plan(Recipe.of(self, n_features_to_select=largest), shape, limits)
        else:
            found, largest = self._plan(shape, limits), self._n_asked or 0
        if not self._refits:
            return found
        text = f"{found.text}; then a refit ({self.refit}) on the selected features"
        return replace(found, client=found.client + self._budget_of_refit(largest, shape, limits), text=text)
