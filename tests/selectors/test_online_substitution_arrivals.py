"""Columns that arrive over time, and columns screened by tasks."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from daskfs.cluster.open import open_cluster
from daskfs.errors import ConfigError, DataError
from daskfs.matrix.arrays import ArrayMatrix
from daskfs.selectors.online_substitution.selector import OnlineSubstitution
from daskfs.sources.ingest import ingest
from tests.refusals import refused
from tests.tolerances import assert_close, assert_same_answer, tolerance_of

LOSSES = ["squared", "logistic"]


def make_arrays(p=300, seed=7):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((240, p))
    y = X[:, [3, 80, 200, 299]] @ [2.0, -1.0, 1.0, 0.5] + rng.standard_normal(240)
    return X, y


@pytest.mark.parametrize("ridge", [0.0, 0.1])
@pytest.mark.parametrize("rule", ["exchange", "os", "paper"])
def test_blocks_of_columns_one_after_the_other_are_one_epoch(rule, ridge):
    X, y = make_arrays()
    whole = OnlineSubstitution(10, rule=rule, n_epochs=1, ridge=ridge).fit(X, y)
    arriving = OnlineSubstitution(10, rule=rule, ridge=ridge)
    for start, stop in ((0, 64), (64, 65), (65, 200), (200, 300)):
        arriving = pickle.loads(pickle.dumps(arriving))
        arriving.partial_fit_features(X[:, start:stop], y=y if start == 0 else None)
        assert arriving.support_.shape == (stop,)
    assert_same_answer(arriving, whole, tolerance_of("online_substitution", X.dtype))
    assert_close(arriving.predict(X), whole.predict(X))


def test_labels_names_and_weights_come_with_the_first_block():
    X, y = make_arrays()
    frame = pd.DataFrame(X, columns=[f"g{j}" for j in range(300)])
    label, weight = np.where(y > 0, "up", "down"), np.random.default_rng(0).uniform(0, 2, 240)
    selector = OnlineSubstitution(8, loss="logistic", always_include=["g40"])
    selector.partial_fit_features(frame.iloc[:, :150], y=label, sample_weight=weight)
    selector.partial_fit_features(frame.iloc[:, 150:])
    assert selector.selected_[0] == 40
    assert {"g3", "g80", "g200"} <= set(selector.get_feature_names_out())
    assert np.mean(selector.predict(frame) == label) > 0.75
    assert list(selector.result_.table["name"]) == [f"g{j}" for j in selector.selected_]


def test_what_does_not_fit_to_the_first_block_is_refused():
    X, y = make_arrays()
    with refused(DataError, "columns-that-arrive", at="partial_fit_features", naming=["block"]):
        OnlineSubstitution(8).partial_fit_features(X)
    selector = OnlineSubstitution(8).partial_fit_features(X[:, :20], names=[f"a{j}" for j in range(20)], y=y)
    with refused(DataError, "columns-that-arrive", at="partial_fit_features", naming=["240", "100"]):
        selector.partial_fit_features(X[:100, 20:])
    with refused(DataError, "columns-that-arrive", at="names", naming=["'a3'"]):
        selector.partial_fit_features(X[:, 20:21], names=["a3"])
    with refused(DataError, "values", at="column 0, row 0", naming=["NaN"]):
        selector.partial_fit_features(np.full((240, 1), np.nan))
    selector.fit(X, y)
    assert selector.n_features_in_ == 300


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    X, y = make_arrays(p=2000)
    options = {"dtype": "float32", "tile_shape": (64, 100)}
    return ingest(X, tmp_path_factory.mktemp("screen") / "s.zarr", y=y, **options)


@pytest.fixture(params=LOSSES)
def screened(request, store):
    """A matrix, and what a screening selects in this thread."""
    loss, matrix = request.param, store
    if loss == "logistic":
        matrix = ArrayMatrix(store.read(slice(None)), np.sign(store.read_target()))
    return matrix, OnlineSubstitution(10, loss=loss, schedule="screen").fit_matrix(matrix)


def screens_to_the_same_bits(screened, workers):
    matrix, expected = screened
    assert expected.result_.communication["screen"] > 0
    found = clone(expected).fit_matrix(matrix, workers=workers)
    np.testing.assert_array_equal(found.coef_, expected.coef_)
    pd.testing.assert_frame_equal(found.result_.history, expected.result_.history, check_exact=True)


def test_screening_gives_the_same_bits_by_threads_and_processes(screened, workers):
    screens_to_the_same_bits(screened, workers)


@pytest.mark.nightly
@pytest.mark.parametrize(("kind", "n_workers"), [("threads", 3), ("local", 1)])
def test_screening_gives_the_same_bits_by_any_number_of_workers(screened, kind, n_workers):
    with open_cluster(kind, n_workers=n_workers, dashboard_address=None) as workers:
        screens_to_the_same_bits(screened, workers)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("dtype", [np.float64, np.int8])
def test_screening_ends_about_as_low_as_looking_at_every_column(loss, dtype):
    rng = np.random.default_rng(5)
    X = rng.standard_normal((300, 3000))
    y = X[:, ::300] @ rng.standard_normal(10) + rng.standard_normal(300)
    X = np.clip(np.round(20 * X), -128, 127).astype(np.int8) if dtype == np.int8 else X
    y = np.sign(y) if loss == "logistic" else y
    last = {}
    for schedule in ("sequential", "screen"):
        selector = OnlineSubstitution(20, loss=loss, schedule=schedule).fit_matrix(ArrayMatrix(X, y))
        objective = selector.result_.history["objective"].to_numpy()
        assert (np.diff(objective) <= 1e-9).all()
        last[schedule] = objective[-1] / objective[0]
        assert selector.result_.history["n_presented"].iloc[-1] > 5900
    assert last["screen"] <= last["sequential"] * 1.1


def test_only_the_exchange_rule_is_screened():
    X, y = make_arrays()
    with refused(ConfigError, "parameters", at="schedule", naming=["'exchange'"]):
        OnlineSubstitution(8, rule="os", schedule="screen").fit(X, y)


def test_the_former_name_says_the_new_one_and_is_not_found_by_who_looks_for_a_method_of_rows():
    selector = OnlineSubstitution(2)
    assert not hasattr(selector, "partial_fit")
    with pytest.raises(AttributeError, match="partial_fit_features: it takes more columns, not more rows"):
        selector.partial_fit(np.eye(4), y=np.arange(4.0))
