"""Methods of fitted selectors: the selected columns, the linear predictor, and the predictions from it."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.feature_selection import SelectorMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, validate_data

from daskfs import errors
from daskfs.errors import SelectionWarning, warn
from daskfs.feature_maps.base import MadeMatrix
from daskfs.losses import AUTO, LOSSES, Loss, TargetKind, find_loss
from daskfs.matrix.target import doubt
from daskfs.metrics import accuracy, r2
from daskfs.parameters import LossOf, Parameters, parameters_of
from daskfs.selectors.fitted import Fitted
from daskfs.selectors.inputs import (
    check_width,
    dense_columns,
    is_lazy,
    is_matrix,
    lazy_columns,
    lazy_made,
    lazy_response,
)
from daskfs.selectors.predictor import LinearPredictor
from daskfs.selectors.shared.responses import Response, log_odds, mean_or_label, probabilities
from daskfs.selectors.tables import lazily_encoded

DataError = errors.DataError.about("shapes")


class TransformsInMemory(Fitted, SelectorMixin):
    """Selects columns of data in memory, in the container that `set_output` requests.

    scikit-learn wraps the `transform` of every subclass of `SelectorMixin` to create that container.
    """

    def transform(self, X: Any) -> Any:
        """Return the selected columns of an array or a table in memory."""
        if (encoder := self._encoder_for(X)) is None:
            return super().transform(X)
        chosen = self._columns_of(X, self.get_support(indices=True), encoder)
        return chosen if self.made_ is None else self.made_.of(chosen)

    def _transform(self, X: Any) -> Any:
        """Return the selected features of an array that was checked."""
        return super()._transform(X) if self.made_ is None else self.made_.of(dense_columns(X, self.made_.parents))


class Transforms(Fitted):
    """Keeps Dask collections and stores away from `set_output`, which would load them into memory."""

    def transform(self, X: Any) -> Any:
        """Return the selected columns.

        Parameters
        ----------
        X : as in `fit`

        Returns
        -------
        array, sparse matrix, DataFrame or lazy Dask collection
            Same kind as the input (`set_output` applies to data in memory); a dense array for a store.
        """
        made = self.made_
        columns = self.get_support(indices=True)  # type: ignore[attr-defined]
        if is_lazy(X):
            chosen = self._lazy_columns(X, columns)
            return chosen if made is None else lazy_made(chosen, made, self.get_feature_names_out())
        if is_matrix(X):
            return X.read(slice(None), columns) if made is None else MadeMatrix(X, made).read(slice(None))
        return super().transform(X)  # type: ignore[misc]

    def _lazy_columns(self, X: Any, columns: np.ndarray) -> Any:
        """Return columns of a Dask collection without computing them; encoded if the table of the fit was."""
        if (encoder := self._encoder_for(X)) is not None:
            names = np.array(encoder.feature_names, dtype=object)[columns]
            return lazily_encoded(encoder, X, columns, names)
        return lazy_columns(X, columns, self.n_features_in_, getattr(self, "feature_names_in_", None))

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Return the names of the selected features, in the order of the columns of `transform`.

        Parameters
        ----------
        input_features : array-like of str, optional
            Names of the columns of X, if they were not known in the fit.

        Returns
        -------
        ndarray of shape (n_selected,), str
        """
        names: np.ndarray
        if self.encoder_ is None:
            names = super().get_feature_names_out(input_features)  # type: ignore[misc]
        else:
            if input_features is not None and list(input_features) != list(self.feature_names_in_):
                raise DataError("input_features is not equal to feature_names_in_", "get_feature_names_out")
            names = np.array(self.encoder_.feature_names, dtype=object)[self.get_support()]  # type: ignore[attr-defined]
        if self.made_ is None:
            return names
        made = np.empty(len(self.made_.columns), dtype=object)
        made[:] = self.made_.names([str(name) for name in names])
        return made


def _may_classify(selector: Predicts) -> bool:
    return any(loss.is_classifier for loss in selector.possible_losses)


def _may_have_probabilities(selector: Predicts) -> bool:
    return any(loss.has_probabilities for loss in selector.possible_losses)


class Predicts(Transforms, Parameters, TransformsInMemory, BaseEstimator):
    """Has a loss, given or chosen for the target, and predicts with it from the selected features."""

    _loss_note = ""  # a note on the choice of the loss

    @property
    def loss_choice(self) -> LossOf | None:
        """The losses of the parameter; None if the method has only one loss."""
        parameter = parameters_of(type(self)).get("loss")
        if parameter is None:
            return None
        return parameter.kinds[0] if isinstance(parameter.kinds[0], LossOf) else LossOf()

    @property
    def possible_losses(self) -> list[Loss]:
        """The loss; before a fit with "auto", the losses that may be chosen."""
        name = self.loss if self.loss != AUTO else getattr(self, "loss_", AUTO)
        choice = self.loss_choice
        names = choice.by_default if name == AUTO and choice is not None else (name,)
        return [LOSSES[one] for one in names if one in LOSSES]

    @property
    def _loss(self) -> Loss:
        """The loss that is fitted, once it is settled."""
        return LOSSES[self.loss_]

    def _check_loss(self, loss: Loss) -> None:
        """Refuse parameters that cannot be combined with this loss; with ``loss="auto"`` when the target is known."""

    def _settle_loss(self, kind: TargetKind, is_plan: bool = False) -> None:
        """Set ``loss_`` to the given loss or the one for the target, with a note if that choice may be wrong."""
        self._loss_note, self.loss_, parameter = "", self.loss, self.loss_choice
        if parameter is None:
            return
        self.loss_ = parameter.of(type(self).__name__, self.loss, kind)
        if self.loss != AUTO:
            return
        self._check_loss(self._loss)
        is_classifier = self._loss.is_classifier
        others = [name for name in parameter.names if LOSSES[name].is_classifier != is_classifier]
        if kind.n_whole and others and is_classifier == (kind.n_classes > 0):
            self._loss_note = doubt(kind, self.loss_, others)
            if not is_plan:
                warn(f"{type(self).__name__}: {self._loss_note}", SelectionWarning)  # before the work, not after it
        elif is_classifier:
            self._loss_note = f"the target has {kind.n_classes} classes: the loss is {self.loss_}"

    def predict(self, X: Any) -> Any:
        """Predict the target from the selected features: its mean, or the most probable label.

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
        """The function that `predict` applies to the linear predictor ``X @ coef_ + intercept_``."""
        return mean_or_label(self.response_losses[0], getattr(self, "classes_", None))

    @property
    def response_losses(self) -> tuple[str, str]:
        """The losses that define the mean or label, and the probabilities, as functions of the linear predictor."""
        return self.loss_, self.loss_

    @available_if(_may_classify)
    def decision_function(self, X: Any) -> Any:
        """Return the linear predictor: with the logistic loss, the log-odds of the second class.

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
        check_is_fitted(self)
        return self._respond(X, self._probabilities)

    @property
    def _probabilities(self) -> Response:
        """The function that `predict_proba` applies to the linear predictor."""
        return probabilities(self.response_losses[1], len(self.classes_))

    def predictor(self) -> LinearPredictor:
        """Return the object that computes ``X @ coef_ + intercept_`` from blocks of the columns that it lists."""
        columns = np.flatnonzero(self.support_)
        if self.made_ is None:
            return LinearPredictor(columns, self.coef_[..., columns].T, self.intercept_)
        coef = self.coef_[..., np.argsort(self.selected_)].T
        return LinearPredictor(columns, coef, self.intercept_, self.made_)

    def _respond(self, X: Any, response: Response) -> Any:
        """Return a response to the linear predictor of every row; lazily if X is lazy."""
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
        """Return R², the share of the target's variance that is explained, or the accuracy of a classifier.

        Parameters
        ----------
        X : as in `fit`
        y : array-like of shape (n_samples,)
            None with a store that has a target.
        sample_weight : array-like of shape (n_samples,), optional
        """
        if y is None and is_matrix(X):
            y, sample_weight = X.read_target(slice(None)), X.read_weight(slice(None))
        weight = None if sample_weight is None else np.asarray(sample_weight, dtype=float)
        prediction = np.asarray(self.predict(X))
        if find_loss(self.loss_).is_classifier:
            return accuracy(np.asarray(y), prediction, weight)
        return r2(np.asarray(y, dtype=float), prediction, weight)
