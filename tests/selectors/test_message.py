"""MESSAGE: its vote, its average, its answers on planted truth and on awkward data."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import scipy.sparse
from sklearn.base import clone
from sklearn.linear_model import LinearRegression

from daskfs.cluster.workers import Here
from daskfs.errors import ConfigError, DaskfsError, DataError, PlanError, SelectionWarning
from daskfs.matrix.arrays import ArrayMatrix
from daskfs.matrix.base import Matrix
from daskfs.matrix.names import Names
from daskfs.selectors.message.selector import Message
from tests.refusals import refused
from tests.tolerances import assert_same_answer

TRUE_FEATURES = [2, 5, 11]


def planted_case_1(seed, n_samples=10_000, n_features=1000, correlation=0.0):
    """The paper's case 1: three features, normal noise of standard deviation 2."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_samples, n_features), dtype=np.float32)
    if correlation:
        X *= np.float32(np.sqrt(1 - correlation))
        X += np.float32(np.sqrt(correlation)) * rng.standard_normal((n_samples, 1), dtype=np.float32)
    true = np.sort(rng.choice(n_features, 3, replace=False))
    sign = np.where(rng.random(3) < 0.4, -1.0, 1.0)
    coef = sign * (8 * np.log(n_samples) / np.sqrt(n_samples) + np.abs(rng.standard_normal(3)))
    return X, X[:, true].astype(float) @ coef + 2.0 * rng.standard_normal(n_samples), true, coef


@pytest.mark.parametrize("correlation", [0.0, 0.5])
def test_planted_truth_is_found_with_the_default_subsets(correlation):
    for seed in range(3):
        X, y, true, _ = planted_case_1(seed, correlation=correlation)
        np.testing.assert_array_equal(np.flatnonzero(Message().fit(X, y).support_), true)


@pytest.mark.slow
@pytest.mark.parametrize("correlation", [0.0, 0.5])
def test_planted_truth_is_found_in_19_of_20_seeds(correlation):
    n_right, error = 0, 0.0
    for seed in range(20):
        X, y, true, coef = planted_case_1(seed, correlation=correlation)
        selector = Message(subset_size=400).fit(X, y)  # as in the paper
        n_right += np.array_equal(np.flatnonzero(selector.support_), true)
        error += float(((selector.coef_[true] - coef) ** 2).sum()) / 20
    assert n_right >= 19
    assert error < 0.005  # the paper's figures 1 and 2 at n = 10,000; least squares on the truth has 0.0014 and 0.0023


def test_the_answer_is_the_average_of_least_squares_on_random_subsets(problem):
    X, y = problem
    selector = Message(n_subsets=3, random_state=7, average="mean").fit(X, y)
    np.testing.assert_array_equal(np.flatnonzero(selector.support_), TRUE_FEATURES)
    order = np.argsort(np.random.default_rng(7).random(len(y)), kind="stable")
    fits = [
        LinearRegression().fit(X[np.ix_(order[rows], TRUE_FEATURES)], y[order[rows]])
        for rows in (slice(0, 400), slice(400, 800), slice(800, 1200))
    ]
    coef = np.mean([fit.coef_ for fit in fits], axis=0)
    np.testing.assert_allclose(selector.coef_[TRUE_FEATURES], coef, rtol=1e-10)
    np.testing.assert_allclose(selector.intercept_, y.mean() - X[:, TRUE_FEATURES].mean(axis=0) @ coef, rtol=1e-10)


def test_the_most_important_feature_comes_first(problem):
    selector = Message(n_subsets=3).fit(*problem)
    np.testing.assert_array_equal(selector.selected_, [2, 5, 11])
    assert list(selector.result_.table["name"]) == ["x2", "x5", "x11"]
    np.testing.assert_array_equal(selector.scores_[[2, 5, 11]], [1.0, 1.0, 1.0])


def test_the_result_holds_the_path_of_the_first_subset(problem):
    result = Message(n_subsets=3).fit(*problem).result_
    assert list(result.history.columns) == ["lambda", "df", "rss", "gic", "chosen"]
    assert result.history["gic"].idxmin() == result.history["chosen"].idxmax()
    assert result.history["lambda"].is_monotonic_decreasing
    assert result.parameters["n_subsets"] == 3
    assert set(result.time) == {"select"}  # the refit follows from what the paths left behind
    assert "client" not in result.parameters


class Votes(Matrix):
    """Two or three blocks of 40 rows, of which each explains the target by the columns given."""

    rows_are_random = True
    dtype = np.dtype(float)

    def __init__(self, columns, constant=()):
        rng = np.random.default_rng(0)
        self.shape = (40 * len(columns), 4)
        self.X = rng.standard_normal(self.shape)
        self.y = 0.01 * rng.standard_normal(self.shape[0])
        for k, chosen in enumerate(columns):
            rows = slice(40 * k, 40 * (k + 1))
            self.y[rows] += self.X[rows][:, chosen].sum(axis=1)
        for block, column in constant:
            self.X[40 * block : 40 * (block + 1), column] = 1.0

    def read(self, rows, columns=slice(None), out=None):
        return self.X[rows][:, columns].copy()

    def read_target(self, rows=slice(None)):
        return self.y[rows]


@pytest.mark.filterwarnings("ignore::daskfs.errors.SelectionWarning")
@pytest.mark.parametrize(
    ("columns", "tie", "expected"),
    [
        ([[0], [0, 1], [1, 2]], "drop", [0, 1]),
        ([[0, 1], [0, 2]], "drop", [0]),
        ([[0, 1], [0, 2]], "keep", [0, 1, 2]),
        ([[0], [1], [2]], "drop", []),
    ],
)
def test_a_feature_needs_the_votes_of_a_strict_majority(columns, tie, expected):
    selector = Message(n_subsets=len(columns), tie=tie).fit(Votes(columns))
    np.testing.assert_array_equal(np.flatnonzero(selector.support_), expected)


def test_a_subset_does_not_vote_on_a_column_that_is_constant_there():
    matrix = Votes([[0, 1], [0, 1], [0], [0], [0, 1]], constant=[(2, 1), (3, 3)])
    selector = Message(n_subsets=5, average="mean").fit(matrix)
    np.testing.assert_array_equal(np.flatnonzero(selector.support_), [0, 1])
    assert selector.scores_[1] == 0.75
    assert selector.coef_[1] == pytest.approx(0.75, abs=0.02)  # 1, 1, about 0 and 1


def test_a_column_that_varies_in_few_subsets_is_not_selected():
    matrix = Votes([[0, 1], [0, 1], [0], [0], [0]], constant=[(2, 1), (3, 1), (4, 1)])
    selector = Message(n_subsets=5).fit(matrix)
    np.testing.assert_array_equal(np.flatnonzero(selector.support_), [0])
    assert selector.scores_[1] == 1.0


def test_constant_columns_are_named_in_the_notes(problem):
    X, y = problem
    X = X.copy()
    X[:, [4, 6]] = 2.0
    selector = Message(n_subsets=3).fit(X, y)
    assert np.isnan(selector.scores_[[4, 6]]).all()
    assert selector.result_.notes[0] == "2 column(s) are constant and cannot be selected: x4, x6"


def test_duplicated_and_collinear_columns_give_finite_answers(problem):
    X, y = problem
    X = np.column_stack([X, X[:, 2], X[:, 5] + X[:, 11]])
    selector = Message(n_subsets=3).fit(X, y)
    assert np.isfinite(selector.coef_).all()
    assert selector.score(X, y) > 0.75


def test_of_twins_all_subsets_choose_the_first(problem):
    """Dummies of two categories are the same column up to sign."""
    rng = np.random.default_rng(5)
    X = np.column_stack([problem[0], np.zeros((1200, 2))])
    X[:, 20] = rng.random(1200) < 0.4
    X[:, 21] = 1.0 - X[:, 20]
    selector = Message(n_subsets=3).fit(X, problem[1] + 2.0 * X[:, 20])
    np.testing.assert_array_equal(np.flatnonzero(selector.support_), [*TRUE_FEATURES, 20])
    assert (selector.scores_[20], selector.scores_[21]) == (1.0, 0.0)


def test_selected_columns_that_depend_on_each_other_are_counted():
    matrix = Votes([[0, 1], [0, 1], [0, 1]])
    matrix.X[80:, 1] = matrix.X[80:, 0]
    matrix.y[80:] = 2.0 * matrix.X[80:, 0]
    selector = Message(n_subsets=3).fit(matrix)
    np.testing.assert_allclose(selector.coef_[[0, 1]], 1.0, atol=0.02)
    assert "in 1 of 3 subsets the selected columns are linearly dependent" in selector.result_.notes[0]


def test_no_majority_leaves_the_mean(problem):
    X, _ = problem
    y = np.random.default_rng(3).standard_normal(len(X))
    with pytest.warns(SelectionWarning, match="Message: no feature was selected"):
        selector = Message(n_subsets=3).fit(X, y)
    assert len(selector.selected_) == 0
    assert selector.intercept_ == pytest.approx(y.mean())
    np.testing.assert_allclose(selector.predict(X), y.mean())
    assert "no feature was selected" in selector.result_.notes


def test_more_features_than_rows():
    X, y, true, _ = planted_case_1(0, n_samples=300, n_features=800)
    np.testing.assert_array_equal(np.flatnonzero(Message(n_subsets=1).fit(X, y).support_), true)


def test_one_column_is_enough(problem):
    X, y = problem
    assert Message().fit(X[:, [2]], y).support_.tolist() == [True]


@pytest.mark.parametrize("criterion", ["bic", "ric", "ebic"])
@pytest.mark.parametrize("gic_rss", ["refit", "lasso"])
def test_every_criterion_finds_the_signals(problem, criterion, gic_rss):
    selector = Message(n_subsets=3, criterion=criterion, gic_rss=gic_rss, patience=None).fit(*problem)
    assert set(TRUE_FEATURES) <= set(selector.selected_.tolist())


def test_weight_zero_is_a_removed_row(problem):
    X, y = problem
    weight = np.random.default_rng(4).integers(0, 3, len(y)).astype(float)
    kept = weight > 0
    weighted = Message(n_subsets=3).fit(X, y, weight)
    removed = Message(n_subsets=3).fit(X[kept], y[kept], weight[kept])
    assert_same_answer(weighted, removed)


def test_the_same_seed_gives_the_same_answer_and_another_one_another(problem):
    first, again, other = (Message(n_subsets=3, random_state=seed).fit(*problem) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first.coef_, again.coef_)
    assert not np.array_equal(first.coef_, other.coef_)


@pytest.mark.parametrize("memory_limit", [None, "10MiB", "40MB", 2**30])
def test_the_memory_limit_changes_tasks_and_not_answers(problem, memory_limit):
    expected = Message(n_subsets=5).fit(*problem)
    selector = Message(n_subsets=5, memory_limit=memory_limit).fit(*problem)
    assert_same_answer(selector, expected)


def test_a_fitted_selector_can_be_cloned_and_pickled(problem):
    X, y = problem
    selector = Message(n_subsets=3).fit(X, y)
    again = pickle.loads(pickle.dumps(selector))
    np.testing.assert_array_equal(again.predict(X), selector.predict(X))
    assert clone(selector).get_params() == selector.get_params()
    assert not hasattr(clone(selector), "coef_")


@pytest.mark.parametrize(
    ("parameters", "place"),
    [
        ({"criterion": "ebik"}, "criterion: .*did you mean 'ebic'"),
        ({"gic_rss": "ols"}, "gic_rss"),
        ({"tie": "coin"}, "tie"),
        ({"loss": "logit"}, "loss: expected one of squared, logistic"),
        ({"partition": "by row"}, "partition: expected one of random, strided"),
        ({"average": "mode"}, "average"),
        ({"approx": "las"}, "approx: expected one of lsa, None, found .las. .did you mean .lsa"),
        ({"gic_penalty": 0.0}, "gic_penalty: expected a positive number"),
        ({"sigma2": "known"}, "sigma2: expected a positive number"),
        ({"gamma": 2.0}, "gamma"),
        ({"n_lambdas": 1}, "n_lambdas"),
        ({"patience": 0}, "patience"),
        ({"max_features": "all"}, "max_features"),
        ({"n_subsets": 0}, "n_subsets"),
        ({"n_subsets": 5.5}, "n_subsets"),
        ({"n_subsets": 601}, "n_subsets: expected at least two rows per subset.*at most 600"),
        ({"n_subsets": 3, "subset_size": 400}, "found both"),
        ({"memory_limit": "much"}, "memory_limit"),
    ],
)
def test_a_wrong_parameter_is_named(problem, parameters, place):
    with pytest.raises(ConfigError, match=place):
        Message(**parameters).fit(*problem)


def test_a_subset_over_the_memory_limit_is_refused_with_sizes_that_fit(problem):
    X = np.random.default_rng(0).standard_normal((20_000, 40))
    y = X[:, 0].copy()
    with pytest.raises(PlanError, match=r"allow at least .* bytes, or set n_subsets=(\d+)") as refused:
        Message(n_subsets=1, memory_limit="10MiB").fit(X, y)
    n_subsets = int(refused.value.remedy.split("n_subsets=")[1].split(" ")[0])
    Message(n_subsets=n_subsets, memory_limit="10MiB").fit(X, y)


@pytest.mark.parametrize("loss", ["squared", "logistic", "multinomial", "poisson", "huber"])
def test_a_value_too_large_to_be_squared_is_named_by_column_and_row(problem, loss):
    X, y = problem[0].copy(), (problem[1] > 0).astype(float)
    X[17, 3] = -1e300
    with refused(DataError, "values", at="column 3, row 17", naming=["1e", "300"]):
        Message(n_subsets=3, loss=loss).fit(X, y)


def test_columns_that_are_all_constant_are_warned_of():
    with (
        pytest.warns(SelectionWarning, match="all columns are constant: 'x0', 'x1', 'x2'"),
        pytest.warns(SelectionWarning, match="no feature was selected"),
    ):
        selector = Message(n_subsets=2).fit(np.ones((100, 3)), np.arange(100.0))
    assert any("3 column(s) are constant" in note for note in selector.result_.notes)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_value_that_is_not_finite_is_named_by_column_and_row(problem, value):
    pandas = pytest.importorskip("pandas")
    X, y = problem
    frame = pandas.DataFrame(X, columns=[f"gene{j}" for j in range(20)])
    frame.loc[17, "gene3"] = value
    with refused(DataError, "values", at="column 'gene3', row 17", naming=["17"]):
        Message().fit(frame, y)


def test_a_value_that_is_not_finite_in_a_store_is_named_by_column_and_source_row():
    class Stored(Votes):
        names = Names(4, np.array(["a", "b", "c", "d"], dtype=object))
        source_rows = np.arange(120)[::-1].copy()

    matrix = Stored([[0], [0], [0]])
    matrix.X[100, 2] = np.nan
    with refused(DataError, "values", at="column 'c', row 19", naming=["NaN"]):
        Message(n_subsets=3).fit(matrix)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_target_that_is_not_finite_is_named_by_row(problem, value):
    X, y = problem
    y = y.copy()
    y[5] = value
    with refused(DataError, "values", at="target, row 5"):
        Message().fit(X, y)


def test_a_constant_target_is_refused(problem):
    X, _ = problem
    with refused(DataError, "target", at="target", naming=["constant"]):
        Message().fit(X, np.full(len(X), 2.0))


def test_a_target_that_is_constant_in_one_subset_is_no_fault():
    matrix = Votes([[0], [0], [0]])
    matrix.y[:40] = 0.5
    np.testing.assert_array_equal(np.flatnonzero(Message(n_subsets=3).fit(matrix).support_), [0])


def test_one_row_is_refused():
    with pytest.raises(ValueError, match="minimum of 2"):
        Message().fit(np.ones((1, 3)), [1.0])
    with refused(DataError, "target", naming=["2"]):
        Message().fit(ArrayMatrix(np.ones((1, 3)), [1.0]))


def test_a_matrix_without_a_target_is_refused(problem):
    with refused(DataError, "target", naming=["target"]):
        Message().fit(ArrayMatrix(problem[0]))


def test_a_second_target_beside_a_store_is_refused(problem):
    X, y = problem
    with refused(DaskfsError, "shapes", at="fit", naming=["target"]):
        Message().fit(ArrayMatrix(X, y), y)


class FiveThreads(Here):
    """This thread, posing as five, so that every subset gets a task."""

    n_threads = 5


class Kept(dict):
    """A checkpoint in memory."""

    def load(self, name):
        return self.get(name)

    def save(self, name, arrays):
        self[name] = {key: np.array(value) for key, value in arrays.items()}


class Counted:
    """Progress that remembers."""

    def __init__(self):
        self.steps = {}

    def start(self, name, total):
        self.name, self.steps[name] = name, [0, total]

    def advance(self, k=1):
        self.steps[self.name][0] += k

    def finish(self):
        self.name = None


def test_a_resumed_fit_ends_with_the_same_answer(problem):
    matrix = ArrayMatrix(*problem)
    checkpoint, progress = Kept(), Counted()
    selector = Message(n_subsets=5)
    whole = clone(selector).fit_matrix(matrix, workers=FiveThreads(), checkpoint=checkpoint, progress=progress)
    assert len(checkpoint) == 5
    assert progress.steps == {"message-select": [5, 5]}
    for name in list(checkpoint)[1::2]:
        del checkpoint[name]
    again = Counted()
    resumed = clone(selector).fit_matrix(matrix, workers=FiveThreads(), checkpoint=checkpoint, progress=again)
    assert again.steps == progress.steps
    np.testing.assert_array_equal(resumed.coef_, whole.coef_)
    np.testing.assert_array_equal(resumed.result_.history["gic"], whole.result_.history["gic"])


@pytest.mark.parametrize("loss", ["squared", "logistic", "poisson", "huber", "multinomial"])
def test_sparse_rows_in_memory_give_what_dense_ones_give(loss):
    X = scipy.sparse.random(900, 60, density=0.1, random_state=0, format="csr")
    eta = X[:, :3].toarray() @ [3.0, -2.0, 4.0]
    y = {"poisson": np.round(np.exp(eta)), "multinomial": np.digitize(eta, [-0.1, 0.5])}.get(loss, eta)
    y = (eta > 0).astype(int) if loss == "logistic" else y
    fits = [Message(loss=loss, n_subsets=3, random_state=0).fit(rows, y) for rows in (X, X.toarray())]
    assert fits[0].support_.any()
    assert_same_answer(*fits)


def test_the_goal_of_prediction_keeps_more_and_predicts_better_where_many_weak_features_count():
    kept, gains = [], []
    for seed in range(5):
        rng = np.random.default_rng(seed)
        X = rng.standard_normal((4_000, 120))
        mean = X[:, :60] @ np.full(60, 0.08)
        y = mean + rng.standard_normal(4_000)
        few, many = (Message(goal=goal).fit(X[:1_000], y[:1_000]) for goal in ("inference", "prediction"))
        kept.append(len(many.selected_) - len(few.selected_))
        gains.append(many.score(X[1_000:], mean[1_000:]) - few.score(X[1_000:], mean[1_000:]))
        assert few.result_.notes[-1].startswith("the goal was inference")
        assert many.result_.notes[-1].startswith("the goal was prediction")
        assert many.n_subsets_ == 1
    assert min(kept) > 0
    assert np.mean(gains) > 0.05


def test_the_goal_of_prediction_has_a_criterion_of_its_own():
    with refused(ConfigError, "parameters", at="criterion", naming=["'prediction'"]):
        Message(goal="prediction", criterion="ebic").fit(np.eye(4), np.arange(4.0))
