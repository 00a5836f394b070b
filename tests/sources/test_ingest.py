"""From a source to a store: whole or not at all, made once, reused when nothing has changed."""

import os
import subprocess
import sys
from pathlib import Path

import dask.array
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import csv as arrow_csv

from daskfs.errors import ConfigError, DataError, SchemaError, SelectionWarning, SourceError, StoreExistsError
from daskfs.sources.arrays import ArraySource
from daskfs.sources.ingest import ingest
from daskfs.sources.looking import look_at
from daskfs.sources.synthetic import SyntheticSource
from tests.refusals import refused

SCHEMAS = Path(__file__).parents[2] / "data_schemas"
TABLE = "a,b,y\n" + "".join(f"{k},{'uvw'[k % 3]},{k * k}\n" for k in range(100))


def test_a_table_becomes_a_store_in_random_order(write, tmp_path):
    store = ingest(write(TABLE), tmp_path / "s.zarr", target="y", dtype="float64", random_state=1)
    assert store.feature_names.tolist() == ["a", "b=u", "b=v", "b=w"]
    np.testing.assert_array_equal(store.read(slice(None))[:, 0], store.source_rows)
    np.testing.assert_array_equal(store.target, np.square(store.source_rows))
    assert "categories: 'b'" in store.notes[0]
    assert store.source["files"][0]["nbytes"] == len(TABLE)


def test_an_unchanged_source_is_not_read_again(write, tmp_path):
    path = write(TABLE)
    first = ingest(path, tmp_path / "s.zarr", target="y")
    made = (tmp_path / "s.zarr" / "manifest.json").stat().st_mtime_ns
    os.utime(path)
    assert ingest(path, tmp_path / "s.zarr", target="y").digest == first.digest
    assert (tmp_path / "s.zarr" / "manifest.json").stat().st_mtime_ns == made


@pytest.mark.parametrize(
    ("X", "y", "topic", "place"),
    [
        (np.ma.masked_greater(np.eye(4), 0.5), np.arange(4.0), "values", "X"),
        (dask.array.ma.masked_greater(dask.array.eye(4, chunks=4), 0.5), np.arange(4.0), "values", "X"),
        (np.eye(4) + 1j, np.arange(4.0), "values", "X"),
        (np.eye(4), np.ma.masked_equal(np.arange(4.0), 2.0), "values", "y"),
        (np.eye(4), np.array(["a", "b", None, "a"], dtype=object), "target", "target, row 2"),
        (np.eye(4), np.arange("2021-01", "2021-05", dtype="datetime64[M]"), "target", "y"),
    ],
    ids=["masked X", "masked chunk", "complex X", "masked y", "a label is missing", "dates"],
)
def test_arrays_that_would_lose_something_are_refused(X, y, topic, place, tmp_path):
    with refused(DataError, topic, at=place):
        ingest(X, tmp_path / "x.zarr", y=y)
    assert not list(tmp_path.iterdir())


def test_a_number_is_no_name_of_a_target_and_lists_are_left_out(tmp_path):
    frame = pd.DataFrame({"a": np.arange(30.0) ** 2, "lists": [[1]] * 30, "y": np.arange(30.0)})
    with refused(ConfigError, "formats", at="target"):
        ingest(frame, tmp_path / "x.zarr", target=0)
    with pytest.warns(SelectionWarning, match="'lists'"):
        store = ingest(frame, tmp_path / "x.zarr", target="y")
    assert store.feature_names.tolist() == ["a"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"table": TABLE + "100,u,1\n"}, "made from another source already exists at this path; choose another name"),
        ({"dtype": "float64"}, "made from other settings"),
        ({"target": "a"}, "made from other settings"),
        ({"random_state": 1}, "made from other settings"),
        ({"on_exists": "error"}, "something already exists at this path"),
    ],
)
def test_another_store_is_never_overwritten(write, tmp_path, change, words):
    ingest(write(TABLE), tmp_path / "s.zarr", target="y")
    options = {"target": "y", "table": TABLE} | change
    with pytest.raises(StoreExistsError, match=words):
        ingest(write(options.pop("table")), tmp_path / "s.zarr", **options)


def test_something_else_at_the_path_is_left_alone(write, tmp_path):
    (tmp_path / "s.zarr").mkdir()
    (tmp_path / "s.zarr" / "precious").touch()
    with refused(StoreExistsError, "store-exists", naming=["else"]):
        ingest(write(TABLE), tmp_path / "s.zarr", target="y")
    assert (tmp_path / "s.zarr" / "precious").exists()


BAD = {
    "late value": (TABLE + "1,u,x\n", SourceError, "table.csv:102, column 'y'"),
    "late cut": (TABLE + "1,u", SourceError, "table.csv:102"),
    "constant target": ("a,y\n1,2\n3,2\n", DataError, "target 'y': expected a target that varies, found 2 in every"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_source_leaves_nothing_behind(write, tmp_path, case):
    text, error, words = BAD[case]
    path = write(text)
    with pytest.raises(error, match=words):
        ingest(path, tmp_path / "s.zarr", target="y")
    assert list(tmp_path.iterdir()) == [path]


def test_a_constant_feature_is_kept_and_noted(tmp_path):
    X = np.random.default_rng(0).normal(size=(50, 3))
    X[:, 1] = 7
    store = ingest(X, tmp_path / "s.zarr", y=X[:, 0], names=["a", "b", "c"])
    assert store.shape == (50, 3)
    assert store.notes == ["1 constant feature(s), kept but never selected: 'b'"]


def test_nan_in_an_array_is_named_by_column_and_row(tmp_path):
    X = np.ones((9, 3))
    X[4, 2] = np.nan
    with refused(DataError, "values", at="column 'x2', row 4"):
        ingest(X, tmp_path / "s.zarr", y=np.arange(9))
    assert list(tmp_path.iterdir()) == []


def test_the_store_does_not_depend_on_the_memory(tmp_path):
    source = SyntheticSource(2000, 30, random_state=5)
    X = np.concatenate([block.X for block in source.row_blocks(500)])
    small = ingest(ArraySource(X), tmp_path / "small.zarr", memory_limit="64KiB")
    large = ingest(ArraySource(X), tmp_path / "large.zarr", memory_limit="1GiB")
    np.testing.assert_array_equal(small.read(slice(None)), large.read(slice(None)))
    np.testing.assert_array_equal(small.source_rows, large.source_rows)


def test_synthetic_rows_are_not_permuted(tmp_path):
    source = SyntheticSource(500, 4)
    store = ingest(source, tmp_path / "s.zarr")
    np.testing.assert_array_equal(store.read(slice(None)), next(source.row_blocks(500)).X)
    assert store.source["exchangeable"]
    assert store.source["support"] == source.support.tolist()


class Steps:
    def __init__(self):
        self.calls = []

    def start(self, name, total):
        self.calls.append((name, total))

    def advance(self, k=1):
        self.calls.append(k)

    def finish(self):
        self.calls.append("finished")


def test_progress_is_told_in_rows(tmp_path):
    steps = Steps()
    ingest("sklearn:diabetes", tmp_path / "s.zarr", progress=steps)
    assert steps.calls == [("ingest", 442), 442, "finished", ("tiles", 442), 442, "finished"]


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"dtype": "float33"}, "dtype: expected one of float32, float64, int8, found 'float33'"),
        ({"dtype": "int32"}, "dtype: expected one of float32, float64, int8, found 'int32'"),
        ({"codec": "zip"}, "codec: expected raw or lz4, found 'zip'"),
    ],
)
def test_an_encoding_that_is_not_offered_is_refused(tmp_path, options, match):
    with pytest.raises(ConfigError, match=match):
        ingest("sklearn:diabetes", tmp_path / "s.zarr", **options)
    assert list(tmp_path.iterdir()) == []


REAL = {
    "power_minute/household_power_consumption.csv.gz": ("household_power", (47955, 74), 5),
    "power_hourly/clean_household_power_consumption.csv.gz": ("household_power", (34949, 73), 0),
    "adult/adult.txt.gz": ("adult", (32561, 77), 0),
    "flights_houston/flights_houston.csv.xz": ("flights_houston", (223874, 188), 3622),
    "higgs_h2o/higgs_test_5k.csv.gz": ("higgs", (5000, 28), 0),
}


@pytest.mark.slow
@pytest.mark.parametrize("file", REAL)
def test_the_schemas_fit_the_real_files(file, tmp_path):
    if "DASKFS_DATA" not in os.environ:
        pytest.skip("DASKFS_DATA, the folder of the real files, is not set")
    name, shape, n_dropped = REAL[file]
    store = ingest(Path(os.environ["DASKFS_DATA"], file), tmp_path / "s.zarr", schema=SCHEMAS / f"{name}.yaml")
    assert store.shape == shape
    assert any(f"{n_dropped:,} rows dropped" in note for note in store.notes) == bool(n_dropped)
    assert store.verify() == []


@pytest.mark.parametrize("path", sorted(SCHEMAS.glob("*.yaml")), ids=lambda path: path.stem)
def test_every_table_schema_is_valid(path):
    from daskfs.sources.table_schema import load_table_schema

    schema = load_table_schema(path)
    assert schema.name == path.stem
    assert schema.description


class OfAnotherLibrary:
    """A frame that has Arrow's stream interface and nothing else, as polars, DuckDB and others have it."""

    def __init__(self, table):
        self._table = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self._table.__arrow_c_stream__(requested_schema)


@pytest.fixture
def arrow():
    rng = np.random.default_rng(0)
    columns = {"a": rng.standard_normal(50), "b": rng.integers(0, 9, 50), "y": rng.standard_normal(50)}
    return pa.table(columns | {"kind": pa.array(["u", "v"] * 25).dictionary_encode()})


@pytest.mark.parametrize(
    "make",
    [lambda table: table, OfAnotherLibrary, lambda table: table.to_batches()[0], pa.Table.to_reader],
)
def test_arrow_tables_and_their_like_keep_names_and_target(arrow, make, tmp_path):
    store = ingest(make(arrow), tmp_path / "s.zarr", target="y", dtype="float64", shuffle=False)
    assert list(store.feature_names) == ["a", "b", "kind=v"]  # of two levels one says all
    assert store.target_names == ("y",)
    np.testing.assert_array_equal(store.target, arrow["y"].to_numpy())
    np.testing.assert_array_equal(store.read(slice(None))[:, 0], arrow["a"].to_numpy())
    assert ingest(make(arrow), tmp_path / "s.zarr", target="y", dtype="float64", shuffle=False).digest == store.digest
    with refused(SchemaError, "table-schemas", at="Arrow table", naming=["'z'"]):
        ingest(make(arrow), tmp_path / "t.zarr", target="z")


@pytest.mark.parametrize("kind", ["array", "frame", "arrow"])
def test_targets_that_are_given_as_target_are_stored(arrow, kind, tmp_path):
    X, y = np.column_stack([arrow["a"], arrow["b"]]), arrow["y"].to_numpy()
    source = {"array": X, "frame": pd.DataFrame(X, columns=["a", "b"]), "arrow": arrow.select(["a", "b"])}[kind]
    store = ingest(source, tmp_path / "s.zarr", target=y, dtype="float64", shuffle=False)
    np.testing.assert_array_equal(store.target, y)
    assert store.target_names == ("target",)
    with refused(ConfigError, "formats", at="ingest", naming=["both"]):
        ingest(source, tmp_path / "t.zarr", target=y, y=y)


def test_a_target_that_an_array_cannot_have_is_refused(arrow, tmp_path):
    with refused(ConfigError, "formats", at="target", naming=["'y'"]):
        ingest(np.ones((5, 2)), tmp_path / "s.zarr", target="y")


def test_texts_are_classes_of_an_array_too(tmp_path):
    X, y = np.random.default_rng(0).standard_normal((6, 2)), ["no", "yes", "no", "yes", "no", "no"]
    store = ingest(X, tmp_path / "s.zarr", y=y, shuffle=False)
    assert store.target_classes == ("no", "yes")
    np.testing.assert_array_equal(store.target, [0, 1, 0, 1, 0, 0])
    assert "the target is coded: 'no' is 0, 'yes' is 1" in store.notes


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"shuffle": False},
        {"dtype": "float64"},
        {"dtype": "int8"},
        {"codec": "lz4", "tile_shape": (300, 4)},
        {"memory_limit": "64KiB"},
    ],
)
def test_rows_in_memory_make_the_store_of_rows_that_are_not(tmp_path, options):
    """An array is read where it lies, without a copy; one that is mapped from a file comes in blocks, as others do."""
    X = np.round(np.random.default_rng(0).normal(0, 9, (5000, 11))).clip(-99, 99)
    X[:, 4], y = 0.0, X[:, 0] + 1
    np.save(tmp_path / "X.npy", X)
    assert ArraySource(X).resident is X
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    for given in (mapped, np.asfortranarray(X)):
        assert ArraySource(given).resident is None
    for name, rows in (("resident", X), ("mapped", mapped)):
        ingest(rows, tmp_path / name, y=y, **options)
    made = [
        {p.relative_to(tmp_path / name): p.read_bytes() for p in (tmp_path / name).rglob("*") if p.is_file()}
        for name in ("resident", "mapped")
    ]
    assert made[0] == made[1]


@pytest.mark.parametrize(
    ("value", "dtype"), [(np.nan, "float64"), (1e300, "float32"), (np.inf, "float32"), (0.5, "int8")]
)
def test_a_value_in_memory_that_cannot_be_stored_is_named(tmp_path, value, dtype):
    X = np.ones((20_000, 7))
    X[12_345, 3] = value
    with refused(DataError, "values", at="column 'x3', row 12345"):
        ingest(X, tmp_path / "s.zarr", y=np.arange(20_000.0), dtype=dtype)
    assert not [*tmp_path.iterdir()]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_numbers_are_ingested_without_pandas(tmp_path, kind):
    """Arrow loads it, which takes as long as a small table, to make numpy arrays."""
    table = pa.table({name: np.arange(500.0) + k for k, name in enumerate("aby")})
    path = str(tmp_path / f"table.{kind}")
    (arrow_csv.write_csv if kind == "csv" else pq.write_table)(table, path)
    code = (
        f"import sys, daskfs; daskfs.ingest({path!r}, {path + '.zarr'!r}, target='y'); print('pandas' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


@pytest.mark.parametrize("one_hot", [None, "sparse"])
def test_what_was_judged_is_noted_in_a_store_of_entries_too(one_hot, tmp_path):
    frame = pd.DataFrame({"a": [1.5, None, 2.5, 7.0] * 10, "city": ["Rome", "Oslo"] * 20, "y": np.arange(40.0)})
    options = {} if one_hot is None else {"one_hot": one_hot}
    store = ingest(frame, tmp_path / "x.zarr", target="y", schema="judge", **options)
    assert any("column types were inferred" in note and "city" in note for note in store.notes)


def test_a_target_that_is_no_column_is_refused_at_the_parameter_of_python(tmp_path):
    frame = pd.DataFrame({"a": ["x", "y"] * 20, "amount": np.arange(40.0)})
    (tmp_path / "t.csv").write_text(frame.to_csv(index=False))
    with refused(SchemaError, "table-schemas", at="target", naming=["'amounts'", "'amount'"]) as found:
        look_at(tmp_path / "t.csv", "amounts")
    assert "--target" not in found.value.where
