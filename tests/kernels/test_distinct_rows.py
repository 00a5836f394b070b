"""Rows that stand in a block many times are one row of their weight."""

from __future__ import annotations

import numpy as np
import pytest

from daskfs.kernels.blocks.distinct_rows import merge_rows
from daskfs.kernels.glm.path import glm_path


def repeated_rows(dtype, seed=0):
    rng = np.random.default_rng(seed)
    X = (rng.random((60, 6)) < 0.4).astype(dtype) * np.array([1.0, 1.0, 2.0, 1.0, 0.5, 1.0], dtype)
    of_row = rng.integers(0, 60, 2500)
    y = np.where(rng.random(2500) < 1 / (1 + np.exp(-2.0 * X[of_row, 0] + 1.5 * X[of_row, 2])), 1.0, -1.0)
    return X[of_row], y, rng.integers(0, 3, 2500).astype(float)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_every_distinct_row_is_there_once_with_the_weight_of_its_copies_in_the_order_of_the_first(dtype):
    X, y, weight = repeated_rows(dtype)
    merged, target, total = merge_rows(X, y, weight)
    expected: dict = {}
    for row, label, w in zip(X, y, weight, strict=True):
        key = (*row.tolist(), label)
        expected[key] = expected.get(key, 0.0) + w
    assert [(*row.tolist(), label) for row, label in zip(merged, target, strict=True)] == list(expected)
    assert total.tolist() == list(expected.values())
    assert merged.dtype == dtype


def test_rows_most_of_which_differ_stay_as_they_are():
    X = np.random.default_rng(1).standard_normal((3000, 3))
    X[1800:] = X[:1200]
    y, weight = np.ones(3000), np.ones(3000)
    assert all(found is given for found, given in zip(merge_rows(X, y, weight), (X, y, weight), strict=True))


def test_rows_are_told_apart_whose_keys_agree(monkeypatch):
    def one_key(bits, y_bits, out):
        out[:] = 7

    monkeypatch.setattr("daskfs.kernels.blocks.distinct_rows._write_keys", one_key)
    X, y, weight = repeated_rows(np.float32)
    assert merge_rows(X, y, weight)[0] is X


def test_the_path_of_merged_rows_is_that_of_all():
    X, y, weight = repeated_rows(np.float64)
    options = {"loss": "logistic", "penalty": 3.0, "n_lambdas": 30}
    whole, merged = glm_path(X, y, weight, **options), glm_path(*merge_rows(X, y, weight), **options)
    np.testing.assert_allclose(merged.lambdas, whole.lambdas, rtol=1e-10)
    np.testing.assert_allclose(merged.fit, whole.fit, rtol=1e-6)
    assert merged.selected().tolist() == whole.selected().tolist()
