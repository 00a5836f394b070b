"""AnnData's compressed rows and columns, written here as its specification says: read as scipy has them, or refused."""

import os
import subprocess

import numpy as np
import pytest
import scipy.sparse
import zarr

from daskfs.errors import DataError, SourceError
from daskfs.sources.ingest import ingest
from daskfs.sources.registry import as_source, kind_of
from daskfs.sources.sparse.anndata import AnnDataSource
from tests.refusals import refused
from tests.sources.sparse.reading import check_blocks, rows_of

N, P = 60, 37


def matrix(seed=0):
    return scipy.sparse.random(N, P, 0.15, "csr", rng=np.random.default_rng(seed), dtype=np.float32)


def texts(group, name, values):
    values = list(values)
    if hasattr(group, "create_array"):
        group.create_array(name, data=np.array(values, dtype=f"<U{max(map(len, values))}"))
    else:
        group[name] = values


def numbers(group, name, values):
    if hasattr(group, "create_array"):
        group.create_array(name, data=values, chunks=(min(50, max(1, len(values))), *np.shape(values)[1:]))
    else:
        group[name] = values


def write_matrix(root, name, X):
    group = root.create_group(name)
    group.attrs["encoding-type"] = f"{X.format}_matrix"
    group.attrs["encoding-version"] = "0.1.0"
    group.attrs["shape"] = list(X.shape)
    for part in ("data", "indices", "indptr"):
        numbers(group, part, getattr(X, part))


def write_tables(root, states):
    obs, var = root.create_group("obs"), root.create_group("var")
    for table, names in ((obs, [f"cell{i}" for i in range(N)]), (var, [f"gene{j}" for j in range(P)])):
        table.attrs["encoding-type"], table.attrs["_index"] = "dataframe", "names"
        texts(table, "names", names)
    numbers(obs, "age", np.arange(N) / 2)
    numbers(obs, "hole", np.where(np.arange(N) == 7, np.nan, 1.0))
    state = obs.create_group("state")
    state.attrs["encoding-type"] = "categorical"
    numbers(state, "codes", states)
    texts(state, "categories", ["ill", "well"])


STATES = (np.arange(N) % 2).astype(np.int8)


def write(path, X, layers=(), states=STATES):
    """Write what AnnData would, and return the path."""
    if path.suffix == ".h5ad":
        h5py = pytest.importorskip("h5py")
        with h5py.File(path, "w") as root:
            _fill(root, X, layers, states)
    else:
        _fill(zarr.open_group(str(path), mode="w", zarr_format=2), X, layers, states)
    return path


def _fill(root, X, layers, states):
    root.attrs["encoding-type"] = "anndata"
    write_matrix(root, "X", X)
    write_tables(root, states)
    if layers:
        root.create_group("layers")
    for name, layer in layers:
        write_matrix(root, f"layers/{name}", layer)


def as_matrix(found):
    indptr = np.concatenate([[0], np.cumsum(found["lengths"])])
    return scipy.sparse.csr_array((found["data"], found["features"].astype(np.int64), indptr), (N, P)).toarray()


@pytest.fixture(params=["cells.zarr", "cells.h5ad"])
def path(request, tmp_path):
    return tmp_path / request.param


@pytest.mark.parametrize("form", ["csr", "csc"])
@pytest.mark.parametrize(("block_rows", "block_nnz"), [(1, 10**6), (7, 11), (1000, 25), (1000, 10**6)])
def test_rows_are_those_of_the_matrix(path, form, block_rows, block_nnz):
    X = matrix()
    source = AnnDataSource(write(path, X.asformat(form)), target="age")
    found = rows_of(source, block_rows, block_nnz)
    np.testing.assert_array_equal(as_matrix(found), X.toarray())
    np.testing.assert_array_equal(found["y"], np.arange(N) / 2)
    assert found["labels"] == {"cell": [f"cell{i}" for i in range(N)]}


def test_rows_of_any_order_with_doubles_are_put_in_order(tmp_path):
    X = matrix()
    twice = scipy.sparse.csr_matrix((np.repeat(X.data / 2, 2), np.repeat(X.indices, 2), 2 * X.indptr), X.shape)
    for i in range(N):
        row = slice(twice.indptr[i], twice.indptr[i + 1])
        twice.indices[row], twice.data[row] = twice.indices[row][::-1], twice.data[row][::-1]
    for form, given in (("csr", twice), ("csc", twice.tocsc())):
        found = rows_of(AnnDataSource(write(tmp_path / f"{form}.zarr", given), target="age"), 9)
        np.testing.assert_allclose(as_matrix(found), X.toarray(), rtol=1e-6)


def test_parts_of_compressed_rows_are_the_whole(tmp_path, monkeypatch):
    monkeypatch.setattr("daskfs.sources.sparse.anndata.part_nbytes", lambda _: 400)
    X = matrix()
    source = AnnDataSource(write(tmp_path / "cells.zarr", X), target="age")
    blocks = []
    assert len(source.parts()) > 3
    for part in source.parts():
        found = list(source.sparse_part_blocks(part, 5, 100))
        check_blocks(found, 5, 100)
        blocks += found
    np.testing.assert_array_equal(np.concatenate([block.features for block in blocks]), X.indices)
    assert not AnnDataSource(write(tmp_path / "columns.zarr", X.tocsc()), target="age").parts()


@pytest.mark.parametrize("piece", [7, 1 << 20])
def test_entries_of_columns_are_read_twice_however_many_bands_there_are(path, piece, monkeypatch):
    monkeypatch.setattr("daskfs.sources.sparse.anndata.PIECE", piece)
    X, n_read = matrix(), []
    source = AnnDataSource(write(path, X.tocsc()), target="age")
    monkeypatch.setattr(
        AnnDataSource,
        "_piece",
        lambda self, node, begin, end, piece=AnnDataSource._piece: (
            n_read.append(min(end, X.nnz) - begin) or piece(self, node, begin, end)
        ),
    )
    np.testing.assert_array_equal(as_matrix(rows_of(source, 3, 5)), X.toarray())
    assert sum(n_read) == X.nnz  # beside the pass that counts


@pytest.mark.parametrize("dtype", [np.float64, np.int16])
def test_dense_matrices_are_read_as_what_is_not_zero(path, dtype, tmp_path, monkeypatch):
    monkeypatch.setattr("daskfs.sources.sparse.anndata.PIECE", 9 * P)
    X = (matrix().toarray() * 9).astype(dtype)
    write(path, matrix())
    if path.suffix == ".h5ad":
        with pytest.importorskip("h5py").File(path, "r+") as root:
            _fill_dense(root, X)
    else:
        _fill_dense(zarr.open_group(str(path), mode="r+"), X)
    source = AnnDataSource(path, target="age")
    assert 0.5 < source.estimate_entries() / np.count_nonzero(X) < 2
    np.testing.assert_array_equal(as_matrix(rows_of(source, 4, 30)), X.astype(np.float32))
    store = ingest(path, tmp_path / "store", target="age", shuffle=False)
    np.testing.assert_array_equal(store.read(slice(None), slice(None)), X.astype(np.float32))


def _fill_dense(root, X):
    del root["X"]
    numbers(root, "X", X)
    root["X"].attrs["encoding-type"] = "array"


def test_targets_are_columns_of_obs_or_given(path):
    write(path, matrix())
    source = AnnDataSource(path, target="state")
    assert source.target_classes == ["ill", "well"]
    assert source.target_names == ["state"]
    np.testing.assert_array_equal(rows_of(source)["y"], STATES)
    np.testing.assert_array_equal(rows_of(AnnDataSource(path, y=np.arange(N), target="dose"))["y"], np.arange(N))
    with refused(SourceError, "cells", naming=["'stat'", "did you mean", "'state'"]):
        AnnDataSource(path, target="stat")
    with refused(DataError, "cells", at="obs 'hole', row 7", naming=["missing"]):
        AnnDataSource(path, target="hole")
    write(path.with_stem("other"), matrix(), states=np.where(np.arange(N) == 3, -1, STATES).astype(np.int8))
    with refused(DataError, "cells", at="obs 'state', row 3"):
        AnnDataSource(path.with_stem("other"), target="state")


@pytest.mark.parametrize("form", ["csr", "csc"])
def test_a_store_is_made_with_the_genes_names(path, form, tmp_path):
    X, counts = matrix(), matrix(1)
    write(path, X.asformat(form), layers=[("counts", counts.asformat(form))])
    assert kind_of(str(path)) == "anndata"
    for layer, expected in ((None, X), ("counts", counts)):
        options = {} if layer is None else {"layer": layer}
        store = ingest(path, tmp_path / f"{layer}.store", target="age", shuffle=False, **options)
        np.testing.assert_array_equal(store.read(slice(None), slice(None)), expected.toarray())
        assert list(store.names[:3]) == ["gene0", "gene1", "gene2"]
    with refused(SourceError, "cells", naming=["layers/count", "did you mean", "'counts'"]):
        as_source(path, options={"layer": "count"})


def test_what_is_not_of_anndata_is_refused(tmp_path):
    path = write(tmp_path / "cells.zarr", matrix())
    root = zarr.open_group(str(path), mode="r+")
    root["X"]["indices"][3] = P
    with refused(SourceError, "cells", naming=["0", "36"]):
        rows_of(AnnDataSource(path))
    root["X"]["indices"][3], root["X"]["data"][5] = 0, np.nan
    with pytest.raises(DataError, match=r"X, row \d+, column 'gene\d+': expected a value that is finite"):
        rows_of(AnnDataSource(path), 1000)
    root["X"]["indptr"][N] = 1
    with refused(SourceError, "cells", naming=["indptr"]):
        AnnDataSource(path)
    root["X"].attrs["encoding-type"] = "dataframe"
    with refused(SourceError, "cells", naming=["dataframe"]):
        AnnDataSource(path)
    (tmp_path / "no.h5ad").write_bytes(b"no HDF5")
    pytest.importorskip("h5py")
    with refused(SourceError, "cells", naming=["AnnData"]):
        AnnDataSource(tmp_path / "no.h5ad")
    with refused(SourceError, "cells", naming=["file"]):
        AnnDataSource(tmp_path / "nowhere.zarr")


ANNDATA = """
import sys, json
import anndata, numpy as np, pandas as pd, scipy.sparse
folder = sys.argv[1]
for seed in range(int(sys.argv[2])):
    rng = np.random.default_rng(seed)
    n, p = int(rng.integers(1, 40)), int(rng.integers(1, 30))
    X = scipy.sparse.random(n, p, rng.random(), "csr", rng=rng, dtype=np.float32)
    form = ("csr", "csc", "dense")[seed % 3]
    obs = pd.DataFrame({"age": rng.random(n), "state": pd.Categorical(rng.choice(["ill", "well"], n))})
    obs.index, var = [f"cell{i}" for i in range(n)], pd.DataFrame(index=[f"gene{j}" for j in range(p)])
    cells = anndata.AnnData(X.toarray() if form == "dense" else X.asformat(form), obs, var, layers={"log": X.log1p()})
    cells.write_h5ad(f"{folder}/{seed}.h5ad", compression=("gzip", "lzf", None)[seed % 3])
    cells.write_zarr(f"{folder}/{seed}.zarr")
    np.savez(f"{folder}/{seed}.npz", X=X.toarray(), log=X.log1p().toarray(), age=obs["age"])
"""
PYTHON = os.environ.get("DASKFS_ANNDATA_PYTHON")


@pytest.mark.skipif(PYTHON is None, reason="DASKFS_ANNDATA_PYTHON names a Python with anndata and pandas 2")
def test_what_anndata_writes_comes_back(tmp_path):
    n_files = 24
    subprocess.run([PYTHON, "-W", "ignore", "-c", ANNDATA, str(tmp_path), str(n_files)], check=True)
    for seed in range(n_files):
        with np.load(tmp_path / f"{seed}.npz") as expected:
            for ending in ("h5ad", "zarr"):
                for layer, name in ((None, "X"), ("log", "log")):
                    source = AnnDataSource(tmp_path / f"{seed}.{ending}", target="age", layer=layer)
                    blocks = list(source.sparse_blocks(7, 20))
                    lengths = np.concatenate([np.diff(block.indptr) for block in blocks])
                    columns = np.concatenate([block.features for block in blocks]).astype(np.int64)
                    found = np.zeros(expected[name].shape, np.float32)
                    rows = np.repeat(np.arange(len(found)), lengths)
                    found[rows, columns] = np.concatenate([block.data for block in blocks])
                    np.testing.assert_array_equal(found, expected[name])
                    np.testing.assert_array_equal(np.concatenate([block.y for block in blocks]), expected["age"])
