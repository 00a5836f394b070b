"""Dask's bags of lines and records, delayed files, and partitions of frames: the stores that files make."""

import json

import dask
import dask.bag
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest

from daskfs.cluster.open import open_cluster
from daskfs.errors import ConfigError, DataError, SourceError
from daskfs.selectors.mission.selector import Mission
from daskfs.sources import ingest as ingesting
from daskfs.sources.ingest import ingest
from daskfs.sources.registry import as_source, make_source
from daskfs.sources.sparse.bags import BagSource
from tests.refusals import refused
from tests.sources.sparse.reading import assert_same_rows, names_of, rows_of

FIELDS = ["click", "n", "site"]
ROWS = range(200)
LINES = {
    "libsvm": [f"{i % 2} {1 + i % 5}:{i}.5 {9 + i % 3}:1 {10**12 + i}:2" for i in ROWS],
    "vw": [f"{1 - 2 * (i % 2)} |a x{i % 7}:1.5 y{i % 3} |b größe" for i in ROWS],
    "clicks": [f"{i % 2}\t{i}\ts{i % 9}" for i in ROWS],
    "text": [json.dumps({"text": f"w{i % 4} and v{i % 6}\nü", "label": "pn"[i % 2]}) for i in ROWS],
}
OPTIONS = {"libsvm": {}, "vw": {}, "clicks": {"target": "click", "columns": FIELDS, "counts": ["n"]},
           "text": {"target": "label"}}  # fmt: skip


@pytest.fixture(scope="module")
def processes():
    with open_cluster("local", 2) as workers:
        yield workers.client


@pytest.fixture
def in_parts(monkeypatch):
    """Have it fail where the whole is read after all."""

    def refused(*_):
        raise AssertionError("it was read as a whole")

    return lambda: monkeypatch.setattr(ingesting, "write_whole", refused)


@pytest.fixture
def file_of(tmp_path):
    def file_of(kind):
        path = tmp_path / f"rows.{ {'text': 'jsonl', 'clicks': 'tsv', 'libsvm': 'svm'}.get(kind, kind) }"
        path.write_text("".join(line + "\n" for line in LINES[kind]), encoding="utf-8")
        return path

    return file_of


def bag_of(kind, **more):
    items = dask.bag.from_sequence(LINES[kind], npartitions=4)
    options = OPTIONS[kind] | {"kind": kind} | more
    source = as_source(items, target=options.pop("target", None), options=options)
    source.check()
    return source


@pytest.mark.parametrize("kind", LINES)
def test_lines_are_read_as_those_of_a_file(kind, file_of):
    file = make_source(kind, path=file_of(kind), **OPTIONS[kind])
    bag = bag_of(kind)
    assert_same_rows(rows_of(bag), rows_of(file))
    assert_same_rows(rows_of(bag, parts=True), rows_of(file))
    assert kind == "libsvm" or names_of(bag) == names_of(file)
    assert bag.target_classes == file.target_classes
    assert bag.target_names == list(file.target_names)
    assert bag.digest() == bag_of(kind).digest()


def test_bags_of_records_and_delayed_files_are_read_too(file_of, tmp_path):
    file = make_source("text", path=file_of("text"), target="label")
    records = dask.bag.from_sequence([json.loads(line) for line in LINES["text"]], npartitions=3)
    halves = []
    for k in range(2):
        (tmp_path / f"half{k}.jsonl").write_text("\n".join(LINES["text"][100 * k : 100 * k + 100]), encoding="utf-8")
        halves.append(dask.delayed(str)(tmp_path / f"half{k}.jsonl"))
    lists = [dask.delayed(LINES["text"][a : a + 50]) for a in range(0, 200, 50)]
    for items in (records, halves, lists, dask.bag.read_text(str(tmp_path / "rows.jsonl"), blocksize=500)):
        source = as_source(items, target="label", options={"kind": "text"})
        source.check()
        assert_same_rows(rows_of(source), rows_of(file))


@pytest.mark.slow
def test_workers_make_the_same_store_of_partitions(file_of, tmp_path, processes, in_parts):
    options = OPTIONS["clicks"]
    of_file = ingest(file_of("clicks"), tmp_path / "file.zarr", kind="clicks", **options)
    in_parts()
    bag = dask.bag.from_sequence(LINES["clicks"], npartitions=4)
    store = ingest(bag, tmp_path / "bag.zarr", kind="clicks", client=processes, **options)
    np.testing.assert_array_equal(store.read(slice(None)), of_file.read(slice(None)))
    assert list(store.feature_names) == list(of_file.feature_names)
    again = ingest(
        dask.bag.from_sequence(LINES["clicks"], npartitions=4), tmp_path / "bag.zarr", kind="clicks", **options
    )
    assert again.source["digest"] == store.source["digest"]


@pytest.mark.slow
@pytest.mark.parametrize("one_hot", ["dense", "sparse"])
def test_partitions_of_a_frame_are_encoded_by_workers(tmp_path, processes, in_parts, one_hot):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"user": rng.integers(0, 80, 900).astype(str), "x": rng.standard_normal(900)})
    frame["y"] = rng.integers(0, 2, 900)
    whole = ingest(frame, tmp_path / "whole.zarr", target="y", one_hot=one_hot)
    in_parts()
    parts = dd.from_pandas(frame, npartitions=5)
    options = {"one_hot": one_hot, "client": processes}
    store = ingest(parts, tmp_path / "parts.zarr", target="y", **options)
    beside = ingest(parts[["user", "x"]], tmp_path / "beside.zarr", y=parts["y"], **options)
    for found in (store, beside):
        np.testing.assert_array_equal(found.read(slice(None)), whole.read(slice(None)))
        np.testing.assert_array_equal(found.read_target(), whole.read_target())
        assert list(found.feature_names) == list(whole.feature_names)


@pytest.mark.slow
def test_what_is_persisted_on_a_cluster_is_read_as_a_whole(tmp_path, processes):
    frame = pd.DataFrame({"user": np.arange(300).astype(str), "y": np.arange(300) % 2})
    parts = processes.persist(dd.from_pandas(frame, npartitions=3))
    with processes.as_current():
        store = ingest(parts, tmp_path / "store.zarr", target="y", one_hot="sparse", client=processes)
    assert store.shape == (300, 300)


@pytest.mark.slow
def test_models_learn_from_bags_without_a_store():
    source = bag_of("vw", interactions="all")
    model = Mission(3, loss="logistic", random_state=0).fit_source(source)
    assert len(model.result_.table) == 3
    assert len(model.predict(source)) == len(ROWS)


@pytest.mark.slow
def test_what_cannot_be_is_refused_with_a_remedy():
    with refused(ConfigError, "streams", at="source.kind", naming=["'csv'", "bag.to_dataframe"]):
        BagSource(dask.bag.from_sequence(LINES["vw"]), "csv")
    with refused(ConfigError, "streams", at="source.columns", naming=["columns"]):
        BagSource(dask.bag.from_sequence(LINES["clicks"]), "clicks", target="click")
    with refused(ConfigError, "formats", at="ingest", naming=["targets"]):
        as_source(dask.bag.from_sequence(LINES["vw"]), y=np.zeros(200), options={"kind": "vw"})
    with refused(SourceError, "streams", at="bag, partition 0, item 0", naming=["mapping"]):
        bag_of("vw").__class__(dask.bag.from_sequence([1, 2]), "vw").check()
    with refused(SourceError, "streams", at="bag", naming=["none"]):
        BagSource(dask.bag.from_sequence([[], []]).flatten(), "vw").check()
    with pytest.raises((SourceError, DataError), match=r"partition 1\.vw:2"):
        rows_of(BagSource(dask.bag.from_sequence(["1 |a x", "1 |a x", "1 |a x", "x |a y:z"], npartitions=2), "vw"))
    with refused(SourceError, "texts", naming=["2", "'n'"]):
        rows_of(bag_of("text", classes=["p", "q"]))
