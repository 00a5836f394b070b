"""Text tables of odd bytes, read by Arrow alone and by our own kernel before it: the same values, or the same refusal.

The kernel is handed text whose readable margin ends where a page begins that nobody may read, in a process of limited
memory; `campaign` gives one row for each case:

    same        both read the same batches, the same bits
    refused     both refuse it, with an error of daskfs of the same kind
    differs     anything else
    traceback   an exception that is no error of daskfs
    hung        nothing within `PATIENCE_S`
    died        the process did

    >>> rows = campaign(seed=0, n=1000)     # doctest: +SKIP
"""

from __future__ import annotations

import ctypes
import json
import mmap
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from daskfs.sources import csv, csv_records
from tests.faults.fuzz import MEMORY_NBYTES, PATIENCE_S, START_S, Hung, changed_bytes

GOOD = ("same", "refused")
PLAIN = {"delimiter": ",", "quote": '"', "decimal": "."}
NUMBERS: list[Callable[[random.Random], str]] = [
    lambda rng: f"{rng.gauss(0, 1):.{rng.randrange(9)}f}",
    lambda rng: str(rng.randrange(-(10**6), 10**6)),
    lambda rng: repr(rng.gauss(0, 1) * 10.0 ** rng.randrange(-320, 309)),
    lambda rng: f"{rng.gauss(0, 1):.{rng.randrange(30)}e}",
    lambda rng: rng.choice(["", "NA", "nan", "-0", ".5", "5.", "-.5e3", "0" * 40 + "1", "1" * 300, "1e+0005", "  7\t"]),
]
NO_NUMBERS = [
    "+1",
    "1e",
    "e1",
    "-",
    ".",
    "inf",
    "0x1p3",
    "1e400",
    "-1e-400",
    "1_0",
    "٣",
    "1,5",
    "1" * 400,
    "- 1",
    "1 2",
]
TEXTS: list[Callable[[random.Random], bytes]] = [
    lambda rng: rng.choice([b"u", b"v", b"w", b"", b"NA", b"nan", b" x ", b"'", b"a'b"]),
    lambda rng: "größe青𝄞"[: rng.randrange(8)].encode(),
    lambda rng: bytes(rng.choice(b"a\0\x7f\t ;|'") for _ in range(rng.randrange(6))),
    lambda rng: b"long " * rng.choice([1, 30, 900]),
]
NO_TEXTS = [b"\xff", b"\xc3", b"\xe9\x9d", b"\xed\xa0\x80", b"\xf8", b"\xc0\x80"]
WITHIN = [b'""', b",", b";", b"\n", b"\r\n", b"\r", b'"', b"''", b"\n\n"]


class Outcome(NamedTuple):
    """What became of a case."""

    number: int
    verdict: str
    n_read: int
    """Rows that our kernel read."""
    text: str


def table(rng: random.Random, layout: dict[str, str]) -> bytes:
    """Return a table of numbers and texts in a layout, some of it quoted or broken."""
    delimiter, quote = layout["delimiter"].encode(), layout["quote"].encode()
    end = rng.choice([b"\n", b"\n", b"\r\n"])
    lines = [delimiter.join([b"a", b"b", b"c", b"y"])]
    share = rng.choice([0.0, 0.01, 0.1, 0.3])  # of what is odd
    for k in range(rng.choice([1, 3, 40, 300])):
        values = []
        for is_text in (False, True, False, False):
            makers: Any = TEXTS if is_text else NUMBERS
            made = (rng.choice(makers) if rng.random() < share else makers[0])(rng)
            value = made if is_text else made.replace(".", layout["decimal"]).encode()
            if quote and rng.random() < max(share, 0.1 * is_text):
                inner = value + (rng.choice(WITHIN) if is_text and rng.random() < 0.5 else b"")
                value = quote + inner + (quote if rng.random() < 0.999 else b"")
            if rng.random() < share / 40:
                value = rng.choice(NO_TEXTS) if is_text else rng.choice(NO_NUMBERS).encode()
            values.append(value)
        if rng.random() >= share:
            values[3] = str(k % 7).encode()
        if rng.random() < share / 100:
            values = values[:-1] if rng.random() < 0.5 else [*values, b"9"]
        lines.append(delimiter.join(values))
        if rng.random() < share / 4:
            lines.append(b"")
    head = len(lines[0] + end)
    text = end.join(lines) + rng.choice([end, end, b"", b"\n\n", b"\r"])
    if rng.random() < 0.1:
        text = text[:head] + text[head:].replace(end, b"\r")
    return changed_bytes(rng, text) if rng.random() < 0.1 else text[:head] + maybe_changed(rng, text[head:])


def maybe_changed(rng: random.Random, rows: bytes) -> bytes:
    """Return rows of which some bytes are changed, mostly."""
    return changed_bytes(rng, rows) if rng.random() < 0.3 else rows


def layout_of(rng: random.Random) -> dict[str, str]:
    """Return delimiter, quote and decimal sign."""
    layout = dict(PLAIN)
    if rng.random() < 0.3:
        layout["delimiter"] = rng.choice([";", "\t", "|", " ", ":", "'"])
        layout["decimal"] = rng.choice([".", ","])
    if rng.random() < 0.2:
        layout["quote"] = rng.choice(["", "'", "|", "`"])
    if rng.random() < 0.04:
        layout[rng.choice(["delimiter", "quote"])] = rng.choice(["1", "e", "-", "+", "\n", "\r", "\0", "é", ".", "N"])
    return layout


class Guarded:
    """Copies text so that what lies behind its margin cannot be read."""

    def __init__(self, nbytes: int = 1 << 20) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        self._size, page = nbytes, mmap.PAGESIZE
        self._memory = mmap.mmap(-1, self._size + page)
        address = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))
        if libc.mprotect(ctypes.c_void_p(address + self._size), page, 0):
            raise OSError(ctypes.get_errno(), "mprotect")

    def text(self, text: np.ndarray, stop: int) -> np.ndarray:
        """Return the first `stop` bytes with the margin behind them."""
        n_bytes = stop + csv_records._MARGIN
        found = np.frombuffer(self._memory, np.uint8, n_bytes, self._size - n_bytes)
        found[:stop] = text[:stop]
        found[stop:] = 0x31  # a digit: what reads on does not end
        return found


class GuardedReader(csv_records.RecordReader):
    """Reads text where nothing lies behind it."""

    n_read = 0
    guarded: Guarded

    def _read(self, stop: int, is_last: bool) -> Any:
        whole = self._text
        self._text = self.guarded.text(whole, stop)
        try:
            found = super()._read(stop, is_last)
        finally:
            self._text = whole
        GuardedReader.n_read += 0 if found is None else found[0].num_rows
        return found


def judge(seed: int, number: int, folder: Path) -> Outcome:
    """Run one case in this process."""
    from daskfs.errors import DaskfsError

    rng = random.Random(f"text-{seed}-{number}")
    layout = layout_of(rng)
    path = folder / "table.csv"
    path.write_bytes(table(rng, layout))
    csv.MIN_BLOCK_NBYTES = rng.choice([64, 256, 4096, 2**20])
    filled = {"missing": "zero"}
    kinds = {"a": filled, "b": {"dtype": "string"}, "c": rng.choice([filled, {"role": "ignore"}, {"role": "id"}])}
    options: dict[str, Any] = {"schema": {"columns": {**kinds, "y": {"role": "target"}}}}
    if rng.random() < 0.2:
        options = {"target": "y"}
    GuardedReader.n_read = 0
    signal.alarm(PATIENCE_S)
    found: list[Any] = []
    try:
        for least in (2**60, 0):
            csv_records.WORTH_COMPILING_NBYTES = least
            try:
                source = csv.CsvSource(path, **options, **layout)
                batches = [batch.table for batch in source.batches(source.columns)]
                found.append([shown(batch) for batch in batches if batch.num_rows])
            except DaskfsError as fault:
                found.append(f"{type(fault).__name__}: {fault}")
    except Hung:
        return Outcome(number, "hung", GuardedReader.n_read, "")
    except BaseException:
        return Outcome(number, "traceback", GuardedReader.n_read, traceback.format_exc()[-4000:])
    finally:
        signal.alarm(0)
    verdict, text = "same", ""
    if found[0] != found[1]:
        verdict, text = "differs", f"{layout} {options}: {difference(*found)}"
    elif isinstance(found[0], str):
        verdict, text = "refused", found[0]
    return Outcome(number, verdict, GuardedReader.n_read, text[:4000])


def shown(batch: Any) -> list[Any]:
    """Return a batch as what can be compared: the bits of numbers, texts and what is missing.

    Of a line end of two within a value, which the end of a block cuts in two, Arrow loses the second.
    """
    columns: list[Any] = [batch.num_rows, batch.schema.names]
    for values in batch.columns:
        decoded = values.dictionary_decode() if hasattr(values, "dictionary") else values
        if str(decoded.type) == "double":
            numbers = np.where(decoded.is_null().to_numpy(False), 0.0, decoded.to_numpy(zero_copy_only=False))
            columns.append((decoded.is_null().to_pylist(), numbers.view(np.int64).tolist()))
        else:
            texts = [text and text.replace("\r\n", "\r") for text in decoded.to_pylist()]
            columns.append((str(decoded.type), texts))
    return columns


def difference(by_arrow: Any, by_both: Any) -> str:
    """Return what differs, in short."""
    if isinstance(by_arrow, str) or isinstance(by_both, str):
        short = [
            one if isinstance(one, str) else f"{sum(batch[0] for batch in one)} rows" for one in (by_arrow, by_both)
        ]
        return f"Arrow alone: {short[0]} | both: {short[1]}"
    rows = [[batch[0] for batch in one] for one in (by_arrow, by_both)]
    if rows[0] != rows[1]:
        return f"rows of batches {rows}"
    pairs = [(k, pair) for k, pair in enumerate(zip(by_arrow, by_both, strict=True)) if pair[0] != pair[1]]
    return f"batch {pairs[0][0]}: {str(pairs[0][1][0])[:800]} | {str(pairs[0][1][1])[:800]}"


def campaign(seed: int = 0, n: int = 1000) -> list[Outcome]:
    """Run so many cases, in a process of limited memory, and return what became of each."""
    root = str(Path(__file__).parents[2])
    paths = os.pathsep.join(path for path in (root, os.environ.get("PYTHONPATH", "")) if path)
    done = subprocess.run(
        [sys.executable, "-m", "tests.faults.text_fuzz", str(seed), str(n)],
        cwd=root,
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        timeout=START_S + PATIENCE_S * n / 10,
        check=False,
    )
    outcomes = [Outcome(*json.loads(line)) for line in done.stdout.splitlines() if line.startswith("[")]
    if len(outcomes) < n:
        outcomes.append(Outcome(len(outcomes), "died", 0, f"{done.returncode}: {done.stderr[-3000:]}"))
    return outcomes


def _main(seed: int, n: int) -> None:
    csv.RecordReader = csv_records.RecordReader = GuardedReader  # type: ignore[misc, attr-defined]
    GuardedReader.guarded = Guarded()
    with tempfile.TemporaryDirectory(prefix="daskfs-text-") as folder:
        judge(seed, -1, Path(folder))  # all that is imported when first called
        in_use = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        _, most = resource.getrlimit(resource.RLIMIT_AS)  # less where the campaign itself is limited
        resource.setrlimit(resource.RLIMIT_AS, (in_use + MEMORY_NBYTES, most))

        def time_is_up(*_: Any) -> None:
            raise Hung

        signal.signal(signal.SIGALRM, time_is_up)
        for number in range(n):
            print(json.dumps(judge(seed, number, Path(folder))), flush=True)


if __name__ == "__main__":
    _main(int(sys.argv[1]), int(sys.argv[2]))
