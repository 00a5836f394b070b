"""What every selector offers: scikit-learn's face on all kinds of input, and the hooks of a pipeline."""

from __future__ import annotations

import functools
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.feature_selection import SelectorMixin
from sklearn.utils import ClassifierTags, RegressorTags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, validate_data

from daskfs.cluster.workers import Workers
from daskfs.matrix.base import Matrix, Progress
from daskfs.metrics import accuracy, r2
from daskfs.result import SelectionResult
from daskfs.selectors.inputs import is_lazy, is_matrix, lazy_columns, lazy_response, opened_matrix, predictor_blocks
from daskfs.selectors.shared.responses import (
    CLASSIFIERS,
    PROBABILISTIC,
    Response,
    log_odds,
    mean_or_label,
    probabilities,
)


class Checkpoint(Protocol):
    """Keeps small arrays under names, so that an interrupted run goes on where it stood."""

    def load(self, name: str) -> dict[str, np.ndarray] | None:
        """Return what was saved under a name, or None."""

    def save(self, name: str, arrays: dict[str, np.ndarray]) -> None:
        """Save arrays under a name."""


@dataclass(frozen=True, slots=True)
class SelectorPlan:
    """What a selector will read and hold, known before any data is."""

    n_tasks: int
    n_passes: int
    """Over all columns of the matrix."""
    task_nbytes: int
    """Peak memory of one task, beside the process itself."""
    read_nbytes: int
    """Decoded bytes read in all."""
    client_nbytes: int
    """Memory of the client, beside the process itself."""
    text: str
    """The plan in words."""


def _is_classifier(selector: BaseSelector) -> bool:
    return selector.loss in CLASSIFIERS


def _has_probabilities(selector: BaseSelector) -> bool:
    return selector.loss in PROBABILISTIC


class BaseSelector(SelectorMixin, BaseEstimator):
    """Base of all selectors: scikit-learn's interface over arrays, stores and Dask collections.

    A subclass stores its parameters in ``__init__`` (among them ``loss``, ``random_state``, ``memory_limit`` and
    ``client``) and defines `_fit` and `plan`. `_fit` sets ``selected_``, ``support_``, ``coef_``, ``intercept_``,
    ``scores_`` and ``result_``, and where ``loss`` is one of classes, ``classes_`` as the target has them.
    """

    loss: str
    classes_: np.ndarray
    selected_: np.ndarray
    support_: np.ndarray
    coef_: np.ndarray
    intercept_: Any
    scores_: np.ndarray
    result_: SelectionResult
    n_features_in_: int
    feature_names_in_: np.ndarray

    @abstractmethod
    def _fit(
        self, matrix: Matrix, workers: Workers | None, progress: Progress | None, checkpoint: Checkpoint | None
    ) -> None:
        """Select on a matrix."""

    @abstractmethod
    def plan(
        self,
        n_samples: int,
        n_features: int,
        dtype: Any,
        memory_limit: int | None,
        n_threads: int = 1,
        tile_shape: tuple[int, int] | None = None,
    ) -> SelectorPlan:
        """Return what fitting a matrix of this shape will read and hold.

        Parameters
        ----------
        n_samples, n_features : int
        dtype : numpy dtype or its name
        memory_limit : int or None
            Bytes that one task may take.
        n_threads : int
            Tasks that run at once.
        tile_shape : tuple of int, optional
            Of the store.

        Raises
        ------
        PlanError
            The limit is too small; with the sizes that would fit.
        """

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> BaseSelector:
        """Select features.

        Parameters
        ----------
        X : FeatureStore or other Matrix, ndarray, scipy.sparse matrix, DataFrame, dask Array or dask DataFrame
            A store is read block by block where the work runs, and brings its own target and weights. A Dask collection
            is written to a temporary store first.
        y : array-like of shape (n_samples,)
            The target; None with a store.
        sample_weight : array-like of shape (n_samples,), optional
            A weight of 2 counts as the row twice, 0 as no row; None with a store.

        Returns
        -------
        self

        Raises
        ------
        DataError
            NaN or infinity (with the column and the row), a constant target, no target.
        """
        with opened_matrix(self, X, y, sample_weight) as (matrix, labels):
            self.fit_matrix(matrix)
        if labels is not None:
            self.classes_ = labels
        if hasattr(X, "columns") and all(isinstance(name, str) for name in X.columns):
            self.feature_names_in_ = np.asarray(X.columns, dtype=object)
        return self

    def fit_matrix(
        self,
        matrix: Matrix,
        *,
        workers: Workers | None = None,
        progress: Progress | None = None,
        checkpoint: Checkpoint | None = None,
    ) -> BaseSelector:
        """Select features of a matrix that carries its target.

        Parameters
        ----------
        matrix : Matrix
        workers : Workers, optional
            Where the work runs; by default on ``client``.
        progress : Progress, optional
        checkpoint : Checkpoint, optional
            Where finished tasks are kept.

        Returns
        -------
        self
        """
        self._take_names(matrix)
        self._fit(matrix, workers, progress, checkpoint)
        return self

    def _take_names(self, matrix: Matrix) -> None:
        self.n_features_in_ = int(matrix.shape[1])
        if not matrix.names.are_default:
            self.feature_names_in_ = np.asarray(matrix.names, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_

    def transform(self, X: Any) -> Any:
        """Return the selected columns.

        Parameters
        ----------
        X : as in `fit`

        Returns
        -------
        array, sparse matrix, DataFrame or lazy Dask collection
            Of the kind that came in (`set_output` applies to what is in memory); a dense array for a store.
        """
        return super().transform(X)

    def predict(self, X: Any) -> Any:
        """Predict the target from the selected features: its mean, or the likeliest label.

        Parameters
        ----------
        X : as in `fit`

        Returns
        -------
        ndarray of shape (n_samples,), or a lazy Dask array or Series
        """
        check_is_fitted(self)
        return self._respond(X, self.response)

    @property
    def response(self) -> Response:
        """What `predict` makes of the linear predictor ``X @ coef_ + intercept_``."""
        return mean_or_label(self.loss, getattr(self, "classes_", None))

    @available_if(_is_classifier)
    def decision_function(self, X: Any) -> Any:
        """Return the linear predictor: with the logistic loss the logarithm of the odds of the second class.

        Parameters
        ----------
        X : as in `fit`

        Returns
        -------
        ndarray of shape (n_samples,), with more than two classes (n_samples, n_classes), or a lazy Dask collection
        """
        check_is_fitted(self)
        is_pair = np.ndim(self.intercept_) > 0 and len(self.classes_) == 2
        return self._respond(X, log_odds if is_pair else np.asarray)

    @available_if(_has_probabilities)
    def predict_proba(self, X: Any) -> Any:
        """Return the probability of each class, in the order of ``classes_``.

        Parameters
        ----------
        X : as in `fit`

        Returns
        -------
        ndarray of shape (n_samples, n_classes), or a lazy Dask array
        """
        check_is_fitted(self)
        return self._respond(X, self._probabilities)

    @property
    def _probabilities(self) -> Response:
        """What `predict_proba` makes of the linear predictor."""
        return probabilities(self.loss)

    def _respond(self, X: Any, response: Response) -> Any:
        """Return a response to the linear predictor of every row; lazily where X is lazy."""
        columns = np.flatnonzero(self.support_)
        if is_lazy(X):
            return lazy_response(lazy_columns(self, X, columns), self._coef_of(columns), self.intercept_, response)
        if is_matrix(X):
            return np.concatenate([response(part) for part in predictor_blocks(self, X, columns)])
        X = validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=False)
        return response(np.asarray(X[:, columns] @ self._coef_of(columns) + self.intercept_))

    def _coef_of(self, columns: np.ndarray) -> np.ndarray:
        """Return the coefficients of some columns, with those in rows."""
        coef: np.ndarray = self.coef_[..., columns].T
        return coef

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Return the share of the target's variance explained, R²; of a classifier, the share of labels that are right.

        Parameters
        ----------
        X : as in `fit`
        y : array-like of shape (n_samples,)
            None with a store that carries its target.
        sample_weight : array-like of shape (n_samples,), optional
        """
        if y is None and is_matrix(X):
            y, sample_weight = X.read_target(slice(None)), X.read_weight(slice(None))
        weight = None if sample_weight is None else np.asarray(sample_weight, dtype=float)
        prediction = np.asarray(self.predict(X))
        if _is_classifier(self):
            return accuracy(np.asarray(y), prediction, weight)
        return r2(np.asarray(y, dtype=float), prediction, weight)

    def _get_support_mask(self) -> np.ndarray:
        check_is_fitted(self)
        return self.support_

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        if _is_classifier(self):
            tags.estimator_type = "classifier"
            tags.classifier_tags = ClassifierTags(multi_class=self.loss == "multinomial")
        else:
            tags.estimator_type = "regressor"
            tags.regressor_tags = RegressorTags()
        tags.target_tags.required = True
        tags.target_tags.positive_only = self.loss == "poisson"
        tags.input_tags.sparse = True
        return tags


def _lazy_stays_lazy(wrapped: Callable[..., Any]) -> Callable[..., Any]:
    """Let Dask collections and stores pass by `set_output`, which would load them into memory."""

    @functools.wraps(wrapped)
    def transform(self: BaseSelector, X: Any) -> Any:
        if is_lazy(X):
            return lazy_columns(self, X, self.get_support(indices=True))
        if is_matrix(X):
            return X.read(slice(None), self.get_support(indices=True))
        return wrapped(self, X)

    return transform


setattr(BaseSelector, "transform", _lazy_stays_lazy(BaseSelector.transform))  # noqa: B010
