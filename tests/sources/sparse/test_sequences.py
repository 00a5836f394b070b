"""Sequences of any form are read as plain Python reads them, k-mers as it counts them; what is damaged has a line."""

import bz2
import gzip
import lzma
import random
import re
import tempfile
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow
import pytest
from hypothesis import given
from hypothesis import strategies as st

from daskfs.errors import SourceError
from daskfs.sources.sparse import sequences
from daskfs.sources.sparse.fasta import FastaSource
from tests.sources.sparse.reading import damaged, rewritten, rows_of
from tests.sources.sparse.test_fasta import counts_of, kmers_of

BLANKS = b" \t\r\n\v\f"
LETTERS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-*."
IUPAC = "ACGTUNRYKMSWBDHVacgtunrykmswbdhv-*."
PACKED = {
    "": lambda data: data,
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zst": lambda data: pyarrow.compress(data, "zstd", asbytes=True),
}


@st.composite
def texts(draw):
    """Sequences, and a file of them: FASTA or FASTQ, with lines of any length, either end of line, blank lines."""
    rng = draw(st.randoms(use_true_random=False))
    mostly = draw(st.sampled_from(["ACGT", "ACGTacgt", IUPAC, "ACGT" * 9 + IUPAC, "A"]))
    found = ["".join(rng.choices(mostly, k=rng.choice([0, 1, 3, 12, 31, 32, 90]))) for _ in range(rng.randint(1, 6))]
    is_fastq, width, end = draw(st.booleans()), draw(st.integers(1, 40)), draw(st.sampled_from(["\n", "\r\n"]))
    lines = [""] * rng.randint(0, 2)
    for k, letters in enumerate(found):
        cut = [letters[i : i + width] for i in range(0, len(letters), width)]
        lines += [f"{'@' if is_fastq else '>'}read {k} > @ +", *cut, *[""] * rng.randint(0, 1)]
        if is_fastq:
            quality = "".join(rng.choices("@+>!~I5", k=len(letters)))
            width = rng.choice([width, rng.randint(1, 100)])  # qualities may have other lines than letters
            lines += [rng.choice(["+", "+read"]), *[quality[i : i + width] for i in range(0, len(quality), width)]]
            lines += [""] * rng.randint(0, 1)
    text = end.join(lines) + (end if rng.random() < 0.7 or not found[-1] else "")
    return found, text.encode(), is_fastq


@st.composite
def patterns(draw):
    """Options of a source, and the patterns that they mean; the paper's have letters in the places of ones alone."""
    canonical = draw(st.booleans())
    if draw(st.booleans()):
        k = draw(st.lists(st.integers(1, 31), min_size=1, max_size=2, unique=True))
        k += [] if 31 in k else draw(st.lists(st.integers(1, 30).filter(lambda each: each not in k), max_size=1))
        return {"k": k, "canonical": canonical}, ["1" * each for each in k]
    halves = draw(
        st.lists(st.text("01", max_size=12).map(lambda text: "1" + text), min_size=1, max_size=3, unique=True)
    )
    each = [half + half[::-1] if canonical else half + "1" for half in halves]
    each = list(dict.fromkeys(pattern for pattern in each if pattern.count("1") <= 30))
    return {"patterns": each, "canonical": canonical}, each


def check(case, options, expected_patterns, packed, bounds):
    found, text, is_fastq = case
    is_positional = "window" in options
    expected = [kmers_of(row, expected_patterns, options.get("canonical", False), is_positional) for row in found]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"reads.{'fastq' if is_fastq else 'fa'}{packed}"
        path.write_bytes(PACKED[packed](text))
        before, sequences.PIECE_NBYTES = sequences.PIECE_NBYTES, bounds[2]
        try:
            assert counts_of(FastaSource(path, **options), block_rows=bounds[0], block_nnz=bounds[1]) == expected
        finally:
            sequences.PIECE_NBYTES = before


BOUNDS = st.tuples(st.integers(1, 9), st.integers(1, 300), st.sampled_from([1, 10, 100, 2**20]))


@pytest.mark.slow
@given(texts(), patterns(), st.sampled_from([*PACKED]), BOUNDS)
def test_kmers_of_any_file_are_those_of_plain_python(case, options, packed, bounds):
    check(case, *options, packed, bounds)


@pytest.mark.slow
@given(texts(), st.lists(st.integers(1, 9), min_size=1, max_size=3, unique=True), st.integers(90, 5000), BOUNDS)
def test_kmers_of_windows_are_those_of_plain_python(case, k, window, bounds):
    check(case, {"k": k, "window": window}, ["1" * each for each in k], "", bounds)


@given(patterns(), st.integers(0, 2**32))
def test_ids_say_their_names(options, seed):
    """What an id is called is what was counted, of any ids and none that a file has."""
    source_options, expected = options
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "one.fa"
        path.write_text(f">x\n{''.join(rng.choices('ACGT', k=60))}\n")
        source = FastaSource(path, **source_options)
        ids = rows_of(source)["features"]
        named = source.names_of(ids[::-1])
        text, stops = named.text.tobytes().decode(), named.offsets.tolist()
        found = dict(zip(named.ids.tolist(), [text[a:b] for a, b in pairwise(stops)], strict=True))
        assert sorted(found) == sorted(ids.tolist())
        assert {*found.values()} == {*counts_of(source)[0]}
        assert all(len(name) in map(len, expected) for name in found.values())


# damage


def line_of(text, place):
    return text.count(b"\n", 0, place) + 1


def read_slowly(text):
    """Sequences up to the first that is wrong, and the line of what is."""
    begin = len(text) - len(text.lstrip(b" \t\r\n"))
    if begin == len(text):
        return [], None
    if text[begin : begin + 1] == b"@":
        return read_fastq(text, begin)
    if text[begin : begin + 1] != b">":
        return [], line_of(text, begin)
    found = []
    for match in re.finditer(rb"(?:(?<=\n)|^)>[^\n]*((?:.(?<!\n>))*)", text[begin:], re.DOTALL):
        letters, fault = letters_of(match.group(1))
        if fault is not None:
            return found, line_of(text, begin + match.start(1) + fault)
        found.append(letters)
    return found, None


def letters_of(text):
    """The letters of some lines, and the place of what is none."""
    for i, byte in enumerate(text):
        if byte not in BLANKS and byte not in LETTERS:
            return "", i
    return "".join(chr(byte) for byte in text if byte not in BLANKS), None


def read_fastq(text, at):
    found = []
    while True:
        while at < len(text) and text[at] <= 32:
            at += 1
        if at == len(text):
            return found, None
        first, lines = line_of(text, at), text[at:].split(b"\n")
        lines = lines[:-1] if not lines[-1] else lines
        if not lines[0].startswith(b"@"):
            return found, first
        plus = next((k for k, line in enumerate(lines) if k and line.startswith(b"+")), None)
        if plus is None:
            return found, first
        n_letters = sum(byte > 32 for line in lines[1:plus] for byte in line)
        n_qualities, last = 0, plus
        while n_qualities < n_letters and last + 1 < len(lines):
            last += 1
            n_qualities += sum(byte > 32 for byte in lines[last])
        if n_qualities != n_letters:
            return found, first + last
        letters, fault = letters_of(b"\n".join(lines[1:plus]))
        if fault is not None:
            return found, line_of(text, at + len(lines[0]) + 1 + fault)
        found.append(letters)
        at = min(at + sum(map(len, lines[: last + 1])) + last + 1, len(text))


WORDS = [b">", b"@", b"\n", b"+", b"\n>", b"\n@", b"\n+\n", b"\r\n", b"\0", b"!", b"ACGT", b"N", b" ", b"\xff", b"u"]
FASTA = b">one x\nACGTACGTTTGA\nACG\n\n>two\nacgtnACGU\r\nRYKM\n>\n\n>three > 3\nGATTACAGATTACA\n"
FASTQ = (
    b"@one x\nACGTACG\nTT\n+\n@+II!\n~III\n@two\nacgtn\n+two\nIIIII\n\n@\n\n+\n\n@three\r\nGATTACA\r\n+\r\n5555555\n"
)


def fuzz(seed, n_cases, path, monkeypatch):
    """Damage files at random; return how many could be read all the same."""
    rng, n_read = np.random.default_rng(seed), 0
    with rewritten(path) as write:
        for _ in range(n_cases):
            text = damaged(rng, FASTA if rng.random() < 0.5 else FASTQ, WORDS) or b"\n"
            write(text)
            monkeypatch.setattr(sequences, "PIECE_NBYTES", int(rng.choice([1, 7, 30, 1000])))
            expected, line = read_slowly(text)
            try:
                rows = rows_of(FastaSource(path, k=3, tell_names=False), int(rng.integers(1, 5)))
            except SourceError as fault:
                assert fault.remedy, "what to do is said"  # noqa: PT017
                where = re.search(r":(\d+)(, character \d+)?$", fault.where)
                assert (int(where.group(1)) if where else None) == line, text
                assert line is not None or not expected, text
                continue
            n_read += 1
            assert line is None, text
            counts = [kmers_of(letters, ["111"]) for letters in expected]
            assert rows["lengths"].tolist() == list(map(len, counts)), text
            assert rows["data"].tolist() == [row[name] for row in counts for name in sorted(row)], text
    return n_read


@pytest.mark.slow
def test_damaged_sequences_are_read_right_or_refused_at_their_line(tmp_path, monkeypatch):
    assert 200 < fuzz(0, 1000, tmp_path / "reads.fa", monkeypatch) < 900


@pytest.mark.nightly
def test_much_damaged_sequences_are_read_right_or_refused_at_their_line(tmp_path, monkeypatch):
    fuzz(1, 20_000, tmp_path / "reads.fa", monkeypatch)


@pytest.mark.parametrize("packed", [".gz", ".bz2", ".xz", ".zst"])
def test_damaged_archives_of_sequences_are_refused(tmp_path, packed):
    whole = PACKED[packed](FASTA * 40)
    for content in (whole[: len(whole) // 2], b"junk" + whole):
        path = tmp_path / f"reads.fa{packed}"
        path.write_bytes(content)
        with pytest.raises(SourceError) as fault:
            rows_of(FastaSource(path, k=3))
        assert fault.value.remedy
