"""The same of every kind of object store, against servers that others wrote: moto (S3) and Azurite (az, abfs).

No emulator of Google's storage that can be installed speaks its XML API, as obstore does; our own server does as much
of it as of S3. Azurite: `npm install azurite`, and its `node_modules/.bin` in PATH or in DASKFS_AZURITE.
"""

import base64
import hashlib
import hmac
import json
import os
import shutil
import socket
import subprocess
import time
import urllib.request
from email.utils import formatdate

import numpy as np
import pytest

import daskfs
from daskfs.errors import StorageError, StoreExistsError, StoreFormatError
from daskfs.files import location
from tests.objects.server import ObjectServer
from tests.processes import Process

rng = np.random.default_rng(0)
X = rng.normal(size=(3000, 40)).astype(np.float32)
ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="  # of every Azurite


@pytest.fixture(scope="module")
def moto():
    servers = pytest.importorskip("moto.server", reason="moto's server is not installed: pip install 'moto[s3,server]'")
    boto3 = pytest.importorskip("boto3")
    server = servers.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    endpoint = "http://{}:{}".format(*server.get_host_and_port())
    keys = {"AWS_ACCESS_KEY_ID": "tests", "AWS_SECRET_ACCESS_KEY": "tests", "AWS_REGION": "us-east-1"}
    made = boto3.client(
        "s3",
        endpoint_url=endpoint,
        region_name="us-east-1",
        aws_access_key_id="tests",
        aws_secret_access_key="tests",
    )
    made.create_bucket(Bucket="box")
    yield {**keys, "AWS_ENDPOINT_URL": endpoint}
    server.stop()


@pytest.fixture(scope="module")
def azurite(tmp_path_factory):
    program = shutil.which("azurite-blob", path=os.environ.get("DASKFS_AZURITE", os.environ["PATH"]))
    if program is None:
        pytest.skip("Azurite is not installed: npm install azurite, and DASKFS_AZURITE=.../node_modules/.bin")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    more = ["--inMemoryPersistence", "--silent", "--skipApiVersionCheck", "--disableTelemetry"]
    folder = tmp_path_factory.mktemp("azurite")
    with Process([program, "--blobPort", port, *more], cwd=folder, stdout=subprocess.DEVNULL):
        endpoint = f"http://127.0.0.1:{port}/{ACCOUNT}"
        _make_container(endpoint, "box")
        yield {
            "AZURE_STORAGE_ACCOUNT_NAME": ACCOUNT,
            "AZURE_STORAGE_ACCOUNT_KEY": KEY,
            "AZURE_STORAGE_ENDPOINT": endpoint,
        }


def _make_container(endpoint, name):
    headers = {"x-ms-date": formatdate(usegmt=True), "x-ms-version": "2021-08-06"}
    signed = "PUT" + 12 * "\n" + "".join(f"{key}:{value}\n" for key, value in headers.items())
    signed += f"/{ACCOUNT}/{ACCOUNT}/{name}\nrestype:container"
    digest = hmac.new(base64.b64decode(KEY), signed.encode(), hashlib.sha256).digest()
    headers |= {"Authorization": f"SharedKey {ACCOUNT}:{base64.b64encode(digest).decode()}", "Content-Length": "0"}
    request = urllib.request.Request(f"{endpoint}/{name}?restype=container", method="PUT", headers=headers)
    for _ in range(300):
        try:
            urllib.request.urlopen(request).close()
            return
        except urllib.error.URLError:
            time.sleep(0.1)
    raise TimeoutError("Azurite does not answer")


@pytest.fixture(scope="module")
def google():
    with ObjectServer() as server:
        account = {"client_email": "", "private_key": "", "private_key_id": ""}
        yield {"GOOGLE_SERVICE_ACCOUNT_KEY": json.dumps({"gcs_base_url": server.url, "disable_oauth": True, **account})}


ROOTS = {
    "s3://box": "moto",
    "gs://box": "google",
    "az://box": "azurite",
    f"abfs://box@{ACCOUNT}.dfs.core.windows.net": "azurite",
}


@pytest.fixture(params=ROOTS, ids=[root.partition(":")[0] for root in ROOTS])
def root(request, monkeypatch, tmp_path):
    environment = request.getfixturevalue(ROOTS[request.param])
    for name, value in {**environment, "DASKFS_STAGING": str(tmp_path / "staging")}.items():
        monkeypatch.setenv(name, value)
    return f"{request.param}/{request.param.partition(':')[0]}"


@pytest.mark.slow
def test_a_store_is_written_and_read(root, tmp_path, monkeypatch):
    y = X[:, 0] + rng.normal(size=3000)
    local = daskfs.ingest(X, tmp_path / "x.zarr", y=y, tile_shape=(512, 16))
    remote = daskfs.ingest(X, f"{root}/data/x.zarr", y=y, tile_shape=(512, 16))
    assert remote.digest == local.digest
    np.testing.assert_array_equal(remote.read(slice(None)), local.read(slice(None)))
    assert daskfs.open_store(f"{root}/data/x.zarr").verify() == []
    monkeypatch.setenv("DASKFS_CACHE", str(tmp_path / "cache"))
    for _ in range(2):
        kept = daskfs.open_store(f"{root}/data/x.zarr")
        np.testing.assert_array_equal(kept.read(slice(None)), local.read(slice(None)))
    selector = daskfs.FGM(n_features_to_select=3)
    assert selector.fit(kept).selected_.tolist() == selector.fit(local).selected_.tolist()
    with pytest.raises(StoreExistsError):
        daskfs.ingest(X, f"{root}/data/x.zarr", y=y, random_state=3)
    with pytest.raises(StoreFormatError, match="no such store"):
        daskfs.open_store(f"{root}/data/y.zarr")


@pytest.mark.slow
def test_a_large_file_is_sent_in_parts(root, tmp_path):
    if root.startswith("gs"):
        pytest.skip("our own server takes no file in parts")
    content = rng.bytes(17 << 20)
    (tmp_path / "large").write_bytes(content)
    path = location(f"{root}/large")
    path.write_file(tmp_path / "large")
    assert path.stat().st_size == len(content)
    with path.open("rb") as stream:
        assert stream.read() == content
    path.unlink()
    assert not path.exists()


def test_an_object_that_is_to_be_new_is_written_once(root):
    path = location(f"{root}/new")
    path.write_bytes(b"1", is_new=True)
    with pytest.raises(FileExistsError):
        path.write_bytes(b"2", is_new=True)
    path.write_bytes(b"3")
    assert path.read_bytes() == b"3"


def test_a_bucket_that_is_not_there_is_an_error_that_says_so(root):
    nowhere = root.replace("box", "nowhere")
    with pytest.raises((StorageError, StoreFormatError), match="nowhere"):
        daskfs.open_store(f"{nowhere}/x.zarr")


def test_a_table_and_a_pattern(root, tmp_path):
    text = "a,b\n" + "".join(f"{i},{i % 7}\n" for i in range(2000))
    for k in range(3):
        location(f"{root}/t/{k}.csv").write_bytes(text.encode())
    assert daskfs.ingest(f"{root}/t/*.csv", tmp_path / "t.zarr", target="a").shape == (6000, 1)


def test_wrong_credentials_are_an_error_that_shows_none(root, monkeypatch):
    if not root.startswith(("az", "abfs")):
        pytest.skip("neither moto nor our server asks who asks")
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", base64.b64encode(b"hidden" * 8).decode())
    location(f"{root}/x").client  # noqa: B018
    from daskfs.objects import requests

    requests._client_of.cache_clear()
    with pytest.raises(StorageError, match=r"access denied.*AZURE_STORAGE_ACCOUNT_KEY") as caught:
        daskfs.open_store(f"{root}/x.zarr")
    requests._client_of.cache_clear()
    assert base64.b64encode(b"hidden" * 8).decode()[:20] not in f"{caught.value!r} {caught.value}"
