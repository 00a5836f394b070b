"""Files in the format of SVMlight and LIBSVM: ``label [qid:n] index:value index:value ... # comment``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias

import numpy as np
from pydantic import Discriminator, Field, Tag

from daskfs import errors
from daskfs.cluster.workers import Here, Workers
from daskfs.documents import PATH, Words
from daskfs.errors import DaskfsError
from daskfs.kernels.text import svmlight
from daskfs.kernels.text.lines import ENTRIES, ROWS, Bounds, Entries
from daskfs.sources.base import survey_part, until_fault
from daskfs.sources.csv_records import TextPart, count_lines
from daskfs.sources.files import PathLike
from daskfs.sources.options import SparseOptions, check_choices
from daskfs.sources.sparse.base import MOST_COLUMNS, NamedIds, SparseBlock, numbered
from daskfs.sources.sparse.line_source import LineSource, open_part, skip_mark
from daskfs.sources.sparse.lines import LineFormat, Pieces, Reading, blocks_of

ConfigError = errors.ConfigError.about("sparse-rows")
DataError = errors.DataError.about("sparse-rows")
SourceError = errors.SourceError.about("sparse-rows")

LARGEST_ID = 2**63

AutoOrNot: TypeAlias = Annotated[
    Annotated[Literal["auto"], Tag("word")] | Annotated[bool, Tag("bool")],
    Discriminator(lambda value: "word" if isinstance(value, str) else "bool"),
]


class LibsvmOptions(SparseOptions):
    """Text in the format of SVMlight and LIBSVM: one file, several, or a glob; also .gz, .bz2, .xz and .zst."""

    path: Annotated[Words, PATH]
    target: str | None = Field(default=None, description="name of the label")
    zero_based: AutoOrNot | None = Field(default=None, description="whether indices begin with 0; auto: if one is 0")
    feature_ids: AutoOrNot | None = Field(
        default=None, description="whether indices are ids instead of columns; auto: if one is 2^31 or more"
    )
    n_features: Annotated[int, Field(ge=1, le=MOST_COLUMNS)] | None = Field(
        default=None, description="number of columns, if known"
    )
    sort: bool | None = Field(default=None, description="accept indices in any order; otherwise they must ascend")
    several_labels: Literal["error", "first"] | None = Field(
        default=None, description="treatment of lines with labels such as 1,3"
    )


class Survey(NamedTuple):
    """What must be known about all lines before the first is parsed."""

    n_rows: int
    has_zero: bool
    largest: int
    """The largest index."""


class Room(NamedTuple):
    """Buffers of a block."""

    indptr: np.ndarray
    features: np.ndarray
    data: np.ndarray
    y: np.ndarray
    qid: np.ndarray


class SvmlightFormat(LineFormat[Room]):
    """Format of lines with a label and entries.

    Parameters
    ----------
    base : int
        Index of the first column.
    largest : int
        Largest index.
    has_qid, sorts, takes_first, keeps_unlabelled : bool
        See `daskfs.kernels.text.svmlight.Layout`.
    """

    grows_with = (ROWS, ENTRIES, ENTRIES, ROWS, ROWS)

    def __init__(
        self, base: int, largest: int, *, has_qid: bool, sorts: bool, takes_first: bool, keeps_unlabelled: bool = False
    ) -> None:
        self._layout = svmlight.Layout(
            np.uint64(base), np.uint64(largest), has_qid, sorts, takes_first, keeps_unlabelled
        )

    def room(self, n_rows: int, n_entries: int) -> Room:
        """Return buffers for `n_rows` rows and `n_entries` entries."""
        return Room(
            np.zeros(n_rows + 1, np.int64),
            np.empty(n_entries, np.uint64),
            np.empty(n_entries, np.float32),
            np.empty(n_rows, np.float64),
            np.empty(n_rows, np.int64),
        )

    def read(
        self, text: np.ndarray, start: int, stop: int, bounds: Bounds, room: Room, counts: tuple[int, ...]
    ) -> Reading:
        """Parse lines."""
        position, n_lines, n_rows, n_entries, why, place = svmlight.read_rows(
            text, start, stop, self._layout, bounds, Entries(*room[:4]), room.qid, *counts
        )
        return Reading(position, n_lines, (n_rows, n_entries), why, place)

    def block(self, start: int, room: Room, counts: tuple[int, ...]) -> SparseBlock:
        """Return the parsed rows."""
        n_rows, n_entries = counts
        data, labels = room.data[:n_entries], {}
        if self._layout.has_qid:
            qid = room.qid[:n_rows]
            labels["qid"] = np.where(qid < 0, "", qid.astype(np.dtypes.StringDType()))
        return SparseBlock(
            start,
            room.indptr[: n_rows + 1],
            room.features[:n_entries],
            None if np.all(data == 1.0) else data,
            room.y[:n_rows],
            labels=labels,
        )

    def fault(self, why: int, found: str, where: str) -> DaskfsError:
        """Return the error for a faulty word."""
        problem, remedy = self._explained(why, found)
        is_value = why in (svmlight.LABEL_NOT_FINITE, svmlight.VALUE_NOT_FINITE)
        return (DataError if is_value else SourceError)(problem, where, remedy)

    def _explained(self, why: int, found: str) -> tuple[str, str]:
        shown, base = repr(found) if found else "the end of the line", self._layout.base
        largest = int(self._layout.largest)
        faults = {
            svmlight.LABEL: (f"expected a label that is a number, found {shown}", "begin the line with a number"),
            svmlight.LABELS: (
                f"expected one label, found several: {shown}",
                "set several_labels: first, or write one file per label",
            ),
            svmlight.LABEL_NOT_FINITE: (f"expected a finite label, found {shown}", "remove or fix the line"),
            svmlight.INDEX: (f"expected index:value, found {shown}", "fix the line"),
            svmlight.ZERO: (f"expected indices from 1 on, found {shown}", "set zero_based: true"),
            svmlight.LARGE: (
                f"expected indices up to {largest:,}, found {shown}",
                "fix the index"
                if largest == LARGEST_ID
                else "set n_features to the number of columns, or omit it; or set feature_ids: true",
            ),
            svmlight.ORDER: (f"expected ascending indices, found {shown} after a larger one", "set sort: true"),
            svmlight.DUPLICATE: (f"expected each index once in a line, found {shown} again", "remove one of them"),
            svmlight.VALUE: (f"expected index:value with a number as value, found {shown}", "fix the value"),
            svmlight.VALUE_NOT_FINITE: (
                f"expected a value that is finite in single precision, found {shown}",
                "remove the entry, or fix or rescale the values",
            ),
            svmlight.QID: (f"expected qid: and a whole number below 2^63, found {shown}", "fix the query id"),
            svmlight.QID_LATE: (
                f"expected one query id after the label, also in the first lines of the files; found {shown}",
                "use query ids in all lines or in none",
            ),
        }
        problem, remedy = faults[why]
        index, _, value = found.partition(":")
        if why == svmlight.LABEL and value:
            remedy += ", for example 0: there is an entry in place of the label"
        elif why == svmlight.INDEX and index[:1] == "-" and index[1:].isdecimal():
            problem = f"expected indices from {base} on, found the negative {shown}"
        elif why in (svmlight.LABEL, svmlight.VALUE) and _is_not_finite(value or found):
            remedy = "remove or fix it"
        return problem, remedy


def _is_not_finite(text: str) -> bool:
    try:
        return not math.isfinite(float(text))
    except ValueError:
        return False


class LibsvmSource(LineSource):
    """Files in the format of SVMlight and LIBSVM.

    Parameters
    ----------
    path : path-like or list of path-like
        A file, several, a pattern or a folder; decompressed according to their endings.
    target : str
        Name of the label.
    zero_based : {"auto"} or bool
        Whether the index of the first column is 0 instead of 1. By default this is decided by whether 0 occurs in one
        of the files, which takes a pass over them.
    feature_ids : {"auto"} or bool
        Whether indices are ids of features, up to 2⁶³, kept unchanged; by default if one is 2³¹ or more. True avoids
        the pass over the files.
    n_features : int, optional
        Number of columns; by default determined by the largest index in a pass over the files.
    sort : bool
        Whether to accept indices in any order; otherwise they must ascend, as the format requires.
    several_labels : {"error", "first"}
        Treatment of lines with several labels, ``1,3``.
    unlabelled : {"error", "keep"}
        Treatment of lines that begin with an entry: "keep" sets the target to NaN, so that a model can predict it.

    Raises
    ------
    SourceError
        A missing, empty or unreadable file.

    Notes
    -----
    Features are named by their index in the file. Query ids are the label column "qid", if the first lines have them.
    Lines without entries are rows of zeros; blank lines and comments are skipped. Values are parsed as float64 (using
    at most 19 digits), then rounded to float32.
    """

    kind, options, endings = "libsvm", LibsvmOptions, (".svm", ".libsvm", ".svmlight")
    ids_say_names = True

    _survey: Survey | None = None

    def __init__(
        self,
        path: PathLike | Sequence[PathLike],
        target: str = "target",
        zero_based: bool | Literal["auto"] = "auto",
        feature_ids: bool | Literal["auto"] = "auto",
        n_features: int | None = None,
        sort: bool = False,
        several_labels: Literal["error", "first"] = "error",
        unlabelled: Literal["error", "keep"] = "error",
    ) -> None:
        super().__init__(path)
        check_choices(
            zero_based=(zero_based, ("auto", True, False)),
            feature_ids=(feature_ids, ("auto", True, False)),
            several_labels=(several_labels, ("error", "first")),
            unlabelled=(unlabelled, ("error", "keep")),
        )
        if n_features is not None and not 1 <= n_features <= MOST_COLUMNS:
            problem = f"expected 1 to {MOST_COLUMNS:,} columns, found {n_features:,}"
            raise ConfigError(problem, "source.n_features", "leave it out, or set feature_ids: true")
        self.target_names = [target]
        self._zero_based, self._feature_ids, self._n_features = zero_based, feature_ids, n_features
        self._sort, self._several_labels, self._unlabelled = sort, several_labels, unlabelled

    @property
    def first_number(self) -> int | None:  # type: ignore[override]
        """Index of the first column; None for ids, which are their own names."""
        return None if self.features_are_ids else int(not self.is_zero_based)

    def names_of(self, ids: np.ndarray) -> NamedIds:
        """Return the indices of features, as written in the files."""
        return numbered(ids, self.first_number or 0)

    @property
    def label_names(self) -> list[str]:  # type: ignore[override]
        """The query id, if the first lines have one."""
        return ["qid"] if self._has_qid else []

    @cached_property
    def _has_qid(self) -> bool:
        return any(text != "" for text in self.head.labels["qid"])

    @property
    def survey(self) -> Survey:
        """What must be known about all lines; reads all files."""
        if self._survey is None:
            self._survey = self._surveyed(Here())
        return self._survey

    def learn(self, workers: Workers) -> None:
        """Survey the files, in parts on the workers, if the options leave something open."""
        is_open = self._feature_ids is not True and (self._zero_based == "auto" or self._n_features is None)
        if is_open and self._survey is None:
            self._survey = self._surveyed(workers)

    def _surveyed(self, workers: Workers) -> Survey:
        parts, found = self.byte_ranges(), Survey(0, False, 0)
        results = workers.map_blocks(survey_part, parts, name="ingest-learn", shared=(self,))
        for _, more in until_fault(self, results):
            found = _widened(found, more)
        return found

    def survey_part(self, part: TextPart) -> Survey:
        """Return what a part shows."""
        with open_part(part) as stream:
            if part.start == 0:
                skip_mark(stream, part.file)
            return self._survey_any_order(stream, part) if self._sort else _survey(stream, str(part.file))

    def _survey_any_order(self, stream: Any, part: TextPart) -> Survey:
        found, form = Survey(0, False, 0), self._format_for(0, LARGEST_ID, has_qid=True)
        before = lambda: count_lines(part.file, part.start)  # noqa: E731
        for block in blocks_of(stream, str(part.file), form, 2**12, 2**18, before):
            starts = block.indptr[:-1][np.diff(block.indptr) > 0]
            has_zero = bool((block.features[starts] == 0).any())
            largest = int(block.features.max(initial=np.uint64(0)))
            found = _widened(found, Survey(block.n_rows, has_zero, largest))
        return found

    @property
    def features_are_ids(self) -> bool:  # type: ignore[override]
        """Whether indices are kept as ids."""
        if self._feature_ids != "auto":
            return self._feature_ids
        return self._n_features is None and self.survey.largest >= MOST_COLUMNS

    @property
    def is_zero_based(self) -> bool:
        """Whether the index of the first column is 0; True for ids, which are kept unchanged."""
        if self.features_are_ids:
            return True
        return self.survey.has_zero if self._zero_based == "auto" else self._zero_based

    @property
    def n_features(self) -> int | None:  # type: ignore[override]
        """Number of columns; None for ids."""
        if self.features_are_ids:
            return None
        if self._n_features is not None:
            return self._n_features
        return max(1, self.survey.largest + self.is_zero_based)

    @property
    def n_samples(self) -> int | None:  # type: ignore[override]
        """Number of rows, known if the files were surveyed."""
        return None if self._survey is None else self._survey.n_rows

    @property
    def encoder(self) -> dict[str, Any]:
        """How indices are read; in other files, their range may differ."""
        n_features = None if self.features_are_ids else MOST_COLUMNS
        options: dict[str, Any] = {
            "zero_based": self.is_zero_based,
            "feature_ids": self.features_are_ids,
            "n_features": n_features,
        }
        options |= {"target": self.target_names[0], "sort": self._sort, "several_labels": self._several_labels}
        return {"kind": self.kind, "options": options}

    @property
    def encoding(self) -> dict[str, Any]:
        """How lines were read."""
        return {
            "target": self.target_names,
            "zero_based": self.is_zero_based,
            "n_features": self.n_features,
            "several_labels": self._several_labels,
        }

    def estimate_shape(self) -> tuple[int | None, int]:
        """Return numbers of rows and columns, estimated from the first rows unless the files were surveyed."""
        rows = self.n_samples or self.estimate_rows()
        if self._survey is not None and not self.features_are_ids:
            return rows, self.n_features or 1
        return rows, self._n_features or int(self.head.features.max(initial=np.uint64(0))) + 1

    def line_format(self, *, is_head: bool = False) -> SvmlightFormat:
        """Return the parser of the lines."""
        if is_head:
            base = int(self._zero_based is False)
            n = None if self._feature_ids is True else self._n_features
            return self._format_for(base, LARGEST_ID if n is None else n - 1 + base, has_qid=True)
        if self.features_are_ids:
            return self._format_for(0, LARGEST_ID, has_qid=self._has_qid)
        base = int(not self.is_zero_based)
        return self._format_for(base, (self.n_features or 1) - 1 + base, has_qid=self._has_qid)

    def _format_for(self, base: int, largest: int, *, has_qid: bool) -> SvmlightFormat:
        return SvmlightFormat(
            base,
            largest,
            has_qid=has_qid,
            sorts=self._sort,
            takes_first=self._several_labels == "first",
            keeps_unlabelled=self._unlabelled == "keep",
        )

    def plan_notes(self) -> list[str]:
        """Return a note on how the indices were interpreted."""
        if self.features_are_ids:
            return ["indices are kept as 64-bit ids"] if self._feature_ids == "auto" else []
        why = "" if self._zero_based != "auto" else " (0 occurs)" if self.is_zero_based else " (0 does not occur)"
        first = int(not self.is_zero_based)
        return [f"indices begin with {first}{why}: the feature {str(first)!r} is column 0"]


def _widened(found: Survey, more: Survey) -> Survey:
    return Survey(found.n_rows + more.n_rows, found.has_zero or more.has_zero, max(found.largest, more.largest))


def _survey(stream: Any, place: str) -> Survey:
    found, pieces = Survey(0, False, 0), Pieces(stream, place)
    while pieces.fill():
        n_rows, has_zero, largest = svmlight.survey(pieces.text, pieces.start, pieces.stop)
        found = _widened(found, Survey(n_rows, has_zero, int(largest)))
        pieces.start = pieces.stop
    return found
