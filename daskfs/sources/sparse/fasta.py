"""FASTA and FASTQ: sequences become rows, k-mers become features."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from pydantic import Field

from daskfs import errors
from daskfs.documents import PATH, Words
from daskfs.losses import PLAIN_NUMBERS, TargetKind
from daskfs.matrix.target import kind_of
from daskfs.sources.byte_streams import text_ratio
from daskfs.sources.files import OfFiles, PathLike
from daskfs.sources.options import SourceOptions
from daskfs.sources.sparse.base import NamedIds, SparseBlock, SparseSource
from daskfs.sources.sparse.kmers import CountedRows, Kmers, KmerWeighting
from daskfs.sources.sparse.sequences import LabelFrom, Labels, Records, expand_sequences, read_records

ConfigError = errors.ConfigError.about("sequences")
SourceError = errors.SourceError.about("sequences")

MOST_CLASSES = 10_000
_HEAD_ROWS, _HEAD_NBYTES = 128, 2**18
_AT_ONCE_LETTERS = 2**20


class KmerOptions(SourceOptions):
    """Options of all sources of sequences: k-mers and labels."""

    path: Annotated[Words, PATH]
    target: str | None = Field(default=None, description="name of the target; default: 'label'")
    k: int | list[int] | None = Field(default=None, description="length of k-mers, 1 to 31, or several; default: 12")
    patterns: Words | None = Field(
        default=None, description="gapped k-mers instead of k: 11011 allows any letter in the middle"
    )
    canonical: bool | None = Field(default=None, description="a k-mer and its reverse complement are one feature")
    weighting: Literal["counts", "binary"] | None = Field(default=None, description="default: counts")
    label_pattern: str | None = Field(
        default=None, description="regular expression for the text from label_from; its first group is the label"
    )
    tell_names: bool | None = Field(default=None, description="whether to keep the names of features; default: true")


class FastaOptions(KmerOptions):
    """Sequences in FASTA or FASTQ, compressed or not, as k-mers."""

    window: int | None = Field(
        default=None, description="distinguish k-mers by position, in sequences of at most this length"
    )
    label_from: Literal["header", "file", "folder", "table"] | None = Field(
        default=None, description="where the label is; without it there is no target"
    )
    label_table: Annotated[str | None, PATH] = Field(
        default=None, description="file of ids (first word of a header) and labels, for label_from: table"
    )
    unlabelled: Literal["error", "drop"] | None = Field(default=None, description="treatment of rows without a label")


class FilePart(NamedTuple):
    """A file of a source."""

    number: int


class FastaSource(OfFiles, SparseSource):
    r"""Sequences with k-mers as features.

    Parameters
    ----------
    path : path-like or list of path-like
        A file, several, a pattern or a folder, from which .fa, .fasta, .fna, .fq and .fastq are read, compressed or
        not.
    target : str, optional
        Name of the target.
    k : int or list of int
        Length of k-mers, 1 to 31, or several lengths.
    patterns : str or list of str, optional
        Gapped k-mers instead of `k`: 1 for positions that count, 0 for positions with any letter.
    canonical : bool
        Whether a k-mer and its reverse complement are one feature, named by the alphabetically first of the two.
    window : int, optional
        Maximum length of sequences, which are then aligned windows: k-mers at different positions are different
        features.
    weighting : {"counts", "binary"}
        Whether the value is the number of occurrences in a sequence, or 1.
    label_from : {"header", "file", "folder", "table"}, optional
        Where the label is; without it there is no target.
    label_pattern : str, optional
        Regular expression whose first group is the label. The default is ``label=(\S+)`` for headers, and the whole
        name of a file (without its endings) or of its folder.
    label_table : path-like, optional
        Lines with an id (the first word of a header) and a label, separated by a tab or a comma.
    unlabelled : {"error", "drop", "keep"}
        Treatment of rows without a label; "keep" sets it to NaN, so that a model can predict it.
    tell_names : bool
        Whether blocks pass on the names of their features.

    Raises
    ------
    SourceError
        A missing, empty or unreadable file.
    ConfigError
        An invalid option, or options that cannot be combined.

    Notes
    -----
    An id is the code of the k-mer itself, with two bits per letter (`daskfs.kernels.text.kmers`), and determines its
    name: ``ACGT``, for patterns ``AC.GT``, for windows ``17:ACGT``, with positions counted from 0. Case is ignored, and
    U is read as T; k-mers with any other letter at a position that counts are omitted. Labels from headers and tables
    are numbers if those of the first rows are, otherwise classes; labels from files and folders are always classes.
    """

    kind, options = "fasta", FastaOptions
    features_are_ids = True

    def __init__(
        self,
        path: PathLike | Sequence[PathLike],
        target: str | None = None,
        k: int | Sequence[int] = 12,
        patterns: str | Sequence[str] | None = None,
        canonical: bool = False,
        window: int | None = None,
        weighting: KmerWeighting = "counts",
        label_from: LabelFrom | None = None,
        label_pattern: str | None = None,
        label_table: PathLike | None = None,
        unlabelled: Literal["error", "drop", "keep"] = "error",
        tell_names: bool = True,
    ) -> None:
        self.files = list(expand_sequences(path))
        self._kmers = Kmers(k, patterns, canonical=canonical, window=window, weighting=weighting)
        if unlabelled not in ("error", "drop", "keep"):
            raise ConfigError(f"found {unlabelled!r}", "source.unlabelled", "one of error, drop, keep")
        if label_from is None and (target or label_pattern or label_table):
            problem = "expected label_from, found none"
            raise ConfigError(problem, "source.label_from", "one of header, file, folder, table")
        if label_from == "table" and label_table is None and unlabelled == "keep":
            label_from = None
        self._labels = None if label_from is None else Labels(label_from, label_pattern, label_table)
        self._unlabelled, self.ids_say_names = unlabelled, tell_names
        self.target_names = [] if self._labels is None else [target or "label"]
        self.feature_names: list[str] = []
        self.notes, self.n_dropped = [], 0

    # rows

    @property
    def has_parts(self) -> bool:
        """True: files can be read independently."""
        return True

    def parts(self) -> Sequence[FilePart]:
        """Return the files."""
        _ = self._codes  # computed before the source is sent
        self.n_dropped = 0
        return [FilePart(number) for number in range(len(self.files))]

    def sparse_blocks(self, block_rows: int, block_nnz: int) -> Iterator[SparseBlock]:
        """Yield the sequences in order."""
        self.n_dropped, n_rows = 0, 0
        rows = (rows for file in self.files for rows in self._rows_of(file))
        for block in self._kmers.blocks_of(rows, block_rows, block_nnz, tells_names=self.ids_say_names):
            yield block
            n_rows += block.n_rows
        self.conclude([self.n_dropped], n_rows)

    def sparse_part_blocks(self, part: FilePart, block_rows: int, block_nnz: int) -> Iterator[SparseBlock]:
        """Yield the sequences of a file, numbered within it."""
        rows = self._rows_of(self.files[part.number])
        return self._kmers.blocks_of(rows, block_rows, block_nnz, tells_names=self.ids_say_names)

    def part_facts(self) -> int:
        """Return the number of rows dropped from the parts that were read here."""
        return self.n_dropped

    def conclude(self, facts: Sequence[int], n_samples: int) -> None:
        """Combine the numbers of dropped rows."""
        if n_samples == 0:
            raise SourceError("expected sequences, found none", self.place, "check how the files were made or copied")
        self.n_dropped = sum(facts)
        dropped = f"{self.n_dropped:,} rows dropped because they have no label"
        coded = [f"{text!r} is {code}" for code, text in enumerate(self.target_classes or ())]
        are_of_fit = self._unlabelled != "keep"
        self.notes[:] = [f"the target is coded: {', '.join(coded)}"] * bool(coded and are_of_fit) + [dropped] * bool(
            self.n_dropped
        )

    def _rows_of(self, file: Path) -> Iterator[CountedRows]:
        for records in read_records(file):
            y = self._targets_of(records, file)
            is_kept = np.full(len(records.headers), y is None or self._unlabelled == "keep") | ~np.isnan(
                y if y is not None else 0.0
            )
            self._refuse_longer(records, file)
            step = max(1, _AT_ONCE_LETTERS // max(1, int(np.diff(records.offsets).mean())))
            for start in range(0, len(records.headers), step):
                stop = min(start + step, len(records.headers))
                kept = is_kept[start:stop]
                codes, offsets = records.codes, records.offsets[start : stop + 1]
                if not kept.all():
                    lengths = np.diff(offsets)
                    codes = codes[offsets[0] : offsets[-1]][np.repeat(kept, lengths)]
                    offsets = np.append(0, np.cumsum(lengths[kept]))
                if kept.any():
                    yield self._kmers.count(codes, offsets, None if y is None else y[start:stop][kept])

    def _refuse_longer(self, records: Records, file: Path) -> None:
        window = self._kmers.window
        lengths = np.diff(records.offsets)
        if window is not None and lengths.max() > window:
            first = int(np.argmax(lengths > window))
            problem = f"expected at most {window} letters in a window, found {lengths[first]}"
            raise SourceError(problem, f"{file}:{records.line_numbers[first]}", "increase window")

    def names_of(self, ids: np.ndarray) -> NamedIds:
        """Return the k-mers of ids, each once."""
        return self._kmers.names_of(ids)

    # targets

    def _targets_of(self, records: Records, file: Path) -> np.ndarray | None:
        """Return the targets as numbers, NaN if there is no label."""
        if self._labels is None:
            return None
        labels = self._labels_of(records, file)
        y = np.full(len(labels), math.nan)
        codes = self._codes
        for k, label in enumerate(labels):
            if label is None:
                if self._unlabelled == "error":
                    problem = f"expected a label, found none in {records.headers[k]!r}"
                    if self._labels.label_from in ("file", "folder"):
                        problem = "expected a label in the name, found none"
                    remedy = "set label_pattern, or unlabelled: drop"
                    raise SourceError(problem, f"{file}:{records.line_numbers[k]}", remedy)
                self.n_dropped += self._unlabelled == "drop"
            elif codes is not None:
                y[k] = codes[label]
            elif is_number(label):
                y[k] = float(label)
            else:
                problem = f"expected a finite number as label, as in the first rows, found {label!r}"
                raise SourceError(problem, f"{file}:{records.line_numbers[k]}", "fix the label")
        return y

    def _labels_of(self, records: Records, file: Path) -> list[str | None]:
        labels = self._labels
        if labels is None or labels.label_from in ("file", "folder"):
            return [None if labels is None else labels.of_file(file)] * len(records.headers)
        return [labels.of_header(header) for header in records.headers]

    @cached_property
    def _codes(self) -> dict[str, int] | None:
        """Codes of the classes; None if the target is numeric."""
        labels = self._labels
        if labels is None:
            return None
        if labels.label_from in ("file", "folder"):
            return _coded({label for label in map(labels.of_file, self.files) if label is not None})
        if labels.table is not None:
            return None if all(map(is_number, labels.table.values())) else _coded(set(labels.table.values()))
        found = (
            label
            for file in self.files
            for records in read_records(file)
            for label in self._labels_of(records, file)
            if label is not None
        )
        head = list(islice(found, _HEAD_ROWS))
        if all(map(is_number, head)):
            return None
        classes = set(head)
        for label in found:
            classes.add(label)
            if len(classes) > MOST_CLASSES:
                problem = f"the target has more than {MOST_CLASSES:,} classes"
                raise SourceError(problem, self.place, "set another label_pattern")
        return _coded(classes)

    @property
    def target_classes(self) -> list[str] | None:
        """The classes, by code."""
        return None if self._codes is None else list(self._codes)

    # known before reading

    @cached_property
    def head(self) -> Records:
        """The first sequences."""
        for file in self.files:
            for records in read_records(file):
                return records
        raise SourceError("expected sequences, found none", self.place, "check how the files were made or copied")

    def check(self) -> None:
        """Check that the first sequences can be read."""
        _ = self.head

    def estimate_target(self) -> TargetKind:
        """Return the inferred kind of target."""
        if self._labels is None:
            return PLAIN_NUMBERS
        if self._codes is not None:
            return TargetKind(len(self._codes), is_declared=True)
        y = self._targets_of(self.head, self.files[0])
        return PLAIN_NUMBERS if y is None or np.isnan(y).all() else kind_of(y[~np.isnan(y)])

    def estimate_shape(self) -> tuple[int | None, int]:
        """Return numbers of rows and features, estimated from the first sequences."""
        n_head = min(_HEAD_ROWS, len(self.head.headers))
        counted = self._kmers.count(self.head.codes, self.head.offsets[: n_head + 1], None)
        n_text = sum(file.stat().st_size for file in self.files) * text_ratio(self.files[0], _HEAD_NBYTES)
        per_row = (int(self.head.offsets[n_head]) + sum(map(len, self.head.headers[:n_head]))) / n_head + 3
        return max(len(self.files), round(n_text / per_row)), len(np.unique(counted.features))

    def estimate_entries(self) -> int:
        """Return an upper bound for the number of k-mers in the text."""
        n_text = sum(file.stat().st_size for file in self.files) * text_ratio(self.files[0], _HEAD_NBYTES)
        return round(n_text * len(self._kmers.patterns))

    @property
    def encoding(self) -> dict[str, Any]:
        """How sequences are encoded as rows."""
        labels, facts = self._labels, {}
        if labels is not None:
            by_file = [labels.of_file(file) for file in self.files] if labels.label_from in ("file", "folder") else None
            known = repr(by_file if labels.table is None else sorted(labels.table.items()))
            facts = {
                "label_from": labels.label_from,
                "label_pattern": labels.pattern,
                "labels": hashlib.sha256(known.encode()).hexdigest(),
            }
        return {**self._kmers.encoding, **facts, "target": self.target_names, "unlabelled": self._unlabelled}


def is_number(text: str) -> bool:
    """Return whether a text is a finite number."""
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def _coded(classes: set[str]) -> dict[str, int]:
    return {name: code for code, name in enumerate(sorted(classes))}
