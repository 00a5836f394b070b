"""Operations of fits on the columns that a path has entered: standardised copies, or positions of their entries.

Kernels call them like any other kernel. The version is chosen at compile time. A copied column is a row of its array.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from daskfs.kernels.blocks.column_entries import ColumnEntries
from daskfs.kernels.blocks.dense_block import copy_to_rows
from daskfs.kernels.blocks.entered_entries import (
    add_entered,
    enter_entries,
    entered_product,
    entered_products,
    extend_entered_hessian,
    new_entered_entries,
    staleness_of_entries,
    take_entered,
    weigh_entered,
    without_runaways,
)
from daskfs.kernels.jit import Choice, kernel
from daskfs.kernels.linear.columns import add_members, copy_row, row_dot, weigh_row
from daskfs.kernels.linear.weighted_gram import extend_hessian, make_hessian, member_products


def _of_columns(of_copies: Any, of_entries: Any) -> Choice:
    """Return the version for the first argument's class: copies are an array, entries are not."""
    return Choice(lambda columns, *_: of_copies if columns is np.ndarray else of_entries)


def new_columns(X: Any, capacity: int, makes_hessians: bool = True) -> Any:
    """Return room for `capacity` entered columns of a block."""
    if isinstance(X, ColumnEntries):
        return new_entered_entries(X, capacity, makes_hessians)
    return np.empty((capacity, X.shape[0]))  # memory pages are used only when columns are copied


@kernel
def _all_members(columns, members, n_members, problem, share):  # type: ignore[no-untyped-def]
    """Return all members: Newton's method handles separable classes. See `entered_entries.without_runaways`."""
    for i in range(share.shape[0]):
        share[i] = problem.share[i]
    return members, n_members


@kernel
def _staleness_of_copies(columns):  # type: ignore[no-untyped-def]
    """Return the largest ratio of consecutive squared steps at which a factor is kept."""
    return 0.05


@kernel
def _product_of_copies(columns, k, vector):  # type: ignore[no-untyped-def]
    return row_dot(columns, k, vector)


add_columns = _of_columns(add_members, add_entered)
column_product = _of_columns(_product_of_copies, entered_product)
column_products = _of_columns(member_products, entered_products)
enter_columns = _of_columns(copy_to_rows, enter_entries)
extend_hessian_of = _of_columns(extend_hessian, extend_entered_hessian)
make_hessian_of = _of_columns(make_hessian, extend_entered_hessian)
staleness = _of_columns(_staleness_of_copies, staleness_of_entries)
take_column = _of_columns(copy_row, take_entered)
weigh_column = _of_columns(weigh_row, weigh_entered)
without_separated = _of_columns(_all_members, without_runaways)
