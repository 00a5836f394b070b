"""Splits into training and test rows, and groups of rows that stay together."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from daskfs import errors
from daskfs.errors import ConfigError

DataError = errors.DataError.about("shapes")

FAMILIES, NO_FAMILY = "fid", "0"
"""PLINK's family column, and its value for a sample without a family."""


def row_groups(
    groups: Any, n_samples: int, source_rows: np.ndarray | None, labels: Callable[[str], np.ndarray]
) -> np.ndarray:
    """Return the number of the group of each row: see `daskfs.matrix.base.Matrix.row_groups`.

    Parameters
    ----------
    groups : str or array of shape (n_source_rows,)
    n_samples, source_rows, labels : see `rows_to_test`

    Raises
    ------
    ConfigError
        The column does not exist.
    DataError
        There are fewer labels than rows.
    """
    if isinstance(groups, str):
        values = np.asarray(labels(groups)).astype(str)
        is_alone = (values == "") | ((values == NO_FAMILY) & (groups == FAMILIES))
    else:
        values = np.asarray(groups)
        n_needed = n_samples if source_rows is None else int(source_rows.max()) + 1
        if values.ndim != 1 or len(values) < n_needed:
            problem = f"expected a label for each of {n_needed:,} rows, found shape {values.shape}"
            raise DataError(problem, "groups", "give one for each row of the source")
        values = values[:n_samples] if source_rows is None else values[source_rows]
        is_alone = np.zeros(n_samples, dtype=bool)
    numbers = np.unique(values, return_inverse=True)[1].ravel()
    numbers[is_alone] = n_samples + np.flatnonzero(is_alone)
    in_source_order = np.arange(n_samples) if source_rows is None else np.argsort(source_rows, kind="stable")
    _, first, place = np.unique(numbers[in_source_order], return_index=True, return_inverse=True)
    found = np.empty(n_samples, np.int64)
    found[in_source_order] = np.argsort(np.argsort(first))[place]
    return found


def in_whole_groups(groups: np.ndarray, n_wanted: int, rng: np.random.Generator) -> np.ndarray:
    """Return a mask of the rows of groups, drawn at random until they have at least the wanted number of rows.

    Parameters
    ----------
    groups : ndarray of shape (n_samples,), int64
    n_wanted : int
    rng : numpy Generator

    Examples
    --------
    >>> in_whole_groups(np.array([0, 0, 1, 1, 2, 2]), 3, np.random.default_rng(0)).tolist()
    [True, True, False, False, True, True]
    """
    numbers, of_row, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    drawn = rng.permutation(len(numbers))
    is_drawn = np.zeros(len(numbers), dtype=bool)
    is_drawn[drawn[: int(np.searchsorted(np.cumsum(sizes[drawn]), n_wanted)) + 1]] = True
    return is_drawn[of_row.ravel()]


def folds_of_groups(groups: np.ndarray, n_folds: int) -> np.ndarray:
    """Return the fold number of each row, starting at 1. Folds consist of whole groups and have about equal sizes.

    Parameters
    ----------
    groups : ndarray of shape (n_samples,), int64
    n_folds : int

    Examples
    --------
    >>> folds_of_groups(np.array([0, 0, 1, 1, 2, 2]), 3).tolist()
    [2, 2, 3, 3, 1, 1]
    """
    numbers, of_row, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    drawn = np.random.default_rng(0).permutation(len(numbers))
    ends = np.cumsum(sizes[drawn])
    fold = np.empty(len(numbers), np.int64)
    fold[drawn] = np.minimum(n_folds, 1 + (ends - sizes[drawn]) * n_folds // max(1, len(groups)))
    return fold[of_row.ravel()]  # type: ignore[no-any-return]


def rows_to_test(
    n_samples: int,
    source_rows: np.ndarray | None,
    labels: Callable[[str], np.ndarray],
    test: Any,
    by: str,
    random_state: int | None,
    groups: Any = None,
) -> np.ndarray:
    """Return a mask of the test rows: see `daskfs.matrix.base.Matrix.split`.

    Parameters
    ----------
    n_samples : int
    source_rows : ndarray of shape (n_samples,), or None
        Source row of each row; None if the order is the same.
    labels : callable
        Returns the values of a column.
    test, by, random_state, groups : see `Matrix.split`

    Raises
    ------
    ConfigError
        The share is outside (0, 1), the column is unknown, or one side would be empty.
    """
    if groups is not None and by != "random":
        raise ConfigError(f"whole groups are drawn at random, not by {by!r}", "split.groups", "remove one of them")
    if by in ("random", "order"):
        in_source_order = np.arange(n_samples) if source_rows is None else np.argsort(source_rows, kind="stable")
        is_test = np.zeros(n_samples, dtype=bool)
        n_test = math.ceil(_proportion(test) * n_samples)
        chosen = np.arange(n_samples - n_test, n_samples)
        if groups is not None:
            numbers = row_groups(groups, n_samples, source_rows, labels)[in_source_order]
            chosen = in_whole_groups(numbers, n_test, np.random.default_rng(random_state))
        elif by == "random":
            chosen = np.random.default_rng(random_state).permutation(n_samples)[:n_test]
        is_test[in_source_order[chosen]] = True
    else:
        values = [str(value) for value in (test if isinstance(test, (list, tuple)) else [test])]
        is_test = np.isin(labels(by).astype(str), values)
    n_test = int(is_test.sum())
    if n_test in (0, n_samples):
        raise ConfigError(
            f"expected rows on both sides, found {n_samples - n_test} for training and {n_test} for testing",
            "split",
            "change split.test" if groups is None else "change split.test, or remove split.groups",
        )
    return is_test


def _proportion(test: Any) -> float:
    if isinstance(test, bool) or not isinstance(test, (int, float)) or not 0 < test < 1:
        raise ConfigError(f"expected a proportion between 0 and 1, found {test!r}", "split.test", "for example 0.2")
    return test
