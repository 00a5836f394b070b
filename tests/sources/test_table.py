"""From columns to features: what a schema says is what the blocks hold."""

import datetime

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from daskfs.errors import DataError, SchemaError, SourceError
from daskfs.sources.csv import CsvSource
from daskfs.sources.dataframe import FrameSource
from daskfs.sources.dates import RANGES, date_part, parse_dates
from daskfs.sources.table_schema import load_table_schema
from tests.refusals import refused


def encode(write, text, columns, block_rows=3, dtype=np.float64, **schema):
    """A table as {feature name: values}, and its source."""
    schema = {"columns": {"y": {"role": "target"}} | columns, **schema}
    source = CsvSource(write(text), schema=schema)
    X = np.concatenate([block.X for block in source.row_blocks(block_rows, dtype)])
    return dict(zip(source.feature_names, X.T.tolist(), strict=True)), source


def test_a_category_becomes_one_dummy_per_value_in_order(write):
    features, _ = encode(write, "c,y\n10,1\n9,2\n10,3\n", {"c": {"dtype": "integer", "encoding": "category"}})
    assert features == {"c=9": [0, 1, 0], "c=10": [1, 0, 1]}


def test_the_first_dummy_can_be_left_out(write):
    features, _ = encode(write, "c,y\nb,1\na,2\n", {"c": {"dtype": "string", "drop_first": True}})
    assert features == {"c=b": [1, 0]}


RARE = "c,y\n" + "a,1\n" * 3 + "b,1\n" * 2 + "d,2\ne,2\n"


def test_rare_categories_are_pooled_and_said(write):
    features, source = encode(write, RARE, {"c": {"dtype": "string", "min_count": 2}})
    assert features["c=other"] == [0, 0, 0, 0, 0, 1, 1]
    assert source.notes == [
        "column 'c': 2 rare categories (2 rows) are pooled into 'c=other': 'd', 'e'",
    ]
    features, _ = encode(write, RARE, {"c": {"dtype": "string", "max_categories": 1}})
    assert list(features) == ["c=a", "c=other"]


@pytest.mark.parametrize(("unseen", "expected"), [("zero", ["c=a", "c=b"]), ("other", ["c=a", "c=b", "c=other"])])
def test_unseen_categories_become_zeros_or_other_and_are_said(write, unseen, expected):
    column = {"dtype": "string", "categories": ["a", "b"], "unseen": unseen}
    features, source = encode(write, RARE, {"c": column})
    assert list(features) == expected
    assert sum(map(np.array, features.values()))[5:].tolist() == ([0, 0] if unseen == "zero" else [1, 1])
    assert "2 rows of unseen categories encoded as" in source.notes[0]


def test_an_unseen_category_is_an_error_where_nothing_else_is_said(write):
    with refused(SourceError, "text-tables", naming=["table.csv", "7", "'c'", "'d'", "2"]):
        encode(write, RARE, {"c": {"dtype": "string", "categories": ["a", "b"]}})


def test_missing_numbers_are_filled_as_asked(write):
    text = "a,b,c,y\n1,,,1\n,2,NA,2\n3,4,5,3\n"
    features, _ = encode(write, text, {"a": {"missing": "mean"}, "b": {"missing": "zero"}, "c": {"missing": -1}})
    assert features == {"a": [1, 2, 3], "b": [0, 2, 4], "c": [-1, -1, 5]}


@pytest.mark.parametrize("missing", ["mean", "zero", -1.0])
@pytest.mark.parametrize("text", ["a,y\n,no\n2,yes\n", "a,y\n,0\n2,1\n"])
def test_what_fills_missing_features_is_not_asked_of_a_guessed_target_or_weight(write, text, missing):
    source = CsvSource(write(text), target="y", missing=missing)
    [block] = source.row_blocks(3)
    assert block.y is not None
    assert block.y.tolist() == [0.0, 1.0]
    columns = {"a": {"missing": missing}, "b": {}}
    weighted = CsvSource(
        write("a,b,y\n1,1,0\n2,1,1\n"), schema={"columns": columns | {"y": {}}}, target="y", weight="a"
    )
    [block] = weighted.row_blocks(3)
    assert block.weight is not None
    assert block.weight.tolist() == [1.0, 2.0]


def test_rows_are_dropped_and_counted(write):
    text = "a,b,y\n1,2,3\n,2,3\n1,,3\n,,3\n4,5,\n7,8,9\n"
    columns = {"a": {"missing": "drop"}, "b": {"missing": "drop"}, "y": {"role": "target", "missing": "drop"}}
    features, source = encode(write, text, columns, block_rows=1)
    assert features == {"a": [1, 7], "b": [2, 8]}
    assert source.notes == ["4 rows dropped because of missing values ('a': 2, 'b': 1, 'y': 1)"]


def test_the_line_of_a_bad_value_is_right_behind_dropped_rows(write):
    with refused(SourceError, "text-tables", at="table.csv:4, column 'b', value 'inf'"):
        encode(write, "a,b,y\n,2,3\n1,1,1\n2,inf,3\n", {"a": {"missing": "drop"}, "b": {}})


def test_missing_categories_can_be_a_category(write):
    features, _ = encode(write, "c,y\na,1\n,2\n", {"c": {"dtype": "string", "missing": "category"}})
    assert features == {"c=a": [1, 0], "c=missing": [0, 1]}


def test_standardised_numbers_have_mean_zero_and_deviation_one(write):
    values = np.random.default_rng(0).normal(5, 3, 50)
    text = "a,y\n" + "".join(f"{value!r},{k}\n" for k, value in enumerate(values.tolist()))
    features, _ = encode(write, text, {"a": {"encoding": "standardised"}})
    np.testing.assert_allclose(features["a"], (values - values.mean()) / values.std(), rtol=1e-12)


def test_integers_must_be_whole(write):
    with refused(SourceError, "text-tables", at="table.csv:3, column 'a', value '1.5'", naming=["1.5"]):
        encode(write, "a,y\n1,1\n1.5,2\n", {"a": {"dtype": "integer"}})


def test_a_number_too_large_for_float32_is_named(write):
    with refused(SourceError, "text-tables", at="table.csv:3, column 'a', value '1e39'", naming=["float32", "float64"]):
        encode(write, "a,y\n1,1\n1e39,2\n", {"a": {}}, dtype=np.float32)


def test_identifiers_and_splits_travel_beside_the_matrix(write):
    columns = {
        "i": {"role": "id", "dtype": "string"},
        "s": {"role": "split", "dtype": "string"},
        "w": {"role": "weight"},
    }
    schema = {"columns": {"y": {"role": "target"}, "a": {}} | columns}
    source = CsvSource(write("i,s,w,a,y\nr1,train,1,2,3\nr2,test,0.5,2,4\n"), schema=schema)
    (block,) = source.row_blocks(10)
    assert source.label_names == ["i", "s"]
    assert block.labels["s"].tolist() == ["train", "test"]
    assert block.weight.tolist() == [1, 0.5]


def test_a_negative_weight_is_refused(write):
    with refused(SourceError, "text-tables", at="table.csv:3, column 'w', value '-1'", naming=["0"]):
        encode(write, "w,a,y\n1,2,3\n-1,2,3\n", {"w": {"role": "weight"}, "a": {}})


def test_a_target_of_words_is_coded_and_said(write):
    source = CsvSource(write("a,y\n1,no\n2,yes\n"), target="y")
    (block,) = source.row_blocks(10)
    assert block.y.tolist() == [0, 1]
    assert "target 'y' is coded: 'no' is 0, 'yes' is 1" in source.notes


def test_several_targets(write):
    source = CsvSource(write("a,y,z\n1,2,3\n4,5,6\n"), target=["z", "y"])
    (block,) = source.row_blocks(10)
    assert source.target_names == ["y", "z"]
    assert block.y.tolist() == [[2, 3], [5, 6]]


def test_another_target_leaves_the_schemas_out(write):
    source = CsvSource(write("a,y\n1,2\n4,5\n"), schema={"columns": {"a": {}, "y": {"role": "target"}}}, target="a")
    with refused(SourceError, "table-schemas", naming=["used"]):
        source.check()


# dates


def test_dates_are_taken_apart(write):
    parts = {"date_parts": ["year", "month", "weekday"], "as": "number"}
    column = {"dtype": "date", "format": "%d/%m/%Y", "encoding": parts}
    features, _ = encode(write, "d,y\n16/12/2006,1\n1/1/2007,2\n", {"d": column})
    assert features == {"d.year": [2006, 2007], "d.month": [12, 1], "d.weekday": [5, 0]}


def test_dummies_of_a_part_cover_its_whole_range_and_years_those_in_the_data(write):
    column = {"dtype": "datetime", "encoding": {"date_parts": ["year", "hour"]}}
    features, _ = encode(write, "d,y\n2010-05-01 07:00:00,1\n2008-05-01 23:59:59,2\n", {"d": column})
    assert list(features) == ["d.year=2008", "d.year=2010", *(f"d.hour={hour}" for hour in range(24))]
    assert features["d.hour=7"] == [1, 0]
    assert features["d.hour=23"] == [0, 1]


@pytest.mark.parametrize("bad", ["31/2/2007", "1/13/2007", "2007-01-01", "x", "1/1/07"])
def test_what_is_no_date_is_named_with_its_line(write, bad):
    column = {"dtype": "date", "format": "%d/%m/%Y", "encoding": {"date_parts": ["month"]}}
    with pytest.raises(SourceError) as caught:
        encode(write, f"d,y\n1/1/2007,1\n{bad},2\n", {"d": column})
    assert f"table.csv:3, column 'd', value '{bad}': expected a date like '%d/%m/%Y', found '{bad}'" in str(
        caught.value
    )
    assert caught.value.topic == "text-tables"


def test_every_day_of_four_years_parses_as_python_does():
    days = [datetime.date(2004, 1, 1) + datetime.timedelta(k) for k in range(1461)]
    for date_format in ("%d/%m/%Y", "%Y%m%d", "%b %d, %Y", "%F"):
        dates = parse_dates(pa.array([day.strftime(date_format) for day in days]), date_format)
        assert dates.null_count == 0
        for part, expected in {"day": "day", "month": "month", "year": "year"}.items():
            assert date_part(dates, part).tolist() == [getattr(day, expected) for day in days]
        assert date_part(dates, "weekday").tolist() == [day.weekday() for day in days]


def test_days_that_do_not_exist_never_roll_over():
    texts = [f"{year}{month:02}{day:02}" for year in (2003, 2004) for month in range(1, 13) for day in range(1, 32)]
    found = parse_dates(pa.array(texts), "%Y%m%d").is_valid().to_pylist()

    def exists(text):
        try:
            datetime.date(int(text[:4]), int(text[4:6]), int(text[6:]))
        except ValueError:
            return False
        return True

    assert found == [exists(text) for text in texts]


def test_ranges_are_those_of_the_calendar():
    assert {part: len(values) for part, values in RANGES.items()} == {
        "quarter": 4, "month": 12, "day": 31, "weekday": 7, "hour": 24, "minute": 60, "second": 60,
    }  # fmt: skip


# schemas

WRONG = {
    "unknown key": ({"columns": {"a": {"rol": "feature"}}}, "columns.a.rol: unknown key (did you mean 'role'?)"),
    "unknown role": ({"columns": {"a": {"role": "traget"}}}, "columns.a.role", "did you mean 'target'"),
    "unknown top key": ({"colums": {}, "columns": {"a": {}}}, "colums: unknown key (did you mean 'columns'?)"),
    "no columns": ({"version": 1}, "columns: this key is required"),
    "no feature": ({"columns": {"y": {"role": "target"}}}, "no column has role: feature"),
    "two weights": ({"columns": {"a": {}, "b": {"role": "weight"}, "c": {"role": "weight"}}}, "at most one column"),
    "date without parts": ({"columns": {"a": {"dtype": "date"}}}, "a date needs parts"),
    "hour of a date": (
        {"columns": {"a": {"dtype": "date", "encoding": {"date_parts": ["hour"]}}}},
        "a date has no hour",
    ),
    "string as number": ({"columns": {"a": {"dtype": "string", "encoding": "number"}}}, "only be encoded as category"),
    "mean of categories": (
        {"columns": {"a": {"dtype": "string", "missing": "mean"}}},
        "missing: mean is only for numbers",
    ),
    "invented target": ({"columns": {"a": {}, "y": {"role": "target", "missing": "mean"}}}, "never imputed"),
    "pooled numbers": ({"columns": {"a": {"min_count": 3}}}, "min_count: only allowed with encoding: category"),
    "delimiter": ({"format": {"delimiter": ",,"}, "columns": {"a": {}}}, "format.delimiter"),
    "encoding": ({"format": {"encoding": "utf-9"}, "columns": {"a": {}}}, "format.encoding", "name of an encoding"),
    "version": ({"version": 2, "columns": {"a": {}}}, "version"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_schema_is_refused_with_its_place(case):
    document, *words = WRONG[case]
    with pytest.raises(SchemaError) as caught:
        load_table_schema(document)
    for word in words:
        assert word in str(caught.value)


def test_a_column_the_schema_does_not_name(write):
    text, columns = "a,bb,y\n1,2,3\n4,5,6\n", {"a": {}}
    with refused(SchemaError, "table-schemas", at="table.csv", naming=["'bb'", "other_columns"]):
        encode(write, text, columns)
    assert list(encode(write, text, columns, other_columns="ignore")[0]) == ["a"]
    assert list(encode(write, text, columns, other_columns="feature")[0]) == ["a", "bb"]


def test_a_column_that_the_header_lacks_gets_the_nearest_name(write):
    with refused(SchemaError, "text-tables", at="table.csv:1", naming=["'Voltage'", "did you mean", "'Voltge'"]):
        encode(write, "Voltge,y\n1,2\n", {"Voltage": {}})


def test_a_column_that_is_not_required_may_be_absent(write):
    schema = {"a": {}, "extra": {"required": False}}
    assert list(encode(write, "a,y\n1,2\n3,4\n", schema)[0]) == ["a"]
    assert list(encode(write, "a,extra,y\n1,5,2\n3,6,4\n", schema)[0]) == ["a", "extra"]


def test_more_than_a_thousand_categories_need_a_word(write):
    text = "c,y\n" + "".join(f"t{k},{k}\n" for k in range(1001))
    with refused(SchemaError, "table-schemas", at="column 'c'", naming=["1,001", "max_categories"]):
        CsvSource(write(text), target="y").feature_names  # noqa: B018


def test_rare_and_missing_levels_have_names_beside_categories_that_are_called_so(write):
    columns = {"c": {"dtype": "string", "min_count": 2, "missing": "category"}}
    table = "c,y\nother,1\nother,2\nb,3\nmissing,4\nmissing,5\n,6\n"
    assert list(encode(write, table, columns)[0]) == ["c=missing", "c=other", "c=(other)", "c=(missing)"]


def test_two_features_of_one_name_are_refused(write):
    with refused(DataError, "frames", naming=["'c=a'"]):
        encode(write, "c,c=a,y\na,1,1\nb,2,2\na,3,3\n", {"c": {"dtype": "string"}, "c=a": {}})


def test_all_rows_dropped_is_an_error(write):
    with refused(SourceError, "frames", naming=["2"]):
        encode(write, "a,y\n,1\n,2\n", {"a": {"missing": "drop"}})


def test_frames_follow_the_same_schema():
    frame = pd.DataFrame({"a": [1.0, np.nan, 3.0], "c": pd.Categorical(["u", "v", "u"]), "y": [1, 2, 3]})
    source = FrameSource(
        frame, schema={"columns": {"a": {"missing": "drop"}, "c": {"dtype": "string"}, "y": {"role": "target"}}}
    )
    (block,) = source.row_blocks(10)
    assert source.feature_names == ["a", "c=u"]  # v stands in a dropped row only
    assert block.X.tolist() == [[1, 1], [3, 1]]


def test_a_frame_that_mixes_types_names_the_column():
    frame = pd.DataFrame({"a": [1, "x", 2.5], "y": [1, 2, 3]}, dtype=object)
    with refused(SourceError, "frames", at="DataFrame, column 'a'", naming=["mixed"]):
        FrameSource(frame, target="y").check()
