"""Every format that a user may try is read, or ends in an error that says how to turn it into one that is."""

from __future__ import annotations

import shlex
import subprocess
import sys

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import feather, orc

from daskfs.errors import SourceError
from daskfs.pipeline.drafting import draft
from daskfs.sources.ingest import ingest
from daskfs.sources.looking import look_at
from daskfs.sources.other_formats import FORMATS
from daskfs.sources.registry import kind_of
from tests.refusals import refused

RNG = np.random.default_rng(0)
FRAME = pd.DataFrame(
    {"a": RNG.standard_normal(200), "b": RNG.choice(["x", "y", "z"], 200), "target": RNG.standard_normal(200)}
)
MATRIX = FRAME[["a", "target"]].to_numpy()
_NEEDS = {".xlsx": "openpyxl", ".xlsm": "openpyxl", ".ods": "odf"}


def write(path, ending):
    """Write the frame, or its numbers, in a format."""
    if ending in _NEEDS:
        pytest.importorskip(_NEEDS[ending])
    match ending:
        case ".xlsx" | ".xlsm" | ".ods":
            FRAME.to_excel(path, index=False)
        case ".json":
            FRAME.to_json(path, orient="records")
        case ".dta":
            FRAME.to_stata(path, write_index=False)
        case ".pkl" | ".pickle":
            FRAME.to_pickle(path)


WRITTEN = [".xlsx", ".xlsm", ".ods", ".json", ".dta", ".pkl", ".pickle"]


@pytest.mark.slow
@pytest.mark.parametrize("ending", WRITTEN)
def test_the_command_of_an_error_turns_a_file_into_one_that_is_read(tmp_path, ending):
    path = tmp_path / f"my table's{ending}"
    write(path, ending)
    with refused(SourceError, "formats") as caught:
        look_at(path)
    command = shlex.split(caught.value.remedy.split("`")[1])
    assert command[:2] == ["python", "-c"]
    subprocess.run([sys.executable, *command[1:]], cwd=tmp_path, check=True)
    look = look_at(tmp_path / "my table's.parquet")
    assert [one.name for one in look.inferred.columns] == ["a", "b", "target"]
    assert look.n_rows == 200


def run_command(text, folder):
    """Run the command that a remedy names."""
    (command,) = [shlex.split(one) for one in text.split("`") if one.startswith("python -c")]
    subprocess.run([sys.executable, *command[1:]], cwd=folder, check=True)


@pytest.mark.slow
def test_a_table_as_json_lines_and_dense_arrays_of_an_archive_name_the_command_that_converts_them(tmp_path):
    FRAME.to_json(tmp_path / "t.jsonl", orient="records", lines=True)
    for attempt in (lambda: look_at(tmp_path / "t.jsonl"), lambda: ingest(tmp_path / "t.jsonl", tmp_path / "x.zarr")):
        with pytest.raises(SourceError) as caught:
            attempt()
        (tmp_path / "t.parquet").unlink(missing_ok=True)
        run_command(caught.value.remedy, tmp_path)
        assert look_at(tmp_path / "t.parquet").n_rows == 200
    np.savez(tmp_path / "d.npz", X=MATRIX, y=MATRIX[:, 1])
    with refused(SourceError, "sparse-rows", naming=["matrix"]) as caught:
        ingest(tmp_path / "d.npz", tmp_path / "x.zarr")
    run_command(caught.value.remedy, tmp_path)
    assert "{kind: npy, path: d.X.npy, y: d.y.npy}" in caught.value.remedy
    store = ingest(tmp_path / "d.X.npy", tmp_path / "x.zarr", y=tmp_path / "d.y.npy", dtype="float64", shuffle=False)
    np.testing.assert_array_equal(store.read(slice(None)), MATRIX)


@pytest.mark.parametrize("ending", sorted(FORMATS))
def test_each_format_that_is_not_read_says_so_before_it_is_opened(ending):
    with refused(SourceError, "formats", naming=[ending]) as caught:
        kind_of(f"data/table{ending}")
    assert "arquet" in caught.value.remedy
    for command in caught.value.remedy.split("`")[1:2]:
        compile(shlex.split(command)[2], "remedy", "exec")
    with refused(SourceError, "formats"):
        kind_of(f"TABLE{ending.upper()}")


@pytest.mark.parametrize("name", ["table.feather", "table.arrow", "table.orc", "table.parquet", "table.csv.gz"])
def test_a_table_is_the_same_store_in_any_format_that_is_read(tmp_path, name):
    path = tmp_path / name
    match path.suffixes[-1]:
        case ".feather":
            feather.write_feather(pa.Table.from_pandas(FRAME), path, chunksize=64)
        case ".arrow":
            with pa.ipc.new_file(path, (table := pa.Table.from_pandas(FRAME)).schema) as file:
                file.write_table(table, max_chunksize=50)
        case ".orc":
            orc.write_table(pa.Table.from_pandas(FRAME), path, stripe_size=4096)
        case ".parquet":
            FRAME.to_parquet(path)
        case ".gz":
            FRAME.to_csv(path, index=False)
    expected = ingest(FRAME, tmp_path / "expected.zarr", target="target", dtype="float64", shuffle=False)
    store = ingest(path, tmp_path / "store.zarr", target="target", dtype="float64", shuffle=False)
    assert list(store.names.array()) == list(expected.names.array())
    np.testing.assert_array_equal(store.read(slice(None)), expected.read(slice(None)))
    np.testing.assert_array_equal(store.read_target(), FRAME["target"])
    drafted = draft(path, folder=tmp_path / "drafts")
    assert drafted.pipeline.name == "table.yaml"
    assert drafted.look.n_rows == 200


def test_an_arrow_file_that_is_none_and_files_that_differ_are_refused(tmp_path):
    (tmp_path / "a.feather").write_bytes(b"no table")
    with refused(SourceError, "frames", naming=["2"]):
        look_at(tmp_path / "a.feather")
    (tmp_path / "a.feather").unlink()
    (tmp_path / "b.orc").write_bytes(b"no table")
    with refused(SourceError, "frames", naming=["none"]):
        look_at(tmp_path / "b.orc")
    folder = tmp_path / "several"
    folder.mkdir()
    for name, columns in (("a", ["a", "target"]), ("b", ["a", "b", "target"])):
        feather.write_feather(pa.Table.from_pandas(FRAME[columns]), folder / f"{name}.feather")
    assert kind_of(folder) == "feather"
    with refused(SourceError, "frames", naming=["'b'"]):
        ingest(folder, tmp_path / "store.zarr", target="target")


def test_arrays_of_numpy_are_read_with_their_targets(tmp_path):
    for name, values in (("X", MATRIX), ("y", FRAME["target"].to_numpy()), ("w", np.arange(200.0))):
        np.save(tmp_path / f"{name}.npy", values)
    (tmp_path / "names.txt").write_text("one\ntwo\n")
    beside = {"y": tmp_path / "y.npy", "weight": tmp_path / "w.npy", "names": tmp_path / "names.txt"}
    store = ingest(tmp_path / "X.npy", tmp_path / "store.zarr", dtype="float64", shuffle=False, **beside)
    np.testing.assert_array_equal(store.read(slice(None)), MATRIX)
    np.testing.assert_array_equal(store.read_weight(), np.arange(200.0))
    assert list(store.names.array()) == ["one", "two"]
    np.savez(tmp_path / "dense.npz", X=MATRIX)
    with refused(SourceError, "sparse-rows", naming=["numpy.save"]):
        ingest(tmp_path / "dense.npz", tmp_path / "other.zarr")
    (tmp_path / "X.npy").write_bytes(b"no array")
    with refused(SourceError, "arrays", naming=["array"]):
        ingest(tmp_path / "X.npy", tmp_path / "other.zarr", y=tmp_path / "y.npy")


@pytest.mark.parametrize("address", ["s3://bucket/table.xlsx", "gs://bucket/a/table.sav"])
def test_addresses_keep_their_slashes_in_errors(address):
    with pytest.raises(SourceError, match=address):
        kind_of(address)
