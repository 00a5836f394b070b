"""SciPy's sparse matrices, in memory or in .npz files, as the source of a store."""

from __future__ import annotations

import hashlib
import shlex
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Annotated, Any

import numpy as np

from daskfs import errors
from daskfs.documents import PATH
from daskfs.files import Location
from daskfs.losses import PLAIN_NUMBERS, TargetKind
from daskfs.matrix.arrays import as_column, as_targets
from daskfs.matrix.target import kind_of
from daskfs.objects.address import redacted
from daskfs.sources.arrays import coded_texts, name_targets
from daskfs.sources.files import as_file, is_path
from daskfs.sources.npy import array_of, existing, names_of
from daskfs.sources.options import SparseOptions
from daskfs.sources.sparse.base import MOST_COLUMNS, NamedIds, SparseBlock, SparseSource
from daskfs.store.row_checks import check_names

DataError = errors.DataError.about("sparse-rows")
SourceError = errors.SourceError.about("sparse-rows")


class NpzOptions(SparseOptions):
    """A sparse matrix saved with `scipy.sparse.save_npz`."""

    path: Annotated[str, PATH]
    y: Annotated[str | None, PATH] = None
    weight: Annotated[str | None, PATH] = None
    names: Annotated[str | None, PATH] = None
    target: str | None = None


class MatrixSource(SparseSource):
    """A scipy.sparse matrix as the source of a sparse store.

    Parameters
    ----------
    path : scipy.sparse matrix or array of shape (n_samples, n_features), or path of a .npz file of one
    y : array-like of shape (n_samples,) or (n_samples, n_targets), or path of a .npy file of it, optional
    weight : array-like of shape (n_samples,), or path of a .npy file of it, optional
    names : sequence of str, or path of a text file with one name per line, optional
        One name for each column.
    target : str or list of str, optional
        Name of `y`.

    Raises
    ------
    SourceError
        The file does not exist, or is not a sparse matrix, or not text.
    DataError
        Shapes that do not match, indices beyond the shape, values that are not numbers, duplicate names, or names that
        are not valid Unicode.
    """

    kind, options = "npz", NpzOptions

    def __init__(
        self,
        path: Any,
        y: Any = None,
        weight: Any = None,
        names: Any = None,
        target: str | Sequence[str] | None = None,
    ) -> None:
        is_file = is_path(path)
        self._description = redacted(str(path)) if is_file else "sparse matrix in memory"
        self._X = _canonical(_loaded(existing(path)) if is_file else path, self._description)
        self.n_samples, self.n_features = (int(length) for length in self._X.shape)
        self.notes = []
        y, self._target_classes = coded_texts(array_of(y), self.notes)
        self._y = None if y is None else as_targets(y, self.n_samples)
        weight = array_of(weight)
        self._weight = None if weight is None else as_column(weight, self.n_samples, "weight")
        self.has_weight = weight is not None
        self.target_names = name_targets(self._y, [target] if isinstance(target, str) else target)
        names = names_of(names)
        self._names = None if names is None else check_names(names, self.n_features)

    @property
    def column_names(self) -> Sequence[str] | None:
        """The names passed as `names`."""
        return self._names

    @property
    def target_classes(self) -> list[str] | None:
        """Original texts of the target's codes."""
        return self._target_classes

    def describe(self) -> dict[str, Any]:
        """Return kind, shape and dtype."""
        facts = {"description": self._description, "shape": list(self._X.shape), "dtype": str(self._X.dtype)}
        return {"kind": self.kind, **facts}

    def digest(self) -> str:
        """Return the SHA-256 of values, shapes and dtypes; the same for equal matrices in any sparse format."""
        sha256 = hashlib.sha256(f"{self._X.shape} {self._X.dtype}".encode())
        parts = (self._X.indptr.astype(np.int64), self._X.indices.astype(np.int64), self._X.data, self._y, self._weight)
        for part in parts:
            if part is not None:
                sha256.update(f"{part.shape} {part.dtype}".encode())
                sha256.update(np.ascontiguousarray(part).data)
        return sha256.hexdigest()

    @property
    def encoding(self) -> dict[str, Any]:
        """Names of features and targets: a matrix with other names gives another store."""
        joined = "" if self._names is None else "\n".join(self._names)
        return {"features": hashlib.sha256(joined.encode()).hexdigest(), "targets": list(self.target_names)}

    def estimate_entries(self) -> int:
        """Return the number of entries."""
        return len(self._X.data)

    def estimate_target(self) -> TargetKind:
        """Return the inferred kind of target."""
        if self._target_classes is not None:
            return TargetKind(len(self._target_classes), is_declared=True)
        return PLAIN_NUMBERS if self._y is None or self._y.ndim != 1 else kind_of(self._y)

    def check(self) -> None:
        """Refuse a matrix without rows or columns, or with more columns than a store supports."""
        if 0 in self._X.shape:
            problem = f"expected at least one row and one column, found shape {self._X.shape}"
            raise SourceError(problem, self._description, "check how the matrix was made")
        if self._X.shape[1] > MOST_COLUMNS:
            problem = f"expected at most {MOST_COLUMNS:,} columns, found {self._X.shape[1]:,}"
            raise SourceError(problem, self._description, "write it as libsvm, whose indices may be 64-bit ids")

    def sparse_blocks(self, block_rows: int, block_nnz: int) -> Iterator[SparseBlock]:
        """Yield consecutive rows."""
        self.check()
        indptr, start, names = self._X.indptr, 0, None if self._names is None else NamedIds.of_columns(self._names)
        n_samples = len(indptr) - 1
        while start < n_samples:
            stop = int(np.searchsorted(indptr, int(indptr[start]) + block_nnz, "right")) - 1
            stop = min(max(stop, start + 1), start + block_rows, n_samples)
            entries, rows = slice(int(indptr[start]), int(indptr[stop])), slice(start, stop)
            yield SparseBlock(
                start,
                indptr[start : stop + 1].astype(np.int64) - entries.start,
                self._X.indices[entries].astype(np.uint64),
                self._X.data[entries],
                None if self._y is None else self._y[rows],
                None if self._weight is None else self._weight[rows],
                names=names,
            )
            start, names = stop, None


def _loaded(path: Location) -> Any:
    """Return the sparse matrix in a file."""
    import scipy.sparse

    try:
        return scipy.sparse.load_npz(as_file(path))
    except Exception as fault:  # many kinds of errors occur for bytes that are no matrix
        said = (
            " ".join(f"{type(fault).__name__}: {fault}".split())[:120]
            if zipfile.is_zipfile(as_file(path))
            else "not an archive"
        )
        problem = f"expected a sparse matrix in an .npz file, found none ({said})"
        remedy = _of_dense(path) or "save it with scipy.sparse.save_npz, or a dense array with numpy.save as .npy"
        raise SourceError(problem, str(path), remedy) from None


def _of_dense(path: Location) -> str:
    """Return the command that converts the dense arrays of an archive to .npy files; "" if there are none."""
    with suppress(Exception), np.load(as_file(path), allow_pickle=False) as arrays:
        (matrix,) = (name for name in arrays.files if arrays[name].ndim == 2)
        n_rows = len(arrays[matrix])
        targets = [name for name in arrays.files if arrays[name].shape == (n_rows,)][:1]
        saved = "; ".join(f"numpy.save({f'{path.stem}.{name}.npy'!r}, a[{name!r}])" for name in (matrix, *targets))
        command = shlex.join(["python", "-c", f"import numpy; a = numpy.load({path.name!r}); {saved}"])
        y = f", y: {path.stem}.{targets[0]}.npy" if targets else ""
        return f"its arrays are dense: `{command}`; then source: {{kind: npy, path: {path.stem}.{matrix}.npy{y}}}"
    return ""


def _canonical(X: Any, where: str) -> Any:
    """Return a CSR copy with ascending, distinct columns; the argument is not changed."""
    if X.dtype.kind not in "biuf":
        raise DataError(f"expected a numeric matrix, found {X.dtype}", where, "convert it to float32")
    try:
        if hasattr(X, "check_format"):  # load_npz does not check the indices
            X.check_format(full_check=True)
        rows = X.tocsr()
    except (ValueError, IndexError, OverflowError, MemoryError) as fault:
        problem = f"the indices of the matrix contradict its shape {X.shape}: {fault}"
        raise DataError(problem, where, "create the matrix again") from None
    if not rows.has_canonical_format:
        rows = rows.copy() if rows is X else rows
        rows.sum_duplicates()
    return rows
