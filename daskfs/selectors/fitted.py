"""The attributes of a fitted selector."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from sklearn.feature_selection import SelectorMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from daskfs.feature_maps.base import MadeFeatures
from daskfs.result import SelectionResult
from daskfs.selectors.predicting import FittedColumns
from daskfs.selectors.resulting import Selection


class Fitted(SelectorMixin):
    """The attributes of a selector after `fit`, and the selection of columns of data in memory.

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

    @property
    def _selection(self) -> Selection:
        """What the fit selected, as one value."""
        return Selection(*(getattr(self, name) for name in Selection._fields))

    @_selection.setter
    def _selection(self, found: Selection) -> None:
        for name, value in found._asdict().items():
            setattr(self, name, value)

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
