"""The selector that measurements recommend for data of this kind, and why.

    target    columns                                                selector
    any       more than 4,194,304                                    mission: constant memory
    numbers   more than rows, a thousand at least                    mission
    numbers   others                                                 fgm
    classes   of sparse rows, a thousand at least; two classes       online substitution
    classes   more than rows, a thousand at least                    mission
    classes   others; two classes                                    online substitution
    classes   others; several classes                                fgm

Each line is the best of ours with 30 features, or within .005 of it, by the means of `benchmarks/which_selector.py` on
38 open sets (docs/which_selector.md). MESSAGE is not among them: it keeps fewer features than predict best, and is
taken for inference. What is chosen depends on the data alone, never on where or in how much memory the fit runs.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any, NamedTuple

from daskfs.losses import TargetKind
from daskfs.methods import find_method
from daskfs.parameters import CountOrCV, LossOf
from daskfs.selectors.base import BaseSelector
from daskfs.selectors.inputs import seed_of
from daskfs.selectors.shared.budget import DataShape, Limits, SelectorPlan
from daskfs.selectors.shared.responses import Response
from daskfs.selectors.shared.run import Run

MOST_COLUMNS, MANY_COLUMNS, BY_DEFAULT = 1 << 22, 1_000, 30


class Choice(NamedTuple):
    """A method, and why it is taken."""

    method: str
    why: str


def choose(n_samples: int, n_features: int, n_classes: int, is_sparse: bool = False) -> Choice:
    """Return the method for data of this kind.

    Parameters
    ----------
    n_samples, n_features : int
    n_classes : int
        Of the target; 0 of numbers, 1 of classes whose number is not known.
    is_sparse : bool
        Whether rows are kept as their entries.

    Examples
    --------
    >>> choose(20_000, 50_000, 2, is_sparse=True).method
    'online_substitution'
    >>> print(choose(71, 4_088, 0).why)
    few rows, thousands of columns, a number to predict: R² .38 with 30 features on 3 open sets, the best of ours
    """
    if n_features > MOST_COLUMNS:
        return Choice("mission", f"{n_features:,} columns: its sketch takes the same memory for any number")
    is_wide = n_features > max(n_samples, MANY_COLUMNS - 1)
    if not n_classes:
        if is_wide:
            found = "R² .38 with 30 features on 3 open sets, the best of ours"
            return Choice("mission", f"few rows, thousands of columns, a number to predict: {found}")
        return Choice(
            "fgm", "more rows than columns, a number to predict: R² .63 on 2 open sets, as the others of ours"
        )
    if is_sparse and n_features >= MANY_COLUMNS and n_classes == 2:
        found = "area under the curve .90 with 30 features on 8 sets of texts, the best of ours"
        return Choice("online_substitution", f"sparse rows of two classes: {found}")
    if is_wide:
        found = ".86 with 30 features on 6 open sets, the best of ours"
        return Choice("mission", f"few rows, thousands of columns, classes: {found}")
    if n_classes == 2:
        found = (
            "area under the curve .89 with 30 features on 4 sets of numbers, .85 on 7 of categories, the best of ours"
        )
        return Choice("online_substitution", f"more rows than columns, two classes: {found}")
    return Choice("fgm", "several classes: each is told from the rest on the same features, all rows at once")


class Auto(BaseSelector):
    """Select with the method that measurements recommend for data of this kind, and say why.

    The algorithm is that of the method that is chosen: see `daskfs.model_selection.auto`.

    Parameters
    ----------
    n_features_to_select : int or "cv" or mapping, optional
        How many; by default 30, or fewer where there are fewer columns.
        "cv": as many as cross-validation says; a mapping, as `daskfs.SelectionCV` has `cv`, `sizes`, `rule`, `metric`,
        `groups` and `order`, says how.
    loss : {"auto", "squared", "logistic"}
        Least squares, or the logistic loss of classes; by default what the target calls for.
    random_state : int, RandomState or None
        Of what the method draws.

    Attributes
    ----------
    selector_ : selector
        The one that was chosen, fitted.
    result_ : SelectionResult
        Of the method ``auto``; its first note says which was chosen, and why, its parameters have it as ``method``.

    Examples
    --------
    >>> import numpy as np
    >>> from daskfs import Auto
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((500, 30))
    >>> selector = Auto(n_features_to_select=2).fit(X, X[:, 3] - X[:, 7])
    >>> selector.selector_.method, sorted(selector.selected_.tolist())
    ('fgm', [3, 7])
    """

    method = "auto"
    selector_: BaseSelector

    n_features_to_select: CountOrCV | None = None
    loss: Annotated[str, LossOf(among=("squared", "logistic"), several=True)] = "auto"

    @property
    def _chooses_size(self) -> bool:
        """The one that is chosen does, where that is asked for."""
        return False

    def _settle_loss(self, kind: TargetKind, is_plan: bool = False) -> None:
        super()._settle_loss(kind, is_plan)
        self._n_classes = 0 if self.loss_ == "squared" else max(kind.n_classes, 1)

    def _chosen(self, shape: DataShape) -> tuple[Any, Choice]:
        """Return the selector for data of this shape, not fitted, and why it is taken."""
        choice = choose(shape.n_samples, shape.n_features, self._n_classes, shape.n_entries is not None)
        n_features = self.n_features_to_select or min(BY_DEFAULT, shape.n_features)
        made = find_method(choice.method).to_plan_with(
            n_features_to_select=n_features, loss=self.loss_, random_state=seed_of(self.random_state)
        )
        made.loss_, made._loss_note, made.is_silent = self.loss_, self._loss_note, self.is_silent
        return made, choice

    def _plan(self, shape: DataShape, limits: Limits) -> SelectorPlan:
        made, choice = self._chosen(shape)
        plan: SelectorPlan = made._planned(shape, limits)
        work = None if plan.work is None else replace(plan.work, method=choice.method)
        return replace(plan, work=work, text=f"auto: {choice.method}, for {choice.why}; {plan.text}")

    def _fit(self, run: Run) -> None:
        fitted, choice = self._chosen(run.shape)
        self.selector_ = fitted.fit_run(run)
        for name in ("selected_", "support_", "coef_", "intercept_", "scores_", "made_", "classes_", "result_"):
            if hasattr(fitted, name):
                setattr(self, name, getattr(fitted, name))
        if not self.is_silent:
            said = f"{choice.method} was chosen: {choice.why}"
            if self.n_features_to_select is None:
                said += "; how many features predict best was not asked (n_features_to_select='cv' chooses)"
            result = self.result_
            result.method, result.notes = self.method, [said, *result.notes]
            result.parameters = {"method": choice.method, **result.parameters}

    @property
    def response_losses(self) -> tuple[str, str]:
        """By which the linear predictor becomes a mean or a label, and probabilities: those of the chosen one."""
        return self.selector_.response_losses

    @property
    def _probabilities(self) -> Response:
        return self.selector_._probabilities
