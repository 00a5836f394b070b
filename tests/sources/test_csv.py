"""CSV files as people have them."""

import bz2
import gzip
import lzma
import tracemalloc
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

from daskfs.errors import SchemaError, SourceError
from daskfs.sources.csv import CsvSource
from tests.refusals import refused

pytestmark = pytest.mark.usefixtures("reader")


@pytest.fixture(params=["arrow", "own"])
def reader(request, monkeypatch):
    """Read small files by Arrow alone, as they are, and by our own reader first, as large ones are."""
    if request.param == "own":
        monkeypatch.setattr("daskfs.sources.csv_records.WORTH_COMPILING_NBYTES", 0)


TABLE = "a,b,y\n1,x,0.5\n2,z,1.5\n3,x,2.5\n"


def read(path, block_rows=1000, dtype=np.float64, **options):
    """All of a table in one block, and the source."""
    source = CsvSource(path, **{"target": "y", **options})
    blocks = list(source.row_blocks(block_rows, dtype))
    assert [block.start for block in blocks] == [block_rows * k for k in range(len(blocks))]
    return np.concatenate([b.X for b in blocks]), np.concatenate([b.y for b in blocks]), source


def test_numbers_are_kept_and_texts_become_dummies(write):
    X, y, source = read(write(TABLE))
    assert source.feature_names == ["a", "b=x", "b=z"]
    np.testing.assert_array_equal(X, [[1, 1, 0], [2, 0, 1], [3, 1, 0]])
    np.testing.assert_array_equal(y, [0.5, 1.5, 2.5])
    assert "treated as categories: 'b'" in source.notes[0]


@pytest.mark.parametrize("block_rows", [1, 2, 3, 7])
def test_blocks_have_the_asked_length_and_the_same_rows(write, block_rows):
    path = write(TABLE * 1 + "4,z,3.5\n")
    X, y, _ = read(path, block_rows)
    whole_X, whole_y, _ = read(path)
    np.testing.assert_array_equal(X, whole_X)
    np.testing.assert_array_equal(y, whole_y)


def zstd(data):
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(data)
    return sink.getvalue().to_pybytes()


PACKERS = {".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress, ".zst": zstd}


@pytest.mark.parametrize("ending", PACKERS)
def test_compressed_files_read_the_same(write, ending):
    path = write(PACKERS[ending](TABLE.encode()), "table.csv" + ending)
    np.testing.assert_array_equal(read(path)[0], read(write(TABLE))[0])


def test_a_byte_order_mark_is_left_out(write):
    assert read(write(b"\xef\xbb\xbf" + TABLE.encode()))[2].feature_names[0] == "a"


def test_windows_line_ends_blank_lines_and_no_final_newline_read_the_same(write):
    text = "\r\n" + TABLE.replace("\n", "\r\n").replace("2,z", "\r\n2,z").rstrip()
    np.testing.assert_array_equal(read(write(text))[0], read(write(TABLE, "plain.csv"))[0])


def test_quoted_delimiters_newlines_and_quotes_stay_in_the_value(write):
    _, _, source = read(write('"a\nb",c,y\n1,"p,q",1\n2,"r\ns",2\n3,"say ""t""",4\n'))
    assert source.feature_names == ["a\nb", "c=p,q", "c=r\ns", 'c=say "t"']


def test_unicode_names_and_paths_with_spaces(write):
    _, _, source = read(write("größe,色,y\n1,青,1\n2,赤,2\n", "ein Ordner ü.csv"))
    assert source.feature_names == ["größe", "色=赤", "色=青"]


@pytest.mark.parametrize("delimiter", [";", "\t", "|"])
def test_any_delimiter(write, delimiter):
    X, _, _ = read(write(TABLE.replace(",", delimiter)), delimiter=delimiter)
    np.testing.assert_array_equal(X, read(write(TABLE, "comma.csv"))[0])


def test_tsv_files_are_split_by_tabs(write):
    assert read(write(TABLE.replace(",", "\t"), "table.tsv"))[0].shape == (3, 3)


def test_decimal_commas(write):
    X, _, _ = read(write("a;y\n1,5;2,5\n-0,25;1\n"), delimiter=";", decimal=",")
    np.testing.assert_array_equal(X[:, 0], [1.5, -0.25])


def test_comments_and_spaces_can_be_left_out(write):
    text = "# made by hand\na, b, y\n1, x, 1\n# the rest\n2, z, 2\n"
    X, _, source = read(write(text), comment="#", skip_initial_space=True)
    assert source.feature_names == ["a", "b=x", "b=z"]
    assert X.shape == (2, 3)


def test_other_encodings(write):
    _, _, source = read(write("größe,y\nä,1\nö,2\n".encode("latin-1")), encoding="latin-1")
    assert source.feature_names == ["größe=ä", "größe=ö"]


def test_a_file_without_header_takes_the_names_of_the_schema(write):
    schema = {"format": {"header": False}, "columns": {"y": {"role": "target"}, "a": {}, "b": {}}}
    X, y, source = read(write("1,2,3\n4,5,6\n"), schema=schema, target=None)
    assert source.feature_names == ["a", "b"]
    np.testing.assert_array_equal(y, [1, 4])
    np.testing.assert_array_equal(X, [[2, 3], [5, 6]])


def test_several_files_and_patterns_are_read_in_order(write, tmp_path):
    write("a,y\n1,1\n", "part-1.csv"), write("a,y\n2,2\n", "part-2.csv")
    for path in (tmp_path / "part-*.csv", [tmp_path / "part-1.csv", tmp_path / "part-2.csv"], tmp_path):
        np.testing.assert_array_equal(read(path)[0][:, 0], [1, 2])


def test_a_name_with_brackets_is_no_pattern(write):
    assert read(write(TABLE, "table[1].csv"))[0].shape == (3, 3)


def test_the_digest_is_of_the_bytes_and_not_of_names_or_times(write):
    first, second = CsvSource(write(TABLE, "a.csv"), target="y"), CsvSource(write(TABLE, "b.csv"), target="y")
    other = CsvSource(write(TABLE + "4,x,1\n", "c.csv"), target="y")
    assert first.digest() == second.digest() != other.digest()


def test_an_unchanged_file_is_known_by_size_and_time(write):
    source = CsvSource(write(TABLE), target="y")
    description = source.describe()
    assert CsvSource(source.files, target="y").is_unchanged(description, "not compared")
    write(TABLE.replace("0.5", "0.6"))
    assert not CsvSource(source.files, target="y").is_unchanged(description, source.digest())


def test_the_shape_can_be_told_from_the_head(write):
    rows = "".join(f"{k % 10},{'uvw'[k % 3]},{k % 7}\n" for k in range(150_000))
    n_samples, n_features = CsvSource(write("a,b,y\n" + rows), target="y").estimate_shape()
    assert n_features == 4
    assert n_samples == pytest.approx(150_000, rel=0.02)
    assert CsvSource(write(TABLE, "small.csv"), target="y").estimate_shape() == (3, 3)


@pytest.mark.slow
def test_memory_does_not_grow_with_the_file(write, monkeypatch):
    monkeypatch.setattr("daskfs.sources.csv.MIN_BLOCK_NBYTES", 2**16)  # Arrow reads 32 blocks ahead
    line = ",".join(["1.25"] * 20)
    header = ",".join([*(f"c{j}" for j in range(19)), "y"])

    def peak(n_rows):
        source = CsvSource(write(header + "\n" + (line + "\n") * n_rows, f"{n_rows}.csv"), target="y")
        source.check()
        tracemalloc.start()
        pa.default_memory_pool().release_unused()
        arrow_peak = 0
        for _ in source.row_blocks(1000):
            arrow_peak = max(arrow_peak, pa.total_allocated_bytes())
        _, python_peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return python_peak + arrow_peak

    small, large = peak(60_000), peak(240_000)  # 6 and 24 MB of text
    assert large < 1.25 * small


BAD = {
    "empty": (b"", SourceError, ["table.csv", "empty file", "copied"]),
    "blank": (b"\n\n", SourceError, ["table.csv", "only blank lines"]),
    "header only": (b"a,b,y\n", SourceError, ["table.csv", "only a header"]),
    "header without newline": (b"a,b,y", SourceError, ["table.csv", "only a header"]),
    "zero bytes": (b"a\0b,y\n1,2\n", SourceError, ["table.csv:1", "zero bytes", "check that it is a CSV"]),
    "utf-16": (TABLE.encode("utf-16"), SourceError, ["table.csv:1", "utf-16", "format.encoding"]),
    "latin-1 header": ("größe,y\n1,2\n".encode("latin-1"), SourceError, ["table.csv:1", "0xf6", "format.encoding"]),
    "latin-1 value": ("a,b,y\n1,x,1\n1,ä,1\n".encode("latin-1"), SourceError, ["table.csv:3", "0xe4", "latin-1"]),
    "wrong delimiter": (b"a;b;y\n1;x;2\n", SourceError, ["table.csv:1", "found ';'", "format.delimiter"]),
    "no target": (b"a,b,Y2\n1,x,2\n", SchemaError, ["table.csv:1", "lacks column 'y'", "'a', 'b', 'Y2'"]),
    "last line cut": (b"a,b,y\n1,x,2\n1,x", SourceError, ["table.csv:3", "expected 3 values", "found 2", "cut short"]),
    "line too short": (b"a,b,y\n1,x\n1,x,2\n", SourceError, ["table.csv:2", "expected 3 values", "delimiter"]),
    "line too long": (b"a,b,y\n1,x,2\n\n1,x,2,3\n", SourceError, ["table.csv:4", "expected 3 values", "found 4"]),
    "open quote": (b'a,b,y\n1,x,2\n1,"x,2\n1,x,2\n', SourceError, ["table.csv:3", "quoted value", "format.quote"]),
    "two names": (b"a,a,y\n1,2,3\n", SourceError, ["table.csv:1", "'a' (columns 1 and 2)", "rename"]),
    "missing value": (b"a,b,y\n1,x,2\n,x,2\n", SourceError, ["table.csv:3, column 'a', value ''", "missing: drop"]),
    "missing target": (b"a,b,y\n1,x,NA\n", SourceError, ["table.csv:2, column 'y', value 'NA'", "missing"]),
    "infinity": (
        b"a,b,y\n1,x,2\n-inf,x,2\n",
        SourceError,
        ["table.csv:3, column 'a', value '-inf'", "finite", "fix the value"],
    ),
    "dates": (b"a,y\n2020-01-01,2\n2020-01-02,3\n", SchemaError, ["column 'a'", "dates", "date_parts"]),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_file_is_refused_with_place_and_remedy(write, case):
    content, error, words = BAD[case]
    path = write(content)
    with pytest.raises(error) as caught:
        read(path)
    assert type(caught.value) is error
    for word in words:
        assert word in str(caught.value)
    assert caught.value.remedy or case == "blank"


@pytest.mark.slow
def test_a_value_that_does_not_parse_is_named_with_line_and_column(write):
    rows = "".join(f'{k},"a\nb",{k}\n' for k in range(200_000))
    path = write("a,b,y\n" + rows + "oops,c,1\n")
    with pytest.raises(SourceError) as caught:
        read(path)
    assert f"{path}:400002, column 'a': expected a number, found 'oops'" in str(caught.value)


def test_everything_that_is_wrong_is_told_at_once(write):
    schema = {
        "columns": {
            "when": {"dtype": "date", "encoding": {"date_parts": ["month"]}},
            "city": {"dtype": "string", "categories": ["A", "B"]},
            "delay": {},
            "late": {"role": "target"},
        }
    }
    lines = [f"2007-01-{k % 27 + 1:02},A,{k},{k % 2}" for k in range(300)]
    wrong = {
        5: "2007-01-01,A,NAN?,1",
        12: "31/2/2007,A,1,1",
        40: "2007-01-01,A,1,1,x",
        60: "2007-01-01,C,1,1",
        70: "2007-01-01,B,,1",
        80: "2007-01-01,B,inf,",
    }
    for row, line in (wrong | dict.fromkeys(range(90, 95), '2007-01-01,A,"1,5",1')).items():
        lines[row] = line
    path = write("when,city,delay,late\n" + "\n".join(lines) + "\n")
    with pytest.raises(SourceError) as caught:
        read(path, schema=schema, target=None)
    said = str(caught.value).splitlines()
    expected = [
        (7, "column 'delay': expected a number, found 'NAN?'"),
        (14, "column 'when': expected a date like '%Y-%m-%d', found '31/2/2007'"),
        (42, "expected 4 values, as many as columns, found 5"),
        (62, "column 'city': expected one of 2 categories ('A', 'B' ...), found 'C'"),
        (72, "column 'delay': expected a number, found a missing value"),
        (82, "column 'delay': expected a finite number, found inf"),
        (82, "column 'late': expected a number, found a missing value"),
    ]
    for text, (line, words) in zip(said, expected, strict=False):
        assert text.startswith(f"{path}:{line}")
        assert words in text
    assert said[len(expected) :] == [f"{path}: and more like these: 5 in column 'delay'"]


def test_a_file_full_of_faults_names_twenty_places_and_a_few_of_each_column(write):
    names = [f"c{j}" for j in range(9)]
    schema = {"columns": {name: {"role": "target"} if name == "c0" else {} for name in names}}
    with pytest.raises(SourceError) as caught:
        read(write("\n".join([",".join(names), *[",".join(["?"] * 9)] * 1000])), schema=schema, target=None)
    *said, last = str(caught.value).splitlines()
    assert len(said) == 20
    assert all("expected a number, found '?'" in text for text in said)
    assert max(Counter(text.partition("column ")[2][:4] for text in said).values()) == 3
    assert last.endswith("the rest of the file was not checked")


def test_values_of_rows_that_are_dropped_are_no_faults(write):
    schema = {"columns": {"a": {"missing": "drop"}, "b": {}, "y": {"role": "target"}}}
    with pytest.raises(SourceError) as caught:
        read(write("a,b,y\n1,2,3\n,,3\n1,,3\n"), schema=schema, target=None)
    assert "table.csv:4, column 'b'" in str(caught.value)
    assert "table.csv:3" not in str(caught.value)


def test_a_tab_may_be_written_as_messages_write_it(write):
    assert read(write("a\ty\n1\t2\n"), delimiter="\\t")[0].tolist() == [[1.0]]


def test_a_stray_text_among_numbers_does_not_make_a_column_of_categories(write):
    with refused(SourceError, "text-tables", at="table.csv:4, column 'a'", naming=["'?'", "format.missing"]):
        read(write("a,y\n1,2\n3,4\n?,1\n"))


def test_decimal_commas_that_nobody_mentioned_are_recognised(write):
    schema = {"format": {"delimiter": ";"}, "columns": {"a": {}, "y": {"role": "target"}}}
    with refused(SourceError, "text-tables", at="table.csv:2, column 'a'", naming=["format.decimal", "','", "1.5"]):
        read(write("a;y\n1,5;2\n"), schema=schema, target=None)


def test_a_last_line_without_an_end_is_noted(write):
    assert any("the last line has no line end" in note for note in read(write(TABLE[:-1]))[2].notes)
    assert not any("line end" in note for note in read(write(TABLE))[2].notes)


def test_a_file_that_is_missing_is_named_with_the_nearest(write, tmp_path):
    write(TABLE, "power.csv")
    with refused(SourceError, "formats", at="powr.csv", naming=["did you mean", "'power.csv'"]):
        CsvSource(tmp_path / "powr.csv")
    with refused(SourceError, "formats", naming=["file"]):
        CsvSource(tmp_path / "q*.csv")


@pytest.mark.slow
@pytest.mark.parametrize("ending", PACKERS)
def test_a_compressed_file_cut_in_the_middle_is_named(write, ending):
    rng = np.random.default_rng(0)
    rows = "".join(f"{a},{b}\n" for a, b in rng.random((60_000, 2)))
    packed = PACKERS[ending](b"a,y\n" + rows.encode())
    path = write(packed[: 2 * len(packed) // 3], "table.csv" + ending)
    with pytest.raises(SourceError) as caught:
        read(path)
    assert str(path) in str(caught.value)
    assert "the compressed data" in caught.value.problem
    assert "again" in caught.value.remedy


def test_a_compressed_file_that_is_none_is_named(write):
    with refused(SourceError, "formats", at="table.csv.gz", naming=["complete"]):
        read(write(TABLE, "table.csv.gz"))


def test_files_with_other_columns_or_another_order_are_refused(write):
    first = write("a,b,y\n1,2,3\n", "1.csv")
    with refused(SourceError, "text-tables", at="2.csv:1", naming=["1", "'b'", "'a'"]):
        read([first, write("b,a,y\n1,2,3\n", "2.csv")])
    with refused(SourceError, "text-tables", at="3.csv:1", naming=["4", "'c'"]):
        read([first, write("a,b,y,c\n1,2,3,4\n", "3.csv")])


def test_an_unknown_option_of_the_layout_gets_the_nearest_word(write):
    with refused(SchemaError, "yaml-files", naming=["source", "did you mean", "'delimiter'"]):
        CsvSource(write(TABLE), target="y", delimeter=";")


def test_a_file_that_changes_while_it_is_read_is_refused(write):
    source = CsvSource(write("a,y\n" + "1,2\n" * 500_000), target="y")
    blocks = source.row_blocks(1000)
    next(blocks)
    with source.files[0].open("a") as stream:
        stream.write("1,2\n")
    with refused(SourceError, "formats", naming=["changed"]):
        list(blocks)


@pytest.mark.parametrize(
    ("values", "layout", "expected"),
    [
        (["17,711", "18,200", "1,000,000"], {"thousands": ","}, [17711.0, 18200.0, 1e6]),
        (["17,711", "18,2"], {"decimal": ","}, [17.711, 18.2]),
        (["1.234,5", "-2.000", "7"], {"decimal": ",", "thousands": "."}, [1234.5, -2000.0, 7.0]),
        (["1'711", "+1'822.5e1", "3"], {"thousands": "'"}, [1711.0, 18225.0, 3.0]),
        (["17 711", "822"], {"thousands": " "}, [17711.0, 822.0]),
    ],
)
def test_digits_in_groups_are_numbers_where_it_is_said(write, values, layout, expected):
    text = "a;y\n" + "".join(f"{value};{k}\n" for k, value in enumerate(values))
    X, _, _ = read(write(text), delimiter=";", **layout)
    np.testing.assert_array_equal(X[:, 0], expected)


@pytest.mark.parametrize(
    ("value", "layout", "remedy"),
    [
        ("17,711", {}, "format.thousands: ',' (it is then 17711) or format.decimal: ',' (it is then 17.711)"),
        ("1,234,567", {}, "format.thousands: ',' (it is then 1234567)"),
        ("1.234,5", {}, "format.decimal: ',' and format.thousands: '.' (it is then 1234.5)"),
        (
            "17.711",
            {"decimal": ","},
            "format.thousands: '.' (it is then 17711) or format.decimal: '.' (it is then 17.711)",
        ),
        ("1,82", {"thousands": ","}, "format.decimal: ',' and format.thousands: '' (it is then 1.82)"),
    ],
)
def test_what_a_number_could_mean_is_said_and_not_chosen(write, value, layout, remedy):
    text = f"a;y\n{value};1\n{value};2\n"
    with pytest.raises(SourceError) as fault:
        read(write(text), delimiter=";", **layout)
    assert "table.csv:2, column 'a': expected a number, found" in str(fault.value)
    first, second = str(fault.value).splitlines()
    assert first.endswith(f"in the source: {remedy}")
    assert second.endswith(f"table.csv:3, column 'a': expected a number, found {value!r}"), "the remedy is told once"


def test_a_store_made_before_there_were_thousands_is_reused(write):
    layout = CsvSource(write("a,y\n1,2\n"), target="y").encoding["format"]
    assert "thousands" not in layout
    assert (
        CsvSource(write("a;y\n1;2\n"), target="y", thousands=",", delimiter=";").encoding["format"]["thousands"] == ","
    )


def test_a_header_of_many_columns_takes_time_in_proportion(write):
    n = 20_000
    names = [f"c{j}" for j in range(n)]
    source = CsvSource(write(",".join(names) + "\n" + ",".join("1" * n) + "\n"))
    asked = Counting(names)
    source._check_names(source.files[0], asked)
    assert asked.n_asked < 10 * n
    names[-1] = "c7"
    with refused(SourceError, "text-tables", naming=["'c7'", "8", str(n)]):
        CsvSource(write(",".join(names) + "\n" + ",".join("1" * n) + "\n")).header()


class Counting(list):
    """Counts how many names are looked at; a search in it, or a copy of a part, looks at all of these."""

    n_asked = 0

    def __contains__(self, name):
        self.n_asked += len(self)
        return super().__contains__(name)

    def __getitem__(self, key):
        self.n_asked += len(range(*key.indices(len(self)))) if isinstance(key, slice) else 1
        return super().__getitem__(key)

    def __iter__(self):
        self.n_asked += len(self)
        return super().__iter__()
