"""Click logs: delimited text in which each count and each string becomes a feature ``field=value``."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from daskfs import errors
from daskfs.documents import PATH, Words
from daskfs.errors import DaskfsError, did_you_mean
from daskfs.kernels.text import clicks, hashes
from daskfs.kernels.text.lines import ENTRIES, NAME_TEXT, NAMES, NOT_UTF8, ROWS, Bounds
from daskfs.sources.byte_streams import open_bytes
from daskfs.sources.files import PathLike
from daskfs.sources.log_bins import bins
from daskfs.sources.options import SparseOptions, check_choices
from daskfs.sources.sparse.base import SparseBlock
from daskfs.sources.sparse.line_source import LineSource, skip_mark
from daskfs.sources.sparse.lines import LONGEST_LINE_NBYTES, Reading, joined
from daskfs.sources.sparse.named_lines import NamedLineFormat

ConfigError = errors.ConfigError.about("sparse-rows")
SourceError = errors.SourceError.about("sparse-rows")


class ClicksOptions(SparseOptions):
    """Click logs: delimited text with binned counts and hashed strings; compressed or not."""

    path: Annotated[Words, PATH]
    target: str = Field(description="target column, numeric")
    columns: list[str] | None = Field(default=None, description="names of all columns, if the files have no header")
    counts: list[str] | None = Field(default=None, description="columns of counts, which are binned")
    strings: list[str] | None = Field(default=None, description="columns of strings; default: all others")
    delimiter: str | None = Field(default=None, description="default: tab")
    missing: Literal["none", "token"] | None = Field(
        default=None, description="an empty value is no feature (default), or a separate one"
    )
    unlabelled: Literal["error", "drop"] | None = Field(default=None, description="treatment of rows without a target")
    tell_names: bool | None = Field(default=None, description="whether to keep the names of features; default: true")


class ClicksFormat(NamedLineFormat[clicks.Room]):
    """Format of click logs.

    Parameters
    ----------
    names : sequence of str
        Column names.
    kinds : sequence of int
        See `daskfs.kernels.text.clicks`.
    delimiter : str
    has_token, drops_unlabelled, keeps_unlabelled, tells_names : bool
    """

    nothing = (0, 0, 0, 0)
    grows_with = (ROWS, ENTRIES, ENTRIES, ROWS, NAMES, NAMES, NAME_TEXT, NAMES)

    def __init__(
        self,
        names: Sequence[str],
        kinds: Sequence[int],
        delimiter: str,
        *,
        has_token: bool,
        drops_unlabelled: bool,
        keeps_unlabelled: bool,
        tells_names: bool,
    ) -> None:
        fields, field_offsets = joined(names)
        edges, texts = bins()
        bin_text, bin_offsets = joined(texts)
        seeds = np.empty(len(names), np.uint64)
        hashes.hash_texts(fields, field_offsets, np.uint64(0), seeds)
        self.tells_names, self._names = tells_names, names
        self._columns = clicks.Columns(
            ord(delimiter),
            np.array(kinds, np.uint8),
            seeds,
            fields,
            field_offsets,
            edges,
            bin_text,
            bin_offsets,
            has_token,
            drops_unlabelled,
            keeps_unlabelled,
            tells_names,
        )

    def room(self, n_rows: int, n_entries: int) -> clicks.Room:
        """Return buffers for `n_rows` rows and `n_entries` entries."""
        return clicks.Room(
            np.empty(n_rows + 1, np.int64),
            np.empty(n_entries, np.uint64),
            np.empty(n_entries, np.float32),
            np.empty(n_rows, np.float64),
            *self.room_for_names(),
        )

    def read(
        self, text: np.ndarray, start: int, stop: int, bounds: Bounds, room: clicks.Room, counts: tuple[int, ...]
    ) -> Reading:
        """Parse lines."""
        position, n_lines, n_dropped, *found, why, place = clicks.read_rows(
            text, start, stop, self._columns, bounds, room, *counts
        )
        return Reading(position, n_lines, tuple(found), why, place, n_dropped)

    def block(self, start: int, room: clicks.Room, counts: tuple[int, ...]) -> SparseBlock:
        """Return the parsed rows."""
        n_rows, n_entries, *_ = counts
        data = room.data[:n_entries]
        return SparseBlock(
            start,
            room.indptr[: n_rows + 1],
            room.features[:n_entries],
            None if np.all(data == 1.0) else data,
            room.y[:n_rows],
            names=self.names_of(room, counts),
        )

    def fault(self, why: int, found: str, where: str) -> DaskfsError:
        """Return the error for a faulty value."""
        n_columns = len(self._names)
        problem, remedy = {
            clicks.TOO_FEW: (f"expected {n_columns} values, found fewer; the last is {found!r}", "check the delimiter"),
            clicks.TOO_MANY: (f"expected {n_columns} values, found more from {found!r} on", "check the delimiter"),
            clicks.TARGET_MISSING: ("expected a target, found none", "set unlabelled: drop"),
            clicks.TARGET_NO_NUMBER: (
                f"expected a finite number as target, found {found!r}",
                "if the first line is a header, omit columns; otherwise fix the value",
            ),
            clicks.COUNT_NO_NUMBER: (
                f"expected a finite number as count, found {found!r}",
                "fix the value, or add the column to strings",
            ),
            NOT_UTF8: (f"expected UTF-8 text, found {found!r}", "save the file as UTF-8, or set tell_names: false"),
        }[why]
        return SourceError(problem, where, remedy)


class ClicksSource(LineSource):
    """Click logs such as Criteo's.

    Parameters
    ----------
    path : path-like or list of path-like
        A file, several, a pattern or a folder; decompressed according to their endings.
    target : str
        Target column, numeric.
    columns : list of str, optional
        Names of all columns, if the files have no header.
    counts : list of str, optional
        Columns of counts, see `bins`; by default none.
    strings : list of str, optional
        Columns of strings; by default all except target and counts. Other columns are ignored.
    delimiter : str
        One character, by default a tab. Quotes have no special meaning.
    missing : {"none", "token"}
        Whether an empty value is no feature, or the feature ``field=``.
    unlabelled : {"error", "drop", "keep"}
        Treatment of rows without a target; "keep" sets it to NaN, so that a model can predict it. The column is then
        optional.
    tell_names : bool
        Whether blocks pass on the names of their features.

    Raises
    ------
    SourceError
        A missing, empty or unreadable file.
    ConfigError
        A column that does not exist, or a duplicate.

    Notes
    -----
    A feature's id is ``xxh64(value, seed=xxh64(field, seed=0)) % 2**63``, where the value of a count is the text of its
    bin; its name is ``field=value``.
    """

    kind, options, endings = "clicks", ClicksOptions, (".tsv", ".csv", ".txt", ".log")
    features_are_ids, namespace_mark = True, "="

    def __init__(
        self,
        path: PathLike | Sequence[PathLike],
        target: str,
        columns: Sequence[str] | None = None,
        counts: Sequence[str] = (),
        strings: Sequence[str] | None = None,
        delimiter: str = "\t",
        missing: Literal["none", "token"] = "none",
        unlabelled: Literal["error", "drop", "keep"] = "error",
        tell_names: bool = True,
    ) -> None:
        super().__init__(path)
        check_choices(
            missing=(missing, ("none", "token")),
            unlabelled=(unlabelled, ("error", "drop", "keep")),
        )
        if len(delimiter) != 1 or not delimiter.isascii() or delimiter.isalnum() or delimiter in "\r\n\0+-.":
            problem = f"expected one ASCII character that is no line end and not part of numbers, found {delimiter!r}"
            raise ConfigError(problem, "source.delimiter", "omit it for tab")
        self.target_names, self.has_header = [target], columns is None
        self._columns, self._counts, self._strings = columns, list(counts), strings
        self._delimiter, self._missing, self._unlabelled = delimiter, missing, unlabelled
        self._tell_names = tell_names

    @property
    def namespaces(self) -> list[str]:  # type: ignore[override]
        """Columns that are read as features."""
        return [name for name, kind in self.columns.items() if kind in (clicks.COUNT, clicks.STRING)]

    @cached_property
    def columns(self) -> dict[str, int]:
        """Names of the columns, with the kind of each."""
        target = self.target_names[0]
        if self._columns is None:
            names = self._names_of(self.files[0])
        else:
            n_values = len(self._first_line(self.files[0]).split(self._delimiter.encode()))
            is_without = self._unlabelled == "keep" and n_values == len(self._columns) - 1
            names = [name for name in self._columns if not (is_without and name == target)]
        for file in self.files[1:] if self.has_header else ():
            if self._names_of(file) != names:
                problem = f"expected the columns of {self.files[0].name} in the same order"
                raise SourceError(problem, f"{file}:1", "write the files with the same columns")
        kinds = dict.fromkeys(names, clicks.STRING if self._strings is None else clicks.SKIPPED)
        if len(kinds) < len(names):
            double = next(name for k, name in enumerate(names) if name in names[:k])
            raise ConfigError(f"two columns are called {double!r}", self.place, "rename one of them")
        asked = [(clicks.STRING, "strings", list(self._strings or ())), (clicks.COUNT, "counts", self._counts)]
        if target in names or self._unlabelled != "keep":
            asked.append((clicks.TARGET, "target", [target]))
        for kind, option, wanted in asked:
            for name in wanted:
                if name not in kinds:
                    problem = f"no column {name!r}{did_you_mean(name, names)}"
                    remedy = f"the columns of {self.place} are {', '.join(names[:12])}"
                    raise ConfigError(problem, f"source.{option}", remedy + "; set delimiter" * (len(names) == 1))
                kinds[name] = kind
        return kinds

    @staticmethod
    def _first_line(file: Path) -> bytes:
        with open_bytes(file) as stream:
            skip_mark(stream, file)
            return stream.readline(LONGEST_LINE_NBYTES).rstrip(b"\r\n")

    def _names_of(self, file: Path) -> list[str]:
        line = self._first_line(file)
        try:
            return line.decode().split(self._delimiter)
        except UnicodeDecodeError as fault:
            problem = f"expected UTF-8 text, found byte 0x{line[fault.start]:02x}"
            raise SourceError(problem, f"{file}:1", "save the file as UTF-8") from None

    @property
    def encoder(self) -> dict[str, Any]:
        """How lines are read, including the columns that other files must have."""
        of_kind = {kind: [name for name, own in self.columns.items() if own == kind] for kind in self.columns.values()}
        columns = {"strings": of_kind.get(clicks.STRING, []), "counts": of_kind.get(clicks.COUNT, [])}
        options: dict[str, Any] = {"target": self.target_names[0], "delimiter": self._delimiter}
        options |= {"missing": self._missing, "columns": None if self._columns is None else list(self._columns)}
        return {"kind": self.kind, "options": options | columns}

    @property
    def encoding(self) -> dict[str, Any]:
        """Kinds of the columns, and the hash function."""
        return {
            "columns": self.columns,
            "hash": hashes.HASH_NAME,
            "bins": "log squared",
            "delimiter": self._delimiter,
            "missing": self._missing,
            "unlabelled": self._unlabelled,
        }

    def line_format(self, *, is_head: bool = False) -> ClicksFormat:
        """Return the parser of the lines."""
        return ClicksFormat(
            list(self.columns),
            list(self.columns.values()),
            self._delimiter,
            has_token=self._missing == "token",
            drops_unlabelled=self._unlabelled == "drop",
            keeps_unlabelled=self._unlabelled == "keep",
            tells_names=self._tell_names,
        )
