"""What the competitors of MESSAGE share: parameters, training rows, and how their estimates become a result."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np

from daskfs.errors import ConfigError, did_you_mean
from daskfs.kernels.losses import LIKELIHOODS, default_threshold
from daskfs.result import SelectionResult, selection_table
from daskfs.selectors.base import BaseSelector
from daskfs.selectors.message_notes import path_of_first
from daskfs.selectors.message_partition import weighted_rows
from daskfs.selectors.message_plan import Shape, is_whole
from daskfs.selectors.responses import CLASSIFIERS
from daskfs.selectors.subset_models import SelectionSettings
from daskfs.selectors.targets import checked_target, classes_of


class LassoBaseline(BaseSelector):
    """Base of the competitors: each sees the Lasso path with the criterion of MESSAGE, on rows of its own choice."""

    method: str
    criterion: str
    gamma: float
    gic_rss: str
    n_lambdas: int
    patience: int | None
    max_features: int | None
    loss: str

    def _check_parameters(self) -> None:
        choices = {"criterion": ("bic", "ric", "ebic"), "gic_rss": ("refit", "lasso"), "loss": LIKELIHOODS}
        for name, known in choices.items():
            value = getattr(self, name)
            if value not in known:
                hint = did_you_mean(str(value), known)
                raise ConfigError(f"expected one of {', '.join(known)}, found {value!r}{hint}", name)
        if not isinstance(self.gamma, Real) or not 0.0 <= self.gamma <= 1.0:
            raise ConfigError(f"expected a number from 0 to 1, found {self.gamma!r}", "gamma")
        for name, least in (("n_lambdas", 2), ("patience", 1), ("max_features", 1)):
            value = getattr(self, name)
            if value is not None and not is_whole(value, least):
                raise ConfigError(f"expected a whole number of at least {least}, found {value!r}", name)

    def _training_rows(self, matrix: Any) -> tuple[Any, SelectionSettings]:
        """Return the rows of positive weight, their target checked, and how to select on them."""
        y = checked_target(matrix, self.loss)
        rows = weighted_rows(matrix)
        positive, threshold = None, 0.0
        if self.loss in CLASSIFIERS:
            self.classes_ = classes_of(rows.read_target(slice(None)), None)
            positive = float(self.classes_[1])
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
            loss=self.loss,
            positive=positive,
            threshold=threshold,
        )
        return rows, settings

    def _shape_of_all(self, n_samples: int, n_features: int, itemsize: int) -> Shape:
        """Return the shape of all rows as one subset."""
        return Shape(n_samples, n_features, itemsize, 1, self.n_lambdas, self.max_features, self.loss)

    def _finish(
        self,
        matrix: Any,
        intercept: float,
        importance: np.ndarray,
        path: dict[str, np.ndarray],
        seconds: dict[str, float],
        notes: list[str],
        resolved: dict[str, Any] | None = None,
    ) -> None:
        """Order the columns of `support_` by importance, and make the result."""
        self.intercept_ = float(intercept)
        columns = np.flatnonzero(self.support_)
        size = np.abs(self.coef_[columns])
        self.selected_ = columns[np.lexsort((columns, -size, -importance[columns]))]
        if not len(columns):
            notes.append("no feature was selected")
        names = matrix.feature_names
        table = selection_table(self.selected_, self.coef_[self.selected_], self.scores_[self.selected_], names)
        parameters = {**self.get_params(deep=False), **(resolved or {})}
        del parameters["client"]
        self.result_ = SelectionResult(
            method=self.method,
            table=table,
            intercept=self.intercept_,
            parameters=parameters,
            n_samples=int(matrix.shape[0]),
            n_features=int(matrix.shape[1]),
            history=type(table).from_dict(path_of_first(path)),
            scores=self.scores_,
            feature_names=names,
            store_digest=getattr(getattr(matrix, "base", matrix), "digest", None),
            time=seconds,
            notes=notes,
        )
