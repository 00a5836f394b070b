"""A fitted selector: its attributes, and what it makes of other rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

import numpy as np
from sklearn.feature_selection import SelectorMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, validate_data

from daskfs import errors
from daskfs.feature_maps.base import MadeFeatures
from daskfs.losses import find_loss
from daskfs.matrix.base import Matrix
from daskfs.metrics import accuracy, r2
from daskfs.result import SelectionResult
from daskfs.selectors.inputs import check_width, is_lazy
from daskfs.selectors.predicting import FittedColumns, lazily, respond
from daskfs.selectors.predictor import LinearPredictor
from daskfs.selectors.shared.responses import Response, log_odds, mean_or_label, probabilities

DataError = errors.DataError.about("shapes")


class Fitted(SelectorMixin):
    """The attributes of a selector after `fit`, its predictions, and the selection of columns of data in memory.

    scikit-learn wraps this `transform`, because it is defined in a subclass of `SelectorMixin`, to create the container
    that `set_output` requests. `BaseSelector.transform` keeps Dask collections and stores away from it: the container
    would load them into memory.
    """

    method: ClassVar[str]
    """Name of the method in pipelines, reports and `daskfs.methods`."""
    score_kind: ClassVar[str] = "coefficient"
    """Kind of `scores_`, which the report explains: a key of `daskfs.report.html.SCORE_KINDS`."""
    history_kind: ClassVar[str] = ""
    """Kind of the result's history: a key of `daskfs.figures.HISTORIES`, or empty if there is no figure."""
    cuts_groups: ClassVar[str] = ""
    """Random samples of the method that split groups of rows, in words: "bootstrap samples"."""
    loss: Any
    """A parameter of most methods; otherwise the method's only loss."""
    loss_: str
    """The loss of the fit; with ``loss="auto"`` the one chosen for the target."""
    classes_: np.ndarray
    selected_: np.ndarray
    support_: np.ndarray
    coef_: np.ndarray
    intercept_: Any
    scores_: np.ndarray
    result_: SelectionResult
    n_features_in_: int
    feature_names_in_: np.ndarray
    made_: MadeFeatures | None = None
    """The selected features, by number, if a map makes them; None if they are columns of X.

    With a map, ``selected_`` has numbers of the map's columns, ``coef_`` and ``scores_`` cover only these, in this
    order, and ``support_`` says which columns of X they are made of.
    """
    encoder_: Any = None
    """Encoder of a table's columns, a `TableEncoder`; None if columns are numeric.

    With an encoder, ``feature_names_in_`` has the table's columns; ``coef_`` and other arrays over features have an
    entry for each encoded feature.
    """
    _store_encoder: Mapping[str, Any] | None = None
    """After a fit to a store of a table: the encoding of its rows, as a document."""
    _n_columns: int
    """Number of columns of the matrix of the fit."""
    _table_notes: Sequence[str] = ()
    """Notes on the inferred schema of a table."""
    _loss_note = ""
    """A note on the choice of the loss."""
    _weight_note = ""
    """A note on weights that sum to far less than the number of rows."""

    @property
    def _fitted_columns(self) -> FittedColumns:
        """What the fit knows of the columns of its data."""
        names = getattr(self, "feature_names_in_", None)
        return FittedColumns(self.n_features_in_, self._n_columns, names, self.encoder_, self._store_encoder)

    def _get_support_mask(self) -> np.ndarray:
        check_is_fitted(self)
        return self.support_

    def transform(self, X: Any) -> Any:
        """Return the selected columns of an array or a table in memory."""
        of_fit, made = self._fitted_columns, self.made_
        if of_fit.encoder_for(X) is not None:
            chosen = of_fit.encoded(X, self.get_support(indices=True))
        elif made is None:
            return super().transform(X)
        else:
            chosen = validate_data(self, X, dtype=None, accept_sparse="csr", reset=False)[:, made.parents]
            chosen = np.asarray(chosen.toarray() if hasattr(chosen, "toarray") else chosen)
            chosen = chosen if chosen.dtype.kind == "f" else chosen.astype(np.float64)
        return chosen if made is None else made.of(chosen)

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
            names = super().get_feature_names_out(input_features)
        else:
            if input_features is not None and list(input_features) != list(self.feature_names_in_):
                raise DataError("input_features is not equal to feature_names_in_", "get_feature_names_out")
            names = np.array(self.encoder_.feature_names, dtype=object)[self.get_support()]
        if self.made_ is None:
            return names
        made = np.empty(len(self.made_.columns), dtype=object)
        made[:] = self.made_.names([str(name) for name in names])
        return made

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

    @available_if(lambda selector: any(loss.is_classifier for loss in selector.possible_losses))
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

    @available_if(lambda selector: any(loss.has_probabilities for loss in selector.possible_losses))
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
        order = columns if self.made_ is None else np.argsort(self.selected_)
        return LinearPredictor(columns, self.coef_[..., order].T, self.intercept_, self.made_)

    def _respond(self, X: Any, response: Response) -> Any:
        """Return a response to the linear predictor of every row; lazily if X is lazy."""
        predictor, of_fit = self.predictor(), self._fitted_columns
        columns = predictor.columns
        if is_lazy(X):
            of_row = np.full((1, *np.shape(predictor.intercept)), predictor.intercept)
            return lazily(partial(respond, predictor, response), of_fit.lazy(X, columns), response(of_row))
        if isinstance(X, Matrix):
            check_width(X.shape[1], of_fit.n_columns)
            return np.concatenate([response(predictor(block.X)) for block in X.row_blocks(columns=columns)])
        if of_fit.encoder_for(X) is not None:
            return response(np.asarray(predictor(of_fit.encoded(X, columns))))
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
        if y is None and isinstance(X, Matrix):
            y, sample_weight = X.read_target(slice(None)), X.read_weight(slice(None))
        weight = None if sample_weight is None else np.asarray(sample_weight, dtype=float)
        prediction, target = np.asarray(self.predict(X)), np.asarray(y)
        target = target.ravel() if target.shape == (len(prediction), 1) else target
        if find_loss(self.loss_).is_classifier:
            return accuracy(target, prediction, weight)
        return r2(target.astype(float), prediction, weight)
