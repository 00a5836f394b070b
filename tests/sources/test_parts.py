"""A store that several processes make is the store that one makes, byte for byte; what is wrong is said as ever."""

import os
import re
import signal

import dask.dataframe as dd
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from daskfs.cluster.open import open_cluster, workers_of
from daskfs.errors import DataError, RunError, SourceError, StoreError
from daskfs.sources import csv_faults
from daskfs.sources import ingest as ingesting
from daskfs.sources.base import part_nbytes
from daskfs.sources.csv import CsvSource
from daskfs.sources.csv_records import cut_text
from daskfs.sources.dataframe import DaskFrameSource
from daskfs.sources.ingest import ingest
from daskfs.sources.parquet import ParquetSource
from daskfs.sources.sparse.libsvm import LibsvmSource
from daskfs.sources.sparse.one_hot import OneHotSource
from tests.refusals import refused

COLUMNS = {
    "x0": {},
    "x1": {"missing": "mean"},
    "x2": {"missing": "drop"},
    "x3": {"encoding": "standardised"},
    "c": {"dtype": "string", "categories": ["a", "b", "c"], "unseen": "zero"},
    "same": {},
    "w": {"role": "weight"},
    "name": {"role": "id"},
    "y": {"role": "target"},
}
N_ROWS = 5000
TABLES = {"two.csv": CsvSource, "parquet": ParquetSource}


@pytest.fixture(scope="module")
def client():
    with open_cluster("threads", 2) as workers:
        yield workers.client


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
    """Cut small files, too, into some twenty parts."""
    monkeypatch.setattr("daskfs.sources.base.MIN_PART_NBYTES", 2**14)
    monkeypatch.setattr("daskfs.sources.csv_records.WORTH_COMPILING_NBYTES", 0)


@pytest.fixture
def in_parts(monkeypatch):
    """Have it fail where the whole is read after all."""

    def in_parts():
        def refused(*_):
            raise AssertionError("it was read as a whole")

        monkeypatch.setattr(ingesting, "write_whole", refused)

    return in_parts


def ingested_whole(path, store, **options):
    """Make a store in one stream: without a client, too, files that can be read in parts are."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(ingesting, "MOST_PARTS", 0)
        patched.setattr(ingesting, "write_in_parts", lambda *_: pytest.fail("it was read in parts"))
        return ingest(path, store, **options)


def frame():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({f"x{j}": rng.normal(size=N_ROWS) for j in range(4)})
    table.loc[::7, "x1"], table.loc[5::99, "x2"] = np.nan, np.nan
    table["c"] = rng.choice(["a", "b", "c", "d"], N_ROWS, p=[0.5, 0.3, 0.19, 0.01])
    table["same"], table["w"] = 3.5, rng.integers(0, 3, N_ROWS)
    table["name"] = [f'row {k}, "{k % 3}"\n' if k % 5 == 0 else f"row {k}" for k in range(N_ROWS)]
    return table.assign(y=rng.normal(size=N_ROWS))


def files_of(store):
    return {path.relative_to(store): path.read_bytes() for path in store.rglob("*") if path.is_file()}


def written(kind, folder, **more):
    """Write the table as one or several files."""
    table, path = frame().assign(**more), folder / f"table.{kind}"
    if kind == "parquet":
        pq.write_table(pa.Table.from_pandas(table, preserve_index=False), path, row_group_size=300)
    elif kind == "two.csv":
        table[:1234].to_csv(folder / "1.csv", index=False), table[1234:].to_csv(folder / "2.csv", index=False)
        path = folder / "[12].csv"
    elif kind == "bom.csv":
        path.write_bytes(table.to_csv(index=False, lineterminator="\r\n").encode("utf-8-sig").rstrip())
    else:
        table.to_csv(path, index=False)
    return path


@pytest.mark.slow_cases("options1", "options2", "two.csv", "bom.csv")
@pytest.mark.parametrize(
    "options", [{}, {"shuffle": False}, {"dtype": "float64", "memory_limit": "64KiB"}, {"codec": "lz4"}]
)
@pytest.mark.parametrize("kind", ["csv", "two.csv", "bom.csv", "parquet"])
def test_the_store_is_the_same_byte_for_byte(tmp_path, client, in_parts, kind, options):
    path, schema = written(kind, tmp_path), {"columns": COLUMNS}
    whole = ingested_whole(path, tmp_path / "whole.zarr", schema=schema, tile_shape=(300, 4), **options)
    assert whole.shape == (N_ROWS - len(range(5, N_ROWS, 99)), 8)
    assert {"x2", "c"} <= {name for name in COLUMNS if any(f"'{name}'" in note for note in whole.notes)}
    in_parts()
    ingest(path, tmp_path / "parts.zarr", schema=schema, tile_shape=(300, 4), client=client, **options)
    assert files_of(tmp_path / "parts.zarr") == files_of(tmp_path / "whole.zarr")
    assert not [left for left in tmp_path.iterdir() if "unfinished" in left.name]


@pytest.mark.parametrize("kind", ["two.csv", "parquet"])
def test_what_must_be_learnt_is_learnt_in_parts_and_is_the_same_here(tmp_path, client, monkeypatch, kind):
    path = written(kind, tmp_path, town=np.resize(np.array([None, "Oslo", "Rome"]), N_ROWS))
    town = {"dtype": "string", "encoding": "counts", "missing": "category"}
    columns = COLUMNS | {"c": {"dtype": "string", "min_count": 100}, "town": town}
    here, there = (TABLES[kind](path, {"columns": columns}) for _ in range(2))
    monkeypatch.setattr(TABLES[kind], "batches", lambda *_: pytest.fail("it was read as a whole"))
    there.learn(workers_of(client))
    assert there.encoder == here.encoder
    assert there.encoders["x1"].fill == pytest.approx(frame().dropna(subset=["x2"])["x1"].mean())
    assert there.encoders["c"].categories == ["a", "b", "c"]
    assert there.encoders["town"].n_missing == frame()["x2"][::3].notna().sum()


@pytest.mark.parametrize("empty", [[0], [1, 2], [3]], ids=str)
@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_part_of_which_no_row_is_kept_is_left_out(tmp_path, client, in_parts, kind, empty):
    """Dask and Spark write files without rows; rows with missing values may be dropped."""
    pieces = [table.drop(columns="name") for _, table in frame()[:1200].groupby(np.arange(1200) // 300)]
    for k, table in enumerate(pieces):
        if kind == "csv":  # a file with only a header is refused
            table.assign(x2=np.nan if k in empty else table["x2"]).to_csv(tmp_path / f"{k}.csv", index=False)
        else:
            (table[:0] if k in empty else table).to_parquet(tmp_path / f"{k}.parquet")
    kept = pd.concat([table for k, table in enumerate(pieces) if k not in empty]).dropna(subset=["x2"])
    columns = {name: column for name, column in COLUMNS.items() if name != "name"}
    options = {"schema": {"columns": columns}, "shuffle": False, "dtype": "float64"}
    whole = ingested_whole(tmp_path / f"*.{kind}", tmp_path / "whole.zarr", **options)
    in_parts()
    parts = ingest(tmp_path / f"*.{kind}", tmp_path / "parts.zarr", client=client, **options)
    assert files_of(parts.path) == files_of(whole.path)
    np.testing.assert_array_equal(parts.read_target(slice(None)), kept["y"])
    n_read = 1200 if kind == "csv" else 1200 - 300 * len(empty)
    assert parts.notes[0].startswith(f"{n_read - len(kept)} rows dropped")


def test_a_table_as_entries_is_another_table(tmp_path):
    table = CsvSource(written("csv", tmp_path), {"columns": COLUMNS})
    assert OneHotSource(table).source.by_id
    assert not table.by_id


def test_a_disk_too_small_for_parts_in_order_is_refused_before_they_are_sorted(tmp_path, monkeypatch):
    path, usage = written("parquet", tmp_path), type("usage", (), {"free": 1000})
    monkeypatch.setattr("daskfs.store.writer.shutil.disk_usage", lambda _: usage)
    with refused(StoreError, "stores", naming=["1,000", "twice as much again"]):
        ingest(path, tmp_path / "parts.zarr", schema={"columns": COLUMNS})


@pytest.mark.slow
def test_processes_make_the_same_store(tmp_path, in_parts):
    path, schema = written("csv", tmp_path), {"columns": COLUMNS}
    ingested_whole(path, tmp_path / "whole.zarr", schema=schema, tile_shape=(300, 4))
    in_parts()
    with open_cluster("local", 2) as workers:
        ingest(path, tmp_path / "parts.zarr", schema=schema, tile_shape=(300, 4), client=workers.client)
    assert files_of(tmp_path / "parts.zarr") == files_of(tmp_path / "whole.zarr")


@pytest.mark.slow
def test_tiles_of_zeros_are_written_by_processes_too(tmp_path, client, in_parts):
    """Zarr leaves them out unless it is told otherwise, also when an array is opened again."""
    frame().drop(columns=["name", "c"]).fillna(0).assign(same=0.0).to_csv(tmp_path / "table.csv", index=False)
    options = {"target": "y", "codec": "lz4", "tile_shape": (300, 1)}
    ingested_whole(tmp_path / "table.csv", tmp_path / "whole.zarr", **options)
    in_parts()
    ingest(tmp_path / "table.csv", tmp_path / "parts.zarr", client=client, **options)
    assert files_of(tmp_path / "parts.zarr") == files_of(tmp_path / "whole.zarr")


class Killed(ParquetSource):
    """Ends the process that reads it, the first time."""

    def part_blocks(self, part, block_rows, dtype):
        for block in super().part_blocks(part, block_rows, dtype):
            yield block
            marker = self.files[0].with_suffix(".killed")
            if part.start > 0 and not marker.exists():
                marker.touch()
                os.kill(os.getpid(), signal.SIGKILL)


class Fatal(ParquetSource):
    """Ends every process that reads it."""

    def part_blocks(self, part, block_rows, dtype):
        os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.slow
@pytest.mark.parametrize("source", [Killed, pytest.param(Fatal, marks=pytest.mark.nightly)])
def test_a_worker_that_is_killed_is_made_good_or_said(tmp_path, in_parts, source):
    path, schema = written("parquet", tmp_path), {"columns": COLUMNS}
    whole = files_of(ingested_whole(path, tmp_path / "whole.zarr", schema=schema, tile_shape=(300, 4)).path)
    in_parts()
    with open_cluster("local", 2) as workers:
        order = (source(path, schema), tmp_path / "parts.zarr")
        if source is Killed:
            ingest(*order, tile_shape=(300, 4), client=workers.client)
            assert path.with_suffix(".killed").exists()
            assert files_of(tmp_path / "parts.zarr") == whole
        else:
            with refused(RunError, "clusters", at="ingest-encode", naming=["4"]):
                ingest(*order, tile_shape=(300, 4), client=workers.client)
    assert not [left for left in tmp_path.iterdir() if "unfinished" in left.name]


FAULTS = {
    "a text for a number": (
        "x0",
        "oops",
        SourceError,
        "table.csv:{line}, column 'x0': expected a number, found 'oops'",
    ),
    "a missing value": ("x0", "", SourceError, "table.csv:{line}, column 'x0', value ''"),
    "infinity": ("x0", "inf", SourceError, "table.csv:{line}, column 'x0', value 'inf'"),
    "too large": ("x0", "1e300", SourceError, "table.csv:{line}, column 'x0'"),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", FAULTS)
def test_a_fault_is_named_with_its_line(tmp_path, client, case):
    name, text, error, message = FAULTS[case]
    table = frame().drop(columns="name").astype({name: object})
    table.loc[3210, name] = text
    table.to_csv(tmp_path / "table.csv", index=False)
    columns = {key: value for key, value in COLUMNS.items() if key != "name"}
    with pytest.raises(error) as fault:
        ingest(tmp_path / "table.csv", tmp_path / "s.zarr", schema={"columns": columns}, client=client)
    assert message.format(line=3212) in str(fault.value)
    assert [path.name for path in tmp_path.iterdir()] == ["table.csv"]


@pytest.fixture
def never_as_a_whole(monkeypatch):
    """Have it fail where more than the first rows of a table are read, but for its parts."""

    def first_of(batches):
        def first(self, columns):
            yield next(batches(self, columns))
            pytest.fail("it was read as a whole")

        return first

    for kind in (CsvSource, ParquetSource, DaskFrameSource):
        monkeypatch.setattr(kind, "batches", first_of(kind.batches))
    for module, name in ((csv_faults, "open_bytes"), (LibsvmSource, "sparse_blocks")):
        monkeypatch.setattr(module, name, lambda *_: pytest.fail("it was read as a whole"))


LEARNT = {"x1": {"missing": "mean"}, "c": {"dtype": "string"}}
DECLARED = {"x1": {}, "c": {"dtype": "string", "categories": list("abcd")}}


def schema_of(columns):
    return {"columns": {"x0": {}, "y": {"role": "target"}, **columns}, "other_columns": "ignore"}


@pytest.mark.slow_cases("inf", "1e300", "")
@pytest.mark.parametrize("text", ["oops", "inf", "1e300", ""])
@pytest.mark.parametrize("columns", [LEARNT, DECLARED], ids=["while learning", "while encoding"])
@pytest.mark.parametrize("one_hot", ["dense", "sparse"])
def test_a_fault_is_named_by_the_part_that_met_it(tmp_path, client, never_as_a_whole, text, columns, one_hot):
    """Of faults that a look at the whole file would list, those of the first part that has any are named."""
    path, table = tmp_path / "table.csv", pd.concat([frame()] * 5, ignore_index=True)
    table = table.fillna(0).drop(columns="name").astype({"x0": object})
    table.loc[[22100, 22102, 23210, 24900], "x0"] = text
    table.to_csv(path, index=False)
    with pytest.raises(SourceError) as fault:
        ingest(path, tmp_path / "s.zarr", schema=schema_of(columns), client=client, one_hot=one_hot)
    said = str(fault.value)
    lines = [22102] if text == "1e300" else [22102, 22104]  # finite in the file, but not in single precision
    assert re.findall(r"table.csv:(\d+), column 'x0'", said) == [str(line) for line in lines]
    assert "; " in said  # the remedy
    assert said.endswith("the rest of the file was not checked") == (len(lines) > 1)
    assert [path.name for path in tmp_path.iterdir()] == ["table.csv"]


def test_a_byte_that_is_not_utf8_is_named_by_its_part(tmp_path, client, never_as_a_whole):
    table, columns = frame().fillna(0).drop(columns="name"), {"c": {"dtype": "string", "missing": "zero"}}
    table.loc[3210, "c"] = "\xff"
    table.to_csv(tmp_path / "table.csv", index=False, encoding="latin-1")
    with refused(SourceError, "text-tables", at="table.csv:3212", naming=["UTF-8", "0xff"]):
        ingest(tmp_path / "table.csv", tmp_path / "s.zarr", schema=schema_of(columns), client=client)


def test_a_line_with_too_few_values_is_named_by_its_part(tmp_path, client, never_as_a_whole):
    lines = [f"{k},{k % 7},{k % 11}" for k in range(9000)]
    lines[6000] = "6000,1"
    (tmp_path / "table.csv").write_text("x0,b,y\n" + "\n".join(lines) + "\n")
    with refused(SourceError, "text-tables", at="table.csv:6002", naming=["3", "2"]):
        ingest(tmp_path / "table.csv", tmp_path / "s.zarr", schema=schema_of({"b": {}}), client=client)


def test_what_is_not_simple_but_has_no_quotes_is_read_in_parts(tmp_path, client, never_as_a_whole):
    """Arrow reads numbers that our own reader leaves to it."""
    lines = [f"{k},{'0x1' if k % 999 == 5 else k % 7},{k % 11}" for k in range(9000)]
    (tmp_path / "table.csv").write_text("x0,b,y\n" + "\n".join(lines) + "\n")
    options = {"schema": schema_of({"b": {"dtype": "string", "categories": ["0x1"], "unseen": "zero"}})}
    store = ingest(tmp_path / "table.csv", tmp_path / "s.zarr", client=client, shuffle=False, **options)
    assert store.shape == (9000, 2)


@pytest.mark.parametrize("kind", ["parquet", "dask"])
def test_a_fault_of_a_typed_table_has_its_row(tmp_path, client, never_as_a_whole, kind):
    table = frame().fillna(0).drop(columns="name")
    table.loc[3210, "x0"] = np.inf
    table.to_parquet(tmp_path / "t.parquet", row_group_size=300)
    source, where = {
        "parquet": (tmp_path / "t.parquet", "t.parquet, row 3210, column 'x0'"),
        "dask": (dd.from_pandas(table, npartitions=5), "dask DataFrame, partition 3, row 210, column 'x0'"),
    }[kind]
    with refused(SourceError, "frames", at=where, naming=["inf"]):
        ingest(source, tmp_path / "s.zarr", client=client, schema=schema_of({"c": {"dtype": "string"}}))


@pytest.mark.parametrize("options", [{}, {"n_features": 2, "zero_based": False}], ids=["learning", "encoding"])
def test_a_fault_of_a_libsvm_file_has_its_line(tmp_path, client, never_as_a_whole, options):
    lines = [f"{k % 3} 1:{k % 7 + 1} 2:3" for k in range(9000)]
    lines[6000] = "1 1:oops"
    (tmp_path / "t.svm").write_text("\n".join(lines) + "\n")
    with refused(SourceError, "sparse-rows", at="t.svm:6001, character 3", naming=["1:oops"]):
        ingest(tmp_path / "t.svm", tmp_path / "s.zarr", client=client, **options)


def test_what_is_not_plain_is_read_as_a_whole(tmp_path, client):
    rows = [f'{k},"{k % 3},\n{k}",{k % 11}' for k in range(5000)]
    rows[2000] = '2000,5" of it,3'  # which turns inside and outside of quotes round, for who counts them
    path = tmp_path / "table.csv"
    path.write_text("a,b,y\n" + "\n".join(rows) + "\n")
    columns = {"a": {}, "b": {"role": "id"}, "y": {"role": "target"}}
    ingested_whole(path, tmp_path / "whole.zarr", schema={"columns": columns})
    ingest(path, tmp_path / "parts.zarr", schema={"columns": columns}, client=client)
    assert files_of(tmp_path / "parts.zarr") == files_of(tmp_path / "whole.zarr")


def test_a_constant_target_is_refused(tmp_path, client):
    frame().drop(columns=["name", "c"]).fillna(0).assign(y=2).to_csv(tmp_path / "table.csv", index=False)
    with refused(DataError, "target", at="target 'y'", naming=["2"]):
        ingest(tmp_path / "table.csv", tmp_path / "s.zarr", target="y", client=client)
    assert [path.name for path in tmp_path.iterdir()] == ["table.csv"]


def test_parts_end_where_records_end(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("a,y\n" + '1,"x\ny"\n2,z\n' * 300)
    parts = cut_text(path, 4, 64, 100, b'"')
    assert [part.start for part in parts[1:]] == [part.stop for part in parts[:-1]]
    assert (parts[0].start, parts[-1].stop) == (4, path.stat().st_size)
    content = path.read_bytes()
    for part in parts:
        text = content[part.start : part.stop]
        assert text.count(b'"') % 2 == 0
        assert text.endswith(b"\n")
    assert 30 < len(parts) <= len(content) // 100


def test_compressed_and_commented_files_have_no_parts(tmp_path):
    path = written("csv", tmp_path)
    assert len(CsvSource(path, target="y").parts()) > 10
    assert not CsvSource(path, target="y", comment="#").parts()
    assert not CsvSource(path, target="y", encoding="latin-1").parts()
    assert part_nbytes(10**12) == 10**12 // 256
