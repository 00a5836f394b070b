"""The columns of a fit in other rows, for `transform` and `predict`; those of Dask collections stay lazy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from daskfs import errors
from daskfs.selectors.inputs import check_width
from daskfs.selectors.predictor import LinearPredictor
from daskfs.selectors.shared.responses import Response
from daskfs.selectors.tables import encoded, lazily_encoded, raw_encoder
from daskfs.sources.in_memory import is_table

DataError = errors.DataError.about("shapes")


class FittedColumns(NamedTuple):
    """What a fit knows of the columns of its data, by which they are found in other rows."""

    n_features_in: int
    """Number of columns of X."""
    n_columns: int
    """Number of columns of the matrix: more than those of X if a table was encoded."""
    names: np.ndarray | None
    """Names of the columns of X, shape (n_features_in,)."""
    encoder: Any
    """Encoder of a table's columns, a `TableEncoder`; None if columns are numeric."""
    store_encoder: Mapping[str, Any] | None
    """After a fit to a store of a table: the encoding of its rows, as a document."""

    def encoder_for(self, X: Any) -> Any:
        """Return the encoder for X, from the table of the fit or the fit's store; None if X has features already."""
        if self.encoder is not None or self.store_encoder is None or not is_table(X):
            return self.encoder
        return raw_encoder(self.store_encoder, X)

    def encoded(self, X: Any, columns: np.ndarray) -> np.ndarray:
        """Return features of a table in memory, encoded like the table of the fit."""
        return encoded(self.encoder_for(X), X, columns, self.names)

    def lazy(self, X: Any, columns: np.ndarray) -> Any:
        """Return columns of a Dask collection without computing them; encoded if the table of the fit was.

        Raises
        ------
        DataError
            X is no matrix, or its columns differ from those of the fit.
        """
        if (encoder := self.encoder_for(X)) is not None:
            return lazily_encoded(encoder, X, columns, np.array(encoder.feature_names, dtype=object)[columns])
        if not hasattr(X, "columns"):
            if X.ndim != 2:
                remedy = "X.reshape(1, -1) for one row, X.reshape(-1, 1) for one column"
                raise DataError(f"expected two dimensions, found {X.ndim}", "X", remedy)
            check_width(X.shape[1], self.n_features_in)
            return X[:, columns]
        if self.names is None:
            check_width(len(X.columns), self.n_features_in)
            return X[[X.columns[j] for j in columns]]
        found = {str(name): name for name in reversed(list(X.columns))}
        missing = [name for name in self.names[columns] if name not in found]
        if missing:
            raise DataError(f"expected the column {missing[0]!r}, found none of this name", "X", "add the column")
        return X[[found[name] for name in self.names[columns]]]


def respond(predictor: LinearPredictor, response: Response, X: np.ndarray) -> Any:
    """Return the response to the linear predictor of each row of a block."""
    return response(predictor(X))


def lazily(function: Callable[[np.ndarray], Any], X: Any, of_row: np.ndarray, names: np.ndarray | None = None) -> Any:
    """Return a function of the rows of a Dask collection without computing it.

    Parameters
    ----------
    function : callable
        Of a block of rows.
    X : dask Array or DataFrame
    of_row : ndarray
        Its value for one row, of which only dtype and shape matter.
    names : ndarray, optional
        Names of its columns, for a frame: of a frame without them it is a Series, or an array if it has columns.
    """
    if hasattr(X, "columns") and (names is not None or of_row.ndim == 1):
        import pandas as pd

        meta = ("prediction", of_row.dtype) if names is None else pd.DataFrame(of_row[:0], columns=names)
        return X.map_partitions(_of_frame, function, names, meta=meta)
    X = (X.to_dask_array() if hasattr(X, "columns") else X).rechunk({1: -1})
    if of_row.ndim == 1:
        return X.map_blocks(function, dtype=of_row.dtype, drop_axis=1)
    return X.map_blocks(function, dtype=of_row.dtype, chunks=(X.chunks[0], (of_row.shape[1],)))


def _of_frame(frame: Any, function: Callable[[np.ndarray], Any], names: np.ndarray | None) -> Any:
    import pandas as pd

    values = function(frame.to_numpy(dtype=np.float64))
    if names is None:
        return pd.Series(values, index=frame.index, name="prediction")
    return pd.DataFrame(values, index=frame.index, columns=names)
