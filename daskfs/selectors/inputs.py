"""Checks of what users pass: kinds of input, targets, columns by number or name, and seeds."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np

from daskfs import errors
from daskfs.errors import Caution, did_you_mean
from daskfs.matrix.arrays import refuse_odd_target
from daskfs.matrix.base import Matrix, not_finite
from daskfs.matrix.names import Names

DataError = errors.DataError.about("shapes")
TargetError = errors.DataError.about("target")

LEAST_MEAN_WEIGHT = 0.1
"""Weights with a smaller mean were probably normalised to another sum than the number of rows."""


def is_lazy(X: Any) -> bool:
    """Return whether X is a Dask collection; an array of xarray is not, although it may hold one."""
    return hasattr(X, "__dask_graph__") and type(X).__module__.partition(".")[0] != "xarray"


def refuse_non_finite_target(y: Any) -> None:
    """Refuse missing values and infinity, with the row, and what `refuse_odd_target` refuses."""
    refuse_odd_target(y)
    values = np.asarray(y)
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        row = int(np.argwhere(~np.isfinite(values))[0][0])
        raise not_finite(f"target, row {row}", values.reshape(len(values), -1)[row].sum())


def checked_weights(matrix: Matrix) -> str:
    """Return a warning if weights sum to far less than the number of rows, or an empty text.

    Raises
    ------
    DataError
        There are fewer than two, or they sum to less than two rows.
    """
    weight = matrix.read_weight(slice(None))
    if weight is None:
        return ""
    n_rows = int(np.count_nonzero(weight))
    if n_rows < 2:
        raise TargetError("expected at least two rows of positive weight", "weight", "check the weights")
    total = float(weight.sum())
    if total >= n_rows * LEAST_MEAN_WEIGHT:
        return ""
    problem = f"the weights of {n_rows:,} rows sum to {total:.3g}"
    remedy = f"a row of weight 2 counts as two rows; multiply by {n_rows / total:.3g} if only the ratios matter"
    if total < 2.0:
        raise TargetError(problem, "sample_weight", remedy)
    return Caution(f"{problem}: {remedy}")


def seed_of(random_state: Any) -> int | None:
    """Return the seed for a selector's random_state."""
    if random_state is None:
        return None
    if isinstance(random_state, Integral):
        return int(random_state)
    from sklearn.utils.validation import check_random_state

    return int(check_random_state(random_state).randint(2**31))


def check_width(found: int, expected: int) -> None:
    """Refuse a number of features that differs from the fit."""
    if found != expected:
        raise DataError(f"X has {found} features, but {expected} were seen in fit", "X", "pass the same columns")


def columns_of(asked: Any, n_features: int, names: Names | None, parameter: str) -> np.ndarray:
    """Return the columns that a parameter gives by numbers or names, as int64.

    Raises
    ------
    DataError
        A column does not exist, or is given twice.
    """
    values = [] if asked is None else list(np.asarray(asked, dtype=object).ravel())
    numbers = []
    texts = {value for value in values if isinstance(value, str)}
    known = {} if names is None or not names.are_given else names.places(texts)
    for value in values:
        if isinstance(value, str):
            if value not in known:
                hint = "" if names is None or names.given is None else did_you_mean(value, names.given.tolist())
                raise DataError(f"there is no column {value!r}{hint}", parameter, "use names or numbers of columns")
            numbers.append(known[value])
        elif not isinstance(value, Integral) or isinstance(value, bool) or not 0 <= int(value) < n_features:
            raise DataError(
                f"expected numbers of columns from 0 to {n_features - 1}, found {value!r}", parameter, "correct it"
            )
        else:
            numbers.append(int(value))
    columns = np.array(numbers, dtype=np.int64)
    if len(np.unique(columns)) < len(columns):
        values_, counts = np.unique(columns, return_counts=True)
        raise DataError(f"duplicate column {int(values_[counts > 1][0])}", parameter, "name each column once")
    return columns


def refuse_too_many(always: np.ndarray, most: int) -> None:
    """Refuse more columns that are always included than are selected.

    Raises
    ------
    DataError
    """
    if len(always) > most:
        problem = f"expected at most {most} columns, found {len(always)}"
        raise DataError(problem, "always_include", "raise n_features_to_select")


def refuse_left_out(always: np.ndarray, held: np.ndarray, names: Names) -> None:
    """Refuse columns that should always be included and could not be.

    Raises
    ------
    DataError
        Names the first of them.
    """
    missing = always[~np.isin(always, held)]
    if len(missing):
        place = f"always_include, column {names[missing[0]]!r}"
        raise DataError("is constant, or a linear combination of the columns before it", place, "drop it")
