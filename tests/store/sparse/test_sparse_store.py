"""What goes into a sparse store comes out: by rows, by columns, dense, with its names, in the order of a dense one."""

from __future__ import annotations

import json
import pickle
import re
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
import zarr
from hypothesis import given
from hypothesis import strategies as st

import daskfs
from daskfs.errors import ConfigError, DataError, PlanError, StoreFormatError
from daskfs.matrix.names import Names
from daskfs.sources.sparse.matrices import MatrixSource
from daskfs.store.feature_store import open_store
from tests.refusals import refused
from tests.store.sparse.lab import blocks_of, files_of, named_ids, random_matrix, small_cuts, written

selections = st.one_of(
    st.just(slice(None)),
    st.tuples(st.integers(0, 30), st.integers(0, 30)).map(lambda two: slice(min(two), max(two))),
    st.lists(st.integers(0, 29), max_size=40).map(lambda some: np.array(some, dtype=np.int64)),
)


@pytest.fixture(scope="module")
def cut_store(tmp_path_factory):
    """20,000 x 30 in blocks of rows of which some are empty, in small chunks, and the same dense."""
    with pytest.MonkeyPatch.context() as patch:
        small_cuts(patch, entries=1024)
        X = random_matrix(20_000, 30, 0.02, kind="int8").tolil()
        X[9000:16_500] = 0
        X[:, 7] = 0
        X = X.tocsr()
        yield (
            written(tmp_path_factory.mktemp("cut") / "s.zarr", blocks_of(X, at_once=3000), 30, shuffle=False),
            X.toarray(),
        )


@given(
    columns=selections, first=st.integers(0, 19_999), length=st.integers(0, 9000), some=st.lists(st.integers(0, 19_999))
)
def test_rows_and_columns_are_read_as_they_were_written(cut_store, columns, first, length, some):
    store, X = cut_store
    for rows in (slice(first, first + length), np.array(some, dtype=np.int64)):
        np.testing.assert_array_equal(store.read(rows, columns), X[rows][:, columns])
        np.testing.assert_array_equal(store.read(rows), X[rows])
        found = store.sparse_rows(rows)
        assert found.indptr.dtype == np.int64
        assert found.indices.dtype == np.int32
        csr = sp.csr_array((found.data, found.indices, found.indptr), shape=X[rows].shape)
        assert csr.has_canonical_format
        np.testing.assert_array_equal(csr.toarray(), X[rows])
    found = store.sparse_columns(columns)
    expected = X[:, columns]
    csc = sp.csc_array((found.data, found.indices, found.indptr), shape=expected.shape)
    assert csc.has_canonical_format
    np.testing.assert_array_equal(csc.toarray(), expected)
    assert (found.n_base_rows, found.taken) == (len(X), None)


def test_a_block_is_read_into_what_is_given_in_either_order(cut_store):
    store, X = cut_store
    for out in (np.full((20_000, 4), 9, np.float32), np.full((4, 20_000), 9, np.float32).T):
        assert store.read(slice(None), slice(3, 7), out) is out
        np.testing.assert_array_equal(out, X[:, 3:7])
    with pytest.raises(ValueError, match="expected `out` of shape"):
        store.read(slice(0, 4), slice(0, 2), np.empty((4, 3), np.float32))


@pytest.mark.parametrize(("kind", "stored"), [("ones", "ones"), ("int8", "int8"), ("normal", "float32")])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int8"])
def test_values_are_stored_as_small_as_all_of_them_allow(tmp_path, kind, stored, dtype):
    X = random_matrix(kind=kind)
    if dtype == "int8" and kind == "normal":
        with pytest.raises(DataError, match=r"feature \d+, row \d+: expected a whole number from -128 to 127"):
            written(tmp_path / "s.zarr", blocks_of(X), 40, dtype)
        assert not any(tmp_path.iterdir())
        return
    store = written(tmp_path / "s.zarr", blocks_of(X), 40, dtype, shuffle=False)
    assert store.header.values == (dtype if kind == "normal" else stored)
    assert store.dtype == store.read(slice(0, 1)).dtype == store.sparse_rows(slice(0, 9)).data.dtype == dtype
    np.testing.assert_array_equal(store.read(slice(None)), X.toarray())


def test_rows_stand_in_the_order_of_a_dense_store(tmp_path):
    X, y = random_matrix(5000, 20), np.arange(5000.0)
    dense = daskfs.ingest(X.toarray(), tmp_path / "dense.zarr", y=y, random_state=7)
    sparse = daskfs.ingest(X, tmp_path / "sparse.zarr", y=y, random_state=7)
    np.testing.assert_array_equal(sparse.source_rows, dense.source_rows)
    np.testing.assert_array_equal(sparse.target, dense.target)
    np.testing.assert_array_equal(sparse.read(slice(None)), dense.read(slice(None)))
    for ours, theirs in zip(sparse.split(0.2), dense.split(0.2), strict=True):
        np.testing.assert_array_equal(ours.read(slice(None)), theirs.read(slice(None)))


def test_statistics_are_those_of_the_values(tmp_path):
    X = random_matrix(20_000, 12, 0.3)
    X = X.tolil()
    X[:, 3] = 5.0
    X[:, 4] = 0.0
    X = X.tocsr()
    store, dense = daskfs.ingest(X, tmp_path / "s.zarr"), X.toarray().astype(np.float64)
    np.testing.assert_allclose(store.mean, dense.mean(axis=0), rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(store.std, dense.std(axis=0), rtol=1e-10)
    assert store.std[3] == store.std[4] == 0.0
    np.testing.assert_array_equal(store.minimum, dense.min(axis=0))
    np.testing.assert_array_equal(store.maximum, dense.max(axis=0))
    assert not store.n_missing.any()
    assert any("2 constant feature(s)" in note for note in store.notes)


@pytest.mark.nightly
@pytest.mark.parametrize("has_ids", [False, True])
@pytest.mark.parametrize("shuffle", [False, True])
def test_neither_blocks_nor_memory_change_a_byte(tmp_path, has_ids, shuffle):
    X = random_matrix(20_000, 3000, 0.01, kind="int8")
    rng = np.random.default_rng(3)
    ids = np.sort(rng.integers(0, 2**64, 3000, dtype=np.uint64)) if has_ids else None
    named = named_ids(np.arange(3000) if ids is None else ids, [f"word {j}" for j in range(3000)])
    options = {"has_ids": has_ids, "shuffle": shuffle, "n_features": None if has_ids else 3000}
    whole = written(tmp_path / "whole.zarr", blocks_of(X, ids, at_once=30_000, named=named), **options)
    small = written(
        tmp_path / "small.zarr", blocks_of(X, ids, at_once=61, named=named), **options, memory_limit=20 << 20
    )
    assert files_of(small).keys() == files_of(whole).keys()
    for name, digest in files_of(whole).items():
        assert files_of(small)[name] == digest, name
    assert whole.digest == small.digest


def test_ids_become_columns_in_ascending_order(tmp_path):
    X = random_matrix(500, 60)
    X = X[:, np.flatnonzero(np.diff(X.tocsc().indptr))]  # an id occurs, or is no column
    ids = np.sort(np.random.default_rng(1).integers(0, 2**64, X.shape[1], dtype=np.uint64))
    ids[[0, -1]] = 0, 2**64 - 1
    store = written(tmp_path / "s.zarr", blocks_of(X, ids), has_ids=True, shuffle=False)
    assert store.shape == X.shape
    np.testing.assert_array_equal(store.read(slice(None)), X.toarray())
    assert list(store.names) == [str(number) for number in ids.tolist()]
    assert store.names[-1] == str(2**64 - 1)
    assert store.names.index(str(ids[5])) == 5
    assert store.names.describe(5) == f"column of id {ids[5]}"


@pytest.mark.parametrize("has_ids", [False, True])
@pytest.mark.parametrize("share", ["all", "some", "none"])
def test_columns_have_names_where_the_source_named_them(tmp_path, monkeypatch, has_ids, share):
    small_cuts(monkeypatch)
    X = random_matrix(400, 50, 0.3)
    ids = np.arange(50, dtype=np.uint64) * 1_000_003 + 7 if has_ids else None
    of = {"all": np.arange(50), "some": np.array([2, 3, 17, 49]), "none": np.arange(0)}[share]
    texts = {int(j): f"wörd{j}" if j != 17 else "" for j in of}
    named = named_ids((of if ids is None else ids[of]), texts.values())
    store = written(tmp_path / "s.zarr", blocks_of(X, ids, named=named), None if has_ids else 50, has_ids=has_ids)
    bare = [str(number) for number in ids.tolist()] if has_ids else [f"x{j}" for j in range(50)]
    expected = [texts.get(j, bare[j]) for j in range(50)]
    assert isinstance(store.names, Names)
    assert list(store.names) == list(store.feature_names) == expected
    assert [store.names[j] for j in range(50)] == expected
    assert list(store.names[[49, 2, 30]]) == [expected[49], expected[2], expected[30]]
    assert [store.names.index(name) for name in expected] == list(range(50))
    assert store.names.are_default == (share == "none" and not has_ids)
    assert store.header.n_names == len(of)
    with refused(DataError, "shapes", at="names", naming=["column"]):
        store.names.index("nowhere")


def test_of_two_names_of_one_id_the_first_is_kept_and_it_is_said(tmp_path):
    X = random_matrix(200, 4, 0.5)
    blocks = list(blocks_of(X, at_once=100))
    blocks[0].names = named_ids([1, 2], ["one", "two"])
    blocks[1].names = named_ids([2, 3], ["zwei", "three"])
    store = written(tmp_path / "s.zarr", blocks, 4)
    assert list(store.names) == ["x0", "one", "two", "three"]
    assert "several names have the same id; the first one is kept, for example 'two'" in store.notes


def test_every_array_is_what_zarr_reads(cut_store):
    store, X = cut_store
    group = zarr.open_group(store.path, mode="r")
    entries = X.nonzero()
    assert group["X/offsets"].shape == (len(entries[0]),)
    assert group["X/values"][:].astype(int).sum() == X.sum()
    assert group["X/counts"][:].sum() == len(entries[0])
    for name in ("X/offsets", "X/values", "X/columns", "X/counts", "X/blocks", "X/marks", "statistics/mean"):
        np.testing.assert_array_equal(group[name][:], store._open(name).read())


def test_a_sparse_store_travels_as_its_address(cut_store):
    store, X = cut_store
    sent = pickle.dumps(store)
    assert len(sent) < 400
    np.testing.assert_array_equal(pickle.loads(sent).read(slice(5, 9)), X[5:9])


def test_info_and_page_say_what_it_is(cut_store):
    store, X = cut_store
    facts = store.info()
    assert (facts["n_entries"], facts["values"]) == (np.count_nonzero(X), "int8")
    assert facts["density"] == np.count_nonzero(X) / X.size
    assert facts["most_in_a_row"] == np.count_nonzero(X, axis=1).max()
    assert facts["most_in_a_column"] == np.count_nonzero(X, axis=0).max()
    assert (facts["features_by"], facts["named_features"]) == ("number", "none")
    json.dumps(facts)
    assert "Entries" in store._repr_html_()
    assert "stored as int8" in store._repr_html_()


def test_zeros_are_no_entries(tmp_path):
    X = random_matrix()
    X.data[::3] = 0.0
    store = written(tmp_path / "s.zarr", blocks_of(X), 40, shuffle=False)
    assert store.n_entries == np.count_nonzero(X.data)
    np.testing.assert_array_equal(store.read(slice(None)), X.toarray())


@pytest.mark.slow
def test_a_matrix_of_zeros_and_a_row_of_many_entries_are_stored(tmp_path):
    store = written(tmp_path / "zeros.zarr", blocks_of(sp.csr_array((30, 5), dtype=np.float32)), 5)
    assert not store.read(slice(None)).any()
    assert store.sparse_columns(slice(None)).indptr.tolist() == [0] * 6
    assert store.verify() == []
    X = sp.csr_array(np.ones((1, 100_000), np.float32))
    store = written(tmp_path / "wide.zarr", blocks_of(X))
    assert store.shape == (1, 100_000)
    assert store.read(slice(None), np.array([99_999])).tolist() == [[1.0]]


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (
            lambda block: block.features.__setitem__(slice(0, 2), [9, 9]),
            "distinct features in ascending order, found 9 after 9",
        ),
        (lambda block: block.features.__setitem__(-1, 50), "row 96: expected columns below 40, found 50"),
        (lambda block: block.data.__setitem__(0, np.nan), r"feature \d+, row 0: expected a number, found NaN"),
        (lambda block: block.data.__setitem__(0, np.inf), "expected a finite number"),
        (lambda block: setattr(block, "start", 1), "expected rows from 0 on"),
    ],
)
def test_what_cannot_be_stored_is_named_and_leaves_nothing(tmp_path, change, match):
    X = random_matrix(density=0.5)
    block = next(blocks_of(X))
    change(block)
    with pytest.raises(DataError, match=rf"(?s){match}"):
        written(tmp_path / "s.zarr", [block], 40)
    assert not any(tmp_path.iterdir())


def test_a_limit_in_which_a_block_has_no_room_is_refused(tmp_path):
    X = random_matrix(8000, 300, 0.5)
    with refused(PlanError, "memory-limit", at="memory_limit", naming=["1,048,576"]) as caught:
        written(tmp_path / "s.zarr", blocks_of(X), 300, memory_limit=1 << 20)
    assert not any(tmp_path.iterdir())
    needed = int(re.search(r"takes ([\d,]+) bytes", str(caught.value))[1].replace(",", ""))
    with refused(PlanError, "memory-limit", at="memory_limit"):
        written(tmp_path / "s.zarr", blocks_of(X), 300, memory_limit=needed - 100)
    store = written(tmp_path / "s.zarr", blocks_of(X), 300, memory_limit=needed)
    assert store.shape == X.shape


def test_a_version_that_knows_no_sparse_stores_refuses_them_by_their_format(cut_store, monkeypatch):
    store, _ = cut_store
    monkeypatch.setattr("daskfs.store.header.FORMAT_VERSION", 1)
    with refused(StoreFormatError, "store-format", naming=["2", "daskfs reads", "1"]):
        open_store(store.path)


@pytest.mark.parametrize("option", [{"codec": "raw"}, {"tile_shape": (4, 4)}])
def test_what_only_dense_stores_have_is_refused(tmp_path, option):
    with refused(ConfigError, "formats", naming=["no effect"]):
        daskfs.ingest(random_matrix(), tmp_path / "s.zarr", **option)


def test_a_path_of_npz_is_ingested_as_the_matrix_in_memory_is(tmp_path: Path):
    X, y = random_matrix(), np.arange(300) % 2
    sp.save_npz(tmp_path / "X.npz", X)
    np.save(tmp_path / "y.npy", y)
    there = daskfs.ingest(tmp_path / "X.npz", tmp_path / "a.zarr", y=str(tmp_path / "y.npy"))
    here = daskfs.ingest(X.tocsc(), tmp_path / "b.zarr", y=y)
    assert there.source["digest"] == here.source["digest"]
    np.testing.assert_array_equal(there.read(slice(None)), here.read(slice(None)))
    np.testing.assert_array_equal(there.target, y[there.source_rows])
    again = daskfs.ingest(X, tmp_path / "b.zarr", y=y)  # is reused
    assert again.digest == here.digest


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({1: "n0"}, r"duplicate feature name 'n0' \(2 times\)"),
        ({3: "\ud800"}, r"feature name '\\ud800' is not valid Unicode"),
    ],
)
def test_names_are_refused_as_those_of_a_dense_store_are(tmp_path, change, match):
    names = [change.get(j, f"n{j}") for j in range(40)]
    X = random_matrix()
    for matrix in (X, X.toarray()):
        with pytest.raises(DataError, match=match):
            daskfs.ingest(matrix, tmp_path / "s.zarr", names=names)
    assert not list(tmp_path.iterdir())


def test_a_file_of_names_that_is_no_text_is_named(tmp_path):
    (tmp_path / "names.txt").write_bytes(b"a\n\xff\n")
    with pytest.raises(daskfs.errors.SourceError, match=r"names\.txt.*UTF-8|UTF-8.*names\.txt"):
        MatrixSource(random_matrix(), names=tmp_path / "names.txt")


def test_damage_is_told_with_the_rows_that_it_is_in(cut_store):
    store, _ = cut_store
    shard = sorted((store.path / "X" / "offsets" / "c").iterdir())[-1]
    good = shard.read_bytes()
    try:
        shard.write_bytes(bytes([good[0] ^ 1]) + good[1:])
        (line,) = store.verify()
    finally:
        shard.write_bytes(good)
    assert "X/offsets chunk" in line
    assert line.endswith("(of stored rows 0 to 16,383)"), line


def test_a_store_that_does_not_say_how_entries_lie_still_opens(tmp_path):
    store = written(tmp_path / "s.zarr", blocks_of(random_matrix()), 40)
    path = store.path / "zarr.json"
    document = json.loads(path.read_text())
    del document["attributes"]["daskfs"]["crowding"]
    path.write_text(json.dumps(document))
    older = store.sealed()
    assert older.crowding() is None
    assert older.info()["most_in_a_row"] is None
    assert not older.verify()
    np.testing.assert_array_equal(older.read(slice(None)), store.read(slice(None)))
