"""The columns of a matrix and products of two of them, scored where the data are without being stored.

Products of dense columns are computed tile by tile for pairs of column ranges (`kernels.fgm.pairs_dense`), those of
sparse columns from the rows in which both are nonzero (`kernels.fgm.pairs_sparse`). If columns are centred, so are the
factors of a product. Products are standardised like stored columns. With weights w that add up to W, and u = x -
centre:

    z_i = u_ij u_ik,   variance = Σ w z² / W - (Σ w z / W)²,   score = pair · Σ_c (Σ_i v_ci z_i)² / (variance + prior)
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from daskfs.feature_maps.base import Given, ImplicitMatrix
from daskfs.feature_maps.product_features import ProductFeatures
from daskfs.feature_maps.product_scaling import ProductScaling, Weights
from daskfs.feature_maps.sparse_ranges import READ_ENTRIES, SparseRange
from daskfs.kernels.fgm.pairs import Largest, Wanted, in_order, n_implicit, new_largest, offer_all, parents_of
from daskfs.kernels.fgm.pairs_dense import add_duals, add_moments, offer_pairs, spreads_of, tiled
from daskfs.kernels.fgm.pairs_sparse import (
    LESSER,
    PRODUCT,
    SIGNED,
    Bounds,
    bounds_of,
    from_end,
    offer_sparse_pairs,
)  # fmt: skip
from daskfs.kernels.fgm.scores import GRANULE, scores_of, sparse_scores
from daskfs.kernels.linear.gram_tiles import BAND_ROWS
from daskfs.matrix.base import Matrix

WIDTH = 512
"""Number of dense columns that are multiplied with as many others."""
PIECE_NBYTES = 8 << 20
"""Bytes of rows of these columns, read at a time."""
SPREADS_NBYTES = 64 << 20
"""Bytes of the products' variances that are kept from pass to pass. Further variances are recomputed."""
READ_NBYTES = 40
"""Bytes of an entry of a sparse store while it is read."""
CAUTION = 20.0
"""Divisor of FGM's default C: with so many candidates, a large C would fit noise in what is left of the loss."""
SENT_NBYTES = 72
"""Bytes per column: centres, scales and sets."""
COLUMN_NBYTES = 136
"""Bytes per column in two sparse ranges: start and order of the entries, and bounds."""
NARROW = 32
"""Width of a range below which rows are read in shorter pieces."""
LONG_SHARE = 0.02
"""Share of the sparse columns that is scored first. The scores found exclude most of the others."""


class Sizes(NamedTuple):
    """How the columns are divided; see `cut`."""

    width: int
    """Number of columns of a range."""
    piece_rows: int
    """Number of rows of dense columns read at a time."""
    keeps_spreads: bool
    terms: dict[str, int]
    """Bytes that a task uses."""


def cut(
    n_samples: int, n_features: int, itemsize: int, n_entries: int | None, n_classes: int, limit: int | None
) -> Sizes:
    """Return the widest ranges of columns that fit in a limit, or the narrowest if none fits.

    Rows of dense columns are read in whole tiles as long as ranges are not narrow; shorter pieces decode tiles
    repeatedly.
    """
    if n_entries is not None:
        ways = [
            _sizes_of_sparse(n_samples, n_features, itemsize, n_entries, n_classes, w) for w in _halved(n_features, 1)
        ]
    else:
        spreads_nbytes = SPREADS_NBYTES if limit is None else min(SPREADS_NBYTES, limit // 2)
        ways = [
            _sizes_of_dense(n_samples, n_features, itemsize, n_classes, width, piece_nbytes, spreads_nbytes)
            for piece_nbytes, least in ((PIECE_NBYTES, NARROW), (PIECE_NBYTES // 8, NARROW), (0, 1))
            for width in _halved(min(WIDTH, n_features), least)
        ]
        ways.append(_sizes_of_dense(n_samples, n_features, itemsize, n_classes, 1, 0, 0))
    fitting = (sizes for sizes in ways if limit is None or sum(sizes.terms.values()) <= limit)
    return next(fitting, ways[-1])


def _halved(width: int, least: int) -> Iterator[int]:
    """Yield a width, its half and so on, down to `least`."""
    yield width
    while width > least:
        width = -(-width // 2)
        yield width


def _sizes_of_sparse(
    n_samples: int, n_features: int, itemsize: int, n_entries: int, n_classes: int, width: int
) -> Sizes:
    of_range = -(-n_entries * width // max(1, n_features))
    terms = {"centres, scales and sets of the columns": SENT_NBYTES * n_features}
    terms["entries of two ranges of columns"] = (1 if width == n_features else 2) * of_range * 3 * (4 + itemsize)
    terms["entries being read"] = min(of_range, READ_ENTRIES) * READ_NBYTES
    terms["sums of products, bounds of columns"] = width * (8 * (n_classes + 3) + 4 + COLUMN_NBYTES)
    terms["vectors by rows"] = (8 * n_classes + 24) * n_samples
    return Sizes(width, 0, False, terms)


def _sizes_of_dense(
    n_samples: int, n_features: int, itemsize: int, n_classes: int, width: int, piece_nbytes: int, spreads_nbytes: int
) -> Sizes:
    every = 4 * n_features * (n_features + width)
    keeps = every <= spreads_nbytes
    piece = min(n_samples, max(BAND_ROWS, piece_nbytes // (width * itemsize)))
    terms = {"centres, scales and sets of the columns": SENT_NBYTES * n_features}
    terms["sums of products"] = (n_classes + 3) * tiled(width) ** 2 * 8
    terms["bands of rows"] = 3 * tiled(width) * BAND_ROWS * 8
    terms["pieces of two ranges of columns"] = 4 * piece * width * itemsize
    terms["variances of products"] = every if keeps else 0
    return Sizes(width, piece, keeps, terms)


class Columns(NamedTuple):
    """Columns that one task scores as features."""

    columns: slice


class DenseProducts(NamedTuple):
    """Products of dense columns that one task scores."""

    first: slice | np.ndarray
    """A slice, or an array of selected columns."""
    second: slice
    selected: np.ndarray
    """Columns in the model."""

    @property
    def is_same(self) -> bool:
        """Whether the columns are multiplied with each other."""
        return isinstance(self.first, slice) and self.first == self.second


class SparseProducts(NamedTuple):
    """Products of sparse columns that one task scores."""

    first: slice | np.ndarray
    """A slice, or an array of selected columns."""
    second: slice
    start: int
    """Start within the first columns, the longest first."""
    stop: int | None
    """Stop within the first columns; None: the end."""
    step: int
    """Step within the first columns."""
    selected: np.ndarray
    """Columns in the model."""


Part: TypeAlias = Columns | DenseProducts | SparseProducts


class Rules(NamedTuple):
    """Which products are scored."""

    left: np.ndarray
    """See `daskfs.kernels.fgm.pairs.Wanted`."""
    right: np.ndarray
    n_selected: int
    has_squares: bool
    n_units: int


class ProductMatrix(ImplicitMatrix):
    """The columns of a matrix, their squares, and the products of two of them; see the module.

    Parameters
    ----------
    matrix : Matrix
    given : Given
    rules : Rules
    weights : Weights
        A `column` of 0 means products only.
    center : bool or "auto"
        Whether columns are centred before they are multiplied.
    """

    def __init__(self, matrix: Matrix, given: Given, rules: Rules, weights: Weights, center: bool | str) -> None:
        n_samples, n_parents = matrix.shape
        super().__init__(matrix, n_implicit(n_parents), rules.n_units)
        self.weight, self.rules, self.has_columns = given.weight, rules, weights.column > 0.0
        counts = matrix.entry_counts()
        self.is_sparse, self.is_signed = counts is not None, bool((given.minimum < 0.0).any())
        self.scaling = ProductScaling.of(given, weights, center, self.is_sparse)
        self.variance = CAUTION * self.scaling.variance
        n_entries = None if counts is None else int(counts.sum())
        self.sizes = cut(n_samples, n_parents, matrix.dtype.itemsize, n_entries, given.n_classes, given.task_nbytes)
        self._start()

    def _start(self) -> None:
        self._spreads: dict[tuple[int, int], np.ndarray] = {}
        self._every: SparseRange | None = None
        self._bounds: tuple[np.ndarray, Bounds] | None = None
        self._lock = threading.Lock()

    def __getstate__(self) -> dict[str, Any]:
        made_where_it_is = ("_spreads", "_every", "_bounds", "_lock")
        return {name: value for name, value in self.__dict__.items() if name not in made_where_it_is}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._start()

    # Enumeration of the columns.

    def rounds(self, n_tasks: int, selected: np.ndarray) -> list[list[Part]]:
        """Return the columns themselves; then the products, with sparse columns those of the longest columns first."""
        n_parents, width, n_selected = self.matrix.shape[1], self.sizes.width, self.rules.n_selected
        ranges = [slice(start, min(start + width, n_parents)) for start in range(0, n_parents, width)]
        found: list[list[Part]] = [[Columns(columns) for columns in ranges]] if self.has_columns else []
        parents = selected[selected < n_parents]
        if n_selected > 0 and not len(parents):
            return found
        pairs = [
            (ranges[k], other) for k in range(len(ranges)) for other in ranges[k:] if self._has_any(ranges[k], other)
        ]
        if self.is_sparse and n_selected == 1:
            tasks = range(min(n_tasks, len(parents)))
            found.append(
                [SparseProducts(parents, second, k, None, len(tasks), parents) for second in ranges for k in tasks]
            )
        elif self.is_sparse and len(ranges) == 1:
            n_long = max(1, int(LONG_SHARE * n_parents))
            tasks = range(n_tasks)
            found.append([SparseProducts(ranges[0], ranges[0], k, n_long, n_tasks, parents) for k in tasks])
            found.append([SparseProducts(ranges[0], ranges[0], n_long + k, None, n_tasks, parents) for k in tasks])
        elif self.is_sparse:
            found.append([SparseProducts(first, second, 0, None, 1, parents) for first, second in pairs])
        elif n_selected > 0:
            firsts = [parents[k : k + width] for k in range(0, len(parents), width)]
            found.append([DenseProducts(first, second, parents) for first in firsts for second in ranges])
        else:
            found.append([DenseProducts(first, second, parents) for first, second in pairs])
        return found

    def _has_any(self, first: slice, second: slice) -> bool:
        """Return whether the sets allow any product of two ranges of columns."""
        one, other, two, another = (
            int(np.bitwise_or.reduce(masks[columns]))
            for columns in (first, second)
            for masks in (self.rules.left, self.rules.right)
        )
        return bool((one & another) | (two & other))

    # Scores.

    def score_columns(self, v: np.ndarray, n_wanted: int, floor: float, part: Part) -> tuple[np.ndarray, np.ndarray]:
        """Return the largest scores of a part: see `ImplicitMatrix.score_columns`."""
        largest = new_largest(n_wanted)
        if isinstance(part, Columns):
            self._offer_columns(v, part.columns, largest)
        elif isinstance(part, SparseProducts):
            self._offer_sparse(v, floor, part, largest)
        else:
            self._offer_dense(v, floor, part, largest)
        return in_order(largest)

    def _wanted(self, selected: np.ndarray) -> Wanted:
        is_selected = np.zeros(self.matrix.shape[1], np.bool_)
        is_selected[selected] = True
        rules, has_square = self.rules, self.scaling.has_square & self.rules.has_squares
        return Wanted(rules.left, rules.right, is_selected, rules.n_selected, has_square)

    def _offer_columns(self, v: np.ndarray, columns: slice, largest: Largest) -> None:
        """Score the columns themselves."""
        if self.is_sparse:
            found = self._range(columns)
            numbers, products = found.ids, np.zeros((len(v), len(found.ids)))
            vectors, in_one_sum = found.of_base(v), np.zeros(len(found.weight), np.int64)
            for vector, of_class in zip(vectors, products, strict=True):
                sparse_scores(*found.columns, vector, in_one_sum, of_class)
        else:
            numbers = np.arange(columns.start, columns.stop)
            products, n_samples = np.zeros((len(v), len(numbers))), self.matrix.shape[0]
            piece = max(GRANULE, self.sizes.piece_rows // GRANULE * GRANULE)
            for start in range(0, n_samples, piece):
                rows = slice(start, min(start + piece, n_samples))
                block = self.matrix.read(rows, columns)
                for vector, of_class in zip(v, products, strict=True):
                    scores_of(block, vector[rows], of_class)
        products -= self.scaling.column_centre[numbers] * v.sum(axis=1)[:, None]
        products *= self.scaling.column_inverse[numbers]
        offer_all(largest, (products * products).sum(axis=0), numbers)

    def _offer_dense(self, v: np.ndarray, floor: float, part: DenseProducts, largest: Largest) -> None:
        """Score products of dense columns."""
        first, second = (
            np.arange(columns.start, columns.stop) if isinstance(columns, slice) else columns for columns in part[:2]
        )
        wanted, weighing = self._wanted(part.selected), self.scaling.products
        centres = self.scaling.centre[first], self.scaling.centre[second]
        shape, key = (tiled(len(first)), tiled(len(second))), (int(first[0]), int(second[0]))
        keeps = self.sizes.keeps_spreads and not self.rules.n_selected
        spread = self._spreads.get(key) if keeps else None
        if spread is None:
            moments, spread = np.zeros((2, *shape)), np.zeros((len(first), len(second)))
            for rows, one, other in self._pieces(part, self.weight > 0.0):
                add_moments(one, other, *centres, self.weight[rows], part.is_same, moments)
            spreads_of(moments, first, second, part.is_same, weighing, wanted, spread)
            if keeps:
                self._spreads[key] = spread
        duals = np.zeros((len(v), *shape))
        for rows, one, other in self._pieces(part, np.asarray(v.any(axis=0))):
            add_duals(one, other, *centres, v[:, rows], part.is_same, duals)
        offer_pairs(duals, spread, first, second, part.is_same, weighing, wanted, floor, largest)

    def _pieces(
        self, part: DenseProducts, takes_part: np.ndarray
    ) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Yield rows of positive weight and their values in the columns of a part, in whole bands except the last."""
        n_samples, matrix, piece = self.matrix.shape[0], self.matrix, self.sizes.piece_rows
        numbers, one = np.empty(0, np.int64), np.empty((0, 0))
        other = one
        for start in range(0, n_samples, piece):
            rows = slice(start, min(start + piece, n_samples))
            taken = np.flatnonzero(takes_part[rows])
            found = matrix.read(rows, part.first)
            others = found if part.is_same else matrix.read(rows, part.second)
            if len(taken) < len(found) or len(numbers):
                found, others = (
                    np.concatenate([rest, values[taken]]) if len(rest) else values[taken]
                    for rest, values in ((one, found), (other, others))
                )
            numbers = np.concatenate([numbers, taken + start])
            n_whole = len(numbers) if rows.stop == n_samples else len(numbers) // BAND_ROWS * BAND_ROWS
            yield numbers[:n_whole], found[:n_whole], others[:n_whole]
            numbers, one, other = numbers[n_whole:], found[n_whole:].copy(), others[n_whole:].copy()

    def _offer_sparse(self, v: np.ndarray, floor: float, part: SparseProducts, largest: Largest) -> None:
        """Score products of sparse columns."""
        is_same = isinstance(part.first, slice) and part.first == part.second
        is_normalised, first = self.scaling.products.is_normalised, self._range(part.first)
        second = first if is_same else self._range(part.second)
        kind = LESSER if is_normalised else (SIGNED if self.is_signed and len(v) == 1 else PRODUCT)
        vectors, weighing = np.ascontiguousarray(first.of_base(v).T), self.scaling.products
        bounds = self._bounds_of(first, vectors, kind)
        others = bounds if is_same else self._bounds_of(second, vectors, kind)
        stop = len(first.ids) if part.stop is None else min(part.stop, len(first.ids))
        offer_sparse_pairs(
            first.columns, first.ids, second.rows, second.ids, is_same, part.start, stop, part.step, first.weight,
            vectors, kind, bounds, from_end(others.plus), from_end(others.minus), weighing,
            self._wanted(part.selected), floor, largest, np.zeros(2, np.int64),
        )  # fmt: skip

    def _bounds_of(self, columns: SparseRange, vectors: np.ndarray, kind: int) -> Bounds:
        """Return the bounds of sparse columns. For a range of all columns, the last bounds are cached."""
        by_sign = vectors.shape[1] == 1 and (kind == SIGNED or not self.is_signed)
        with self._lock:
            is_every = columns is self._every
            if is_every and self._bounds is not None and np.array_equal(self._bounds[0], vectors):
                return self._bounds[1]
            found = bounds_of(columns.columns, columns.weight, vectors, kind, by_sign, self.scaling.products)
            if is_every:
                self._bounds = vectors, found
            return found

    def _range(self, columns: slice | np.ndarray) -> SparseRange:
        """Return sparse columns in the form that is multiplied. A range of all columns is cached from pass to pass."""
        by_squares, n_columns = not self.scaling.products.is_normalised, self.matrix.shape[1]
        if not isinstance(columns, slice) and self.sizes.width == n_columns:
            return self._range(slice(0, n_columns)).few(columns)
        if not isinstance(columns, slice) or columns != slice(0, n_columns):
            return SparseRange.of(self.matrix, columns, self.weight, by_squares)
        with self._lock:
            if self._every is None:
                self._every = SparseRange.of(self.matrix, columns, self.weight, by_squares)
            return self._every

    # Features that are computed.

    def made(self, columns: np.ndarray) -> ProductFeatures:
        """Return some features in a form that can be computed for any rows."""
        return ProductFeatures(columns, parents_of(columns, self.matrix.shape[1]), self.scaling.centre)

    def scaling_of(self, columns: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the standardisation of features with known values: see `ImplicitMatrix.scaling_of`."""
        found = np.empty((2, len(columns)))
        for k, (i, j) in enumerate(parents_of(columns, self.matrix.shape[1]).tolist()):
            if j < 0:
                found[:, k] = self.scaling.column_centre[i], self.scaling.column_inverse[i]
            else:
                found[:, k] = self.scaling.of_product(i, j, values[k], self.weight)
        return found[0], found[1]
