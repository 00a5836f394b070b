"""Confidence intervals for the coefficients of selected features, for any selector, by splitting the rows.

    1. Draw a random part of the rows, and select features on them.
    2. Fit the loss on these features, without a ridge, on the other rows, which the selection has not seen.
    3. Compute sandwich standard errors (`daskfs.model_selection.sandwich`) and intervals of the given level.

D. R. Cox (1975): A note on data-splitting for the evaluation of significance levels. Biometrika 62, 441-444. The rows
of step 2 are independent of the selection, so the intervals are valid as for features given in advance, with any
selector. They also hold if the model is wrong, for the coefficients that minimise the expected loss with these
features. The cost is that fewer rows are available for the selection and for the estimation.
"""

from __future__ import annotations

from dataclasses import replace
from statistics import NormalDist
from types import MappingProxyType
from typing import Annotated, Any

import numpy as np
from annotated_types import Gt, Lt

from daskfs.errors import Caution, ConfigError, Suspicion
from daskfs.matrix.split import in_whole_groups
from daskfs.model_selection.base import MetaSelector
from daskfs.model_selection.sandwich import robust_errors
from daskfs.parameters import RowGroups
from daskfs.result import SelectionResult
from daskfs.selected_table import TABLE_COLUMNS, coefficient_norm
from daskfs.selectors.base import SEPARATED
from daskfs.selectors.inputs import seed_of
from daskfs.selectors.shared.budget import DataShape, Limits, SelectorPlan
from daskfs.selectors.shared.refit import MeanLoss
from daskfs.selectors.shared.refit_of_classes import FITTED_INSTEAD, ClassFits, fit_each_class
from daskfs.selectors.shared.rows import weighted_rows
from daskfs.selectors.shared.run import Run
from daskfs.selectors.shared.samples import plan_samples


class SplitInference(MetaSelector):
    """Select features on some rows, and estimate their coefficients with intervals on the others.

    Parameters
    ----------
    selector : selector
        Unfitted daskfs selector; a clone of it selects.
    level : float
        Confidence level of the intervals.
    share : float
        Proportion of the rows used to select; the others are used to estimate.
    groups : array of shape (n_samples,) or str, optional
        Keeps rows that belong together on one side: a label for each row of the source, or the name of a store column
        that is not a feature (role id or split; "fid" of PLINK files for families).

    Attributes
    ----------
    selected_ : ndarray of shape (n_selected,)
        Columns by decreasing score.
    coef_ : ndarray of shape (n_features,) or (n_classes, n_features)
        Coefficients estimated on the other rows; one-vs-rest for more than two classes.
    std_errors_ : ndarray of the shape of `coef_`
        NaN for unselected features, linearly dependent features, and linearly separable classes.
    selector_ : selector
        Selector fitted on the rows used to select.
    result_ : SelectionResult
        Its table has ``std_error``, ``lower`` and ``upper``. For more than two classes these are conservative values
        for the norms of the coefficients.

    Examples
    --------
    >>> import numpy as np
    >>> from daskfs import FGM, SplitInference
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((2000, 30))
    >>> y = 2 * X[:, 3] - X[:, 7] + rng.standard_normal(2000)
    >>> table = SplitInference(FGM(2)).fit(X, y).result_.table
    >>> print(table[["name", "coef", "lower", "upper"]].round(2).to_string(index=False))
    name  coef  lower  upper
      x3  2.03   1.97   2.09
      x7 -0.96  -1.02  -0.90
    """

    method = "split_inference"
    _takes_selection = False
    refused_inside = MappingProxyType(
        {"feature_map": ("split inference does not support feature maps", "leave it out, or ingest mapped features")}
    )

    level: Annotated[float, Gt(0.0), Lt(1.0)] = 0.95
    share: Annotated[float, Gt(0.0), Lt(1.0)] = 0.5
    groups: RowGroups = None

    def _plan(self, shape: DataShape, limits: Limits) -> SelectorPlan:
        n_select = max(2, round(self.share * shape.n_samples))
        what = f"split inference: one fit on {n_select:,} rows, the selected columns of the others"
        stored = replace(shape, n_samples=n_select, n_stored=shape.n_stored or shape.n_samples, has_statistics=False)
        return plan_samples(self.recipe, stored, limits, 1, what)

    def _fit(self, run: Run) -> None:
        matrix = weighted_rows(run.matrix)
        n_samples = matrix.shape[0]
        n_select = min(max(2, round(self.share * n_samples)), n_samples - 2)
        rng = np.random.default_rng(seed_of(self.random_state))
        groups = matrix.declared_groups if self.groups is None else matrix.row_groups(self.groups)
        if groups is None:
            drawn = rng.permutation(n_samples)
        else:
            selects = in_whole_groups(groups, n_select, rng)
            drawn, n_select = np.argsort(~selects, kind="stable"), int(selects.sum())
            if n_select > n_samples - 2:
                problem = f"expected groups of rows on both sides, found {n_samples - n_select} rows for the estimation"
                raise ConfigError(problem, "groups", "leave it out, or set a smaller share")
        to_select, to_estimate = (matrix.take(np.sort(rows)) for rows in np.split(drawn, [n_select]))
        if self.is_silent:
            self.selector_ = self.recipe.make()
        self.selector_.fit_run(run.over(to_select).within("select"))
        notes = self._estimate(run.over(to_estimate).within("estimate"))
        inside = self.selector_.result_
        if inside is not None:
            notes = [*notes, *map(_without_second_warning, inside.notes)]
        halves = f"selection on {n_select:,} rows, estimation on the other {n_samples - n_select:,}"
        said = (
            f"{halves}: the {self.level:.0%} intervals are valid after the selection, for the coefficients that "
            "minimise the expected loss with the selected features"
        )
        self.result_ = self._result_of(
            run,
            notes=[said, *(note for note in notes if not note.startswith("std_error"))],
            history=None if inside is None else {str(name): one.to_numpy() for name, one in inside.history.items()},
            columns=self._columns(inside),
        )

    def _estimate(self, rest: Run) -> list[str]:
        """Fit the selected columns on the rows of a run; set the coefficients and their standard errors."""
        chosen = self.selector_
        columns = np.sort(chosen.selected_)
        fits = fit_each_class(
            rest,
            columns,
            FITTED_INSTEAD.get(self.loss_, self.loss_),
            ridge=0.0,
            classes=getattr(chosen, "classes_", None),
        )
        if fits.classes is not None:
            self.classes_ = fits.classes
        self._set_selection(columns, chosen.scores_[columns], fits.coef, fits.intercept)
        self.selected_, self.scores_ = chosen.selected_, np.array(chosen.scores_, dtype=np.float64)
        self.std_errors_ = np.full(self.coef_.shape, np.nan)
        self.std_errors_[..., columns] = self._errors(rest, columns, fits)
        n_without = int(np.isnan(np.atleast_2d(self.std_errors_[..., columns])).any(axis=0).sum())
        notes = [SEPARATED] if fits.is_separable else []
        return [*notes, Caution(f"{n_without:,} coefficient(s) have no standard error")] if n_without else notes

    def _errors(self, rest: Run, columns: np.ndarray, fits: ClassFits) -> np.ndarray:
        positives: list[float | None] = [None]
        if fits.classes is not None:
            positives = [float(label) for label in (fits.classes[1:] if len(fits.fits) == 1 else fits.classes)]
        found = [
            robust_errors(rest, columns, MeanLoss(fits.loss, positive, ridge=0.0), fit)
            for positive, fit in zip(positives, fits.fits, strict=True)
        ]
        return found[0] if len(found) == 1 else np.array(found)

    def _columns(self, inside: SelectionResult | None) -> dict[str, Any]:
        """Return further columns of the table: those of the selection, and the intervals."""
        coef, error = self.coef_[..., self.selected_], self.std_errors_[..., self.selected_]
        is_norm = coef.ndim > 1
        if is_norm:  # errors of classes may be correlated, so use the sum as an upper bound
            norm = coefficient_norm(coef)
            unit = np.divide(np.abs(coef), norm, out=np.zeros_like(coef), where=norm > 0.0)
            coef, error = norm, (unit * error).sum(axis=0)
        reach = NormalDist().inv_cdf(0.5 + 0.5 * self.level) * error
        lower = np.maximum(coef - reach, 0.0) if is_norm else coef - reach
        own = {"std_error": error, "lower": lower, "upper": coef + reach}
        known = {} if inside is None else {str(name): column for name, column in inside.table.items()}
        return {name: column for name, column in known.items() if name not in (*TABLE_COLUMNS, *own)} | own


def _without_second_warning(note: str) -> str:
    """Return a note of the selection that is not issued as a warning again."""
    return Suspicion(note) if isinstance(note, Suspicion) else note
