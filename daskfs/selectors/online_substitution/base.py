"""What online substitution is told, in one process or with several workers: the rule, the loss and their numbers."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
from annotated_types import Ge

from daskfs.errors import ConfigError
from daskfs.losses import BOUNDED_CURVATURE, ONE_PREDICTION, find_loss
from daskfs.parameters import Count, CountOrCV, LossOf, NotNegative, Positive, Share, n_to_select
from daskfs.selectors.from_blocks import TakesColumnBlocks
from daskfs.selectors.online_substitution.engines.base import Rule
from daskfs.selectors.shared.elimination import order_of_removal
from daskfs.selectors.shared.refit import FITTED_INSTEAD, Begun, MeanLoss
from daskfs.selectors.shared.ridge import Effort
from daskfs.selectors.shared.run import Run

MAX_DEFAULT_FEATURES = 100
COLLINEARITY_TOL = 1e-3
LOSSES_TAKEN = ("squared", "logistic", "squared_hinge", "epsilon_insensitive")


class SubstitutionSelector(
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
        The paper's s; by default half of the features and at most 100. Exactly so many are selected, unless fewer
        columns are neither constant nor copies of others, with ``ridge=0`` nor combinations of others.
        "cv": as many as cross-validation says; a mapping, as `daskfs.SelectionCV` has `cv`, `sizes`, `rule`, `metric`,
        `groups` and `order`, says how.
    rule : {"exchange", "os", "paper"}
        What decides on a candidate; see the module.
    loss : {"auto", "squared", "logistic", "squared_hinge", "epsilon_insensitive"}
        The last is ½ max(0, |z - y| - epsilon)², that of support vector regression made smooth. By default squared or
        logistic, as the target calls for. More than two classes are told each from the rest, by columns that they
        share; with the rule "exchange".
    n_epochs : int
        How often all columns are presented, at most; an epoch that changes nothing is the last.
    check : bool
        Whether a candidate with which the loss does not fall enough is refused.
    standardize : bool
        Whether columns are divided by their standard deviation on the way.
    ridge : float, optional
        λ₂, added to the curvature of every standardised coefficient, while selecting and in the refit; 0: none. By
        default both are chosen from the data (`daskfs.selectors.shared.ridge`), and vanish as rows are added: while
        selecting κ min(1, s log p / n) in the first epoch, with p columns and κ the loss's largest curvature; after
        each epoch it falls to what the selected features ask for, in `AsyncOnlineSubstitution` it is a tenth of that
        throughout. Never below 0.03 κ with classes and 0.001 κ with the epsilon-insensitive loss. The paper's rule has
        none while it selects.
    epsilon : float, optional
        Threshold of the epsilon-insensitive loss; by default a tenth of the target's standard deviation.
    step_size : float, optional
        η of the paper's rule; by default 0.5 / L_F, with several workers as much as Theorem 2 allows.
    step_divisor : float
        m of the paper's rule: the step of the selected features is η / m.
    sufficient_decrease : float
        c of the paper's rule: the share of the promised decrease that must come about.
    lipschitz : float, optional
        L_F of the paper's rule; by default bounded from the selected features' products.
    collinearity_tol : float, optional
        Share of a candidate's variance that the selected features must leave unexplained; 1e-3.
    """

    score_kind = "loss increase"
    _weighs_columns = True

    n_features_to_select: CountOrCV | None = None
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
        """Whether what was exchanged can be removed again, column by column: see `_path_order`."""
        is_plain = not self.n_included and getattr(self, "feature_groups", None) is None
        return is_plain and getattr(self, "fit_intercept", True)

    def _path_order(self, run: Run) -> np.ndarray:
        """Columns by when they go, if each time that one goes whose removal costs least, the others being refitted."""
        loss = FITTED_INSTEAD.get(self.loss_, self.loss_)
        columns, begun = np.sort(self.selected_), list[Begun]()
        if loss == self.loss_:
            coef, intercept = np.atleast_2d(self.coef_)[:, columns], np.atleast_1d(self.intercept_)
            begun = [Begun(*one) for one in zip(coef, intercept.tolist(), strict=True)]
        return order_of_removal(run, columns, [MeanLoss(loss, positive) for positive in self._positives()], begun)

    def _positives(self) -> list[float | None]:
        """Return the classes that are each told from the rest, of two the second alone; None stands for numbers."""
        if not find_loss(self.loss_).is_classifier:
            return [None]
        return [float(label) for label in (self.classes_ if len(self.classes_) > 2 else self.classes_[1:])]

    def _check_classes(self, n_classes: int) -> None:
        """Refuse what is not done with so many classes."""
        if n_classes > 2 and self.rule != "exchange":
            problem = f"expected 'exchange' with {n_classes} classes, found {self.rule!r}"
            raise ConfigError(problem, "rule", "use 'exchange', or fit each class against the rest")

    def _n_problems(self, n_classes: int) -> int:
        """Return how many problems share the columns: as many as there are classes, if more than two."""
        n_problems = n_classes if n_classes > 2 and find_loss(self.loss_).is_classifier else 1
        self._check_classes(n_problems)
        return n_problems

    def _n_selected(self, n_features: int) -> int:
        """Return s."""
        return n_to_select(self.n_features_to_select, n_features, max(1, min(n_features // 2, MAX_DEFAULT_FEATURES)))

    def _rule(self, effort: Effort, stretch: float | None = None) -> Rule:
        """Return the rule with its numbers; `stretch` is ρ of Theorem 2, where a prediction is shared."""
        ridge, least, loss = self.ridge, None, find_loss(self.loss_)
        if ridge is None:
            ridge = 0.0
            if self.rule != "paper":
                least = loss.ridge * loss.curvature_bound
                ridge = max(least, effort.largest_ridge(loss.curvature_bound))
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
            stretch=stretch,
        )
