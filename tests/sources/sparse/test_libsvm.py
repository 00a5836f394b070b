"""Files in the format of SVMlight and LIBSVM: read as scikit-learn reads them, or refused with line and character."""

import bz2
import gzip
import io
import lzma
import math
import re

import numpy as np
import pyarrow
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import dump_svmlight_file, load_svmlight_file

from daskfs.errors import ConfigError, DaskfsError, SourceError
from daskfs.sources.ingest import ingest
from daskfs.sources.registry import as_source, kind_of, make_source
from daskfs.sources.sparse.libsvm import LibsvmSource
from tests.refusals import refused
from tests.sources.sparse.reading import (
    assert_same_rows,
    in_small_pieces,
    matrix_of,
    rows_of,
)

TEXT = b"""# a comment
1 qid:3 1:0.5 4:-2 # behind
-1 qid:3 2:1e-3

+1.5\tqid:4  4:7.25\t5:3\r
0 qid:12
2 qid:12 3:1
"""


@pytest.fixture
def write(tmp_path):
    def write(content, name="rows.svm"):
        path = tmp_path / name
        path.write_bytes(content)
        return path

    return write


def random_text(n_rows=300, zero_based=True, seed=0):
    rng = np.random.default_rng(seed)
    X = scipy.sparse.random(n_rows, 1000, 0.02, "csr", rng=rng)
    stream = io.BytesIO()
    dump_svmlight_file(X, rng.normal(size=n_rows), stream, zero_based=zero_based)
    return stream.getvalue()


def test_lines_become_rows(write):
    source = LibsvmSource(write(TEXT), target="sign")
    rows = rows_of(source)
    assert (source.n_features, source.n_samples, source.is_zero_based) == (5, 5, False)
    assert (list(source.target_names), source.label_names) == (["sign"], ["qid"])
    assert rows["y"].tolist() == [1, -1, 1.5, 0, 2]
    assert rows["labels"] == {"qid": ["3", "3", "4", "12", "12"]}
    dense = [[0.5, 0, 0, -2, 0], [0, 0.001, 0, 0, 0], [0, 0, 0, 7.25, 3], [0] * 5, [0, 0, 1, 0, 0]]
    np.testing.assert_array_equal(matrix_of(rows, 5).toarray(), np.array(dense, np.float32))
    assert source.notes == ["indices begin with 1 (0 does not occur): the feature '1' is column 0"]
    (block,) = source.row_blocks(10)
    np.testing.assert_array_equal(block.X, np.array(dense, np.float32))


def test_a_file_becomes_a_store(write, tmp_path):
    store = ingest(write(TEXT), tmp_path / "rows.zarr", shuffle=False)
    dense = [[0.5, 0, 0, -2, 0], [0, 0.001, 0, 0, 0], [0, 0, 0, 7.25, 3], [0] * 5, [0, 0, 1, 0, 0]]
    np.testing.assert_array_equal(store.read(slice(None), slice(None)), np.array(dense, np.float32))
    assert store.labels("qid").tolist() == ["3", "3", "4", "12", "12"]


values = st.floats(width=32, allow_nan=False, allow_infinity=False, allow_subnormal=False)


@pytest.mark.slow
@given(data=st.data(), zero_based=st.booleans(), dtype=st.sampled_from([np.float32, np.float64]))
def test_what_scikit_learn_writes_is_read_as_scikit_learn_reads_it(tmp_path, data, zero_based, dtype):
    shape = data.draw(st.tuples(st.integers(1, 8), st.integers(1, 6)))
    dense = np.array(data.draw(st.lists(values, min_size=math.prod(shape), max_size=math.prod(shape))), dtype)
    dense = dense.reshape(shape) * np.array(
        data.draw(st.lists(st.booleans(), min_size=math.prod(shape), max_size=math.prod(shape)))
    ).reshape(shape)
    y = np.array(data.draw(st.lists(values, min_size=shape[0], max_size=shape[0])))
    qid = data.draw(st.none() | st.lists(st.integers(0, 99), min_size=shape[0], max_size=shape[0]))
    path = tmp_path / "rows.svm"
    dump_svmlight_file(scipy.sparse.csr_matrix(dense), y, str(path), zero_based=zero_based, query_id=qid)
    source = LibsvmSource(path, zero_based=zero_based, n_features=shape[1])
    rows = rows_of(source, block_rows=data.draw(st.integers(1, 9)), block_nnz=data.draw(st.integers(1, 20)))
    X, expected_y, *expected_qid = load_svmlight_file(
        str(path), n_features=shape[1], zero_based=zero_based, query_id=qid is not None
    )
    found = matrix_of(rows, shape[1])
    np.testing.assert_array_equal(found.toarray(), X.toarray().astype(np.float32))
    np.testing.assert_array_equal(rows["y"], expected_y)
    if qid is not None:
        assert rows["labels"]["qid"] == [str(each) for each in expected_qid[0]]


@pytest.mark.parametrize("zero_based", [True, False])
def test_whether_a_zero_occurs_says_what_the_first_column_is(write, zero_based):
    text = random_text(zero_based=zero_based) + b"1 %d:1\n" % (0 if zero_based else 1)
    source = LibsvmSource(write(text))
    X, y = load_svmlight_file(io.BytesIO(text), zero_based="auto")
    rows = rows_of(source)
    assert source.n_features == X.shape[1]
    assert source.is_zero_based == zero_based
    np.testing.assert_array_equal(matrix_of(rows, source.n_features).toarray(), X.toarray().astype(np.float32))
    np.testing.assert_array_equal(rows["y"], y)


SURVEYS = {  # text -> rows, whether a 0 occurs, largest index
    b"1 0:1": (1, True, 0),
    b"1\n": (1, False, 0),
    b"1 qid:0\n": (1, False, 0),
    b"1 qid:0 3:1\n": (1, False, 3),
    b"1 qid:3 0:1\n": (1, True, 0),
    b"1 7:0\n": (1, False, 7),
    b"# 0:1\n1 2:3 # 0:1 9:9\n": (1, False, 2),
    b"\n \r\n\t\n1 2:3\r\n-1 00:3 10:1 \n": (2, True, 10),
    b"1" + b" " * 40 + b"5:3" + b" " * 40 + b"\n": (1, False, 5),
    b"1 20:1 9223372036854775808:1\n": (1, False, 2**63),
}


@pytest.mark.parametrize("text", SURVEYS)
@pytest.mark.parametrize("sort", [True, False])
def test_a_survey_finds_rows_zeros_and_the_largest_index(write, text, sort):
    assert tuple(LibsvmSource(write(text), sort=sort).survey) == SURVEYS[text]


@pytest.mark.parametrize("piece_nbytes", [1, 7, 64, 1000, 2**20])
@pytest.mark.parametrize(("block_rows", "block_nnz"), [(1, 1), (7, 100), (300, 50), (1000, 10**6)])
def test_blocks_are_the_same_whatever_pieces_the_text_is_read_in(
    write, monkeypatch, piece_nbytes, block_rows, block_nnz
):
    path = write(random_text())
    expected = list(LibsvmSource(path).sparse_blocks(block_rows, block_nnz))
    in_small_pieces(monkeypatch, piece_nbytes)
    found = list(LibsvmSource(path).sparse_blocks(block_rows, block_nnz))
    assert [block.start for block in found] == [block.start for block in expected]
    for block, other in zip(found, expected, strict=True):
        for name in ("indptr", "features", "data", "y"):
            np.testing.assert_array_equal(getattr(block, name), getattr(other, name))


@pytest.mark.parametrize("part_nbytes", [1, 50, 1000, 10**6])
@pytest.mark.parametrize("compressed", [False, True])
def test_parts_have_the_rows_of_the_whole(write, monkeypatch, part_nbytes, compressed):
    monkeypatch.setattr("daskfs.sources.sparse.line_source.part_nbytes", lambda nbytes: part_nbytes)
    paths = [write(random_text(40, seed=k), f"rows{k}.svm") for k in range(2)]
    if compressed:
        paths[1] = write(gzip.compress(paths[1].read_bytes()), "rows1.svm.gz")
    source, in_parts = LibsvmSource(paths), LibsvmSource(paths)
    assert_same_rows(rows_of(in_parts, 13, 200, parts=True), rows_of(source))
    assert in_parts.notes == source.notes
    if part_nbytes == 1:
        assert len(in_parts.parts()) == 40 + (1 if compressed else 40)


PACKERS = {
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zst": lambda data: pyarrow.compress(data, "zstd", asbytes=True),
}


@pytest.mark.parametrize("packed", PACKERS)
def test_compressed_files_are_read_by_their_ending(write, packed):
    text = random_text()
    expected = rows_of(LibsvmSource(write(text)))
    path = write(PACKERS[packed](text), f"rows.libsvm{packed}")
    assert kind_of(str(path)) == "libsvm"
    assert_same_rows(rows_of(as_source(path)), expected)
    if packed != ".bz2":
        cut = write(PACKERS[packed](text)[:-30], f"cut.svm{packed}")
        with refused(SourceError, "formats", at=str(packed)):
            rows_of(LibsvmSource(cut))


@pytest.mark.parametrize("text", [TEXT, TEXT.replace(b"\n", b"\r\n"), TEXT.rstrip(), b"\xef\xbb\xbf" + TEXT])
def test_line_ends_and_byte_order_marks_do_not_matter(write, text):
    source = LibsvmSource(write(text))
    assert_same_rows(rows_of(source), rows_of(LibsvmSource(write(TEXT, "other.svm"))))
    assert any("the last line has no line end" in note for note in source.notes) == (not text.endswith(b"\n"))


def test_indices_up_to_2_63_are_ids(write):
    ids = [0, 1, 2**31, 2**32 + 1, 2**62, 2**63]
    path = write(b"1 " + b" ".join(b"%d:1" % each for each in ids) + b"\n")
    source = LibsvmSource(path)
    assert source.features_are_ids
    assert source.n_features is None
    rows = rows_of(source)
    assert rows["features"].tolist() == ids
    assert source.notes == ["indices are kept as 64-bit ids"]
    (block,) = source.sparse_blocks(10, 10)
    assert block.data is None
    with refused(SourceError, "sparse-rows", at="libsvm", naming=["dense"]):
        next(source.row_blocks(10))


@pytest.mark.parametrize(("n_columns", "in_a_row"), [(3, 3), (500, 100)])
def test_entries_are_estimated_from_the_first_rows(write, n_columns, in_a_row):
    line = b"1 " + b" ".join(b"%d:1" % k for k in range(n_columns)) + b"\n"
    assert LibsvmSource(write(line * 20)).estimate_entries() == 20 * in_a_row


def test_ids_are_read_once(write, monkeypatch):
    source = LibsvmSource(write(TEXT), feature_ids=True)
    monkeypatch.setattr(LibsvmSource, "survey", property(lambda self: pytest.fail("it was read beforehand")))
    assert rows_of(source)["features"].tolist() == [1, 4, 2, 4, 5, 3]


def test_indices_in_any_order_are_sorted_where_asked(write):
    rng = np.random.default_rng(0)
    lines = []
    for n in (0, 1, 2, 7, 8, 9, 16, 17, 33, 100, 1000):
        lines.append("1 " + " ".join(f"{j}:{j + 0.5}" for j in rng.permutation(2000)[:n]))
    source = LibsvmSource(write("\n".join(lines).encode()), sort=True)
    rows = rows_of(source, 3, 40)
    assert rows["lengths"].tolist() == [0, 1, 2, 7, 8, 9, 16, 17, 33, 100, 1000]
    base = 0 if source.is_zero_based else 1
    np.testing.assert_array_equal(rows["data"], rows["features"].astype(np.float32) + base + 0.5)


NUMBERS = ["1", "-1", "+1", ".5", "5.", "1e5", "1E-3", "1e+2", "-0.0", "0.1", "1e-40", "1e-400", "1e-46", "0e999"]
NUMBERS += ["123456789012345678901234567890", "0.0000000000000000000000000000123456789012345678", "3.4028235e38"]
NUMBERS += ["9007199254740993", "0" * 30 + "7.5", "1" + "0" * 30 + "e-30", "4.9e-324", "1e-320", "0.30000001192092896"]


@pytest.mark.parametrize("number", NUMBERS)
def test_a_number_is_what_python_reads(write, number):
    rows = rows_of(LibsvmSource(write(f"{number} 1:{number}\n".encode())))
    assert rows["y"][0] == pytest.approx(float(number), rel=1e-15, abs=1e-323)
    if abs(float(number)) > 1e-300 or float(number) == 0.0:
        assert rows["y"][0] == float(number)
    with np.errstate(under="ignore"):
        assert rows["data"][0] == np.float32(float(number))


FAULTS = {
    "text as label": ("1 1:1\nspam 1:1\n", 2, 1, "expected a label that is a number, found 'spam'"),
    "no label": ("1:1 2:1\n", 1, 1, "there is an entry in place of the label"),
    "several labels": ("1 1:1\n1,3 2:1\n", 2, 1, "several: '1,3'; set several_labels: first"),
    "NaN as label": ("nan 1:1\n", 1, 1, "found 'nan'; remove or fix it"),
    "too large a label": ("1e999 1:1\n", 1, 1, "expected a finite label, found '1e999'"),
    "no colon": ("1 1:1 7\n", 1, 7, "expected index:value, found '7'"),
    "text as index": ("1 1:1 a:1\n", 1, 7, "expected index:value, found 'a:1'"),
    "negative": ("\n\n1 -3:1\n", 3, 3, "found the negative '-3:1'"),
    "a fraction": ("1 1.5:1\n", 1, 3, "expected index:value, found '1.5:1'"),
    "order": ("1 1:1 4:1 3:1\n", 1, 11, "expected ascending indices, found '3:1' after a larger one; set sort"),
    "twice": ("1 1:1 4:1 4:1\n", 1, 11, "each index once in a line, found '4:1' again"),
    "no value": ("1 1:\n", 1, 3 + 2, None),
    "text as value": ("1 1:x\n", 1, 3, "a number as value, found '1:x'; fix the value"),
    "NaN as value": ("1 1:nan\n", 1, 3, "found '1:nan'; remove or fix it"),
    "infinity as value": ("1 1:-inf\n", 1, 3, "found '1:-inf'; remove or fix it"),
    "too large a value": ("1 1:1e39\n", 1, 3, "finite in single precision, found '1:1e39'"),
    "over 2^63": ("1 9223372036854775809:1\n", 1, 3, "expected indices up to 9,223,372,036,854,775,808, found '92233"),
    "far over 2^63": ("1 99999999999999999999999:1\n", 1, 3, "up to 9,223,372,036,854,775,808, found '9999"),
    "text as query": ("1 qid:x 1:1\n", 1, 3, "expected qid: and a whole number below 2^63, found 'qid:x'"),
    "two queries": ("1 qid:1 qid:2 1:1\n", 1, 9, "one query id"),
    "zero bytes": ("1 1:1\n\0\0\0\n", 2, 1, "expected a label that is a number, found '\\x00\\x00\\x00'"),
}


@pytest.mark.parametrize("case", FAULTS)
def test_a_fault_is_named_by_file_line_and_character(write, case):
    text, line, character, message = FAULTS[case]
    path = write(text.encode())
    character = 3 if case == "no value" else character
    with refused(DaskfsError, "sparse-rows", at=f"{path}:{line}, character {character}") as caught:
        rows_of(LibsvmSource(path))
    assert (message or "found '1:'") in str(caught.value)
    assert caught.value.remedy


def test_a_fault_of_a_part_has_the_line_of_the_file(write, monkeypatch):
    monkeypatch.setattr("daskfs.sources.sparse.line_source.part_nbytes", lambda nbytes: 500)
    path = write(random_text(100) + b"1 2:x\n" + random_text(10))
    with refused(SourceError, "sparse-rows", at="rows.svm:101, character 3"):
        rows_of(LibsvmSource(path), parts=True)


def test_a_sorted_line_says_which_index_stands_twice(write):
    path = write(b"1 7:1 3:1 9:1 3:2\n")
    with refused(SourceError, "sparse-rows", at="character 15", naming=["'3:2'"]):
        rows_of(LibsvmSource(path, sort=True))


def test_a_zero_where_indices_are_said_to_begin_with_one_is_a_fault(write):
    with refused(SourceError, "sparse-rows", at=":1, character 3", naming=["1", "'0:1'", "zero_based"]):
        rows_of(LibsvmSource(write(b"1 0:1\n"), zero_based=False))


def test_an_index_beyond_the_columns_is_a_fault(write):
    path = write(b"1 5:1\n")
    assert rows_of(LibsvmSource(path, zero_based=False, n_features=5))["features"].tolist() == [4]
    with refused(SourceError, "sparse-rows", naming=["4", "'5:1'", "n_features"]):
        rows_of(LibsvmSource(path, zero_based=False, n_features=4))
    with refused(SourceError, "sparse-rows", naming=["2,147,483,647"]):
        rows_of(LibsvmSource(write(b"1 5:1 2147483648:1\n"), feature_ids=False, n_features=2**31, zero_based=True))


def test_the_first_of_several_labels_is_taken_where_asked(write):
    assert rows_of(LibsvmSource(write(b"1,3 1:1\n2, 2:1\n"), several_labels="first"))["y"].tolist() == [1, 2]


def test_query_ids_from_the_middle_on_are_refused(write):
    with refused(SourceError, "sparse-rows", at=":201, character 3"):
        rows_of(LibsvmSource(write(b"1 1:1\n" * 200 + b"1 qid:2 1:1\n")))


@pytest.mark.parametrize("text", [b"# nothing\n\n", b"\n", b" "])
def test_files_without_rows_are_refused(write, text):
    with refused(SourceError, "sparse-rows", naming=["none"]):
        LibsvmSource(write(text)).check()


def test_utf_16_is_refused(write):
    with refused(SourceError, "sparse-rows", naming=["8", "16"]):
        LibsvmSource(write("1 1:1\n".encode("utf-16"))).check()


def test_a_line_without_end_is_refused(write, monkeypatch):
    monkeypatch.setattr("daskfs.sources.sparse.lines.LONGEST_LINE_NBYTES", 2**21)
    with refused(SourceError, "sparse-rows", naming=["2,097,152"]):
        LibsvmSource(write(b"1" * 2**23)).check()


def test_a_file_that_changes_while_it_is_read_is_noticed(write):
    path = write(random_text())
    blocks = LibsvmSource(path).sparse_blocks(10, 100)
    next(blocks)
    path.write_bytes(random_text() + b"1 1:1\n")
    with refused(SourceError, "formats", naming=["changed"]):
        list(blocks)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"zero_based": "maybe"}, "source.zero_based"),
        ({"several_labels": "all"}, "source.several_labels"),
        ({"n_features": 2**32}, "source.n_features"),
        ({"sorted": True}, "did you mean 'sort'"),
    ],
)
def test_options_are_checked(write, options, message):
    with pytest.raises(ConfigError, match=re.escape(message)):
        make_source("libsvm", path=write(TEXT), **options)


def test_a_source_can_be_told_from_another_and_from_itself(write):
    source, other = LibsvmSource(write(TEXT)), LibsvmSource(write(TEXT + b"1 qid:1 1:1\n", "other.svm"))
    assert source.digest() == LibsvmSource(write(TEXT, "copy.svm")).digest() != other.digest()
    assert source.is_unchanged(source.describe(), source.digest())
    assert source.encoding != LibsvmSource(source.files, zero_based=True).encoding
