"""A dense store is an AnnData store, and an export of a sparse one too; stores of earlier formats are read."""

from __future__ import annotations

import os
import subprocess
import zipfile
from pathlib import Path

import dask.array
import numpy as np
import pytest
import scipy.sparse
import xarray
import zarr

import daskfs
from daskfs.errors import ConfigError, DataError, StoreError, StoreExistsError
from daskfs.store.feature_store import open_store
from daskfs.store.tables import Tables
from tests.refusals import refused

FORMATS = Path(__file__).parent / "formats"
ENVIRONMENT = os.environ.get("DASKFS_ANNDATA")
"""Python of an environment with anndata, which does not support pandas 3 yet."""
N, P = 300, 20
RNG = np.random.default_rng(0)
X = RNG.standard_normal((N, P)).astype(np.float32)
LABELS = {"split": np.array(["train", "test", "hold"] * 100), "a/b": np.arange(N).astype(str)}


@pytest.fixture
def dense(make_store):
    names = [f"gène {j}" for j in range(P)]
    classes = {"digest": "1", "target_classes": ["no", "yes"]}
    y = np.arange(N) % 2.0
    options = {"feature_names": names, "target_names": ["ill"], "labels": LABELS, "source": classes}
    return make_store(X, y, np.arange(N) / 10, tile_shape=(64, 8), **options)


@pytest.fixture
def sparse(tmp_path):
    entries = scipy.sparse.random(N, P, 0.2, random_state=0, format="csr", dtype=np.float32)
    store = daskfs.ingest(entries, tmp_path / "sparse.zarr", y=np.where(np.arange(N) % 3 == 0, "no", "yes"))
    store.export(tmp_path / "exported.zarr")
    return store, tmp_path / "exported.zarr"


def test_dask_and_xarray_read_a_dense_store(dense):
    values = dense.read(slice(None))
    np.testing.assert_array_equal(dask.array.from_zarr(str(dense.path), component="X").compute(), values)
    tree = xarray.open_datatree(str(dense.path), engine="zarr")
    assert dict(tree.sizes) == {"sample": N, "feature": P}
    np.testing.assert_array_equal(tree["X"], values)
    assert tree["var"]["feature"].values.tolist() == dense.feature_names.tolist()
    np.testing.assert_array_equal(tree["obs"]["sample"], dense.source_rows)
    np.testing.assert_array_equal(tree["obs"].to_dataset()["weight"].sel(sample=7), 0.7)
    np.testing.assert_array_equal(tree["var"]["std"], dense.std)


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_our_reader_of_anndata_finds_what_is_in_the_store(request, tmp_path, kind):
    store = request.getfixturevalue(kind)
    store, path = store if kind == "sparse" else (store, store.path)
    target = store.target_names[0]
    found = daskfs.ingest(path, tmp_path / "again.zarr", kind="anndata", target=target, shuffle=False)
    np.testing.assert_array_equal(found.read(slice(None)), store.read(slice(None)))
    assert (found.target_classes, found.target.tolist()) == (store.target_classes, store.target.tolist())
    assert found.feature_names.tolist() == store.feature_names.tolist()
    assert found.labels("cell").tolist() == list(map(str, store.source_rows))


def test_an_export_of_a_dense_store_has_its_values(dense, tmp_path):
    dense.export(tmp_path / "exported.zarr")
    ours, exported = zarr.open(dense.path, mode="r"), zarr.open(tmp_path / "exported.zarr", mode="r")
    names = {path for path, node in ours.members(max_depth=None) if isinstance(node, zarr.Array)}
    assert names == {path for path, node in exported.members(max_depth=None) if isinstance(node, zarr.Array)}
    for name in names:
        np.testing.assert_array_equal(exported[name][...], ours[name][...])
        assert exported[name].attrs.asdict() == ours[name].attrs.asdict()


def test_an_export_overwrites_nothing_and_leaves_nothing_behind(dense, tmp_path):
    (tmp_path / "there.zarr").mkdir()
    with refused(StoreExistsError, "store-exists", at="there.zarr"):
        dense.export(tmp_path / "there.zarr")
    next((dense.path / "X").rglob("c/1/0")).unlink()
    before = sorted(tmp_path.iterdir())
    with pytest.raises(daskfs.DaskfsError, match="missing"):
        dense.export(tmp_path / "exported.zarr")
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize("version", [1, 3])
def test_stores_of_earlier_formats_are_read_and_exported(tmp_path, version):
    zipfile.ZipFile(FORMATS / f"format_{version}.zip").extractall(tmp_path)
    store = open_store(tmp_path / f"format_{version}.zarr")
    assert store.header.format_version == version
    assert store.verify() == []
    rows = np.arange(40) if store.source_rows is None else store.source_rows
    expected = np.random.default_rng(0).standard_normal((40, 6)).astype("f4")[rows]
    y = rows % 2
    if version == 1:
        np.testing.assert_array_equal(store.read(slice(None)), expected)
        np.testing.assert_array_equal(store.target, y)
        np.testing.assert_array_equal(store.weight, rows / 10)
        assert store.labels("split").tolist() == [["train", "test"][row % 2] for row in rows]
        assert store.feature_names.tolist() == ["a", "b/c", "é", "x3", "x4", "x5"]
    else:
        np.testing.assert_array_equal(store.read(slice(None)), np.round(expected))
        np.testing.assert_array_equal(store.target, np.column_stack([y, 1 - y]))
        found = store.annotations(np.array([5, 0]))
        assert {name: values.tolist() for name, values in found.items()} == {
            "chromosome": ["3", "1"], "position": [50, 0], "frequency": [0.5, 0.0]
        }  # fmt: skip
    np.testing.assert_allclose(store.mean, store.read(slice(None)).mean(axis=0), atol=1e-6)
    store.export(tmp_path / "exported.zarr")
    exported = zarr.open(tmp_path / "exported.zarr", mode="r")
    np.testing.assert_array_equal(exported["X"][...], store.read(slice(None)))
    assert exported["var/feature"][...].tolist() == store.feature_names.tolist()


@pytest.mark.parametrize("name", ["c", "c.0", "sample", "zarr.json", "..", "x.", "y" * 300, "größe", "a/c/b"])
def test_a_store_is_read_whatever_its_target_is_called(make_store, name):
    store = make_store(X, X[:, 0], target_names=[name], labels={"c": LABELS["split"], name + "_": LABELS["a/b"]})
    assert store.verify() == []
    np.testing.assert_array_equal(store.target, X[store.source_rows, 0])
    assert store.labels("c").tolist() == LABELS["split"][store.source_rows].tolist()
    assert (store.target_names, store.label_names) == ((name,), ("c", name + "_"))


def test_a_full_disk_and_a_url_are_explained(sparse, dense, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("daskfs.store.sparse.vectors.VectorWriter.append", full)
    monkeypatch.setattr(zarr.Array, "__setitem__", full)
    before = sorted(tmp_path.iterdir())
    for store in (sparse[0], dense):
        with refused(StoreError, "stores", at="full.zarr", naming=["disk is full"]):
            store.export(tmp_path / "full.zarr")
    with refused(ConfigError, "pipeline-files", at="s3://bucket/x.zarr", naming=["local folder"]):
        dense.export("s3://bucket/x.zarr")
    assert sorted(tmp_path.iterdir()) == before


def test_names_that_are_no_keys_or_are_taken_get_others():
    labels = ["sample", "Y", "a/b", "", "zarr.json", "column_1", "weight", "é", "x."]
    tables = Tables(["y"], True, labels, ["mean", "position"], None)
    paths = tables.paths()
    assert (paths["target"], paths["weight"], paths["annotations/1"]) == ("obs/y", "obs/weight", "var/position")
    assert len({path.lower() for path in paths.values()}) == len(paths)
    assert paths["labels/5"] == "obs/column_1"  # the label of this name keeps it
    assert paths["annotations/0"] != "var/mean"


@pytest.mark.parametrize("wrong", [0.5, 2.0, -1.0, 300.0])
def test_a_target_that_is_no_code_of_its_classes_is_refused_not_rounded(make_store, wrong):
    y = np.array([0.0, 1.0, wrong])
    with refused(DataError, "shapes", at="target 'y0'", naming=[f"{wrong:g}"]):
        make_store(X[:3], y, source={"digest": "1", "target_classes": ["no", "yes"]})


@pytest.mark.skipif(ENVIRONMENT is None, reason="DASKFS_ANNDATA names no Python with anndata")
@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_anndata_reads_the_store(request, tmp_path, kind):
    store = request.getfixturevalue(kind)
    store, path = store if kind == "sparse" else (store, store.path)
    np.save(tmp_path / "X.npy", store.read(slice(None)))
    lines = [
        "import sys, anndata, numpy",
        "cells = anndata.read_zarr(sys.argv[1])",
        "values = cells.X.toarray() if hasattr(cells.X, 'toarray') else cells.X",
        "assert numpy.array_equal(values, numpy.load(sys.argv[2])), values",
        "assert anndata.experimental.read_lazy(sys.argv[1]).shape == values.shape",
        f"print(*cells.obs[{store.target_names[0]!r}], *cells.var_names, *cells.obs_names, sep='|')",
    ]
    command = [ENVIRONMENT, "-W", "ignore", "-c", "\n".join(lines), str(path), str(tmp_path / "X.npy")]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    ended = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert ended.returncode == 0, ended.stderr
    target = [store.target_classes[int(code)] for code in store.target]
    expected = [*target, *store.feature_names, *map(str, store.source_rows)]
    assert ended.stdout.strip().split("|") == expected
