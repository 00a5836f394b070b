"""The attributes of a fitted selector."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from daskfs.feature_maps.base import MadeFeatures
from daskfs.matrix.base import Matrix
from daskfs.result import SelectionResult
from daskfs.selectors.tables import encoded, raw_encoder
from daskfs.sources.in_memory import is_table


class Fitted:
    """The attributes of a selector after `fit`."""

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

    @property
    def groups_are_cut_by(self) -> str:
        """`cuts_groups` for this selector with its parameters; a meta-selector returns that of its selector."""
        return self.cuts_groups

    def _set_selection(
        self, columns: np.ndarray, scores: np.ndarray, coef: np.ndarray, intercept: Any, others: float = 0.0
    ) -> None:
        """Set the selected columns, by score, and their coefficients on the scale of the data.

        `others` is the score of columns that are not selected. With several classes, `coef` has a row and `intercept` a
        number for each.
        """
        self.made_ = None
        self.support_ = np.zeros(self._n_columns, dtype=bool)
        self.support_[columns] = True
        self.scores_ = np.full(self._n_columns, others)
        self.coef_ = np.zeros((*coef.shape[:-1], self._n_columns))
        self.scores_[columns], self.coef_[..., columns] = scores, coef
        self.intercept_ = intercept if np.ndim(intercept) else float(intercept)
        self.selected_ = columns[np.lexsort((columns, -scores))]

    def _set_made(self, made: MadeFeatures, scores: np.ndarray, coef: np.ndarray, intercept: Any) -> None:
        """Set the selected columns of a map, ascending in `made`, by score: see `_set_selection`."""
        order = np.lexsort((made.columns, -scores))
        self.made_, self.selected_ = made, made.columns[order]
        self.scores_, self.coef_ = scores[order], coef[..., order]
        self.support_ = np.zeros(self._n_columns, dtype=bool)
        self.support_[made.parents] = True
        self.intercept_ = intercept if np.ndim(intercept) else float(intercept)

    def _take_names(self, matrix: Matrix) -> None:
        self.n_features_in_ = self._n_columns = int(matrix.shape[1])
        self.encoder_, self._store_encoder = matrix.of_table, None
        if self.encoder_ is None:
            self._table_notes = ()
        if self.encoder_ is not None:
            target = self.encoder_.target
            names = [name for name in self.encoder_.names if name != target]
            self.n_features_in_, self.feature_names_in_ = len(names), np.array(names, dtype=object)
        elif not matrix.names.are_default and matrix.names.given is not None:
            self.feature_names_in_ = np.asarray(matrix.names, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_

    def _get_support_mask(self) -> np.ndarray:
        check_is_fitted(self)
        return self.support_

    def _encoder_for(self, X: Any) -> Any:
        """Return the encoder for X, from the table of the fit or the fit's store; None if X has features already."""
        if self.encoder_ is not None or self._store_encoder is None or not is_table(X):
            return self.encoder_
        return raw_encoder(self._store_encoder, X)

    def _columns_of(self, X: Any, columns: np.ndarray, encoder: Any) -> np.ndarray:
        """Return features of a table, encoded like the table of the fit."""
        return encoded(encoder, X, columns, getattr(self, "feature_names_in_", None))
