"""Tables one-hot as entries: the rows of scikit-learn's OneHotEncoder, whatever the table comes as."""

import copy
import json
import tracemalloc

import dask.dataframe as dd
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.preprocessing import OneHotEncoder

from daskfs.errors import ConfigError, SchemaError, SourceError
from daskfs.pipeline.config import build_pipeline
from daskfs.pipeline.run import run_pipeline
from daskfs.selectors.mission.selector import Mission
from daskfs.sources.ingest import ingest
from daskfs.sources.levels import LevelCounts
from daskfs.sources.registry import as_source, make_source
from daskfs.sources.sparse.clicks import ClicksSource
from daskfs.sources.sparse.one_hot import OneHotSource
from tests.refusals import refused
from tests.sources.sparse.reading import assert_same_rows, names_of, rows_of
from tests.sources.sparse.test_text import counts_of

LEVELS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=6)


def source_of(table, target="y", **options):
    source = as_source(table, target=target, options={"one_hot": "sparse", **options}, schema=None)
    source.check()
    return source


def with_schema(table, columns, **options):
    schema = {"columns": {"y": {"role": "target"}} | columns}
    source = as_source(table, schema=schema, options={"one_hot": "sparse", **options})
    source.check()
    return source


@pytest.fixture
def frame():
    rng = np.random.default_rng(0)
    n = 500
    return pd.DataFrame(
        {
            "city": rng.choice(["Oslo", "Łódź", "San José", "a=b", ""], n),
            "age": rng.integers(0, 3, n),
            "user": [f"u{j}" for j in rng.integers(0, 300, n).tolist()],
            "x": rng.standard_normal(n).astype(np.float32).astype(float),
            "y": rng.integers(0, 2, n),
        }
    )


@pytest.mark.slow
@given(data=st.data())
def test_rows_are_those_of_scikit_learns_encoder(data):
    n_rows = data.draw(st.integers(1, 12))
    levels = {name: data.draw(st.lists(LEVELS, min_size=n_rows, max_size=n_rows)) for name in ("a", "b=", "ç")}
    is_categorical = data.draw(st.booleans())
    frame = pd.DataFrame(levels, dtype=object)
    frame = frame.astype("category") if is_categorical else frame
    encoder = OneHotEncoder(feature_name_combiner=lambda column, level: f"{column}={level}")
    encoded = encoder.fit_transform(frame)
    names = encoder.get_feature_names_out()
    expected = [dict.fromkeys(names[row.indices], 1.0) for row in encoded]
    source = source_of(frame.assign(y=np.arange(n_rows)))
    assert counts_of(source, block_rows=data.draw(st.integers(1, 12))) == expected


@pytest.mark.slow
def test_every_form_of_a_table_has_the_same_rows(frame, tmp_path):
    frame.to_csv(tmp_path / "table.csv", index=False)
    frame.to_parquet(tmp_path / "table.parquet", row_group_size=90)
    frame["city"] = frame["city"].replace("", "none")  # a CSV file says that a value is missing by nothing
    frame.to_csv(tmp_path / "table.csv", index=False)
    frame.to_parquet(tmp_path / "table.parquet", row_group_size=90)
    expected = rows_of(source_of(frame))
    forms = [
        str(tmp_path / "table.csv"),
        str(tmp_path / "table.parquet"),
        pa.Table.from_pandas(frame, preserve_index=False),
        frame.astype({"city": "category", "user": "category"}),
        dd.from_pandas(frame, npartitions=3),
    ]
    for form in forms:
        source = source_of(form)
        assert_same_rows(rows_of(source), expected)
        assert_same_rows(rows_of(source, block_rows=7, block_nnz=30), expected)
        assert_same_rows(rows_of(source, block_rows=1000, block_nnz=1), expected)


def test_numbers_are_kept_and_zeros_are_left_out(frame):
    rows = counts_of(source_of(frame))
    for row, (_, found) in zip(rows, frame.iterrows(), strict=True):
        expected = {f"city={found['city']}": 1.0, f"user={found['user']}": 1.0, "x": np.float32(found["x"])}
        assert row == expected | ({"age": float(found["age"])} if found["age"] else {})


def test_counts_are_binned_as_in_click_logs_and_have_the_same_ids(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("y,n,site\n1,100,s1\n0,-3,s2\n1,2.5,s1\n0,0,s3\n", encoding="utf-8")
    clicks = ClicksSource(path, "y", counts=["n"], delimiter=",")
    table = with_schema(str(path), {"n": {"encoding": "log_bins"}, "site": {"dtype": "string"}})
    assert counts_of(table)[0] == {"n=98..108": 1.0, "site=s1": 1.0}
    assert_same_rows(rows_of(table), rows_of(clicks) | {"labels": {}})
    assert names_of(table) == names_of(clicks)


def test_missing_values_are_treated_as_the_schema_says(frame):
    frame.loc[3, "city"], frame.loc[4, "age"] = None, np.nan
    with refused(SourceError, "frames", at="DataFrame, row 3, column 'city'", naming=["category"]):
        rows_of(source_of(frame[["city", "y"]]))
    columns = {
        "city": {"dtype": "string", "missing": "category"},
        "age": {"encoding": "log_bins", "missing": "category"},
    }
    rows = counts_of(with_schema(frame[["city", "age", "y"]], columns))
    assert rows[3] == {"city=missing": 1.0, f"age={frame['age'][3]:.0f}": 1.0}
    assert rows[4] == {f"city={frame['city'][4]}": 1.0, "age=missing": 1.0}
    columns = {"city": {"dtype": "string", "missing": "zero"}, "age": {"missing": "mean"}}
    rows = counts_of(with_schema(frame[["city", "age", "y"]], columns))
    assert set(rows[3]) <= {"age"}
    assert rows[4]["age"] == pytest.approx(frame["age"].mean())
    columns = {"city": {"dtype": "string", "missing": "drop"}, "age": {"missing": "drop"}}
    source = with_schema(frame[["city", "age", "y"]], columns)
    assert len(counts_of(source)) == len(frame) - 2
    assert any("2 rows dropped" in note for note in source.notes)
    assert counts_of(source_of(frame[["city", "y"]], missing="category"))[3] == {"city=missing": 1.0}


def test_rare_levels_are_pooled_and_counted(frame):
    counts = frame["user"].value_counts()
    source = with_schema(frame[["user", "y"]], {"user": {"dtype": "string", "min_count": 3}})
    rows, rare = counts_of(source), set(counts.index[counts < 3])
    assert [*map(set, rows)] == [{"user=other" if user in rare else f"user={user}"} for user in frame["user"]]
    assert any(f"{len(rare)} rare categories ({counts[counts < 3].sum()} rows)" in note for note in source.notes)
    most = with_schema(frame[["user", "y"]], {"user": {"dtype": "string", "max_categories": 7}})
    assert len(set(names_of(most).values()) - {"user=other"} & {name for row in counts_of(most) for name in row}) == 7


def test_levels_that_a_schema_does_not_list_are_treated_as_it_says(frame):
    listed = {"dtype": "string", "categories": ["Oslo", "Łódź"]}
    with refused(SourceError, "frames", at="DataFrame, row 0, column 'city'", naming=["2"]):
        rows_of(with_schema(frame[["city", "y"]], {"city": listed}))
    source = with_schema(frame[["city", "y"]], {"city": listed | {"unseen": "other"}})
    assert {name for row in counts_of(source) for name in row} == {"city=Oslo", "city=Łódź", "city=other"}
    assert any("unseen categories encoded as 'city=other'" in note for note in source.notes)
    zero = counts_of(with_schema(frame[["city", "y"]], {"city": listed | {"unseen": "zero", "drop_first": True}}))
    assert {name for row in zero for name in row} == {"city=Łódź"}


def test_dates_targets_weights_and_labels_are_those_of_the_dense_table(tmp_path):
    frame = pd.DataFrame(
        {
            "day": pd.date_range("2024-02-27", periods=9).strftime("%Y-%m-%d"),
            "word": list("abcabcabc"),
            "kind": list("ppqpqqqpp"),
            "w": np.arange(1.0, 10.0),
            "part": ["train", "test", "train"] * 3,
        }
    )
    schema = {
        "columns": {
            "day": {"dtype": "date", "encoding": {"date_parts": ["month", "weekday"]}},
            "word": {"dtype": "string"},
            "kind": {"dtype": "string", "role": "target"},
            "w": {"role": "weight"},
            "part": {"role": "split", "dtype": "string"},
        }
    }
    sparse, dense = (as_source(frame, schema=schema, options={"one_hot": form}) for form in ("sparse", "dense"))
    (block,) = dense.row_blocks(100)
    expected = [
        {name: value for name, value in zip(dense.feature_names, row.tolist(), strict=True) if value} for row in block.X
    ]
    assert counts_of(sparse) == expected
    rows = rows_of(sparse)
    np.testing.assert_array_equal(rows["y"], block.y)
    np.testing.assert_array_equal(rows["weight"], block.weight)
    assert rows["labels"] == {"part": block.labels["part"].tolist()}
    assert sparse.target_classes == dense.target_classes == ["p", "q"]
    assert sparse.namespaces == ["day.month", "day.weekday", "word"]


@pytest.mark.slow
def test_a_million_levels_are_a_store_that_a_dense_one_refuses(tmp_path):
    n = 100_000
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"user": rng.permutation(10**6)[:n].astype(str), "y": rng.integers(0, 2, n)})
    with refused(SchemaError, "table-schemas", at="column 'user'", naming=["one_hot"]):
        declared = {"columns": {"user": {"dtype": "string"}, "y": {"role": "target"}}}
        ingest(frame, tmp_path / "dense.zarr", schema=declared)
    store = ingest(frame, tmp_path / "store.zarr", target="y", one_hot="sparse", shuffle=False)
    assert store.shape == (n, n)
    users = store.read(slice(0, 3)).argmax(axis=1)
    assert [store.feature_names[j] for j in users] == [f"user={user}" for user in frame["user"][:3]]
    again = ingest(frame, tmp_path / "store.zarr", target="y", one_hot="sparse", shuffle=False)
    assert again.encoding_digest == store.encoding_digest


def test_what_cannot_be_is_refused_with_a_remedy(frame, tmp_path):
    with refused(SchemaError, "sparse-rows", at="DataFrame", naming=["drop_first"]):
        with_schema(frame[["city", "y"]], {"city": {"dtype": "string", "drop_first": True}})
    frame.loc[5, "city"], frame.loc[6, "city"] = "missing", None
    with refused(SourceError, "frames", at="DataFrame, row 5, column 'city'", naming=["'missing'"]):
        rows_of(source_of(frame[["city", "y"]], missing="category"))
    binned = {"columns": {"y": {"role": "target"}, "age": {"encoding": "log_bins"}}, "other_columns": "ignore"}
    dense = as_source(frame, schema=binned)
    with refused(SchemaError, "table-schemas", at="column 'age'", naming=["one_hot"]):
        list(dense.row_blocks(10))
    with refused(ConfigError, "formats", at="source.one_hot", naming=["'spare'"]):
        as_source(frame, target="y", options={"one_hot": "spare"})
    with refused(ConfigError, "formats", at="source.one_hot", naming=["'one_hot'"]):
        make_source("libsvm", path=str(tmp_path), one_hot="sparse")
    with refused(ConfigError, "formats", at="ingest", naming=["delimiter"]):
        as_source(frame, target="y", options={"delimiter": ";"})


@pytest.mark.slow
def test_parts_have_the_rows_of_the_whole(frame, tmp_path, monkeypatch):
    monkeypatch.setattr("daskfs.sources.csv_records.WORTH_COMPILING_NBYTES", 0)
    monkeypatch.setattr("daskfs.sources.base.MIN_PART_NBYTES", 2000)
    frame = frame.assign(city=frame["city"].replace("", None))
    frame.to_csv(tmp_path / "table.csv", index=False)
    columns = {
        "city": {"dtype": "string", "missing": "drop"},
        "user": {"dtype": "string", "min_count": 2},
        "x": {},
        "age": {},
    }
    source = with_schema(str(tmp_path / "table.csv"), columns)
    whole = list(source.sparse_blocks(1000, 10**6))
    notes, parts = list(source.notes), source.parts()
    assert len(parts) > 2
    found, facts = [], []
    for part in parts:
        there = copy.copy(source)
        found += there.sparse_part_blocks(part, 60, 10**6)
        facts.append(there.part_facts())
    source.conclude(facts, sum(block.n_rows for block in found))
    assert list(source.notes) == notes
    for name in ("features", "data", "y"):
        together = [np.concatenate([getattr(block, name) for block in blocks]) for blocks in (found, whole)]
        np.testing.assert_array_equal(*together)


@pytest.mark.parametrize("is_merged", [False, True])
def test_threads_that_share_the_counts_of_levels_change_nothing_when_they_ask(is_merged):
    counts, later = LevelCounts("c"), LevelCounts("c")
    for one in (counts, later):
        one.update(pa.array(["a", "a", "b", "c"]))
    if is_merged:
        given = dict(vars(later))
        counts.merge(later)
        assert all(vars(later)[name] is value for name, value in given.items())
    before = dict(vars(counts))
    ids, *others = counts.frequent(3 if is_merged else 2, None)
    assert (len(ids), others) == (1, [2, 4 if is_merged else 2])
    assert all(vars(counts)[name] is value for name, value in before.items())


def test_columns_are_namespaces_that_can_be_paired(frame):
    source = source_of(frame[["city", "age", "user", "y"]].head(20), interactions=[["city", "user"]])
    rows = counts_of(source)
    for row, (_, found) in zip(rows, frame.head(20).iterrows(), strict=True):
        assert f"city={found['city']} * user={found['user']}" in row
        assert len(row) == 3 + (found["age"] > 0)
    assert isinstance(source.source, OneHotSource)
    with refused(ConfigError, "pairs-of-features", at="source.interactions", naming=["'cty'", "'city'"]):
        source_of(frame, interactions=[["cty", "user"]])


def test_a_table_is_learnt_from_as_it_is_read_and_new_levels_have_no_weight(tmp_path):
    rng = np.random.default_rng(0)
    n = 4000
    frame = pd.DataFrame({"user": rng.integers(0, 50, n).astype(str), "city": rng.choice(list("abcde"), n)})
    frame["y"] = ((frame["user"] == "7") | (frame["city"] == "c")).astype(int)
    frame.to_csv(tmp_path / "table.csv", index=False)
    document = {
        "version": 1,
        "name": "table",
        "source": {"kind": "csv", "path": str(tmp_path / "table.csv"), "target": "y", "one_hot": "sparse"},
        "store": "none",
        "select": {"method": "mission", "n_features_to_select": 2, "loss": "logistic", "random_state": 0},
        "output": str(tmp_path / "run"),
    }
    schema = {
        "columns": {name: {"dtype": "string"} for name in ("user", "city")} | {"y": {"role": "target"}},
    }
    (tmp_path / "schema.yaml").write_text(json.dumps(schema), encoding="utf-8")
    document["source"]["schema"] = str(tmp_path / "schema.yaml")
    result = run_pipeline(build_pipeline(document, "test", tmp_path)).results["mission"]
    assert set(result.table["name"]) == {"user=7", "city=c"}
    assert result.metrics["auc"] > 0.99
    model = Mission.load(tmp_path / "run" / "model.npz")
    later = pd.DataFrame({"user": ["7", "new", "8"], "city": ["new", "c", "new"], "y": [1, 1, 0]})
    np.testing.assert_array_equal(model.predict(source_of(later)), [1, 1, 0])


@pytest.mark.slow
def test_memory_is_that_of_a_block_whatever_the_number_of_levels_and_rows():
    def peak_of(n_rows):
        users = pa.array(np.random.default_rng(0).integers(0, 10**9, n_rows)).cast(pa.string())
        source = source_of(pa.table({"user": users, "y": pa.array(np.zeros(n_rows))}))
        tracemalloc.start()
        try:
            for _ in source.sparse_blocks(4096, 2**16):
                pass
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    peak_of(10_000)
    assert peak_of(400_000) < 1.2 * peak_of(100_000)
