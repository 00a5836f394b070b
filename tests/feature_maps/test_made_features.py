"""Selected features that a map makes: from arrays, frames, sparse matrices, stores and Dask collections, the same."""

from __future__ import annotations

import pickle

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
import scipy.sparse

import daskfs
from daskfs.errors import ConfigError
from daskfs.selectors.fgm.selector import FGM
from tests.refusals import refused

NAMES = ["a0 * a1", "a2", "a3^2"]


@pytest.fixture(scope="module")
def frame():
    X = np.random.default_rng(0).standard_normal((300, 8))
    return pd.DataFrame(X, columns=[f"a{j}" for j in range(8)])


@pytest.fixture(scope="module")
def y(frame):
    return 2.0 * frame["a0"] * frame["a1"] - frame["a2"] + frame["a3"] ** 2


@pytest.fixture(scope="module")
def fitted(frame, y):
    return FGM(3, feature_map="pairs", loss="squared").fit(frame, y)


def test_they_have_names_and_numbers_of_their_own(fitted):
    assert sorted(fitted.get_feature_names_out()) == NAMES
    assert np.flatnonzero(fitted.support_).tolist() == [0, 1, 2, 3]
    assert len(fitted.selected_) == len(fitted.coef_) == len(fitted.scores_) == 3
    assert sorted(fitted.result_.table["name"]) == NAMES
    assert fitted.result_.n_features == 8 + 8 * 9 // 2


def test_predictions_are_those_of_the_transformed(frame, y, fitted):
    made = fitted.transform(frame)
    coef = fitted.coef_[np.argsort(fitted.selected_)]
    np.testing.assert_allclose(made @ coef + fitted.intercept_, fitted.predict(frame), rtol=1e-12)
    assert fitted.score(frame, y) > 0.98


def test_every_kind_of_input_gives_the_same_lazily_where_it_is_lazy(frame, y, fitted, tmp_path):
    expected, predicted = fitted.transform(frame), fitted.predict(frame)
    lazy = dd.from_pandas(frame, npartitions=3)
    kinds = {
        "dask frame": (fitted.transform(lazy).compute(), fitted.predict(lazy).compute()),
        "unpickled": [getattr(pickle.loads(pickle.dumps(fitted)), name)(frame) for name in ("transform", "predict")],
    }
    plain = FGM(3, feature_map="pairs", loss="squared").fit(frame.to_numpy(), y.to_numpy())
    for kind in (np.asarray, scipy.sparse.csr_array):
        X = kind(frame.to_numpy())
        kinds[kind.__name__] = plain.transform(X), plain.predict(X)
    X = da.from_array(frame.to_numpy(), chunks=(100, 8))
    kinds["dask array"] = plain.transform(X).compute(), plain.predict(X).compute()
    store = daskfs.ingest(frame.to_numpy(), tmp_path / "x.zarr", y=y.to_numpy(), dtype="float64", shuffle=False)
    kinds["store"] = plain.transform(store), plain.predict(store)
    for kind, (made, prediction) in kinds.items():
        np.testing.assert_allclose(made, expected, rtol=1e-9, err_msg=kind)
        np.testing.assert_allclose(prediction, predicted, rtol=1e-6, atol=1e-6, err_msg=kind)
    assert fitted.transform(lazy).columns.tolist() == fitted.get_feature_names_out().tolist()


def test_a_map_and_groups_are_not_taken_together(frame, y):
    with refused(ConfigError, "parameters", at="feature_map", naming=["feature_groups"]):
        FGM(2, feature_map="pairs", feature_groups=[0] * 8).fit(frame, y)
    with refused(ConfigError, "feature-maps", at="feature_map", naming=["pairs"]):
        FGM(2, feature_map="pears").fit(frame, y)
