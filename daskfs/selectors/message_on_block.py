"""What MESSAGE does where the data is: read the rows of a few subsets, return small arrays.

Imported by workers, hence light: numpy and the kernels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from daskfs.blocks import Matrix, Rows
from daskfs.errors import DataError
from daskfs.kernels.criteria import feature_penalty
from daskfs.kernels.lasso import lasso_path
from daskfs.kernels.least_squares import least_squares
from daskfs.kernels.moments import Moments, moments


@dataclass(frozen=True, slots=True)
class SelectionSettings:
    """How a subset selects; see `daskfs.selectors.message.Message`."""

    criterion: str
    gamma: float
    refit: bool
    n_lambdas: int
    patience: int | None
    max_features: int | None
    with_coefficients: bool = False
    """Whether the coefficients of the chosen model, shrunk as the path leaves them, are wanted too."""


@dataclass(frozen=True, slots=True)
class SubsetGroup:
    """Consecutive subsets that one task reads together.

    `rows` are theirs in the matrix; subset ``first + k`` has ``rows[bounds[k]:bounds[k + 1]]``.
    """

    first: int
    bounds: tuple[int, ...]
    rows: Rows


def select_on_block(matrix: Matrix, settings: SelectionSettings, group: SubsetGroup) -> dict[str, np.ndarray]:
    """Select on every subset of a group.

    Parameters
    ----------
    matrix : Matrix
    settings : SelectionSettings
    group : SubsetGroup

    Returns
    -------
    dict of ndarray
        ``selected`` and ``constant``: column numbers of all subsets in a row; ``n_selected`` and ``n_constant`` of
        shape (n_subsets,) tell them apart. With subset 0 its path: ``lambda``, ``df``, ``rss``, ``gic``, ``best``.
        With coefficients: ``coef``, one for each of ``selected``, and ``intercept`` of shape (n_subsets,).

    Raises
    ------
    DataError
        NaN or infinity, with the column's name.
    """
    X, y, weight = _read(matrix, group.rows)
    subsets = []
    for k in range(len(group.bounds) - 1):
        rows = slice(group.bounds[k], group.bounds[k + 1])
        block = _as_kernels_take_it(X[rows])
        m = moments(block, y[rows], weight[rows])
        if np.isnan(m.scale).any():
            raise _not_finite(matrix, block, rows.start, group)
        subsets.append(_choice(block, y[rows], weight[rows], m, settings, is_first=group.first + k == 0))
    return joined(subsets)


def joined(parts: Sequence[dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """Return the arrays of several parts, each name's in a row, in the order of the parts."""
    names = dict.fromkeys(name for part in parts for name in part)
    return {name: np.concatenate([part[name] for part in parts if name in part]) for name in names}


def _choice(
    block: np.ndarray,
    y: np.ndarray,
    weight: np.ndarray,
    m: Moments,
    settings: SelectionSettings,
    is_first: bool,
) -> dict[str, np.ndarray]:
    """Return what one subset chooses."""
    path = lasso_path(
        block,
        y,
        weight,
        penalty=feature_penalty(settings.criterion, m.total, block.shape[1], settings.gamma),
        block_moments=m,
        n_lambdas=settings.n_lambdas,
        refit=settings.refit,
        patience=settings.patience,
        max_features=settings.max_features,
    )
    selected, constant = path.selected(), np.flatnonzero(m.scale == 0.0)
    choice = {
        "selected": selected,
        "n_selected": np.array([len(selected)]),
        "constant": constant,
        "n_constant": np.array([len(constant)]),
    }
    if settings.with_coefficients:
        coef = path.coefficients(path.best)[selected] if path.best >= 0 else np.empty(0)
        choice["coef"] = coef
        choice["intercept"] = np.array([m.y_mean - m.mean[selected] @ coef])
    if is_first:
        choice |= {"lambda": path.lambdas, "df": path.df, "rss": path.rss, "gic": path.gic}
        choice["best"] = np.array([path.best])
    return choice


def refit_on_block(matrix: Matrix, columns: np.ndarray, group: SubsetGroup) -> dict[str, np.ndarray]:
    """Fit the chosen columns by least squares on every subset of a group.

    Parameters
    ----------
    matrix : Matrix
    columns : ndarray of shape (n_selected,), int64, ascending
    group : SubsetGroup

    Returns
    -------
    dict of ndarray
        ``coef``, ``mean`` and ``scale`` of shape (n_subsets, n_selected); ``y_mean``, ``total`` (the sum of weights)
        and ``is_singular`` of shape (n_subsets,). A coefficient is NaN where its column is constant.
    """
    X, y, weight = _read(matrix, group.rows, columns)
    fits = []
    for k in range(len(group.bounds) - 1):
        rows = slice(group.bounds[k], group.bounds[k + 1])
        fits.append(least_squares(_as_kernels_take_it(X[rows]), y[rows], weight[rows]))
    return {
        "coef": np.array([fit.coef for fit in fits]),
        "mean": np.array([fit.moments.mean for fit in fits]),
        "scale": np.array([fit.moments.scale for fit in fits]),
        "y_mean": np.array([fit.moments.y_mean for fit in fits]),
        "total": np.array([fit.moments.total for fit in fits]),
        "is_singular": np.array([fit.is_singular for fit in fits]),
    }


def _read(matrix: Matrix, rows: Rows, columns: Rows = slice(None)) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    X = matrix.read(rows, columns)
    y = _writable(matrix.read_target(rows))
    weight = matrix.read_weight(rows)
    return X, y, np.ones(len(y)) if weight is None else _writable(weight)


def _writable(values: Any) -> np.ndarray:
    """float64, contiguous and writable: for numba, read-only arrays are another type, compiled again."""
    return np.require(values, dtype=np.float64, requirements=["C", "W"])


def _as_kernels_take_it(X: np.ndarray) -> np.ndarray:
    """float32 (which holds int8 exactly) or float64, C-ordered and writable; a copy only where it must be."""
    dtype = X.dtype if X.dtype in (np.float32, np.float64) else np.dtype(np.float32)
    return np.require(X, dtype=dtype, requirements=["C", "W"])


def _not_finite(matrix: Matrix, block: np.ndarray, start: int, group: SubsetGroup) -> DataError:
    row, column = (int(part[0]) for part in np.nonzero(~np.isfinite(block)))
    value = "NaN" if np.isnan(block[row, column]) else "infinity"
    names = matrix.feature_names
    name = f"column {column}" if names is None else f"column {str(names[column])!r}"
    rows = group.rows
    stored = rows.start + start + row if isinstance(rows, slice) else int(rows[start + row])
    source_rows = getattr(matrix, "source_rows", None)
    source = stored if source_rows is None else int(source_rows[stored])
    return DataError(
        f"expected finite numbers, found {value}", f"{name}, row {source}", "drop the row or fill in the value"
    )
