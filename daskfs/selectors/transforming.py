"""The selected columns of X, of whatever kind it is, and as lazy as it came."""

from __future__ import annotations

from typing import Any

import numpy as np

from daskfs.feature_maps.base import MadeMatrix
from daskfs.selectors.fitted import Fitted
from daskfs.selectors.inputs import dense_columns, is_lazy, is_matrix, lazy_columns, lazy_made
from daskfs.selectors.tables import as_asked, encoded, is_table, lazily_encoded, raw_encoder


class Transforms(Fitted):
    """Lets Dask collections and stores pass by `set_output`, which would load them into memory.

    scikit-learn wraps the `transform` of every class below `SelectorMixin`, hence it stands before that, not below.
    """

    def transform(self, X: Any) -> Any:
        """Return the selected columns.

        Parameters
        ----------
        X : as in `fit`

        Returns
        -------
        array, sparse matrix, DataFrame or lazy Dask collection
            Same kind as the input (`set_output` applies to what is in memory); a dense array for a store.
        """
        made = self.made_
        columns = self.get_support(indices=True)  # type: ignore[attr-defined]
        if is_lazy(X):
            chosen = self._lazy_columns(X, columns)
            return chosen if made is None else lazy_made(chosen, made, self.get_feature_names_out())
        if is_matrix(X):
            return X.read(slice(None), columns) if made is None else MadeMatrix(X, made).read(slice(None))
        if (encoder := self._encoder_for(X)) is not None:
            chosen = self._columns_of(X, columns, encoder)
            return as_asked(chosen if made is None else made.of(chosen), X, self)
        return super().transform(X)  # type: ignore[misc]

    def _encoder_for(self, X: Any) -> Any:
        """Return what encodes X, as the table of the fit was or that of the fit's store; None where X has features."""
        if self.encoder_ is not None or self._store_encoder is None or not is_table(X):
            return self.encoder_
        return raw_encoder(self._store_encoder, X)

    def _columns_of(self, X: Any, columns: np.ndarray, encoder: Any) -> np.ndarray:
        """Return columns of a table that is encoded as that of the fit was."""
        return encoded(encoder, X, columns, getattr(self, "feature_names_in_", None))

    def _lazy_columns(self, X: Any, columns: np.ndarray) -> Any:
        """Return columns of a Dask collection, as lazy as it came; encoded where that of the fit was."""
        if (encoder := self._encoder_for(X)) is not None:
            names = np.array(encoder.feature_names, dtype=object)[columns]
            return lazily_encoded(encoder, X, columns, names)
        return lazy_columns(X, columns, self.n_features_in_, getattr(self, "feature_names_in_", None))

    def _transform(self, X: Any) -> Any:
        """Return the selected features of what is in memory, checked."""
        return super()._transform(X) if self.made_ is None else self.made_.of(dense_columns(X, self.made_.parents))  # type: ignore[misc]

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Return the names of the selected features, in the order of the columns of `transform`.

        Parameters
        ----------
        input_features : array-like of str, optional
            Names of the columns of X, where they were not known in the fit.

        Returns
        -------
        ndarray of shape (n_selected,), str
        """
        names: np.ndarray
        if self.encoder_ is None:
            names = super().get_feature_names_out(input_features)  # type: ignore[misc]
        else:
            from sklearn.utils.validation import _check_feature_names_in

            _check_feature_names_in(self, input_features)
            names = np.array(self.encoder_.feature_names, dtype=object)[self.get_support()]  # type: ignore[attr-defined]
        if self.made_ is None:
            return names
        made = np.empty(len(self.made_.columns), dtype=object)
        made[:] = self.made_.names([str(name) for name in names])
        return made
