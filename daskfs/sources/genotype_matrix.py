"""Genotypes as files store them, two bits each, variant by variant; and a matrix that reads these files directly."""

from __future__ import annotations

import os
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple

import numpy as np

from daskfs import errors, interrupts
from daskfs.errors import did_you_mean
from daskfs.files import Location
from daskfs.kernels.genotypes import (
    COPIES_OF_BYTES,
    COUNTS_IN_BYTES,
    MISSING_CODE,
    MISSING_DOSAGE,
    code_totals,
    count_codes,
    decode,
    decode_columns,
    decode_columns_of,
    decode_dosages,
    products,
)
from daskfs.kernels.linear.gram_tiles import TILE
from daskfs.matrix.base import Matrix
from daskfs.matrix.blocks import Moments, Rows
from daskfs.matrix.names import Names, distinct

ConfigError = errors.ConfigError.about("genotypes")

GENOTYPES_IN_BYTE = 4
WINDOW_NBYTES = 2**24
"""Size of reads when a file is read sequentially."""
PIECE_NBYTES = 2**21
"""Packed genotypes decoded at a time when columns are read."""
TILE_COLUMNS = 64
"""Default number of variants that are read together."""
BRIDGED_NBYTES = 2**12
"""Gap of unused variants that is read with its neighbours: at most one page."""
DOSAGE_STEPS = 2**14
"""Steps per copy in which dosages between whole numbers are kept, as in PLINK 2."""


class Alleles(NamedTuple):
    """Alleles of variants as texts: "" or "0" if unknown."""

    counted: Sequence[str]
    other: Sequence[str]


class Genotypes(ABC):
    """Variants x samples, available as two bits per genotype, see `daskfs.kernels.genotypes`."""

    are_whole: ClassVar[bool] = True
    """Whether all dosages are whole numbers."""
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

    def count(self, packed: np.ndarray, is_used: np.ndarray, has_missing: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the numbers of missing genotypes and of copies of the first allele, of each variant.

        Parameters
        ----------
        packed : ndarray
            All samples of some variants, from `read`.
        is_used : ndarray of shape (n_samples,), bool
            The samples that are counted.
        has_missing : ndarray of shape (n_samples,), bool
            Set for counted samples with a missing genotype.
        """
        counts, mask = np.empty((len(packed), 4), np.int64), np.packbits(np.repeat(is_used, 2), bitorder="little")
        count_codes(packed, mask, np.count_nonzero(is_used), COUNTS_IN_BYTES, counts, has_missing)
        return counts[:, MISSING_CODE], 2 * counts[:, 0] + counts[:, 2]

    def decode(self, packed: np.ndarray, samples: np.ndarray, values: np.ndarray, out: np.ndarray) -> None:
        """Fill `out`, of shape (n_rows, n_variants), with the values of some samples.

        Parameters
        ----------
        packed : ndarray
            Some variants, from `read`.
        samples : ndarray of shape (n_rows,), int64
            Relative to the first sample in `packed`.
        values : ndarray of shape (n_variants, 4)
            Value of each code.
        """
        by_columns = out.T
        if not by_columns.flags.c_contiguous:
            decode(packed, samples, values, out)
        elif len(samples) == self.n_samples and bool((np.diff(samples) == 1).all()):
            decode_columns(packed, values, by_columns)
        else:
            decode_columns_of(packed, samples, values, by_columns)

    def prepare(self) -> None:  # noqa: B027 - most files are read as they are
        """Convert the files, if that makes reading them again faster."""

    @property
    def whole(self) -> Genotypes:
        """All variants of the files."""
        return self

    @property
    def places(self) -> np.ndarray:
        """Numbers of the variants in the files, ascending."""
        return np.arange(self.n_variants)

    @abstractmethod
    def read_ids(self) -> np.ndarray:
        """Return the ids of the variants, as the files have them: "." if unknown."""

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
        self.prepare()
        for first, last in pairwise(self.bounds(0, self.n_variants, WINDOW_NBYTES)):
            interrupts.check()
            yield slice(first, last), self.read(first, last, 0, self.stride)

    def bounds(self, first: int, last: int, nbytes: int) -> list[int]:
        """Return bounds that cut variants into pieces of about `nbytes` bytes, aligned to chunks if possible."""
        step = max(1, nbytes // self.stride)
        step = step - step % self.chunk_variants if step >= self.chunk_variants else step
        return [first, *range(first - first % step + step, last, step), last]


class Dosages(Genotypes):
    """Variants x samples, as dosages between 0 and 2 of the first allele.

    `read` returns uint16 of shape (last - first, 4 * (stop - start)): steps of 1 / `DOSAGE_STEPS`, or `MISSING_DOSAGE`.
    """

    are_whole = False

    @property
    def stride(self) -> int:
        """Bytes per variant."""
        return 2 * GENOTYPES_IN_BYTE * super().stride

    def count(self, packed: np.ndarray, is_used: np.ndarray, has_missing: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the numbers of missing dosages and of copies; see `Genotypes.count`."""
        used = packed[:, np.flatnonzero(is_used)]
        is_missing = used == MISSING_DOSAGE
        has_missing[is_used] |= is_missing.any(axis=0)
        return is_missing.sum(axis=1), np.where(is_missing, 0, used).sum(axis=1, dtype=np.int64) / DOSAGE_STEPS

    def decode(self, packed: np.ndarray, samples: np.ndarray, values: np.ndarray, out: np.ndarray) -> None:
        """Fill `out` with the values of some samples; see `Genotypes.decode`."""
        decode_dosages(packed, samples, values, DOSAGE_STEPS, out.T)


class Chosen(Genotypes):
    """Some variants of genotypes; the others are not read, but for gaps of less than a page.

    Parameters
    ----------
    whole : Genotypes
    places : ndarray of shape (n_variants,), int64
        Numbers of the variants, ascending.
    """

    def __init__(self, whole: Genotypes, places: np.ndarray) -> None:
        self._whole, self._places = whole, places
        self.n_variants, self.n_samples, self.place = len(places), whole.n_samples, whole.place
        self.ploidy, self.chunk_variants = whole.ploidy, whole.chunk_variants
        self.are_whole = whole.are_whole  # type: ignore[misc]

    @classmethod
    def of(cls, one: Genotypes, is_chosen: np.ndarray) -> Genotypes:
        """Return the chosen variants of genotypes."""
        return one if is_chosen.all() else cls(one.whole, one.places[is_chosen])

    @property
    def whole(self) -> Genotypes:
        """All variants of the files."""
        return self._whole

    @property
    def places(self) -> np.ndarray:
        """Numbers of the variants in the files, ascending."""
        return self._places

    @property
    def stride(self) -> int:
        """Bytes per variant."""
        return self._whole.stride

    def check_size(self) -> None:
        """Raise an error if a file has an unexpected length."""
        self._whole.check_size()

    def check_unchanged(self) -> None:
        """Raise an error if a file is no longer the one that was opened."""
        self._whole.check_unchanged()

    def prepare(self) -> None:
        """Convert the files, if that makes reading them again faster."""
        self._whole.prepare()

    def read(self, first: int, last: int, start: int, stop: int) -> np.ndarray:
        """Return packed genotypes; see `Genotypes.read`."""
        places = self._places[first:last]
        bridged = max(1, BRIDGED_NBYTES // self.stride) if (stop - start) * GENOTYPES_IN_BYTE >= self.n_samples else 1
        pieces = (places * self.stride) // PIECE_NBYTES  # what is read at once is bounded, gaps included
        ends = np.flatnonzero((np.diff(places) > bridged) | (np.diff(pieces) > 0)) + 1
        runs = [places[a:b] for a, b in pairwise([0, *ends.tolist(), len(places)])] if len(places) else []
        found = [self._whole.read(int(run[0]), int(run[-1]) + 1, start, stop)[run - run[0]] for run in runs]
        return np.concatenate(found) if found else self._whole.read(0, 0, start, stop)

    def count(self, packed: np.ndarray, is_used: np.ndarray, has_missing: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the numbers of missing genotypes and of copies; see `Genotypes.count`."""
        return self._whole.count(packed, is_used, has_missing)

    def decode(self, packed: np.ndarray, samples: np.ndarray, values: np.ndarray, out: np.ndarray) -> None:
        """Fill `out` with the values of some samples; see `Genotypes.decode`."""
        self._whole.decode(packed, samples, values, out)

    def read_ids(self) -> np.ndarray:
        """Return the ids of the variants, as the files have them."""
        return self._whole.read_ids()[self._places]

    def read_names(self) -> list[str]:
        """Return the names of the variants."""
        names = self._whole.read_names()
        return [names[j] for j in self._places.tolist()]

    def read_variants(self) -> dict[str, np.ndarray]:
        """Return the known properties of the variants; see `Genotypes.read_variants`."""
        return {name: values[self._places] for name, values in self._whole.read_variants().items()}

    def remarks(self) -> list[str]:
        """Return notes on the genotypes."""
        return self._whole.remarks()


def names_of(sets: Sequence[Genotypes]) -> list[str]:
    """Return the names of the variants of sets, which do not depend on what is left out of them."""
    names, found, start = distinct([name for one in sets for name in one.whole.read_names()]), list[str](), 0
    for one in sets:
        found += [names[start + j] for j in one.places.tolist()]
        start += one.whole.n_variants
    return found


class GenotypeMatrix(Matrix):
    """Samples x variants, read directly from genotype files: no store is needed.

    Parameters
    ----------
    sets : sequence of Genotypes
        Their variants are concatenated.
    values : ndarray of shape (n_variants, 4)
        Value of each code of a variant, linear in the copies of an allele, and any for a missing genotype; its dtype
        becomes the dtype of the matrix.
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
        among = samples - low * GENOTYPES_IN_BYTE
        whole = -(-one.n_samples // GENOTYPES_IN_BYTE)
        for begin, end in pairwise(one.bounds(first, last, max(1, PIECE_NBYTES * whole // (high - low)))):
            interrupts.check()
            packed, part = one.read(begin, end, low, high), slice(begin - first, end - first)
            one.decode(packed, among, values[part], out[:, part])

    def column_products(self, columns: slice, vectors: np.ndarray) -> np.ndarray:
        """Return ``vectors @ X[:, columns]``: of one vector from two-bit codes, else with each decoded once for all."""
        if not len(vectors):
            return np.empty((0, len(range(*columns.indices(self.shape[1])))))
        return np.stack(self._products([self] * len(vectors), vectors, columns))

    def column_moments(self, columns: slice, weight: np.ndarray) -> Moments:
        """Return the moments of columns, of two-bit codes without decoding them."""
        weights = np.atleast_2d(weight)
        every = zip(*self._moments([self] * len(weights), weights, columns), strict=True)
        return Moments(*(np.stack(part).reshape(*weight.shape[:-1], -1) for part in every))

    @cached_property
    def read_together(self) -> Hashable:
        """The files and the variants that are used."""
        return tuple((str(one.place), *one.places.shape, zlib.crc32(one.places.tobytes())) for one in self._sets)

    def products_of_each(self, matrices: Sequence[Matrix], vectors: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Return the products of all columns of each matrix, of the same files, with a vector over its rows."""
        return self._products(matrices, vectors)

    def moments_of_each(self, matrices: Sequence[Matrix], weights: Sequence[np.ndarray]) -> list[Moments]:
        """Return the moments of all columns of each matrix, of the same files, for weights of its rows."""
        return self._moments(matrices, weights)

    def _products(self, matrices: Sequence[Any], vectors: Any, columns: slice = slice(None)) -> list[np.ndarray]:
        found = [[vector @ one._covariates[:, columns]] for one, vector in zip(matrices, vectors, strict=True)]
        by_sample = np.zeros((-(-len(vectors) // TILE) * TILE, GENOTYPES_IN_BYTE * self._n_bytes))
        for matrix, vector, out in zip(matrices, vectors, by_sample, strict=False):
            out[matrix._samples] = vector
        by_place = np.ascontiguousarray(by_sample[0].reshape(-1, GENOTYPES_IN_BYTE).T)
        for one, packed, variants in self._pieces(columns):
            of_each: Sequence[np.ndarray]
            if not one.are_whole:
                dosages = _of_each(matrices, lambda matrix: matrix._decoded(one, packed, variants))  # noqa: B023
                of_each = [some @ vector for some, vector in zip(dosages, vectors, strict=True)]
            elif len(vectors) == 1:
                of_each = [np.einsum("jl,jl->j", matrices[0]._values[variants], _totals(packed, by_place))]
            else:
                of_each = _of_copies(packed, [matrix._values[variants] for matrix in matrices], by_sample)
            for parts, products_of_one in zip(found, of_each, strict=True):
                parts.append(products_of_one)
        return [np.concatenate(parts) for parts in found]

    def _moments(self, matrices: Sequence[Any], weights: Any, columns: slice = slice(None)) -> list[Moments]:
        found, by_place = [], []
        for matrix, weight in zip(matrices, weights, strict=True):
            covariates = matrix._covariates[:, columns].T
            found.append([_moments(covariates, np.broadcast_to(weight, covariates.shape))])
            placed = np.zeros((GENOTYPES_IN_BYTE, self._n_bytes))
            placed[matrix._samples % GENOTYPES_IN_BYTE, matrix._samples // GENOTYPES_IN_BYTE] = weight
            by_place.append(placed)
        for one, packed, variants in self._pieces(columns):
            if one.are_whole:
                for matrix, placed, parts in zip(matrices, by_place, found, strict=True):
                    parts.append(_moments(matrix._values[variants], _totals(packed, placed)))
            else:
                dosages = _of_each(matrices, lambda matrix: matrix._decoded(one, packed, variants))  # noqa: B023
                for some, weight, parts in zip(dosages, weights, found, strict=True):
                    parts.append(_moments(some, np.broadcast_to(weight, some.shape)))
        return [Moments(*map(np.concatenate, zip(*parts, strict=True))) for parts in found]

    def _decoded(self, one: Genotypes, packed: np.ndarray, variants: slice) -> np.ndarray:
        """Return the dosages of variants, of shape (n_variants, n_samples)."""
        dosages = np.empty((len(packed), len(self._samples)), self.dtype)
        one.decode(packed, self._samples, self._values[variants], dosages.T)
        return dosages

    @property
    def _n_bytes(self) -> int:
        """Bytes of a variant with two bits per genotype."""
        return -(-self._sets[0].n_samples // GENOTYPES_IN_BYTE)

    def _pieces(self, columns: slice) -> Iterator[tuple[Genotypes, np.ndarray, slice]]:
        """Yield consecutive variants: their set, the packed genotypes, and their numbers among all sets."""
        first, last, _ = columns.indices(self.shape[1])
        n_given = column = self._covariates.shape[1]
        for one in self._sets:
            start, stop = max(first - column, 0), min(last - column, one.n_variants)
            offset = column - n_given
            column += one.n_variants
            for begin, end in pairwise(one.bounds(start, stop, PIECE_NBYTES)) if start < stop else ():
                interrupts.check()
                yield one, one.read(begin, end, 0, self._n_bytes), slice(offset + begin, offset + end)

    def read_target(self, rows: Rows = slice(None)) -> np.ndarray:
        """Return y[rows]."""
        return self._y[rows]

    @cached_property
    def names(self) -> Names:  # type: ignore[override]
        """Names of covariates and variants; read from the files again after unpickling."""
        return Names(self.shape[1], self._names_again if self._given is None else self._given)

    def _names_again(self) -> np.ndarray:
        return np.array([*self._first_names, *names_of(self._sets)], dtype=object)

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

    def forget(self) -> None:
        """Release what pickling leaves out; names can be read again."""
        vars(self).pop("names", None)
        self._given, self._labels, self._annotations = None, {}, {}

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


def _of_each(matrices: Sequence[Any], function: Callable[[Any], np.ndarray]) -> list[np.ndarray]:
    """Return what a function returns for each matrix, which is called once for a matrix that occurs several times."""
    known: dict[int, np.ndarray] = {}
    for matrix in matrices:
        if id(matrix) not in known:
            known[id(matrix)] = function(matrix)
    return [known[id(matrix)] for matrix in matrices]


def _totals(packed: np.ndarray, by_place: np.ndarray) -> np.ndarray:
    """Return the totals of a vector over the samples of each code, of shape (n_variants, 4)."""
    totals = np.empty((len(packed), 4))
    code_totals(packed, by_place, totals)
    return totals


def _of_copies(packed: np.ndarray, values: Sequence[np.ndarray], by_sample: np.ndarray) -> list[np.ndarray]:
    """Return the products of variants with vectors, each with values of its own that are linear in the copies."""
    shape = (-(-len(packed) // TILE) * TILE, len(by_sample))
    copies, missing = np.zeros(shape), np.zeros(shape)
    products(packed, COPIES_OF_BYTES, by_sample, copies, missing)
    found = []
    for k, of_codes in enumerate(values):
        none, two = of_codes[:, 3].astype(np.float64), of_codes[:, 0].astype(np.float64)
        of_copies, of_missing = copies[: len(packed), k], missing[: len(packed), k]
        more = (of_codes[:, MISSING_CODE] - none) * of_missing
        found.append(none * by_sample[k].sum() + 0.5 * (two - none) * of_copies + more)
    return found


def _moments(values: np.ndarray, weight: np.ndarray) -> Moments:
    """Return the moments of columns from values and their weights, both of shape (n_columns, n_values)."""
    values, is_there = values.astype(np.float64), weight > 0.0
    least, most = (of(values, axis=1, where=is_there, initial=at) for of, at in ((np.min, np.inf), (np.max, -np.inf)))
    share = weight / weight.sum(axis=1, keepdims=True)
    mean = (share * values).sum(axis=1)
    std = np.sqrt((share * (values - mean[:, None]) ** 2).sum(axis=1))
    return Moments(mean, np.where(least < most, std, 0.0), least, most)


def fill(file: int, array: np.ndarray, offset: int, cut: Callable[[], Exception]) -> None:
    """Fill an array with a file's bytes from an offset; raise what `cut` returns if the file ends too early."""
    view = array.reshape(-1).data
    while len(view):
        n_read = os.preadv(file, [view], offset)
        if n_read == 0:
            raise cut()
        view, offset = view[n_read:], offset + n_read
