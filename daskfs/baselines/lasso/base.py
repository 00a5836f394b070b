"""What the competitors of MESSAGE share: parameters, training rows, and how their estimates become a result."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import replace
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from annotated_types import Ge

from daskfs.cluster.workers import Workers
from daskfs.kernels.losses import default_threshold
from daskfs.losses import LIKELIHOOD
from daskfs.matrix.base import Matrix, Progress
from daskfs.parameters import Count, LossOf, Share
from daskfs.result import SelectionResult, selection_table
from daskfs.selectors.base import BaseSelector
from daskfs.selectors.message.aggregate import coefficient_norm
from daskfs.selectors.message.notes import path_of_first, summed
from daskfs.selectors.message.partition import weighted_rows
from daskfs.selectors.message.plan import Shape
from daskfs.selectors.message.subset import SelectionSettings
from daskfs.selectors.shared import responses
from daskfs.selectors.shared.budget import DataShape
from daskfs.selectors.shared.responses import CLASSIFIERS, Response, probabilities
from daskfs.selectors.shared.run import Checkpoint, Run
from daskfs.selectors.shared.targets import checked_target, classes_of

NORMS = "the table's coefficients are their norms over the classes; coef_ has those of each class"


class Estimate(NamedTuple):
    """What a competitor makes of the rows."""

    coef: np.ndarray
    """Shape (n_features,) or (n_classes, n_features), on the scale of the data."""
    is_selected: np.ndarray
    """Shape (n_features,), bool."""
    scores: np.ndarray
    """Shape (n_features,)."""
    intercept: Any
    path: dict[str, np.ndarray]
    """Of the first subset or sample."""
    seconds: dict[str, float]
    notes: list[str]
    attributes: dict[str, Any] = {}  # noqa: RUF012 (never written)
    """More of the selector's, by name."""


def one_against_rest(found: list[Estimate]) -> Estimate:
    """Return the estimate of several classes, each told from all others: a feature is selected that one class takes."""
    attributes, counts = dict(found[0].attributes), "n_selected_per_subset_"
    if counts in attributes:
        attributes[counts] = np.sum([one.attributes[counts] for one in found], axis=0)
    return Estimate(
        coef=np.array([one.coef for one in found]),
        is_selected=np.logical_or.reduce([one.is_selected for one in found]),
        scores=np.fmax.reduce([one.scores for one in found]),
        intercept=np.array([one.intercept for one in found]),
        path=found[0].path,
        seconds=summed(one.seconds for one in found),
        notes=list(dict.fromkeys(note for one in found for note in one.notes)),
        attributes=attributes,
    )


class OfClass:
    """A checkpoint in which each class has names of its own."""

    def __init__(self, checkpoint: Checkpoint, c: int) -> None:
        self.checkpoint, self.prefix = checkpoint, f"class-{c}-"

    def load(self, name: str) -> Any:
        """Return what was saved, or None."""
        return self.checkpoint.load(self.prefix + name)

    def save(self, name: str, arrays: Any) -> None:
        """Save."""
        self.checkpoint.save(self.prefix + name, arrays)


class LassoBaseline(BaseSelector, kw_only=True):
    """Base of the baselines of MESSAGE: each sees the Lasso path with its criterion, on rows of its own choice.

    Parameters
    ----------
    criterion : {"bic", "ric", "ebic"}
        By which a model on the path is chosen; see `Message`.
    gamma : float
        Of ebic.
    gic_rss : {"refit", "lasso"}
        Whether the criterion sees the residuals of the refit or of the shrunk Lasso fit.
    n_lambdas : int
        Length of a path's grid.
    patience : int or None
        A path stops at models with so many features more than the best so far; None: never.
    max_features : int, optional
        Largest model of a path; by default n / (2 log p), of n rows.
    loss : {"squared", "logistic", "poisson", "huber", "multinomial"}
        Of several classes each is told from the rest by itself; a feature is selected that one of them takes.
    """

    history_kind = "criterion path"

    criterion: Literal["bic", "ric", "ebic"] = "ebic"
    gamma: Share = 0.5
    gic_rss: Literal["refit", "lasso"] = "refit"
    n_lambdas: Annotated[int, Ge(2)] = 100
    patience: Count | None = 10
    max_features: Count | None = None
    loss: Annotated[str, LossOf(LIKELIHOOD)] = "squared"

    def _training_rows(self, matrix: Matrix) -> tuple[Any, SelectionSettings]:
        """Return the rows of positive weight, their target checked, and how to select on them."""
        y = checked_target(matrix, self.loss)
        rows = weighted_rows(matrix)
        positive, threshold = None, 0.0
        if self.loss in CLASSIFIERS:
            self.classes_ = classes_of(np.asarray(rows.read_target()), None, many=self.loss == "multinomial")
            positive = float(self.classes_[1])  # of more classes: each in its turn
        if self.loss == "huber":
            weight = matrix.read_weight(slice(None))
            threshold = default_threshold(y, np.ones(len(y)) if weight is None else weight)
        settings = SelectionSettings(
            criterion=self.criterion,
            gamma=self.gamma,
            refit=self.gic_rss == "refit",
            n_lambdas=self.n_lambdas,
            patience=self.patience,
            max_features=self.max_features,
            with_coefficients=True,
            loss="logistic" if self.loss == "multinomial" else self.loss,
            positive=positive,
            threshold=threshold,
        )
        return rows, settings

    @abstractmethod
    def _estimate(
        self,
        rows: Any,
        settings: SelectionSettings,
        workers: Workers,
        progress: Progress | None,
        checkpoint: Checkpoint | None,
    ) -> Estimate:
        """Select on the rows and fit them."""

    def _fit(self, run: Run) -> None:
        matrix, workers, progress, checkpoint = run.matrix, run.workers, run.progress, run.checkpoint
        rows, settings = self._training_rows(matrix)
        if self.loss != "multinomial":
            self._finish(matrix, self._estimate(rows, settings, workers, progress, checkpoint))
            return
        found = []
        for c, label in enumerate(self.classes_):
            of_class = replace(settings, positive=float(label))
            kept = None if checkpoint is None else OfClass(checkpoint, c)
            found.append(self._estimate(rows, of_class, workers, progress, kept))
        self._finish(matrix, one_against_rest(found))

    @property
    def _probabilities(self) -> Response:
        return responses.one_against_rest if self.loss == "multinomial" else probabilities(self.loss)

    def _shape_of_all(self, shape: DataShape) -> Shape:
        """Return the shape of all rows as one subset."""
        loss = "logistic" if self.loss == "multinomial" else self.loss
        return Shape(shape.n_samples, shape.n_features, shape.itemsize, 1, self.n_lambdas, self.max_features, loss)

    def _finish(self, matrix: Matrix, estimate: Estimate) -> None:
        """Order the selected columns by importance, and make the result."""
        self.coef_, self.support_, self.scores_ = estimate.coef, estimate.is_selected, estimate.scores
        self.intercept_ = estimate.intercept
        for name, value in estimate.attributes.items():
            setattr(self, name, value)
        notes = list(estimate.notes)
        columns = np.flatnonzero(self.support_)
        size = coefficient_norm(self.coef_[..., columns])
        self.selected_ = columns[np.lexsort((columns, -size, -self.scores_[columns]))]
        if not len(columns):
            notes.append("no feature was selected")
        names = matrix.names.given
        coef, intercept = self.coef_[..., self.selected_], self.intercept_
        if coef.ndim > 1:
            coef, intercept = coefficient_norm(coef), math.nan
            notes.append(NORMS)
        table = selection_table(self.selected_, coef, self.scores_[self.selected_], names)
        parameters = self.get_params(deep=False)
        if "n_subsets_" in estimate.attributes:
            parameters["n_subsets"] = estimate.attributes["n_subsets_"]
        del parameters["client"]
        self.result_ = SelectionResult(
            method=self.method,
            score_kind=self.score_kind,
            history_kind=self.history_kind,
            table=table,
            intercept=intercept,
            parameters=parameters,
            n_samples=int(matrix.shape[0]),
            n_features=int(matrix.shape[1]),
            history=type(table).from_dict(path_of_first(estimate.path)),
            scores=self.scores_,
            feature_names=names,
            store_digest=matrix.identity,
            time=estimate.seconds,
            notes=notes,
        )
