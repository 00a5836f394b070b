import pickle
from pathlib import Path

import pytest

from daskfs.errors import ConfigError
from daskfs.files import location
from daskfs.objects.address import redacted
from daskfs.objects.path import ObjectPath


@pytest.mark.parametrize(
    "url",
    ["s3://bucket/a/b.zarr", "gs://bucket/x", "https://host:8443/a/x.csv", "abfs://c@account.dfs.core.windows.net/x"],
)
def test_a_url_is_never_mangled(url):
    path = location(url)
    assert str(path) == path.address == url
    assert str(path / "zarr.json") == f"{url}/zarr.json"
    assert str(path.parent / path.name) == url
    assert pickle.loads(pickle.dumps(path)) == path


def test_paths_stay_paths():
    assert location("data/x.zarr") == Path("data/x.zarr")
    assert location("file:///data/x.zarr") == Path("/data/x.zarr")
    with pytest.raises(TypeError):
        Path(location("s3://bucket/x"))


@pytest.mark.parametrize(("url", "word"), [("s4://bucket/x", "s3://"), ("s3:///x", "bucket or a host")])
def test_what_is_no_address_is_refused_by_name(url, word):
    with pytest.raises(ConfigError, match=word):
        location(url)


def test_what_is_secret_in_an_address_is_never_shown():
    path = ObjectPath.of("https://me:hidden@host/a.csv?X-Amz-Signature=hidden")
    assert "hidden" in path.address
    assert "hidden" not in f"{path} {path!r} {path.parent} {path / 'x'}"
    assert "hidden" not in redacted(f"no answer from '{path.address}', nor {path.address}; try again")


@pytest.mark.parametrize(
    ("pattern", "matches"),
    [
        ("a/*.csv", ["a/1.csv", "a/2.csv"]),
        ("a/**/*.csv", ["a/1.csv", "a/2.csv", "a/b/3.csv"]),
        ("a/[!1].csv", ["a/2.csv"]),
        ("a/?.txt", ["a/4.txt"]),
    ],
)
def test_patterns_name_objects(server, pattern, matches):
    for key in ("a/1.csv", "a/2.csv", "a/b/3.csv", "a/4.txt", "ab/5.csv"):
        server.put(f"bucket/{key}", b"x")
    assert [path.key for path in location(f"s3://bucket/{pattern}").matching()] == matches


def test_a_folder_of_objects_is_like_a_folder(server):
    for key in ("a/1.csv", "a/b/3.csv", "ab/5.csv"):
        server.put(f"bucket/{key}", b"xyz")
    folder = location("s3://bucket/a")
    assert folder.is_dir()
    assert folder.exists()
    assert not folder.is_file()
    assert [path.key for path in folder.iterdir()] == ["a/1.csv", "a/b"]
    assert folder.all_objects() == {"1.csv": 3, "b/3.csv": 3}
    assert not location("s3://bucket/nothing").exists()
