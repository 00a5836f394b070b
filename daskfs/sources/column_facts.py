"""Counts facts about a column of an unknown table: its distinct values, numbers, dates and words."""

from __future__ import annotations

import re
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from daskfs.sources.csv_types import CURRENCY, as_floats, numbers_in
from daskfs.sources.dates import parse_dates
from daskfs.sources.table_schema import TableFormat

KNOWN_FORMATS = {
    "date": (
        "%Y-%m-%d",
        "%d.%m.%Y",
        "%d/%m/%Y",
        "%m/%d/%Y",
        "%Y/%m/%d",
        "%d-%m-%Y",
        "%Y%m%d",
        "%d %b %Y",
        "%d-%b-%Y",
        "%b %d, %Y",
        "%d.%m.%y",
        "%m/%d/%y",
    ),
    "datetime": (
        "%Y-%m-%d %H:%M:%S",
        "%Y-%m-%dT%H:%M:%S",
        "%Y-%m-%d %H:%M",
        "%d.%m.%Y %H:%M:%S",
        "%d.%m.%Y %H:%M",
        "%d/%m/%Y %H:%M:%S",
        "%d/%m/%Y %H:%M",
        "%m/%d/%Y %H:%M:%S",
        "%m/%d/%Y %H:%M",
        "%Y/%m/%d %H:%M:%S",
        "%Y-%m-%dT%H:%M:%SZ",
    ),
    "time": ("%H:%M:%S", "%H:%M"),
}
_MOST_DATES = 1_000


class Facts:
    """Counts for one column.

    Parameters
    ----------
    name : str
    values : Arrow array
        Texts, numbers or dates; missing ones are null.
    layout : TableFormat
        Number format.
    """

    def __init__(self, name: str, values: pa.Array, layout: TableFormat) -> None:
        if pa.types.is_dictionary(values.type):
            values = values.dictionary_decode()
        if pa.types.is_boolean(values.type):
            values = pc.cast(values, pa.string())
        self.name, self.values, self.layout = name, values, layout
        self.n, self.n_missing = len(values), values.null_count
        self.is_text = pa.types.is_string(values.type) or pa.types.is_large_string(values.type)

    @cached_property
    def coded(self) -> pa.DictionaryArray:
        """The values, dictionary-encoded."""
        return self.values.dictionary_encode()

    @property
    def distinct(self) -> pa.Array:
        """The distinct values."""
        return self.coded.dictionary

    @cached_property
    def codes(self) -> np.ndarray:
        """Code of each row, -1 if missing."""
        return np.asarray(pc.fill_null(self.coded.indices, -1).to_numpy(zero_copy_only=False), dtype=np.int64)

    @cached_property
    def counts(self) -> np.ndarray:
        """Number of rows of each distinct value."""
        return np.bincount(self.codes[self.codes >= 0], minlength=len(self.distinct))

    @property
    def n_present(self) -> int:
        """Number of rows with a value."""
        return self.n - self.n_missing

    @cached_property
    def numbers_of_distinct(self) -> np.ndarray:
        """The number that each distinct value represents; NaN if it represents none."""
        if not self.is_text:
            temporal = pa.types.is_temporal(self.values.type)
            return np.full(len(self.distinct), np.nan) if temporal else as_floats(self.distinct)
        return numbers_in(self.distinct, self.layout)

    @cached_property
    def odd(self) -> list[str]:
        """Distinct texts that are not numbers."""
        return [text for text in self.distinct.filter(pa.array(np.isnan(self.numbers_of_distinct))).to_pylist() if text]

    @cached_property
    def share_of_numbers(self) -> float:
        """Share of numbers among the rows with a value."""
        if not self.n_present:
            return 0.0
        return float(self.counts[~np.isnan(self.numbers_of_distinct)].sum()) / self.n_present

    @cached_property
    def numbers(self) -> np.ndarray:
        """The number in each row, NaN if there is none."""
        return np.append(self.numbers_of_distinct, np.nan)[self.codes]

    @property
    def notation(self) -> dict[str, str]:
        """The dtype as a schema entry, if numbers are written as percentages or amounts of money; otherwise empty."""
        if not self.is_text:
            return {}
        if pc.any(pc.match_substring(self.distinct, "%")).as_py():
            return {"dtype": "percent"}
        is_plain = ~np.isnan(numbers_in(self.distinct, self.layout, "number"))
        return {"dtype": "currency"} if (~is_plain & ~np.isnan(self.numbers_of_distinct)).any() else {}

    @property
    def currencies(self) -> list[str]:
        """The currency symbols and codes in the texts."""
        found = [re.search(CURRENCY, str(text)) for text in self.distinct.to_pylist()]
        return sorted({match.group() for match in found if match})

    def first_odd(self) -> str:
        """Return the first text that is not a number, and its row."""
        row = int(np.flatnonzero((self.codes >= 0) & np.isnan(self.numbers))[0])
        return f"{quoted(self.values[row])} in row {row}"

    @property
    def has_leading_zeros(self) -> bool:
        """Whether texts are digits after a leading zero, which a number would lose."""
        return self.is_text and bool(pc.any(pc.match_substring_regex(self.distinct, r"^0\d+$")).as_py())

    @property
    def is_whole(self) -> bool:
        """Whether all numbers are integers."""
        known = self.numbers_of_distinct[~np.isnan(self.numbers_of_distinct)]
        return len(known) > 0 and bool(np.all(known == np.floor(known)))

    @property
    def words(self) -> float:
        """Mean number of words in the distinct texts."""
        return float(pc.mean(pc.add(pc.count_substring_regex(self.distinct.slice(0, 10_000), r"\S\s+\S"), 1)).as_py())

    def date(self) -> tuple[str, str, list[str]] | None:
        """Return kind and format of dates, and other formats that parse them all; None if they are not dates."""
        if pa.types.is_temporal(self.values.type):
            if pa.types.is_time(self.values.type):
                return "time", "", []
            is_day = pa.types.is_date(self.values.type) or self.distinct.equals(pc.floor_temporal(self.distinct))
            return ("date" if is_day else "datetime"), "", []
        if not self.is_text or len(self.distinct) < 2:
            return None
        some = self.distinct.slice(0, _MOST_DATES)
        found = [
            (kind, text)
            for kind, formats in KNOWN_FORMATS.items()
            for text in formats
            if _is_as_long(text, str(some[0])) and parse_dates(some, text).null_count == 0
        ]
        if not found:
            mixed = _two_formats(some)
            return None if mixed is None else (*mixed, [])
        kind, first = found[0]
        return kind, first, [other for also, other in found[1:] if also == kind]


def quoted(value: pa.Scalar) -> str:
    """Return a text in quotes, shortened to 30 characters."""
    text = str(value.as_py())
    return repr(text if len(text) <= 30 else text[:27] + "...")


def _two_formats(texts: pa.Array) -> tuple[str, str] | None:
    """Return kind and two formats that together parse all texts; None if there are none, or a text matches both."""
    for kind, formats in KNOWN_FORMATS.items():
        read = {
            text: is_read
            for text in formats
            if (is_read := np.array(pc.is_valid(parse_dates(texts, text)).to_pylist())).any()
            and all(_is_as_long(text, str(texts[row])) for row in np.flatnonzero(is_read)[:1].tolist())
        }
        for first, of_first in read.items():
            for second, of_second in read.items():
                if first != second and (of_first ^ of_second).all() and of_first.sum() >= of_second.sum():
                    return kind, f"{first} | {second}"
    return None


def _is_as_long(date_format: str, text: str) -> bool:
    """Return whether a text has the format's separators; digits alone (%Y%m%d) must be a plausible date."""
    separators = re.sub(r"%.", "", date_format)
    if not separators:
        return re.fullmatch(r"(19|20)\d{6}", text.strip()) is not None
    return all(sign in text for sign in separators)
