"""The columns that a map of single variables gives for a matrix. They are scored from sums over bins, not computed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from daskfs.feature_maps.base import Given, ImplicitMatrix, MadeFeatures, MapCost
from daskfs.feature_maps.map_table import MapTable, Ranges
from daskfs.kernels.fgm.levels import (
    add_levels,
    add_sparse_levels,
    components_at,
    products_with_table,
    squares_with_table,
    whole_numbers,
)
from daskfs.kernels.fgm.pairs import PRIOR_ROWS
from daskfs.kernels.fgm.scores import ALL_LINES, flattened
from daskfs.kernels.fgm.topk import largest
from daskfs.matrix.base import Matrix
from daskfs.matrix.blocks import Strip

TASK_NBYTES = 64 << 20  # of columns that one task reads; hides Dask's cost per task
SUMS_NBYTES = 64 << 20  # of the sums of a task
PIECE_NBYTES = 8 << 20  # of rows read at a time if there are neither tiles nor a view


_PLACES = np.linspace(0.0, 1.0, 101)


class Range(NamedTuple):
    """Consecutive variables, scored in one task."""

    start: int
    stop: int


class MadeComponents(MadeFeatures):
    """Some components of some variables."""

    kind = "components"

    def __init__(self, columns: np.ndarray, table: MapTable, labels: list[str], ranges: Ranges, width: int) -> None:
        self.columns = columns
        of, self.component = np.divmod(columns, width)
        self.parents, self.place = np.unique(of, return_inverse=True)
        self.table, self._labels = table, [labels[k] for k in self.component]
        self.low, self.high = ranges.low[self.parents], ranges.high[self.parents]

    def to_document(self) -> dict[str, Any]:
        """Return the map's table, and the variable and component of each feature."""
        return {
            "kind": self.kind,
            "columns": self.columns.tolist(),
            "parents": self.parents.tolist(),
            "place": self.place.tolist(),
            "component": self.component.tolist(),
            "labels": self._labels,
            "low": self.low.tolist(),
            "high": self.high.tolist(),
            "table": self.table.values.tolist(),
            "is_root": self.table.is_root,
        }

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> MadeComponents:
        """Return the features described by `to_document`."""
        made = cls.__new__(cls)
        for name in ("columns", "parents", "place", "component"):
            setattr(made, name, np.array(document[name], np.int64))
        made.low, made.high = np.array(document["low"], np.float64), np.array(document["high"], np.float64)
        made._labels = list(document["labels"])
        made.table = MapTable(np.array(document["table"], np.float64), bool(document["is_root"]))
        return made

    def of(self, X: np.ndarray) -> np.ndarray:
        """Return the components for some rows."""
        X = X if X.dtype in (np.float64, np.float32, np.int8) else X.astype(np.float64)
        found = np.empty((len(X), len(self.columns)), np.float64 if X.dtype == np.float64 else np.float32)
        inverse = _inverses(self.low, self.high)
        for k in range(len(self.parents)):
            here = np.flatnonzero(self.place == k)
            out = np.empty((len(X), len(here)), found.dtype)
            which = self.component[here].astype(np.int64)
            column = np.ascontiguousarray(X[:, k])
            components_at(column, self.low[k], inverse[k], self.table.is_root, self.table.values, which, out)
            found[:, here] = out
        return found

    def names(self, of_parents: list[str]) -> list[str]:
        """Return names such as "age (0.2 to 0.25)"."""
        return [f"{of_parents[k]} ({label})" for k, label in zip(self.place, self._labels, strict=True)]

    def parents_of(self) -> list[np.ndarray]:
        """Return the variable of each feature."""
        return [self.parents[k : k + 1] for k in self.place]


class AdditiveMatrix(ImplicitMatrix):
    """The columns of a map over a matrix. The columns of a variable form a unit.

    When standardised, the columns of a unit share one scale, so that their variances sum to 1: no variable is selected
    because its block is wide or its values are large. With ``normalize="auto"``, a non-negative variable that has zeros
    is scaled as if it had 30 more rows with values of its usual size, so that rare categories and words are not
    selected by chance.
    """

    def __init__(self, matrix: Matrix, given: Given, table: MapTable, labels: list[str], ranges: Ranges) -> None:
        self.width = table.values.shape[1]
        super().__init__(matrix, matrix.shape[1] * self.width, matrix.shape[1])
        self.table = replace(table, kernel=None)  # not needed by tasks, and possibly not picklable
        self.component_labels, self.ranges, self.given = labels, ranges, given
        self.variance = 1.0 if given.normalize is not False else float(table.at(_PLACES).var(axis=0).sum())
        self._known: dict[Range, np.ndarray] = {}
        itemsize = matrix.dtype.itemsize
        self._cut = _cut(table, matrix.shape, itemsize, given.n_classes, given.task_nbytes)
        error = f" with an error of {table.error():.2g} of the kernel" if table.kernel is not None else ""
        self.notes.append(f"each variable becomes {self.width} columns{error}; they are selected together")

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_known": {}}

    def rounds(self, n_tasks: int, selected: np.ndarray) -> list[list[Range]]:
        """Return ranges of variables, all in one round."""
        n, per_task = self.matrix.shape[1], self._cut.width
        tile = max(1, self.matrix.tile_shape[1])
        width = max(1, min(per_task, -(-n // max(1, n_tasks))))
        width = min(n, -(-width // tile) * tile) if tile < n else width
        return [[Range(start, min(start + width, n)) for start in range(0, n, width)]]

    def score_columns(self, v: np.ndarray, n_wanted: int, floor: float, part: Range) -> tuple[np.ndarray, np.ndarray]:
        """Return the variables of a part with the largest scores."""
        scores = np.zeros(part.stop - part.start)
        per_block = self._cut.width
        for start in range(part.start, part.stop, per_block):
            block = Range(start, min(start + per_block, part.stop))
            scores[block.start - part.start : block.stop - part.start] = self._scores_of(v, block)
        return largest(scores, part.start, n_wanted)

    def _scores_of(self, v: np.ndarray, block: Range) -> np.ndarray:
        numbers, unit = whole_numbers(v)
        products = np.empty((block.stop - block.start, len(v), self.width))
        products_with_table(self._sums(numbers, block, 2), self.table.values, products)
        products *= unit * self._inverse(block)[:, None, None]
        found: np.ndarray = np.einsum("jck,jck->j", products, products)
        return found

    def _inverse(self, block: Range) -> np.ndarray:
        """Return 1 / scale for each variable of a block; known after the first pass."""
        if block not in self._known:
            numbers, unit = whole_numbers(self.given.weight[None])
            sums = self._sums(numbers, block, 3)
            whole = float(numbers.sum()) * unit
            mean = np.empty((len(sums), 1, self.width))
            products_with_table(sums, self.table.values, mean)
            mean *= unit / whole
            self._known[block] = self._inverse_of(block, sums[:, 0], mean[:, 0], unit / whole)
        return self._known[block]

    def _inverse_of(self, block: Range, sums: np.ndarray, mean: np.ndarray, share: float) -> np.ndarray:
        def squares_about(origin: np.ndarray) -> np.ndarray:
            squares = np.empty(len(sums))
            squares_with_table(sums, self.table.values, origin, squares)
            return share * squares

        variance = squares_about(mean if self.given.center else np.zeros_like(mean))
        here = slice(block.start, block.stop)
        return self._scale(np.arange(block.start, block.stop), variance, squares_about(self._at_zero(here)))

    def _at_zero(self, units: slice | np.ndarray) -> np.ndarray:
        """Return the map's values at 0 for some variables, shape (n_units, width)."""
        low = self.ranges.low[units]
        return self.table.at(-low * _inverses(low, self.ranges.high[units]))

    def _scale(self, units: np.ndarray, variance: np.ndarray, size: np.ndarray) -> np.ndarray:
        """Return 1 / scale for units, from their variances and their size relative to the map's value at 0."""
        is_constant = (self.given.deviation[units] == 0.0) | (variance <= 0.0)
        if self.given.normalize is False:
            return np.where(is_constant, 0.0, 1.0)
        if self.given.normalize == "auto":
            mean, deviation = self.given.mean[units], self.given.deviation[units]
            rows = self.given.weight.sum() * mean**2 / np.maximum(mean**2 + deviation**2, 1e-300)  # (Σ x)² / Σ x²
            with_zeros = (self.given.minimum[units] == 0.0) & (rows > 0.0)
            variance = variance + np.divide(PRIOR_ROWS * size, rows, out=np.zeros(len(rows)), where=with_zeros)
        return np.where(is_constant, 0.0, 1.0 / np.sqrt(np.where(is_constant, 1.0, variance)))

    def scaling_of(self, columns: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the means of the columns of whole units, and for each column the scale of its unit."""
        share = self.given.weight / self.given.weight.sum()
        units, place = np.unique(columns // self.width, return_inverse=True)
        mean = values.astype(np.float64) @ share
        centre = mean if self.given.center else np.zeros(len(columns))
        zero = self._at_zero(units)[place, columns % self.width]
        about = [
            np.array([share @ (x - o) ** 2 for x, o in zip(values, origin, strict=True)]) for origin in (centre, zero)
        ]
        variance, size = (np.bincount(place, of_column, len(units)) for of_column in about)
        return centre, self._scale(units, variance, size)[place]

    def columns_of(self, units: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return all columns of some variables."""
        columns = units[:, None] * self.width + np.arange(self.width)
        return columns.ravel(), np.arange(len(units) + 1) * self.width

    def made(self, columns: np.ndarray) -> MadeComponents:
        """Return some columns in a form that can be computed for any rows."""
        return MadeComponents(columns, self.table, self.component_labels, self.ranges, self.width)

    def _sums(self, numbers: np.ndarray, block: Range, n_powers: int) -> np.ndarray:
        """Return the sums over bins for a block: see `daskfs.kernels.fgm.levels`."""
        here = slice(block.start, block.stop)
        low, inverse = self.ranges.low[here], _inverses(self.ranges.low[here], self.ranges.high[here])
        n_bins = len(self.table.values) - 1
        sums = np.zeros((len(low), len(numbers), n_bins, n_powers), np.int64)
        entries = self.matrix.sparse_columns(here)
        if entries is not None:
            if entries.taken is not None:
                of_base = np.zeros((len(numbers), entries.n_base_rows), np.int64)
                for vector, of_one in zip(numbers, of_base, strict=True):
                    np.add.at(of_one, entries.taken, vector)
            else:
                of_base = numbers
            add_sparse_levels(
                entries.indptr, entries.indices, entries.data, of_base, numbers.sum(axis=1), low, inverse,
                self.table.is_root, sums,
            )  # fmt: skip
            return sums
        for strip in _strips(self.matrix, here, self._cut.piece_nbytes):
            at, lines = strip.columns, ALL_LINES if strip.lines is None else strip.lines
            of_rows = numbers[:, strip.first : strip.first + strip.n_rows]
            rows = np.flatnonzero(of_rows.any(axis=0))
            flat, stride = flattened(strip.values)
            add_levels(
                flat, stride, lines, rows, at.stop - at.start, of_rows, low[at], inverse[at], self.table.is_root,
                sums[at],
            )  # fmt: skip
        return sums


def _inverses(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Return 1 / length for each range, 0 for ranges of length 0."""
    return np.divide(1.0, high - low, out=np.zeros(len(low)), where=high > low)


class Cut(NamedTuple):
    """How the variables are divided into blocks."""

    width: int
    """Number of variables scored together."""
    numbers_nbytes: int
    """Bytes of the integers that represent the rows' dual variables."""
    sums_nbytes: int
    piece_nbytes: int
    """Bytes of rows read at a time if there are neither tiles nor a view."""


def _cut(table: MapTable, shape: tuple[int, int], itemsize: int, n_vectors: int, limit: int | None) -> Cut:
    """Return blocks of variables whose sums fit in three quarters of what the limit leaves; the rest is for rows."""
    n_samples, n_features = shape
    per_column = 8 * (len(table.values) - 1) * max(2 * n_vectors, 3) + 16 * table.values.shape[1] * n_vectors
    numbers_nbytes = 16 * n_samples * n_vectors
    left = SUMS_NBYTES + PIECE_NBYTES if limit is None else limit - numbers_nbytes
    room = min(SUMS_NBYTES, left - left // 4)
    width = max(1, min(n_features, room // per_column, TASK_NBYTES // (n_samples * itemsize)))
    piece = max(width * itemsize, min(PIECE_NBYTES, left - width * per_column))
    return Cut(width, numbers_nbytes, width * per_column, piece)


def _strips(matrix: Matrix, columns: slice, piece_nbytes: int) -> Iterator[Strip]:
    """Yield a block of columns in strips: a view of memory, the tiles as decoded, or pieces that are read."""
    n_samples, width = matrix.shape[0], columns.stop - columns.start
    view = matrix.column_view(columns)
    if view is not None and view.strides[1] == view.itemsize:
        yield Strip(0, slice(0, width), view)
        return
    passing = matrix.strips(slice(None), columns)
    if passing is not None:
        yield from passing
        return
    n_rows = max(1, piece_nbytes // (width * matrix.dtype.itemsize))
    for first in range(0, n_samples, n_rows):
        yield Strip(first, slice(0, width), matrix.read(slice(first, min(first + n_rows, n_samples)), columns))


def cost_of(
    table: MapTable,
    n_samples: int,
    n_features: int,
    itemsize: int,
    n_entries: int | None,
    n_classes: int,
    task_nbytes: int | None,
) -> MapCost:
    """Return the cost of a pass over the columns of a map."""
    width = table.values.shape[1]
    cut = _cut(table, (n_samples, n_features), itemsize, n_classes, task_nbytes)
    task = {
        "sums over bins": cut.sums_nbytes,
        "dual variables as integers": cut.numbers_nbytes,
        "rows being read": cut.piece_nbytes,
    }
    read = n_samples * n_features * itemsize if n_entries is None else n_entries * (itemsize + 4)
    text = f"{n_features * width:,} columns, {width} of each of {n_features:,} variables, each value read once per pass"
    return MapCost(
        n_features, n_features * width, width, task, text, read, -(-n_features // cut.width), 64 * n_features
    )
