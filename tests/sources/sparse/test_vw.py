"""Vowpal Wabbit's text: read as Vowpal Wabbit reads it, or refused with line and character; ids are XXH64 of names."""

import gzip

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from daskfs.errors import ConfigError, DaskfsError, SourceError
from daskfs.kernels.text import hashes
from daskfs.sources.registry import as_source, kind_of, make_source
from daskfs.sources.sparse.vw import VwSource
from tests.refusals import refused
from tests.sources.sparse.reading import (
    assert_same_rows,
    in_small_pieces,
    names_of,
    rows_of,
)

TEXT = b"""1 |f price:.23 sqft:.25 age:.05 2006
-1 2.5 'second|f price:1e-1 |words:2 the quick the |g x:-3 \r

+0.5 0 third| a b:2 c
-1 |
"""
MASK = 2**64 - 1
PRIMES = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5


def xxh64(data, seed=0):
    """XXH64 as its specification has it."""
    p1, p2, p3, p4, p5 = PRIMES

    def rotated(x, n):
        return (x << n | x >> 64 - n) & MASK

    def round_of(lane, word):
        return rotated((lane + word * p2) & MASK, 31) * p1 & MASK

    def words(data):
        return [int.from_bytes(data[k : k + 8], "little") for k in range(0, len(data) - 7, 8)]

    n, rest = len(data), data
    code = (seed + p5) & MASK
    if n >= 32:
        lanes = [seed + p1 + p2, seed + p2, seed, seed - p1]
        for start in range(0, n - 31, 32):
            lanes = [round_of(lane, w) for lane, w in zip(lanes, words(data[start : start + 32]), strict=True)]
        rest = data[n // 32 * 32 :]
        code = sum(rotated(lane & MASK, k) for lane, k in zip(lanes, (1, 7, 12, 18), strict=True)) & MASK
        for lane in lanes:
            code = ((code ^ round_of(0, lane)) * p1 + p4) & MASK
    code = (code + n) & MASK
    for word in words(rest):
        code = (rotated(code ^ round_of(0, word), 27) * p1 + p4) & MASK
    rest = rest[len(rest) // 8 * 8 :]
    if len(rest) >= 4:
        code = (rotated(code ^ int.from_bytes(rest[:4], "little") * p1 & MASK, 23) * p2 + p3) & MASK
        rest = rest[4:]
    for byte in rest:
        code = rotated(code ^ byte * p5 & MASK, 11) * p1 & MASK
    code = (code ^ code >> 33) * p2 & MASK
    code = (code ^ code >> 29) * p3 & MASK
    return code ^ code >> 32


def id_of(feature, namespace=b""):
    return xxh64(feature, xxh64(namespace) if namespace else 0) % 2**63


@pytest.fixture
def write(tmp_path):
    def write(content, name="rows.vw"):
        path = tmp_path / name
        path.write_bytes(content)
        return path

    return write


def random_text(n_rows=200, seed=0):
    rng = np.random.default_rng(seed)
    lines = []
    for _ in range(n_rows):
        words = [f"w{rng.integers(0, 300)}" + "x" * rng.integers(0, 30) for _ in range(rng.integers(0, 40))]
        features = [word if rng.random() < 0.5 else f"{word}:{rng.normal():.3g}" for word in words]
        cut = rng.integers(0, len(features) + 1)
        lines.append(f"{rng.choice([-1, 1])} |a {' '.join(features[:cut])} |bc {' '.join(features[cut:])}")
    return "\n".join(lines).encode() + b"\n"


VECTORS = {b"": 0xEF46DB3751D8E999, b"a": 0xD24EC4F1A98C6E5B, b"abc": 0x44BC2CF5AD770999}
VECTORS[b"Nobody inspects the spammish repetition"] = 0xFBCEA83C8A378BF1


def hashed(texts, seed=0):
    text = np.frombuffer(b"".join(texts) + b"\xff" * 8, np.uint8)
    out = np.empty(len(texts), np.uint64)
    hashes.hash_texts(text, np.cumsum([0, *map(len, texts)]), np.uint64(seed), out)
    return out.tolist()


def test_the_hash_is_xxh64_and_stays_so():
    assert hashed(list(VECTORS)) == list(VECTORS.values()) == [xxh64(text) for text in VECTORS]
    rng = np.random.default_rng(0)
    texts = [rng.bytes(n) for n in range(200)]
    for seed in (0, 1, 2**64 - 1):
        assert hashed(texts, seed) == [xxh64(text, seed) for text in texts]
    assert id_of(b"price", b"f") == 8603269462215774702 == hashed([b"price"], xxh64(b"f"))[0] % 2**63


def test_lines_become_rows(write):
    source = VwSource(write(TEXT))
    rows = rows_of(source)
    assert rows["y"].tolist() == [1, -1, 0.5, -1]
    assert rows["weight"].tolist() == [1, 2.5, 0, 1]
    assert rows["labels"] == {"tag": ["", "second", "third", ""]}
    assert (source.has_weight, source.label_names, source.features_are_ids) == (True, ["tag"], True)
    names = names_of(source)
    expected = [
        {"f^price": 0.23, "f^sqft": 0.25, "f^age": 0.05, "f^2006": 1},
        {"f^price": 0.1, "words^the": 4, "words^quick": 2, "g^x": -3},
        {"a": 1, "b": 2, "c": 1},
        {},
    ]
    stops = np.cumsum([0, *rows["lengths"]])
    for i, row in enumerate(expected):
        features, data = (rows[what][stops[i] : stops[i + 1]].tolist() for what in ("features", "data"))
        assert {names[feature]: value for feature, value in zip(features, data, strict=True)} == {
            name: np.float32(value) for name, value in row.items()
        }
    for feature, name in names.items():
        namespace, _, word = name.rpartition("^")
        assert feature == id_of(word.encode(), namespace.encode())


@pytest.mark.parametrize("piece_nbytes", [1, 7, 64, 1000, 2**20])
@pytest.mark.parametrize(("block_rows", "block_nnz"), [(1, 1), (7, 100), (300, 50), (1000, 10**6)])
def test_blocks_are_the_same_whatever_pieces_the_text_is_read_in(
    write, monkeypatch, piece_nbytes, block_rows, block_nnz
):
    path = write(TEXT + random_text())
    expected = list(VwSource(path).sparse_blocks(block_rows, block_nnz))
    in_small_pieces(monkeypatch, piece_nbytes)
    monkeypatch.setattr("daskfs.sources.sparse.named_lines.FIRST_NAMES", 1)
    monkeypatch.setattr("daskfs.sources.sparse.named_lines.FIRST_TEXT_NBYTES", 1)
    found = list(VwSource(path).sparse_blocks(block_rows, block_nnz))
    assert [block.start for block in found] == [block.start for block in expected]
    for block, other in zip(found, expected, strict=True):
        for name in ("indptr", "features", "data", "y"):
            np.testing.assert_array_equal(getattr(block, name), getattr(other, name))
        for name in ("ids", "text", "offsets"):
            np.testing.assert_array_equal(getattr(block.names, name), getattr(other.names, name))
        assert block.labels["tag"].tolist() == other.labels["tag"].tolist()


@pytest.mark.parametrize("compressed", [False, True])
def test_parts_have_the_rows_of_the_whole(write, monkeypatch, compressed):
    monkeypatch.setattr("daskfs.sources.sparse.line_source.part_nbytes", lambda nbytes: 1000)
    paths = [write(random_text(40, seed=k) + b"|f unlabelled\n", f"rows{k}.vw") for k in range(2)]
    if compressed:
        paths[1] = write(gzip.compress(paths[1].read_bytes()), "rows1.vw.gz")
    source, in_parts = VwSource(paths, unlabelled="drop"), VwSource(paths, unlabelled="drop")
    assert_same_rows(rows_of(in_parts, 13, 200, parts=True), rows_of(source))
    assert in_parts.notes == source.notes == ["2 rows dropped because they have no label"]
    assert kind_of(str(paths[1])) == "vw"
    assert as_source(paths[0]).kind == "vw"


VW_LINES = [
    "1 |f a b:2 c:-.5",
    "-1 3 |f a |g:2 a b:2",
    "0.5 0.25 'tag |f a:0 b:1e2",
    "1 1 tag| x y |  z",
    "2|f a",
    "1 | a |f| b",
    "1 |f a\tb",
    "1 |f a|g b",
    "1 |long_name:0.5 x:4 x:4",
]


@pytest.mark.parametrize("line", VW_LINES)
def test_vowpal_wabbit_reads_the_same(write, line):
    vowpalwabbit = pytest.importorskip("vowpalwabbit")
    source = VwSource(write(line.encode() + b"\n"), unlabelled="drop")
    workspace = vowpalwabbit.Workspace("--quiet --noconstant")
    example = workspace.example(line)
    label = example.get_simplelabel_label()
    values = sorted(
        example.feature_weight(space, k)
        for space in range(example.num_namespaces())
        for k in range(example.num_features_in(space))
    )
    if label > 1e30:  # Vowpal Wabbit's mark of none
        with pytest.raises(SourceError, match="expected rows, found none"):
            rows_of(source)
        return
    rows = rows_of(source)
    assert rows["y"][0] == np.float32(label)
    assert (rows["weight"] is None and example.get_simplelabel_weight() == 1) or (
        rows["weight"][0] == example.get_simplelabel_weight()
    )
    assert sum(values) == pytest.approx(float(rows["data"].sum()))
    assert len(values) == len(rows["data"]) + (1 if line.count("x:4") == 2 else 0)
    workspace.finish_example(example)
    workspace.finish()


features = st.text(st.characters(exclude_characters=" :|\n", exclude_categories=["Cc", "Cs"]), min_size=1, max_size=40)
spaces = st.one_of(st.just(""), features)
reals = st.floats(-(2.0**100), 2.0**100, allow_nan=False, width=32)


@given(rows=st.lists(st.lists(st.tuples(spaces, features, reals), max_size=30), min_size=1, max_size=5))
def test_names_come_back_whatever_they_are(tmp_path, rows):
    path = tmp_path / "rows.vw"
    lines = ("1 " + "".join(f"|{space} {name}:{value!r}" for space, name, value in row) for row in rows)
    path.write_text("\n".join(line if "|" in line else line + "|" for line in lines) + "\n", newline="\n")
    source = VwSource(path)
    found, names = rows_of(source, 2, 20), names_of(source)
    stops = np.cumsum([0, *found["lengths"]])
    for i, row in enumerate(rows):
        expected = {}
        for space, name, value in row:
            if np.float32(value) != 0:
                whole = f"{space}^{name}" if space else name
                expected[whole] = np.float32(expected.get(whole, np.float32(0)) + np.float32(value))
        features, data = (found[what][stops[i] : stops[i + 1]].tolist() for what in ("features", "data"))
        assert {names[feature]: value for feature, value in zip(features, data, strict=True)} == expected


def test_a_row_of_many_features_is_sorted_and_summed(write):
    rng = np.random.default_rng(0)
    rows = [rng.integers(0, n, n) for n in (0, 1, 2, 3, 8, 100, 257, 3000, 20_000)]
    text = "\n".join("1 | " + " ".join(f"{j}:{j % 7 + 1}" for j in row) for row in rows)
    found = rows_of(VwSource(write(text.encode())), 3, 1000)
    stops = np.cumsum([0, *found["lengths"]])
    for i, row in enumerate(rows):
        numbers, counts = np.unique(row, return_counts=True)
        ids = np.array([id_of(str(j).encode()) for j in numbers], np.uint64)
        order = np.argsort(ids)
        np.testing.assert_array_equal(found["features"][stops[i] : stops[i + 1]], ids[order])
        np.testing.assert_array_equal(found["data"][stops[i] : stops[i + 1]], (counts * (numbers % 7 + 1))[order])


FAULTS = {
    "no bar": ("1 |f a\n1 2\n", 2, 3, "expected a bar before the features, found a line that ends with '2'"),
    "text as label": ("1 |f a\nspam |f a\n", 2, 1, "expected one number as label, found 'spam'"),
    "several labels": ("1,2 |f a\n", 1, 1, "expected one number as label, found '1,2'"),
    "costs": ("1:0.5:2 |f a\n", 1, 1, "expected one number as label"),
    "NaN as label": ("nan |f a\n", 1, 1, "expected one number as label, found 'nan'"),
    "infinite label": ("1e999 |f a\n", 1, 1, "expected a finite label"),
    "no label": ("1 |f a\n|f a\n", 2, 1, "expected a label, found none before '|f'; set unlabelled: drop"),
    "a tag alone": ("1|f a\n", 1, 2, "put a space after a label"),
    "negative weight": ("1 -1 |f a\n", 1, 3, "expected a weight of at least 0, found '-1'"),
    "base": ("1 1 0.5 |f a\n", 1, 5, "initial predictions are not used, found '0.5'; set base: ignore"),
    "four numbers": ("1 1 x 5 |f a\n", 1, 5, "expected label, weight and base before the bar, found 'x'"),
    "scale": ("1 |f:x a\n", 1, 4, "expected namespace or namespace:scale, found 'f:x'"),
    "no name": ("1 |f a :3\n", 1, 8, "expected the name of a feature, found ':3'"),
    "control character": ("1 |f a\0b\n", 1, 7, "found a control character"),
    "text as value": ("1 |f a:x\n", 1, 6, "with a number, found 'a:x'"),
    "no value": ("1 |f a: b\n", 1, 6, "with a number, found 'a:'"),
    "two colons": ("1 |f a:1:2\n", 1, 6, "with a number, found 'a:1:2'"),
    "NaN as value": ("1 |f a:nan\n", 1, 6, "found 'a:nan'"),
    "too large a value": ("1 |f a:1e39\n", 1, 6, "finite in single precision, found 'a:1e39'"),
    "too large a sum": ("1 |f a:3e38 a:3e38\n", 1, 1, "sum of the values of a duplicate feature exceeds"),
    "not UTF-8": (b"1 |f a\n1 |f gr\xfc\xdf\n", 2, 6, "expected UTF-8 text, found 'gr\\\\xfc\\\\xdf'"),
}


@pytest.mark.parametrize("case", FAULTS)
def test_a_fault_is_named_by_file_line_and_character(write, case):
    text, line, character, message = FAULTS[case]
    path = write(text if isinstance(text, bytes) else text.encode())
    with refused(DaskfsError, "sparse-rows", at=f"{path}:{line}, character {character}") as caught:
        rows_of(VwSource(path))
    assert message in str(caught.value)
    assert caught.value.remedy


def test_what_is_refused_can_be_left_out(write):
    path = write(b"|f a\n1 1 0.5 |f b\n")
    assert rows_of(VwSource(path, unlabelled="drop", base="ignore"))["y"].tolist() == [1]


def test_weights_from_the_middle_on_are_refused_used_or_ignored(write):
    path = write(b"1 |f a\n" * 200 + b"1 2 |f a\n")
    with refused(SourceError, "sparse-rows", at=":201, character 3"):
        rows_of(VwSource(path))
    assert rows_of(VwSource(path, weights="use"))["weight"].tolist() == [1.0] * 200 + [2.0]
    assert rows_of(VwSource(path, weights="ignore"))["weight"] is None


def test_names_that_nobody_asked_for_are_not_told(write):
    source = VwSource(write(b"1 |f gr\xfc\xdf\n"), tell_names=False)
    (block,) = source.sparse_blocks(10, 10)
    assert block.names is None
    assert block.features.tolist() == [id_of(b"gr\xfc\xdf", b"f")]


@pytest.mark.parametrize("options", [{"unlabelled": "zero"}, {"weights": True}, {"base": 0}, {"names": True}])
def test_options_are_checked(write, options):
    with refused(ConfigError, "formats", at=f"source.{next(iter(options))}"):
        make_source("vw", path=write(TEXT), **options)
