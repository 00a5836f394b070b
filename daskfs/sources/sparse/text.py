"""Raw text: documents in JSON lines, in columns of CSV files, or one per file; features are their n-grams."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import islice
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias

import numpy as np
from pydantic import Field

from daskfs import errors
from daskfs.documents import PATH, Words
from daskfs.kernels.text import hashes
from daskfs.losses import PLAIN_NUMBERS, TargetKind
from daskfs.matrix.target import kind_of
from daskfs.sources.base import part_nbytes
from daskfs.sources.byte_streams import text_ratio
from daskfs.sources.files import OfFiles, PathLike
from daskfs.sources.options import SparseOptions
from daskfs.sources.sparse.base import SparseBlock, SparseSource
from daskfs.sources.sparse.documents import Document, Documents, Layout
from daskfs.sources.sparse.ngrams import Counted, NgramCounter, Weighting, distinct_names

ConfigError = errors.ConfigError.about("texts")
SourceError = errors.SourceError.about("texts")

MOST_CLASSES = 10_000
_HEAD_ROWS, _HEAD_NBYTES = 128, 2**18
_AT_ONCE, _AT_ONCE_CHARACTERS = 64, 2**20
"""Numbers of documents and characters that are hashed together."""

Analyzer: TypeAlias = Literal["word", "char", "char_wb"]


class TextOptions(SparseOptions):
    """Documents in JSON lines, in columns of CSV files, or one per file in a folder for each class."""

    path: Annotated[Words, PATH]
    text: Words | None = Field(default=None, description="fields or columns with the text; default: 'text'")
    target: str | None = Field(default=None, description="target field or column; for files, the name of the target")
    layout: Layout | None = Field(default=None, description="default: determined by the path")
    analyzer: Analyzer | None = Field(default=None, description="n-grams of words (default), or of characters")
    ngram_range: Annotated[list[int], Field(min_length=2, max_length=2)] | None = Field(
        default=None, description="shortest and longest n-gram; default: [1, 1]"
    )
    weighting: Weighting | None = Field(
        default=None, description="counts (default), binary, log: 1 + log of the count, tf: its share of the document"
    )
    lowercase: bool | None = None
    strip_accents: Literal["ascii", "unicode"] | None = None
    stop_words: Words | None = Field(default=None, description="english, or a list of words")
    token_pattern: str | None = Field(default=None, description="regular expression for words")
    unlabelled: Literal["error", "drop"] | None = Field(default=None, description="treatment of rows without a target")
    encoding: str | None = Field(default=None, description="encoding of text files and CSV; default: utf-8")
    tell_names: bool | None = Field(default=None, description="whether to keep the names of features; default: true")
    classes: list[str] | None = Field(default=None, min_length=2, description="the target's classes, by code")


class Labelled(NamedTuple):
    """Rows with their targets."""

    rows: Counted
    y: list[float]


class TextSource(OfFiles, SparseSource):
    """Documents with n-grams of words or characters as features.

    Parameters
    ----------
    path : path-like or list of path-like
        Files of JSON lines or CSV, decompressed according to their endings; or a folder with one subfolder per class,
        whose files are one document each.
    text : str or list of str
        Fields or columns with the text.
    target : str, optional
        Target field or column. The target is numeric if it is so in the first rows, otherwise classes. Folders are
        always classes.
    layout : {"jsonl", "csv", "files"}, optional
        By default determined by the path.
    analyzer, ngram_range, lowercase, strip_accents, stop_words, token_pattern
        See scikit-learn's ``CountVectorizer``, whose analyser produces the n-grams.
    weighting : {"counts", "binary", "log", "tf"}
        Value of an n-gram: its count in the document, 1, 1 + log(count), or count / number of n-grams in the document.
    unlabelled : {"error", "drop", "keep"}
        Treatment of rows without a target; "keep" sets it to NaN, so that a model can predict it.
    encoding : str
        Encoding of text files and CSV; JSON is always UTF-8.
    tell_names : bool
        Whether blocks pass on the names of their features.
    classes : list of str, optional
        Classes of the target, by code; by default found in a pass over the documents.

    Raises
    ------
    SourceError
        A missing, empty or unreadable file.
    ConfigError
        An invalid option.

    Notes
    -----
    The id of an n-gram is ``xxh64(ngram, seed=0) % 2**63``; with several fields,
    ``xxh64(ngram, seed=xxh64(field, seed=0)) % 2**63``, and its name is ``field^ngram``.
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
        unlabelled: Literal["error", "drop", "keep"] = "error",
        encoding: str = "utf-8",
        tell_names: bool = True,
        classes: Sequence[str] | None = None,
    ) -> None:
        least, most = ngram_range if len(ngram_range) == 2 else (0, 0)
        for name, value, is_right, remedy in (
            ("analyzer", analyzer, analyzer in ("word", "char", "char_wb"), "one of word, char, char_wb"),
            ("weighting", weighting, weighting in ("counts", "binary", "log", "tf"), "one of counts, binary, log, tf"),
            ("unlabelled", unlabelled, unlabelled in ("error", "drop", "keep"), "one of error, drop, keep"),
            ("layout", layout, layout in (None, "jsonl", "csv", "files"), "one of jsonl, csv, files"),
            ("ngram_range", ngram_range, 1 <= least <= most, "two whole numbers, for example [1, 2]"),
        ):
            if not is_right:
                raise ConfigError(f"found {value!r}", f"source.{name}", remedy)
        self._fields = [text] if isinstance(text, str) else list(text)
        self._documents = Documents(path, self._fields, target, layout, encoding, may_lack_label=unlabelled == "keep")
        self.files, self.layout, self._folders = self._documents.files, self._documents.layout, self._documents.folders
        if len(self._fields) > 1:
            self.namespace_mark, self.namespaces = "^", self._fields
        self._target, self._weighting, self._unlabelled, self._encoding = target, weighting, unlabelled, encoding
        self._tell_names, self._classes = tell_names, classes
        self._ngram_range = (least, most)
        self._analysis = {
            "analyzer": analyzer,
            "ngram_range": self._ngram_range,
            "lowercase": lowercase,
            "strip_accents": strip_accents,
            "stop_words": stop_words if stop_words is None or isinstance(stop_words, str) else list(stop_words),
            "token_pattern": token_pattern,
        }
        fields = self._fields if self.layout != "files" else self._fields[:1]
        self._ngrams = NgramCounter(fields, self._analysis, weighting, tells_names=tell_names)
        self.target_names = [target or "class"] if self._folders or target else []
        self.notes, self.n_dropped = [], 0

    # rows

    @property
    def has_parts(self) -> bool:
        """True: ranges of lines or files can be read independently."""
        return True

    def parts(self) -> Sequence[Any]:
        """Return ranges of lines, or of files."""
        self.take_stamps()
        _ = self.target_classes  # computed before the source is sent
        self.n_dropped = 0
        return self._documents.parts(part_nbytes(sum(file.stat().st_size for file in self.files)))

    def sparse_blocks(self, block_rows: int, block_nnz: int) -> Iterator[SparseBlock]:
        """Yield the documents in order."""
        self.take_stamps()
        self.n_dropped, n_rows = 0, 0
        for block in self._blocks_of(self._documents, block_rows, block_nnz):
            yield block
            n_rows += block.n_rows
        self.conclude([self.n_dropped], n_rows)

    def sparse_part_blocks(self, part: Any, block_rows: int, block_nnz: int) -> Iterator[SparseBlock]:
        """Yield the documents of a part, numbered within it."""
        return self._blocks_of(self._documents.of_part(part), block_rows, block_nnz)

    def part_facts(self) -> int:
        """Return the number of rows dropped from the parts that were read here."""
        return self.n_dropped

    def conclude(self, facts: Sequence[int], n_samples: int) -> None:
        """Combine the numbers of dropped rows; check that no file has changed."""
        self.refuse_changed()
        if n_samples == 0:
            raise SourceError("expected documents, found none", self.place, "check how the files were made or copied")
        self.n_dropped = sum(facts)
        dropped = f"{self.n_dropped:,} rows dropped because they have no label"
        coded = [f"{text!r} is {code}" for code, text in enumerate(self.target_classes or ())]
        are_of_fit = self._unlabelled != "keep"
        self.notes[:] = [f"the target is coded: {', '.join(coded)}"] * bool(coded and are_of_fit) + [dropped] * bool(
            self.n_dropped
        )

    def _blocks_of(self, documents: Iterable[Document], block_rows: int, block_nnz: int) -> Iterator[SparseBlock]:
        start, held, n_held, nnz_held = 0, [], 0, 0  # type: ignore[var-annotated]
        for rows, y in self._labelled(documents):
            first = 0
            for row in range(len(y)):
                nnz = int(rows.offsets[row + 1] - rows.offsets[row])
                if n_held == block_rows or (n_held and nnz_held + nnz > block_nnz):
                    yield self._block(start, [*held, (rows, y, first, row)])
                    start, held, first, n_held, nnz_held = start + n_held, [], row, 0, 0
                n_held, nnz_held = n_held + 1, nnz_held + nnz
            held.append((rows, y, first, len(y)))
        if n_held:
            yield self._block(start, held)

    def _labelled(self, documents: Iterable[Document]) -> Iterator[Labelled]:
        together: list[Document] = []
        n_characters = 0
        for document in documents:
            if self.target_names and document.label in (None, "") and self._unlabelled != "keep":
                if self._unlabelled == "error":
                    raise SourceError("expected a target, found none", document.where, "set unlabelled: drop")
                self.n_dropped += 1
                continue
            together.append(document)
            n_characters += sum(map(len, document.texts))
            if len(together) == _AT_ONCE or n_characters > _AT_ONCE_CHARACTERS:
                yield self._counted(together)
                together, n_characters = [], 0
        if together:
            yield self._counted(together)

    def _counted(self, documents: list[Document]) -> Labelled:
        y = [self._checked(document) for document in documents]
        return Labelled(self._ngrams.count([document.texts for document in documents]), y)

    def _block(self, start: int, held: list[tuple[Counted, list[float], int, int]]) -> SparseBlock:
        held = [(rows, y, a, b) for rows, y, a, b in held if b > a]
        entries = [(rows, slice(rows.offsets[a], rows.offsets[b])) for rows, _, a, b in held]
        data = np.concatenate([rows.data[span] for rows, span in entries])
        lengths = np.concatenate([np.diff(rows.offsets[a : b + 1]) for rows, _, a, b in held])
        return SparseBlock(
            start,
            np.append(0, np.cumsum(lengths)),
            np.concatenate([rows.features[span] for rows, span in entries]),
            None if np.all(data == 1.0) else data,
            np.array([number for _, y, a, b in held for number in y[a:b]]) if self.target_names else None,
            names=distinct_names([rows for rows, *_ in held]) if self._tell_names else None,
        )

    # targets

    def _checked(self, document: Document) -> float:
        """Return the target as a number."""
        if not self.target_names:
            return 0.0
        codes, label = self._codes, document.label
        if label in (None, ""):
            return math.nan
        if codes is not None:
            if str(label) not in codes and self._unlabelled == "keep":
                return math.nan
            if str(label) not in codes:
                problem = f"expected one of {len(codes)} classes, found {label!r:.60}"
                raise SourceError(problem, document.where, "add it to classes, or fix the value")
            return float(codes[str(label)])
        try:
            number = float(label)
        except (ValueError, OverflowError):
            number = math.nan
        if not math.isfinite(number):
            problem = f"expected a finite number as target, as in the first rows, found {label!r:.60}"
            raise SourceError(problem, document.where, "fix the value")
        return number

    @cached_property
    def _codes(self) -> dict[str, int] | None:
        """Codes of the classes; None if the target is numeric."""
        if not self.target_names:
            return None
        if self._classes is not None:
            return {str(name): code for code, name in enumerate(self._classes)}
        if self._folders:
            return {name: code for code, name in enumerate(sorted(set(self._folders)))}
        labels = (d.label for d in self._documents if d.label is not None and d.label != "")
        head = list(islice(labels, _HEAD_ROWS))
        if all(not isinstance(label, str) or _is_number(label) for label in head):
            return None
        found = {str(label) for label in head}
        for label in labels:
            found.add(str(label))
            if len(found) > MOST_CLASSES:
                raise SourceError(
                    f"the target has more than {MOST_CLASSES:,} classes", self.place, "choose another target"
                )
        return {name: code for code, name in enumerate(sorted(found))}

    @property
    def target_classes(self) -> list[str] | None:
        """The classes, by code."""
        return None if self._codes is None else list(self._codes)

    @cached_property
    def head(self) -> list[Document]:
        """The first documents."""
        documents = list(islice(self._documents, _HEAD_ROWS))
        if not documents:
            raise SourceError("expected documents, found none", self.place, "check how the files were made or copied")
        return documents

    def check(self) -> None:
        """Check that the first documents can be read."""
        _ = self.head, self._ngrams.analyze

    def estimate_target(self) -> TargetKind:
        """Return the inferred kind of target."""
        if not self.target_names:
            return PLAIN_NUMBERS
        if self._codes is not None:
            return TargetKind(len(self._codes), is_declared=True)
        labelled = [document for document in self.head if document.label not in (None, "")]
        return kind_of(np.array([self._checked(document) for document in labelled]))

    def estimate_shape(self) -> tuple[int | None, int]:
        """Return numbers of rows and features, estimated from the first rows."""
        n_features = len(np.unique(self._ngrams.count([document.texts for document in self.head]).features))
        if self.layout == "files":
            return len(self.files), n_features
        n_text = sum(file.stat().st_size for file in self.files) * text_ratio(self.files[0], _HEAD_NBYTES)
        per_row = sum(len(text.encode("utf-8", "replace")) + 16 for d in self.head for text in d.texts) / len(self.head)
        return max(1, round(n_text / per_row)), n_features

    @property
    def encoding(self) -> dict[str, Any]:
        """How documents are encoded as rows."""
        folders = hashlib.sha256("\n".join(self._folders).encode()).hexdigest() if self._folders else None
        return {
            **self._analysis,
            "ngram_range": list(self._ngram_range),
            "hash": hashes.HASH_NAME,
            "text": self._fields,
            "target": self.target_names,
            "classes": self.target_classes,
            "folders": folders,
            "weighting": self._weighting,
            "unlabelled": self._unlabelled,
            "encoding": self._encoding,
        }


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False
