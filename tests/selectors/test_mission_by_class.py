"""Features of each class: an entry of the table is a feature and a class, as a slow loop over rows has them."""

import numpy as np
import pytest
import scipy.sparse
from scipy.special import softmax

from daskfs import Mission
from daskfs.selectors.mission.model import Entries, ModelShape
from daskfs.selectors.mission.variants import merged, model_of, restored, settled
from tests.tolerances import assert_same_answer, tolerance_of


def rows_and_classes(n_rows=600, n_features=300, n_classes=4, seed=0):
    """Each class has twelve features of its own that its rows have more often; the others are noise."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, n_classes, n_rows)
    share = np.full((n_rows, n_features), 0.03)
    for c in range(n_classes):
        share[y == c, 12 * c : 12 * c + 12] = 0.3
    return scipy.sparse.csr_matrix((rng.random((n_rows, n_features)) < share).astype(np.float64)), y


def fit(X, y, **more):
    settings = {"loss": "multinomial", "refit": None, "n_epochs": 1, "block_rows": 50, "random_state": 0}
    return Mission(6, **{**settings, "per_class": True, "learning_rate": 0.1, **more}).partial_fit(X, y)


def slowly(X, y, k, rate, block_rows, intercept, half_life):
    """The algorithm with a cell for each feature and class."""
    active, tail = np.zeros((X.shape[1], len(intercept))), np.zeros((X.shape[1], len(intercept)))
    thresholds, b = np.zeros(len(intercept)), intercept.copy()
    for i, (row, label) in enumerate(zip(X.toarray(), y, strict=True)):
        g = softmax(b + row @ active) - (np.arange(len(b)) == label)
        b -= 0.01 * rate * g
        for j in np.flatnonzero(row):
            for c, step in enumerate(-rate * g):
                if active[j, c] != 0.0:
                    active[j, c] += step
                else:
                    tail[j, c] += step
                    if abs(tail[j, c]) >= thresholds[c]:
                        active[j, c], tail[j, c] = tail[j, c], 0.0
        if (i + 1) % block_rows == 0:
            for c in range(len(b)):
                order = np.argsort(-np.abs(active[:, c]), kind="stable")
                tail[order[k:], c] += active[order[k:], c]
                active[order[k:], c] = 0.0
                thresholds[c] = np.abs(active[order[k - 1], c])
            tail *= 2.0 ** -(block_rows / half_life)
    return active, b


@pytest.mark.slow
def test_the_table_learns_as_a_slow_loop_with_a_cell_for_each_weight():
    X, y = rows_and_classes()
    found = fit(X, y, tail="identity")
    shares = np.bincount(y) / len(y)
    coef, intercept = slowly(X, y, 6, 0.1, 50, np.log(shares), len(y))
    np.testing.assert_allclose(found.coef_.T, coef, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(found.intercept_, intercept, rtol=1e-6)
    assert (np.count_nonzero(found.coef_, axis=1) == 6).all()


def test_each_class_has_its_own_features():
    X, y = rows_and_classes(3000)
    found = fit(X, y, tail_half_life=1)
    for c, coef in enumerate(found.coef_):
        of_class = np.flatnonzero(coef > 0)
        assert len(of_class) > 0
        assert np.mean((of_class >= 12 * c) & (of_class < 12 * c + 12)) > 0.7
    assert len(found.selected_) == np.count_nonzero(found.coef_.any(axis=0)) > 6
    assert found.score(X, y) > 0.7
    assert "for a class, up to 6 for each" in " ".join(found.result_.notes)
    assert set(found.result_.table["class"]) == {0, 1, 2, 3}


def test_two_classes_have_one_set_of_features():
    X, y = rows_and_classes(n_classes=2)
    one, other = (fit(X, y, loss="logistic", per_class=each) for each in (True, False))
    assert_same_answer(one, other, tolerance_of("mission"))


@pytest.mark.slow_cases("1", "5")
@pytest.mark.parametrize("n_hashes", [1, 3, 5])
def test_pieces_and_resumed_models_are_the_same(n_hashes):
    """What a model is when it travels does not depend on the layout of its table."""
    X, y = rows_and_classes(1000)
    whole = fit(X, y, n_hashes=n_hashes, n_buckets=64)
    shape = whole._stream.fit.config.model
    state = whole._stream.fit.state
    again = restored(shape, state).state()
    for name in ("keys", "classes", "weights", "touches", "cells", "thresholds"):
        np.testing.assert_array_equal(getattr(again, name), getattr(state, name))
    assert (np.bincount(state.classes) == 6).all()
    assert state.weights.all()


def test_models_are_averaged_entry_by_entry():
    """The mean's sketch holds what is not active, so that every weight of the mean is the mean of both."""
    shape = ModelShape(3, 1 << 14, 3, 0, n_outputs=3, loss="multinomial", per_class=True)
    rng, keys = np.random.default_rng(0), np.arange(20, dtype=np.uint64)
    states, weights = [], []
    for _ in range(2):
        model = model_of(shape)
        weights.append(rng.standard_normal((20, 3)))
        active = np.argsort(-np.abs(weights[-1]), axis=0)[:3].T  # of each class
        classes, largest = np.repeat(np.arange(3, dtype=np.int32), 3), active.ravel()
        values = weights[-1][largest, classes][:, None].astype(np.float32)
        model.sketch.add(keys, weights[-1])
        model.sketch.add(keys[largest], -values, classes)
        model.fill(Entries(keys[largest], classes, values, np.ones(9, np.int64)))
        states.append(model.state())
    found = settled(shape, merged(shape, *states))
    mean = (weights[0] + weights[1]) / 2
    of_all = shape.sketch(found.cells, found.scale).estimate(keys)
    of_all[found.keys.astype(int), found.classes] += found.weights[:, 0]
    np.testing.assert_allclose(of_all, mean, atol=1e-5)
    assert (np.bincount(found.classes) == 3).all()


@pytest.mark.slow
def test_replicas_and_a_refit_keep_features_of_each_class():
    X, y = rows_and_classes(2000)
    settings = {"loss": "multinomial", "per_class": True, "random_state": 0, "block_rows": 200, "n_epochs": 3}
    one = Mission(6, n_replicas=2, sync_every=100, **settings).fit(X, y)
    again = Mission(6, n_replicas=2, sync_every=100, **settings).fit(X, y)
    np.testing.assert_array_equal(one.coef_, again.coef_)
    assert one.score(X, y) > 0.7
    assert len(one.selected_) <= 24
