"""The competitors of MISSION: each does what its paper says, and fails where its paper says."""

from __future__ import annotations

import random

import numpy as np
import pytest
import scipy.sparse

from daskfs.baselines import IHT, ITI, PHT, BatchIHT, FeatureHashing, IdentityMission, StochasticIHT
from daskfs.errors import ConfigError, PlanError
from daskfs.kernels.baselines.hard_thresholding import accumulate, k_largest, threshold
from daskfs.kernels.sketch.count_sketch import seed_word
from daskfs.kernels.sketch.heap import empty_heaps, push
from daskfs.matrix.arrays import ArrayMatrix
from daskfs.selectors.mission.selector import Mission
from daskfs.sources.sparse.fasta import FastaSource
from tests.refusals import refused


@pytest.fixture(scope="module")
def sparse():
    """Rare features first: hard thresholding meets them, keeps them, and never hears of the others."""
    rng = np.random.default_rng(0)
    popularity = np.minimum(0.5, 20.0 / (np.arange(2000) + 20.0))
    X = scipy.sparse.csr_array((rng.random((3000, 2000)) < popularity).astype(np.float64))
    X = scipy.sparse.diags_array(1 / np.sqrt(np.maximum(X.sum(axis=1), 1))) @ X
    relevant = np.arange(0, 100, 10)
    z = 20.0 * X[:, relevant] @ rng.choice([-1.0, 1.0], 10)
    return X.tocsr(), (z + rng.logistic(size=3000) > np.median(z)).astype(int), set(relevant.tolist())


@pytest.mark.parametrize("n_hashes", [1, 3])
def test_the_heap_keeps_the_largest(n_hashes):
    rng = np.random.default_rng(n_hashes)
    most, expected = 20, {}
    heaps = empty_heaps(1, most, 64, 0)
    places, heap, keys, place_of = (array[0] for array in heaps[:4])
    for turn in range(3000):
        key, weight = int(rng.integers(0, 100)), np.float32(rng.standard_normal() * (1 + turn % 7))
        push(places, heap, keys, place_of, heaps.n_active, np.uint64(key), weight, 1.0)
        least = min(expected, key=lambda one: abs(expected[one]), default=None)
        if key in expected or len(expected) < most:
            expected[key] = weight
        elif abs(weight) > abs(expected[least]):
            del expected[least]
            expected[key] = weight
        held = places[: heaps.n_active[0]]
        assert dict(zip(held["id"].tolist(), held["weight"].tolist(), strict=True)) == pytest.approx(expected)


@pytest.mark.slow
def test_hard_thresholding_by_rows_is_that_of_its_formula():
    rng = np.random.default_rng(0)
    X, k, rate = rng.standard_normal((60, 10)), 3, 0.05
    y = X[:, 4] - 2 * X[:, 8]
    coef = np.zeros(10)
    for x, target in zip(X, y, strict=True):
        coef += rate * (target - x @ coef - y.mean()) * x
        coef[np.argsort(-np.abs(coef))[k:]] = 0.0
    selector = StochasticIHT(k, n_epochs=1, learning_rate=rate, standardize=False, refit=None)
    selector.intercept_rate = 0.0
    selector.fit_matrix(ArrayMatrix(X, y, shuffled=True))
    np.testing.assert_allclose(selector.coef_, coef, atol=1e-5)


@pytest.mark.slow
def test_greed_loses_what_sums_of_gradients_keep(sparse):
    X, y, relevant = sparse
    found = {
        name: len(relevant & set(selector.fit(X, y).selected_))
        for name, selector in {
            "mission": Mission(10, "logistic"),
            "heap": Mission(10, "logistic", "paper", heap=True),
            "iht": StochasticIHT(10, "logistic"),
            "batch": BatchIHT(10, n_gathered=2000, loss="logistic"),
        }.items()
    }
    assert found["mission"] >= 9
    assert found["heap"] >= 8
    assert found["iht"] <= 5
    assert found["iht"] < found["batch"]


def test_hashed_features_predict_like_all_features(sparse):
    X, y, _ = sparse
    hashed = FeatureHashing(loss="logistic", n_buckets=1 << 16).fit(X, y)
    assert hashed.support_.all()
    assert hashed.score(X, y) > Mission(10, "logistic").fit(X, y).score(X, y) - 0.01
    tight = FeatureHashing(loss="logistic", n_buckets=16).fit(X, y)
    assert tight.score(X, y) < hashed.score(X, y) - 0.05
    assert len(np.unique(np.abs(tight.coef_))) <= 16


def test_hashed_features_take_several_classes(sparse):
    X, y, _ = sparse
    several = y + 2 * (np.arange(len(y)) % 2)
    hashed = FeatureHashing(loss="multinomial").fit(X, several)
    assert hashed.coef_.shape == (4, 2000)
    assert hashed.score(X, several) > 0.4


@pytest.mark.slow
def test_hard_thresholding_by_rows_keeps_the_largest_of_each_class(sparse):
    X, y, _ = sparse
    thresholded = StochasticIHT(10, "multinomial", refit=None).fit(X, y + 2 * (np.arange(len(y)) % 2))
    assert ((thresholded.coef_ != 0.0).sum(axis=1) == 10).all()


@pytest.mark.parametrize("selector", [IHT, ITI, PHT, IdentityMission])
def test_a_sparse_signal_is_recovered(selector):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((100, 500))
    found = selector(3).fit(X, 5.0 + X[:, [7, 77, 400]] @ [1.0, -1.0, 1.0])
    assert set(found.selected_) == {7, 77, 400}
    np.testing.assert_allclose(found.coef_[[7, 77, 400]], [1.0, -1.0, 1.0], atol=1e-6)
    assert found.intercept_ == pytest.approx(5.0)


def test_accumulated_gradients_withstand_more_attenuation_than_thresholded_ones():
    """Table 1 of the paper, (n, k) = (100, 3), with fewer columns and trials."""
    from_identity, from_iht = [], []
    for trial in range(6):
        rng = np.random.default_rng(1000 + trial)
        X, support = rng.standard_normal((100, 1000)), rng.choice(1000, 3, replace=False)
        for level, found in ((2.25, from_identity), (1.75, from_iht)):
            Z = X.copy()
            Z[:, support] /= level
            y = Z[:, support].sum(axis=1)
            if found is from_identity:
                chosen = accumulate(Z, y, 3, 0.001, 1000, 0.98, np.uint64(1000), (), seed_word(0))[0]
            else:
                chosen = threshold(Z, y, 3, 0, 0.001, 300, 1)[0]
            found.append(set(chosen.tolist()) == set(support.tolist()))
    assert sum(from_identity) >= 5
    assert sum(from_iht) <= 2


@pytest.mark.slow
def test_a_sketch_with_more_cells_than_columns_does_as_well_as_none():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((100, 300))
    y = X[:, [5, 50, 200]].sum(axis=1)
    assert set(IdentityMission(3, n_buckets=1024, n_steps=200).fit(X, y).selected_) == {5, 50, 200}
    assert set(IdentityMission(3, n_buckets=8, n_steps=200).fit(X, y).selected_) != {5, 50, 200}


def test_the_k_largest_are_those_of_sorting():
    rng = np.random.default_rng(0)
    for _ in range(20):
        values, chosen = rng.integers(-5, 6, 30).astype(float), np.empty(7, np.int64)
        k_largest(values, 7, chosen)
        np.testing.assert_array_equal(chosen, np.argsort(-np.abs(values), kind="stable")[:7])


def test_steps_that_grow_without_overflowing_are_halved():
    rng = np.random.default_rng(0)
    X, support = rng.standard_normal((100, 1000)), rng.choice(1000, 8, replace=False)
    found = IHT(8).fit(X, X[:, support].sum(axis=1))  # 300 steps of 1 / n end at 1e64
    assert "0.5 / n was used" in found.result_.notes[0]
    assert found.scores_.max() < 10.0


def test_what_cannot_be_is_refused():
    X, y = np.random.default_rng(0).standard_normal((30, 5)), np.arange(30.0)
    for wrong in (IHT(2, step_size=0.0), IHT(0), PHT(9), IdentityMission(2, last_factor=0.0), IHT(2, n_steps=0)):
        with pytest.raises(ConfigError):
            wrong.fit(X, y)
    assert "diverged" in IHT(5, step_size=1000.0).fit(X, y).result_.notes[0]
    with refused(PlanError, "memory-limit", at="memory_limit"):
        ITI(2, memory_limit=1000).fit(X, y)


def test_hashed_features_are_learnt_from_a_stream_too(sparse):
    X, y, _ = sparse
    stream = FeatureHashing(n_buckets=1 << 12, loss="logistic")
    for start in range(0, len(y), 1000):
        stream.partial_fit(X[start : start + 1000], y[start : start + 1000], classes=[0, 1])
    assert stream.support_.all()
    assert stream.score(X, y) > 0.75


def test_hashed_ids_are_learnt_from_a_stream_and_predicted_as_columns_are(tmp_path):
    """Ids that nobody lists have the cells, and rows the predictions, of the same numbers as columns."""
    rng, lines = random.Random(0), []
    for k in range(1500):
        letters = "".join(rng.choices("ACGT", [1 + (k % 3 == c) for c in range(4)], k=30))
        lines += [f">{k} label={'abc'[k % 3]}", letters]
    (tmp_path / "reads.fa").write_text("\n".join(lines) + "\n")
    source = FastaSource(tmp_path / "reads.fa", k=3, label_from="header")
    of_ids = FeatureHashing(n_buckets=1 << 8, loss="multinomial", random_state=0).fit_source(source)
    assert of_ids.score(source) > 0.75
    assert len(of_ids.selected_) == len(of_ids.result_.table) == 0
    of_ids.save(tmp_path / "model.npz")
    again = FeatureHashing.load(tmp_path / "model.npz")
    block = next(source.sparse_blocks(2000, 10**6))
    X = scipy.sparse.csr_matrix((block.data, block.features.astype(int), block.indptr), (1500, 64))
    columns = FeatureHashing(n_buckets=1 << 8, loss="multinomial", random_state=0).partial_fit(X, block.y)
    expected = X @ columns.coef_.T + columns.intercept_
    for found in (of_ids, again):
        y, _, predictor = found.predictors_of(source)
        np.testing.assert_allclose(predictor, expected, rtol=1e-5, atol=1e-6)
        assert y.tolist() == block.y.tolist()
    (tmp_path / "two.fa").write_text("\n".join(line.replace("label=c", "label=b") for line in lines) + "\n")
    source = FastaSource(tmp_path / "two.fa", k=3, label_from="header")
    of_two = FeatureHashing(n_buckets=1 << 8, loss="logistic", random_state=0).fit_source(source)
    assert of_two.predictors_of(source)[2].shape == (1500,)
    with refused(ConfigError, "streams", at="tail", naming=["cell"]):
        Mission(tail="identity", loss="multinomial").fit_source(source)
