"""Documents before they become rows: in JSON lines, in columns of CSV files, or one per file."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np

from daskfs import errors
from daskfs.files import location
from daskfs.objects.address import is_url
from daskfs.sources.byte_streams import open_bytes
from daskfs.sources.csv_records import PartOfFile, TextPart, count_lines
from daskfs.sources.files import COMPRESSED, PathLike, expand_paths, is_path, unchanged
from daskfs.sources.other_formats import command_of_json_lines
from daskfs.sources.sparse.line_source import cut_lines, skip_mark
from daskfs.sources.sparse.lines import LONGEST_LINE_NBYTES

ConfigError = errors.ConfigError.about("texts")
SourceError = errors.SourceError.about("texts")

JSON_ENDINGS, CSV_ENDINGS = (".jsonl", ".ndjson"), (".csv", ".tsv")
_WHOLE = 2**62

Layout: TypeAlias = Literal["jsonl", "csv", "files"]


class Document(NamedTuple):
    """A document before it becomes a row."""

    texts: list[str]
    label: Any
    """A number, a text, or None."""
    file: Path
    number: int | None = None
    """Line in the part, from 1 on, or row of a table; None if a file is one document."""
    part: TextPart | None = None

    @property
    def where(self) -> str:
        """Place of the document, for messages."""
        if self.part is not None and self.number is not None:
            return f"{self.file}:{count_lines(self.file, self.part.start) + self.number}"
        return str(self.file) if self.number is None else f"{self.file}, row {self.number}"


def fields_of_first(path: PathLike | Sequence[PathLike]) -> list[str]:
    """Return the fields of the first document in JSON lines; empty for other files, or if it is not a JSON object."""
    if _layout_of(path) != "jsonl":
        return []
    first = expand_paths(path, tuple(e + packed for e in JSON_ENDINGS for packed in ("", *COMPRESSED)))[0]
    with open_bytes(first) as stream:
        line = stream.readline(LONGEST_LINE_NBYTES)
    try:
        document = json.loads(line.decode("utf-8-sig"))
    except ValueError:
        return []
    return list(document) if isinstance(document, dict) else []


class FilesPart(NamedTuple):
    """A range of files."""

    start: int
    stop: int


class Documents:
    """The documents in files.

    Parameters
    ----------
    path : path-like or list of path-like
        Files, or a folder with one subfolder per class.
    fields : list of str
        Fields or columns with the text.
    target : str or None
        Field or column with the label.
    layout : {"jsonl", "csv", "files"} or None
        None: determined by the path.
    encoding : str
        Encoding of text files and CSV; JSON is always UTF-8.
    may_lack_label : bool
        Whether the label column may be absent, and files need not be in one folder per class.

    Attributes
    ----------
    files : list of Path
    folders : list of str
        The folder of each file, if folders are the labels.

    Raises
    ------
    SourceError
        A missing, empty or unreadable file.
    ConfigError
        An unknown encoding.
    """

    def __init__(
        self,
        path: PathLike | Sequence[PathLike],
        fields: list[str],
        target: str | None,
        layout: Layout | None,
        encoding: str,
        *,
        may_lack_label: bool = False,
    ) -> None:
        self.layout = _layout_of(path) if layout is None else layout
        self.folders: list[str] = []
        try:
            "".encode(encoding)
        except (LookupError, ValueError):
            problem = f"expected the name of an encoding, found {encoding!r}"
            raise ConfigError(problem, "source.encoding", "for example latin-1") from None
        if (
            self.layout == "files"
            and isinstance(path, (str, Path))
            and not is_url(path)
            and Path(path).expanduser().is_dir()
        ):
            root = Path(path).expanduser()
            found = sorted(file for file in root.rglob("*") if file.is_file() and len(file.relative_to(root).parts) > 1)
            if not found and may_lack_label:
                found = sorted(file for file in root.iterdir() if file.is_file())
            self.files = expand_paths(found or [root / "*" / "*"])
            parts = [file.relative_to(root).parts for file in self.files]
            self.folders = [folder for folder, *inner in parts if inner]
        else:
            endings = JSON_ENDINGS if self.layout == "jsonl" else CSV_ENDINGS
            self.files = expand_paths(path, tuple(e + packed for e in endings for packed in ("", *COMPRESSED)))
        self._fields, self._target, self._encoding = fields, target, encoding
        self._may_lack_label = may_lack_label

    def parts(self, nbytes: int) -> list[Any]:
        """Return ranges of lines, or of files, of about `nbytes` bytes."""
        if self.layout == "jsonl":
            return [part for file in self.files for part in cut_lines(file, nbytes)]
        ends = np.cumsum([file.stat().st_size for file in self.files])
        cuts = [0, *(np.flatnonzero(np.diff(ends // nbytes) > 0) + 1).tolist(), len(self.files)]
        return [FilesPart(start, stop) for start, stop in pairwise(cuts)]

    def __iter__(self) -> Iterator[Document]:
        return (document for part in self.parts(_WHOLE) for document in self.of_part(part))

    def of_part(self, part: Any) -> Iterator[Document]:
        """Yield the documents of a part.

        Raises
        ------
        SourceError
            With file and line, or row.
        """
        if isinstance(part, TextPart):
            yield from self._of_json(part)
            return
        of_file = self._of_csv if self.layout == "csv" else self._of_text
        for k in range(part.start, part.stop):
            with unchanged(self.files[k]):
                yield from of_file(k)

    def _of_text(self, number: int) -> Iterator[Document]:
        file = self.files[number]
        with open_bytes(file) as stream:
            data = stream.read()
        try:
            document = data.decode(self._encoding)
        except UnicodeDecodeError as fault:
            line = data.count(b"\n", 0, fault.start) + 1
            problem = f"expected {self._encoding} text, found byte 0x{data[fault.start]:02x}"
            raise SourceError(problem, f"{file}:{line}", "set encoding, for example latin-1") from None
        yield Document([document], self.folders[number] if self.folders else None, file)

    def _of_csv(self, number: int) -> Iterator[Document]:
        from daskfs.sources.csv import CsvSource
        from daskfs.sources.table_schema import TableSchema

        file = self.files[number]
        delimiter = "\t" if ".tsv" in file.suffixes[-2:] else ","

        def opened(columns: dict[str, Any]) -> tuple[CsvSource, TableSchema]:
            document = {"columns": columns, "other_columns": "ignore", "format": {"missing": []}}
            schema = TableSchema.model_validate(document)
            return CsvSource(file, schema, encoding=self._encoding, delimiter=delimiter), schema

        columns: dict[str, Any] = {field: {"dtype": "string"} for field in self._fields}
        if self._target and not (self._may_lack_label and self._target not in opened(columns)[0].header()):
            columns[self._target] = {"role": "id"}
        source, schema = opened(columns)
        for batch in source.batches(schema.columns):
            table = batch.table.to_pydict()
            labels = table[self._target] if self._target in table else [None] * batch.table.num_rows
            for k, texts in enumerate(zip(*(table[field] for field in self._fields), strict=True)):
                yield Document([text or "" for text in texts], labels[k], file, batch.first_row + k)

    def _of_json(self, part: TextPart) -> Iterator[Document]:
        file = part.file
        with (
            unchanged(file),
            open_bytes(file) if file.suffix in COMPRESSED else io.BufferedReader(PartOfFile(part)) as stream,
        ):
            if part.start == 0:
                skip_mark(stream, file)
            for number, line in enumerate(iter(lambda: stream.readline(LONGEST_LINE_NBYTES), b""), 1):
                if line.isspace():
                    continue
                try:
                    texts, label = self._read_json(line)
                except errors.SourceError as fault:
                    where = f"{file}:{count_lines(file, part.start) + number}"
                    remedy = "fix or remove the line, or choose other fields"
                    if number == 1 and not part.start:
                        remedy = f"{remedy}; convert a table of numbers and categories: `{command_of_json_lines(file)}`"
                    raise SourceError(fault.problem, where, remedy) from None
                yield Document(texts, label, file, number, part)

    def _read_json(self, line: bytes) -> tuple[list[str], Any]:
        """Return the texts and the label from a line."""
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as fault:
            raise SourceError(f"expected JSON, found {_reason(fault)}") from None
        if not isinstance(row, dict):
            raise SourceError(f"expected an object with fields, found {type(row).__name__}")
        texts = [row.get(field) for field in self._fields]
        for field, text in zip(self._fields, texts, strict=True):
            if not isinstance(text, str):
                found = "none" if text is None else type(text).__name__
                fields = ", ".join(map(repr, list(row)[:12]))
                raise SourceError(f"expected a text in the field {field!r}, found {found}; the fields are {fields}")
        label = row.get(self._target) if self._target else None
        if not isinstance(label, (str, int, float, type(None))):
            raise SourceError(f"expected a number or a text as target, found {label!r:.60}")
        return texts, label  # type: ignore[return-value]


def _layout_of(path: PathLike | Sequence[PathLike]) -> Layout:
    paths: Any = [path] if is_path(path) else path
    one = next(iter(paths))
    first = location(one)
    if first.is_dir():
        names = [file.name for file in first.iterdir() if file.is_file()]
        first = first / names[0] if names else first
    name = first.with_suffix("") if first.suffix in COMPRESSED else first
    return "jsonl" if name.suffix in JSON_ENDINGS else "csv" if name.suffix in CSV_ENDINGS else "files"


def _reason(fault: Exception) -> str:
    if isinstance(fault, UnicodeDecodeError):
        return f"byte 0x{fault.object[fault.start]:02x}, which is not UTF-8"
    return f"invalid JSON ({getattr(fault, 'msg', 'too deep')})"
