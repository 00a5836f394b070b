"""Raw text: documents in JSON lines, in columns of CSV files or in files of their own; features are their n-grams."""

from __future__ import annotations

import hashlib
import io
import json
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import islice, pairwise
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias

import numpy as np
from pydantic import Field

from daskfs.documents import PATH, Words
from daskfs.errors import ConfigError, SourceError
from daskfs.kernels.text import hashes, ngrams
from daskfs.kernels.text.words import MARGIN
from daskfs.losses import PLAIN_NUMBERS, TargetKind
from daskfs.matrix.target import kind_of
from daskfs.sources.base import part_nbytes
from daskfs.sources.csv_records import PartOfFile, TextPart
from daskfs.sources.files import COMPRESSED, OfFiles, PathLike, expand_paths, open_bytes, text_ratio
from daskfs.sources.options import SparseOptions
from daskfs.sources.sparse.base import NamedIds, SparseBlock, SparseSource
from daskfs.sources.sparse.line_source import count_lines, cut_lines, skip_mark

JSON_ENDINGS, CSV_ENDINGS = (".jsonl", ".ndjson"), (".csv", ".tsv")
MOST_CLASSES = 10_000
_HEAD_ROWS, _HEAD_NBYTES = 128, 2**18
_AT_ONCE, _AT_ONCE_CHARACTERS = 64, 2**20
"""Documents that are hashed together."""
_BETWEEN = "\udcff"
"""Stands between n-grams: in UTF-8 the byte 0xff, which is in no text."""

Analyzer: TypeAlias = Literal["word", "char", "char_wb"]
Weighting: TypeAlias = Literal["counts", "binary", "log", "tf"]
Layout: TypeAlias = Literal["jsonl", "csv", "files"]


class TextOptions(SparseOptions):
    """Documents in JSON lines, columns of CSV files, or files of their own in a folder for each class."""

    path: Annotated[Words, PATH]
    text: Words | None = Field(default=None, description="fields or columns that hold the text; 'text' by default")
    target: str | None = Field(
        default=None, description="field or column to predict; of files, a name for their folders"
    )
    layout: Layout | None = Field(default=None, description="by default what the path says")
    analyzer: Analyzer | None = Field(default=None, description="n-grams of words (default), or of characters")
    ngram_range: Annotated[list[int], Field(min_length=2, max_length=2)] | None = Field(
        default=None, description="shortest and longest n-gram; [1, 1] by default"
    )
    weighting: Weighting | None = Field(
        default=None, description="counts (default), binary, log: 1 + log of the count, tf: the share of the document"
    )
    lowercase: bool | None = None
    strip_accents: Literal["ascii", "unicode"] | None = None
    stop_words: Words | None = Field(default=None, description="english, or a list of words")
    token_pattern: str | None = Field(default=None, description="regular expression of a word")
    unlabelled: Literal["error", "drop"] | None = Field(default=None, description="treatment of rows without a target")
    encoding: str | None = Field(default=None, description="of files and CSV; utf-8 by default")
    tell_names: bool | None = Field(default=None, description="tell the names of features; true by default")


class Document(NamedTuple):
    """A row, before it is one."""

    texts: list[str]
    label: Any
    """A number, a text, or None."""
    where: str


class FilesPart(NamedTuple):
    """Some files of a source, one after the other."""

    start: int
    stop: int


class Counted(NamedTuple):
    """Some rows as entries, with where the names of their features stand."""

    offsets: np.ndarray
    features: np.ndarray
    data: np.ndarray
    labels: list[Any]
    ids: list[np.ndarray]
    """By field: of the n-grams that occur, each once."""
    names: list[tuple[np.ndarray, np.ndarray]]
    """By field: text and offsets."""


class TextSource(OfFiles, SparseSource):
    """Documents, whose features are n-grams of words or characters.

    Parameters
    ----------
    path : path-like or list of path-like
        Files of JSON lines or CSV, decompressed by their endings; or a folder whose folders hold the files of a class
        each, one document in a file.
    text : str or list of str
        Fields or columns that hold the text.
    target : str, optional
        Field or column to predict. Numbers are numbers where the first rows have numbers, anything else is classes.
        The folders of files are classes in any case.
    layout : {"jsonl", "csv", "files"}, optional
        By default what the path says.
    analyzer, ngram_range, lowercase, strip_accents, stop_words, token_pattern
        As of scikit-learn's ``CountVectorizer``, whose analyser makes the n-grams.
    weighting : {"counts", "binary", "log", "tf"}
        How often an n-gram occurs in a document, 1, 1 + log of the count, or its share of the document's n-grams.
    unlabelled : {"error", "drop"}
        Treatment of rows without a target.
    encoding : str
        Of files and CSV; JSON is UTF-8.
    tell_names : bool
        Each block tells the names of its features.

    Raises
    ------
    SourceError
        A missing, empty or unreadable file.
    ConfigError
        An option that is none.

    Notes
    -----
    An n-gram's id is ``xxh64(ngram, seed=0) % 2**63``; with several fields, ``xxh64(ngram, seed=xxh64(field, seed=0)) %
    2**63``, and its name is ``field^ngram``.
    """

    kind, options = "text", TextOptions
    features_are_ids = True

    def __init__(
        self,
        path: PathLike | Sequence[PathLike],
        text: str | Sequence[str] = "text",
        target: str | None = None,
        layout: Layout | None = None,
        analyzer: Analyzer = "word",
        ngram_range: Sequence[int] = (1, 1),
        weighting: Weighting = "counts",
        lowercase: bool = True,
        strip_accents: Literal["ascii", "unicode"] | None = None,
        stop_words: str | Sequence[str] | None = None,
        token_pattern: str = r"(?u)\b\w\w+\b",
        unlabelled: Literal["error", "drop"] = "error",
        encoding: str = "utf-8",
        tell_names: bool = True,
    ) -> None:
        self.layout = _layout_of(path) if layout is None else layout
        self._folders: list[str] = []
        if self.layout == "files" and isinstance(path, (str, Path)) and Path(path).expanduser().is_dir():
            root = Path(path).expanduser()
            found = sorted(file for file in root.rglob("*") if file.is_file() and len(file.relative_to(root).parts) > 1)
            self.files = expand_paths(found or [root / "*" / "*"])
            self._folders = [file.relative_to(root).parts[0] for file in self.files]
        else:
            endings = JSON_ENDINGS if self.layout == "jsonl" else CSV_ENDINGS
            self.files = expand_paths(path, tuple(e + packed for e in endings for packed in ("", *COMPRESSED)))
        least, most = ngram_range if len(ngram_range) == 2 else (0, 0)
        for name, value, is_right, remedy in (
            ("analyzer", analyzer, analyzer in ("word", "char", "char_wb"), "one of word, char, char_wb"),
            ("weighting", weighting, weighting in ("counts", "binary", "log", "tf"), "one of counts, binary, log, tf"),
            ("unlabelled", unlabelled, unlabelled in ("error", "drop"), "one of error, drop"),
            ("layout", self.layout, self.layout in ("jsonl", "csv", "files"), "one of jsonl, csv, files"),
            ("ngram_range", ngram_range, 1 <= least <= most, "two whole numbers, for example [1, 2]"),
        ):
            if not is_right:
                raise ConfigError(f"found {value!r}", f"source.{name}", remedy)
        self._fields = [text] if isinstance(text, str) else list(text)
        if len(self._fields) > 1:
            self.namespace_mark, self.namespaces = "^", self._fields
        self._ngram_range = (least, most)
        self._target, self._weighting, self._unlabelled = target, weighting, unlabelled
        self._encoding, self._tell_names = encoding, tell_names
        self._analysis = {
            "analyzer": analyzer,
            "ngram_range": self._ngram_range,
            "lowercase": lowercase,
            "strip_accents": strip_accents,
            "stop_words": stop_words if stop_words is None or isinstance(stop_words, str) else list(stop_words),
            "token_pattern": token_pattern,
        }
        self.target_names = [target or "class"] if self._folders or target else []
        self.notes, self.n_dropped = [], 0

    @cached_property
    def _analyze(self) -> Callable[[str], list[str]]:
        from sklearn.feature_extraction.text import CountVectorizer

        analyze: Callable[[str], list[str]] = CountVectorizer(**self._analysis).build_analyzer()
        return analyze

    @cached_property
    def _seeds(self) -> list[np.uint64]:
        if len(self._fields) == 1:
            return [np.uint64(0)]
        encoded = [field.encode() for field in self._fields]
        seeds = np.empty(len(encoded), np.uint64)
        text = np.frombuffer(b"".join([*encoded, bytes(MARGIN)]), np.uint8)
        hashes.hash_texts(text, np.cumsum([0, *map(len, encoded)]), np.uint64(0), seeds)
        return list(seeds)

    # documents

    def _documents(self, part: Any) -> Iterator[Document]:
        if isinstance(part, TextPart):
            return self._of_json(part)
        return self._of_csv(part) if self.layout == "csv" else self._of_files(part)

    def _of_files(self, part: FilesPart) -> Iterator[Document]:
        for k in range(part.start, part.stop):
            with open_bytes(self.files[k]) as stream:
                data = stream.read()
            try:
                document = data.decode(self._encoding)
            except UnicodeDecodeError as fault:
                line = data.count(b"\n", 0, fault.start) + 1
                problem = f"expected {self._encoding} text, found byte 0x{data[fault.start]:02x}"
                raise SourceError(problem, f"{self.files[k]}:{line}", "set encoding, for example latin-1") from None
            yield Document([document], self._folders[k] if self._folders else None, str(self.files[k]))

    def _of_json(self, part: TextPart) -> Iterator[Document]:
        file = part.file
        with open_bytes(file) if file.suffix in COMPRESSED else io.BufferedReader(PartOfFile(part)) as stream:
            if part.start == 0:
                skip_mark(stream, file)
            for number, line in enumerate(stream, 1):
                if line.isspace():
                    continue
                try:
                    row = json.loads(line)
                except (ValueError, RecursionError) as fault:
                    raise self._json_fault(part, number, f"expected JSON, found {_reason(fault)}") from None
                if not isinstance(row, dict):
                    found = type(row).__name__
                    raise self._json_fault(part, number, f"expected an object with fields, found {found}")
                texts = [row.get(field) for field in self._fields]
                for field, text in zip(self._fields, texts, strict=True):
                    if not isinstance(text, str):
                        found = "none" if text is None else type(text).__name__
                        fields = ", ".join(map(repr, list(row)[:12]))
                        problem = f"expected a text in the field {field!r}, found {found}; the fields are {fields}"
                        raise self._json_fault(part, number, problem)
                label = row.get(self._target) if self._target else None
                if not isinstance(label, (str, int, float, type(None))):
                    raise self._json_fault(part, number, f"expected a number or a text as target, found {label!r}")
                found_texts: list[str] = texts  # type: ignore[assignment]
                yield Document(found_texts, label, "" if part.start else f"{file}:{number}")

    def _json_fault(self, part: TextPart, number: int, problem: str) -> SourceError:
        line = count_lines(part.file, part.start) + number
        return SourceError(problem, f"{part.file}:{line}", "fix or remove the line, or name other fields")

    def _of_csv(self, part: FilesPart) -> Iterator[Document]:
        from daskfs.sources.csv import CsvSource
        from daskfs.sources.table_schema import TableSchema

        columns: dict[str, Any] = {field: {"dtype": "string"} for field in self._fields}
        if self._target:
            columns[self._target] = {"role": "id"}
        schema = TableSchema.model_validate({"columns": columns, "other_columns": "ignore", "format": {"missing": []}})
        for file in self.files[part.start : part.stop]:
            source = CsvSource(file, schema, encoding=self._encoding)
            for batch in source.batches(schema.columns):
                table = batch.table.to_pydict()
                labels = table[self._target] if self._target else [None] * batch.table.num_rows
                for k, texts in enumerate(zip(*(table[field] for field in self._fields), strict=True)):
                    yield Document([text or "" for text in texts], labels[k], f"{file}, row {batch.first_row + k}")

    # rows

    def parts(self) -> Sequence[Any]:
        """Return ranges of lines, or of files."""
        _ = self.target_classes  # found before the source is sent
        self.n_dropped = 0
        return self._parts(part_nbytes(sum(file.stat().st_size for file in self.files)))

    def _parts(self, nbytes: int) -> list[Any]:
        if self.layout == "jsonl":
            return [part for file in self.files for part in cut_lines(file, nbytes)]
        ends = np.cumsum([file.stat().st_size for file in self.files])
        cuts = [0, *(np.flatnonzero(np.diff(ends // nbytes) > 0) + 1).tolist(), len(self.files)]
        return [FilesPart(start, stop) for start, stop in pairwise(cuts)]

    def sparse_blocks(self, block_rows: int, block_nnz: int) -> Iterator[SparseBlock]:
        """Yield the documents in order."""
        self.n_dropped, n_rows = 0, 0
        whole = self._parts(2**62)
        documents = (document for part in whole for document in self._documents(part))
        for block in self._blocks_of(documents, block_rows, block_nnz):
            yield block
            n_rows += block.n_rows
        self.conclude([self.n_dropped], n_rows)

    def sparse_part_blocks(self, part: Any, block_rows: int, block_nnz: int) -> Iterator[SparseBlock]:
        """Yield the documents of a part, numbered within it."""
        return self._blocks_of(self._documents(part), block_rows, block_nnz)

    def part_facts(self) -> int:
        """Return how many rows were left out of the parts that were read here."""
        return self.n_dropped

    def conclude(self, facts: Sequence[int], n_samples: int) -> None:
        """Take how many rows were left out."""
        if n_samples == 0:
            raise SourceError("expected documents, found none", self.place, "check how the files were made or copied")
        self.n_dropped = sum(facts)
        dropped = f"{self.n_dropped:,} rows dropped because they have no label"
        coded = [f"{text!r} is {code}" for code, text in enumerate(self.target_classes or ())]
        self.notes[:] = [f"the target is coded: {', '.join(coded)}"] * bool(coded) + [dropped] * bool(self.n_dropped)

    def _blocks_of(self, documents: Iterable[Document], block_rows: int, block_nnz: int) -> Iterator[SparseBlock]:
        start, held, n_held, nnz_held = 0, [], 0, 0  # type: ignore[var-annotated]
        for counted in self._counted(documents):
            first = 0
            for row in range(len(counted.labels)):
                nnz = int(counted.offsets[row + 1] - counted.offsets[row])
                if n_held == block_rows or (n_held and nnz_held + nnz > block_nnz):
                    yield self._block(start, [*held, (counted, first, row)])
                    start, held, first, n_held, nnz_held = start + n_held, [], row, 0, 0
                n_held, nnz_held = n_held + 1, nnz_held + nnz
            held.append((counted, first, len(counted.labels)))
        if n_held:
            yield self._block(start, held)

    def _counted(self, documents: Iterable[Document]) -> Iterator[Counted]:
        together: list[Document] = []
        n_characters = 0
        for document in documents:
            if self.target_names and (document.label is None or document.label == ""):
                if self._unlabelled == "error":
                    raise SourceError(
                        "expected a target, found none", document.where or self.place, "set unlabelled: drop"
                    )
                self.n_dropped += 1
                continue
            together.append(document)
            n_characters += sum(map(len, document.texts))
            if len(together) == _AT_ONCE or n_characters > _AT_ONCE_CHARACTERS:
                yield self._count(together)
                together, n_characters = [], 0
        if together:
            yield self._count(together)

    def _count(self, documents: list[Document]) -> Counted:
        n_rows, n_fields = len(documents), len(self._fields) if self.layout != "files" else 1
        lengths, ids, all_ids, names = np.zeros((n_rows, n_fields), np.int64), [], [], []
        for f in range(n_fields):
            grams: list[str] = []
            for i, document in enumerate(documents):
                found = self._analyze(_without_halves(document.texts[f]))
                lengths[i, f] = len(found)
                grams += found
            encoded = _BETWEEN.join(grams).encode("utf-8", "surrogateescape")
            text = np.frombuffer(encoded + bytes(MARGIN), np.uint8)
            stops = np.append(np.flatnonzero(text == 0xFF), len(encoded)) if grams else np.empty(0, np.int64)
            starts = np.append(0, stops[:-1] + 1) if grams else stops
            ids.append(_ids_of(text, starts, stops, self._seeds[f]))
            if self._tell_names:
                where = _first_places(ids[f])
                all_ids.append(ids[f][where])
                prefix = np.frombuffer(f"{self._fields[f]}^".encode() if n_fields > 1 else b"", np.uint8)
                names.append(_copied(text, starts[where], stops[where], prefix))
        features, offsets = ids[0], np.append(0, np.cumsum(lengths.sum(axis=1)))
        if n_fields > 1:
            order = np.argsort(
                np.concatenate([np.repeat(np.arange(n_rows), lengths[:, f]) for f in range(n_fields)]), kind="stable"
            )
            features = np.concatenate(ids)[order]
        data = np.empty(len(features), np.float32)
        ngrams.count_each(features, offsets, data)
        features, data = features[: offsets[-1]].copy(), data[: offsets[-1]].copy()
        if self._weighting == "binary":
            data[:] = 1.0
        elif self._weighting == "log":
            data = np.log(data) + np.float32(1.0)
        elif self._weighting == "tf":
            data /= np.repeat(np.maximum(1, lengths.sum(axis=1)), np.diff(offsets))
        return Counted(offsets, features, data, [self._checked(document) for document in documents], all_ids, names)

    def _block(self, start: int, held: list[tuple[Counted, int, int]]) -> SparseBlock:
        held = [(counted, a, b) for counted, a, b in held if b > a]
        spans = [(counted, counted.offsets[a], counted.offsets[b]) for counted, a, b in held]
        lengths = np.concatenate([np.diff(counted.offsets[a : b + 1]) for counted, a, b in held])
        features = np.concatenate([counted.features[a:b] for counted, a, b in spans])
        data = np.concatenate([counted.data[a:b] for counted, a, b in spans])
        labels = [label for counted, a, b in held for label in counted.labels[a:b]]
        return SparseBlock(
            start,
            np.append(0, np.cumsum(lengths)),
            features,
            None if np.all(data == 1.0) else data,
            np.array(labels, np.float64) if self.target_names else None,
            names=_told([counted for counted, _, _ in held]) if self._tell_names else None,
        )

    # targets

    def _checked(self, document: Document) -> float:
        """Return the target as a number."""
        if not self.target_names:
            return 0.0
        codes, label = self._codes, document.label
        if codes is not None:
            return float(codes[str(label)])
        try:
            number = float(label)
        except ValueError:
            number = math.nan
        if not math.isfinite(number):
            problem = f"expected a finite number as target, as in the first rows, found {label!r}"
            raise SourceError(problem, document.where or self.place, "fix the value")
        return number

    @cached_property
    def _codes(self) -> dict[str, int] | None:
        """Codes of classes; None where the target is of numbers."""
        if not self.target_names:
            return None
        if self._folders:
            return {name: code for code, name in enumerate(sorted(set(self._folders)))}
        whole = self._parts(2**62)
        labels = (d.label for part in whole for d in self._documents(part) if d.label is not None and d.label != "")
        head = list(islice(labels, _HEAD_ROWS))
        if all(not isinstance(label, str) or _is_number(label) for label in head):
            return None
        found = {str(label) for label in head}
        for label in labels:
            found.add(str(label))
            if len(found) > MOST_CLASSES:
                raise SourceError(
                    f"the target has more than {MOST_CLASSES:,} classes", self.place, "name another target"
                )
        return {name: code for code, name in enumerate(sorted(found))}

    @property
    def target_classes(self) -> list[str] | None:
        """The classes, by code."""
        return None if self._codes is None else list(self._codes)

    @cached_property
    def head(self) -> list[Document]:
        """The first documents."""
        documents = list(islice((d for part in self._parts(2**62) for d in self._documents(part)), _HEAD_ROWS))
        if not documents:
            raise SourceError("expected documents, found none", self.place, "check how the files were made or copied")
        return documents

    def check(self) -> None:
        """Read the first documents."""
        _ = self.head, self._analyze

    def estimate_target(self) -> TargetKind:
        """Return what the targets are taken for."""
        if not self.target_names:
            return PLAIN_NUMBERS
        if self._codes is not None:
            return TargetKind(len(self._codes), is_declared=True)
        return kind_of(np.array([self._checked(document) for document in self.head if document.label is not None]))

    def estimate_shape(self) -> tuple[int | None, int]:
        """Return rows by the length of the first, and the features that occur in them."""
        n_features = len(np.unique(np.concatenate([counted.features for counted in self._counted(self.head)])))
        if self.layout == "files":
            return len(self.files), n_features
        n_text = sum(file.stat().st_size for file in self.files) * text_ratio(self.files[0], _HEAD_NBYTES)
        per_row = sum(len(text.encode("utf-8", "replace")) + 16 for d in self.head for text in d.texts) / len(self.head)
        return max(1, round(n_text / per_row)), n_features

    @property
    def encoding(self) -> dict[str, Any]:
        """How documents become rows."""
        folders = hashlib.sha256("\n".join(self._folders).encode()).hexdigest() if self._folders else None
        return {
            **self._analysis,
            "ngram_range": [*self._ngram_range],
            "hash": hashes.HASH_NAME,
            "text": self._fields,
            "target": self.target_names,
            "classes": self.target_classes,
            "folders": folders,
            "weighting": self._weighting,
            "unlabelled": self._unlabelled,
            "encoding": self._encoding,
        }


def _layout_of(path: PathLike | Sequence[PathLike]) -> Layout:
    first = Path(path if isinstance(path, (str, Path)) else next(iter(path))).expanduser()  # type: ignore[arg-type]
    if first.is_dir():
        names = [file.name for file in first.iterdir() if file.is_file()]
        first = Path(names[0]) if names else first
    name = first.with_suffix("") if first.suffix in COMPRESSED else first
    return "jsonl" if name.suffix in JSON_ENDINGS else "csv" if name.suffix in CSV_ENDINGS else "files"


def _reason(fault: Exception) -> str:
    if isinstance(fault, UnicodeDecodeError):
        return f"byte 0x{fault.object[fault.start]:02x}, which is not UTF-8"
    return f"what is none ({getattr(fault, 'msg', 'too deep')})"


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def _without_halves(text: str) -> str:
    """Return a text without halves of characters, which JSON may hold."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def _ids_of(text: np.ndarray, starts: np.ndarray, stops: np.ndarray, seed: np.uint64) -> np.ndarray:
    ids = np.empty(len(starts), np.uint64)
    hashes.hash_between(text, starts, stops, seed, ids)
    return ids & hashes.ID_MASK


def _copied(
    text: np.ndarray, starts: np.ndarray, stops: np.ndarray, prefix: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    offsets = np.empty(len(starts) + 1, np.int64)
    out = np.empty(int((stops - starts).sum()) + len(prefix) * len(starts), np.uint8)
    ngrams.copy_names(text, starts, stops, prefix, offsets, out)
    return out, offsets


def _first_places(ids: np.ndarray) -> np.ndarray:
    places, slots = np.empty(len(ids), np.int64), np.empty(2 << len(ids).bit_length(), np.uint64)
    return places[: ngrams.find_first(ids, slots, places)]


def _told(counted: list[Counted]) -> NamedIds:
    """Return the names of features, each once."""
    ids = np.concatenate([ids for each in counted for ids in each.ids])
    sizes = [len(text) for each in counted for text, _ in each.names]
    text = np.concatenate([text for each in counted for text, _ in each.names])
    firsts = np.append(0, np.cumsum(sizes))
    starts, stops = (
        np.concatenate(
            [
                offsets[k : len(offsets) - 1 + k] + firsts[j]
                for j, offsets in enumerate(offsets for each in counted for _, offsets in each.names)
            ]
        )
        for k in (0, 1)
    )
    where = _first_places(ids)
    return NamedIds(ids[where], *_copied(text, starts[where], stops[where], np.empty(0, np.uint8)))
