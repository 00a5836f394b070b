"""What a fit leaves in a selector."""

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
    """What a selector has after `fit`."""

    method: ClassVar[str]
    """Its name in pipelines, reports and `daskfs.methods`."""
    score_kind: ClassVar[str] = "coefficient"
    """What `scores_` are, by which the report explains them: a key of `daskfs.report.html.SCORE_KINDS`."""
    history_kind: ClassVar[str] = ""
    """What the result's history is of: a key of `daskfs.figures.HISTORIES`, or nothing that is drawn."""
    cuts_groups: ClassVar[str] = ""
    """What the method draws that does not keep groups of rows whole, in words: "bootstrap samples"."""
    loss: Any
    """A parameter of most, of the others the one loss that they have."""
    loss_: str
    """The loss of the fit: with ``loss="auto"`` the one that the target called for."""
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
    """The selected features, by number, where a map makes them; None where they are columns of X. Then ``selected_``
    are numbers of the map's columns, ``coef_`` and ``scores_`` of these alone, in this order, and ``support_`` says
    which columns of X they are made of."""
    encoder_: Any = None
    """What encodes the columns of tables, a `TableEncoder`; None where they are numbers. Then ``feature_names_in_`` are
    the table's columns, and ``coef_`` and all that has an entry for each feature has it for what they become."""
    _store_encoder: Mapping[str, Any] | None = None
    """Of a fit to a store of a table: what encoded its rows, as a document."""
    _n_columns: int
    """Columns of the matrix of the fit."""
    _table_notes: Sequence[str] = ()
    """What a table's columns were taken for."""

    @property
    def groups_are_cut_by(self) -> str:
        """`cuts_groups` of this selector with its parameters; of one about another, that of the other."""
        return self.cuts_groups

    def _set_selection(
        self, columns: np.ndarray, scores: np.ndarray, coef: np.ndarray, intercept: Any, others: float = 0.0
    ) -> None:
        """Set which columns are selected, by their scores, and their coefficients on the scale of the data.

        `others` is the score of the columns that are not selected. Of several classes `coef` has a row for each, and
        `intercept` a number.
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
        """Set which of a map's columns are selected, ascending in `made`, by their scores: see `_set_selection`."""
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
            names = [name for name in self.encoder_.names if name != self.encoder_.target]
            self.n_features_in_, self.feature_names_in_ = len(names), np.array(names, dtype=object)
        elif not matrix.names.are_default and matrix.names.given is not None:
            self.feature_names_in_ = np.asarray(matrix.names, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_

    def _get_support_mask(self) -> np.ndarray:
        check_is_fitted(self)
        return self.support_

    def _encoder_for(self, X: Any) -> Any:
        """Return what encodes X, as the table of the fit was or that of the fit's store; None where X has features."""
        if self.encoder_ is not None or self._store_encoder is None or not is_table(X):
            return self.encoder_
        return raw_encoder(self._store_encoder, X)

    def _columns_of(self, X: Any, columns: np.ndarray, encoder: Any) -> np.ndarray:
        """Return columns of a table that is encoded as that of the fit was."""
        return encoded(encoder, X, columns, getattr(self, "feature_names_in_", None))
