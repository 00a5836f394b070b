"""Click logs: each value a feature, counts by bins; refused with line and character where a line is wrong."""

import gzip
import hashlib
import math
import os
import re
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from daskfs.errors import ConfigError, SourceError
from daskfs.sources.ingest import ingest
from daskfs.sources.log_bins import bins
from daskfs.sources.registry import make_source
from daskfs.sources.sparse.clicks import ClicksSource
from tests.refusals import refused
from tests.sources.sparse.reading import (
    assert_same_rows,
    in_small_pieces,
    names_of,
    rows_of,
)
from tests.sources.sparse.test_vw import id_of

COLUMNS = ["click", "n1", "n2", "site", "skipped", "ad"]
TEXT = """click\tn1\tn2\tsite\tskipped\tad
1\t3\t\tab\tx\t68fd1e64
0\t\t-1\t\tx\tü\r
0\t200000\t2\tab\t\t

1\t 0 \t1e3\ta b\tx\t"q"
"""
OPTIONS = {"target": "click", "counts": ["n1", "n2"], "strings": ["site", "ad"]}
ROWS = [
    {"n1=3..4", "site=ab", "ad=68fd1e64"},
    {"n2=-1", "ad=ü"},
    {"n1=192053..200096", "n2=2", "site=ab"},
    {"n1=0", "n2=950..1020", "site=a b", 'ad="q"'},
]


@pytest.fixture
def write(tmp_path):
    def write(content, name="log.tsv"):
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write


def features_of(source, **bounds):
    """The names of each row's features."""
    rows, names = rows_of(source, **bounds), names_of(source)
    stops = np.cumsum([0, *rows["lengths"]])
    assert rows["data"].tolist() == [1.0] * len(rows["data"])
    return [{names[f] for f in rows["features"][a:b].tolist()} for a, b in pairwise(stops)]


def test_each_value_is_a_feature(write):
    source = ClicksSource(write(TEXT), **OPTIONS)
    assert features_of(source) == ROWS
    rows = rows_of(source)
    assert rows["y"].tolist() == [1, 0, 0, 1]
    assert rows["features"][:3].tolist() == sorted(
        [id_of(b"3..4", b"n1"), id_of(b"ab", b"site"), id_of(b"68fd1e64", b"ad")]
    )
    assert next(source.sparse_blocks(10, 100)).data is None


def test_a_log_becomes_a_store(write, tmp_path):
    store = ingest(write(TEXT), tmp_path / "log.zarr", kind="clicks", **OPTIONS, shuffle=False)
    assert store.shape == (4, 11)
    X, names = store.read(slice(None), slice(None)), list(store.names)
    assert [{names[j] for j in np.flatnonzero(row)} for row in X] == ROWS


def test_an_empty_value_is_a_feature_where_asked(write):
    found = features_of(ClicksSource(write(TEXT), **OPTIONS, missing="token"))
    assert found[0] == ROWS[0] | {"n2="}
    assert found[1] == ROWS[1] | {"n1=", "site="}


def test_columns_are_named_where_there_is_no_header(write):
    path = write(TEXT.split("\n", 1)[1].replace("\t", ","), "log.csv")
    assert features_of(ClicksSource(path, columns=COLUMNS, delimiter=",", **OPTIONS)) == ROWS
    everything = ClicksSource(path, "click", COLUMNS, ["n1", "n2"], delimiter=",")
    assert features_of(everything)[0] == ROWS[0] | {"skipped=x"}


def test_the_first_row_is_not_read_as_a_header_where_there_is_none(write):
    path = write(TEXT.encode().split(b"\n", 1)[1].replace(b"\tx\t", b"\t\xff\t", 1))
    assert features_of(ClicksSource(path, columns=COLUMNS, **OPTIONS)) == ROWS


def test_counts_are_binned_by_the_square_of_their_logarithm():
    edges, texts = bins()
    assert len(edges) + 1 == len(texts) == len(set(texts))
    assert (np.diff(edges) > 0).all()
    digest = hashlib.sha256(" ".join(texts).encode()).hexdigest()
    assert digest.startswith("b7d15e6bb29cc025"), "ids are made of these texts, and kept"
    rng = np.random.default_rng(0)
    for x in [*range(-3000, 3000), *(2.0 ** rng.uniform(2, 39.9, 3000)).astype(np.int64).tolist()]:
        text = texts[np.searchsorted(edges, float(x), side="right")]
        least, _, largest = text.partition("..") if ".." in text else (text, "", text)
        assert int(least or x) <= x <= int(largest or x)
        if abs(x) < 3:
            assert text == str(x)
        else:
            assert math.floor(math.log(abs(x)) ** 2) == math.floor(math.log(abs(int(least))) ** 2)


@pytest.mark.parametrize("piece_nbytes", [1, 7, 1000])
@pytest.mark.parametrize(("block_rows", "block_nnz"), [(1, 1), (3, 5), (1000, 10**6)])
def test_blocks_are_the_same_whatever_pieces_the_text_is_read_in(
    write, monkeypatch, piece_nbytes, block_rows, block_nnz
):
    path = write(TEXT + TEXT.split("\n", 1)[1] * 30)
    expected = list(ClicksSource(path, **OPTIONS).sparse_blocks(block_rows, block_nnz))
    in_small_pieces(monkeypatch, piece_nbytes)
    monkeypatch.setattr("daskfs.sources.sparse.named_lines.FIRST_NAMES", 1)
    monkeypatch.setattr("daskfs.sources.sparse.named_lines.FIRST_TEXT_NBYTES", 1)
    found = list(ClicksSource(path, **OPTIONS).sparse_blocks(block_rows, block_nnz))
    for block, other in zip(found, expected, strict=True):
        for name in ("indptr", "features", "y"):
            np.testing.assert_array_equal(getattr(block, name), getattr(other, name))
        for name in ("ids", "text", "offsets"):
            np.testing.assert_array_equal(getattr(block.names, name), getattr(other.names, name))


def test_parts_have_the_rows_of_the_whole(write, monkeypatch):
    monkeypatch.setattr("daskfs.sources.sparse.line_source.part_nbytes", lambda nbytes: 50)
    rows = TEXT.split("\n", 1)[1] * 5 + "\tunlabelled\t\t\t\t\n".replace("unlabelled", "7")
    paths = [write(TEXT + rows), write(gzip.compress((TEXT + rows).encode()), "log2.tsv.gz")]
    source, in_parts = (ClicksSource(paths, **OPTIONS, unlabelled="drop") for _ in range(2))
    assert_same_rows(rows_of(in_parts, 2, 7, parts=True), rows_of(source))
    assert in_parts.notes == source.notes == ["2 rows dropped because they have no label"]


def test_rows_of_many_columns_tell_all_names(write):
    names = [f"c{j}" for j in range(700)]
    lines = ["\t".join(["y", *names])]
    lines += ["\t".join([label, *(f"v{j % 50}" for j in range(k, k + 700))]) for k, label in enumerate(["", "1", "0"])]
    source = ClicksSource(write("\n".join(lines) + "\n"), "y", unlabelled="drop")
    assert features_of(source) == [{f"c{j}=v{(j + k) % 50}" for j in range(700)} for k in (1, 2)]


FAULTS = {
    "too few": ("1\t1\t2\ta\tx\tb\n0\t1\t2\n", 3, 5, "expected 6 values, found fewer; the last is '2'"),
    "too many": ("1\t1\t2\ta\tx\tb\tc\n", 2, 11, "expected 6 values, found more from 'b' on"),
    "no target": ("\t1\t2\ta\tx\tb\n", 2, 1, "expected a target, found none; set unlabelled: drop"),
    "text as target": ("yes\t1\t2\ta\tx\tb\n", 2, 1, "expected a finite number as target, found 'yes'"),
    "text as count": ("1\t1\tmany\ta\tx\tb\n", 2, 5, "expected a finite number as count, found 'many'"),
    "NaN as count": ("1\tnan\t2\ta\tx\tb\n", 2, 3, "expected a finite number as count, found 'nan'"),
    "two counts": ("1\t1 2\t2\ta\tx\tb\n", 2, 3, "expected a finite number as count, found '1'"),
    "not UTF-8": (b"1\t1\t2\ta\tx\tb\n1\t1\t2\tgr\xfc\tx\tb\n", 3, 7, "expected UTF-8 text, found 'gr\\\\xfc'"),
}


@pytest.mark.parametrize("case", FAULTS)
def test_a_fault_is_named_by_file_line_and_character(write, case):
    text, line, character, message = FAULTS[case]
    path = write(TEXT.split("\n", 1)[0].encode() + b"\n" + (text if isinstance(text, bytes) else text.encode()))
    with refused(
        SourceError,
        "sparse-rows",
        at=f"{path}:{line}, character {character}",
        naming=[message],
    ) as caught:
        rows_of(ClicksSource(path, **OPTIONS))
    assert caught.value.remedy


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"target": "clicks"}, "source.target: no column 'clicks' (did you mean 'click'?)"),
        ({"counts": ["n3"]}, "source.counts: no column 'n3'"),
        ({"delimiter": "::"}, "source.delimiter: expected one ASCII character"),
        ({"missing": "drop"}, "source.missing"),
        ({"columns": ["a", "a"]}, "two columns are called 'a'"),
    ],
)
def test_options_are_checked(write, options, message):
    with pytest.raises(ConfigError, match=re.escape(message)):
        make_source("clicks", path=write(TEXT), **{**OPTIONS, **options}).check()


def test_criteos_log_is_read():
    if "DASKFS_DATA" not in os.environ:
        pytest.skip("DASKFS_DATA is not set")
    path = Path(os.environ["DASKFS_DATA"], "ctr_criteo", "train.tiny.csv.gz")
    counts = [f"I{j}" for j in range(1, 14)]
    source = ClicksSource(path, "Label", counts=counts, strings=[f"C{j}" for j in range(1, 27)], delimiter=",")
    rows = rows_of(source)
    assert len(rows["y"]) == 1999
    assert set(rows["y"]) == {0.0, 1.0}
    assert rows["lengths"].max() <= 39
