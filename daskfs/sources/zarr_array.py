"""Zarr arrays made by other programs: a matrix, and optionally a target."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from daskfs import errors, interrupts
from daskfs.documents import PATH
from daskfs.files import Location, location
from daskfs.matrix.names import Names
from daskfs.sources.base import Source, SourceBlock
from daskfs.sources.files import digest_of, files_below, fingerprint, is_path, same_stamps
from daskfs.sources.options import SourceOptions
from daskfs.store.foreign import open_foreign_array

DataError = errors.DataError.about("arrays")


class ZarrOptions(SourceOptions):
    """A two-dimensional Zarr array written by another program."""

    path: Annotated[str, PATH]
    y: Annotated[str, PATH] = Field(description="path of the Zarr array with the target")
    target: str | None = Field(default=None, description="name of the target")


class ZarrSource(Source):
    """A two-dimensional Zarr array of format 2 or 3.

    Parameters
    ----------
    path : path-like
        The array; for an array in a group, ``group.zarr/X``.
    y : path-like or array-like of shape (n_samples,), optional
        The target, an array or the path of another Zarr array.
    names : sequence of str, optional
        Names of the features.
    target : str
        Name of the target.

    Raises
    ------
    SourceError
        The path does not exist, or is not a Zarr array.
    DataError
        Not two-dimensional, not numeric, or lengths that differ.
    """

    kind, options = "zarr", ZarrOptions

    def __init__(
        self,
        path: str | os.PathLike[str],
        y: Any = None,
        names: Sequence[str] | None = None,
        target: str = "target",
    ) -> None:
        self.path = location(path)
        self._y_path = location(y) if is_path(y) else None
        self._array = open_foreign_array(self.path)
        if self._array.ndim != 2 or np.dtype(self._array.dtype).kind not in "buif":
            raise DataError(
                f"expected a matrix of numbers, found shape {self._array.shape} of {self._array.dtype}", str(path)
            )
        values = open_foreign_array(self._y_path)[...] if self._y_path is not None else y
        self._y = None if values is None else np.asarray(values, dtype=np.float64)
        n_samples, n_features = self._array.shape
        if self._y is not None and len(self._y) != n_samples:
            raise DataError(
                f"expected {n_samples} targets, one per row of X, found {len(self._y)}", str(self._y_path or "y")
            )
        self.n_samples: int = int(n_samples)
        self.feature_names = [str(name) for name in (Names(n_features) if names is None else names)]
        if len(self.feature_names) != n_features:
            raise DataError(f"expected {n_features} feature names, found {len(self.feature_names)}", "names")
        target = target or "target"
        if self._y is not None:
            self.target_names = [target] if self._y.ndim == 1 else [f"{target}{k}" for k in range(self._y.shape[1])]
        self.notes = []

    def describe(self) -> dict[str, Any]:
        """Return path, shape and the files with size, time and SHA-256."""
        return {
            "kind": self.kind,
            "description": str(self.path),
            "shape": [int(length) for length in self._array.shape],
            "dtype": str(self._array.dtype),
            "files": self._prints,
        }

    @property
    def _files(self) -> list[Location]:
        folders = [self.path] if self._y_path is None else [self.path, self._y_path]
        return [file for folder in folders for file in files_below(folder)]

    @cached_property
    def _prints(self) -> list[dict[str, Any]]:
        return [fingerprint(file) for file in self._files]

    def digest(self) -> str:
        """Return the digest of the bytes of all chunks."""
        prints = self._prints
        if self._y is not None and self._y_path is None:
            prints = [*prints, {"sha256": self._y.tobytes().hex()}]
        return digest_of(prints)

    def is_unchanged(self, description: dict[str, Any], digest: str) -> bool:
        """Return whether sizes and times are equal, or the digests if they differ."""
        beside = self._y is not None and self._y_path is None
        return (not beside and same_stamps(self._files, description.get("files", []))) or self.digest() == digest

    @property
    def encoding(self) -> dict[str, Any]:
        """Names of features and targets."""
        return {"features": self.feature_names, "targets": self.target_names}

    def row_blocks(self, block_rows: int, dtype: np.dtype | type = np.float64) -> Iterator[SourceBlock]:
        """Yield consecutive rows, whole chunks at a time if these fit into a block."""
        chunk_rows = int(self._array.chunks[0])
        step = block_rows - block_rows % chunk_rows if block_rows >= chunk_rows else block_rows
        for start in range(0, self.n_samples, step):
            stop = min(start + step, self.n_samples)
            y = None if self._y is None else self._y[start:stop]
            yield SourceBlock(start, np.asarray(interrupts.call_aside(self._array.__getitem__, slice(start, stop))), y)
