"""Vowpal Wabbit's text: ``[label [weight [base]]] ['tag]|namespace[:scale] feature[:value] ... |namespace ...``."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from daskfs import errors
from daskfs.documents import PATH, Words
from daskfs.errors import DaskfsError
from daskfs.kernels.text import hashes, vowpal
from daskfs.kernels.text.lines import ENTRIES, NAME_TEXT, NAMES, NOT_UTF8, ROWS, TEXT, Bounds
from daskfs.kernels.text.words import MARGIN
from daskfs.sources.files import PathLike
from daskfs.sources.options import SparseOptions, check_choices
from daskfs.sources.sparse.base import SparseBlock
from daskfs.sources.sparse.kept_names import NamesInLines
from daskfs.sources.sparse.line_source import LineSource
from daskfs.sources.sparse.lines import LineFormat, Reading, texts_of
from daskfs.sources.sparse.named_lines import FIRST_TEXT_NBYTES

DataError = errors.DataError.about("sparse-rows")
SourceError = errors.SourceError.about("sparse-rows")


class VwOptions(SparseOptions):
    """Vowpal Wabbit's text: one file, several, or a glob; .gz, .bz2, .xz and .zst files are decompressed."""

    path: Annotated[Words, PATH]
    target: str | None = Field(default=None, description="name of the label")
    unlabelled: Literal["error", "drop"] | None = Field(default=None, description="treatment of lines without a label")
    weights: Literal["auto", "use", "ignore"] | None = Field(
        default=None, description="importance weights; auto: used if the first lines have some"
    )
    base: Literal["error", "ignore"] | None = Field(
        default=None, description="treatment of initial predictions, the third number of a line"
    )
    tell_names: bool | None = Field(default=None, description="whether to keep the names of features; default: true")


class VwFormat(LineFormat[vowpal.Room]):
    """Format of lines with labels and namespaces.

    Parameters
    ----------
    layout : Layout
    has_tags : bool
        Whether tags are a label column.
    """

    nothing = (0, 0, 0, 0, 0)
    grows_with = (ROWS, ENTRIES, ENTRIES, ROWS, ROWS, ROWS, TEXT, NAMES, NAMES, NAME_TEXT, ROWS)

    def __init__(self, layout: vowpal.Layout, *, has_tags: bool) -> None:
        self._layout, self._has_tags = layout, has_tags

    def room(self, n_rows: int, n_entries: int) -> vowpal.Room:
        """Return buffers for `n_rows` rows and `n_entries` entries."""
        return vowpal.Room(
            np.empty(n_rows + 1, np.int64),
            np.empty(n_entries, np.uint64),
            np.empty(n_entries, np.float32),
            np.empty(n_rows, np.float64),
            np.empty(n_rows, np.float64),
            np.empty(n_rows + 1, np.int64),
            np.empty(FIRST_TEXT_NBYTES, np.uint8),
            np.empty(n_entries if self._layout.tells_names and self._layout.sorts else 0, np.uint64),
            np.empty(n_entries if self._layout.tells_names else 0, np.int64),
            np.empty(FIRST_TEXT_NBYTES, np.uint8),
            np.empty(n_rows + 1, np.int64),
        )

    def read(
        self, text: np.ndarray, start: int, stop: int, bounds: Bounds, room: vowpal.Room, counts: tuple[int, ...]
    ) -> Reading:
        """Parse lines."""
        position, n_lines, n_dropped, *found, why, place = vowpal.read_rows(
            text, start, stop, self._layout, bounds, room, *counts
        )
        if self._layout.tells_names:
            room.lines[counts[-1] : counts[-1] + position - start] = text[start:position]
        return Reading(position, n_lines, tuple(found), why, place, n_dropped)

    def block(self, start: int, room: vowpal.Room, counts: tuple[int, ...]) -> SparseBlock:
        """Return the parsed rows."""
        n_rows, n_entries, n_tag, n_ids, n_text = counts
        data = room.data[:n_entries]
        tags = {"tag": texts_of(room.tags[:n_tag], room.tag_offsets[: n_rows + 1])} if self._has_tags else {}
        return SparseBlock(
            start,
            room.indptr[: n_rows + 1],
            room.features[:n_entries],
            None if np.all(data == 1.0) else data,
            room.y[:n_rows],
            room.weight[:n_rows] if self._layout.has_weight else None,
            tags,
            self._names(room, n_rows, n_ids, n_text) if self._layout.tells_names else None,
        )

    def _names(self, room: vowpal.Room, n_rows: int, n_ids: int, n_text: int) -> NamesInLines:
        ids, lines = room.ids if self._layout.sorts else room.features, room.lines[: n_text + MARGIN]
        return NamesInLines(ids[:n_ids], room.places[:n_ids], lines, room.ids_of_rows[: n_rows + 1])

    def fault(self, why: int, found: str, where: str) -> DaskfsError:
        """Return the error for a faulty word."""
        shown = repr(found) if found else "the end of the line"
        problem, remedy = _FAULTS[why]
        is_value = why in (vowpal.LABEL_NOT_FINITE, vowpal.VALUE_NOT_FINITE, vowpal.SUM_NOT_FINITE)
        return (DataError if is_value else SourceError)(problem.format(shown), where, remedy)


_FAULTS = {
    vowpal.NO_BAR: ("expected a bar before the features, found a line that ends with {}", "write label |namespace ..."),
    vowpal.LABEL: (
        "expected one number as label, found {}",
        "labels must be numbers; a tag comes last before the bar",
    ),
    vowpal.WORDS: ("expected label, weight and base before the bar, found {}", "a tag comes last before the bar"),
    vowpal.LABEL_NOT_FINITE: ("expected a finite label, found {}", "remove or fix the line"),
    vowpal.NO_LABEL: (
        "expected a label, found none before {}",
        "set unlabelled: drop; a word next to the bar is a tag, so put a space after a label",
    ),
    vowpal.WEIGHT: ("expected a weight of at least 0, found {}", "fix the line, or set weights: ignore"),
    vowpal.WEIGHT_LATE: ("expected no weight, as in the first lines, found {}", "set weights: use, or ignore"),
    vowpal.BASE: ("initial predictions are not used, found {}", "set base: ignore"),
    vowpal.SCALE: ("expected namespace or namespace:scale, found {}", "fix the line"),
    vowpal.NAME: ("expected the name of a feature, found {}", "name the feature: name:value"),
    vowpal.CONTROL: ("expected text, found a control character: {}", "check that it is Vowpal Wabbit's text"),
    vowpal.VALUE: ("expected feature or feature:value with a number, found {}", "fix the value; names have no colon"),
    vowpal.VALUE_NOT_FINITE: (
        "expected a value that is finite in single precision, found {}",
        "remove the feature, or fix or rescale the values",
    ),
    vowpal.SUM_NOT_FINITE: (
        "the sum of the values of a duplicate feature exceeds single precision, in the line of {}",
        "remove a duplicate, or rescale the values",
    ),
    NOT_UTF8: ("expected UTF-8 text, found {}", "save the file as UTF-8, or set tell_names: false"),
}


class VwSource(LineSource):
    """Files of Vowpal Wabbit's text.

    Parameters
    ----------
    path : path-like or list of path-like
        A file, several, a pattern or a folder; decompressed according to their endings.
    target : str
        Name of the label.
    unlabelled : {"error", "drop", "keep"}
        Treatment of lines without a label; "keep" sets the target to NaN, so that a model can predict it.
    weights : {"auto", "use", "ignore"}
        Importance weights, the second number of a line; by default they are used if one of the first lines has one.
    base : {"error", "ignore"}
        Treatment of initial predictions, the third number, which no method uses.
    tell_names : bool
        Whether blocks pass on the names of their features.

    Raises
    ------
    SourceError
        A missing, empty or unreadable file.

    Notes
    -----
    The id of a feature is ``xxh64(feature, seed=xxh64(namespace, seed=0)) % 2**63``, computed from the bytes of the
    names, with seed 0 if the namespace has no name; its name is ``namespace^feature``, or ``feature``. Unlike in Vowpal
    Wabbit, names that are numbers are hashed like any other. As there, values of duplicate features in a line are
    summed, zeros are dropped, and a word next to the first bar is a tag. Tags are the label column "tag", if the first
    lines have some.
    """

    kind, options, endings = "vw", VwOptions, (".vw",)
    features_are_ids, namespace_mark = True, "^"
    _sorts = True

    def __init__(
        self,
        path: PathLike | Sequence[PathLike],
        target: str = "target",
        unlabelled: Literal["error", "drop", "keep"] = "error",
        weights: Literal["auto", "use", "ignore"] = "auto",
        base: Literal["error", "ignore"] = "error",
        tell_names: bool = True,
    ) -> None:
        super().__init__(path)
        check_choices(
            unlabelled=(unlabelled, ("error", "drop", "keep")),
            weights=(weights, ("auto", "use", "ignore")),
            base=(base, ("error", "ignore")),
        )
        self.target_names = [target]
        self._unlabelled, self._weights, self._base, self._tell_names = unlabelled, weights, base, tell_names

    @property
    def has_weight(self) -> bool:  # type: ignore[override]
        """Whether weights are used."""
        if self._weights != "auto":
            return self._weights == "use"
        return self.head.weight is not None and bool((self.head.weight != 1.0).any())

    @property
    def label_names(self) -> list[str]:  # type: ignore[override]
        """The tag, if the first lines have one."""
        return ["tag"] if any(self.head.labels["tag"]) else []

    @property
    def encoding(self) -> dict[str, Any]:
        """How lines were read, and the hash function."""
        return {
            "target": self.target_names,
            "hash": hashes.HASH_NAME,
            "unlabelled": self._unlabelled,
            "has_weight": self.has_weight,
            "base": self._base,
        }

    def as_it_stands(self) -> VwSource:
        """Return a source whose rows are neither sorted nor free of duplicates."""
        source = copy(self)
        source._sorts = False
        return source

    def line_format(self, *, is_head: bool = False) -> VwFormat:
        """Return the parser of the lines."""
        layout = vowpal.Layout(
            drops_unlabelled=self._unlabelled == "drop",
            keeps_unlabelled=self._unlabelled == "keep",
            ignores_base=self._base == "ignore",
            has_weight=is_head or self.has_weight,
            ignores_weight=self._weights == "ignore",
            tells_names=self._tell_names,
            sorts=self._sorts,
        )
        return VwFormat(layout, has_tags=is_head or bool(self.label_names))
