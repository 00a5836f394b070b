"""Sums of int8 columns are those of whole numbers; a store's statistics by them are those by float64."""

from __future__ import annotations

import numpy as np

from daskfs.store.column_statistics import RunningStatistics


def test_statistics_of_int8_are_those_of_the_same_numbers_as_float64():
    rng = np.random.default_rng(0)
    block = rng.integers(-128, 128, (1000, 7)).astype(np.int8)
    block[:, 3] = -5
    narrow, wide = RunningStatistics(7), RunningStatistics(7)
    for start in range(0, 1000, 300):
        narrow.update(block[start : start + 300])
        wide.update(block[start : start + 300].astype(np.float64))
    np.testing.assert_array_equal(narrow.minimum, block.min(axis=0))
    np.testing.assert_array_equal(narrow.maximum, block.max(axis=0))
    np.testing.assert_array_equal(narrow.n_samples, wide.n_samples)
    np.testing.assert_allclose(narrow.mean, wide.mean, rtol=1e-12)
    np.testing.assert_allclose(narrow.std, wide.std, rtol=1e-12)
    assert narrow.std[3] == 0.0
