import gzip
import lzma

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import zarr

import daskfs
from daskfs.errors import SourceError
from daskfs.sources.files import expand_paths, stamp
from tests.refusals import refused
from tests.sources.sparse.test_anndata import matrix
from tests.sources.sparse.test_anndata import write as write_cells
from tests.sources.test_plink import random_dosages, write_set

N = 2000
rng = np.random.default_rng(0)


def _csv():
    table = pd.DataFrame(rng.normal(size=(N, 5)).round(3), columns=list("abcde"))
    table["k"] = rng.choice(list("xyz"), N)
    return table.to_csv(index=False).encode()


def _parquet(tmp_path):
    pd.DataFrame(rng.normal(size=(N, 5)), columns=list("abcde")).to_parquet(tmp_path / "x", row_group_size=300)
    return (tmp_path / "x").read_bytes()


def _npz(tmp_path):
    scipy.sparse.save_npz(tmp_path / "x.npz", scipy.sparse.random(N, 50, 0.1, format="csr", random_state=0))
    return (tmp_path / "x.npz").read_bytes()


def _libsvm():
    lines = (f"{i % 2} " + " ".join(f"{j}:{(i * j) % 7 + 1}" for j in range(1 + i % 3, 40, 5)) for i in range(N))
    return "\n".join(lines).encode() + b"\n"


def _vw():
    return b"".join(b"%d |a f%d:2 |b g%d\n" % (1 - 2 * (i % 2), i % 30, i % 7) for i in range(N))


def _fasta():
    return "".join(f">s{i}\n{''.join(rng.choice(list('ACGT'), 60))}\n" for i in range(100)).encode()


def _plink(tmp_path):
    return write_set(tmp_path, random_dosages(300, 40)).read_bytes()


def _cells(tmp_path):
    return write_cells(tmp_path / "x.h5ad", matrix()).read_bytes()


def _texts():
    return "".join(f'{{"text": "the cat {i % 9} sat", "label": {i % 2}}}\n' for i in range(200)).encode()


FILES = {
    "x.csv": (lambda tmp_path: _csv(), {"target": "a"}),
    "x.csv.gz": (lambda tmp_path: gzip.compress(_csv()), {"target": "a"}),
    "x.csv.xz": (lambda tmp_path: lzma.compress(_csv()), {"target": "a"}),
    "x.parquet": (_parquet, {"target": "a"}),
    "x.npz": (_npz, {}),
    "x.svm": (lambda tmp_path: _libsvm(), {}),
    "x.svm.gz": (lambda tmp_path: gzip.compress(_libsvm()), {}),
    "x.vw": (lambda tmp_path: _vw(), {}),
    "x.fa": (lambda tmp_path: _fasta(), {}),
    "set.bed": (_plink, {}),
    "x.h5ad": (_cells, {"target": "age"}),
    "x.jsonl": (lambda tmp_path: _texts(), {"target": "label"}),
}


@pytest.mark.slow_cases("x.csv.gz", "x.svm.gz", "x.vw", "x.npz", "x.jsonl")
@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("root", ["s3", "http"])
def test_a_source_at_a_url_is_the_file(server, tmp_path, name, root):
    make, options = FILES[name]
    content = make(tmp_path)
    (tmp_path / name).write_bytes(content)
    for path in tmp_path.glob("*.*"):  # PLINK's are three
        server.put(f"bucket/in/{path.name}", path.read_bytes())
    url = f"{server.url}/bucket/in/{name}" if root == "http" else f"s3://bucket/in/{name}"
    local = daskfs.ingest(tmp_path / name, tmp_path / "local.zarr", **options)
    remote = daskfs.ingest(url, tmp_path / "remote.zarr", **options)
    assert remote.digest == local.digest
    np.testing.assert_array_equal(remote.read(slice(None)), local.read(slice(None)))
    assert remote.source["description"].startswith(url)


@pytest.fixture
def zarr_array(server, tmp_path):
    """A Zarr array, on the disk and among the objects."""
    array = zarr.open_array(str(tmp_path / "x.zarr"), mode="w", shape=(200, 30), chunks=(50, 10), dtype="f4")
    array[:] = rng.normal(size=(200, 30))
    for path in (tmp_path / "x.zarr").rglob("*"):
        if path.is_file():
            server.put(f"bucket/in/x.zarr/{path.relative_to(tmp_path / 'x.zarr').as_posix()}", path.read_bytes())
    return tmp_path / "x.zarr"


def test_a_zarr_array_at_a_url_is_the_folder_s(server, tmp_path, zarr_array):
    local = daskfs.ingest(zarr_array, tmp_path / "local.zarr", kind="zarr")
    remote = daskfs.ingest("s3://bucket/in/x.zarr", tmp_path / "remote.zarr", kind="zarr")
    np.testing.assert_array_equal(remote.read(slice(None)), local.read(slice(None)))
    with refused(SourceError, "arrays", naming=["many"]):
        daskfs.ingest(f"{server.url}/bucket/in/x.zarr", tmp_path / "over.zarr", kind="zarr")


def test_what_is_wrong_with_a_source_shows_no_password(server, tmp_path, zarr_array, monkeypatch):
    monkeypatch.setenv("DASKFS_REQUEST_TRIES", "1")
    chunk = next(name for name in server.objects if "/in/x.zarr/c/1" in name)
    server.put(chunk, b"no chunk")
    (tmp_path / "set").mkdir()
    for path in write_set(tmp_path / "set", random_dosages(50, 4)).parent.iterdir():
        server.put(f"bucket/in/{path.name}", path.read_bytes())
    server.put("bucket/in/set.bim", b"1 rs0\n")
    server.put("bucket/in/x.h5ad", b"no HDF5")
    server.put("bucket/in/x.svm", b"1 2:3\n0 x:1\n")
    server.put("bucket/in/x.jsonl", b"{")
    root = f"{server.url.replace('://', '://me:hidden@')}/bucket/in"
    names = ["x.zarr", "set.bed", "x.h5ad", "x.svm", "x.jsonl?sig=hidden", "x.vcz", "x.zarr?sig=hidden"]
    names += [
        f"nothing.{ending}?sig=hidden" for ending in ("bed", "h5ad", "zarr", "svm", "csv", "parquet", "npz", "fa")
    ]
    for name in names:
        with pytest.raises(daskfs.DaskfsError) as caught:
            daskfs.ingest(f"{root}/{name}", tmp_path / "never.zarr", target="label" if "jsonl" in name else None)
        fault, told = caught.value, ""
        while fault is not None:
            told, fault = f"{told} {fault!r} {fault}", fault.__cause__
        assert "hidden" not in told
        assert f"***@{server.url[7:]}/bucket/in/{name[:3]}" in told


def test_files_of_a_pattern_a_folder_and_a_list_are_read_in_order(server, tmp_path):
    content = _csv()
    head, _, rows = content.partition(b"\n")
    lines = rows.splitlines(keepends=True)
    parts = {f"bucket/in/{k}.csv": head + b"\n" + b"".join(lines[k * 500 : (k + 1) * 500]) for k in range(4)}
    for key, part in parts.items():
        server.put(key, part)
    server.put("bucket/in/readme.md", b"no table")
    (tmp_path / "x.csv").write_bytes(content)
    expected = daskfs.ingest(tmp_path / "x.csv", tmp_path / "x.zarr", target="a", shuffle=False).read(slice(None))
    several = [[f"{root}/{key}" for key in parts] for root in ("s3:/", server.url)]
    given = ["s3://bucket/in/*.csv", "s3://bucket/in", *several]
    for k, paths in enumerate(given):
        found = daskfs.ingest(paths, tmp_path / f"{k}.zarr", target="a", shuffle=False, kind="csv")
        np.testing.assert_array_equal(found.read(slice(None)), expected)


def test_a_partitioned_table_at_a_url_is_the_folder_s(server, tmp_path):
    for town in ("Oslo", "New%20York"):
        (tmp_path / "t.parquet" / f"town={town}").mkdir(parents=True)
        file = tmp_path / "t.parquet" / f"town={town}" / "part.0.parquet"
        pd.DataFrame(rng.normal(size=(300, 2)), columns=["a", "y"]).to_parquet(file)
        server.put(f"bucket/in/t.parquet/town={town}/part.0.parquet", file.read_bytes())
    local = daskfs.ingest(tmp_path / "t.parquet", tmp_path / "local.zarr", target="y")
    remote = daskfs.ingest("s3://bucket/in/t.parquet", tmp_path / "remote.zarr", target="y")
    assert list(local.feature_names) == ["a", "town=New York", "town=Oslo"]
    assert remote.digest == local.digest


def test_parts_of_an_object_are_read_by_ranges_on_workers(server, tmp_path):
    from distributed import Client, LocalCluster

    server.put("bucket/x.csv", _csv())
    alone = daskfs.ingest("s3://bucket/x.csv", "s3://bucket/alone.zarr", target="a")
    with (
        LocalCluster(n_workers=1, threads_per_worker=2, processes=False, dashboard_address="127.0.0.1:0") as cluster,
        Client(cluster) as client,
    ):
        together = daskfs.ingest("s3://bucket/x.csv", "s3://bucket/together.zarr", target="a", client=client)
    assert together.digest == alone.digest
    np.testing.assert_array_equal(together.read(slice(None)), alone.read(slice(None)))


def test_a_changed_object_is_known_by_its_etag(server, tmp_path):
    content = _csv()
    server.put("bucket/x.csv", content)
    url = "s3://bucket/x.csv"
    daskfs.ingest(url, tmp_path / "x.zarr", target="a")
    n_bytes_read = server.seen["GET"]
    daskfs.ingest(url, tmp_path / "x.zarr", target="a")
    assert server.seen["GET"] - n_bytes_read <= 3  # its header and its beginning, not all of it
    (path,) = expand_paths(url)
    before = stamp(path)
    assert before["nbytes"] == len(content)
    server.put("bucket/x.csv", content.replace(b"1", b"2"))
    assert stamp(path) != before
    with refused(daskfs.DaskfsError, "store-exists", naming=["source"]):
        daskfs.ingest(url, tmp_path / "x.zarr", target="a")


@pytest.mark.parametrize(
    ("paths", "told"),
    [
        ("s3://bucket/nothing.csv", "no such object"),
        ("s3://bucket/in/*.csv", "no such object"),
        ("s3://bucket/empty.csv", "empty object"),
    ],
)
def test_what_is_not_there_is_named(server, tmp_path, paths, told):
    server.put("bucket/empty.csv", b"")
    with pytest.raises(SourceError, match=told) as caught:
        daskfs.ingest(paths, tmp_path / "x.zarr", target="a")
    assert "s3://bucket" in str(caught.value)


def test_a_source_whose_server_fails_now_and_then_is_the_same(server, tmp_path, monkeypatch):
    from daskfs.objects import requests

    monkeypatch.setattr(requests, "FIRST_PAUSE_S", 0.001)
    monkeypatch.setenv("DASKFS_REQUEST_TRIES", "20")
    server.put("bucket/x.csv", _csv())
    expected = daskfs.ingest("s3://bucket/x.csv", tmp_path / "x.zarr", target="a")
    server.faults = dict.fromkeys(("500", "503", "truncated", "reset"), 0.1)
    found = daskfs.ingest("s3://bucket/x.csv", tmp_path / "y.zarr", target="a")
    assert found.digest == expected.digest
