"""What fits ask of the columns that a path has entered: standardised copies, or where their entries are.

Kernels call these as any other; which of the two they mean is decided as they are compiled. A copied column stands in a
row of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba.core import types

from daskfs.kernels.blocks.column_entries import ColumnEntries
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
from daskfs.kernels.linear.columns import add_members, copy_row, copy_to_rows, row_dot, weigh_row
from daskfs.kernels.linear.weighted_gram import extend_hessian, make_hessian, member_products
from daskfs.kernels.numba_cache import kernel


class EitherColumns:
    """Two kernels, the first argument of which says which is called: copies are an array, entries are not.

    Apart from numba's ``overload``, which would compile a third function that calls one of them.
    """

    is_compiling = False  # numba asks: calls of itself are another matter

    def __init__(self, of_copies: Callable[..., Any], of_entries: Callable[..., Any]) -> None:
        self.of_copies, self.of_entries = of_copies, of_entries
        self._numba_type_ = types.Dispatcher(self)  # type: ignore[type-var]

    def __call__(self, columns: Any, *rest: Any) -> Any:
        """Call what is meant from Python."""
        return (self.of_copies if isinstance(columns, np.ndarray) else self.of_entries)(columns, *rest)

    def _of(self, kinds: tuple[Any, ...]) -> Any:
        return self.of_copies if isinstance(kinds[0], types.Array) else self.of_entries

    def get_call_template(self, kinds: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        """Return numba's template of a call."""
        return self._of(kinds).get_call_template(kinds, keywords)

    def get_overload(self, kinds: tuple[Any, ...]) -> Any:
        """Return what numba calls."""
        return self._of(kinds).get_overload(kinds)


def new_columns(X: Any, capacity: int, makes_hessians: bool = True) -> Any:
    """Return room for `capacity` columns of a block that enter."""
    if isinstance(X, ColumnEntries):
        return new_entered_entries(X, capacity, makes_hessians)
    return np.empty((capacity, X.shape[0]))  # pages are touched only as columns are copied


@kernel
def _all_members(columns, members, n_members, problem, share):  # type: ignore[no-untyped-def]
    """Leave separated classes to Newton's method; see `daskfs.kernels.blocks.entered_entries.without_runaways`."""
    for i in range(share.shape[0]):
        share[i] = problem.share[i]
    return members, n_members


@kernel
def _staleness_of_copies(columns):  # type: ignore[no-untyped-def]
    """Return how large a part of a squared step may be left by the next for a factor to be kept."""
    return 0.05


add_columns = EitherColumns(add_members, add_entered)
column_product = EitherColumns(row_dot, entered_product)
column_products = EitherColumns(member_products, entered_products)
enter_columns = EitherColumns(copy_to_rows, enter_entries)
extend_hessian_of = EitherColumns(extend_hessian, extend_entered_hessian)
make_hessian_of = EitherColumns(make_hessian, extend_entered_hessian)
staleness = EitherColumns(_staleness_of_copies, staleness_of_entries)
take_column = EitherColumns(copy_row, take_entered)
weigh_column = EitherColumns(weigh_row, weigh_entered)
without_separated = EitherColumns(_all_members, without_runaways)
