"""Layouts of text tables, told by their heads."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from daskfs.errors import SourceError
from daskfs.sources.sniffing import Sniffed, sniff


def sniffed(folder: Path, content: str | bytes, name: str = "t.csv") -> Sniffed:
    file = folder / name
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    return sniff(file)


@pytest.mark.parametrize("sign", [",", ";", "\t", "|"])
def test_values_are_split_by_the_sign_that_gives_every_line_as_many(tmp_path: Path, sign: str) -> None:
    rows = [["a", "b c", "d"], ["1", "x.y", "3"], ["4", "u-v", "6"]]
    found = sniffed(tmp_path, "\n".join(sign.join(row) for row in rows) + "\n")
    assert found.layout.delimiter == sign
    assert found.names == rows[0]
    assert found.records == rows[1:]


def test_signs_within_quotes_split_nothing(tmp_path: Path) -> None:
    found = sniffed(tmp_path, 'a;b\n"1,2;3,4,5";2\n"x, y, z";3\n')
    assert (found.layout.delimiter, found.records[0]) == (";", ["1,2;3,4,5", "2"])


@pytest.mark.parametrize(
    ("content", "encoding"),
    [
        ("a,b\nü,1\n".encode(), "utf-8"),
        (b"\xef\xbb\xbf" + "a,b\nü,1\n".encode(), "utf-8"),
        ("a,b\nü,1\n".encode("latin-1"), "latin-1"),
        ("a,b\n€,1\n".encode("cp1252"), "cp1252"),
        ("a,b\nü,1\n".encode("utf-16"), "utf-16"),
    ],
)
def test_encodings_are_told_and_a_byte_order_mark_is_no_part_of_a_name(
    tmp_path: Path, content: bytes, encoding: str
) -> None:
    found = sniffed(tmp_path, content)
    assert (found.layout.encoding, found.names) == (encoding, ["a", "b"])


@pytest.mark.parametrize(
    ("values", "decimal", "thousands"),
    [
        (["1.5", "2"], ".", ""),
        (["1,5", "2,25"], ",", ""),
        (["1.234,5", "7,5"], ",", "."),
        (["1,234.5", "12"], ".", ","),
        (["1 234,5", "2,5"], ",", " "),
        (["12,5 %", "7 %"], ",", ""),
        (["1'234.5", "1.5"], ".", "'"),
        (["7", "8"], ".", ""),
    ],
)
def test_signs_of_numbers_are_those_under_which_most_are_numbers(
    tmp_path: Path, values: list[str], decimal: str, thousands: str
) -> None:
    found = sniffed(tmp_path, "name;x\n" + "".join(f"n;{value}\n" for value in values))
    assert (found.layout.decimal, found.layout.thousands) == (decimal, thousands)


def test_what_may_be_thousands_or_decimals_is_said(tmp_path: Path) -> None:
    found = sniffed(tmp_path, "x;y\n1,234;a\n5,678;b\n")
    assert any("may be 1234 or 1.234" in remark for remark in found.remarks)


@pytest.mark.parametrize(
    ("content", "header"),
    [
        ("a,b\n1,2\n", True),
        ("1,2\n3,4\n", False),
        ("red,x\nblue,x\nred,y\n", False),
        ("colour,letter\nblue,x\nred,y\n", True),
        ("0,1,2\n5.5,3,g\n1.5,4,h\n", True),  # numbers of columns
        (",a\n0,1.5\n1,2.5\n", True),  # an index without a name
        ("a,a\n1,2\n", True),
        ("a,a\nb,c\n", False),
    ],
)
def test_a_first_line_of_names_is_told_from_values(tmp_path: Path, content: str, header: bool) -> None:
    found = sniffed(tmp_path, content)
    assert found.layout.header is header
    assert header or found.names[0] == "x0"


def test_words_for_missing_values_are_those_that_stand_among_numbers(tmp_path: Path) -> None:
    found = sniffed(tmp_path, "x,grade\n1,-\n?,-\n3,+\nn/a,-\n5,+\n6,+\n7,+\n8,-\n")
    assert {"?", "n/a"} <= {*found.layout.missing}
    assert "-" not in found.layout.missing  # grades are no numbers


def test_comments_and_spaces_are_told(tmp_path: Path) -> None:
    found = sniffed(tmp_path, "# made by hand, in 2020\na, b\n1, x\n2, y\n")
    assert (found.layout.comment, found.layout.skip_initial_space, found.names) == ("#", True, ["a", "b"])
    assert sniffed(tmp_path, "#chrom\tpos\n1\t7\n2\t8\n").names == ["#chrom", "pos"]


def test_compressed_text_is_looked_into(tmp_path: Path) -> None:
    found = sniffed(tmp_path, gzip.compress(b"a;b\n1,5;2\n"), "t.csv.gz")
    assert (found.names, found.layout.decimal) == (["a", "b"], ",")


def test_a_line_of_another_length_is_named(tmp_path: Path) -> None:
    found = sniffed(tmp_path, "a,b\n1,2\n1,2,3\n4,5\n")
    assert any(remark.startswith("record 3 has 3 values") for remark in found.remarks)


@pytest.mark.parametrize("content", [b"PK\x03\x04\0\0\0\0", b"\n\n\n"])
def test_what_is_no_table_is_refused(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(SourceError, match=r"found zero bytes|only blank lines"):
        sniffed(tmp_path, content)
