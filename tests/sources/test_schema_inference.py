"""What columns of an unknown table are taken for."""

from __future__ import annotations

import sys
from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from daskfs.errors import SchemaError
from daskfs.sources.schema_inference import InferredColumn, infer_schema
from daskfs.sources.table_schema import ColumnSchema, TableFormat
from tests.refusals import refused

N = 400
RNG = np.random.default_rng(0)
Y = [f"{value:.3f}" for value in RNG.normal(size=N)]


def inferred(
    values: list[Any], name: str = "x", layout: dict[str, Any] | None = None, **others: list[Any]
) -> InferredColumn:
    """Infer one column beside a target of noise; the result must be a column of a table schema."""
    columns = {name: pa.array(values), **{key: pa.array(column) for key, column in others.items()}, "y": pa.array(Y)}
    found = {one.name: one for one in infer_schema(columns, TableFormat.model_validate(layout or {}), "y").columns}[
        name
    ]
    ColumnSchema.model_validate(found.entry)
    return found


def drawn(*values: Any) -> list[Any]:
    return [values[k] for k in RNG.integers(0, len(values), N)]


NOISE = [f"{value:.4f}" for value in RNG.normal(size=N)]
OTHER = {"z": NOISE}
POOLED = {"dtype": "string", "min_count": 10, "unseen": "other"}


@pytest.mark.parametrize(
    ("values", "entry"),
    [
        (NOISE, {}),
        (drawn("1.5", "2", None, "7"), {"missing": "mean", "missing_indicator": True}),
        (drawn("12 %", "7.5%", "0 %"), {"dtype": "percent"}),
        (drawn("red", "green", "blue"), {"dtype": "string"}),
        (drawn("yes", "no"), {"dtype": "string", "drop_first": True}),
        (drawn("red", "green", None), {"dtype": "string", "missing": "category"}),
        (drawn("00501", "10115", "02134"), {"dtype": "string"}),
        (
            drawn("2020-01-31", "2021-02-28"),
            {"dtype": "date", "encoding": {"date_parts": ["year", "month", "weekday"]}},
        ),
        (
            drawn("31.01.2020 10:30", "28.02.2020 11:45", None),
            {
                "dtype": "datetime",
                "format": "%d.%m.%Y %H:%M",
                "encoding": {"date_parts": ["month", "weekday", "hour"]},
                "missing": "zero",
                "missing_indicator": True,
            },
        ),
        (drawn("10:30:00", "23:15:00"), {"dtype": "time", "encoding": {"date_parts": ["hour"]}}),
        (["7"] * N, {"role": "ignore"}),
        ([str(k) for k in range(N)], {"role": "id"}),
        ([f"id-{k}" for k in range(N)], {"role": "id"}),
        ([f"a b c d {k} {k % 7}" for k in range(N)], {"role": "ignore"}),
        (
            drawn(*["often"] * 20, *[f"level {k}" for k in range(100)]),
            {"dtype": "string", "min_count": 10, "unseen": "other"},
        ),
        (pa.array(drawn(True, False)).to_pylist(), {"dtype": "string", "drop_first": True}),
        (drawn(1.5, 2.5), {}),
    ],
)
def test_a_column_is_taken_for_what_it_looks_like(values: list[Any], entry: dict[str, Any]) -> None:
    assert inferred(values, **OTHER).entry == entry


def test_numbers_are_read_as_the_table_writes_them() -> None:
    found = inferred(
        drawn("1.234,5", "7,25", "2"), layout={"delimiter": ";", "decimal": ",", "thousands": "."}, **OTHER
    )
    assert (found.entry, found.why) == ({}, "numbers from 2 to 1234.5")


def test_few_odd_texts_among_numbers_are_missing_values_and_are_named() -> None:
    columns = {"x": pa.array([*NOISE[:-1], "unknown"]), "y": pa.array(Y)}
    found = infer_schema(columns, TableFormat.model_validate({}), "y")
    assert found.missing_texts == ["unknown"]
    assert found.columns[0].suspicions == [
        "'unknown' among numbers ('unknown' in row 399): treated as missing values (format.missing)"
    ]


def test_copies_are_left_out_and_other_words_for_the_same_are_named() -> None:
    colours = drawn("red", "green", "blue")
    assert inferred(colours, "x2", x=colours).entry == {"dtype": "string"}  # the first of two stays
    columns = {"a": colours, "b": colours, "c": [{"red": "1", "green": "2", "blue": "3"}[text] for text in colours]}
    found = infer_schema(
        {key: pa.array(column) for key, column in columns.items()} | {"y": pa.array(Y)}, TableFormat(), "y"
    )  # type: ignore[call-arg]
    a, b, c, _ = found.columns
    assert a.entry == {"dtype": "string"}
    assert (b.entry, b.suspicions) == ({"role": "ignore"}, ["is a copy of 'a'"])
    assert any("has the same information as 'a'" in text for text in c.suspicions)


def test_a_copy_is_found_among_columns_with_the_same_information() -> None:
    values = list(range(40)) * 10
    texts = [f"v{value}" for value in values]
    columns = {"a": pa.array(values), "b": pa.array(texts), "c": pa.array(texts), "y": pa.array(Y)}
    a, b, c, _ = infer_schema(columns, TableFormat.model_validate({}), "y").columns
    assert a.entry.get("role", "feature") == "feature"
    assert any("same information as 'a'" in text for text in b.suspicions)
    assert (c.entry, c.suspicions) == ({"role": "ignore"}, ["is a copy of 'b'"])


def test_the_work_grows_in_proportion_to_the_number_of_columns() -> None:
    def n_calls(n_columns: int) -> int:
        rng, n_found = np.random.default_rng(0), Counter[str]()
        columns = {f"c{j}": pa.array(rng.standard_normal(40)) for j in range(n_columns)}
        columns["y"] = pa.array(rng.standard_normal(40))
        sys.setprofile(lambda frame, event, argument: n_found.update([event]))
        try:
            infer_schema(columns, TableFormat.model_validate({}), "y")
        finally:
            sys.setprofile(None)
        return n_found.total()

    n_calls(2)  # imports
    assert n_calls(200) < 2.2 * n_calls(100)


def test_numbers_with_many_texts_among_them_are_no_identifier() -> None:
    values = [f"{value:.4f}" for value in RNG.normal(size=N)]
    for i in range(15):
        values[i * 20] = f"bad{i}"
    column = inferred(values, other=drawn("red", "green"))
    assert column.entry == {"role": "ignore"}
    assert len(column.suspicions) == 1
    assert "15 texts are not, such as 'bad0'" in column.suspicions[0]


@pytest.mark.parametrize("kind", ["classes by number", "classes by level", "numbers"])
def test_a_column_that_knows_the_target_is_suspicious_and_noise_is_not(kind: str) -> None:
    rng = np.random.default_rng(1)
    z = rng.normal(size=N)
    target = [f"{v:.4f}" for v in z] if kind == "numbers" else np.where(z > 0, "bad", "good").tolist()
    leak = np.where(z > 0, "B", "G").tolist() if kind == "classes by level" else [f"{3 * v + 1:.6f}" for v in z]
    columns = {"leak": leak, "noise": NOISE, "levels": drawn("p", "q"), "y": target}
    found = infer_schema(
        {name: pa.array(column) for name, column in columns.items()}, TableFormat.model_validate({}), "y"
    )
    suspicious = {one.name for one in found.columns if any("known only later" in text for text in one.suspicions)}
    assert suspicious == {"leak"}


def test_a_name_like_the_targets_is_suspicious() -> None:
    columns = {"ArrDelayMinutes": NOISE, "Distance": [f"{v:.2f}" for v in RNG.normal(size=N)], "ArrDelay": Y}
    found = infer_schema(
        {name: pa.array(column) for name, column in columns.items()}, TableFormat.model_validate({}), "ArrDelay"
    )
    assert [bool(one.suspicions) for one in found.columns] == [True, False, False]


def test_levels_that_are_all_rare_are_not_pooled_into_one() -> None:
    assert "min_count" not in inferred([f"v{k % 100}" for k in range(N)], **OTHER).entry
    assert inferred([f"v{min(k % 100, 60)}" for k in range(N)], **OTHER).entry["min_count"] == 10


def test_dates_whose_days_and_months_may_be_swapped_are_not_mixed() -> None:
    assert inferred(drawn("13/01/2021", "01/13/2021", "02/03/2021"), **OTHER).entry["dtype"] == "string"


def test_dates_that_can_be_read_in_two_ways_are_named() -> None:
    found = inferred(drawn("01/02/2020", "03/04/2021"), **OTHER)
    assert found.entry["format"] == "%d/%m/%Y"
    assert any("%m/%d/%Y" in text for text in found.suspicions)
    assert inferred(drawn("01/31/2020", "03/04/2021"), **OTHER).entry["format"] == "%m/%d/%Y"


@pytest.mark.parametrize(
    ("names", "chosen", "why"),
    [(["Target", "b"], "Target", "by its name"), (["a", "b"], "b", "the last column")],
)
def test_a_target_nobody_named_is_chosen_by_its_name_or_its_place(names: list[str], chosen: str, why: str) -> None:
    found = infer_schema(
        {name: pa.array([*Y[k:], *Y[:k]]) for k, name in enumerate(names)}, TableFormat.model_validate({})
    )
    assert found.target == chosen
    assert why in found.why_target


@pytest.mark.parametrize(
    ("target", "values", "said"),
    [
        ("z", NOISE, "is not a column of the table"),
        ("y", ["1"] * N, "at least two values"),
        ("y", [f"text {k}" for k in range(N)], "numbers or classes as target"),
    ],
)
def test_a_target_that_cannot_be_predicted_is_refused(target: str, values: list[str], said: str) -> None:
    with pytest.raises(SchemaError, match=said):
        infer_schema({"x": pa.array(NOISE), "y": pa.array(values)}, TableFormat.model_validate({}), target)


def test_classes_and_missing_targets_are_told() -> None:
    columns = {"x": pa.array(NOISE), "y": pa.array(drawn("a", "b", "c", None))}
    found = infer_schema(columns, TableFormat.model_validate({}), "y").columns[1]
    assert found.entry == {"role": "target", "missing": "drop", "dtype": "string"}
    assert found.why.startswith("3 classes")


def test_a_stray_text_in_a_target_of_numbers_is_named_with_its_row() -> None:
    columns = {"x": pa.array(NOISE), "price": pa.array([*Y[:17], "n/a?", *Y[18:]])}
    found = infer_schema(columns, TableFormat.model_validate({}), "price")
    assert found.missing_texts == ["n/a?"]
    assert found.columns[1].entry == {"role": "target", "missing": "drop"}
    assert "'n/a?' in row 17" in found.suspicions[0]


def test_many_stray_texts_in_a_target_of_numbers_are_refused_with_the_first() -> None:
    stray = {17 + k: f"about {k}" for k in range(10)}
    values = [stray.get(row, number) for row, number in enumerate(Y)]
    with refused(SchemaError, "table-schemas", at="price", naming=["10", "400", "17", "about 0"]):
        infer_schema({"x": pa.array(NOISE), "price": pa.array(values)}, TableFormat.model_validate({}), "price")


@pytest.mark.parametrize(
    ("values", "n_texts"),
    [
        (drawn("yes", "Yes", "YES ", "no"), 1),
        (drawn("yes", "no", "perhaps"), 0),
        ([f"t{k % 1200}" for k in range(3600)], 1),
    ],
)
def test_levels_that_differ_by_case_or_blanks_and_very_many_are_suspicious(values: list[str], n_texts: int) -> None:
    y = pa.array([f"{value:.3f}" for value in RNG.normal(size=len(values))])
    found = infer_schema({"x": pa.array(values), "y": y}, TableFormat.model_validate({}), "y")
    assert len(found.columns[0].suspicions) == n_texts


def test_amounts_in_two_currencies_are_suspicious() -> None:
    assert any("EUR, USD" in text for text in inferred(drawn("12 USD", "13 EUR", "1.5 USD"), **OTHER).suspicions)
    assert not inferred(drawn("12 USD", "13 USD", "1.5 USD"), **OTHER).suspicions
