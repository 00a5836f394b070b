import pickle
from pathlib import Path

import pytest

from daskfs.errors import ConfigError
from daskfs.files import location
from daskfs.objects import requests
from daskfs.objects.address import redacted
from daskfs.objects.path import ObjectPath
from tests.refusals import refused


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


@pytest.mark.parametrize(
    ("url", "option", "words"),
    [
        ("s3://bucket/x", "allow_http", "begins with http://"),
        ("s3://bucket/x", "timeout", "DASKFS_REQUEST_PATIENCE_S"),
        ("s3://bucket/x", "aws_proxy_url", "HTTPS_PROXY"),
        ("az://bucket/x", "user_agent", "remove it"),
        ("s3://bucket/x", "secret", "did you mean 'secret_access_key'"),
        ("s3://bucket/x", "aws_secret_key", "did you mean 'secret_access_key'"),
        ("gs://bucket/x", "service_acount", "did you mean 'service_account'"),
        ("az://bucket/x", "acount_key", "did you mean 'account_key'"),
    ],
)
def test_a_storage_option_that_is_none_is_named_with_the_right_one(url, option, words):
    with refused(ConfigError, "object-stores", at=f"storage_options.{option}", naming=[words]) as found:
        ObjectPath.of(url, {option: "hidden"}).client  # noqa: B018
    assert "hidden" not in str(found.value)


def test_options_that_the_library_knows_are_those_that_are_suggested():
    import obstore.exceptions
    import obstore.store

    for scheme, names in requests._OPTIONS.items():
        for name in names:
            try:
                obstore.store.from_url(f"{scheme}://bucket", config={name: "true"})
            except obstore.exceptions.UnknownConfigurationKeyError:
                raise AssertionError(f"{scheme}: {name}") from None
            except obstore.exceptions.BaseError:
                pass  # it needs others beside it


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
