"""Columns that arrive over time: what `partial_fit` keeps between calls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from daskfs.errors import DataError
from daskfs.matrix.arrays import ArrayMatrix
from daskfs.matrix.base import Matrix
from daskfs.matrix.blocks import Rows
from daskfs.matrix.names import Names
from daskfs.selectors.online_substitution.columns import read_columns
from daskfs.selectors.online_substitution.stream import SubstitutionRun


def coded(y: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return the labels of a target, ascending, and each row's number among them."""
    labels, codes = np.unique(np.asarray(y), return_inverse=True)
    return labels, codes.astype(np.float64)


class ArrivedColumns(Matrix):
    """Stands for columns that came and went: their shape and names."""

    def __init__(self, n_samples: int, dtype: np.dtype) -> None:
        self.shape, self.dtype = (n_samples, 0), dtype
        self._names = Names(0)

    @property
    def names(self) -> Names:
        """Names of the columns so far."""
        return self._names

    def add(self, n_columns: int, names: Names) -> None:
        """Note that columns arrived; `names` are those of all."""
        self.shape, self._names = (self.shape[0], self.shape[1] + n_columns), names

    def read(self, rows: Rows, columns: Rows = slice(None), out: np.ndarray | None = None) -> np.ndarray:
        """Refuse: the columns are gone."""
        raise DataError("columns given to partial_fit are not kept: they cannot be read again", "partial_fit", "fit(X)")


@dataclass
class Arrivals:
    """The columns presented so far, and the run that took them."""

    run: SubstitutionRun
    matrix: ArrivedColumns
    y: np.ndarray
    names: list[str] = field(default_factory=list)
    are_named: bool = False
    """Whether the user named any."""

    def take(self, X: Any, names: Sequence[str] | None, always: np.ndarray) -> None:
        """Present the columns of a block.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_columns)
        names : sequence of str, optional
        always : ndarray, int64
            Places in this block of columns that are never dropped.

        Raises
        ------
        DataError
            Another number of rows, names that stand twice, values that are not finite.
        """
        block = ArrayMatrix(X, feature_names=names)
        n_samples = len(self.y)
        if block.shape[0] != n_samples:
            raise DataError(
                f"expected {n_samples} rows as in the first block, found {block.shape[0]}",
                "partial_fit",
                "give the same rows in the same order: partial_fit takes columns",
            )
        first = len(self.names)
        self._name(block, names)
        self._present(block, always, first)
        if len(always):
            self.run.fix(always + first)
        self._present(block, np.setdiff1d(np.arange(block.shape[1], dtype=np.int64), always), first)

    def _name(self, block: ArrayMatrix, names: Sequence[str] | None) -> None:
        first = len(self.names)
        new = [f"x{first + j}" for j in range(block.shape[1])] if names is None else [str(name) for name in names]
        seen = set(self.names)
        for name in new:
            if name in seen:
                raise DataError(f"column {name!r} stands twice", "names", "give each column its own name")
            seen.add(name)
        self.are_named |= names is not None
        self.names += new
        given = np.array(self.names, dtype=object) if self.are_named else None
        self.matrix.add(len(new), Names(len(self.names), given))

    def _present(self, block: ArrayMatrix, places: np.ndarray, first: int) -> None:
        run = self.run
        for start in range(0, len(places), run.chapter):
            columns = read_columns(block, places[start : start + run.chapter], run.settings, run.weight)
            columns.ids[...] += first
            run.present(columns)
