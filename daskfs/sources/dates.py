"""Dates and times of a table: parses text with Arrow's kernels and extracts years, months, hours ..."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

RANGES = {
    "quarter": range(1, 5),
    "month": range(1, 13),
    "day": range(1, 32),
    "weekday": range(7),
    "hour": range(24),
    "minute": range(60),
    "second": range(60),
}
"""All possible values of each part; weekday 0 is Monday. Years come from the data or the schema."""

_KERNELS = {
    "year": pc.year,
    "quarter": pc.quarter,
    "month": pc.month,
    "day": pc.day,
    "weekday": pc.day_of_week,
    "hour": pc.hour,
    "minute": pc.minute,
    "second": pc.second,
}
_OF_TIME = {"hour", "minute", "second"}
_SHORTHANDS = {"%F": "%Y-%m-%d", "%D": "%m/%d/%y", "%T": "%H:%M:%S", "%R": "%H:%M"}
_NAMES = ("%a", "%A", "%b", "%B", "%h", "%p")
_MAX_DAY_THAT_CAN_BE_WRONG = 3


def have_parts(values: pa.Array, parts: Sequence[str]) -> bool:
    """Whether the type of values has these parts: dates have no hour, times no year, numbers and durations nothing."""
    dtype = values.type.value_type if pa.types.is_dictionary(values.type) else values.type
    if pa.types.is_date(dtype):
        return not set(parts) & _OF_TIME
    if pa.types.is_time(dtype):
        return set(parts) <= _OF_TIME
    return pa.types.is_string(dtype) or pa.types.is_large_string(dtype) or pa.types.is_timestamp(dtype)


def parse_dates(values: pa.Array, date_format: str) -> pa.Array:
    """Return timestamps; null if a text is missing or does not match the format.

    Parameters
    ----------
    values : Arrow array of text, dictionary-encoded text, or of any temporal type
    date_format : str
        In strptime's notation. Several formats may be given, separated by ``|``; each text is read by the first that
        matches. Single digits are accepted in padded fields.

    Notes
    -----
    Arrow's strptime silently turns 31/2/2007 into 3 March; such dates have a day of at most 3 that differs from the
    text, and are made null here. Years below 1000 are made null too: they are two-digit years read with %Y.
    """
    if pa.types.is_dictionary(values.type):
        return parse_dates(values.dictionary, date_format).take(values.indices)
    if pa.types.is_temporal(values.type):
        return values
    if pa.types.is_null(values.type):
        return values.cast(pa.timestamp("s"))
    first, *others = map(str.strip, date_format.split("|"))
    dates = _parsed(values, first)
    for another in others:
        if dates.null_count == values.null_count:
            break
        dates = pc.coalesce(dates, _parsed(values, another))
    return dates


def _parsed(values: pa.Array, date_format: str) -> pa.Array:
    for shorthand, meaning in _SHORTHANDS.items():
        date_format = date_format.replace(shorthand, meaning)
    dates = pc.strptime(values, format=date_format, unit="s", error_is_null=True)
    dates = pc.if_else(pc.greater_equal(pc.year(dates), 1000), dates, pa.scalar(None, dates.type))
    if "%d" not in date_format:
        return dates
    suspects = np.flatnonzero(
        pc.fill_null(pc.less_equal(pc.day(dates), _MAX_DAY_THAT_CAN_BE_WRONG), False).to_numpy(zero_copy_only=False)
    )
    if len(suspects) == 0:
        return dates
    written = pc.struct_field(pc.extract_regex(values.take(pa.array(suspects)), _pattern(date_format)), "day")
    same = pc.equal(pc.cast(written, pa.int64()), pc.day(dates.take(pa.array(suspects))))
    rolled_over = suspects[~pc.fill_null(same, False).to_numpy(zero_copy_only=False)]
    if len(rolled_over) == 0:
        return dates
    valid = np.ones(len(dates), dtype=bool)
    valid[rolled_over] = False
    return pc.if_else(pa.array(valid), dates, pa.scalar(None, dates.type))


def _pattern(date_format: str) -> str:
    """Return the regular expression that extracts the day from a text of this format."""
    pattern = r"^\s*"
    for piece in re.split(r"(%.)", date_format):
        if piece == "%d":
            pattern += r"(?P<day>\d{1,2})"
        elif piece.startswith("%"):
            pattern += {"%Y": r"\d{4}", "%j": r"\d{1,3}"}.get(piece, r"\w+?" if piece in _NAMES else r"\d{1,2}")
        else:
            pattern += r"\s*".join(re.escape(word) for word in re.split(r"\s+", piece))
    return pattern


def date_part(dates: pa.Array, part: str) -> np.ndarray:
    """Return one part of each date, int64 of shape (n_rows,); dates must not contain nulls."""
    return np.asarray(pc.cast(_KERNELS[part](dates), pa.int64()).to_numpy(zero_copy_only=False))


def years_of(dates: pa.Array) -> Sequence[int]:
    """Return the distinct years."""
    return [year for year in pc.unique(pc.year(dates)).to_pylist() if year is not None]
