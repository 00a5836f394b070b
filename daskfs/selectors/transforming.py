"""The selected columns of X, of whatever kind it is, and as lazy as it came."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.feature_selection import SelectorMixin

from daskfs.errors import DataError
from daskfs.feature_maps.base import MadeMatrix
from daskfs.selectors.fitted import Fitted
from daskfs.selectors.inputs import dense_columns, is_lazy, is_matrix, lazy_columns, lazy_made
from daskfs.selectors.tables import encoded, lazily_encoded, raw_encoder
from daskfs.sources.in_memory import is_table


class Encodes(Fitted):
    """Encodes a table as that of the fit was."""

    def _encoder_for(self, X: Any) -> Any:
        """Return what encodes X, as the table of the fit was or that of the fit's store; None where X has features."""
        if self.encoder_ is not None or self._store_encoder is None or not is_table(X):
            return self.encoder_
        return raw_encoder(self._store_encoder, X)

    def _columns_of(self, X: Any, columns: np.ndarray, encoder: Any) -> np.ndarray:
        """Return columns of a table that is encoded as that of the fit was."""
        return encoded(encoder, X, columns, getattr(self, "feature_names_in_", None))


class TransformsInMemory(Encodes, SelectorMixin):
    """The selected columns of what is in memory, in the container that `set_output` asks for.

    scikit-learn wraps the `transform` of every class below `SelectorMixin` to make that container.
    """

    def transform(self, X: Any) -> Any:
        """Return the selected columns of an array or a table in memory."""
        if (encoder := self._encoder_for(X)) is None:
            return super().transform(X)
        chosen = self._columns_of(X, self.get_support(indices=True), encoder)
        return chosen if self.made_ is None else self.made_.of(chosen)

    def _transform(self, X: Any) -> Any:
        """Return the selected features of an array, checked."""
        return super()._transform(X) if self.made_ is None else self.made_.of(dense_columns(X, self.made_.parents))


class Transforms(Encodes):
    """Lets Dask collections and stores pass by `set_output`, which would load them into memory."""

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
        return super().transform(X)  # type: ignore[misc]

    def _lazy_columns(self, X: Any, columns: np.ndarray) -> Any:
        """Return columns of a Dask collection, as lazy as it came; encoded where that of the fit was."""
        if (encoder := self._encoder_for(X)) is not None:
            names = np.array(encoder.feature_names, dtype=object)[columns]
            return lazily_encoded(encoder, X, columns, names)
        return lazy_columns(X, columns, self.n_features_in_, getattr(self, "feature_names_in_", None))

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
            if input_features is not None and list(input_features) != list(self.feature_names_in_):
                raise DataError("input_features is not equal to feature_names_in_", "get_feature_names_out")
            names = np.array(self.encoder_.feature_names, dtype=object)[self.get_support()]  # type: ignore[attr-defined]
        if self.made_ is None:
            return names
        made = np.empty(len(self.made_.columns), dtype=object)
        made[:] = self.made_.names([str(name) for name in names])
        return made
