"""What is said of selected columns: constants, identifiers, copies; and of values too large to compute with."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import daskfs
from daskfs.errors import DataError, SelectionWarning
from daskfs.matrix.arrays import ArrayMatrix
from daskfs.selectors.diagnostics.remarks import remarks_on
from tests.refusals import refused

N = 400
SELECTORS = [daskfs.Message(n_subsets=2), daskfs.OnlineSubstitution(3), daskfs.FGM(3), daskfs.Mission(3)]


def names_of(one):
    return type(one).__name__


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N, 10))
    X[:, 5], X[:, 8] = rng.permutation(N), X[:, 3]
    return X, 2.0 * X[:, 3] - X[:, 7] + 0.01 * X[:, 5] + 0.1 * rng.standard_normal(N)


@pytest.mark.parametrize("kind", ["array", "store", "rows of a store"])
def test_identifiers_and_copies_among_the_selected_columns_are_noted(data, kind, tmp_path):
    given = data
    if kind != "array":
        given = (daskfs.ingest(data[0], tmp_path / "s.zarr", y=data[1], dtype="float64"),)
    if kind == "rows of a store":
        given = (given[0].split(0.25)[0],)
    notes = daskfs.Message(n_subsets=2).fit(*given).result_.notes
    assert any("each row has a different whole number: 'x5'" in note for note in notes) == (kind != "rows of a store")
    assert any("exact copies of selected columns" in note and "'x8' of 'x3'" in note for note in notes)


def test_columns_that_only_look_alike_are_no_copies(data):
    X = np.random.default_rng(1).permutation(np.tile([0.0, 1.0], N // 2)[:, None].repeat(4, axis=1), axis=0)
    X = np.column_stack([np.random.default_rng(k).permutation(X[:, k]) for k in range(4)])
    notes = daskfs.OnlineSubstitution(2).fit(X, X[:, 0] + X[:, 1] + 0.01 * data[1]).result_.notes
    assert not any("copies" in note or "whole number" in note for note in notes)


def test_many_selected_columns_take_work_in_proportion_to_their_number():
    X = np.random.default_rng(0).standard_normal((20, 1000))
    X[:, 7] = X[:, 900]
    calls = {250: 0, 1000: 0}
    for n_selected in calls:

        def count(frame, event, argument, n_selected=n_selected):
            calls[n_selected] += 1

        sys.setprofile(count)
        try:
            notes = remarks_on(ArrayMatrix(X, X[:, 0]), np.arange(n_selected))
        finally:
            sys.setprofile(None)
        assert ["'x900' of 'x7'" in note for note in notes] == [True]
    assert calls[1000] < 5 * calls[250]


@pytest.mark.filterwarnings("ignore:.*no feature was selected")
@pytest.mark.parametrize("selector", SELECTORS, ids=names_of)
def test_columns_that_are_all_constant_are_a_warning(data, selector):
    with pytest.warns(SelectionWarning, match="all columns are constant: 'x0', 'x1'"):
        selector.fit(np.ones((N, 4)) * np.arange(4), data[1])


def test_a_constant_column_that_is_selected_is_a_warning(data):
    X = np.where(np.arange(10) == 9, 1.0, data[0])
    with pytest.warns(SelectionWarning, match="selected although constant: 'x9'"):
        daskfs.Mission(10, variant="paper").fit(X, data[1])  # which has no intercept


@pytest.mark.parametrize("selector", SELECTORS, ids=names_of)
@pytest.mark.parametrize("value", [1e300, -1e200])
def test_a_value_whose_square_is_infinite_is_refused_with_its_place(data, selector, value, tmp_path):
    X = data[0].copy()
    X[17, 5] = value
    with refused(DataError, "values", at="column 5, row 17", naming=["infinite"]):
        selector.fit(X, data[1])
    with refused(DataError, "values", at="column 'x5', row 17", naming=["large"]):
        daskfs.ingest(X, tmp_path / "s.zarr", y=data[1], dtype="float64")


@pytest.mark.parametrize("selector", SELECTORS, ids=names_of)
@pytest.mark.parametrize("factor", [1e300, 1e80, 1e-80, 1e-290])
def test_a_target_that_cannot_be_computed_with_is_refused(data, selector, factor, tmp_path):
    for given in ((data[0], data[1] * factor), (daskfs.ingest(data[0], tmp_path / "s.zarr", y=data[1] * factor),)):
        with pytest.raises(DataError, match=r"^(target|y).*too (large|little)"):
            selector.fit(*given)


@pytest.mark.parametrize("selector", SELECTORS, ids=names_of)
@pytest.mark.parametrize("factor", [1e20, 1e-20])
def test_a_target_in_other_units_has_the_same_features(data, selector, factor):
    expected = np.sort(selector.fit(*data).selected_)
    np.testing.assert_array_equal(np.sort(selector.fit(data[0], data[1] * factor).selected_), expected)
