"""Casts rows to the store's dtype, and refuses values that do not fit, naming column and row; checks names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from daskfs.errors import DataError
from daskfs.matrix.arrays import LARGEST, can_be_squared
from daskfs.matrix.base import not_finite


def convert_rows(rows: Any, out: np.ndarray, *, names: Sequence[str], first_row: int, allow_missing: bool) -> None:
    """Copy rows into `out`, which has the store's dtype.

    Parameters
    ----------
    rows : ndarray or sparse matrix of shape (n_rows, n_features)
    out : ndarray of the same shape
    names : sequence of str
        Names of the columns, for messages.
    first_row : int
        Number of the first row within the source, for messages.
    allow_missing : bool
        Whether NaN is allowed; only with a floating-point `out`.

    Raises
    ------
    DataError
        NaN or infinity, a value too large for the dtype, or not representable in an integer dtype.
    """
    values = np.asarray(rows.toarray() if hasattr(rows, "toarray") else rows)
    fits = _converted(values, out, allow_missing)
    if fits is not None and not fits.all():
        row, column = np.argwhere(~fits)[0].tolist()
        raise _refusal(values[row, column], f"column {names[column]!r}, row {first_row + row}", out.dtype)


def convert_entries(values: np.ndarray, out: np.ndarray, place_of: Callable[[int], str]) -> None:
    """Copy entries into `out`, which has the store's dtype; `place_of` describes the place of an entry.

    Raises
    ------
    DataError
        See `convert_rows`.
    """
    fits = _converted(values, out, allow_missing=False)
    if fits is not None and not fits.all():
        first = int(np.argmin(fits))
        raise _refusal(values[first], place_of(first), out.dtype)


def _converted(values: np.ndarray, out: np.ndarray, allow_missing: bool) -> np.ndarray | None:
    """Copy values into `out` as far as they fit; return which ones fit, or None if a quick check shows that all do."""
    if values.dtype.kind not in "iufb":
        raise DataError(f"expected numbers, found {values.dtype}", "X", "encode text as numbers first")
    if out.dtype.kind == "f":
        with np.errstate(over="ignore", invalid="ignore"):
            out[...] = values
        if fit_at_a_glance(out):
            return None
        fits = can_be_squared(out)
        if allow_missing:
            fits |= np.isnan(out)
        return fits
    fits = _fits_integer(values, out.dtype)
    if fits.all():
        out[...] = values
    return fits


def fit_at_a_glance(values: np.ndarray) -> bool:
    """Return whether all numbers can be squared; makes two passes without temporary arrays."""
    if values.dtype.kind != "f" or not values.size:
        return True
    bound = LARGEST if values.dtype == np.float64 else np.finfo(values.dtype).max
    return bool(values.min() >= -bound and values.max() <= bound)


def _fits_integer(values: np.ndarray, dtype: np.dtype) -> np.ndarray:
    if np.can_cast(values.dtype, dtype):
        return np.ones(values.shape, bool)
    bounds = np.iinfo(dtype)
    with np.errstate(invalid="ignore"):
        is_whole = values == np.rint(values) if values.dtype.kind == "f" else True
        # The upper bound of int64 is no float64, so the comparison is strict against the next power of two.
        return (values >= float(bounds.min)) & (values < float(bounds.max) + 1) & is_whole


def _refusal(value: Any, where: str, dtype: np.dtype) -> DataError:
    if np.isnan(value):
        return DataError("expected a number, found NaN", where, "drop these rows or fill them (missing: in a schema)")
    if np.isinf(value):
        return DataError(f"expected a finite number, found {value}", where, "drop these rows or replace the value")
    if dtype == np.float64:
        return not_finite(where, value)
    if dtype.kind == "f":
        return DataError(f"{value} is too large for {dtype}", where, "choose dtype float64, or rescale the column")
    bounds = np.iinfo(dtype)
    return DataError(
        f"expected a whole number from {bounds.min} to {bounds.max} for {dtype}, found {value}",
        where,
        "choose dtype float32",
    )


def check_names(names: Sequence[str] | np.ndarray | None, n_features: int, where: str = "feature_names") -> list[str]:
    """Return the names of features as a list of str; by default x0, x1, ...

    Raises
    ------
    DataError
        Too many or too few names, a duplicate, or one that is not valid Unicode.
    """
    if names is None:
        return [f"x{j}" for j in range(n_features)]
    checked = [str(name) for name in names]
    if len(checked) != n_features:
        raise DataError(f"expected {n_features} feature names, found {len(checked)}", where)
    if len(set(checked)) < n_features:
        name, count = Counter(checked).most_common(1)[0]
        raise DataError(f"duplicate feature name {name!r} ({count} times)", where, "give each column its own name")
    for name in checked:
        try:
            name.encode("utf-8")
        except UnicodeEncodeError:
            raise DataError(f"feature name {name!r} is not valid Unicode", where, "rename it") from None
    return checked
