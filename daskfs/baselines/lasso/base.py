"""Base class of the MESSAGE baselines: parameters, training rows, and the result of an estimate."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from annotated_types import Ge

from daskfs.kernels.losses import threshold_of
from daskfs.losses import LIKELIHOOD, loss_of_two
from daskfs.matrix.base import Matrix
from daskfs.parameters import Count, LossOf, Share
from daskfs.selected_table import coefficient_norm
from daskfs.selectors.base import BaseSelector
from daskfs.selectors.message.choices import PathTable, SelectionSettings
from daskfs.selectors.shared import responses
from daskfs.selectors.shared.responses import Response, probabilities
from daskfs.selectors.shared.rows import weighted_rows
from daskfs.selectors.shared.run import Run
from daskfs.selectors.shared.targets import checked_target, classes_of

TOLERANCE = 1e-9
"""Measure of importance of coefficients that are not refitted, if the loss is not squared."""


class Estimate(NamedTuple):
    """The estimate that a baseline computes from the rows."""

    coef: np.ndarray
    """Shape (n_features,) or (n_classes, n_features), on the scale of the data."""
    is_selected: np.ndarray
    """Shape (n_features,), bool."""
    scores: np.ndarray
    """Shape (n_features,)."""
    intercept: Any
    path: PathTable | None
    """History of the first subset or sample."""
    notes: list[str]
    attributes: dict[str, Any] = {}  # noqa: RUF012 (never written)
    """Further attributes of the selector, by name."""


def one_against_rest(found: list[Estimate]) -> Estimate:
    """Combine the one-against-rest estimates of several classes; a feature of any class is selected."""
    attributes, counts = dict(found[0].attributes), "n_selected_per_subset_"
    if counts in attributes:
        attributes[counts] = np.sum([one.attributes[counts] for one in found], axis=0)
    return Estimate(
        coef=np.array([one.coef for one in found]),
        is_selected=np.logical_or.reduce([one.is_selected for one in found]),
        scores=np.fmax.reduce([one.scores for one in found]),
        intercept=np.array([one.intercept for one in found]),
        path=found[0].path,
        notes=list(dict.fromkeys(note for one in found for note in one.notes)),
        attributes=attributes,
    )


class LassoBaseline(BaseSelector, kw_only=True):
    """Base class of the MESSAGE baselines. Each follows Lasso paths with an information criterion, on different rows.

    Parameters
    ----------
    criterion : {"bic", "ric", "ebic"}
        Information criterion that chooses a model on the path; see `Message`.
    gamma : float
        EBIC parameter γ (0 to 1).
    gic_rss : {"refit", "lasso"}
        Whether the criterion uses the residuals of the refit or of the shrunk Lasso fit.
    n_lambdas : int
        Number of penalties on the grid of a path.
    patience : int or None
        A path stops at models that have this many features more than the best model so far; None: never.
    max_features : int, optional
        Largest model of a path; by default n / (2 log p) with n rows.
    loss : {"auto", "squared", "logistic", "poisson", "huber", "multinomial"}
        The default is squared, logistic or multinomial, depending on the target. With several classes, one-against-rest
        paths are followed, and a feature is selected if at least one of them selects it.
    """

    history_kind = "criterion path"
    _weighs_columns = True

    criterion: Literal["bic", "ric", "ebic"] = "ebic"
    gamma: Share = 0.5
    gic_rss: Literal["refit", "lasso"] = "refit"
    n_lambdas: Annotated[int, Ge(2)] = 100
    patience: Count | None = 10
    max_features: Count | None = None
    loss: Annotated[str, LossOf(LIKELIHOOD)] = "auto"

    def _training_rows(self, matrix: Matrix) -> tuple[Matrix, SelectionSettings]:
        """Return the rows of positive weight, with their target checked, and the settings for selecting on them."""
        y = checked_target(matrix, self.loss_)
        rows = weighted_rows(matrix)
        positive = None
        if self._loss.is_classifier:
            self.classes_ = classes_of(np.asarray(rows.read_target()), None, many=self._loss.has_classes)
            positive = float(self.classes_[1])  # with more than two classes, one at a time
        threshold = threshold_of(self._loss, None, y, matrix.read_weight(slice(None)))
        return rows, replace(self._settings(), positive=positive, threshold=threshold)

    def _settings(self) -> SelectionSettings:
        """Return the settings of a path, as far as they are known without data; with several classes, of one."""
        return SelectionSettings(
            criterion=self.criterion,
            gamma=self.gamma,
            gic_rss=self.gic_rss,
            n_lambdas=self.n_lambdas,
            patience=self.patience,
            max_features=self.max_features,
            loss=loss_of_two(self.loss_),
            tol=TOLERANCE,
        )

    @abstractmethod
    def _estimate(self, run: Run, settings: SelectionSettings) -> Estimate:
        """Select on the rows of a run and fit them."""

    def _fit(self, run: Run) -> None:
        rows, settings = self._training_rows(run.matrix)
        of_rows = run.over(rows)
        if not self._loss.has_classes:
            self._finish(run, self._estimate(of_rows, settings))
            return
        found = [
            self._estimate(of_rows.within(f"class-{c}"), replace(settings, positive=float(label)))
            for c, label in enumerate(self.classes_)
        ]
        self._finish(run, one_against_rest(found))

    @property
    def _probabilities(self) -> Response:
        return responses.one_against_rest if self._loss.has_classes else probabilities(self.loss_)

    def _finish(self, run: Run, estimate: Estimate) -> None:
        """Order the selected columns by importance and make the result."""
        self.coef_, self.support_, self.scores_ = estimate.coef, estimate.is_selected, estimate.scores
        self.intercept_ = estimate.intercept
        for name, value in estimate.attributes.items():
            setattr(self, name, value)
        columns = np.flatnonzero(self.support_)
        size = coefficient_norm(self.coef_[..., columns])
        self.selected_ = columns[np.lexsort((columns, -size, -self.scores_[columns]))]
        chosen = {name.removesuffix("_"): n for name, n in estimate.attributes.items() if name == "n_subsets_"}
        history = {} if estimate.path is None else estimate.path.columns()
        self.result_ = self._result_of(run, notes=estimate.notes, history=history, chosen=chosen)
