"""Texts of sparse sources, damaged from a seed, read by our kernels and by slow readers in plain Python.

Kernels are handed text whose readable margin ends where a page begins that nobody may read, in a process of limited
memory. Texts are plain or packed (members of their own, some damaged), in one file or two, read as a whole, in parts or
through a pipe, in pieces and blocks of any size. `campaign` gives one row for each case:

    read        the rows are those of the slow reader, bit for bit
    refused     both refuse it, at the same line of the same file; or the packed data are damaged, and that is said
    differs     anything else
    traceback   an exception that is no error of daskfs
    hung        nothing within `PATIENCE_S`
    died        the process did

    >>> rows = campaign("vw", seed=0, n=1000)     # doctest: +SKIP
"""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tests.faults.fuzz import MEMORY_NBYTES, PATIENCE_S, START_S, Hung
from tests.faults.text_fuzz import Guarded
from tests.sources.sparse import slow_readers
from tests.sources.sparse.slow_readers import Row

GOOD = ("read", "refused")
ANYWHERE = -1
"""A fault whose line is not known: of what is packed, or of the whole."""

NUMBERS = [
    *("1", "-1", "+1", "0", "-0.0", ".5", "5.", "1e5", "1E-3", "1e+02", "0.1", "1e-40", "1e-400", "1e999", "-1e999"),
    *("3.4028235e38", "3.4028236e38", "1e39", "4.9e-324", "2.2250738585072011e-308", "1.7976931348623159e308"),
    *("9007199254740993", "123456789012345678901234567890", "0" * 40 + "7.5", "1" + "0" * 300, "0." + "0" * 300 + "1"),
    *("nan", "NaN", "inf", "-inf", "Infinity", "0x1p3", "0x10", "1_0", "1,5", "1e", "e1", "-", "+", ".", "--1", "1d3"),
    *("2147483648", "4294967296", "9223372036854775807", "9223372036854775808", "18446744073709551615", "1e1000000"),
]
TEXTS = [
    *(
        b"\0",
        b"\t",
        b"\r",
        b"\r\n",
        b"\n",
        b"\n\n",
        b" ",
        b"  ",
        b"\v",
        b"\f",
        b"#",
        b"|",
        b":",
        b",",
        b"'",
        b'"',
        b"^",
    ),
    *("größe".encode(), "青い空".encode(), "𝄞".encode(), "\u2028".encode(), "\u00a0".encode(), "\u202e".encode()),
    *(b"\xff", b"\xc3", b"\xe2\x82", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xc0\x80", b"\xef\xbb\xbf", b"\xff\xfe"),
    *(
        b"\x1a",
        b"\x7f",
        b"\x80",
        b"=",
        b"{",
        b"}",
        b"[",
        b"\\",
        b"\\u0000",
        b"\\ud800",
        b"null",
        b"1 1:1\n",
        b"1 |a b\n",
    ),
]


class Format(NamedTuple):
    """A format of lines, and how to read it."""

    ending: str
    line: Callable[[random.Random], str]
    """Draws one."""
    words: Sequence[bytes]
    """What is put in, beside `TEXTS`."""
    source: Callable[[random.Random, list[Path]], tuple[Any, Callable[..., Any]]]
    """Draws options; returns a source of files, and what reads a line of them slowly."""
    head: bytes = b""
    """The first line of a file."""


class Outcome(NamedTuple):
    """What became of a case."""

    number: int
    verdict: str
    text: str


def number(rng: random.Random) -> str:
    """Return a number as somebody may write it."""
    draw = rng.random()
    if draw < 0.002:
        return rng.choice(NUMBERS)
    if draw < 0.4:
        return str(rng.randrange(-9, 99))
    return rng.choice([f"{rng.gauss(0, 1):.4g}", repr(rng.gauss(0, 9)), f"{rng.gauss(0, 1):.{rng.randrange(25)}e}"])


def name(rng: random.Random) -> str:
    """Return the name of a feature."""
    return rng.choice(["a", "b", "price", "größe", "x" * rng.choice([7, 8, 9, 31, 32, 300]), f"w{rng.randrange(20)}"])


# ---- the formats


def svmlight_line(rng: random.Random) -> str:
    """Return a line of the format of LIBSVM."""
    largest = rng.choice([*[9] * 9, 50, 2**31, 2**63])
    indices = sorted({rng.randint(rng.random() < 0.9, largest) for _ in range(rng.choice([0, 1, 3, 12, 40]))})
    qid = f"qid:{rng.randrange(9)} " if rng.random() < 0.2 else ""
    entries = rng.choice([" ", " ", "\t", "  "]).join(f"{index}:{number(rng)}" for index in indices)
    return f"{number(rng)} {qid}{entries}{rng.choice(['', '', ' ', ' # a 1:1', chr(13)])}"


def of_svmlight(rng: random.Random, files: list[Path]) -> tuple[Any, Callable[..., Any]]:
    """Draw how the lines are to be understood."""
    from daskfs.sources.sparse.libsvm import LibsvmSource

    options: dict[str, Any] = {"sort": rng.random() < 0.3}
    options["several_labels"] = rng.choice(["error", "error", "first"])
    read = partial(slow_readers.svmlight_row, sorts=options["sort"], takes_first=options["several_labels"] == "first")
    match rng.randrange(4):
        case 0:
            options["feature_ids"] = True
        case 1:
            options |= {"zero_based": rng.random() < 0.5, "n_features": rng.choice([10, 51, 2**31])}
            first = int(not options["zero_based"])
            read = partial(read, first=first, largest=options["n_features"] - 1 + first)
        case 2:
            options["zero_based"] = True
            read = partial(read, first=0)
    return LibsvmSource(files, **options), read


def vowpal_line(rng: random.Random) -> str:
    """Return a line of Vowpal Wabbit's text."""
    spaces = []
    for _ in range(rng.choice([0, 1, 1, 2, 5])):
        scale = f":{number(rng)}" if rng.random() < 0.2 else ""
        space = rng.choice(["", name(rng), name(rng) + scale])
        values = [
            name(rng) + (f":{number(rng)}" if rng.random() < 0.6 else "") for _ in range(rng.choice([0, 1, 4, 30]))
        ]
        spaces.append(" ".join([f"|{space}", *values]))
    head = number(rng)
    if rng.random() < 0.3:
        head += f" {abs(rng.gauss(1, 1)):.3g}" + (" 0.5" if rng.random() < 0.05 else "")
    tag = rng.choice(["", "", "'tag", "tag", "'größe"])
    return f"{head} {tag}{rng.choice(['', ' ' if tag[:1] != 't' else ''])}{' '.join(spaces) or '|'}"


def of_vowpal(rng: random.Random, files: list[Path]) -> tuple[Any, Callable[..., Any]]:
    """Draw how the lines are to be understood."""
    from daskfs.sources.sparse.vw import VwSource

    unlabelled, weights = rng.choice(["error", "drop"]), rng.choice(["use", "ignore"])
    base = rng.choice(["error", "error", "ignore"])
    read = partial(
        slow_readers.vowpal_row, drops_unlabelled=unlabelled == "drop", weights=weights, ignores_base=base == "ignore"
    )
    return VwSource(files, unlabelled=unlabelled, weights=weights, base=base), read


COLUMNS = {"click": "target", "n1": "count", "n2": "count", "site": "string", "other": "skipped", "ad": "string"}


def clicks_line(rng: random.Random) -> str:
    """Return a line of a click log."""
    counts = [rng.choice(["", number(rng), str(rng.randrange(10**6)), f" {rng.randrange(9)} "]) for _ in range(2)]
    values = [rng.choice("01"), *counts, *(rng.choice(["", name(rng), "a b", '"q"']) for _ in range(3))]
    return "\t".join(values) + ("\r" if rng.random() < 0.1 else "")


def of_clicks(rng: random.Random, files: list[Path]) -> tuple[Any, Callable[..., Any]]:
    """Draw how the lines are to be understood."""
    from daskfs.sources.log_bins import bins
    from daskfs.sources.sparse.clicks import ClicksSource

    edges, texts = bins()
    has_token, drops = rng.random() < 0.3, rng.random() < 0.5
    source = ClicksSource(
        files, "click", list(COLUMNS), ["n1", "n2"], ["site", "ad"], missing="token" if has_token else "none",
        unlabelled="drop" if drops else "error",
    )  # fmt: skip
    bin_of = lambda value: texts[np.searchsorted(edges, value, side="right")]  # noqa: E731
    return source, partial(
        slow_readers.clicks_row, columns=COLUMNS, bin_of=bin_of, has_token=has_token, drops_unlabelled=drops
    )


def json_line(rng: random.Random) -> str:
    """Return an object of JSON with a text, a title and a label."""
    words = [
        "the",
        "quick",
        "größe",
        "青い空",
        "a",
        "x" * rng.choice([9, 300]),
        "\n",
        '"',
        "\ud800",
        "𝄞",
        "\x00",
        "don't",
    ]
    text = " ".join(rng.choice(words) for _ in range(rng.choice([0, 1, 5, 60])))
    row: dict[str, Any] = {"text": text, "title": rng.choice(words), "y": rng.choice([0, 1, 2.5, "3", True])}
    return json.dumps(row, ensure_ascii="\ud800" in text + row["title"] or rng.random() < 0.5)


def of_json(rng: random.Random, files: list[Path]) -> tuple[Any, Callable[..., Any]]:
    """Draw what is read of the objects."""
    from sklearn.feature_extraction.text import CountVectorizer

    from daskfs.sources.sparse.text import TextSource

    fields, target = rng.choice([["text"], ["title", "text"]]), rng.choice([None, "y"])
    analysis: dict[str, Any] = rng.choice(
        [{}, {"ngram_range": (1, 2)}, {"analyzer": "char", "ngram_range": (2, 3)}, {"token_pattern": r"\S+"}]
    )
    analyze = CountVectorizer(**analysis).build_analyzer()
    return TextSource(files, fields, target, **analysis), partial(
        slow_readers.json_row, fields=fields, target=target, analyze=analyze
    )


FORMATS = {
    "libsvm": Format(".svm", svmlight_line, [b"qid:", b"qid:1 ", b"1:1 ", b"0:", b"0:1 ", b"1,3", b"5:5 ",
        b"99999999999999999999:1", b"00000000000000000000001:"], of_svmlight),
    "vw": Format(".vw", vowpal_line, [b"|a:2 ", b"| ", b" |f ", b"1 2 3 ", b"'", b":1 ", b"a:1e38 "], of_vowpal),
    "clicks": Format(".tsv", clicks_line, [b"\t\t", b"\t\t\t\t\t", b"\t1"], of_clicks),
    "text": Format(".jsonl", json_line, [b'"y":', b'"text"', b'"text": "a",', b"NaN", b"1e999", b"\\uDC00"], of_json),
}  # fmt: skip


# ---- damage


def damaged(rng: random.Random, text: bytes, words: Sequence[bytes]) -> bytes:
    """Return a text with bits flipped, bytes left out, doubled or put in."""
    found = bytearray(text)
    for _ in range(rng.choice([1, 1, 2, 5])):
        at = rng.randrange(len(found) + 1)
        match rng.randrange(9):
            case 0 if at < len(found):
                found[at] ^= 1 << rng.randrange(8)
            case 1:
                del found[at : at + rng.choice([1, 2, 10, 100])]
            case 2:
                found[at:at] = found[at : at + rng.choice([1, 10, 60])]
            case 3:
                found[at : at + rng.randrange(2)] = rng.choice(TEXTS)
            case 4:
                found[at : at + rng.randrange(3)] = rng.choice(NUMBERS).encode()
            case 5:
                found[at:at] = rng.choice(words)
            case 6 if rng.random() < 0.3:
                del found[at:]
            case 7 if rng.random() < 0.1:
                found[at:at] = rng.choice([b"1", b"x", b" ", b":1 ", "青".encode(), b"\t", b"|"]) * rng.choice(
                    [99, 70_000]
                )
            case _:
                found[at : at + 1] = rng.randbytes(rng.randrange(4))
    return bytes(found)


def packed_zstd(text: bytes) -> bytes:
    """Return a frame of zstd."""
    import pyarrow

    found: bytes = pyarrow.compress(text, "zstd", asbytes=True)
    return found


def unpacked_zstd(data: bytes) -> bytes:
    """Return what frames of zstd hold."""
    import pyarrow

    stream, found, room = pyarrow.CompressedInputStream(io.BytesIO(data), "zstd"), [], bytearray(2**16)
    while n_read := stream.readinto(room):  # read() would keep what it has read where it fails
        found.append(bytes(room[:n_read]))
    return b"".join(found)


PACKERS: dict[str, tuple[Callable[[bytes], bytes], Callable[[bytes], bytes]]] = {
    ".gz": (partial(gzip.compress, compresslevel=1), gzip.decompress),
    ".bz2": (bz2.compress, bz2.decompress),
    ".xz": (partial(lzma.compress, preset=0), lzma.decompress),
    ".zst": (packed_zstd, unpacked_zstd),
}


def packed(rng: random.Random, text: bytes, ending: str) -> tuple[bytes, bytes | None, bool]:
    """Return a text in members, packed and maybe damaged, what others unpack, if anything, and whether to doubt it."""
    pack, unpack = PACKERS[ending]
    cut = rng.randrange(len(text) + 1)
    data = b"".join(map(pack, (text,) if rng.random() < 0.5 else (text[:cut], text[cut:])))
    if rng.random() < 0.6:
        return data, text, False
    found = bytearray(data)
    at = rng.randrange(len(found))
    match rng.randrange(4):
        case 0:
            found[at] ^= 1 << rng.randrange(8)
        case 1:
            del found[at:]
        case 2:
            found += b"x" + rng.randbytes(rng.choice([0, 40]))
        case _:
            found[at:at] = b"x" * rng.choice([1, 3])
    try:
        return bytes(found), unpack(bytes(found)), True
    except Exception:
        return bytes(found), None, True


# ---- judging


class Case(NamedTuple):
    """Files, their texts (None: packed data that are damaged), and how they are read."""

    files: list[Path]
    texts: list[bytes | None]
    is_doubtful: bool
    """What Python takes for the end of bzip2 and xz, damage behind a member, is damage to us."""
    source: Any
    read_line: Callable[..., Any]


class Expected(NamedTuple):
    """Rows, or places of which one is to be named: file and line."""

    rows: list[Row]
    faults: set[tuple[Path, int]]
    may_be_refused: bool
    """As a whole, without a line: no rows, or damage that the reader before us may have read over."""


def expected_of(kind: str, case: Case) -> Expected:
    """Return what the slow reader makes of the files."""
    rows: list[Row] = []
    read, may_be_refused = case.read_line, case.is_doubtful
    for file, text in zip(case.files, case.texts, strict=True):
        if text is None:
            return Expected(rows, {(file, ANYWHERE)}, True)
        if text[:2] in (b"\xff\xfe", b"\xfe\xff"):
            return Expected(rows, {(file, 1)}, True)
        found, line = slow_readers.rows_of(text, read)
        if line is not None:
            _, later = slow_readers.rows_of(text, case.read_line)  # a look beforehand knows nothing of query ids
            return Expected(rows, {(file, line), (file, later or line)}, may_be_refused or not rows)
        if kind == "libsvm" and found and not rows and not any(row.label for row in found):
            read = partial(read, has_qid=False)
        rows += found
    if kind == "text" and case.source.target_names:
        return labelled(rows, case)
    return Expected(rows, set(), may_be_refused or not rows)


def labelled(rows: list[Row], case: Case) -> Expected:
    """Return rows whose labels are numbers or classes, as all of them say."""
    labels: list[Any] = [row.label for row in rows]
    present = [label for label in labels if label is not None and label != ""]
    if any(isinstance(label, str) and not is_number(label) for label in present):
        classes = {text: code for code, text in enumerate(sorted({str(label) for label in present}))}
        codes = [None if label is None or label == "" else float(classes[str(label)]) for label in labels]
    else:
        codes = [float(label) if label not in (None, "") and is_number(label) else None for label in labels]
    if None in codes:
        return Expected(rows, {(file, ANYWHERE) for file in case.files}, True)
    rows = [row._replace(y=y, label="") for row, y in zip(rows, codes, strict=True)]
    return Expected(rows, set(), case.is_doubtful or not rows)


def is_number(label: Any) -> bool:
    """Return whether it is one, and finite."""
    try:
        return bool(np.isfinite(float(label)))
    except (ValueError, OverflowError):
        return False


def case_of(rng: random.Random, kind: str, folder: Path) -> Case:
    """Write the files of a case."""
    form = FORMATS[kind]
    files, texts, is_doubtful = [], [], False
    ending = rng.choice(["", "", "", *PACKERS])
    for k in range(rng.choice([1, 1, 2])):
        lines = [form.line(rng) for _ in range(rng.choice([1, 3, 20]))]
        text = "\n".join(lines).encode() + rng.choice([b"\n", b"\n", b"", b"\r\n"])
        content: bytes = damaged(rng, text, form.words) if rng.random() < 0.5 else text
        found: bytes | None = content
        if ending:
            content, found, is_damaged = packed(rng, content, ending)
            is_doubtful |= is_damaged
        files.append(folder / f"rows{k}{form.ending}{ending}")
        files[-1].write_bytes(content or b"\n")
        texts.append(found if content else None if ending else b"\n")
    source, read = form.source(rng, files)
    return Case(files, texts, is_doubtful, source, read)


def rows_read(kind: str, case: Case, rng: random.Random) -> list[Row]:
    """Return the rows of a source, by names or indices, checked to be blocks of the sizes that were asked for."""
    bounds = rng.choice([1, 2, 5, 1000]), rng.choice([1, 7, 50, 10**6])
    source, rows = case.source, []
    if rng.random() < 0.3:
        parts = source.parts()
        blocks = [block for part in parts for block in source.sparse_part_blocks(part, *bounds)]
        source.conclude([source.part_facts()], sum(block.n_rows for block in blocks))
    else:
        blocks = list(source.sparse_blocks(*bounds))
    for block in blocks:
        assert block.n_rows <= bounds[0]
        assert len(block.features) <= bounds[1] or block.n_rows == 1
        data = np.ones(len(block.features), np.float32) if block.data is None else block.data
        labels = next(iter(block.labels.values()), [""] * block.n_rows)
        keys: Any = block.features.tolist()
        if block.names is not None:
            names, offsets = block.names.text.tobytes(), block.names.offsets.tolist()
            texts = [names[a:b].decode() for a, b in pairwise(offsets)]
            told = dict(zip(block.names.ids.tolist(), texts, strict=True))
            keys = [told[key] for key in keys]
        for i in range(block.n_rows):
            span = slice(block.indptr[i], block.indptr[i + 1])
            assert (np.diff(block.features[span].astype(object)) > 0).all(), "features ascend"
            weight = 1.0 if block.weight is None else float(block.weight[i])
            y = None if block.y is None else float(block.y[i])
            rows.append(Row(y, weight, str(labels[i]), dict(zip(keys[span], data[span], strict=True))))
    return rows


def judge(kind: str, seed: int, number_: int, folder: Path) -> Outcome:
    """Run one case in this process."""
    from daskfs.errors import DaskfsError
    from daskfs.sources.sparse import line_source, lines, named_lines, text

    rng = random.Random(f"{kind}-{seed}-{number_}")
    lines.PIECE_NBYTES = rng.choice([1, 10, 100, 2**16])
    lines.FIRST_ROWS = lines.FIRST_ENTRIES = named_lines.FIRST_NAMES = rng.choice([1, 20, 1000])
    most = rng.choice([1, 100, 2**20])
    line_source.part_nbytes = text.part_nbytes = lambda nbytes: most  # type: ignore[attr-defined]
    verdict, shown, case, expected = "read", "", None, None
    signal.alarm(PATIENCE_S)
    try:
        case = case_of(rng, kind, folder)
        expected = expected_of(kind, case)
        try:
            rows = rows_read(kind, case, rng)
        except DaskfsError as fault:
            verdict, shown = "refused", str(fault)
            if (difference := refusal_differs(fault, case, expected)) is not None:
                verdict, shown = "differs", f"{difference}: {fault}"
        else:
            if (difference := rows_differ(kind, rows, case, expected)) is not None:
                verdict, shown = "differs", difference
    except Hung:
        verdict = "hung"
    except BaseException:
        verdict, shown = "traceback", traceback.format_exc()[-3000:]
    finally:
        signal.alarm(0)
    if verdict not in GOOD and case is not None:
        shown += f" | {[text and text[:1500] for text in case.texts]}"
    return Outcome(number_, verdict, shown[:6000])


def refusal_differs(fault: Any, case: Case, expected: Expected) -> str | None:
    """Return what is wrong with an error."""
    where = re.fullmatch(r"(.*?)(?::(\d+)(?:, character (\d+))?)?", fault.where)
    assert where is not None
    if not fault.remedy or "\n" in str(fault) or Path(where[1]) not in case.files:
        return "no file, no remedy, or more than a line"
    if where[2] is None:
        return None if expected.may_be_refused else f"refused as a whole, expected {expected.faults}"
    place = Path(where[1]), int(where[2])
    is_named = place in expected.faults or (place[0], ANYWHERE) in expected.faults or case.is_doubtful
    is_earlier = "target" in fault.problem and any(place <= other or other[1] == ANYWHERE for other in expected.faults)
    if not is_named and not is_earlier:  # of JSON a target is looked at once the next rows are read
        return f"expected {expected.faults}"
    text = case.texts[case.files.index(place[0])]
    if where[3] is not None and text is not None and not case.is_doubtful:
        line = text.removeprefix(b"\xef\xbb\xbf").split(b"\n")[place[1] - 1]
        if not 1 <= int(where[3]) <= len(line) + 1:
            return f"character {where[3]} of {len(line)}"
    return None


def rows_differ(kind: str, rows: list[Row], case: Case, expected: Expected) -> str | None:
    """Return how the rows differ from those of the slow reader."""
    if expected.faults or not expected.rows:
        return f"read {len(rows)} rows, expected a fault at {expected.faults}"
    if len(rows) != len(expected.rows):
        return f"{len(rows)} rows, expected {len(expected.rows)}"
    wanted = expected.rows
    if kind == "libsvm" and case.source._feature_ids == "auto" and case.source._zero_based == "auto":
        indices = [index for row in wanted for index in row.entries]
        if 0 not in indices and max(indices, default=0) < 2**31 and case.source._n_features is None:
            wanted = [row._replace(entries={index - 1: v for index, v in row.entries.items()}) for row in wanted]
    is_long = any(re.search(rb"[\d.]{20}", text or b"") for text in case.texts)
    has_labels = any(row.label for row in rows)
    for k, (row, other) in enumerate(zip(rows, wanted, strict=True)):
        entries = {(key if isinstance(key, int) else joined(kind, *key)): v for key, v in other.entries.items()}
        is_same = row.weight == other.weight and (row.label == other.label or not has_labels)
        y, data, wanted_data = row.y, list(row.entries.values()), [entries.get(key) for key in row.entries]
        if is_long:  # of more than 19 digits the first 19 count
            is_same &= bool(y == other.y or np.isclose(y, other.y, 1e-15, 1e-322))  # type: ignore[arg-type]
            is_same &= row.entries.keys() == entries.keys()
            is_same = is_same and np.allclose(data, np.array(wanted_data, np.float32), 3e-7, 1e-44)
        else:
            is_same &= y == other.y and row.entries == entries
        if not is_same:
            return f"row {k}: {row} expected {other}"
    return None


def joined(kind: str, of: str, feature: str) -> str:
    """Return a feature's name as it is told."""
    return f"{of}{'=' if kind == 'clicks' else '^'}{feature}" if of else feature


# ---- the process


def guard_kernels() -> None:
    """Hand the kernels text behind whose margin nothing can be read."""
    from daskfs.kernels.text import clicks, hashes, svmlight, vowpal
    from daskfs.kernels.text.words import MARGIN

    guarded = Guarded(1 << 24)

    def of_piece(kernel: Any) -> Any:
        kernel.for_numba  # noqa: B018 (with the kernels that it calls, before these are replaced)

        def read(text: np.ndarray, start: int, stop: int, *more: Any) -> Any:
            return kernel(guarded.text(text, stop), start, stop, *more)

        return read

    def of_texts(kernel: Any) -> Any:
        kernel.for_numba  # noqa: B018

        def hashed(text: np.ndarray, *more: Any) -> Any:
            return kernel(guarded.text(text, len(text) - MARGIN), *more)

        return hashed

    for module in (svmlight, vowpal, clicks):
        module.read_rows = of_piece(module.read_rows)
    svmlight.survey = of_piece(svmlight.survey)
    hashes.hash_between, hashes.hash_texts = of_texts(hashes.hash_between), of_texts(hashes.hash_texts)


def campaign(kind: str, seed: int = 0, n: int = 1000) -> list[Outcome]:
    """Run so many cases, in a process of limited memory, and return what became of each."""
    root = str(Path(__file__).parents[2])
    paths = os.pathsep.join(path for path in (root, os.environ.get("PYTHONPATH", "")) if path)
    done = subprocess.run(
        [sys.executable, "-m", "tests.faults.sparse_fuzz", kind, str(seed), str(n)],
        cwd=root,
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        timeout=START_S + PATIENCE_S * n / 10,
        check=False,
    )
    outcomes = [Outcome(*json.loads(line)) for line in done.stdout.splitlines() if line.startswith("[")]
    if len(outcomes) < n:
        outcomes.append(Outcome(len(outcomes), "died", f"{done.returncode}: {done.stderr[-3000:]}"))
    return outcomes


def _main(kind: str, seed: int, n: int) -> None:
    warnings.simplefilter("ignore")
    guard_kernels()
    shared = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="daskfs-sparse-", dir=shared) as folder:
        for number_ in range(-20, 0):
            judge(kind, seed, number_, Path(folder))  # all that is imported when first called
        in_use = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        _, most = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (in_use + MEMORY_NBYTES, most))

        def time_is_up(*_: Any) -> None:
            raise Hung

        signal.signal(signal.SIGALRM, time_is_up)
        for number_ in range(n):
            print(json.dumps(judge(kind, seed, number_, Path(folder))), flush=True)
            for path in Path(folder).iterdir():
                path.unlink() if path.is_file() else shutil.rmtree(path)


if __name__ == "__main__":
    _main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
