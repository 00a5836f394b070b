"""Some columns and products of two columns, computed for the rows of any data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from daskfs.feature_maps.base import MadeFeatures


class ProductFeatures(MadeFeatures):
    """Columns, and products of two columns, each column centred.

    Parameters
    ----------
    columns : ndarray of shape (n_columns,), int64
        Numbers of the features.
    pairs : ndarray of shape (n_columns, 2), int64
        The two columns that each feature multiplies; -1 as the second one: the feature is the first column itself.
    centre : ndarray of shape (n_features,), float64
        Subtracted from a column before it is multiplied.
    """

    kind = "products"

    def __init__(self, columns: np.ndarray, pairs: np.ndarray, centre: np.ndarray) -> None:
        self.columns, self._pairs = columns, pairs
        self.parents = np.unique(pairs[pairs >= 0])
        self._centre = centre[self.parents]

    def to_document(self) -> dict[str, Any]:
        """Return numbers, columns and centres."""
        return {
            "kind": self.kind,
            "columns": self.columns.tolist(),
            "pairs": self._pairs.tolist(),
            "centre": self._centre.tolist(),
        }

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> ProductFeatures:
        """Return the features described by `to_document`."""
        pairs = np.array(document["pairs"], np.int64).reshape(-1, 2)
        made = cls.__new__(cls)
        made.columns, made._pairs, made.parents = (
            np.array(document["columns"], np.int64),
            pairs,
            np.unique(pairs[pairs >= 0]),
        )
        made._centre = np.array(document["centre"], np.float64)
        return made

    def of(self, X: np.ndarray) -> np.ndarray:
        """Return the features for some rows: see `MadeFeatures.of`."""
        found = np.empty((len(X), len(self.columns)), np.float64 if X.dtype == np.float64 else np.float32)
        places = np.searchsorted(self.parents, self._pairs)
        for k, (i, j) in enumerate(places.tolist()):
            if self._pairs[k, 1] < 0:
                found[:, k] = X[:, i]
            else:
                found[:, k] = (X[:, i] - self._centre[i]) * (X[:, j] - self._centre[j])
        return found

    def names(self, of_parents: list[str]) -> list[str]:
        """Return names such as "age", "age^2" and "age * income"."""
        places = np.searchsorted(self.parents, self._pairs).tolist()
        return [
            of_parents[i] if pair[1] < 0 else (f"{of_parents[i]}^2" if i == j else f"{of_parents[i]} * {of_parents[j]}")
            for (i, j), pair in zip(places, self._pairs, strict=True)
        ]

    def parents_of(self) -> list[np.ndarray]:
        """Return the columns that each feature is computed from."""
        return [np.unique(pair[pair >= 0]) for pair in self._pairs]
