"""MISSION selects what matters, by every loss, and says what it did."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression

from daskfs.errors import ConfigError, DataError, PlanError
from daskfs.selectors.mission.capacity import check_capacity, check_noise
from daskfs.selectors.mission.selector import Mission
from tests.refusals import refused
from tests.tolerances import assert_same_answer, tolerance_of

RELEVANT = np.arange(0, 200, 10)


def sparse_problem(n_samples=4000, n_features=5000, seed=0, n_classes=2):
    """Rows of about 30 entries, norm 1; twenty features that are common enough decide the class."""
    rng = np.random.default_rng(seed)
    popularity = 1.0 / (np.arange(n_features) + 20.0)
    popularity *= 30 / popularity.sum()
    X = scipy.sparse.csr_array((rng.random((n_samples, n_features)) < popularity).astype(np.float64))
    X = scipy.sparse.diags_array(1 / np.sqrt(np.maximum(X.sum(axis=1), 1))) @ X
    coef = np.zeros((n_classes - 1, n_features))
    coef[:, RELEVANT] = 12.0 * rng.choice([-1, 1], (n_classes - 1, len(RELEVANT)))
    z = X @ coef.T + rng.logistic(size=(n_samples, n_classes - 1))
    return X.tocsr(), np.argmax(np.column_stack([np.zeros(n_samples), z]), axis=1)


@pytest.fixture(scope="module")
def sparse():
    return sparse_problem()


@pytest.mark.parametrize("variant", ["active", "paper"])
@pytest.mark.parametrize("loss", ["squared", "logistic", "hinge", "squared_hinge"])
def test_it_finds_the_features_that_decide(sparse, loss, variant):
    X, y = sparse
    selector = Mission(20, loss=loss, variant=variant, n_buckets=1 << 14).fit(X, 2.0 * y - 1.0)
    assert len(set(selector.selected_) & set(RELEVANT)) >= 18
    z = selector.predict(X) if loss == "squared" else selector.decision_function(X)
    assert np.mean((z > 0) == y) > 0.76  # the labels' own noise leaves .79


@pytest.mark.slow
@pytest.mark.parametrize("loss", ["multinomial", "logistic", "hinge"])
def test_several_classes_share_their_features(loss):
    X, y = sparse_problem(6000, 2000, n_classes=4)
    selector = Mission(20, loss=loss).fit(X, np.array(["a", "b", "c", "d"])[y])
    assert len(set(selector.selected_) & set(RELEVANT)) >= 16
    assert selector.coef_.shape == (4, 2000)
    assert selector.score(X, np.array(["a", "b", "c", "d"])[y]) > 0.6
    assert set(selector.result_.table["class"]) <= {0, 1, 2, 3}
    if loss != "hinge":
        np.testing.assert_allclose(selector.predict_proba(X[:5]).sum(axis=1), 1.0)


@pytest.mark.slow
def test_cells_far_more_than_ids_lose_nothing_against_dense_descent(sparse):
    X, y = sparse
    found = {
        tail: set(Mission(20, loss="logistic", tail=tail, n_buckets=buckets, refit=None).fit(X, y).selected_)
        for tail, buckets in (("identity", None), ("sketch", 1 << 18))
    }
    assert len(found["identity"] & found["sketch"]) >= 19


def test_a_sketch_that_is_too_small_loses_recall(sparse):
    X, y = sparse
    recalls = [
        len(set(Mission(20, loss="logistic", n_buckets=n, n_candidates=None).fit(X, y).selected_) & set(RELEVANT)) / 20
        for n in (16, 1 << 14)
    ]
    assert recalls[0] < recalls[1] - 0.2


@pytest.mark.slow
def test_exact_weights_withstand_small_sketches_better_than_the_papers(sparse):
    X, y = sparse
    recalls = {
        variant: np.mean([
            len(set(Mission(20, "logistic", variant, n_epochs=1, n_buckets=128, random_state=s).fit(X, y).selected_)
                & set(RELEVANT)) / 20
            for s in range(5)
        ])
        for variant in ("active", "paper")
    }  # fmt: skip
    assert recalls["active"] > recalls["paper"] + 0.3


def test_without_decay_a_tail_gathers_weight(sparse):
    X, y = sparse
    norms = {
        half_life: Mission(20, "logistic", n_buckets=256, n_epochs=8, tail_half_life=half_life).fit(X, y).result_
        for half_life in (None, 1.0)
    }
    assert norms[None].history["tail_norm"].iloc[-1] > 2 * norms[1.0].history["tail_norm"].iloc[-1]
    assert any("without tail_half_life" in note for note in norms[None].notes)


def test_the_exact_refit_is_nearly_maximum_likelihood_where_rows_are_many(sparse):
    X, y = sparse
    selector = Mission(20, loss="logistic").fit(X, y)
    columns = np.flatnonzero(selector.support_)
    peer = LogisticRegression(C=np.inf, tol=1e-10, max_iter=1000).fit(X[:, columns], y)
    np.testing.assert_allclose(selector.coef_[columns], peer.coef_[0], rtol=0.03)  # a small ridge
    assert selector.intercept_ == pytest.approx(peer.intercept_[0], abs=0.03)


def test_the_refit_by_descent_comes_near_the_exact_one(sparse):
    X, y = sparse
    losses = {}
    for refit in ("exact", "sgd", None):
        z = Mission(20, loss="logistic", refit=refit).fit(X, y).decision_function(X)
        losses[refit] = np.logaddexp(0, -(2 * y - 1) * z).mean()
    assert losses["exact"] < losses["sgd"] < losses[None]
    assert losses["sgd"] < losses["exact"] + 0.03


def test_the_table_tells_weight_touches_and_deviation(sparse):
    X, y = sparse
    table = Mission(20, loss="logistic", refit="sgd", n_epochs=2).fit(X, y).result_.table
    columns = table["index"].to_numpy()
    np.testing.assert_allclose(table["deviation"], X[:, columns].toarray().std(axis=0), rtol=1e-5)
    np.testing.assert_allclose(table["weight_x_deviation"], np.abs(table["weight"]) * table["deviation"])
    np.testing.assert_allclose(table["score"], np.abs(table["weight"]))
    assert (table["score"].diff().dropna() <= 0).all()
    entries = np.diff(X[:, columns].tocsc().indptr)
    assert (table["touches"].to_numpy() <= 2 * entries).all()  # of two passes
    assert (table["touches"].to_numpy() > 1.5 * entries).all()


def test_dense_columns_of_any_scale_and_centre_are_compared(problem):
    X, y = problem
    scale = 10.0 ** np.random.default_rng(0).integers(-4, 5, 20)
    for refit in ("exact", "sgd"):
        plain, scaled = (Mission(3, refit=refit).fit(Z, y) for Z in (X, 7.0 + X * scale))
        np.testing.assert_array_equal(np.sort(scaled.selected_), [2, 5, 11])
        np.testing.assert_allclose(scaled.coef_ * scale, plain.coef_, rtol=2e-2, atol=1e-6)
        assert scaled.score(7.0 + X * scale, y) == pytest.approx(plain.score(X, y), abs=2e-3)


def test_rows_of_weight_zero_are_no_rows(problem):
    X, y = problem
    weight = np.random.default_rng(0).integers(0, 2, len(y))
    selector = Mission(3, refit="sgd").fit(X, y, sample_weight=weight)
    noisy = np.where(weight[:, None] == 0, 1e6, X)
    np.testing.assert_array_equal(Mission(3, refit="sgd").fit(noisy, y, sample_weight=weight).coef_, selector.coef_)


def test_class_weights_are_sample_weights(sparse):
    X, y = sparse
    for refit in ("exact", "sgd"):
        by_class = Mission(20, "logistic", class_weight={0: 1.0, 1: 5.0}, refit=refit).fit(X, y)
        by_row = Mission(20, "logistic", refit=refit).fit(X, y, np.where(y == 1, 5.0, 1.0))
        np.testing.assert_allclose(by_class.coef_, by_row.coef_, rtol=1e-4, atol=1e-6)
        assert by_class.decision_function(X).mean() > Mission(20, "logistic").fit(X, y).decision_function(X).mean()


def test_balanced_classes_weigh_the_same(sparse):
    X, y = sparse
    rare = np.flatnonzero((y == 0) | (np.arange(len(y)) % 8 == 0))
    selector = Mission(20, "logistic", class_weight="balanced").fit(X[rare], y[rare])
    prediction = selector.predict(X[rare])
    assert (prediction[y[rare] == 1] == 1).mean() > 0.7


def test_the_model_of_two_classes_is_one_whatever_its_name(sparse):
    X, y = sparse
    assert_same_answer(*(Mission(20, loss).fit(X, y) for loss in ("multinomial", "logistic")), tolerance_of("mission"))


def test_a_stream_of_rows_is_learnt_from_call_by_call(sparse):
    X, y = sparse
    stream = Mission(20, loss="logistic", n_buckets=1 << 14)
    for start in range(0, len(y), 500):
        stream.partial_fit(X[start : start + 500], y[start : start + 500], classes=[0, 1])
    assert len(set(stream.selected_) & set(RELEVANT)) >= 17
    assert stream.result_.n_samples == len(y)
    assert stream.result_.history["rows_seen"].iloc[-1] == len(y)
    assert stream.score(X, y) > 0.75


def test_a_pickled_stream_goes_on_where_it_stood(sparse):
    import pickle

    X, y = sparse
    whole = Mission(20, loss="logistic").partial_fit(X[:1000], y[:1000]).partial_fit(X[1000:], y[1000:])
    half = pickle.loads(pickle.dumps(Mission(20, loss="logistic").partial_fit(X[:1000], y[:1000])))
    half.partial_fit(X[1000:], y[1000:])
    np.testing.assert_array_equal(half.coef_, whole.coef_)
    assert half.intercept_ == whole.intercept_


def test_a_stream_refuses_a_class_it_was_not_told_of(sparse):
    X, y = sparse
    stream = Mission(20, loss="logistic").partial_fit(X[:100], y[:100])
    with refused(DataError, "shapes", at="y, row 1", naming=["classes"]):
        stream.partial_fit(X[:100], y[:100] + 1)


def test_the_same_seed_gives_the_same_selection_and_another_one_another_hash(sparse):
    X, y = sparse
    first = Mission(20, loss="logistic", n_buckets=64, n_candidates=None).fit(X, y)
    np.testing.assert_array_equal(clone(first).fit(X, y).coef_, first.coef_)
    other = Mission(20, loss="logistic", n_buckets=64, n_candidates=None, random_state=1).fit(X, y)
    assert set(other.selected_) != set(first.selected_)


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_nan_is_refused_by_column_and_row(problem, kind):
    X, y = problem
    X = X.copy()
    X[700, 4] = np.nan
    with refused(DataError, "values", at="column 4, row 700"):
        Mission(3).fit(X if kind == "dense" else scipy.sparse.csr_array(X), y)


def test_numbers_too_large_for_single_precision_are_refused(problem):
    X, y = problem
    X = scipy.sparse.csr_array(X.copy())
    X.data[1000] = 1e300
    with refused(DataError, "values", at="column 0, row 50", naming=["infinite"]):
        Mission(3).fit(X, y)


def test_a_rate_that_is_too_large_is_refused(problem):
    with refused(DataError, "values", at="learning_rate"):
        Mission(3, learning_rate=1e6).fit(*problem)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_features_to_select": 21}, "n_features_to_select: requests 21 features, but there are 20"),
        ({"n_features_to_select": 0}, "n_features_to_select"),
        ({"loss": "logistc"}, "did you mean 'logistic'"),
        ({"variant": "papers"}, "did you mean 'paper'"),
        ({"n_buckets": 1000}, "n_buckets: expected a power of two"),
        ({"n_hashes": 2}, "n_hashes"),
        ({"learning_rate": -1.0}, "learning_rate"),
        ({"tail_half_life": 0.0}, "tail_half_life"),
        ({"intercept_rate": 2.0}, "intercept_rate"),
        ({"class_weight": "balanced"}, "the squared loss has no classes"),
        ({"sync_every": 0}, "sync_every"),
    ],
)
def test_parameters_that_cannot_be_are_refused(problem, parameters, message):
    with pytest.raises(ConfigError, match=message):
        Mission(**parameters).fit(*problem)


def test_an_exact_refit_of_a_loss_without_one_is_refused(sparse):
    with refused(ConfigError, "parameters", at="refit", naming=["hinge"]):
        Mission(20, "hinge", refit="exact").fit(*sparse)


def test_a_class_weight_of_no_class_is_refused(sparse):
    with refused(ConfigError, "target", at="class_weight", naming=["7"]):
        Mission(20, "logistic", class_weight={7: 2.0}).fit(*sparse)


def test_a_plan_over_the_limit_is_refused_with_sizes_that_fit():
    with pytest.raises(PlanError, match=r"allow at least [\d,]+ bytes, or set n_buckets=\d+") as caught:
        Mission(100).plan(10**6, 10**5, "float32", 10 << 20)
    n_buckets = int(str(caught.value).rsplit("=", 1)[1])
    assert Mission(100, n_buckets=n_buckets).plan(10**6, 10**5, "float32", 10 << 20).task_nbytes <= 10 << 20


def test_a_plan_counts_passes_and_keeps_the_limit():
    plan = Mission(100, n_epochs=3).plan(10**6, 1000, "float32", 64 << 20)
    assert plan.task_nbytes <= 64 << 20
    assert (plan.n_passes, plan.read_nbytes) == (5, 5 * 4 * 10**9)
    assert Mission(10, n_epochs=3).plan(10**4, 1000, "float32", None).n_passes == 3


def test_capacity_is_judged_before_and_after(sparse):
    X, y = sparse
    small, large = (Mission(20, "logistic", n_buckets=b).fit(X, y).result_ for b in (16, 1 << 14))
    assert any("TOO SMALL, set n_buckets=" in note for note in small.notes)
    assert not any("TOO SMALL" in note for note in large.notes)
    assert any("after the run" in note and "would be enough" in note for note in small.notes)
    assert any("0 of" in note for note in large.notes if "after the run" in note)


def test_the_ghost_law_asks_for_what_the_paper_needs():
    assert check_capacity(2000, 710_236, 1 << 18, 3, "paper").is_enough
    assert not check_capacity(2000, 710_236, 1 << 16, 3, "paper").is_enough
    assert check_capacity(2000, 710_236, 1 << 16, 3, "active").is_enough
    assert check_noise(1.0, 0.0, 100, 64, 3).n_ghosts == pytest.approx(100)
    assert check_noise(0.0, 0.1, 100, 64, 3).is_enough


def test_the_history_tells_the_loss_before_learning(sparse):
    X, y = sparse
    history = Mission(20, "logistic", n_epochs=3, block_rows=500, refit="exact").fit(X, y).result_.history
    assert history["pass"].tolist() == [1] * 8 + [2] * 8 + [3] * 8
    assert history["rows_seen"].tolist()[-1] == 12_000
    assert history["mean_loss"].iloc[0] == pytest.approx(np.log(2), abs=0.1)
    assert history["mean_loss"].iloc[-1] < 0.55
