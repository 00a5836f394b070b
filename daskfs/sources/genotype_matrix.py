"""Genotypes as files store them, two bits each, variant by variant; and a matrix that reads these files directly."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from daskfs import interrupts
from daskfs.errors import ConfigError, did_you_mean
from daskfs.files import Location
from daskfs.kernels.genotypes import decode, decode_columns, decode_columns_of
from daskfs.matrix.base import Matrix
from daskfs.matrix.blocks import Rows
from daskfs.matrix.names import Names, distinct

GENOTYPES_IN_BYTE = 4
WINDOW_NBYTES = 2**24
"""Size of reads when a file is read sequentially."""
PIECE_NBYTES = 2**21
"""Packed genotypes decoded at a time when columns are read."""
TILE_COLUMNS = 64
"""Default number of variants that are read together."""


class Alleles(NamedTuple):
    """Alleles of variants as texts: "" or "0" if unknown."""

    counted: Sequence[str]
    other: Sequence[str]


class Genotypes(ABC):
    """Variants x samples, available as two bits per genotype, see `daskfs.kernels.genotypes`."""

    n_variants: int
    n_samples: int
    place: Location
    """The file or folder."""
    ploidy: int = 2
    """Maximum dosage."""
    chunk_variants: int = 1
    """Number of variants that can only be read together."""

    @property
    def stride(self) -> int:
        """Bytes per variant."""
        return -(-self.n_samples // GENOTYPES_IN_BYTE)

    @abstractmethod
    def check_size(self) -> None:
        """Raise an error if a file has an unexpected length."""

    @abstractmethod
    def check_unchanged(self) -> None:
        """Raise an error if a file is no longer the one that was opened."""

    @abstractmethod
    def read(self, first: int, last: int, start: int, stop: int) -> np.ndarray:
        """Return packed genotypes, uint8 of shape (last - first, stop - start).

        Parameters
        ----------
        first, last : int
            Range of variants.
        start, stop : int
            Range of bytes in each variant; a byte holds four samples.
        """

    @abstractmethod
    def read_names(self) -> list[str]:
        """Return the names of the variants."""

    @abstractmethod
    def read_variants(self) -> dict[str, np.ndarray]:
        """Return the known properties of the variants.

        Returns
        -------
        dict of str to ndarray of shape (n_variants,)
            "chromosome", "first" and "second" (alleles), texts, and "position", int64, -1 if unknown.
        """

    def remarks(self) -> list[str]:
        """Return notes on the genotypes, after `windows` has read them all."""
        return []

    def windows(self) -> Iterator[tuple[slice, np.ndarray]]:
        """Yield consecutive variants and their packed genotypes, uint8 of shape (n_variants, stride)."""
        for first, last in pairwise(self.bounds(0, self.n_variants, WINDOW_NBYTES)):
            interrupts.check()
            yield slice(first, last), self.read(first, last, 0, self.stride)

    def bounds(self, first: int, last: int, nbytes: int) -> list[int]:
        """Return bounds that cut variants into pieces of about `nbytes` bytes, aligned to chunks if possible."""
        step = max(1, nbytes // self.stride)
        step = step - step % self.chunk_variants if step >= self.chunk_variants else step
        return [first, *range(first - first % step + step, last, step), last]


class GenotypeMatrix(Matrix):
    """Samples x variants, read directly from genotype files: no store is needed.

    Parameters
    ----------
    sets : sequence of Genotypes
        Their variants are concatenated.
    values : ndarray of shape (n_variants, 4)
        Value of each code of a variant; its dtype becomes the dtype of the matrix.
    samples : ndarray of shape (n_samples,), int64
        The samples that become rows, ascending, by their numbers in the files.
    y : ndarray of shape (n_samples,)
    covariates : ndarray of shape (n_samples, n_covariates)
        The first columns.
    names : sequence of str
    labels : mapping of str to ndarray of shape (n_samples,)
    classes : tuple of str, optional
        Texts that the target's codes stand for.
    digest : str
        Identity of the content.
    notes : list of str
    annotations : mapping of str to ndarray of shape (n_columns,)
        Not available after pickling.

    Notes
    -----
    In a .bed file, all samples of a variant are contiguous, so columns are read as consecutive bytes and decoded. Rows
    are gathered from all variants. The pickled matrix consists of the paths, the values of the codes and the target:
    the process that unpickles it must have access to the files.
    """

    def __init__(
        self,
        sets: Sequence[Genotypes],
        values: np.ndarray,
        samples: np.ndarray,
        y: np.ndarray,
        covariates: np.ndarray,
        names: Sequence[str],
        labels: Mapping[str, np.ndarray],
        classes: Sequence[str] | None,
        digest: str,
        notes: Sequence[str],
        annotations: Mapping[str, np.ndarray] = MappingProxyType({}),
    ) -> None:
        self._sets, self._values, self._samples, self._y = list(sets), values, samples, y
        self._covariates = np.ascontiguousarray(covariates, dtype=values.dtype)
        self._first_names = [str(name) for name in names[: covariates.shape[1]]]
        self._given: np.ndarray | None = np.array(names, dtype=object)
        self._labels: Mapping[str, np.ndarray] = labels
        self._annotations: Mapping[str, np.ndarray] = annotations
        self._classes = None if classes is None else tuple(classes)
        self.digest, self.notes = digest, list(notes)
        self.label_names = tuple(labels)
        self.shape = (len(samples), covariates.shape[1] + sum(one.n_variants for one in sets))
        self.dtype = values.dtype

    def read(self, rows: Rows, columns: Rows = slice(None), out: np.ndarray | None = None) -> np.ndarray:
        """Return the dense block X[rows][:, columns].

        Parameters
        ----------
        rows, columns : slice, int64 array (any order) or boolean mask
        out : ndarray of shape (n_rows, n_columns), optional
            Filled and returned.

        Raises
        ------
        SourceError
            A file was truncated, or cannot be decoded.
        """
        samples = self._samples[rows]
        chosen = np.arange(self.shape[1])[columns]
        if out is None:
            out = np.empty((len(samples), len(chosen)), self.dtype)
        cuts = [0, *(np.flatnonzero(np.diff(chosen) != 1) + 1).tolist(), len(chosen)] if len(chosen) else []
        for begin, end in pairwise(cuts):
            first, last = int(chosen[begin]), int(chosen[end - 1]) + 1
            self._read_run(samples, rows, first, last, out[:, begin:end])
        return out

    def _read_run(self, samples: np.ndarray, rows: Rows, first: int, last: int, out: np.ndarray) -> None:
        """Read consecutive columns."""
        n_given = self._covariates.shape[1]
        if first < n_given:
            stop = min(last, n_given)
            out[:, : stop - first] = self._covariates[rows, first:stop]
        column = n_given
        for one in self._sets:
            start, stop = max(first, column), min(last, column + one.n_variants)
            if start < stop:
                part = out[:, start - first : stop - first]
                self._read_set(one, samples, start - column, stop - column, self._values[start - n_given :], part)
            column += one.n_variants

    def _read_set(
        self, one: Genotypes, samples: np.ndarray, first: int, last: int, values: np.ndarray, out: np.ndarray
    ) -> None:
        """Read consecutive variants of a set; `values` begins with the first of them."""
        if not len(samples):
            return
        low, high = int(samples.min()) // GENOTYPES_IN_BYTE, int(samples.max()) // GENOTYPES_IN_BYTE + 1
        are_all = len(samples) == one.n_samples and bool((np.diff(samples) == 1).all())
        among = samples - low * GENOTYPES_IN_BYTE
        for begin, end in pairwise(one.bounds(first, last, max(1, PIECE_NBYTES * one.stride // (high - low)))):
            interrupts.check()
            packed, part = one.read(begin, end, low, high), slice(begin - first, end - first)
            by_columns = out[:, part].T
            if not by_columns.flags.c_contiguous:
                decode(packed, among, values[part], out[:, part])
            elif are_all:
                decode_columns(packed, values[part], by_columns)
            else:
                decode_columns_of(packed, among, values[part], by_columns)

    def read_target(self, rows: Rows = slice(None)) -> np.ndarray:
        """Return y[rows]."""
        return self._y[rows]

    @cached_property
    def names(self) -> Names:  # type: ignore[override]
        """Names of covariates and variants; read from the files again after unpickling."""
        return Names(self.shape[1], self._names_again if self._given is None else self._given)

    def _names_again(self) -> np.ndarray:
        names = distinct([name for one in self._sets for name in one.read_names()])
        return np.array([*self._first_names, *names], dtype=object)

    @property
    def tile_shape(self) -> tuple[int, int]:
        """All rows of a few columns."""
        chunk = max(one.chunk_variants for one in self._sets)
        return (self.shape[0], min(self.shape[1], max(TILE_COLUMNS, chunk)))

    @property
    def identity(self) -> str:
        """Digest of the content."""
        return self.digest

    @property
    def source_rows(self) -> np.ndarray:
        """Numbers of the samples in the files."""
        return self._samples

    @property
    def target_classes(self) -> tuple[str, ...] | None:
        """Texts that the target's codes 0, 1, ... stand for."""
        return self._classes

    def labels(self, name: str) -> np.ndarray:
        """Return the labels of the samples."""
        if name not in self._labels:
            problem = f"no column {name!r}{did_you_mean(name, self._labels)}; there are: {', '.join(self._labels)}"
            raise ConfigError(problem, "split.by", "split by random, by order or by one of these")
        return self._labels[name]

    def annotations(self, columns: np.ndarray) -> dict[str, np.ndarray]:
        """Return chromosome, position, alleles and frequency of some columns; see `Matrix.annotations`."""
        return {name: values[columns] for name, values in self._annotations.items()}

    def exists(self) -> bool:
        """Return whether all files are still there."""
        return all(one.place.exists() for one in self._sets)

    def verify_unchanged(self) -> None:
        """Raise a `SourceError` if a file is no longer the one that was opened."""
        for one in self._sets:
            one.check_unchanged()

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without what only the creating process needs, or what can be read again."""
        state = {name: value for name, value in vars(self).items() if name != "names"}
        return state | {"_given": None, "_labels": {}, "_annotations": {}}

    def __repr__(self) -> str:
        return f"<GenotypeMatrix: {self.shape[0]:,} x {self.shape[1]:,} {self.dtype}>"


def fill(file: int, array: np.ndarray, offset: int, cut: Callable[[], Exception]) -> None:
    """Fill an array with a file's bytes from an offset; raise what `cut` returns if the file ends too early."""
    view = array.reshape(-1).data
    while len(view):
        n_read = os.preadv(file, [view], offset)
        if n_read == 0:
            raise cut()
        view, offset = view[n_read:], offset + n_read
