"""Weights that sum to far less than the number of rows, as if they had been normalised for another program."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from daskfs import FGM, Message, Mission, OnlineSubstitution, ingest
from daskfs.errors import DataError, SelectionWarning
from tests.refusals import refused
from tests.tolerances import assert_close

SELECTORS = [Message(), OnlineSubstitution(2), FGM(2), Mission(2, random_state=0)]


def problem():
    rng = np.random.default_rng(5)
    X = rng.standard_normal((500, 6))
    return X, X[:, 1] - X[:, 4] + 0.5 * rng.standard_normal(500), 0.5 + rng.random(500)


@pytest.mark.parametrize("selector", SELECTORS, ids=lambda selector: type(selector).__name__)
def test_a_sum_of_one_is_refused_and_the_factor_named_mends_it(selector):
    X, y, weight = problem()
    normalised = weight / weight.sum()
    with refused(DataError, "target", at="sample_weight", naming=["500"]):
        selector.fit(X, y, normalised)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fitted = selector.fit(X, y, 500 * normalised)
    assert np.flatnonzero(fitted.support_).tolist() == [1, 4]


def test_a_small_mean_is_a_warning_and_a_note(tmp_path):
    X, y, weight = problem()
    with pytest.warns(SelectionWarning, match="sum to"):
        fitted = FGM(2).fit(X, y, weight / 100.0)
    assert any("sum to" in note for note in fitted.result_.notes)
    store = ingest(X, tmp_path / "x.zarr", y=y, weight=weight / 100.0, dtype="float64")
    with pytest.warns(SelectionWarning, match="sum to"):
        assert_close(FGM(2).fit(store).coef_, fitted.coef_)


@pytest.mark.parametrize("selector", SELECTORS, ids=lambda selector: type(selector).__name__)
def test_a_single_row_of_positive_weight_is_refused(selector):
    X, y, _ = problem()
    with refused(DataError, "target", at="weight"):
        selector.fit(X, y, np.arange(500) == 7)
