"""The competitors with losses other than squares: each against its definition on the kernels."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression

from daskfs.baselines.lasso.base import TOLERANCE
from daskfs.baselines.lasso.bolasso import Bolasso
from daskfs.baselines.lasso.full_data import FullData
from daskfs.baselines.lasso.subset_estimates import Averaging, Median
from daskfs.baselines.lasso.tasks import RowPart, Weighting
from daskfs.errors import PlanError, SelectionWarning
from daskfs.kernels.glm.path import glm_path
from daskfs.kernels.lasso.criteria import feature_penalty
from daskfs.matrix.arrays import ArrayMatrix
from daskfs.sources.ingest import ingest
from tests.refusals import refused

TRUE_FEATURES = [2, 5, 11]
BASELINES = [FullData(), Averaging(n_subsets=3), Median(n_subsets=3), Bolasso(n_bootstraps=4)]
NAMES = ["full_data", "averaging", "median", "bolasso"]


def targets_of(X, seed=1):
    rng = np.random.default_rng(seed)
    z = X[:, TRUE_FEATURES] @ [1.5, -1.0, 0.8]
    return {
        "logistic": (z + rng.logistic(size=len(z)) > 0).astype(float),
        "poisson": rng.poisson(np.exp(np.clip(0.5 * z, -3, 3))).astype(float),
        "huber": z + rng.standard_t(2, len(z)),
    }


@pytest.fixture(scope="module")
def X(problem):
    return problem[0]


def path_of(X, y, loss, weight=None):
    weight = np.ones(len(y)) if weight is None else weight
    y = np.where(y > 0, 1.0, -1.0) if loss == "logistic" else y
    penalty = feature_penalty("ebic", weight.sum(), X.shape[1])
    return glm_path(np.ascontiguousarray(X), y, weight, loss=loss, penalty=penalty, tol=TOLERANCE)


@pytest.mark.parametrize("loss", ["logistic", "poisson", "huber"])
@pytest.mark.parametrize("baseline", BASELINES, ids=NAMES)
def test_every_baseline_finds_the_planted_features_with_every_loss(baseline, loss, X):
    y = targets_of(X)[loss]
    selector = clone(baseline).set_params(loss=loss).fit(X, y)
    assert set(TRUE_FEATURES) <= set(selector.selected_)
    assert np.isfinite(selector.coef_).all()
    assert np.isfinite(selector.intercept_)
    np.testing.assert_array_equal(np.sign(selector.coef_[TRUE_FEATURES]), [1, -1, 1])
    assert selector.score(X, y) > {"logistic": 0.7, "poisson": 0.1, "huber": 0.05}[loss]  # t(2) has no variance
    assert {"lambda", "df", "deviance", "gic", "chosen"} == set(selector.result_.history.columns)


@pytest.mark.parametrize("loss", ["logistic", "poisson"])
def test_full_data_is_the_path_of_all_rows(X, loss):
    y = targets_of(X)[loss]
    selector, path = FullData(loss=loss).fit(X, y), path_of(X, y, loss)
    np.testing.assert_array_equal(np.flatnonzero(selector.support_), path.selected())
    np.testing.assert_array_equal(selector.coef_, path.coefficients(path.best))
    assert selector.intercept_ == pytest.approx(path.intercept(path.best))


@pytest.mark.parametrize(("baseline", "combine"), [(Averaging, np.mean), (Median, np.median)])
def test_averaging_and_median_combine_the_subsets_of_classes(X, baseline, combine):
    y = targets_of(X)["logistic"]
    selector = baseline(n_subsets=3, loss="logistic").fit(X, y)
    order = np.argsort(np.random.default_rng(0).random(len(y)), kind="stable")
    paths = [path_of(X[rows], y[rows], "logistic") for rows in np.split(order, 3)]
    np.testing.assert_allclose(selector.coef_, combine([path.coefficients(path.best) for path in paths], axis=0))
    assert selector.intercept_ == pytest.approx(combine([path.intercept(path.best) for path in paths]))


def test_bolasso_of_classes_intersects_the_samples_and_refits_by_maximum_likelihood(X):
    y = targets_of(X)["logistic"]
    selector = Bolasso(n_bootstraps=5, loss="logistic", gamma=0.0, random_state=3).fit(X, y)
    part = RowPart(0, slice(0, len(y)))
    samples = [Weighting.bootstrap((3, b), np.array([len(y)])).of(part, np.ones(len(y))) for b in range(5)]
    y_coded, penalty = np.where(y > 0, 1.0, -1.0), feature_penalty("bic", len(y), X.shape[1])
    paths = [glm_path(X, y_coded, weight, loss="logistic", penalty=penalty) for weight in samples]
    kept = set.intersection(*(set(path.selected()) for path in paths))
    assert len(set.union(*(set(path.selected()) for path in paths))) > len(kept)
    np.testing.assert_array_equal(np.flatnonzero(selector.support_), sorted(kept))
    refit = LogisticRegression(C=np.inf, tol=1e-12, max_iter=1000).fit(X[:, sorted(kept)], y)
    np.testing.assert_allclose(selector.coef_[sorted(kept)], refit.coef_[0], rtol=1e-5)
    assert selector.intercept_ == pytest.approx(refit.intercept_[0], rel=1e-4)


@pytest.mark.parametrize("baseline", BASELINES, ids=NAMES)
def test_of_noise_the_odds_remain(X, baseline):
    y = (np.random.default_rng(9).random(len(X)) < 0.25).astype(float)
    with pytest.warns(SelectionWarning, match="no feature was selected"):
        selector = clone(baseline).set_params(loss="logistic", gamma=1.0).fit(X, y)
    assert len(selector.selected_) == 0
    assert selector.intercept_ == pytest.approx(np.log(y.mean() / (1 - y.mean())), abs=0.05)


def test_labels_come_back_as_they_were(X):
    y = np.where(targets_of(X)["logistic"] > 0, "yes", "no")
    selector = FullData(loss="logistic").fit(X, y)
    assert set(selector.predict(X)) == {"yes", "no"}
    assert selector.predict_proba(X).shape == (len(X), 2)


@pytest.mark.parametrize("baseline", [FullData(), Bolasso(n_bootstraps=3)], ids=["full_data", "bolasso"])
def test_rows_that_do_not_fit_in_a_task_are_refused(X, baseline):
    y = targets_of(X)["logistic"]
    with refused(PlanError, "memory-limit", at="memory_limit", naming=["1,200"]):
        clone(baseline).set_params(loss="logistic", memory_limit="2MiB").fit(X, y)


@pytest.mark.parametrize("baseline", BASELINES, ids=NAMES)
def test_threads_give_the_bits_of_this_thread(X, baseline, threads, tmp_path):
    store = ingest(X, tmp_path / "classes.zarr", y=targets_of(X)["logistic"], dtype="float64")
    train, _ = store.split(0.25)
    expected = clone(baseline).set_params(loss="logistic").fit(train)
    found = clone(baseline).set_params(loss="logistic").fit_matrix(train, workers=threads)
    np.testing.assert_array_equal(found.coef_, expected.coef_)
    assert found.intercept_ == expected.intercept_


class Memory:
    """A checkpoint that keeps what it is given, each name once."""

    def __init__(self):
        self.saved = {}

    def load(self, name):
        return self.saved.get(name)

    def save(self, name, arrays):
        assert name not in self.saved
        self.saved[name] = arrays


@pytest.mark.parametrize("baseline", BASELINES, ids=NAMES)
def test_several_classes_are_told_from_the_rest_one_by_one(baseline, X):
    rng = np.random.default_rng(2)
    labels = np.array(["ash", "elm", "oak"])
    y = np.argmax(X[:, TRUE_FEATURES] * 1.5 + rng.gumbel(size=(len(X), 3)), axis=1)
    several = clone(baseline).set_params(loss="multinomial").fit(X, labels[y])
    assert set(TRUE_FEATURES) <= set(several.selected_)
    two = [clone(baseline).set_params(loss="logistic").fit(X, y == c) for c in range(3)]
    np.testing.assert_array_equal(several.coef_, [one.coef_ for one in two])
    np.testing.assert_array_equal(several.intercept_, [one.intercept_ for one in two])
    np.testing.assert_array_equal(several.support_, np.any([one.support_ for one in two], axis=0))
    np.testing.assert_array_equal(several.scores_, np.max([one.scores_ for one in two], axis=0))
    np.testing.assert_array_equal(several.classes_, labels)
    assert several.score(X, labels[y]) > 0.55
    shares = np.column_stack([one.predict_proba(X[:9])[:, 1] for one in two])
    np.testing.assert_allclose(several.predict_proba(X[:9]), shares / shares.sum(axis=1, keepdims=True))
    norms = np.sqrt((several.coef_[:, several.selected_] ** 2).sum(axis=0))
    np.testing.assert_allclose(several.result_.table["coef"], norms)


@pytest.mark.parametrize("baseline", BASELINES, ids=NAMES)
def test_the_classes_of_a_checkpoint_are_kept_apart(baseline, X):
    y = np.argmax(X[:, TRUE_FEATURES] + np.random.default_rng(3).gumbel(size=(len(X), 3)), axis=1).astype(float)
    matrix, memory = ArrayMatrix(X, y, shuffled=True), Memory()
    plain, first, again = (clone(baseline).set_params(loss="multinomial") for _ in range(3))
    plain.fit_matrix(matrix)
    first.fit_matrix(matrix, checkpoint=memory)
    memory.save = None
    again.fit_matrix(matrix, checkpoint=memory)
    for one in (first, again):
        np.testing.assert_array_equal(one.coef_, plain.coef_)
