"""Every encoding of a column: its features, its document, and copies for other rows."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from daskfs.sources.encoders.base import BadValue, ColumnFacts, Encoder
from daskfs.sources.table_encoder import ENCODERS, encoder_of, make_encoder
from daskfs.sources.table_schema import ColumnSchema

FACTS = ColumnFacts({"a": 3, "b": 2, "c": 1}, n_missing=1, years=(2001, 2003), mean=2.0, std=4.0)
LEVELS = {"dtype": "string", "missing": "category"}
DATES = {"dtype": "date", "missing": "zero", "encoding": {"date_parts": ["year", "month"], "as": "dummies"}}
COLUMNS: dict[str, tuple[dict[str, Any], list[Any]]] = {
    "number": ({"missing": "mean", "missing_indicator": True}, [1.0, None, 3.0]),
    "standardised": ({"encoding": "standardised"}, [1.0, 2.0, 3.0]),
    "category": ({**LEVELS, "min_count": 2}, ["a", "c", None]),
    "counts": ({**LEVELS, "encoding": "counts"}, ["a", "c", None]),
    "hashed": ({**LEVELS, "encoding": {"hashed": 7}}, ["a", "c", None]),
    "date": ({**DATES, "missing_indicator": True}, ["2001-02-03", "2003-01-01", None]),
}


def test_every_encoding_is_here() -> None:
    assert COLUMNS.keys() == ENCODERS.keys()


def made(encoding: str) -> tuple[Encoder, pa.Array]:
    schema, values = COLUMNS[encoding]
    return make_encoder("x", ColumnSchema.model_validate(schema), FACTS, []), pa.array(values)


@pytest.mark.parametrize("encoding", COLUMNS)
def test_it_writes_the_features_that_it_names_and_its_document_makes_it_again(encoding: str) -> None:
    encoder, values = made(encoding)
    out = np.full((len(values), len(encoder.feature_names)), np.nan)
    encoder.encode(values, out)
    assert np.isfinite(out).all()
    assert len(set(encoder.feature_names)) == out.shape[1]
    again = encoder_of("x", encoder.to_document())
    assert again == encoder
    found = np.full_like(out, np.nan)
    again.encode(values, found)
    np.testing.assert_array_equal(found, out)


@pytest.mark.parametrize("encoding", COLUMNS)
def test_a_copy_for_other_rows_may_take_missing_values_as_zeros(encoding: str) -> None:
    schema, _ = COLUMNS[encoding]
    strict = {key: value for key, value in schema.items() if not key.startswith("missing")}
    encoder = make_encoder("x", ColumnSchema.model_validate(strict), FACTS, [])
    missing = pa.nulls(2, pa.float64() if encoding in ("number", "standardised") else pa.string())
    out = np.full((2, len(encoder.feature_names)), np.nan)
    with pytest.raises(BadValue):
        encoder.for_new_rows(missing_to_zero=False).encode(missing, out)
    encoder.for_new_rows(missing_to_zero=True).encode(missing, out)
    centre = -0.5 if encoding == "standardised" else 0.0  # (0 - mean) / std
    np.testing.assert_array_equal(out, centre)


@pytest.mark.parametrize(
    ("encoding", "values", "note"),
    [
        ("category", ["z", "z", "a"], "column 'x': 2 rows of unseen categories encoded as 'x=other': 'z' (2 rows)"),
        ("counts", ["z", "z", "a"], "column 'x': 2 rows of unseen categories encoded as zeros: 'z' (2 rows)"),
        ("date", ["1999-02-03"], "column 'x': 1 row of unseen years encoded as zeros: '1999' (1 row)"),
    ],
)
def test_levels_that_the_fit_has_not_seen_are_counted_until_a_note_is_taken(
    encoding: str, values: list[str], note: str
) -> None:
    schema, _ = COLUMNS[encoding]
    unseen = {"category": {"unseen": "other"}, "date": {"unseen": "zero"}}.get(encoding, {})
    encoder = make_encoder("x", ColumnSchema.model_validate(schema | unseen), FACTS, [])
    encoder.encode(pa.array(values), np.empty((len(values), len(encoder.feature_names))))
    copied = encoder.for_new_rows(missing_to_zero=False)
    assert copied.n_unseen == 0
    assert encoder.take_note_of_unseen() == note
    assert encoder.take_note_of_unseen() is None


MOMENT = datetime(2021, 2, 3, 4, 5)


@pytest.mark.parametrize("parts", [["month"], ["hour"], ["month", "hour"]], ids=" and ".join)
@pytest.mark.parametrize(
    ("value", "has"),
    [
        (MOMENT, "month hour"),
        (MOMENT.date(), "month"),
        (MOMENT.time(), "hour"),
        (MOMENT - datetime(2021, 1, 1), ""),
        (1, ""),
        (1.5, ""),
        (True, ""),
    ],
    ids=lambda value: type(value).__name__,
)
def test_dates_that_lack_a_part_are_refused_in_our_words(parts: list[str], value: Any, has: str) -> None:
    column = {"dtype": "datetime", "encoding": {"date_parts": parts, "as": "number"}}
    encoder = make_encoder("x", ColumnSchema.model_validate(column), ColumnFacts(), [])
    out = np.full((2, len(parts)), np.nan)
    for values in (pa.array([value, value]), pa.array([value, value]).dictionary_encode()):
        if set(parts) <= set(has.split()):
            encoder.encode(values, out)
            np.testing.assert_array_equal(out[1], [{"month": 2, "hour": 4}[part] for part in parts])
        else:
            with pytest.raises(BadValue) as caught:
                encoder.encode(values, out)
            assert (caught.value.row, repr(value) in caught.value.problem) == (0, True)
    with pytest.raises(BadValue) as caught:
        encoder.encode(pa.nulls(2), out)
    assert encoder.missing_value() == (caught.value.problem, caught.value.remedy)


@pytest.mark.parametrize("encoding", COLUMNS)
def test_sql_and_python_express_every_feature_but_hashes(encoding: str) -> None:
    encoder, _ = made(encoding)
    for place in range(len(encoder.feature_names)):
        texts = [encoder.sql(place, "standard"), encoder.sql(place, "sqlite"), encoder.python(place)]
        assert {text is None for text in texts} == {encoding == "hashed"}


@pytest.mark.parametrize(
    ("column", "good", "bad"),
    [
        ({"dtype": "integer"}, 2.0, 2.5),
        ({}, 2.5, float("inf")),
        ({"dtype": "date", "encoding": {"date_parts": ["month"], "as": "number"}}, "2020-02-29", "2020-02-30"),
        ({"dtype": "string", "categories": ["a", "b"]}, "b", "c" * 70),
    ],
)
def test_a_value_alone_has_the_fault_that_it_has_in_a_column(column: dict[str, Any], good: Any, bad: Any) -> None:
    schema = ColumnSchema.model_validate(column)
    encoder = make_encoder("x", schema, ColumnFacts(), [])
    assert encoder.fault_of(good, schema) is None
    with pytest.raises(BadValue) as caught:
        encoder.encode(pa.array([good, bad, good]), np.empty((3, len(encoder.feature_names))))
    assert caught.value.row == 1
    assert encoder.fault_of(bad, schema) == (caught.value.problem, caught.value.remedy)
    assert len(caught.value.problem) < 140
    with pytest.raises(BadValue) as caught:
        encoder.encode(pa.array([good, None]), np.empty((2, len(encoder.feature_names))))
    assert encoder.missing_value() == (caught.value.problem, caught.value.remedy)
