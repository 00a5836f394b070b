"""Against a server of S3 that others wrote."""

import numpy as np
import pytest

import daskfs
from daskfs.errors import StorageError, StoreExistsError, StoreFormatError
from daskfs.files import location

rng = np.random.default_rng(0)
X = rng.normal(size=(3000, 40)).astype(np.float32)


@pytest.fixture(scope="module")
def endpoint():
    servers = pytest.importorskip("moto.server", reason="moto's server is not installed: pip install 'moto[s3,server]'")
    server = servers.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    yield "http://{}:{}".format(*server.get_host_and_port())
    server.stop()


@pytest.fixture(autouse=True)
def _bucket(endpoint, monkeypatch, tmp_path):
    boto3 = pytest.importorskip("boto3")
    keys = {"AWS_ACCESS_KEY_ID": "tests", "AWS_SECRET_ACCESS_KEY": "tests", "AWS_REGION": "us-east-1"}
    for name, value in {**keys, "AWS_ENDPOINT_URL": endpoint, "DASKFS_STAGING": str(tmp_path / "staging")}.items():
        monkeypatch.setenv(name, value)
    boto3.client("s3", endpoint_url=endpoint, region_name="us-east-1").create_bucket(Bucket="moto")


def test_a_store_is_written_and_read(tmp_path):
    y = X[:, 0] + rng.normal(size=3000)
    local = daskfs.ingest(X, tmp_path / "x.zarr", y=y, tile_shape=(512, 16))
    remote = daskfs.ingest(X, "s3://moto/data/x.zarr", y=y, tile_shape=(512, 16))
    assert remote.digest == local.digest
    np.testing.assert_array_equal(remote.read(slice(None)), local.read(slice(None)))
    assert daskfs.open_store("s3://moto/data/x.zarr").verify() == []
    with pytest.raises(StoreExistsError):
        daskfs.ingest(X, "s3://moto/data/x.zarr", y=y, random_state=3)
    with pytest.raises(StoreFormatError, match="no such store"):
        daskfs.open_store("s3://moto/data/y.zarr")


def test_a_large_file_is_sent_in_parts(tmp_path):
    content = rng.bytes(17 << 20)
    (tmp_path / "large").write_bytes(content)
    path = location("s3://moto/large")
    path.write_file(tmp_path / "large")
    assert path.stat().st_size == len(content)
    with path.open("rb") as stream:
        assert stream.read() == content
    path.unlink()
    assert not path.exists()


def test_an_object_that_is_to_be_new_is_written_once():
    path = location("s3://moto/new")
    path.write_bytes(b"1", is_new=True)
    with pytest.raises(FileExistsError):
        path.write_bytes(b"2", is_new=True)


def test_a_bucket_that_is_not_there_is_an_error_that_says_so():
    with pytest.raises((StorageError, StoreFormatError), match="nowhere"):
        daskfs.open_store("s3://nowhere/x.zarr")


def test_a_table_and_a_pattern(tmp_path):
    text = "a,b\n" + "".join(f"{i},{i % 7}\n" for i in range(2000))
    for k in range(3):
        location(f"s3://moto/t/{k}.csv").write_bytes(text.encode())
    assert daskfs.ingest("s3://moto/t/*.csv", tmp_path / "t.zarr", target="a").shape == (6000, 1)
