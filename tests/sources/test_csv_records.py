"""Our own reader of plain text reads what Arrow reads, the same bits in the same batches, or leaves it to Arrow."""

import numpy as np
import pytest

from daskfs.kernels.text.decimals import rounded
from daskfs.sources import csv_records
from daskfs.sources.csv import CsvSource


@pytest.fixture
def both(write, monkeypatch):
    """Read a text by Arrow alone and by both, in blocks of few bytes; return the batches of each."""

    def both(text, block_nbytes=4096, **options):
        found = []
        for least in (2**60, 0):
            monkeypatch.setattr(csv_records, "WORTH_COMPILING_NBYTES", least)
            monkeypatch.setattr("daskfs.sources.csv.MIN_BLOCK_NBYTES", block_nbytes)
            source = CsvSource(write(text), **{"target": "y", **options})
            found.append([batch.table for batch in source.batches(source.columns)])
        return found

    return both


def assert_same(by_arrow, by_both):
    assert [table.num_rows for table in by_arrow] == [table.num_rows for table in by_both]
    for expected, table in zip(by_arrow, by_both, strict=True):
        assert table.schema.types == expected.schema.types
        for values, wanted in zip(table.columns, expected.columns, strict=True):
            assert values.null_count == wanted.null_count
            if hasattr(values, "dictionary"):
                values, wanted = values.dictionary_decode(), wanted.dictionary_decode()
            if values.type == "double":
                values, wanted = (each.to_numpy(zero_copy_only=False).view(np.int64) for each in (values, wanted))
                np.testing.assert_array_equal(values, wanted)
            else:
                assert values.equals(wanted)


FORMS = {
    "of few digits": lambda rng: f"{rng.normal():.{rng.integers(0, 9)}f}",
    "as Python shows them": lambda rng: repr(float(rng.normal() * 10.0 ** rng.integers(-8, 9))),
    "of any size": lambda rng: repr(float(rng.integers(0, 2**63).astype(np.uint64).view(np.float64))),
    "single precision": lambda rng: str(rng.standard_normal(dtype=np.float32)),
    "with an exponent": lambda rng: f"{rng.normal():.{rng.integers(0, 20)}e}".replace("e", rng.choice(["e", "E"])),
    "whole": lambda rng: str(rng.integers(-(10 ** rng.integers(1, 19)), 10**6)),
    "of too many digits": lambda rng: f"{rng.normal():.{rng.integers(15, 30)}f}",
    "with zeros before": lambda rng: (
        f"{rng.choice(['', '-'])}000{'0' * rng.integers(0, 20)}.00{rng.integers(0, 10**9)}"
    ),
    "half": lambda rng: rng.choice([".5", "-.25", "5.", "-7.", "0.", "-0", "-0.0", "1e5", "1.e-3", "000"]),
    "between two": lambda rng: str(int(2**53 + 2 * rng.integers(0, 2**40) + 1)),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_number_is_what_python_reads(both, form):
    rng = np.random.default_rng(0)
    texts = [FORMS[form](rng) for _ in range(3000)]
    texts = [text if np.isfinite(float(text)) else "1" for text in texts]
    by_arrow, by_both = both("x,y\n" + "".join(f"{text},{k}\n" for k, text in enumerate(texts)))
    assert_same(by_arrow, by_both)
    found = np.concatenate([table["x"].to_numpy() for table in by_both])
    np.testing.assert_array_equal(found.view(np.int64), np.array([float(text) for text in texts]).view(np.int64))


@pytest.mark.slow
def test_what_is_settled_is_rounded_to_the_nearest():
    rng = np.random.default_rng(1)
    n_settled = 0
    for _ in range(30_000):
        digits, power = (
            int(rng.integers(0, 2**64, dtype=np.uint64)) >> int(rng.integers(0, 64)),
            rng.integers(-345, 310),
        )
        value, is_settled = rounded(np.uint64(digits), int(power))
        if is_settled:
            assert value == float(f"{digits}e{power}")
        n_settled += is_settled
    assert n_settled > 27_000


TEXTS = {
    "plain": "a,b,y\n1,u,2\n3,v,4\n",
    "missing": "a,b,y\n1,,2\n,NA,4\nNaN,null,5\n",
    "quoted": 'a,b,y\n"1","u,v",2\n3,"line\nend",4\n5,"say ""x""",6\n7,"",8\n"NA","NA",1\n"",x,2\n',
    "spaces around numbers": "a,b,y\n 1, u ,2 \n3\t,v,  4\n",
    "line ends": "a,b,y\r\n1,u,2\r\n\r\n\n3,v,4\r5,w,6\r\n",
    "quotes within": 'a,b,y\n1,5" pipe,2\n3,v,4\n',
    "zero bytes of text": "a,b,y\n1,,2\n3,,4\n",
    "not ASCII": "a,b,y\n1,größe,2\n3,青,4\n",
    "long texts": "a,b,y\n1," + "u" * 700 + ",2\n3," + "v" * 9 + ",4\n",
}


@pytest.mark.parametrize("length", [1, 50, 3000])
@pytest.mark.parametrize("case", TEXTS)
def test_texts_and_missing_values_are_as_arrow_reads_them(both, case, length):
    header, _, rows = TEXTS[case].partition("\n")
    schema = {"columns": {"a": {"missing": "zero"}, "b": {"dtype": "string"}, "y": {"role": "target"}}}
    text = header + "\n" + rows * length
    for ended in (text, text.rstrip()):
        assert_same(*both(ended, schema=schema, target=None))


def test_what_is_not_plain_is_left_to_arrow_from_where_it_begins(both):
    rows = [f"{k},{k % 7}" for k in range(4000)]
    rows[2500] = "1e-400,2"  # is rounded to zero
    rows[3000] = '"1" ,2'
    header = "x,y\n"
    schema = {"columns": {"x": {"role": "id"}, "y": {"role": "target"}}, "other_columns": "ignore"}
    assert_same(*both(header + "\n".join(rows[:3000]) + "\n"))
    for text in (header + "\n".join(rows) + "\n", header + "\n".join(rows)):
        assert_same(
            *both(text, schema=schema | {"columns": {"x": {"dtype": "string"}, "y": {"role": "target"}}}, target=None)
        )


def test_a_column_that_nobody_wants_is_not_looked_at(both):
    columns = {"a": {}, "b": {"role": "ignore"}, "y": {"role": "target"}}
    assert_same(*both("a,b,y\n" + '1,"x,y",2\n3,nobody,4\n' * 900, schema={"columns": columns}, target=None))


def test_decimal_commas_are_read(both):
    assert_same(*both("a;y\n" + "1,5;2\n-0,25;1e2\n" * 900, decimal=",", delimiter=";"))


def test_no_quote_is_a_sign_where_there_is_none(both):
    assert_same(*both("a,y\n" + "5,1\n7,2\n" * 900, quote=""))
