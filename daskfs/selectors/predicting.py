"""How a fit predicts: the linear predictor of the selected features, and what is made of it."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import validate_data

from daskfs.losses import find_loss
from daskfs.metrics import accuracy, r2
from daskfs.selectors.inputs import check_width, is_lazy, is_matrix, lazy_response
from daskfs.selectors.predictor import LinearPredictor
from daskfs.selectors.settling import SettlesLoss
from daskfs.selectors.shared.responses import Response, log_odds, mean_or_label, probabilities
from daskfs.selectors.transforming import Transforms


def _may_classify(selector: SettlesLoss) -> bool:
    return any(loss.is_classifier for loss in selector.possible_losses)


def _may_have_probabilities(selector: SettlesLoss) -> bool:
    return any(loss.has_probabilities for loss in selector.possible_losses)


class Predicts(Transforms, SettlesLoss):
    """Predicts from the selected features."""

    def predict(self, X: Any) -> Any:
        """Predict the target from the selected features: its mean, or the likeliest label.

        Parameters
        ----------
        X : as in `fit`

        Returns
        -------
        ndarray of shape (n_samples,), or a lazy Dask array or Series
        """
        self._check_is_fitted()
        return self._respond(X, self.response)

    @property
    def response(self) -> Response:
        """What `predict` makes of the linear predictor ``X @ coef_ + intercept_``."""
        return mean_or_label(self.response_losses[0], getattr(self, "classes_", None))

    @property
    def response_losses(self) -> tuple[str, str]:
        """The losses by which the linear predictor becomes a mean or a label, and probabilities."""
        return self.loss_, self.loss_

    @available_if(_may_classify)
    def decision_function(self, X: Any) -> Any:
        """Return the linear predictor: with the logistic loss the logarithm of the odds of the second class.

        Parameters
        ----------
        X : as in `fit`

        Returns
        -------
        ndarray of shape (n_samples,), with more than two classes (n_samples, n_classes), or a lazy Dask collection
        """
        self._check_is_fitted()
        is_pair = np.ndim(self.intercept_) > 0 and len(self.classes_) == 2
        return self._respond(X, log_odds if is_pair else np.asarray)

    @available_if(_may_have_probabilities)
    def predict_proba(self, X: Any) -> Any:
        """Return the probability of each class, in the order of ``classes_``.

        Parameters
        ----------
        X : as in `fit`

        Returns
        -------
        ndarray of shape (n_samples, n_classes), or a lazy Dask array
        """
        self._check_is_fitted()
        return self._respond(X, self._probabilities)

    @property
    def _probabilities(self) -> Response:
        """What `predict_proba` makes of the linear predictor."""
        return probabilities(self.response_losses[1], len(self.classes_))

    def predictor(self) -> LinearPredictor:
        """Return what makes the linear predictor ``X @ coef_ + intercept_`` of blocks of the columns that it names."""
        columns = np.flatnonzero(self.support_)
        if self.made_ is None:
            return LinearPredictor(columns, self.coef_[..., columns].T, self.intercept_)
        coef = self.coef_[..., np.argsort(self.selected_)].T
        return LinearPredictor(columns, coef, self.intercept_, self.made_)

    def _respond(self, X: Any, response: Response) -> Any:
        """Return a response to the linear predictor of every row; lazily where X is lazy."""
        predictor = self.predictor()
        columns = predictor.columns
        if is_lazy(X):
            return lazy_response(self._lazy_columns(X, columns), predictor, response)
        if is_matrix(X):
            check_width(X.shape[1], self._n_columns)
            return np.concatenate([response(predictor(block.X)) for block in X.row_blocks(columns=columns)])
        if (encoder := self._encoder_for(X)) is not None:
            return response(np.asarray(predictor(self._columns_of(X, columns, encoder))))
        X = validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=False)
        return response(np.asarray(predictor(X[:, columns])))

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
        if find_loss(self.loss_).is_classifier:
            return accuracy(np.asarray(y), prediction, weight)
        return r2(np.asarray(y, dtype=float), prediction, weight)
