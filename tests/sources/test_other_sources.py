"""Arrays, frames, Parquet, Zarr, built-in and synthetic data: each yields the rows it was given."""

from collections import Counter
from urllib.parse import quote

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse
import zarr

import daskfs
from daskfs.errors import ConfigError, DataError, SchemaError, SourceError
from daskfs.matrix.arrays import ArrayMatrix
from daskfs.sources.arrays import ArraySource
from daskfs.sources.dask_array import DaskArraySource
from daskfs.sources.dataframe import DaskFrameSource, FrameSource
from daskfs.sources.looking import look_at
from daskfs.sources.parquet import ParquetSource
from daskfs.sources.registry import as_source, make_source
from daskfs.sources.sklearn_sets import SklearnSource
from daskfs.sources.synthetic import SyntheticSource
from daskfs.sources.zarr_array import ZarrSource
from tests.refusals import refused

RNG = np.random.default_rng(0)
X = np.round(RNG.normal(size=(50, 4)), 3)
Y = np.round(RNG.normal(size=50), 3)
NAMES = ["x0", "x1", "x2", "x3"]
FRAME = pd.DataFrame(X, columns=NAMES).assign(target=Y)
IGNORE = {"other_columns": "ignore"}


def parquet(tmp_path):
    FRAME.iloc[:20].to_parquet(tmp_path / "1.parquet")
    FRAME.iloc[20:].to_parquet(tmp_path / "2.parquet", row_group_size=7)
    return ParquetSource(tmp_path, target="target")


def foreign_zarr(tmp_path):
    zarr.create_array(str(tmp_path / "X.zarr"), data=X, chunks=(8, 3))
    zarr.create_array(str(tmp_path / "y.zarr"), data=Y)
    return ZarrSource(tmp_path / "X.zarr", y=tmp_path / "y.zarr")


SOURCES = {
    "numpy": lambda _: ArraySource(X, Y),
    "csr": lambda _: ArraySource(scipy.sparse.csr_matrix(X), Y),
    "csc": lambda _: ArraySource(scipy.sparse.csc_array(X), Y),
    "pandas": lambda _: FrameSource(FRAME, target="target"),
    "pandas and y": lambda _: FrameSource(FRAME[NAMES], y=Y),
    "dask frame": lambda _: DaskFrameSource(dd.from_pandas(FRAME, npartitions=3), target="target"),
    "dask frame and y": lambda _: DaskFrameSource(
        dd.from_pandas(FRAME[NAMES], npartitions=3), y=dd.from_pandas(FRAME["target"], npartitions=3)
    ),
    "dask array": lambda _: DaskArraySource(da.from_array(X, chunks=(16, 3)), da.from_array(Y, chunks=16)),
    "dask array, unknown lengths": lambda _: DaskArraySource(
        dd.from_pandas(FRAME[NAMES], npartitions=3).to_dask_array(), Y
    ),
    "parquet": parquet,
    "zarr": foreign_zarr,
}


@pytest.mark.parametrize("block_rows", [1, 9, 50, 1000])
@pytest.mark.parametrize("kind", SOURCES)
def test_every_source_yields_the_rows_it_was_given(kind, block_rows, tmp_path):
    source = SOURCES[kind](tmp_path)
    source.check()
    blocks = list(source.row_blocks(block_rows))
    stops = np.cumsum([len(block.X) for block in blocks])
    assert [block.start for block in blocks] == [0, *stops[:-1]]
    assert all(len(block.X) <= block_rows for block in blocks)
    np.testing.assert_array_equal(np.concatenate([block.X for block in blocks]), X)
    np.testing.assert_array_equal(np.concatenate([block.y for block in blocks]), Y)
    assert (list(source.feature_names), list(source.target_names)) == (NAMES, ["target"])
    assert source.n_samples in (50, None)


@pytest.mark.parametrize("kind", SOURCES)
def test_every_source_can_be_told_from_another_and_from_itself(kind, tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    first, second = SOURCES[kind](tmp_path / "a"), SOURCES[kind](tmp_path / "b")
    assert first.digest() == second.digest()
    assert first.is_unchanged(first.describe(), first.digest())
    assert ArraySource(X + 1, Y).digest() != ArraySource(X, Y).digest() != ArraySource(X, Y + 1).digest()


def test_an_array_matrix_reads_any_rows_and_columns():
    rows, columns = np.array([7, 3, 3]), np.array([2, 0])
    for values in (X, scipy.sparse.csr_matrix(X), X.astype(np.float32), np.asfortranarray(X)):
        matrix = ArrayMatrix(values, Y, feature_names=NAMES)
        expected = X.astype(values.dtype)
        for r in (rows, slice(5, 9), slice(None)):
            for c in (columns, slice(1, 3), slice(None)):
                block = matrix.read(r, c)
                np.testing.assert_array_equal(block, expected[r][:, c])
                assert block.flags.c_contiguous
        out = np.empty((4, 2), matrix.dtype)
        assert matrix.read(slice(5, 9), columns, out) is out
    assert [block.X.shape for block in matrix.row_blocks(block_rows=30)] == [(30, 4), (20, 4)]
    np.testing.assert_array_equal(matrix.read_target(rows), Y[rows])


@pytest.mark.parametrize(("value", "word"), [(np.nan, "NaN"), (np.inf, "infinity")])
@pytest.mark.parametrize("make", [np.array, scipy.sparse.csr_matrix])
def test_what_is_not_finite_is_named_by_column_and_row(value, word, make):
    bad = X.copy()
    bad[17, 2] = value
    with refused(DataError, "values", at="column 'x2', row 17", naming=[word]):
        ArrayMatrix(make(bad), Y, feature_names=NAMES)


UNKNOWN_CHUNKS = da.from_array(X, chunks=20)[da.from_array(Y, chunks=20) < np.inf]
BAD_ARRAYS = {
    "one dimension": (lambda: ArraySource(X[0]), "1 dimension"),
    "text": (lambda: ArraySource(np.array([["a"]])), "expected numbers"),
    "short target": (lambda: ArraySource(X, Y[:3]), "expected 50 rows as in X"),
    "few names": (lambda: ArraySource(X, Y, feature_names=["a"]), "expected 4 feature names, found 1"),
    "negative weight": (lambda: ArraySource(X, Y, weight=-np.ones(50)), "weights of at least 0"),
    "no rows": (lambda: ArraySource(X[:0]).check(), "at least one row"),
    "two names": (lambda: FrameSource(FRAME[["x0", "x0"]], target="x0").check(), "two columns are called 'x0'"),
    "no target": (lambda: FrameSource(FRAME).check(), "no target was given"),
    "target missing": (lambda: FrameSource(FRAME, target="targt").check(), "did you mean 'target'?"),
    "weight missing": (lambda: FrameSource(FRAME, target="x0", weight="w").check(), "weight 'w' is not a column"),
    "dask chunks": (lambda: DaskArraySource(UNKNOWN_CHUNKS, da.from_array(Y, chunks=7)), "compute_chunk_sizes"),
    "no such set": (lambda: SklearnSource("diabets"), "did you mean 'diabetes'?"),
    "no such kind": (lambda: make_source("cvs", path="a"), "did you mean 'csv'?"),
    "no such option": (lambda: make_source("csv", path="a", delimeter=";"), "did you mean 'delimiter'?"),
    "option required": (lambda: make_source("csv"), "needs 'path'"),
    "design": (lambda: SyntheticSource(10, 5, design="mesage"), "did you mean 'message'?"),
    "correlation": (lambda: SyntheticSource(10, 5, correlation=1.0), "correlation in"),
    "informative": (lambda: SyntheticSource(10, 5, n_informative=6), "at most 5, found 6"),
    "schema for arrays": (lambda: as_source(X, schema={}), "for tables"),
    "names for a file": (lambda: as_source("a.csv", names=["a"]), "columns of a file have names"),
    "no source": (lambda: as_source(None), "expected a path"),
    "no zarr": (lambda: ZarrSource("nowhere.zarr"), "no such Zarr array"),
}


@pytest.mark.parametrize("case", BAD_ARRAYS)
def test_bad_arguments_are_refused(case):
    make, words = BAD_ARRAYS[case]
    with pytest.raises((DataError, SourceError, ConfigError, SchemaError)) as caught:
        make()
    assert words in str(caught.value)


# parquet


def test_parquet_keeps_types_and_takes_nan_for_missing(tmp_path):
    table = pa.table(
        {
            "n": pa.array([1.0, np.nan, None, 4.0]),
            "c": pa.array(["a", "b", None, "a"]).dictionary_encode(),
            "d": pa.array(np.array(["2020-01-31", "2021-02-01", "2020-03-01", "2020-01-01"], "datetime64[ms]")),
            "b": pa.array([True, False, True, True]),
            "y": pa.array([1, 2, 3, 4], pa.int8()),
        }
    )
    pq.write_table(table, tmp_path / "t.parquet")
    columns = {
        "n": {"missing": "mean"},
        "c": {"dtype": "string", "missing": "zero"},
        "d": {"dtype": "date", "encoding": {"date_parts": ["year"]}},
        "b": {},
        "y": {"role": "target"},
    }
    source = ParquetSource(tmp_path / "t.parquet", schema={"columns": columns})
    (block,) = source.row_blocks(10)
    assert source.feature_names == ["n", "c=a", "c=b", "d.year=2020", "d.year=2021", "b"]
    assert block.X[:, 0].tolist() == [1, 2.5, 2.5, 4]
    assert block.X[2].tolist() == [2.5, 0, 0, 1, 0, 1]


def test_a_parquet_file_cut_or_of_other_columns_is_named(tmp_path):
    parquet(tmp_path)
    whole = (tmp_path / "1.parquet").read_bytes()
    (tmp_path / "3.parquet").write_bytes(whole[: len(whole) // 2])
    with refused(SourceError, "frames", at="3.parquet", naming=["parquet"]):
        ParquetSource(tmp_path, target="target").check()
    FRAME.rename(columns={"x1": "z"}).to_parquet(tmp_path / "3.parquet")
    with refused(SourceError, "frames", at="3.parquet", naming=["1.parquet", "'x1'", "'z'"]):
        ParquetSource(tmp_path, target="target").check()


def partitioned(folder):
    """Write a table as Dask and Spark do: values of two columns are in the names of folders."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(240, 3)), columns=list("abc"))
    table["town"] = rng.choice(["Oslo", "São Paulo", "a/b=c"], len(table))
    table["year"] = rng.choice([2020, 2021], len(table))
    table["y"] = 2 * table["a"] + 3 * (table["town"] == "Oslo") + table["year"] - 2020
    pieces = []
    for k, ((town, year), rows) in enumerate(table.groupby(["town", "year"])):
        part = folder / f"town={quote(town, safe='')}" / f"year={year}"
        part.mkdir(parents=True)
        rows.drop(columns=["town", "year"]).to_parquet(part / f"part.{k}.parquet")
        pieces.append(rows)
    (folder / "_SUCCESS").touch()
    return pd.concat(pieces)


def test_columns_in_the_names_of_folders_are_columns(tmp_path):
    table = partitioned(tmp_path / "t.parquet")
    store = daskfs.ingest(tmp_path / "t.parquet", tmp_path / "s.zarr", target="y", shuffle=False, dtype="float64")
    assert sorted(store.feature_names) == ["a", "b", "c", "town=Oslo", "town=São Paulo", "town=a/b=c", "year"]
    order = np.argsort(store.read_target(slice(None)), kind="stable")
    expected = table.sort_values("y", kind="stable")
    for name in ("a", "year"):
        j = list(store.feature_names).index(name)
        np.testing.assert_array_equal(np.asarray(store.read(slice(None)))[order, j], expected[name])
    j = list(store.feature_names).index("town=a/b=c")
    np.testing.assert_array_equal(np.asarray(store.read(slice(None)))[order, j], expected["town"] == "a/b=c")
    look = look_at(tmp_path / "t.parquet", "y")  # which must not see one town alone
    assert {one.name: one.entry for one in look.inferred.columns}["town"] == {"dtype": "string"}
    only = ParquetSource(
        tmp_path / "t.parquet", schema={"columns": {"town": {"dtype": "string"}, "y": {"role": "target"}}, **IGNORE}
    )
    towns = [batch.table["town"].to_pylist() for batch in only.batches({"town": only.columns["town"]})]
    assert Counter(town for some in towns for town in some) == Counter(table["town"])


def test_folders_of_other_columns_are_refused(tmp_path):
    partitioned(tmp_path)
    (tmp_path / "town=Rome" / "month=3").mkdir(parents=True)
    pd.DataFrame({"a": [1.0]}).to_parquet(tmp_path / "town=Rome" / "month=3" / "x.parquet")
    with refused(SourceError, "frames", at="month=3", naming=["town, year"]):
        ParquetSource(tmp_path, target="y")
    pd.DataFrame({"a": [1.0], "y": 1.0, "g": 1}).to_parquet(_made(tmp_path / "t" / "g=1") / "x.parquet")
    with refused(SourceError, "frames", at="x.parquet", naming=["'g'"]):
        ParquetSource(tmp_path / "t", target="y").check()


def test_a_value_that_is_missing_in_a_folder_s_name_is_missing(tmp_path):
    for town in ("Oslo", "__HIVE_DEFAULT_PARTITION__"):
        pd.DataFrame({"a": [1.0, 2.0], "y": [0.0, 1.0]}).to_parquet(_made(tmp_path / f"town={town}") / "x.parquet")
    with refused(SourceError, "frames", at="row 0, column 'town'", naming=["missing"]):
        daskfs.ingest(tmp_path, tmp_path / "s.zarr", target="y", kind="parquet")


def _made(folder):
    folder.mkdir(parents=True)
    return folder


def test_the_index_of_pandas_is_no_column(tmp_path):
    """As a feature, the numbers of rows would say how a table is sorted."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(100, 3)), columns=["a", "b", "y"]).query("a > 0")
    table.to_parquet(tmp_path / "t.parquet")
    table.assign(c=np.where(table["b"] > 0, "x", "z")).to_parquet(tmp_path / "c.parquet")
    arrow, mixed = pq.read_table(tmp_path / "t.parquet"), pq.read_table(tmp_path / "c.parquet")
    with pa.ipc.new_file(tmp_path / "t.arrow", arrow.schema) as out:
        out.write_table(arrow)
    assert "__index_level_0__" in arrow.column_names
    for k, source in enumerate([tmp_path / "t.parquet", tmp_path / "t.arrow", arrow]):
        assert daskfs.ingest(source, tmp_path / f"{k}.zarr", target="y").feature_names.tolist() == ["a", "b"]
    for given in (arrow, mixed):
        names = [name for name in given.column_names if name not in ("y", "__index_level_0__")]
        fitted = daskfs.FGM(1).fit(given.drop_columns("y"), table["y"])
        assert list(fitted.feature_names_in_) == names
    assert [one.name for one in look_at(tmp_path / "t.parquet", "y").inferred.columns] == ["a", "b", "y"]
    declared = {"columns": {"__index_level_0__": {}, "y": {"role": "target"}}, **IGNORE}
    assert ParquetSource(tmp_path / "t.parquet", schema=declared).feature_names == ["__index_level_0__"]


def test_a_missing_value_of_a_parquet_file_is_named_by_row(tmp_path):
    frame = FRAME.copy()
    frame.loc[31, "x0"] = np.nan
    frame.to_parquet(tmp_path / "t.parquet")
    with refused(SourceError, "frames", at="t.parquet, row 31, column 'x0'", naming=["parquet"]):
        list(ParquetSource(tmp_path / "t.parquet", target="target").row_blocks(7))


# synthetic


@pytest.mark.parametrize("noise", ["normal", "t3", "logistic"])
def test_synthetic_rows_do_not_depend_on_the_block(noise):
    source = SyntheticSource(3000, 7, correlation=0.5, noise=noise, random_state=3)
    whole = next(source.row_blocks(5000))
    for block_rows in (1, 1000, 1024, 1500):
        if block_rows == 1:
            block = next(source.row_blocks(1))
            np.testing.assert_array_equal(block.X, whole.X[:1])
            continue
        np.testing.assert_array_equal(np.concatenate([b.X for b in source.row_blocks(block_rows)]), whole.X)
        np.testing.assert_array_equal(np.concatenate([b.y for b in source.row_blocks(block_rows)]), whole.y)


def test_synthetic_data_have_the_moments_of_the_paper():
    source = SyntheticSource(40_000, 5, correlation=0.5, random_state=1)
    block = next(source.row_blocks(40_000))
    noise = block.y - block.X[:, source.support].astype(np.float64) @ source.coef
    np.testing.assert_allclose(np.corrcoef(block.X.T), 0.5 + 0.5 * np.eye(5), atol=0.02)  # 4 standard errors
    assert noise.std() == pytest.approx(2, rel=0.02)
    assert block.X.std() == pytest.approx(1, rel=0.02)
    assert (np.abs(source.coef) >= 8 * np.log(40_000) / 200).all()
    assert source.describe()["support"] == source.support.tolist()
    assert SyntheticSource(40_000, 5, correlation=0.5, random_state=2).digest() != source.digest()


def test_logistic_noise_gives_classes_with_the_odds_of_the_model():
    source = SyntheticSource(40_000, 5, correlation=0.5, noise="logistic", random_state=1)
    block = next(source.row_blocks(40_000))
    assert set(np.unique(block.y)) == {0.0, 1.0}
    odds = block.X[:, source.support].astype(np.float64) @ source.coef
    for low, high in [(-3, -1), (-1, 1), (1, 3)]:
        rows = (odds > low) & (odds < high)
        assert block.y[rows].mean() == pytest.approx((1 / (1 + np.exp(-odds[rows]))).mean(), abs=0.015)  # 3 std. errors


@pytest.mark.parametrize("name", ["diabetes", "breast_cancer", "digits", "iris", "wine", "linnerud"])
def test_built_in_sets_need_no_network(name):
    source = SklearnSource(name)
    block = next(source.row_blocks(10_000))
    assert block.X.shape == (source.n_samples, len(source.feature_names))
    assert len(source.target_names) == (3 if name == "linnerud" else 1)
