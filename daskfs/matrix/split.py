"""Which rows are kept to test on."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from daskfs.errors import ConfigError


def rows_to_test(
    n_samples: int,
    source_rows: np.ndarray | None,
    labels: Callable[[str], np.ndarray],
    test: Any,
    by: str,
    random_state: int | None,
) -> np.ndarray:
    """Return a mask of the rows to test on: see `daskfs.matrix.base.Matrix.split`.

    Parameters
    ----------
    n_samples : int
    source_rows : ndarray of shape (n_samples,), or None
        Row of the source of each row; None: the same order.
    labels : callable
        Returns the values of a column.
    test, by, random_state : see `Matrix.split`

    Raises
    ------
    ConfigError
        A share outside (0, 1), an unknown column, or a split that leaves one side empty.
    """
    if by in ("random", "order"):
        in_source_order = np.arange(n_samples) if source_rows is None else np.argsort(source_rows, kind="stable")
        is_test = np.zeros(n_samples, dtype=bool)
        n_test = math.ceil(_proportion(test) * n_samples)
        chosen = np.arange(n_samples - n_test, n_samples)
        if by == "random":
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
            "change split.test",
        )
    return is_test


def _proportion(test: Any) -> float:
    if isinstance(test, bool) or not isinstance(test, (int, float)) or not 0 < test < 1:
        raise ConfigError(f"expected a proportion between 0 and 1, found {test!r}", "split.test", "for example 0.2")
    return test
