"""Rows that come in several calls: the answer of one fit over the same subsets."""

from __future__ import annotations

import gc
import pickle
import warnings
import weakref

import dask.array as da
import numpy as np
import pandas as pd
import pytest

from daskfs.errors import DataError, SelectionWarning
from daskfs.matrix.arrays import ArrayMatrix
from daskfs.selectors.message.selector import Message
from daskfs.sources.ingest import ingest
from tests.refusals import refused
from tests.tolerances import FLOAT32, assert_close, assert_same_answer


def targets(loss, X, seed=0):
    rng = np.random.default_rng(seed)
    eta = X[:, 2] - 0.8 * X[:, 5]
    if loss == "logistic":
        return np.where(eta + rng.logistic(size=len(X)) > 0, 1.0, 0.0)
    return rng.poisson(np.exp(0.5 * eta)).astype(float) if loss == "poisson" else eta + rng.standard_normal(len(X))


@pytest.mark.parametrize("average", ["one_step", "mean"])
@pytest.mark.parametrize("loss", ["squared", "logistic", "poisson"])
def test_two_calls_are_one_fit_over_the_same_subsets(problem, loss, average):
    X = problem[0]
    y = targets(loss, X)
    whole = Message(n_subsets=4, loss=loss, average=average).fit(ArrayMatrix(X, y, shuffled=True))
    parts = Message(n_subsets=2, loss=loss, average=average)
    for rows in (slice(0, 600), slice(600, 1200)):
        parts.partial_fit(ArrayMatrix(X[rows], y[rows], shuffled=True))
    assert_same_answer(parts, whole)
    assert parts.n_subsets_ == 4
    assert parts.result_.n_samples == 1200
    assert set(whole.support_.nonzero()[0]) == {2, 5}


@pytest.mark.slow
@pytest.mark.parametrize("loss", ["squared", "logistic", "poisson", "multinomial"])
@pytest.mark.parametrize("n_subsets", [1, 3, 5])
def test_many_calls_are_one_fit_where_the_penalty_depends_on_the_number_of_subsets(n_subsets, loss, tmp_path):
    """Few subsets must be stricter with 1,500 columns than many: which λ counts is known when the last has come."""
    n_calls, n_rows = 6, 120 * n_subsets
    for seed in range(2):
        rng = np.random.default_rng(seed)
        X = rng.standard_normal((n_calls * n_rows, 1500)).astype(np.float32)
        z = 0.8 * X[:, 3] - 0.6 * X[:, 20] + 0.35 * X[:, 30] + 0.35 * X[:, 31]
        y = {
            "squared": z + rng.standard_normal(len(z)),
            "logistic": (2 * z + rng.logistic(size=len(z)) > 0).astype(float),
            "poisson": rng.poisson(np.exp(0.7 * z)).astype(float),
            "multinomial": np.argmax(np.outer(2 * z, [1, 0, -1]) + rng.gumbel(size=(len(z), 3)), axis=1).astype(float),
        }[loss]
        whole = Message(n_subsets=n_calls * n_subsets, loss=loss).fit(ArrayMatrix(X, y, shuffled=True))
        parts = Message(n_subsets=n_subsets, loss=loss)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SelectionWarning)  # one subset alone may find nothing
            for rows in np.split(np.arange(len(X)), n_calls):
                parts.partial_fit(ArrayMatrix(X[rows], y[rows], shuffled=True))
        assert_same_answer(parts, whole, FLOAT32)
        np.testing.assert_array_equal(parts.n_selected_per_subset_, whole.n_selected_per_subset_)
        pd.testing.assert_frame_equal(parts.result_.history, whole.result_.history, rtol=FLOAT32)
        assert {3, 20} <= set(whole.selected_)


@pytest.mark.slow
@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_many_calls_with_stores_are_one_fit(loss, tmp_path):
    rng = np.random.default_rng(5)
    X = rng.standard_normal((2400, 1500)).astype(np.float32)
    z = 0.8 * X[:, 3] - 0.6 * X[:, 20] + 0.3 * X[:, 30]
    y = z + rng.standard_normal(2400) if loss == "squared" else (2 * z + rng.logistic(size=2400) > 0).astype(float)
    pieces = np.split(np.arange(2400), 6)
    stores = [ingest(X[rows], tmp_path / f"{rows[0]}.zarr", y=y[rows]) for rows in pieces]
    rows = np.concatenate([store.read(slice(None)) for store in stores])
    target = np.concatenate([store.read_target() for store in stores])
    whole = Message(n_subsets=12, loss=loss).fit(ArrayMatrix(rows, target, shuffled=True))
    parts = Message(n_subsets=2, loss=loss)
    for store in stores:
        parts.partial_fit(store)
    assert_same_answer(parts, whole, FLOAT32)
    assert {3, 20} <= set(whole.selected_)


def test_a_fit_may_be_continued_and_a_new_fit_forgets(problem):
    X, y = problem
    first, second = (ArrayMatrix(X[rows], y[rows], shuffled=True) for rows in (slice(0, 600), slice(600, 1200)))
    continued = Message(n_subsets=2).fit(first).partial_fit(second)
    assert_same_answer(continued, Message(n_subsets=4).fit(ArrayMatrix(X, y, shuffled=True)))
    again = continued.fit(first)
    np.testing.assert_array_equal(again.coef_, Message(n_subsets=2).fit(first).coef_)


@pytest.mark.slow
def test_rows_of_one_class_may_follow_a_fit_of_a_store(problem, tmp_path):
    X = problem[0]
    y = targets("logistic", X)
    selector = Message(n_subsets=3, loss="logistic").fit(ingest(X[:900], tmp_path / "p.zarr", y=y[:900]))
    later = X[900:][y[900:] == 1.0]
    selector.set_params(n_subsets=1).partial_fit(later, np.ones(len(later)))
    assert list(selector.classes_) == [0.0, 1.0]
    assert selector.score(X, y) > 0.7


def test_a_pickled_selector_is_small_and_says_where_it_needs_rows_it_left_behind(problem):
    X = problem[0]
    y = targets("logistic", X)
    selector = Message(n_subsets=3, loss="logistic").partial_fit(X, y)
    pickled = pickle.dumps(selector)
    assert len(pickled) < X.nbytes / 4
    selector.partial_fit(X, y)
    with pytest.warns(UserWarning, match="the rows of earlier calls were not kept"):
        again = pickle.loads(pickled).partial_fit(X, y)
    assert again.n_subsets_ == 6
    assert any("3 of 6 subsets" in note and "left out of the average" in note for note in again.result_.notes)


@pytest.mark.slow
@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_a_fit_keeps_no_arrays_and_says_so_where_they_are_needed(problem, loss):
    given = problem[0], targets(loss, problem[0])
    X, y = given[0].copy(), given[1]
    held = weakref.ref(X)
    selector = Message(n_subsets=3, loss=loss).fit(X, y)
    del X
    gc.collect()
    assert held() is None
    if loss == "squared":
        assert selector.partial_fit(problem[0], y).n_subsets_ == 6
    else:
        with pytest.warns(UserWarning, match="call partial_fit instead of fit"):
            selector.partial_fit(problem[0], y)
        assert_close(selector.coef_, Message(n_subsets=3, loss=loss, average="mean").fit(*given).coef_)


@pytest.mark.slow
def test_a_fit_of_a_store_may_be_continued_with_any_loss(problem, tmp_path):
    X = problem[0]
    y = targets("logistic", X)
    stores = [ingest(X[rows], tmp_path / f"{rows.start}.zarr", y=y[rows]) for rows in (slice(0, 600), slice(600, 1200))]
    continued = Message(n_subsets=2, loss="logistic").fit(stores[0]).partial_fit(stores[1])
    parts = Message(n_subsets=2, loss="logistic").partial_fit(stores[0]).partial_fit(stores[1])
    assert_same_answer(continued, parts, FLOAT32)
    assert continued.n_subsets_ == 4


@pytest.mark.slow
def test_classes_may_be_named_before_rows_of_a_store_have_them_all(problem, tmp_path):
    X = problem[0]
    y = targets("logistic", X)
    store = ingest(X, tmp_path / "whole.zarr", y=y)
    rows = np.flatnonzero(store.read_target() == 1.0)
    with pytest.warns(SelectionWarning, match="no feature was selected"):
        selector = Message(n_subsets=1, loss="logistic").partial_fit(store.take(rows[:300]), classes=[0.0, 1.0])
    selector.set_params(n_subsets=3).partial_fit(store.take(np.arange(600, 1200)))
    assert list(selector.classes_) == [0.0, 1.0]
    assert selector.score(X, y) > 0.65  # the target is noisy


def changed_minds():
    """Two calls of which only the second, with more subsets, sees the feature 1."""
    rng = np.random.default_rng(9)
    X = rng.standard_normal((2000, 300))
    y = 2 * X[:, 0] + 0.1 * rng.standard_normal(2000)
    y[800:] += X[800:, 1]
    return X, y


def test_subsets_that_cannot_be_refitted_are_left_out_and_counted(monkeypatch):
    monkeypatch.setattr("daskfs.selectors.message.selector.KEPT_NBYTES", 0)
    X, y = changed_minds()
    selector = Message(subset_size=400, patience=1)
    selector.partial_fit(ArrayMatrix(X[:800], y[:800], shuffled=True))
    np.testing.assert_array_equal(np.flatnonzero(selector.support_), [0])
    selector.partial_fit(ArrayMatrix(X[800:], y[800:], shuffled=True))
    np.testing.assert_array_equal(np.flatnonzero(selector.support_), [0, 1])
    np.testing.assert_allclose(selector.coef_[:2], [2.0, 1.0], atol=0.02)
    assert "2 of 5 subsets are left out of the average" in selector.result_.notes[0]


def test_a_store_is_read_again_where_that_is_needed(tmp_path):
    X, y = changed_minds()
    stores = [
        ingest(X[rows], tmp_path / f"{name}.zarr", y=y[rows], dtype="float64")
        for name, rows in (("a", slice(0, 800)), ("b", slice(800, 2000)))
    ]
    selector = Message(subset_size=400, patience=1)
    for store in stores:
        selector.partial_fit(store)
    expected = np.linalg.lstsq(np.column_stack([np.ones(2000), X[:, :2]]), y, rcond=None)[0]
    np.testing.assert_allclose(selector.coef_[:2], expected[1:], rtol=1e-10)
    assert "had to read the selected columns again" in selector.result_.notes[0]
    again = pickle.loads(pickle.dumps(selector)).partial_fit(stores[1])
    assert again.n_subsets_ == 8


@pytest.mark.parametrize("given", ["dask", "store that is gone"])
def test_a_pickled_selector_loads_where_its_rows_are_no_more(problem, tmp_path, given):
    X, y = problem[0], targets("squared", problem[0])
    selector = Message(n_subsets=3)
    if given == "dask":  # written to a temporary store
        selector.fit(da.from_array(X, chunks=(300, -1)), da.from_array(y, chunks=300))
        pickled = pickle.dumps(selector)
    else:
        selector.fit(ingest(X, tmp_path / "a.zarr", y=y))
        pickled = pickle.dumps(selector)
        (tmp_path / "a.zarr").rename(tmp_path / "b.zarr")
    again = pickle.loads(pickled)
    np.testing.assert_array_equal(again.predict(X), selector.predict(X))
    assert again.partial_fit(X, y).n_subsets_ == 6


def test_labels_may_be_named_before_they_are_seen(problem):
    X = problem[0]
    label = np.where(targets("logistic", X) > 0, "yes", "no")
    selector = Message(n_subsets=1, loss="logistic").partial_fit(X[:600], label[:600], classes=["no", "yes"])
    selector.partial_fit(X[600:1000], label[600:1000])
    assert list(selector.classes_) == ["no", "yes"]
    assert selector.score(X, label) > 0.7
    with refused(DataError, "shapes", at="y, row 0", naming=["'no'", "'yes'"]):
        selector.partial_fit(X[1000:], np.full(200, "maybe"))


def test_columns_must_be_those_of_the_first_call(problem):
    X, y = problem
    selector = Message(n_subsets=1).partial_fit(X, y)
    with pytest.raises(ValueError, match="expecting 20 features"):
        selector.partial_fit(X[:, :5], y)
    with refused(DataError, "shapes", naming=["5", "20"]):
        selector.partial_fit(ArrayMatrix(X[:, :5], y))
