"""Every matrix answers every question, and a view answers as its base does, of its own rows.

A capability that is added to `Matrix` has to be examined here and forwarded by the views, or a test fails by itself.
"""

from __future__ import annotations

import pickle
import shutil

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from daskfs.errors import ConfigError, DataError, StoreError
from daskfs.matrix.arrays import ArrayMatrix
from daskfs.matrix.base import Matrix, Reweighted, RowView, WeighedColumns
from daskfs.matrix.blocks import RowBlock, packed, unpacked
from daskfs.matrix.column_weights import ColumnWeights
from daskfs.matrix.names import Names
from daskfs.model_selection.knockoff_columns import KnockoffMatrix, column_blocks
from daskfs.model_selection.second_order import law_of
from daskfs.selectors.online_substitution.stream import ArrivedColumns
from daskfs.sources.plink import PlinkSource
from daskfs.sources.sparse.base import NamedIds, SparseBlock
from daskfs.store.feature_store import FeatureStore, open_store
from daskfs.store.sparse.writer import SparseStoreWriter
from daskfs.store.writer import StoreWriter
from tests.genotype_files import write_plink

N, P = 13, 7
DERIVED = {"bad_column", "bad_value", "column_blocks", "row_blocks", "split", "take", "target", "weighted"}
DERIVED |= {"row_groups", "to_dask_array", "weights_of_columns", "with_column_weights", "declared_groups"}
DERIVED |= {"read_together", "products_of_each", "moments_of_each"}
CAPABILITIES = {name for name in vars(Matrix) if not name.startswith("_")} - DERIVED
VIEWS = (RowView, Reweighted, WeighedColumns)


def values(dtype=np.float32):
    rng = np.random.default_rng(0)
    return (rng.integers(-9, 10, (N, P)) * (rng.random((N, P)) < 0.5)).astype(dtype)


Y, WEIGHT = np.arange(N) * 1.0, np.arange(N)[::-1] + 1.0
CLASSES = [f"class {k}" for k in range(N)]
NAMED = [f"gene{j}" for j in range(P)]


class Places:
    """Stands for what a test of any matrix knows of it: X, y, weight, source row and label of each of its rows."""

    def __init__(self, X, y, weight, source, labels, column_weights=None):
        self.X, self.y, self.weight, self.source, self.labels = X, y, weight, source, labels
        self.column_weights = column_weights

    def taken(self, rows):
        parts = (self.X, self.y, self.weight, self.source, self.labels)
        return Places(*(None if part is None else part[rows] for part in parts), self.column_weights)

    def weighed(self, column_weights):
        return Places(self.X, self.y, self.weight, self.source, self.labels, column_weights)


def in_memory(X, **options):
    dense = X.toarray() if scipy.sparse.issparse(X) else X
    return ArrayMatrix(X, **options), Places(dense, options.get("y"), options.get("weight"), np.arange(N), None)


def with_knockoffs(matrix, known):
    blocks = column_blocks([np.array([0, 4]), *(np.array([j]) for j in (1, 2, 3, 5, 6))], 3)
    made = KnockoffMatrix(matrix, blocks, [law_of(matrix, "mvr", N, block) for block in blocks], seed=1)
    X = made.read(slice(None))  # of which any part is to be read alike
    np.testing.assert_array_equal(made.parted(X)[0], known.X)
    return made, Places(X, known.y, known.weight, known.source, known.labels)


def stored(folder, dtype, shuffle):
    path, X = folder / f"{dtype}-{shuffle}.zarr", values(dtype)
    folds = np.where(np.arange(N) % 3 == 0, "test", "train").astype(object)
    source = {"digest": "1", "target_classes": CLASSES, "table_columns": {"job": [1, 3]}}
    options = {"target_names": ["y"], "has_weight": True, "label_names": ["fold"], "source": source}
    options |= {"feature_names": NAMED, "shuffle": shuffle, "tile_shape": (4, 3)}
    with StoreWriter(path, P, dtype, **options) as writer:
        writer.write(RowBlock(0, N, X, Y, WEIGHT), {"fold": folds})
    store = open_store(path)
    order = np.arange(N) if store.source_rows is None else store.source_rows
    return store, Places(X, Y, WEIGHT, np.arange(N), folds).taken(order)


def stored_sparse(folder, dtype, shuffle):
    path, X = folder / f"sparse-{dtype}.zarr", values(dtype)
    folds = np.where(np.arange(N) % 3 == 0, "test", "train").astype(object)
    options = {"target_names": ["y"], "has_weight": True, "label_names": ["fold"], "shuffle": shuffle}
    options["source"] = {
        "digest": "1",
        "target_classes": CLASSES,
        "table_columns": {"job": [1, 3]},
    }
    texts = [name.encode() for name in NAMED]
    names = NamedIds(np.arange(P), np.frombuffer(b"".join(texts), np.uint8), np.cumsum([0, *map(len, texts)]))
    entries = scipy.sparse.csr_array(X)
    with SparseStoreWriter(path, P, dtype, **options) as writer:
        row_starts, features = entries.indptr.astype(np.int64), entries.indices.astype(np.uint64)
        writer.write(SparseBlock(0, row_starts, features, entries.data, Y, WEIGHT, {"fold": folds}, names))
    store = open_store(path)
    order = np.arange(N) if store.source_rows is None else store.source_rows
    return store, Places(X, Y, WEIGHT, np.arange(N), folds).taken(order)


def genotypes(folder, missing):
    dosages = np.random.default_rng(0).integers(0, 3, (N, P)).astype(np.int8)
    dosages[2, 3] = -1
    path = write_plink(folder / f"{missing}.bed", dosages, NAMED)
    X = dosages.astype(np.float32 if missing == "mean" else np.int8)
    X[2, 3] = np.delete(X[:, 3], 2).mean() if missing == "mean" else 0
    return PlinkSource(path, y=Y, missing=missing).as_matrix(), Places(X, Y, None, np.arange(N), None)


@pytest.fixture(scope="module")
def matrices(tmp_path_factory):
    folder = tmp_path_factory.mktemp("stores")
    (folder / "again").mkdir()
    return {
        "dense": in_memory(values(), y=Y, weight=WEIGHT, feature_names=NAMED),
        "fortran": in_memory(np.asfortranarray(values(np.float64)), y=Y, shuffled=True),
        "int8": in_memory(values(np.int8)),
        "csr": in_memory(scipy.sparse.csr_array(values()), y=Y, weight=WEIGHT),
        "csr of int8": in_memory(scipy.sparse.csr_array(values(np.int8)), feature_names=NAMED),
        "store": stored(folder, "float32", shuffle=False),
        "shuffled store": stored(folder, "float64", shuffle=True),
        "store of int8": stored(folder, "int8", shuffle=True),
        "sparse store": stored_sparse(folder, "float32", shuffle=False),
        "shuffled sparse store": stored_sparse(folder, "float64", shuffle=True),
        "genotypes": genotypes(folder, "zero"),
        "genotypes with means": genotypes(folder, "mean"),
        "knockoffs": with_knockoffs(*in_memory(values(), y=Y, weight=WEIGHT, feature_names=NAMED)),
        "knockoffs of a store": with_knockoffs(*stored(folder / "again", "float64", shuffle=True)),
    }


KINDS = ("dense", "fortran", "int8", "csr", "csr of int8", "store", "shuffled store", "store of int8")
KINDS += ("sparse store", "shuffled sparse store", "genotypes", "genotypes with means")
KINDS += ("knockoffs", "knockoffs of a store")


@st.composite
def views(draw, kind, matrix, known):
    """A matrix, rows of it, other weights, or several of these on top of each other; and what is known of it."""
    for _ in range(draw(st.integers(0, 3))):
        n = matrix.shape[0]
        kind = draw(st.sampled_from(["rows", "weight", "weights of columns"]))
        if kind == "rows":
            start = draw(st.integers(0, n - 1))
            consecutive = st.integers(start + 1, n).map(lambda stop, start=start: list(range(start, stop)))
            anyhow = st.lists(st.integers(0, n - 1), min_size=1, max_size=2 * N)
            rows = np.array(draw(st.one_of(consecutive, anyhow)), dtype=np.int64)
            matrix, known = matrix.take(rows), known.taken(rows)
        elif kind == "weights of columns":
            matrix = matrix.with_column_weights(ColumnWeights((draw(st.integers(0, 9)),), 0.5))
            known = known.weighed(matrix.column_weights)
        else:
            weight = draw(st.none() | st.lists(st.integers(0, 9), min_size=n, max_size=n))
            weight = None if weight is None else np.array(weight, dtype=np.float64)
            matrix = matrix.weighted(weight)
            known = Places(known.X, known.y, weight, known.source, known.labels, known.column_weights)
    return matrix, known


def selections(length):
    bounds = st.tuples(st.integers(0, length), st.integers(0, length)).map(lambda two: slice(min(two), max(two)))
    return st.just(slice(None)) | bounds | st.lists(st.integers(0, length - 1), min_size=1).map(np.array)


def same(found, expected):
    if expected is None:
        assert found is None
    else:
        np.testing.assert_array_equal(found, expected)


def dense_of_rows(entries, p):
    made = (entries.data, entries.indices, entries.indptr)
    return scipy.sparse.csr_array(made, shape=(len(entries.indptr) - 1, p)).toarray()


def dense_of_columns(entries):
    starts = entries.indptr - entries.indptr[0]
    here = slice(entries.indptr[0], entries.indptr[-1])
    shape = (entries.n_base_rows, len(starts) - 1)
    whole = scipy.sparse.csc_array((entries.data[here], entries.indices[here], starts), shape=shape).toarray()
    return whole if entries.taken is None else whole[entries.taken]


class Examination:
    """One method for each capability: of a matrix, its base of bases, and what is known; any rows and columns."""

    def __init__(self, matrix, root, known, rows, columns):
        self.matrix, self.root, self.known, self.rows, self.columns = matrix, root, known, rows, columns

    def read(self):
        expected = self.known.X[self.rows][:, self.columns]
        block = self.matrix.read(self.rows, self.columns)
        same(block, expected)
        assert block.flags.c_contiguous
        assert block.dtype == self.matrix.dtype == expected.dtype
        out = np.empty(expected.shape, expected.dtype)
        assert self.matrix.read(self.rows, self.columns, out) is out
        same(out, expected)

    def read_target(self):
        same(self.matrix.read_target(self.rows), None if self.known.y is None else self.known.y[self.rows])
        same(self.matrix.read_target(), self.known.y)

    def read_weight(self):
        same(self.matrix.read_weight(self.rows), None if self.known.weight is None else self.known.weight[self.rows])
        same(self.matrix.read_weight(), self.known.weight)

    def column_weights(self):
        assert self.matrix.column_weights == self.known.column_weights
        found = self.matrix.weights_of_columns(self.columns)
        if self.known.column_weights is None:
            assert found is None
        else:
            same(found, self.known.column_weights.of(slice(None), self.matrix.shape[1])[self.columns])

    def source_rows(self):
        same(
            np.arange(len(self.known.X)) if self.matrix.source_rows is None else self.matrix.source_rows,
            self.known.source,
        )

    def source_row(self):
        for row in range(len(self.known.X)):
            assert self.matrix.source_row(row) == self.known.source[row]

    def target_names(self):
        assert self.matrix.target_names == self.root.target_names
        assert self.root.target_names or not isinstance(self.root, FeatureStore)

    def description(self):
        assert self.matrix.description == self.root.description

    def labels(self):
        if self.known.labels is None:
            with pytest.raises(ConfigError, match="no column 'fold'"):
                self.matrix.labels("fold")
        else:
            same(self.matrix.labels("fold"), self.known.labels)

    def sparse_rows(self):
        entries = self.matrix.sparse_rows(self.rows)
        assert (entries is None) == (self.root.sparse_rows(slice(None)) is None)
        if entries is not None:
            same(dense_of_rows(entries, P), self.known.X[self.rows])

    def entry_counts(self):
        counts = self.matrix.entry_counts(self.rows)
        assert (counts is None) == (self.root.sparse_rows(slice(None)) is None)
        if counts is not None:
            assert counts.dtype == np.int64
            same(counts, (self.known.X[self.rows] != 0).sum(axis=1))

    def crowding(self):
        found = self.matrix.crowding()
        assert (found is None) == (not isinstance(self.root, FeatureStore) or not self.root.is_sparse)
        if found is not None:
            is_entry = self.root.read(slice(None)) != 0
            assert found.rows.of(1) == is_entry.sum(axis=1).max()
            assert found.columns.of(1) == is_entry.sum(axis=0).max()
            assert found.block == found.rows[-1] == found.columns[-1] == is_entry.sum()

    def sparse_columns(self):
        entries = self.matrix.sparse_columns(self.columns)
        assert (entries is None) == (self.root.sparse_columns(slice(None)) is None)
        if entries is not None:
            same(dense_of_columns(entries), self.known.X[:, self.columns])

    def column_view(self):
        columns = self.columns if isinstance(self.columns, slice) else slice(1, 4)
        view, whole = self.matrix.column_view(columns), self.root.column_view(slice(None))
        if view is not None:
            same(view, self.known.X[:, columns])
            assert view.size == 0 or np.shares_memory(view, whole)
        elif self.matrix.base is self.root and isinstance(self.matrix.at(0, len(self.known.X)), slice):
            assert whole is None

    def strips(self):
        columns = self.columns if isinstance(self.columns, slice) else slice(1, 4)
        passing, expected = self.matrix.strips(self.rows, columns), self.known.X[self.rows][:, columns]
        if passing is None:
            is_one = isinstance(self.matrix, FeatureStore) or self.matrix.base is self.root
            is_plain = is_one and isinstance(self.matrix.at(0, len(self.known.X)), slice)
            has_tiles = isinstance(self.root, FeatureStore) and not self.root.is_sparse
            assert not (is_plain and has_tiles and isinstance(self.rows, slice))
            return
        found, n_lines = np.zeros(expected.shape, expected.dtype), np.zeros(expected.shape, int)
        for strip in passing:
            rows = slice(strip.first, strip.first + strip.n_rows)
            found[rows, strip.columns] = strip.values if strip.lines is None else strip.values[strip.lines]
            n_lines[rows, strip.columns] += 1
            assert strip.values.strides[1] == strip.values.itemsize or strip.values.shape[1] == 1
            assert rows.start == 0 or n_lines[rows.start - 1, strip.columns].all()
        same(found, expected)
        assert (n_lines == 1).all()

    def column_statistics(self):
        found = self.matrix.column_statistics()
        if found is not None:
            same(found.minimum, self.known.X.min(axis=0))
            same(found.maximum, self.known.X.max(axis=0))
            np.testing.assert_allclose(found.mean, self.known.X.mean(axis=0), rtol=1e-6, atol=1e-12)
            np.testing.assert_allclose(found.std, self.known.X.std(axis=0), rtol=1e-5, atol=1e-12)
            assert not found.n_missing.any()
        elif isinstance(self.matrix, Reweighted) and self.matrix._matrix is self.root:
            assert self.root.column_statistics() is None

    def column_products(self):
        columns = self.columns if isinstance(self.columns, slice) else slice(1, 4)
        vectors = np.random.default_rng(0).standard_normal((2, len(self.known.X)))
        found = self.matrix.column_products(columns, vectors)
        assert (found is None) == (self.root.column_products(slice(0, 1), np.zeros((0, N))) is None)
        if found is not None:
            np.testing.assert_allclose(found, vectors @ self.known.X[:, columns], rtol=1e-12, atol=1e-12)

    def column_moments(self):
        columns, weight = self.columns if isinstance(self.columns, slice) else slice(1, 4), np.zeros(len(self.known.X))
        weight[self.rows] = 0.1 + np.random.default_rng(0).random(len(weight[self.rows]))
        if not weight.any():
            return
        found, X = self.matrix.column_moments(columns, weight), self.known.X[weight > 0.0][:, columns].astype(float)
        assert (found is None) == (self.root.column_products(slice(0, 1), np.zeros((0, N))) is None)
        if found is not None:
            share = weight[weight > 0.0] / weight.sum()
            same(found.minimum, X.min(axis=0))
            same(found.maximum, X.max(axis=0))
            np.testing.assert_allclose(found.mean, share @ X, rtol=1e-12)
            np.testing.assert_allclose(found.std, np.sqrt(share @ (X - share @ X) ** 2), atol=1e-12)
            assert (found.std[found.minimum == found.maximum] == 0.0).all()

    def base(self):
        assert not isinstance(self.matrix.base, RowView)
        assert self.matrix.base.base is self.matrix.base
        assert pickle.loads(pickle.dumps(self.matrix.base)).shape == self.matrix.base.shape

    def at(self):
        for start, stop in ((0, len(self.known.X)), (0, 1), (len(self.known.X) // 2, len(self.known.X))):
            rows = self.matrix.at(start, stop)
            same(self.matrix.base.read(rows), self.known.X[start:stop])
            same(
                self.matrix.base.read_weight(rows), None if self.known.weight is None else self.known.weight[start:stop]
            )

    def names(self):
        assert isinstance(self.matrix.names, Names)
        same(np.asarray(self.matrix.names), np.asarray(self.root.names))
        assert self.matrix.names.are_given == self.root.names.are_given

    def tile_shape(self):
        assert self.matrix.tile_shape == self.root.tile_shape

    def is_resident(self):
        assert self.matrix.is_resident is self.root.is_resident

    def ahead_nbytes(self):
        assert self.matrix.ahead_nbytes == self.root.ahead_nbytes == 0  # of objects elsewhere: tests/objects

    def rows_are_random(self):
        assert self.matrix.rows_are_random is self.root.rows_are_random

    def identity(self):
        assert self.matrix.identity == self.root.identity

    def target_classes(self):
        assert self.matrix.target_classes == self.root.target_classes

    def table_columns(self):
        n_of_each = self.root.shape[1] // P  # a knockoff belongs to its column's
        of_table = [NAMED[0], "job", "job", *NAMED[3:]]
        expected = None if self.root.target_classes is None else [name for name in of_table for _ in range(n_of_each)]
        found = self.matrix.table_columns
        assert (None if found is None else found.tolist()) == expected

    def rows_together(self):
        labels = np.arange(1000) // 3
        n_together = np.bincount(self.known.source // 3).max(initial=0)
        if 2 * n_together >= len(self.known.X):  # one side may have no rows
            assert self.matrix.rows_together is None
            return
        side, _ = self.matrix.split(0.5, "random", 0, labels)
        assert side.rows_together is labels
        assert side.weighted(None).take(np.arange(2)).rows_together is labels
        np.testing.assert_array_equal(side.declared_groups, side.row_groups(labels))

    def encoder(self):
        assert self.matrix.encoder == self.root.encoder

    def annotations(self):
        columns = np.arange(self.matrix.shape[1])[self.columns]
        found, expected = self.matrix.annotations(columns), self.root.annotations(columns)
        assert found.keys() in (expected.keys(), set())  # genotypes that have travelled have left them behind
        for name, values in found.items():
            np.testing.assert_array_equal(values, expected[name])

    def of_table(self):
        assert self.matrix.of_table is self.root.of_table

    def exists(self):
        assert self.matrix.exists() is self.root.exists() is True

    def verify_unchanged(self):
        assert self.matrix.verify_unchanged() is None


def test_every_capability_is_examined():
    examined = {name for name in vars(Examination) if not name.startswith("_")}
    assert examined == CAPABILITIES, "examine it here and forward it in the views; or it follows from others: DERIVED"


@pytest.mark.parametrize("view", VIEWS)
def test_every_capability_is_forwarded(view):
    own = {name for one in view.__mro__[: view.__mro__.index(Matrix)] for name in vars(one)}
    assert CAPABILITIES - own == set()


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
def test_a_view_answers_as_its_base_of_its_own_rows(matrices, kind, data):
    root, known = matrices[kind]
    matrix, known = data.draw(views(kind, root, known))
    rows, columns = data.draw(selections(len(known.X))), data.draw(selections(P))
    assert matrix.shape == known.X.shape
    for travelled in (matrix, pickle.loads(pickle.dumps(matrix))):
        examination = Examination(travelled, root, known, rows, columns)
        of_the_same_memory = {"column_view", "base"} if travelled is not matrix else set()
        for name in sorted(CAPABILITIES - of_the_same_memory):
            getattr(examination, name)()


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
def test_what_follows_from_capabilities_is_right_of_every_view(matrices, kind, data):
    root, known = matrices[kind]
    matrix, known = data.draw(views(kind, root, known))
    n = len(known.X)
    same(matrix.target, known.y)
    same(np.vstack([block.X for block in matrix.row_blocks(block_rows=4)]), known.X)
    same(np.hstack([block.X for block in matrix.column_blocks(block_columns=2)]), known.X)
    for block in matrix.row_blocks(block_rows=5):
        same(block.weight, None if known.weight is None else known.weight[block.start : block.stop])
    same(matrix.take(known.X[:, 0] >= 0).read(slice(None)), known.X[known.X[:, 0] >= 0])
    row, column = data.draw(st.integers(0, n - 1)), data.draw(st.integers(0, P - 1))
    name = f"'{root.names[column]}'" if root.names.are_given else str(column)
    fault = str(matrix.bad_value(row, column, np.nan))
    assert fault.startswith(f"column {name}, row {known.source[row]}: expected finite numbers, found NaN")
    assert f"target, row {known.source[row]}: " in str(matrix.bad_value(row, "target", -np.inf))


def test_a_column_says_which_row_of_the_source_is_bad(tmp_path):
    X = values()
    matrix = ArrayMatrix(X, feature_names=NAMED)
    matrix._X = X.copy()
    matrix._X[[4, 9], 3] = np.inf
    assert "column 'gene3', row 9: expected finite numbers, found infinity" in str(matrix.take([1, 9, 4]).bad_column(3))
    assert "column 'gene2': its values are too large" in str(matrix.bad_column(2))


def test_columns_that_came_and_went_answer_too():
    matrix = ArrivedColumns(N, np.dtype(np.float32))
    matrix.add(2, Names(2, np.array(["a", "b"], dtype=object)))
    for one in (matrix, matrix.take(np.arange(3)), matrix.weighted(None)):
        assert one.shape[1] == 2
        assert list(one.names) == ["a", "b"]
        assert one.sparse_columns(slice(None)) is one.column_view(slice(None)) is one.column_statistics() is None
        assert one.strips(slice(None), slice(None)) is None
        with pytest.raises(DataError, match="not kept"):
            one.read(slice(None))


def test_weights_of_another_length_are_refused():
    with pytest.raises(DataError, match="expected 13 weights"):
        ArrayMatrix(values()).weighted(np.ones(5))


@pytest.mark.parametrize("shuffle", [False, True])
def test_a_store_that_was_replaced_is_told_by_every_view_of_it(tmp_path, shuffle):
    store, _ = stored(tmp_path, "float32", shuffle)
    shutil.rmtree(store.path)
    stored(tmp_path, "float64", shuffle)[0].path.rename(store.path)
    for matrix in (
        store,
        store.take(np.arange(3)),
        store.weighted(None),
        store.take(np.arange(5)).weighted(np.ones(5)),
    ):
        with pytest.raises(StoreError, match="no longer the one that was opened"):
            matrix.verify_unchanged()


@given(hnp.arrays(np.int64, st.integers(0, 40), elements=st.integers(0, 300)), st.booleans())
def test_packed_rows_are_those_that_were_packed(rows, is_sorted):
    rows = np.unique(rows) if is_sorted else rows
    np.testing.assert_array_equal(unpacked(packed(rows)), rows)
    assert unpacked(packed(slice(3, 9))) == slice(3, 9)


def test_packed_rows_take_a_bit_for_each_row_between():
    rows = np.flatnonzero(np.random.default_rng(0).random(100_000) < 0.8)
    assert len(pickle.dumps(packed(rows))) < 100_000 / 8 + 1000
