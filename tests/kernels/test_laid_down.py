"""Rows laid down as columns are the transposed rows, in the places asked for."""

from __future__ import annotations

import numpy as np
import pytest

from daskfs.kernels.blocks.laid_down import SPAN, SQUARE, lay_down


@pytest.mark.parametrize("dtype", [np.int8, np.float32, np.float64])
@pytest.mark.parametrize("n_rows", [1, SQUARE - 1, SQUARE, SPAN + SQUARE + 3])
@pytest.mark.parametrize("n_taken", [1, SQUARE, 2 * SQUARE + 5])
def test_rows_are_laid_down(dtype, n_rows, n_taken):
    rng = np.random.default_rng(0)
    rows = rng.integers(-100, 100, (n_rows, 50)).astype(dtype)
    columns, places = rng.integers(0, 50, n_taken), rng.permutation(60)[:n_taken]
    out = np.full((60, n_rows + 9), 77, dtype)
    expected = out.copy()
    expected[places, 4 : 4 + n_rows] = rows[:, columns].T
    lay_down(rows, columns, out, places, 4)
    np.testing.assert_array_equal(out, expected)
