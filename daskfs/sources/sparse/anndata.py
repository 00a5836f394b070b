"""Cells x genes as AnnData writes them: compressed rows or columns in a .zarr folder or an .h5ad file."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
from pydantic import Field

from daskfs.documents import PATH
from daskfs.errors import DaskfsError, DataError, SourceError, did_you_mean
from daskfs.kernels.compressed_columns import place_by_rows
from daskfs.losses import PLAIN_NUMBERS, TargetKind
from daskfs.matrix.arrays import as_targets
from daskfs.matrix.target import kind_of
from daskfs.sources.arrays import coded_texts, name_targets
from daskfs.sources.base import part_nbytes
from daskfs.sources.files import OfFiles, PathLike
from daskfs.sources.npy import array_of
from daskfs.sources.options import SourceOptions
from daskfs.sources.sparse.base import NamedIds, SparseBlock, SparseSource
from daskfs.store.foreign import open_foreign_group
from daskfs.store.row_checks import check_names

PIECE = 1 << 20
"""Entries that are read at a time."""
ENTRY_NBYTES = 8
BAND_BLOCKS = 4
"""How many blocks of entries are gathered at once where they stand by columns."""


class AnnDataOptions(SourceOptions):
    """A sparse matrix that AnnData has written: a .zarr folder or an .h5ad file (which takes h5py)."""

    path: Annotated[str, PATH]
    target: str | None = Field(default=None, description="column of obs, or the name of y")
    y: Annotated[str | None, PATH] = Field(default=None, description=".npy file of the targets")
    layer: str | None = Field(default=None, description="one of the layers, or raw; X by default")


class Compressed(NamedTuple):
    """Where the entries are."""

    by_rows: bool
    shape: tuple[int, int]
    indptr: np.ndarray
    """int64."""


class AnnDataSource(OfFiles, SparseSource):
    """A sparse matrix in AnnData's layout, format 0.8 or later.

    Parameters
    ----------
    path : path-like
        A .zarr folder or an .h5ad file.
    target : str, optional
        Column of obs, numbers or texts or categories; what `y` is called, where it is given.
    y : array-like of shape (n_samples,) or (n_samples, n_targets), or path of a .npy file of it, optional
    layer : str, optional
        One of the layers, or "raw"; X by default.

    Raises
    ------
    SourceError
        Not there, not of AnnData, or the matrix is dense.
    DataError
        The target has missing values, or does not fit.

    Notes
    -----
    Genes are called as the index of var says, and the index of obs is the label column "cell". Values are rounded to
    float32. Compressed rows are read as they stand, in parts by several processes. Of compressed columns, entries of
    some rows are gathered in bounded memory, for which all are read once to count them and once for every 4 blocks.
    """

    kind, options = "anndata", AnnDataOptions

    def __init__(
        self, path: PathLike, target: str | Sequence[str] | None = None, y: Any = None, layer: str | None = None
    ) -> None:
        self.path, self.notes = Path(path).expanduser(), []
        self._matrix = "X" if layer is None else "raw/X" if layer == "raw" else f"layers/{layer}"
        with self._reading() as root:
            self._entries = self._compressed(root)
            self.n_samples, self.n_features = self._entries.shape
            table = "raw/var" if layer == "raw" else "var"
            self._names = _index(root[table])
            self._cells = np.array(_index(root["obs"]), dtype=object)
            if y is None and target is not None:
                y = self._of_obs(root["obs"], target) if isinstance(target, str) else None
        for found, n, where in ((self._names, self.n_features, table), (self._cells, self.n_samples, "obs")):
            if len(found) != n:
                raise SourceError(
                    f"expected {n:,} names in {where}, found {len(found):,}", str(self.path), "write it anew"
                )
        check_names(self._names, self.n_features)
        y, self._target_classes = coded_texts(array_of(y), self.notes)
        self._y = None if y is None else as_targets(y, self.n_samples)
        self.target_names = name_targets(self._y, [target] if isinstance(target, str) else target)
        self.label_names = ["cell"]
        folders = [self.path / part for part in (self._matrix, table, "obs")] if self.path.is_dir() else []
        self.files = [file for folder in folders for file in sorted(folder.rglob("*")) if file.is_file()] or [self.path]

    @contextmanager
    def _reading(self) -> Iterator[Any]:
        """Open the folder or file; explain what is not in it."""
        place = str(self.path)
        if not self.path.exists():
            raise SourceError("no such file", place, "check the path")
        try:
            if self.path.is_dir():
                yield open_foreign_group(self.path)
            else:
                with _h5py(place).File(self.path, "r") as file:
                    yield file
        except DaskfsError:
            raise
        except (KeyError, OSError, ValueError, TypeError, RuntimeError, IndexError, AttributeError) as fault:
            remedy = "write it by AnnData 0.8 or later"
            raise SourceError(f"expected what AnnData writes: {fault}", place, remedy) from None

    def _compressed(self, root: Any) -> Compressed:
        if self._matrix not in root:
            layers = sorted(root["layers"]) if "layers" in root else []
            name = self._matrix.partition("/")[2]
            raise SourceError(f"no {self._matrix} in it{did_you_mean(name, layers)}", str(self.path), "name a layer")
        matrix = root[self._matrix]
        encoding = _text(matrix.attrs.get("encoding-type", ""))
        if encoding not in ("csr_matrix", "csc_matrix"):
            problem = f"expected a sparse matrix as {self._matrix}, found {encoding or 'an unknown encoding'}"
            remedy = "read a dense one of a .zarr folder as kind zarr with path: NAME.zarr/X, or write it as csr_matrix"
            raise SourceError(problem, str(self.path), remedy)
        n_samples, n_features = (int(length) for length in matrix.attrs["shape"])
        indptr, by_rows = np.asarray(matrix["indptr"][...]).astype(np.int64), encoding == "csr_matrix"
        n_entries = int(matrix["indices"].shape[0])
        is_sound = len(indptr) == (n_samples if by_rows else n_features) + 1 and (np.diff(indptr) >= 0).all()
        if not is_sound or indptr[0] != 0 or indptr[-1] != n_entries or matrix["data"].shape != (n_entries,):
            raise SourceError(f"indptr, indices and data of {self._matrix} do not fit", str(self.path), "write it anew")
        return Compressed(by_rows, (n_samples, n_features), indptr)

    def _of_obs(self, obs: Any, name: str) -> np.ndarray:
        """Return a column of obs: numbers or texts."""
        columns = sorted(key for key in obs if not key.startswith("_"))
        if name not in columns:
            raise SourceError(f"no column {name!r} in obs{did_you_mean(name, columns)}", str(self.path), _some(columns))
        values, is_missing = _column(obs[name])
        if is_missing.any():
            where = f"{self.path}, obs '{name}', row {int(np.argmax(is_missing))}"
            raise DataError("expected a value, found a missing one", where, "leave these cells out, or pass y")
        return values

    @property
    def target_classes(self) -> list[str] | None:
        """Texts that the target was given as."""
        return self._target_classes

    def estimate_entries(self) -> int:
        """Return how many there are."""
        return int(self._entries.indptr[-1])

    def estimate_target(self) -> TargetKind:
        """Return what the target is taken for."""
        if self._target_classes is not None:
            return TargetKind(len(self._target_classes), is_declared=True)
        return PLAIN_NUMBERS if self._y is None or self._y.ndim != 1 else kind_of(self._y)

    def describe(self) -> dict[str, Any]:
        """Return the files with size, time and SHA-256, and what was read of them."""
        return {**super().describe(), "description": f"{self.path}, {self._matrix}", "shape": list(self._entries.shape)}

    def digest(self) -> str:
        """Return the digest of the bytes of all files, and of the target."""
        given = b"" if self._y is None else self._y.tobytes()
        return hashlib.sha256(super().digest().encode() + given).hexdigest()

    def is_unchanged(self, description: dict[str, Any], digest: str) -> bool:
        """Compare the bytes: the target may come from elsewhere."""
        return self.digest() == digest

    @property
    def encoding(self) -> dict[str, Any]:
        """Which matrix and target."""
        return {"matrix": self._matrix, "targets": list(self.target_names)}

    @property
    def has_parts(self) -> bool:
        """Whether entries stand by rows."""
        return self._entries.by_rows

    def parts(self) -> Sequence[tuple[int, int]]:
        """Return first and last of the rows of each part."""
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
        indptr = self._indptr_of_rows
        band, features, values = range(0), np.empty(0, np.int64), np.empty(0, np.float32)
        with self._reading() as root:
            matrix, start = root[self._matrix], first
            while start < last:
                stop = _reach(indptr, start, block_rows, block_nnz, last)
                if self._entries.by_rows:
                    entries = slice(int(indptr[start]), int(indptr[stop]))
                    found = np.asarray(matrix["indices"][entries]), np.asarray(matrix["data"][entries])
                else:
                    if stop > band.stop:
                        band = range(start, _reach(indptr, start, last, BAND_BLOCKS * block_nnz, last))
                        features, values = self._gather(matrix, band)
                    entries = slice(*(int(indptr[row] - indptr[band.start]) for row in (start, stop)))
                    found = features[entries], values[entries]
                yield self._block(start, start - first, indptr[start : stop + 1] - indptr[start], *found, names)
                start, names = stop, None

    @cached_property
    def _indptr_of_rows(self) -> np.ndarray:
        """Where the entries of each row begin, were they in the order of rows."""
        if self._entries.by_rows:
            return self._entries.indptr
        n_samples = self._entries.shape[0]
        counts = np.zeros(n_samples, np.int64)
        with self._reading() as root:
            indices = root[self._matrix]["indices"]
            for begin in range(0, indices.shape[0], PIECE):
                rows = np.asarray(indices[begin : begin + PIECE])
                self._check_numbers(rows, n_samples)
                counts += np.bincount(rows, minlength=n_samples)
        return np.concatenate([[0], np.cumsum(counts)])

    def _gather(self, matrix: Any, band: range) -> tuple[np.ndarray, np.ndarray]:
        """Return columns and values of the entries of some rows, out of all entries, which stand by columns."""
        indptr = self._indptr_of_rows
        cursors = indptr[band.start : band.stop] - indptr[band.start]
        n_entries = int(indptr[band.stop] - indptr[band.start])
        features, values = np.empty(n_entries, np.uint32), np.empty(n_entries, np.float32)
        for begin in range(0, matrix["indices"].shape[0], PIECE):
            piece = slice(begin, begin + PIECE)
            rows, data = np.asarray(matrix["indices"][piece]), np.asarray(matrix["data"][piece])
            place_by_rows(
                self._entries.indptr,
                begin,
                rows.astype(np.int64),
                data.astype(np.float32),
                band.start,
                cursors,
                features,
                values,
            )
        return features, values

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
            raise DataError(problem, where, "fix the value, or leave the cell out")
        is_next = np.ones(len(features), bool)
        is_next[1:] = np.diff(features.astype(np.int64)) > 0
        is_next[indptr[:-1][np.diff(indptr) > 0]] = True  # the first of each row may be any
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
            raise SourceError(problem, str(self.path), "write it anew")


def _reach(indptr: np.ndarray, start: int, n_rows: int, nnz: int, last: int) -> int:
    """Return where a block ends that begins with a row and has at most so many rows and entries."""
    stop = int(np.searchsorted(indptr, min(int(indptr[start]) + nnz, int(indptr[-1])), "right")) - 1
    return min(max(stop, start + 1), start + n_rows, last)


def _sorted(indptr: np.ndarray, features: np.ndarray, data: np.ndarray, n: int) -> tuple[np.ndarray, ...]:
    """Return rows with ascending columns, each once: what stands twice is added."""
    from scipy.sparse import csr_array

    rows = csr_array((data.copy(), features.astype(np.int64), indptr.astype(np.int64)), (len(indptr) - 1, n))
    rows.sum_duplicates()
    return rows.indptr, rows.indices, rows.data


def _h5py(place: str) -> Any:
    try:
        import h5py
    except ImportError:
        problem = ".h5ad files take h5py, which is not installed"
        raise SourceError(problem, place, "pip install daskfs[cells], or write it as .zarr") from None
    return h5py


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def _values(node: Any) -> np.ndarray:
    """Return an array, of texts as objects."""
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
