"""Weights that scikit-learn routes, weights of Dask collections, and what notebooks show of estimators."""

from __future__ import annotations

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from sklearn import config_context
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from daskfs import FGM
from daskfs.errors import DataError

RNG = np.random.default_rng(3)
X = RNG.standard_normal((300, 8))
WEIGHT = RNG.random(300)
Y = X[:, 2] + 0.5 * X[:, 5] + np.where(WEIGHT < 0.5, 3.0 * X[:, 7], 0.0)


def weighted():
    """A selector whose weights depend on the row, and tell."""
    return FGM(2, loss="squared").set_fit_request(sample_weight=True).set_score_request(sample_weight=True)


def test_weights_are_routed_through_pipelines_and_searches():
    with config_context(enable_metadata_routing=True):
        pipeline = make_pipeline(StandardScaler().set_fit_request(sample_weight=False), weighted())
        pipeline.fit(X, Y, sample_weight=WEIGHT)
        expected = FGM(2, loss="squared").fit(StandardScaler().fit_transform(X), Y, sample_weight=WEIGHT)
        np.testing.assert_array_equal(pipeline[-1].coef_, expected.coef_)
        search = GridSearchCV(weighted(), {"n_features_to_select": [1, 2]}, cv=3).fit(X, Y, sample_weight=WEIGHT)
        alone = FGM(2, loss="squared").fit(X, Y, sample_weight=WEIGHT)
        np.testing.assert_array_equal(search.best_estimator_.coef_, alone.coef_)
        folds = cross_validate(weighted(), X, Y, params={"sample_weight": WEIGHT}, cv=3)
        unweighted = cross_validate(FGM(2, loss="squared"), X, Y, cv=3)
        assert not np.allclose(folds["test_score"], unweighted["test_score"])


def test_weights_of_dask_collections_are_those_of_arrays():
    expected = FGM(2, loss="squared").fit(X, Y, sample_weight=WEIGHT)
    lazy = [da.from_array(values, chunks=(100, *values.shape[1:])) for values in (X, Y, WEIGHT)]
    frame = dd.from_pandas(pd.DataFrame(X).add_prefix("x"), npartitions=3)
    series = [dd.from_pandas(pd.Series(values), npartitions=3) for values in (Y, WEIGHT)]
    for given in ((lazy[0], lazy[1], lazy[2]), (lazy[0], Y, WEIGHT), (frame, *series), (frame, Y, WEIGHT)):
        found = FGM(2, loss="squared").fit(given[0], given[1], sample_weight=given[2])
        np.testing.assert_array_equal(np.sort(found.selected_), np.sort(expected.selected_))
        np.testing.assert_allclose(found.coef_, expected.coef_, rtol=1e-6, atol=1e-9)
    table = frame.assign(text=frame["x0"].map(lambda value: "a" if value > 0 else "b", meta=("text", object)))
    found = FGM(2, loss="squared").fit(table, series[0], sample_weight=series[1])
    of_table = FGM(2, loss="squared").fit(table.compute(), Y, sample_weight=WEIGHT)
    np.testing.assert_allclose(found.coef_, of_table.coef_, rtol=1e-4, atol=1e-9)
    with pytest.raises(DataError, match=r"weight: expected \d+ weights, one per row of X, found"):
        FGM(2, loss="squared").fit(frame, Y, sample_weight=WEIGHT[:10])


def test_a_diagram_shows_the_estimator_and_those_around_it():
    assert "FGM" in FGM(2)._repr_html_()
    page = make_pipeline(StandardScaler(), FGM(2, loss="squared")).fit(X, Y)._repr_html_()
    for shown in ("StandardScaler", "FGM", "n_features_to_select"):
        assert shown in page
