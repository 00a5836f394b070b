"""Line-based files as a source: first rows, parts, notes."""

from __future__ import annotations

import codecs
import io
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from daskfs import errors
from daskfs.losses import PLAIN_NUMBERS, TargetKind
from daskfs.matrix.target import kind_of
from daskfs.sources.base import part_nbytes
from daskfs.sources.byte_streams import open_bytes, text_ratio
from daskfs.sources.csv_records import PartOfFile, TextPart, count_lines
from daskfs.sources.files import COMPRESSED, OfFiles, PathLike, expand_paths, unchanged
from daskfs.sources.sparse.base import SparseBlock, SparseSource
from daskfs.sources.sparse.lines import LONGEST_LINE_NBYTES, PIECE_NBYTES, LineFormat, Pieces, blocks_of

SourceError = errors.SourceError.about("sparse-rows")

_HEAD_ROWS, _HEAD_ENTRIES, _HEAD_NBYTES = 128, 2**16, 2**18


class LineSource(OfFiles, SparseSource):
    """One or several files with one row per line.

    Parameters
    ----------
    path : path-like or list of path-like
        A file, several, a pattern or a folder, from which files with one of the class's `endings` are read. Files in
        .gz, .bz2, .xz and .zst are decompressed.
    """

    endings: ClassVar[tuple[str, ...]]
    has_header: bool = False
    """Whether the first line of each file is a header."""

    def __init__(self, path: PathLike | Sequence[PathLike]) -> None:
        self.files = expand_paths(path, tuple(e + packed for e in self.endings for packed in ("", *COMPRESSED)))
        self.notes = []
        self.reading_notes: dict[str, None] = {}  # notes made while reading, without duplicates
        self.n_dropped = 0

    @abstractmethod
    def line_format(self, *, is_head: bool = False) -> LineFormat[Any]:
        """Return the parser of the lines; for the first rows, without having read anything else."""

    def plan_notes(self) -> list[str]:
        """Return notes on decisions made before reading."""
        return []

    @cached_property
    def head(self) -> SparseBlock:
        """The first rows of the first nonempty file."""
        for file in self.files:
            form = self.line_format(is_head=True)
            with open_bytes(file) as stream:
                n_before = self._skip_header(stream, file)
                for block in blocks_of(stream, str(file), form, _HEAD_ROWS, _HEAD_ENTRIES, lambda n=n_before: n):  # type: ignore[misc]
                    return block
        raise SourceError("expected rows, found none", self.place, "check how the file was made or copied")

    def check(self) -> None:
        """Check that the first rows can be read."""
        _ = self.head

    def estimate_target(self) -> TargetKind:
        """Return the kind of target, inferred from the first rows."""
        y = self.head.y
        return PLAIN_NUMBERS if y is None or y.ndim != 1 else kind_of(y)

    def estimate_rows(self) -> int:
        """Return the number of rows, estimated from the length of the first."""
        file = self.files[0]
        with open_bytes(file) as stream:
            head = stream.read(_HEAD_NBYTES)
        n_text = sum(each.stat().st_size for each in self.files) * text_ratio(file, _HEAD_NBYTES)
        return max(1, round(n_text * max(1, head.count(b"\n")) / max(1, len(head))))

    def estimate_shape(self) -> tuple[int | None, int]:
        """Return the number of rows, estimated from the first ones, and the number of features in these."""
        return self.estimate_rows(), len(np.unique(self.head.features))

    def sparse_blocks(self, block_rows: int, block_nnz: int) -> Iterator[SparseBlock]:
        """Yield the rows in order; blocks do not cross files."""
        form, n_rows = self.line_format(), 0
        self.n_dropped = 0
        for part in [TextPart(file, 0, file.stat().st_size, PIECE_NBYTES) for file in self.files]:
            first = n_rows
            with unchanged(part.file):
                for block in self._blocks_of(part, form, block_rows, block_nnz):
                    block.start += first
                    n_rows = block.start + block.n_rows
                    yield block
        if n_rows == 0:
            raise SourceError("expected rows, found none", self.place, "check how the file was made or copied")
        self._note()

    @property
    def has_parts(self) -> bool:
        """True: byte ranges of the files can be read independently."""
        return True

    def parts(self) -> Sequence[TextPart]:
        """Return byte ranges of the files; a compressed file is a single part."""
        self.line_format()  # facts about all rows are found before the source is sent
        self.take_stamps()
        self.n_dropped = 0
        return self.byte_ranges()

    def byte_ranges(self) -> list[TextPart]:
        """Return complete lines of the files, a compressed file as a whole."""
        nbytes = part_nbytes(sum(file.stat().st_size for file in self.files))
        return [part for file in self.files for part in cut_lines(file, nbytes)]

    def sparse_part_blocks(self, part: TextPart, block_rows: int, block_nnz: int) -> Iterator[SparseBlock]:
        """Yield the rows of a part, numbered within it."""
        return self._blocks_of(part, self.line_format(), block_rows, block_nnz)

    def part_facts(self) -> tuple[list[str], int]:
        """Return the notes on the parts that were read here, and the number of dropped rows."""
        return list(self.reading_notes), self.n_dropped

    def conclude(self, facts: Sequence[Any], n_samples: int) -> None:
        """Combine the notes on the parts; check that no file has changed."""
        self.refuse_changed()
        if n_samples == 0:
            raise SourceError("expected rows, found none", self.place, "check how the file was made or copied")
        self.reading_notes.update(dict.fromkeys(note for notes, _ in facts for note in notes))
        self.n_dropped = sum(n_dropped for _, n_dropped in facts)
        self._note()

    def _note(self) -> None:
        dropped = [f"{self.n_dropped:,} rows dropped because they have no label"] if self.n_dropped else []
        self.notes[:] = [*self.plan_notes(), *self.reading_notes, *dropped]

    def _blocks_of(
        self, part: TextPart, form: LineFormat[Any], block_rows: int, block_nnz: int
    ) -> Iterator[SparseBlock]:
        with open_part(part) as stream:
            n_before = self._skip_header(stream, part.file) if part.start == 0 else 0
            before = lambda: n_before + count_lines(part.file, part.start)  # noqa: E731
            yield from blocks_of(stream, str(part.file), form, block_rows, block_nnz, before, self._end_of(part.file))

    def _skip_header(self, stream: Any, file: Path) -> int:
        """Skip what precedes the first row; return the number of skipped lines."""
        skip_mark(stream, file)
        return int(self.has_header and bool(stream.readline(LONGEST_LINE_NBYTES)))

    def _end_of(self, file: Path) -> Any:
        def note(pieces: Pieces) -> None:
            if pieces.lacks_line_end:
                note = f"{file}: the last line has no line end; if the file was cut off, its last value is wrong"
                self.reading_notes[note] = None
            self.n_dropped += pieces.n_dropped

        return note


def skip_mark(stream: Any, file: Path) -> None:
    """Skip the byte-order mark of UTF-8.

    Raises
    ------
    SourceError
        The byte-order mark is that of UTF-16.
    """
    begin = stream.peek(3)[:3]
    if begin == codecs.BOM_UTF8:
        stream.read(3)
    elif begin[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
        raise SourceError("expected UTF-8 text, found UTF-16 (byte-order mark)", f"{file}:1", "save the file as UTF-8")


def open_part(part: TextPart) -> AbstractContextManager[Any]:
    """Open a byte range of a file, or the whole content of a compressed file."""
    if part.file.suffix in COMPRESSED:
        return open_bytes(part.file)
    return io.BufferedReader(PartOfFile(part), PIECE_NBYTES)


def cut_lines(file: Path, part_nbytes: int) -> list[TextPart]:
    """Cut a file after line ends into parts of about `part_nbytes` bytes."""
    nbytes = file.stat().st_size
    cuts = [0]
    if file.suffix not in COMPRESSED:
        with file.open("rb") as stream:
            while cuts[-1] + part_nbytes < nbytes:
                stream.seek(cuts[-1] + part_nbytes - 1)
                stream.readline()
                cuts.append(stream.tell())
    if cuts[-1] < nbytes:
        cuts.append(nbytes)
    return [TextPart(file, *cut, PIECE_NBYTES) for cut in pairwise(cuts)]
