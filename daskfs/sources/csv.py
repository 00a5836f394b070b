"""CSV files, plain or compressed, one or many, read in batches by our own fast reader or by Arrow."""

from __future__ import annotations

import codecs
import io
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from itertools import zip_longest
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
from pyarrow import csv as arrow_csv

from daskfs import errors
from daskfs.documents import check_document
from daskfs.errors import DaskfsError, did_you_mean
from daskfs.sources import csv_faults, csv_records
from daskfs.sources.base import NotInPartsError, part_nbytes
from daskfs.sources.byte_streams import text_ratio
from daskfs.sources.csv_records import PartOfFile, RecordReader, TextPart, cut_text, has_text
from daskfs.sources.csv_types import arrow_type, guessed_type, is_text_of_number, numbers_of_texts, trimmed
from daskfs.sources.encoders.base import BadValue
from daskfs.sources.files import COMPRESSED, PathLike, unchanged
from daskfs.sources.roles import Names, some
from daskfs.sources.table import FileTable, TableBatch, TableOptions
from daskfs.sources.table_schema import ColumnSchema, TableFormat
from daskfs.sources.text import PIECE_NBYTES, Utf8Text, open_text, parsed, read_header

SchemaError = errors.SchemaError.about("text-tables")
SourceError = errors.SourceError.about("text-tables")

ENDINGS = tuple(
    ending + packed for ending in (".csv", ".tsv", ".txt", ".data", ".train", ".test") for packed in ("", *COMPRESSED)
)
MIN_BLOCK_NBYTES, MAX_BLOCK_NBYTES = 2**20, 2**28
_LINES_PER_BLOCK = 4
"""The parser's block is this many times as long as the header or the first line, so that each line fits in a block.

Arrow reads up to 32 blocks ahead, so longer blocks would cost memory.
"""
_HEAD_NBYTES = 2**18


class CsvOptions(TableOptions):
    """Text tables: one file, several, or a glob; .gz, .bz2, .xz and .zst files are decompressed while they are read."""

    delimiter: str | None = None
    quote: str | None = None
    header: bool | None = None
    encoding: str | None = None
    decimal: Literal[".", ","] | None = None
    thousands: Literal["", ",", ".", " ", "'", "_"] | None = None
    comment: str | None = None
    skip_initial_space: bool | None = None


class CsvSource(FileTable):
    """One or several CSV files with the same columns.

    Parameters
    ----------
    path : path-like or list of path-like
        A file, several, a pattern (``power-*.csv.gz``) or a folder. Files in .gz, .bz2, .xz or .zst are decompressed.
    schema, target, weight, missing
        See `daskfs.sources.table.TableSource`.
    **layout
        Fields of `daskfs.sources.table_schema.TableFormat` that override the schema's: delimiter, header, encoding ...

    Raises
    ------
    SourceError
        A missing, empty or unreadable file.
    SchemaError
        An invalid schema, or an unknown field of `layout`.
    """

    kind, options, endings = "csv", CsvOptions, ENDINGS

    def __init__(
        self,
        path: PathLike | Sequence[PathLike],
        schema: Any = None,
        target: Names = None,
        weight: str | None = None,
        missing: Any = "error",
        **layout: Any,
    ) -> None:
        super().__init__(path, schema, target, weight, missing)
        base = (
            self.schema.format
            if self.schema is not None
            else TableFormat.model_validate({"delimiter": "\t" if ".tsv" in self.files[0].suffixes else ","})
        )
        given = {key: value for key, value in layout.items() if value is not None}
        self.layout = check_document(TableFormat, base.model_dump() | given, "source", errors.SchemaError)
        texts = self.layout.missing
        self._missing_texts = [*texts, *(" " + text for text in texts)] if self.layout.skip_initial_space else texts

    def describe(self) -> dict[str, Any]:
        """Return the files with size, time and SHA-256, and their format."""
        return {**super().describe(), "format": self.layout.to_document()}

    @property
    def encoding(self) -> dict[str, Any]:
        """The columns in use, and the text format."""
        return {"columns": super().encoding, "format": self.layout.to_document()}

    def header(self) -> Mapping[str, pa.DataType | None]:
        """Return the columns; without a schema, types are inferred from the beginning of the first file."""
        names = self._names
        known = self.schema.columns if self.schema is not None else {}
        if set(names) <= set(known) or (self.schema is not None and self.schema.other_columns != "feature"):
            return dict.fromkeys(names)
        return self._guessed_types(names)

    @cached_property
    def _names(self) -> list[str]:
        first, *others = (self._names_of(file) for file in self.files)
        for file, names in zip(self.files[1:], others, strict=True):
            if names != first:
                pairs = enumerate(zip_longest(first, names), 1)
                k, (expected, found) = next((k, pair) for k, pair in pairs if pair[0] != pair[1])
                raise SourceError(
                    f"expected the columns of {self.files[0].name} in the same order; "
                    f"column {k} is {found!r}, not {expected!r}",
                    f"{file}:1",
                    "give all files the same columns, or ingest them separately",
                )
        return first

    def _names_of(self, file: Path) -> list[str]:
        with open_text(file, self.layout) as (stream, _):
            names, _ = read_header(stream, file, self.layout)
            if self.layout.header:
                self._check_names(file, names)
                _require_rows(stream, file)
                return names
        if self.schema is None:
            return [f"x{j}" for j in range(len(names))]
        if len(names) != len(self.schema.columns):
            raise SchemaError(
                f"the file has {len(names)} columns and no header; the schema names {len(self.schema.columns)} columns",
                f"{file}:1",
                "name every column in the file's order, or set format.header or format.delimiter",
            )
        return list(self.schema.columns)

    def _check_names(self, file: Path, names: list[str]) -> None:
        """Find faults that the header shows: another delimiter, spaces, a missing column, a duplicate name."""
        given = {} if self.schema is None else self.schema.columns
        wanted = [name for name, column in given.items() if column.role != "ignore" and column.required]
        wanted += [self._target] if isinstance(self._target, str) else list(self._target or ())
        places = {name: k for k, name in reversed(list(enumerate(names)))}
        lacking = [name for name in wanted if name not in places]
        if lacking:
            line = self.layout.delimiter.join(names)
            for other in ",;\t|":
                found = [name.strip(' "') for name in line.split(other)]
                if other != self.layout.delimiter and set(wanted) <= set(found):
                    raise SourceError(
                        f"expected the delimiter {self.layout.delimiter!r}, found {other!r}",
                        f"{file}:1",
                        f"set the delimiter to {other!r}, in the source or with format.delimiter in the schema",
                    )
            remedy = f"the columns are {', '.join(map(repr, names[:12]))}"
            if lacking[0] in [name.strip() for name in names]:
                remedy = "there are spaces around it: set format.skip_initial_space: true"
            shown = f"columns {some(lacking)}" if len(lacking) > 1 else f"column {lacking[0]!r}"
            hint = did_you_mean(lacking[0], set(names) - set(wanted))
            raise SchemaError(f"the header lacks {shown}{hint}", f"{file}:1", remedy)
        for k, name in enumerate(names):
            if places[name] < k:
                raise SourceError(
                    f"two columns are called {name!r} (columns {places[name] + 1} and {k + 1})",
                    f"{file}:1",
                    "rename one of them",
                )

    def _guessed_types(self, names: list[str]) -> dict[str, pa.DataType | None]:
        with open_text(self.files[0], self.layout) as (stream, _):
            if self.layout.header:
                read_header(stream, self.files[0], self.layout)
            head = stream.read(_HEAD_NBYTES)
        whole = head[: head.rfind(b"\n") + 1] if len(head) == _HEAD_NBYTES else head
        if not whole.strip():
            return dict.fromkeys(names)
        convert = arrow_csv.ConvertOptions(
            null_values=self._missing_texts, strings_can_be_null=True, decimal_point=self.layout.decimal
        )
        try:
            read = arrow_csv.ReadOptions(column_names=names, block_size=_HEAD_NBYTES)
            table = arrow_csv.read_csv(pa.BufferReader(whole), read, self._parse_options, convert)
            if any(pa.types.is_binary(field.type) for field in table.schema):
                raise pa.ArrowInvalid("invalid UTF8 data")
        except pa.ArrowInvalid as fault:
            raise self._explain(self.files[0], None, {}, 0, fault) from None
        return {name: guessed_type(table[name]) for name in names}

    @property
    def _parse_options(self) -> arrow_csv.ParseOptions:
        return arrow_csv.ParseOptions(
            delimiter=self.layout.delimiter,
            quote_char=self.layout.quote or False,
            newlines_in_values=bool(self.layout.quote),
        )

    def batches(self, columns: Mapping[str, ColumnSchema]) -> Iterator[TableBatch]:
        """Yield batches of about one MiB of text (more if lines are long)."""
        for file in self.files:
            n_rows = 0
            with unchanged(file), self._opened(file) as (stream, text, _, block_nbytes):
                try:
                    for batch in self._parse(stream, columns, block_nbytes):
                        if self.layout.skip_initial_space:
                            batch = pa.RecordBatch.from_arrays(list(map(trimmed, batch.columns)), schema=batch.schema)
                        if self._has_signs:
                            batch = numbers_of_texts(batch, columns, self.layout)
                        yield TableBatch(batch, str(file), n_rows)
                        n_rows += batch.num_rows
                except (pa.ArrowInvalid, pa.ArrowKeyError, OSError) as fault:
                    raise self._explain(file, None, columns, n_rows, fault) from None
                if text.open_quote and (found := self._faults(file, None, columns, n_rows)):
                    raise found
                self._note_end(file, text.last_byte)

    @contextmanager
    def _opened(self, file: Path) -> Iterator[tuple[io.BufferedReader, Utf8Text, int, int]]:
        """Open a file behind its header; yield the stream, its text, and the sizes of the header and Arrow's blocks."""
        with open_text(file, self.layout) as (stream, text):
            head_nbytes = read_header(stream, file, self.layout)[1] if self.layout.header else 0
            _require_rows(stream, file)
            head = stream.peek(PIECE_NBYTES)
            line_nbytes = head.find(b"\n") + 1 or 4 * len(head)  # a line whose end is not in sight may be long
            nbytes = _LINES_PER_BLOCK * max(head_nbytes, line_nbytes)
            yield stream, text, head_nbytes, min(max(MIN_BLOCK_NBYTES, nbytes), MAX_BLOCK_NBYTES)

    @property
    def has_parts(self) -> bool:
        """Whether byte ranges of the files can be read independently: uncompressed UTF-8 in a simple format."""
        is_utf8 = codecs.lookup(self.layout.encoding).name in ("utf-8", "ascii", "utf-8-sig")
        is_packed = any(file.suffix in COMPRESSED for file in self.files)
        return self._may_be_plain and is_utf8 and not self.layout.comment and not is_packed

    def parts(self) -> Sequence[TextPart]:
        """Return byte ranges of the files that can be read independently; empty if there are none."""
        if not self.has_parts:
            return ()
        parts: list[TextPart] = []
        nbytes = part_nbytes(sum(file.stat().st_size for file in self.files))
        self.take_stamps()
        for file in self.files:
            with self._opened(file) as (_, _, head_nbytes, block_nbytes):
                pass
            with file.open("rb") as bytes_of:
                start = head_nbytes + len(codecs.BOM_UTF8) * (bytes_of.read(3) == codecs.BOM_UTF8)
            parts += cut_text(file, start, block_nbytes, nbytes, self.layout.quote.encode())
        return parts

    def part_batches(self, part: TextPart, columns: Mapping[str, ColumnSchema]) -> Iterator[TableBatch]:
        """Yield the records of a part."""
        n_rows = 0
        with io.BufferedReader(PartOfFile(part), MIN_BLOCK_NBYTES) as stream:
            try:
                for batch in self._parse(stream, columns, part.block_nbytes, part):
                    yield TableBatch(batch, str(part.file), n_rows, part)
                    n_rows += batch.num_rows
            except (pa.ArrowInvalid, pa.ArrowKeyError, OSError) as fault:
                raise self._explain(part.file, part, columns, n_rows, fault) from None

    def conclude(self, facts: Sequence[Any], n_samples: int) -> None:
        """Combine what the parts have shown, and check how the files end."""
        self.refuse_changed()
        for file in self.files:
            with file.open("rb") as stream:
                stream.seek(-1, os.SEEK_END)
                self._note_end(file, stream.read())
        super().conclude(facts, n_samples)

    def _note_end(self, file: Path, last_byte: bytes) -> None:
        if last_byte not in (b"\n", b"\r"):
            note = f"{file}: the last line has no line end; if the file was cut off, its last value is wrong"
            self.reading_notes[note] = None

    def _parse(
        self, stream: Any, columns: Mapping[str, ColumnSchema], block_nbytes: int, part: TextPart | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Yield the records of a stream, from the first that is not simple on by Arrow."""
        types = {
            name: pa.string() if is_text_of_number(column, self.layout) else arrow_type(column)
            for name, column in columns.items()
        }
        if part is not None or self._may_be_plain:
            plain = RecordReader(stream, self.layout, self._names, types, self._missing_texts, block_nbytes)
            yield from plain.batches()
            if (stream := plain.rest) is None:
                return
            if part is not None and has_text(part, self.layout.quote.encode()):  # the cut relied on simple quotes
                raise NotInPartsError("the text cannot be read in parts", str(part.file), "read it as a whole")
        convert = arrow_csv.ConvertOptions(
            column_types=types,
            include_columns=list(columns),
            null_values=self._missing_texts,
            strings_can_be_null=True,
            decimal_point=self.layout.decimal,
        )
        read = arrow_csv.ReadOptions(column_names=self._names, block_size=block_nbytes)
        yield from parsed(stream, read, self._parse_options, convert)

    @property
    def _may_be_plain(self) -> bool:
        """Whether to try our own reader: the text is long enough to be worth it, and the format simple enough."""
        layout = self.layout
        within_numbers = any(sign.isalnum() or sign in "+-" for sign in layout.delimiter + layout.quote)
        is_known = not self._has_signs and not layout.skip_initial_space and not within_numbers
        return is_known and sum(file.stat().st_size for file in self.files) >= csv_records.WORTH_COMPILING_NBYTES

    @cached_property
    def _has_signs(self) -> bool:
        """Whether numbers of some columns are read as texts."""
        columns = () if self.schema is None else self.schema.columns.values()
        return bool(self.layout.thousands) or any(is_text_of_number(column, self.layout) for column in columns)

    def _faults(
        self, file: Path, part: TextPart | None, columns: Mapping[str, ColumnSchema], n_good: int, *known: Any
    ) -> errors.SourceError | None:
        return csv_faults.find_faults(file, self.layout, self._names, columns, n_good, *known, part=part)

    def _explain(
        self, file: Path, part: TextPart | None, columns: Mapping[str, ColumnSchema], n_rows: int, fault: Exception
    ) -> DaskfsError:
        """Return the error that a second pass over the file or part finds; it checks all columns if some were read."""
        found = self._faults(file, part, self.columns if columns else columns, n_rows)
        if found is not None:
            return found
        remedy = "check the file and its format"
        if "straddling" in str(fault):
            remedy = "a line or a quoted value is far longer than the header: is a quote not closed?"
        return SourceError(f"the text cannot be parsed ({fault})", f"{file}, after row {n_rows}", remedy)

    def refusal(self, fault: BadValue, batch: TableBatch, row: int) -> errors.SourceError:
        """Return the error of a bad value, with file, line and value, together with others in the file or part."""
        file = Path(batch.file)
        where = csv_faults.locate(file, self.layout, self._names, row, fault.column, batch.part)
        error = SourceError(fault.problem, where, fault.remedy)  # the remedy for texts, not for frames
        known = csv_faults.Known(row, fault.column, error)
        return self._faults(file, batch.part, self.columns, batch.first_row, known) or error

    def estimate_n_samples(self) -> int | None:
        """Return an estimate from the beginning of the first file: bytes per line, and the compression ratio."""
        with open_text(self.files[0], self.layout) as (stream, _):
            head = stream.read(_HEAD_NBYTES)
            ended = not stream.peek(1)
        n_lines = max(1, len(head.splitlines()) - int(self.layout.header))
        if ended and len(self.files) == 1:
            return n_lines
        ratio = text_ratio(self.files[0], _HEAD_NBYTES)
        text_nbytes = ratio * sum(file.stat().st_size for file in self.files)
        return max(1, int(text_nbytes * n_lines / len(head)))


def _require_rows(stream: Any, file: Path) -> None:
    if not stream.peek(1):
        raise SourceError("expected rows, found only a header", str(file), "check how the file was made")
