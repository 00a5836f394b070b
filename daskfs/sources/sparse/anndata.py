"""Cells x genes in AnnData's format: compressed rows or columns in a .zarr folder or an .h5ad file."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property, partial
from itertools import pairwise
from typing import Annotated, Any, Literal, NamedTuple, TypeVar

import numpy as np
from pydantic import Field

from daskfs import errors, interrupts
from daskfs.documents import PATH
from daskfs.errors import DaskfsError, did_you_mean
from daskfs.files import location
from daskfs.kernels.compressed_columns import place_by_rows
from daskfs.losses import PLAIN_NUMBERS, TargetKind
from daskfs.matrix.arrays import as_targets
from daskfs.matrix.names import distinct
from daskfs.matrix.target import kind_of
from daskfs.sources.arrays import coded_texts, name_targets
from daskfs.sources.base import part_nbytes
from daskfs.sources.files import OfFiles, PathLike, as_file, explained_room, files_below, write_all
from daskfs.sources.npy import array_of
from daskfs.sources.options import SourceOptions, check_choices
from daskfs.sources.sparse.base import NamedIds, SparseBlock, SparseSource
from daskfs.store.foreign import open_foreign_group
from daskfs.store.row_checks import check_names

DataError = errors.DataError.about("cells")
SourceError = errors.SourceError.about("cells")

PIECE = 1 << 20
"""Number of entries read at a time."""
ENTRY_NBYTES = 8
BAND_BLOCKS = 4
"""Number of blocks gathered at once from entries stored by column."""


class AnnDataOptions(SourceOptions):
    """A matrix written by AnnData: a .zarr folder or an .h5ad file (needs h5py)."""

    path: Annotated[str, PATH]
    target: str | None = Field(default=None, description="column of obs, or the name of y")
    y: Annotated[str | None, PATH] = Field(default=None, description=".npy file of the targets")
    layer: str | None = Field(default=None, description="one of the layers, or raw; default: X")


ENTRY = np.dtype([("row", np.uint32), ("column", np.uint32), ("value", np.float32)])
"""An entry in the temporary file that sorts entries by rows."""
LIBRARY_FAULTS = (
    KeyError, OSError, ValueError, TypeError, RuntimeError, IndexError, AttributeError, OverflowError, SystemError
)  # fmt: skip
"""Errors that h5py, zarr and NumPy raise for damaged or foreign files."""
T = TypeVar("T")


class Compressed(NamedTuple):
    """Layout of the stored entries."""

    by: Literal["rows", "columns", "dense"]
    shape: tuple[int, int]
    indptr: np.ndarray
    """int64, of rows or columns."""


class Band(NamedTuple):
    """The entries of consecutive rows."""

    row: int
    indptr: np.ndarray
    features: np.ndarray
    values: np.ndarray


class AnnDataSource(OfFiles, SparseSource):
    """A matrix of cells x genes in AnnData's format, version 0.8 or later.

    Parameters
    ----------
    path : path-like
        A .zarr folder or an .h5ad file.
    target : str, optional
        Column of obs, with numbers, texts or categories; the name of `y`, if that is given.
    y : array-like of shape (n_samples,) or (n_samples, n_targets), or path of a .npy file of it, optional
    layer : str, optional
        One of the layers, or "raw"; by default X.
    unlabelled : {"error", "keep"}
        Treatment of cells without a target: "keep" sets it to NaN, so that a model can predict it. The column is then
        optional.

    Raises
    ------
    SourceError
        The path does not exist, was not written by AnnData, or is damaged.
    DataError
        The target has missing values, or does not match.

    Notes
    -----
    Genes are named by the index of var; the index of obs is the label column "cell". Values are rounded to float32.
    Compressed rows are read directly, in parts by several processes. Compressed columns are read twice: first to
    count the entries of each row, then to sort them by rows. If there are more than 4 blocks of entries, they are
    sorted in a temporary file (in TMPDIR) with 12 bytes per entry. For a dense matrix, the nonzero values are entries.
    """

    kind, options = "anndata", AnnDataOptions

    def __init__(
        self,
        path: PathLike,
        target: str | Sequence[str] | None = None,
        y: Any = None,
        layer: str | None = None,
        unlabelled: Literal["error", "keep"] = "error",
    ) -> None:
        check_choices(unlabelled=(unlabelled, ("error", "keep")))
        is_labelled = np.ones(0, bool)
        self.path, self.notes = location(path), []
        self._matrix = "X" if layer is None else "raw/X" if layer == "raw" else f"layers/{layer}"
        table = "raw/var" if layer == "raw" else "var"
        with self._reading() as root:
            self._entries = self._asked(lambda: self._compressed(root))
            self.n_samples, self.n_features = self._entries.shape
            self._names = self._asked(lambda: _index(root[table]))
            self._cells = np.array(self._asked(lambda: _index(root["obs"])), dtype=object)
            if y is None and isinstance(target, str):
                obs, may_lack = root["obs"], unlabelled == "keep"
                if not may_lack or target in obs:
                    y, is_labelled = self._asked(lambda: self._of_obs(obs, target, may_lack=may_lack))
        n_names = len(set(self._names))
        if n_names < len(self._names):
            self.notes.append(f"{len(self._names) - n_names:,} names in {table} are duplicates, and are numbered")
            self._names = distinct(self._names)
        for found, n, where in ((self._names, self.n_features, table), (self._cells, self.n_samples, "obs")):
            if len(found) != n:
                raise SourceError(
                    f"expected {n:,} names in {where}, found {len(found):,}", str(self.path), "write it again"
                )
        check_names(self._names, self.n_features, f"{self.path}, {table}")
        y, self._target_classes = coded_texts(array_of(y), self.notes)
        self._y = None if y is None else as_targets(y, self.n_samples)
        if self._y is not None and not is_labelled.all():
            self._y = np.where(is_labelled, self._y, np.nan)
        targets = [target] if isinstance(target, str) else target
        self.target_names = name_targets(self._y, targets if self._y is not None else None)
        self.label_names = ["cell"]
        folders = [self.path / part for part in (self._matrix, table, "obs")] if self.path.is_dir() else []
        self.files = [file for folder in folders for file in files_below(folder)] or [self.path]

    @contextmanager
    def _reading(self) -> Iterator[Any]:
        """Open the folder or file."""
        if not self.path.exists():
            raise SourceError("no such file", str(self.path), "check the path")
        if self.path.is_dir():
            yield open_foreign_group(self.path)
            return
        h5py = _h5py(str(self.path))
        with self._asked(lambda: h5py.File(as_file(self.path), "r")) as file:
            yield file

    def _asked(self, read: Callable[[], T]) -> T:
        """Return what a library reads from the file; turn its errors into a `SourceError`."""
        try:
            return read()
        except DaskfsError:
            raise
        except MemoryError:
            raise SourceError("an array claims to be larger than memory", str(self.path), "write it again") from None
        except LIBRARY_FAULTS as fault:
            remedy = "write it with AnnData 0.8 or later"
            raise SourceError(f"expected the format of AnnData: {fault}", str(self.path), remedy) from None

    def _compressed(self, root: Any) -> Compressed:
        if self._matrix not in root:
            layers = sorted(root["layers"]) if "layers" in root else []
            name = self._matrix.partition("/")[2]
            raise SourceError(f"no {self._matrix} in it{did_you_mean(name, layers)}", str(self.path), "choose a layer")
        matrix = root[self._matrix]
        encoding = _text(matrix.attrs.get("encoding-type", ""))
        if encoding == "array" and len(matrix.shape) == 2 and np.dtype(matrix.dtype).kind in "biuf":
            return Compressed("dense", (int(matrix.shape[0]), int(matrix.shape[1])), np.zeros(1, np.int64))
        if encoding not in ("csr_matrix", "csc_matrix"):
            problem = f"expected a numeric matrix as {self._matrix}, found {encoding or 'an unknown encoding'}"
            raise SourceError(problem, str(self.path), "write it as an array or as csr_matrix")
        n_samples, n_features = (int(length) for length in matrix.attrs["shape"])
        indptr, by_rows = np.asarray(matrix["indptr"][...]).astype(np.int64), encoding == "csr_matrix"
        n_entries = int(matrix["indices"].shape[0])
        is_sound: Any = indptr.shape == ((n_samples if by_rows else n_features) + 1,) and (np.diff(indptr) >= 0).all()
        is_sound = is_sound and matrix["indices"].dtype.kind in "iu" and matrix["data"].dtype.kind in "biuf"
        if not is_sound or indptr[0] != 0 or indptr[-1] != n_entries or matrix["data"].shape != (n_entries,):
            raise SourceError(
                f"indptr, indices and data of {self._matrix} are inconsistent", str(self.path), "write it again"
            )
        return Compressed("rows" if by_rows else "columns", (n_samples, n_features), indptr)

    def _of_obs(self, obs: Any, name: str, *, may_lack: bool) -> tuple[np.ndarray, np.ndarray]:
        """Return a column of obs, numbers or texts, and which of its values are present."""
        columns = sorted(key for key in obs if not key.startswith("_"))
        if name not in columns:
            raise SourceError(f"no column {name!r} in obs{did_you_mean(name, columns)}", str(self.path), _some(columns))
        values, is_missing = _column(obs[name])
        if is_missing.any() and not may_lack:
            where = f"{self.path}, obs '{name}', row {int(np.argmax(is_missing))}"
            raise DataError("expected a value, found a missing value", where, "remove these cells, or pass y")
        return values, ~is_missing

    @property
    def column_names(self) -> Sequence[str]:
        """Names of the genes."""
        return self._names

    @property
    def target_classes(self) -> list[str] | None:
        """Original texts of the target's codes."""
        return self._target_classes

    def estimate_entries(self) -> int:
        """Return the number of entries; for a dense matrix, an estimate from its first rows."""
        if self._entries.by != "dense":
            return int(self._entries.indptr[-1])
        n_rows = min(self._entries.shape[0], self._dense_rows)
        with self._reading() as root:
            head = self._asked(lambda: np.asarray(root[self._matrix][:n_rows]))
        return int(np.count_nonzero(head)) * self._entries.shape[0] // max(1, n_rows)

    @property
    def _dense_rows(self) -> int:
        """Number of rows of a dense matrix that are read at a time."""
        return max(1, PIECE // max(1, self._entries.shape[1]))

    def estimate_target(self) -> TargetKind:
        """Return the inferred kind of target."""
        if self._target_classes is not None:
            return TargetKind(len(self._target_classes), is_declared=True)
        return PLAIN_NUMBERS if self._y is None or self._y.ndim != 1 else kind_of(self._y)

    def describe(self) -> dict[str, Any]:
        """Return the files with size, time and SHA-256, the matrix and its shape."""
        return {**super().describe(), "description": f"{self.path}, {self._matrix}", "shape": list(self._entries.shape)}

    def digest(self) -> str:
        """Return the digest of the bytes of all files, and of the target."""
        given = b"" if self._y is None else self._y.tobytes()
        return hashlib.sha256(super().digest().encode() + given).hexdigest()

    def is_unchanged(self, description: dict[str, Any], digest: str) -> bool:
        """Compare the bytes, since the target may come from elsewhere."""
        return self.digest() == digest

    @property
    def encoding(self) -> dict[str, Any]:
        """Which matrix and targets were read."""
        return {"matrix": self._matrix, "targets": list(self.target_names)}

    @property
    def has_parts(self) -> bool:
        """Whether entries are stored by row."""
        return self._entries.by == "rows"

    def parts(self) -> Sequence[tuple[int, int]]:
        """Return the range of rows of each part."""
        if not self.has_parts:
            return ()
        indptr, part = self._entries.indptr, part_nbytes(self.estimate_entries() * ENTRY_NBYTES) // ENTRY_NBYTES
        inner = np.searchsorted(indptr, np.arange(part, indptr[-1], part)).tolist()
        bounds = sorted({0, *inner, self._entries.shape[0]})
        return list(pairwise(bounds))

    def sparse_blocks(self, block_rows: int, block_nnz: int) -> Iterator[SparseBlock]:
        """Yield consecutive rows."""
        yield from self.sparse_part_blocks((0, self._entries.shape[0]), block_rows, block_nnz)

    def sparse_part_blocks(self, part: tuple[int, int], block_rows: int, block_nnz: int) -> Iterator[SparseBlock]:
        """Yield the rows of a part."""
        first, last = part
        names: NamedIds | None = NamedIds.of_columns(self._names)
        with self._reading() as root:
            matrix = self._asked(lambda: root[self._matrix])
            for row, indptr, features, values in self._bands(matrix, first, last, block_rows, block_nnz):
                start, n_rows = 0, len(indptr) - 1
                while start < n_rows:
                    stop = _reach(indptr, start, block_rows, block_nnz, n_rows)
                    entries, own = (
                        slice(int(indptr[start]), int(indptr[stop])),
                        indptr[start : stop + 1] - indptr[start],
                    )
                    yield self._block(row + start, row + start - first, own, features[entries], values[entries], names)
                    start, names = stop, None

    def _bands(self, matrix: Any, first: int, last: int, block_rows: int, block_nnz: int) -> Iterator[Band]:
        """Yield the entries of consecutive rows."""
        if self._entries.by == "rows":
            indptr, start = self._entries.indptr, first
            while start < last:
                stop = _reach(indptr, start, block_rows, block_nnz, last)
                yield Band(
                    start, indptr[start : stop + 1] - indptr[start], *self._piece(matrix, indptr[start], indptr[stop])
                )
                start = stop
        elif self._entries.by == "columns":
            yield from self._bands_of_columns(matrix, BAND_BLOCKS * block_nnz)
        else:
            for start in range(first, last, self._dense_rows):
                X = self._asked(partial(_rows_of, matrix, start, min(start + self._dense_rows, last)))
                rows, features = np.nonzero(X)  # NaN is nonzero too
                indptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=len(X)))])
                yield Band(start, indptr, features, X[rows, features])

    def _piece(self, matrix: Any, begin: int, end: int) -> tuple[np.ndarray, np.ndarray]:
        """Return consecutive entries: indices and values."""
        entries = slice(int(begin), int(end))
        return self._asked(lambda: (np.asarray(matrix["indices"][entries]), np.asarray(matrix["data"][entries])))

    @cached_property
    def _indptr_of_rows(self) -> np.ndarray:
        """Offsets of each row's entries, if entries stored by column were sorted by row."""
        n_samples = self._entries.shape[0]
        counts = np.zeros(n_samples, np.int64)
        with self._reading() as root:
            indices = self._asked(lambda: root[self._matrix]["indices"])
            for begin in range(0, indices.shape[0], PIECE):
                interrupts.check()
                rows = self._asked(partial(_rows_of, indices, begin, begin + PIECE))
                self._check_numbers(rows, n_samples)
                counts += np.bincount(rows, minlength=n_samples)
        return np.concatenate([[0], np.cumsum(counts)])

    def _bands_of_columns(self, matrix: Any, band_nnz: int) -> Iterator[Band]:
        """Yield the rows of entries stored by column: each is read once and sorted by row in a temporary file."""
        indptr, n_samples = self._indptr_of_rows, self._entries.shape[0]
        bounds = [0]
        while bounds[-1] < n_samples:
            bounds.append(_reach(indptr, bounds[-1], n_samples, band_nnz, n_samples))
        with tempfile.TemporaryFile(prefix="daskfs-") as file:
            if len(bounds) > 2:
                self._spread(matrix, np.array(bounds), file.fileno())
            for start, stop in pairwise(bounds):
                interrupts.check()
                own = indptr[start : stop + 1] - indptr[start]
                features, values = np.empty(own[-1], np.uint32), np.empty(own[-1], np.float32)
                cursors = own[:-1].copy()
                for entries in self._entries_of_band(
                    matrix, file, int(indptr[start]), int(indptr[stop]), len(bounds) == 2
                ):
                    rows = entries["row"].astype(np.int64)
                    place_by_rows(rows, entries["column"], entries["value"], start, cursors, features, values)
                yield Band(start, own, features, values)

    def _entries_of_band(self, matrix: Any, file: Any, begin: int, end: int, is_all: bool) -> Iterator[np.ndarray]:
        """Yield entries in column order: all of them, or those of a band of rows from the temporary file."""
        for start in range(begin, end, PIECE):
            stop = min(start + PIECE, end)
            if is_all:
                yield self._piece_with_columns(matrix, start, stop)
            else:
                file.seek(start * ENTRY.itemsize)
                yield np.fromfile(file, ENTRY, stop - start)

    def _spread(self, matrix: Any, bounds: np.ndarray, file: int) -> None:
        """Write all entries to a file, grouped by band of rows, within a band in column order."""
        band_of = np.repeat(np.arange(len(bounds) - 1, dtype=np.uint16), np.diff(bounds))
        ends = self._indptr_of_rows[bounds[:-1]].copy()
        for begin in range(0, int(self._entries.indptr[-1]), PIECE):
            interrupts.check()
            entries = self._piece_with_columns(matrix, begin, begin + PIECE)
            bands = band_of[entries["row"]]
            sorted_entries = entries[np.argsort(bands, kind="stable")]
            counts, start = np.bincount(bands, minlength=len(ends)), 0
            for band in np.flatnonzero(counts).tolist():
                stop = start + int(counts[band])
                with explained_room(tempfile.gettempdir()):
                    write_all(file, sorted_entries[start:stop].tobytes(), int(ends[band]) * ENTRY.itemsize)
                ends[band], start = ends[band] + counts[band], stop

    def _piece_with_columns(self, matrix: Any, begin: int, end: int) -> np.ndarray:
        """Return consecutive entries of columns, as an array of dtype `ENTRY`."""
        indptr = self._entries.indptr
        end = min(end, int(indptr[-1]))
        rows, data = self._piece(matrix, begin, end)
        self._check_numbers(rows, self._entries.shape[0])
        low, high = int(np.searchsorted(indptr, begin, "right")) - 1, int(np.searchsorted(indptr, end, "left"))
        entries = np.empty(end - begin, ENTRY)
        entries["row"], entries["value"] = rows, data
        entries["column"] = np.repeat(np.arange(low, high), np.diff(np.clip(indptr[low : high + 1], begin, end)))
        return entries

    def _block(
        self,
        row: int,
        start: int,
        indptr: np.ndarray,
        features: np.ndarray,
        data: np.ndarray,
        names: NamedIds | None,
    ) -> SparseBlock:
        self._check_numbers(features, self._entries.shape[1])
        data = data.astype(np.float32)
        if not np.isfinite(data).all():
            e = int(np.argmin(np.isfinite(data)))
            i = row + int(np.searchsorted(indptr, e, "right")) - 1
            where = f"{self.path}, {self._matrix}, row {i}, column '{self._names[int(features[e])]}'"
            problem = f"expected a value that is finite in single precision, found {data[e]:g}"
            raise DataError(problem, where, "fix the value, or remove the cell")
        is_next = np.ones(len(features), bool)
        is_next[1:] = np.diff(features.astype(np.int64)) > 0
        is_next[indptr[:-1][np.diff(indptr) > 0]] = True  # the first entry of a row has no predecessor
        if not is_next.all():
            indptr, features, data = _sorted(indptr, features, data, self._entries.shape[1])
        rows = slice(row, row + len(indptr) - 1)
        return SparseBlock(
            start,
            indptr.astype(np.int64),
            features.astype(np.uint64),
            data,
            None if self._y is None else self._y[rows],
            labels={"cell": self._cells[rows]},
            names=names,
        )

    def _check_numbers(self, numbers: np.ndarray, n: int) -> None:
        if len(numbers) and not 0 <= int(numbers.min()) <= int(numbers.max()) < n:
            found = f"{int(numbers.min())} to {int(numbers.max())}"
            problem = f"expected indices of {self._matrix} from 0 to {n - 1}, found {found}"
            raise SourceError(problem, str(self.path), "write it again")


def _rows_of(node: Any, start: int, stop: int) -> np.ndarray:
    return np.asarray(node[start:stop])


def _reach(indptr: np.ndarray, start: int, n_rows: int, nnz: int, last: int) -> int:
    """Return the end of a block that begins at row `start` and has at most `n_rows` rows and `nnz` entries."""
    stop = int(np.searchsorted(indptr, min(int(indptr[start]) + nnz, int(indptr[-1])), "right")) - 1
    return min(max(stop, start + 1), start + n_rows, last)


def _sorted(indptr: np.ndarray, features: np.ndarray, data: np.ndarray, n: int) -> tuple[np.ndarray, ...]:
    """Return rows with ascending columns; duplicates are summed."""
    from scipy.sparse import csr_array

    rows = csr_array((data.copy(), features.astype(np.int64), indptr.astype(np.int64)), (len(indptr) - 1, n))
    rows.sum_duplicates()
    return rows.indptr, rows.indices, rows.data


def _h5py(place: str) -> Any:
    try:
        import h5py
    except ImportError:
        problem = ".h5ad files need h5py, which is not installed"
        raise SourceError(problem, place, "pip install daskfs[cells], or write it as .zarr") from None
    return h5py


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def _values(node: Any) -> np.ndarray:
    """Return an array, with texts as objects."""
    values = np.asarray(node.asstr()[...] if hasattr(node, "asstr") and node.dtype.kind in "OS" else node[...])
    return values if values.dtype.kind in "biuf" else np.array([_text(v) for v in values.tolist()], dtype=object)


def _index(table: Any) -> list[str]:
    """Return the names of the rows of obs or var."""
    return [str(name) for name in _values(table[_text(table.attrs["_index"])]).tolist()]


def _column(node: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return a column's values, and which are missing."""
    encoding = _text(node.attrs.get("encoding-type", "array"))
    if encoding == "categorical":
        codes, categories = np.asarray(node["codes"][...]), _values(node["categories"])
        return categories[np.maximum(codes, 0)], codes < 0
    if encoding.startswith("nullable"):
        return _values(node["values"]), np.asarray(node["mask"][...]).astype(bool)
    values = _values(node)
    return values, np.isnan(values) if values.dtype.kind == "f" else np.zeros(len(values), bool)


def _some(columns: Sequence[str]) -> str:
    return f"its columns are {', '.join(columns[:10])}" if columns else "pass y"
