"""``variant="paper"`` is the published algorithm: a plain transcription of it in dictionaries does the same."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.sparse
from sklearn.datasets import load_digits

from daskfs.matrix.arrays import ArrayMatrix
from daskfs.selectors.mission.model import ModelShape
from daskfs.selectors.mission.selector import Mission
from daskfs.selectors.mission.variants import model_of

WORD = (1 << 64) - 1
A, B, C = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB


def cells_of(key, n_buckets, n_hashes, seed=0):
    """Yield the cell and the sign of an id in every row, by the formulas of the frozen hash; 0 rows: the identity."""
    if n_hashes == 0:
        yield (0, key), 1.0
        return
    h = (key + seed) * A & WORD
    h = (h ^ (h >> 32)) * B & WORD
    h ^= h >> 32
    g = h * C & WORD
    k = (g ^ (g >> 32)) * A & WORD
    for r, half in enumerate((h, h >> 32, g >> 32, k, k >> 32)[:n_hashes]):
        yield (r, half & (n_buckets - 1)), -1.0 if (half >> 31) & 1 else 1.0


class CountSketch:
    """Cells in single precision, as they are kept."""

    def __init__(self, n_buckets, n_hashes):
        self.shape, self.cells = (n_buckets, n_hashes), {}

    def update(self, key, value):
        for cell, sign in cells_of(key, *self.shape):
            self.cells[cell] = np.float32(self.cells.get(cell, np.float32(0)) + np.float32(sign) * value)

    def query(self, key):
        return float(np.median([sign * self.cells.get(cell, 0.0) for cell, sign in cells_of(key, *self.shape)]))


def derivatives(loss, z, y):
    """∂loss/∂z: of one prediction of -1 or 1 or a number; of cross-entropy for each class."""
    if loss == "multinomial":
        share = np.exp(z - z.max())
        return share / share.sum() - (np.arange(len(z)) == y)
    if loss == "squared":
        return z - y
    sign = np.array([y]) if len(z) == 1 else np.where(np.arange(len(z)) == y, 1.0, -1.0)
    return -sign / (1.0 + np.exp(sign * z)) if loss == "logistic" else -sign * (sign * z < 1.0)


def algorithm_1(X, y, k, rate, loss, n_buckets, n_hashes, n_outputs, n_epochs=1):
    """Return the k largest of each class's sketch: after every row the active features and those of the row stand."""
    sketches = [CountSketch(n_buckets, n_hashes) for _ in range(n_outputs)]
    heaps = [set() for _ in range(n_outputs)]
    for i in list(range(X.shape[0])) * n_epochs:
        here = slice(X.indptr[i], X.indptr[i + 1])
        row = [(int(j), np.float32(x)) for j, x in zip(X.indices[here], X.data[here], strict=True)]
        z = np.array([
            math.fsum(sketch.query(j) * float(x) for j, x in row if j in heap)
            for sketch, heap in zip(sketches, heaps, strict=True)
        ])  # fmt: skip
        for c, gradient in enumerate(derivatives(loss, z, y[i])):
            for j, x in row:
                sketches[c].update(j, np.float32(-rate * gradient) * x)
            candidates = {j: abs(sketches[c].query(j)) for j in heaps[c] | {j for j, _ in row}}
            ranked = sorted(candidates, key=lambda j, sizes=candidates: (-sizes[j], j))
            heaps[c] = {j for j in ranked[:k] if candidates[j] > 0.0}
    coef = np.zeros((n_outputs, X.shape[1]))
    for c, heap in enumerate(heaps):
        coef[c, sorted(heap)] = [sketches[c].query(j) for j in sorted(heap)]
    return coef


def rows(n_classes, seed=0, n_samples=300, n_features=80):
    rng = np.random.default_rng(seed)
    X = scipy.sparse.random_array((n_samples, n_features), density=0.1, rng=rng, data_sampler=rng.standard_normal)
    X = X.tocsr().astype(np.float32)
    X.sort_indices()
    z = X @ (rng.standard_normal((n_features, max(n_classes, 1))) * (rng.random((n_features, 1)) < 0.2) * 2.0)
    return X, z[:, 0] + 0.1 * rng.standard_normal(n_samples) if n_classes == 0 else z.argmax(axis=1).astype(float)


@pytest.mark.slow
@pytest.mark.parametrize("n_hashes", [0, 1, 3, 5])
@pytest.mark.parametrize(
    ("loss", "n_classes"),
    [("squared", 0), ("logistic", 2), ("hinge", 2), ("multinomial", 2), ("multinomial", 5), ("logistic", 4)],
)
def test_it_is_algorithm_1_of_the_paper(loss, n_classes, n_hashes):
    k, rate, n_buckets = 6, 0.05, 64
    for seed in range(3):
        X, y = rows(n_classes, seed)
        n_outputs = n_classes if n_classes > 2 else 1
        kind = "logistic" if loss == "multinomial" and n_outputs == 1 else loss
        target = 2.0 * y - 1.0 if n_classes == 2 else y
        coef = algorithm_1(X, target, k, rate, kind, n_buckets, n_hashes, n_outputs)
        hashing = {"tail": "identity"} if n_hashes == 0 else {"n_hashes": n_hashes, "n_buckets": n_buckets}
        selector = Mission(k, loss=loss, variant="paper", learning_rate=rate, **hashing)
        selector.fit_matrix(ArrayMatrix(X, y, shuffled=True))
        np.testing.assert_array_equal(np.flatnonzero(selector.support_), np.flatnonzero(coef.any(axis=0)))
        np.testing.assert_allclose(np.atleast_2d(selector.coef_), coef, rtol=1e-5, atol=1e-7)
        assert not np.any(selector.intercept_)


def test_several_passes_go_on_in_the_same_sketch():
    X, y = rows(3)
    coef = algorithm_1(X, y, 4, 0.05, "multinomial", 32, 3, 3, n_epochs=2)
    selector = Mission(4, loss="multinomial", variant="paper", n_buckets=32, learning_rate=0.05, n_epochs=2)
    selector.fit_matrix(ArrayMatrix(X, y, shuffled=True))  # one block of rows: the second pass has their order too
    np.testing.assert_allclose(selector.coef_, coef, rtol=1e-5, atol=1e-7)


@pytest.mark.slow
def test_it_has_the_papers_settings_unless_it_is_told_of_others():
    X, y = rows(2)
    result = Mission(4, loss="logistic", variant="paper").fit(X, y).result_
    assert result.parameters["learning_rate"] == 0.5
    assert result.parameters["refit"] is None
    assert result.history["pass"].tolist() == [1]
    told = Mission(4, loss="logistic", variant="paper", n_epochs=3, intercept_rate=0.01, refit="exact").fit(X, y)
    assert told.result_.history["pass"].tolist() == [1, 2, 3]
    assert told.intercept_ != 0.0


@pytest.mark.parametrize("heap", [False, True])
@pytest.mark.parametrize("loss", ["multinomial", "logistic", "hinge"])
def test_it_tells_ten_digits_apart_without_a_refit(loss, heap):
    X, y = load_digits(return_X_y=True)
    selector = Mission(20, loss=loss, variant="paper", heap=heap).fit(X[:1400], y[:1400])
    assert selector.score(X[1400:], y[1400:]) > 0.75
    assert not np.array_equal(np.sort(selector.selected_), np.arange(len(selector.selected_)))
    assert ((selector.coef_ != 0.0).sum(axis=1) == 20).all()  # the paper's k features of each class


def test_a_heap_that_is_corrected_lazily_is_near_one_that_is_fresh():
    X, y = rows(4, n_samples=2000)
    fresh, lazy = (Mission(8, loss="multinomial", variant="paper", heap=heap).fit(X, y) for heap in (False, True))
    assert len(set(fresh.selected_) & set(lazy.selected_)) >= 0.8 * len(lazy.selected_)
    assert fresh.score(X, y) == pytest.approx(lazy.score(X, y), abs=0.05)


def test_a_model_with_heaps_takes_the_memory_it_says():
    for shape in (ModelShape(100, 1 << 10, 3, 0, variant="paper"), ModelShape(10, 64, 1, 0, 5, "hinge", "heap")):
        model = model_of(shape)
        assert model.sketch.cells.nbytes + sum(array.nbytes for array in model.heaps) == shape.nbytes


def test_models_with_heaps_are_averaged():
    X, y = rows(4, n_samples=1200)
    alone, together = (
        Mission(8, loss="multinomial", variant="paper", n_replicas=n, sync_every=100, learning_rate=0.05).fit(X, y)
        for n in (1, 3)
    )
    assert ((together.coef_ != 0.0).sum(axis=1) == 8).all()
    assert len(set(alone.selected_) & set(together.selected_)) >= 0.8 * len(alone.selected_)
