"""The parameters that online substitution shares with its asynchronous variant."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
from annotated_types import Ge

from daskfs.errors import ConfigError
from daskfs.losses import BOUNDED_CURVATURE, ONE_PREDICTION, find_loss
from daskfs.parameters import Count, LossOf, NotNegative, Positive, Share, n_to_select
from daskfs.selectors.from_blocks import TakesColumnBlocks
from daskfs.selectors.included import IncludesColumns
from daskfs.selectors.online_substitution.engines.base import Rule
from daskfs.selectors.shared.elimination import order_of_removal
from daskfs.selectors.shared.refit import Begun, MeanLoss
from daskfs.selectors.shared.refit_of_classes import FITTED_INSTEAD
from daskfs.selectors.shared.ridge import Effort
from daskfs.selectors.shared.run import Run
from daskfs.selectors.sized import SelectsSize

MAX_DEFAULT_FEATURES = 100
COLLINEARITY_TOL = 1e-3
LOSSES_TAKEN = ("squared", "logistic", "squared_hinge", "epsilon_insensitive")


class SubstitutionSelector(
    SelectsSize,
    IncludesColumns,
    TakesColumnBlocks,
    renamed={
        "standardise": "standardize",
        "eta": "step_size",
        "m": "step_divisor",
        "c": "sufficient_decrease",
        "tolerance": "collinearity_tol",
    },
):
    """Base of `OnlineSubstitution` and `AsyncOnlineSubstitution`.

    Parameters
    ----------
    n_features_to_select : int or "cv" or mapping, optional
        Number of features to select, s in the paper. Default: half of the features, at most 100. Fewer are selected
        only if the other columns are constant or copies of selected ones, or, with ``ridge=0``, linear combinations of
        them. "cv" chooses the number by cross-validation; a mapping with the parameters `cv`, `sizes`, `rule`,
        `metric`, `groups` and `order` of `daskfs.SelectionCV` sets the details.
    rule : {"exchange", "os", "paper"}
        The rule that decides whether a candidate replaces a selected feature; see the module.
    loss : {"auto", "squared", "logistic", "squared_hinge", "epsilon_insensitive"}
        Loss function. epsilon_insensitive: ½ max(0, |z - y| - epsilon)², a smooth variant of the loss of support vector
        regression. auto: squared or logistic, depending on the target. More than two classes are fitted one against the
        rest, with shared columns; this needs the rule "exchange".
    n_epochs : int
        Maximum number of epochs; each presents all columns. The selection stops after an epoch without a change.
    check : bool
        Whether a candidate is refused if the loss does not decrease enough.
    standardize : bool
        Whether to divide columns by their standard deviation internally.
    ridge : float, optional
        λ₂, added to the curvature of every standardised coefficient, during selection and in the refit; 0: no ridge. By
        default both are chosen from the data (`daskfs.selectors.shared.ridge`) and vanish as rows are added. During
        selection of several epochs by exchanges the ridge is κ min(3, 2 s log p / n) in the first epoch, with p columns
        and κ the loss's largest curvature. After each epoch it falls to the value suited to the selected features, and
        from then on an exchange has to lower the loss by a tenth of what the best of p useless columns would explain.
        One epoch and the rule "os" begin with κ min(1, s log p / n); `AsyncOnlineSubstitution` keeps a tenth of it.
        The ridge is at least 0.03 κ for classification and 0.001 κ for the
        epsilon-insensitive loss. The paper's rule has no ridge during selection.
    epsilon : float, optional
        Threshold of the epsilon-insensitive loss. Default: a tenth of the target's standard deviation.
    step_size : float, optional
        η of the paper's rule. Default: 0.5 / L_F; with several workers, the largest step that Theorem 2 allows.
    step_divisor : float
        m of the paper's rule: the selected features take a step of η / m.
    sufficient_decrease : float
        c of the paper's rule: the share of the predicted decrease that must be achieved.
    lipschitz : float, optional
        L_F of the paper's rule. Default: a bound computed from the products of the selected features.
    collinearity_tol : float, optional
        Smallest share of a candidate's variance that the selected features may leave unexplained. Default: 1e-3.
    """

    score_kind = "loss increase"
    _weighs_columns = True

    rule: Literal["exchange", "os", "paper"] = "exchange"
    loss: Annotated[str, LossOf(BOUNDED_CURVATURE, ONE_PREDICTION, among=LOSSES_TAKEN, several=True)] = "auto"
    n_epochs: Count = 3
    check: bool = True
    standardize: bool = True
    ridge: NotNegative | None = None
    epsilon: NotNegative | None = None
    step_size: Positive | None = None
    step_divisor: Annotated[float, Ge(1)] = 1.0
    sufficient_decrease: Share = 0.5
    lipschitz: Positive | None = None
    collinearity_tol: Share | None = None

    @property
    def is_nested(self) -> bool:
        """Whether selected columns can be removed again one at a time: see `_path_order`."""
        is_plain = not self.n_included and getattr(self, "feature_groups", None) is None
        return is_plain and getattr(self, "fit_intercept", True)

    def _path_order(self, run: Run) -> np.ndarray:
        """Return the columns in the order of removal: remove the cheapest one, refit the others, repeat."""
        loss = FITTED_INSTEAD.get(self.loss_, self.loss_)
        columns, begun = np.sort(self.selected_), list[Begun]()
        if loss == self.loss_:
            coef, intercept = np.atleast_2d(self.coef_)[:, columns], np.atleast_1d(self.intercept_)
            begun = [Begun(*one) for one in zip(coef, intercept.tolist(), strict=True)]
        return order_of_removal(run, columns, [MeanLoss(loss, positive) for positive in self._positives()], begun)

    def _positives(self) -> list[float | None]:
        """Return the classes that are fitted against the rest (of two only the second); None for regression."""
        if not find_loss(self.loss_).is_classifier:
            return [None]
        return [float(label) for label in (self.classes_ if len(self.classes_) > 2 else self.classes_[1:])]

    def _check_classes(self, n_classes: int) -> None:
        """Raise if the parameters do not support this number of classes."""
        if n_classes > 2 and self.rule != "exchange":
            problem = f"expected 'exchange' with {n_classes} classes, found {self.rule!r}"
            raise ConfigError(problem, "rule", "use 'exchange', or fit each class against the rest")

    def _n_problems(self, n_classes: int) -> int:
        """Return the number of problems that share the columns: the number of classes if more than two, else 1."""
        n_problems = n_classes if n_classes > 2 and find_loss(self.loss_).is_classifier else 1
        self._check_classes(n_problems)
        return n_problems

    def _n_selected(self, n_features: int) -> int:
        """Return s."""
        return n_to_select(self.n_features_to_select, n_features, max(1, min(n_features // 2, MAX_DEFAULT_FEATURES)))

    def _rule(self, effort: Effort, n_epochs: int = 1, rho: float | None = None) -> Rule:
        """Return the rule with its parameters; `rho` is ρ of Theorem 2, if a prediction is shared.

        Only a selection of several epochs begins with a large ridge, because it falls between epochs.
        """
        ridge, least, loss = self.ridge, None, find_loss(self.loss_)
        if ridge is None:
            ridge = 0.0
            if self.rule != "paper":
                least = loss.ridge * loss.curvature_bound
                falls = self.rule == "exchange" and n_epochs > 1
                first = effort.first_ridge if falls else effort.largest_ridge
                ridge = max(least, first(loss.curvature_bound))
        return Rule(
            name=self.rule,
            ridge=float(ridge),
            tolerance=COLLINEARITY_TOL if self.collinearity_tol is None else float(self.collinearity_tol),
            checks=bool(self.check),
            eta=0.0 if self.step_size is None else float(self.step_size),
            m=float(self.step_divisor),
            c=float(self.sufficient_decrease),
            lipschitz=0.0 if self.lipschitz is None else float(self.lipschitz),
            least=least,
            rho=rho,
        )
