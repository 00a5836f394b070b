from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import zarr

from daskfs.errors import ConfigError, DataError, StoreError
from daskfs.selectors.online_substitution.selector import OnlineSubstitution
from daskfs.store.feature_store import open_store
from tests.refusals import refused


def in_stored_order(store, values):
    return values if store.source_rows is None else values[store.source_rows]


@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "uint8", "int16"])
@pytest.mark.parametrize("codec", ["raw", "lz4"])
@pytest.mark.parametrize("shuffle", [True, False])
def test_what_is_written_is_read(make_store, dtype, codec, shuffle):
    X = np.random.default_rng(0).integers(0, 100, (300, 70)).astype(dtype)
    store = make_store(X, dtype=dtype, codec=codec, shuffle=shuffle, tile_shape=(64, 32))
    assert store.dtype == dtype
    assert store.header.codec == codec
    np.testing.assert_array_equal(store.read(slice(None)), in_stored_order(store, X))
    assert store.verify() == []


@pytest.mark.parametrize("tile_shape", [(1, 70), (300, 1), (64, 32), (7, 11), (300, 70)])
def test_edge_tiles_and_tile_shapes_do_not_show(make_store, matrix, tile_shape):
    store = make_store(matrix, matrix[:, 0], tile_shape=tile_shape)
    X = in_stored_order(store, matrix)
    np.testing.assert_array_equal(store.read(slice(3, 299), slice(1, 70)), X[3:299, 1:70])
    np.testing.assert_array_equal(store.read_target(), X[:, 0])


@pytest.mark.parametrize("codec", ["raw", "lz4"])
def test_shards_do_not_show(make_store, matrix, codec):
    options = {"codec": codec, "tile_shape": (32, 16), "max_files": 2, "shard_nbytes": 4 * 32 * 16 * 4}
    store = make_store(matrix, **options)
    assert store.header.shard_shape is not None
    assert store.tiles.shard_shape == store.header.shard_shape
    assert store.header.shard_shape != store.tile_shape
    rows = np.array([299, 0, 5, 5, 128])
    X = in_stored_order(store, matrix)
    np.testing.assert_array_equal(store.read(slice(None)), X)
    np.testing.assert_array_equal(store.read(rows, slice(10, 60)), X[rows, 10:60])
    assert store.verify() == []


def test_zeros_are_written_too(make_store):
    X = np.zeros((50, 20), np.float32)
    for options in ({}, {"max_files": 1, "tile_shape": (16, 8), "shard_nbytes": 1024}):
        store = make_store(X, X[:, 0], codec="raw", **options)
        np.testing.assert_array_equal(store.read(slice(None)), X)
        assert store.verify() == []


def test_zarr_reads_the_same(make_store, matrix):
    store = make_store(
        matrix, matrix[:, 1], max_files=2, tile_shape=(64, 32), feature_names=[f"é{j}" for j in range(70)]
    )
    group = zarr.open(store.path, mode="r")
    np.testing.assert_array_equal(group["X"][:], store.read(slice(None)))
    np.testing.assert_array_equal(group["obs/y0"][:], store.target)
    np.testing.assert_array_equal(group["obs/sample"][:], store.source_rows)
    assert group["var/feature"][:].tolist() == store.feature_names.tolist()


def test_names_labels_weights_and_several_targets_are_kept(make_store, matrix):
    names = [f"gène {j} 日本" if j else "" for j in range(70)]
    labels = {"a/b": np.array([f"ü{i}" for i in range(300)]), "fold": np.array(["train", "test"] * 150)}
    weight = np.arange(300) / 10
    store = make_store(matrix, matrix[:, :2].astype(float), weight, feature_names=names, labels=labels)
    assert store.feature_names.tolist() == names
    assert store.label_names == ("a/b", "fold")
    assert store.labels("a/b").tolist() == labels["a/b"][store.source_rows].tolist()
    np.testing.assert_array_equal(store.read_weight(slice(5, 9)), weight[store.source_rows[5:9]])
    np.testing.assert_array_equal(store.read_target(slice(5, 9)), matrix[store.source_rows[5:9], :2])
    with refused(ConfigError, "pipeline-files", naming=["did you mean", "'fold'"]):
        store.labels("folds")


def test_more_names_than_fit_in_a_chunk(make_store, monkeypatch):
    monkeypatch.setattr("daskfs.store.tables.STRINGS_PER_CHUNK", 30)
    store = make_store(np.zeros((2, 70), np.float32))
    assert store.feature_names.tolist() == [f"x{j}" for j in range(70)]


@pytest.mark.parametrize("most_listed", [70, 69])
def test_names_of_many_columns_are_read_as_they_are_asked_for(make_store, monkeypatch, most_listed):
    monkeypatch.setattr("daskfs.store.tables.STRINGS_PER_CHUNK", 30)
    monkeypatch.setattr("daskfs.store.names.MOST_LISTED", most_listed)
    monkeypatch.setattr("daskfs.store.names.AT_ONCE", 16)
    expected = [f"é{j}" for j in range(70)]
    store = make_store(np.zeros((2, 70), np.float32), feature_names=expected)
    names = store.names
    assert names.are_given
    assert not names.are_default
    assert (names.given is None) == (most_listed < 70)
    assert list(names) == names.tolist() == store.feature_names.tolist() == expected
    assert [names[j] for j in (69, 0, -1)] == ["é69", "é0", "é69"]
    assert names[[69, 2, 30, 2]].tolist() == ["é69", "é2", "é30", "é2"]
    assert names[5:65:20].tolist() == ["é5", "é25", "é45"]
    assert names[np.arange(70) % 30 == 29].tolist() == ["é29", "é59"]
    assert names.index("é33") == 33
    assert "é69" in names
    assert "é70" not in names
    for wrong in ({"stop": 33}, {"start": 34}):
        with refused(DataError, "shapes", at="names", naming=["'\u00e933'"]):
            names.index("é33", **wrong)
    assert names.describe(41) == "column 'é41'"
    assert pickle.loads(pickle.dumps(store)).names[41] == "é41"
    assert make_store(np.zeros((2, 70), np.float32)).names.are_default


def test_a_method_on_many_columns_names_what_it_is_asked_for(make_store, monkeypatch, tmp_path):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((80, 40)).astype(np.float32)
    store = make_store(X, X[:, 7] - X[:, 31], feature_names=[f"é{j}" for j in range(40)], tile_shape=(32, 16))

    def found():
        selector = OnlineSubstitution(n_features_to_select=3, always_include=["é2"]).fit(store)
        selector.result_.save(tmp_path / "run", overwrite=True)
        return selector, pd.read_parquet(tmp_path / "run/scores.parquet")

    listed, scores_of_listed = found()
    monkeypatch.setattr("daskfs.store.names.MOST_LISTED", 39)
    monkeypatch.setattr("daskfs.result._SCORES_WRITTEN", 16)
    monkeypatch.setattr("daskfs.selected_table._SCORES_TOGETHER", 16)
    store = open_store(store.path)
    selector, scores = found()
    assert set(selector.result_.table["name"]) == {"é2", "é7", "é31"}
    pd.testing.assert_frame_equal(selector.result_.table, listed.result_.table)
    pd.testing.assert_frame_equal(scores, scores_of_listed)
    assert scores["name"].tolist() == [f"é{j}" for j in range(40)]
    assert listed.feature_names_in_[7] == "é7"
    assert not hasattr(selector, "feature_names_in_")
    assert selector.result_.feature_names[31] == "é31"
    with refused(DataError, "shapes", at="always_include", naming=["'\u00e940'"]):
        OnlineSubstitution(n_features_to_select=3, always_include=["é40"]).fit(store)
    kept = [pickle.dumps(one.result_) for one in (selector, listed)]
    store.path.rename(tmp_path / "moved")
    of_many, of_few = map(pickle.loads, kept)
    pd.testing.assert_frame_equal(of_many.table, listed.result_.table)
    assert of_many.feature_names is None
    assert of_few.feature_names[31] == "é31"


@pytest.mark.parametrize("shape", [(0, 5), (5, 0), (0, 0), (1, 1)])
@pytest.mark.parametrize("shuffle", [True, False])
def test_empty_and_tiny_matrices(make_store, shape, shuffle):
    store = make_store(np.ones(shape, np.float32), np.ones(shape[0]), shuffle=shuffle)
    assert store.read(slice(None)).shape == shape
    assert store.target.shape == shape[:1]
    assert store.mean.shape == shape[1:]
    assert store.verify() == []


def test_sparse_rows_are_written_dense(make_store):
    X = scipy.sparse.random(200, 50, density=0.1, format="csr", random_state=0, dtype=np.float32)
    store = make_store(X, shuffle=False, batch=33)
    np.testing.assert_array_equal(store.read(slice(None)), X.toarray())


def test_out_is_filled_and_checked(make_store, matrix):
    store = make_store(matrix, shuffle=False, tile_shape=(64, 32))
    out = np.empty((10, 5), np.float32)
    assert store.read(slice(60, 70), slice(30, 35), out) is out
    np.testing.assert_array_equal(out, matrix[60:70, 30:35])
    with pytest.raises(ValueError, match="expected `out` of shape"):
        store.read(slice(0, 9), slice(30, 35), out)
    with pytest.raises(ValueError, match="float64"):
        store.read(slice(0, 10), slice(30, 35), out.astype(float))
    with pytest.raises(IndexError, match=r"expected numbers in \[0, 300\)"):
        store.read(np.array([300]))


def test_compression_is_chosen_by_the_values(make_store, matrix):
    assert make_store(matrix).header.codec == "raw"
    assert make_store(np.round(matrix)).header.codec == "lz4"
    assert make_store(np.round(matrix).astype(np.int8)).header.codec == "lz4"


def test_info_and_representations_say_what_it_is(make_store, matrix):
    store = make_store(matrix, matrix[:, 0], notes=["3 rows <dropped>"], target_names=["y"])
    info = store.info()
    assert (info["n_samples"], info["n_features"], info["matrix_nbytes"]) == (300, 70, 300 * 70 * 4)
    assert info["disk_nbytes"] >= 300 * 70 * 4
    assert "300 samples x 70 features" in repr(store)
    assert "3 rows &lt;dropped&gt;" in store._repr_html_()


def test_the_digest_tells_contents_apart(make_store, matrix):
    digest = make_store(matrix).digest
    assert make_store(matrix, tile_shape=(64, 32), codec="lz4", batch=7).digest == digest
    for options in ({"random_state": 1}, {"shuffle": False}, {"source": {"digest": "b"}}, {"encoding_digest": "c"}):
        assert make_store(matrix, **options).digest != digest
    assert make_store(matrix, feature_names=[f"z{j}" for j in range(70)]).digest != digest


def test_a_pickled_store_is_an_address(make_store, matrix):
    store = make_store(matrix, matrix[:, 0])
    _ = store.target, store.feature_names, store.source_rows
    pickled = pickle.dumps(store)
    assert len(pickled) < 2048
    again = pickle.loads(pickled)
    assert pickle.loads(pickled) is again
    np.testing.assert_array_equal(again.read(slice(None)), store.read(slice(None)))


def test_a_pickled_store_refuses_another_at_its_place(make_store, matrix):
    store, other = make_store(matrix), make_store(matrix + 1, source={"digest": "other"})
    pickled = pickle.dumps(store)
    store.path.rename(store.path.with_name("gone"))
    other.path.rename(store.path)
    with refused(StoreError, "stores", naming=["longer"]):
        pickle.loads(pickled)


def test_a_worker_reads_without_heavy_libraries(make_store, matrix, tmp_path):
    store = make_store(
        matrix, matrix[:, 0], codec="lz4", max_files=2, tile_shape=(64, 32), labels={"s": np.array(["a"] * 300)}
    )
    (tmp_path / "store.pickle").write_bytes(pickle.dumps(store))
    script = """
import pickle, sys
store = pickle.loads(open(sys.argv[1], "rb").read())
total = store.read(slice(None)).sum() + store.target.sum() + store.mean.sum()
assert len(store.feature_names) == 70 and len(store.labels("s")) == 300 and len(store.source_rows) == 300
heavy = {"zarr", "pandas", "pyarrow", "pydantic", "sklearn", "scipy"} & set(sys.modules)
assert not heavy, heavy
"""
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    subprocess.run([sys.executable, "-c", script, str(tmp_path / "store.pickle")], check=True, env=environment)


def test_opening_reads_no_chunk(make_store, matrix):
    store = make_store(matrix, matrix[:, 0])
    for chunk in store.path.rglob("c/**/*"):
        if chunk.is_file():
            chunk.unlink()
    assert open_store(store.path).shape == (300, 70)
