"""Selectors of a number of features: the parameter, which cross-validation may choose, and fits of several numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from daskfs.errors import Caution, ConfigError
from daskfs.parameters import CV, CountOrCV
from daskfs.selectors.base import BaseSelector
from daskfs.selectors.inputs import seed_of
from daskfs.selectors.shared.budget import DataShape, Limits, SelectorPlan
from daskfs.selectors.shared.cross_validation import SizeSearch
from daskfs.selectors.shared.rows import weighted_rows
from daskfs.selectors.shared.run import Run
from daskfs.selectors.shared.samples import Recipe

SIZE = "n_features_to_select"


class SelectsSize(BaseSelector):
    """A selector of a given number of features.

    Parameters
    ----------
    n_features_to_select : int or "cv" or mapping, optional
        Number of features to select. "cv" chooses the number by cross-validation; a mapping with the parameters `cv`,
        `sizes`, `rule`, `metric`, `groups` and `order` of `daskfs.SelectionCV` sets the details.
    """

    n_features_to_select: CountOrCV | None = None

    _takes_size = True

    @property
    def _n_asked(self) -> int | None:
        """Requested number of features; None if the method or cross-validation decides."""
        asked = self.n_features_to_select
        return asked if isinstance(asked, int) else None

    @property
    def _chooses_size(self) -> bool:
        """Whether cross-validation chooses the number of features."""
        asked: Any = self.n_features_to_select
        return isinstance(asked, Mapping) or bool(asked == CV)

    def check_parameters(self) -> None:
        """Refuse invalid values and combinations of parameters; see `Parameters.check_parameters`."""
        super().check_parameters()
        if self._chooses_size:
            SizeSearch.of(self.n_features_to_select).check(self.n_included)
            if self._units_by is not None:
                problem = f"'cv' counts columns, and cannot be used with {self._units_by}"
                raise ConfigError(problem, SIZE, "use SelectionCV(selector, sizes=[...])")

    def _of_size(self, size: int) -> Self:
        found = super()._of_size(size)
        found.n_features_to_select = size
        return found

    def _planned(self, shape: DataShape, limits: Limits) -> SelectorPlan:
        if not self._chooses_size:
            return super()._planned(shape, limits)
        search = SizeSearch.of(self.n_features_to_select)
        largest = search.sizes_of(shape.n_samples, shape.n_features, self.n_included)[-1]
        found = search.plan(Recipe.of(self, n_features_to_select=largest), shape, limits)
        return self._planned_refit(found, largest, shape, limits)

    def fit_run(self, run: Run) -> Self:
        """Select on the matrix of a run, with the loss already settled for its target."""
        if not self._chooses_size:
            return super().fit_run(run)
        self._take_names(run.matrix)
        search, seed = SizeSearch.of(self.n_features_to_select), seed_of(self.random_state)
        rows = run.over(weighted_rows(run.matrix))
        largest = search.sizes_of(*rows.matrix.shape, self.n_included)[-1]
        recipe = Recipe.of(self, n_features_to_select=largest, random_state=seed)
        found = search.fit(rows, recipe, self.loss_, seed)
        kept = {*self._parameter_owners, "is_silent"}
        self.__dict__.update({name: value for name, value in vars(found.selector).items() if name not in kept})
        self.n_features_to_select_, self.cv_results_ = found.size, found.curve.results()
        chosen = {SIZE: found.size, "metric": found.curve.metric, **found.search.words()}
        arguments = found.result_arguments
        if self._refits:
            arguments["notes"].append(
                f"refit ({self.refit}): coef comes from a fit to the selected features only, in each fold too"
            )
        self.result_ = self._result_of(run, history_kind="cross-validation", chosen=chosen, **arguments)
        return self

    def _refuse_second_look(self, where: str) -> None:
        super()._refuse_second_look(where)
        if self._chooses_size:
            problem = f"'cv' reads all rows several times, but {where} only once"
            raise ConfigError(problem, SIZE, "set a number, or use fit")

    def _shortfall(self) -> list[str]:
        n_selected, asked = len(self.selected_), self._n_asked
        if n_selected and isinstance(asked, int) and n_selected < asked:
            return [Caution(f"{n_selected:,} of the {asked:,} features asked for were selected")]
        return super()._shortfall()
