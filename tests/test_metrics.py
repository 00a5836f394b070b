import numpy as np
import pytest
from sklearn import metrics as reference

from daskfs import metrics
from daskfs.errors import DataError
from tests.refusals import refused

RNG = np.random.default_rng(3)
Y, PREDICTION, WEIGHT = RNG.normal(size=(3, 50))
WEIGHT = np.abs(WEIGHT)


@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["equal", "weighted"])
@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (metrics.mse, reference.mean_squared_error),
        (metrics.rmse, reference.root_mean_squared_error),
        (metrics.mae, reference.mean_absolute_error),
        (metrics.r2, reference.r2_score),
    ],
)
def test_errors_agree_with_scikit_learn(ours, theirs, weight):
    assert ours(Y, PREDICTION, weight) == pytest.approx(theirs(Y, PREDICTION, sample_weight=weight), rel=1e-12)


@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["equal", "weighted"])
def test_auc_average_precision_and_accuracy_agree_with_scikit_learn_on_ties_too(weight):
    labels = np.where(Y > 0, 1.0, -1.0)
    score = np.round(Y + PREDICTION)
    assert metrics.auc(labels, score, weight) == pytest.approx(
        reference.roc_auc_score(labels, score, sample_weight=weight), rel=1e-12
    )
    assert metrics.average_precision(labels, score, weight) == pytest.approx(
        reference.average_precision_score(labels, score, sample_weight=weight), rel=1e-12
    )
    guess = np.sign(PREDICTION)
    assert metrics.accuracy(labels, guess, weight) == pytest.approx(
        reference.accuracy_score(labels, guess, sample_weight=weight), rel=1e-12
    )


def test_rows_without_weight_change_no_average_precision():
    labels, score = np.array([1.0, -1.0, 1.0, -1.0]), np.array([9.0, 8.0, 0.6, 0.4])
    expected = metrics.average_precision(labels[2:], score[2:])
    assert metrics.average_precision(labels, score, np.array([0.0, 0.0, 1.0, 1.0])) == expected


def test_r2_of_a_constant_target_is_not_defined():
    assert np.isnan(metrics.r2(np.ones(3), np.zeros(3)))


def test_auc_needs_two_labels():
    with refused(DataError, "shapes", naming=["1"]):
        metrics.auc(np.ones(3), np.arange(3.0))
    with refused(DataError, "shapes", naming=["1"]):
        metrics.average_precision(np.ones(3), np.arange(3.0))


@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["equal", "weighted"])
@pytest.mark.parametrize("n_classes", [2, 4])
def test_metrics_of_labels_agree_with_scikit_learn(n_classes, weight):
    rng = np.random.default_rng(n_classes)
    y = rng.integers(0, n_classes, 50).astype(float)
    guess = np.where(rng.random(50) < 0.5, y, rng.integers(0, n_classes, 50))
    average = {} if n_classes == 2 else {"average": "macro"}
    for ours, theirs in (
        (metrics.f1, reference.f1_score),
        (metrics.precision_score, reference.precision_score),
        (metrics.recall_score, reference.recall_score),
    ):
        expected = theirs(y, guess, sample_weight=weight, **average)
        assert ours(y, guess, weight) == pytest.approx(expected, rel=1e-12)
        assert ours(y, guess, weight, classes=np.arange(float(n_classes))) == pytest.approx(expected, rel=1e-12)
    expected = reference.balanced_accuracy_score(y, guess, sample_weight=weight)
    assert metrics.balanced_accuracy(y, guess, weight) == pytest.approx(expected, rel=1e-12)
    p = rng.dirichlet(np.ones(n_classes), 50)
    p[0] = np.eye(n_classes)[0]  # sure, and perhaps wrong
    assert metrics.log_loss(y, p, weight) == pytest.approx(reference.log_loss(y, p, sample_weight=weight), rel=1e-12)
    if n_classes == 2:
        assert metrics.log_loss(y, p[:, 1], weight) == pytest.approx(metrics.log_loss(y, p, weight), rel=1e-12)


def test_a_class_that_is_never_predicted_counts_as_zero_and_one_that_is_absent_may_be_named():
    y, guess = np.array([0.0, 0.0, 2.0]), np.array([0.0, 0.0, 0.0])
    assert metrics.precision_score(y, guess) == metrics.f1(y, guess, classes=np.array([0.0, 2.0])) == 0.0
    assert metrics.recall_score(y, guess, classes=np.arange(3.0)) == pytest.approx(1 / 3)
    assert metrics.log_loss(np.zeros(2), np.full((2, 3), 1 / 3), classes=np.arange(3)) == pytest.approx(np.log(3))
    with refused(DataError, "shapes", naming=["3", "1"]):
        metrics.log_loss(np.zeros(2), np.full((2, 3), 1 / 3))
    with refused(DataError, "shapes", naming=["labels"]):
        metrics.log_loss(np.array([0, 7]), np.full((2, 3), 1 / 3), classes=np.arange(3))


def test_the_former_names_of_metrics_of_selections_say_the_new_ones():
    with pytest.warns(
        FutureWarning, match="recall is now called selection_recall; the metric of labels is recall_score"
    ):
        assert metrics.recall([3, 1, 7], [1, 2, 3]) == 2 / 3
    with pytest.warns(FutureWarning, match="precision is now called selection_precision"):
        assert metrics.precision([3, 1], [1]) == 0.5


@pytest.mark.parametrize("metric", metrics.PREDICTION_METRICS.values())
def test_arrays_of_different_or_no_length_are_refused(metric):
    with refused(DataError, "shapes", at="metrics", naming=["shape"]):
        metric(np.ones(3), np.ones((3, 1)) if metric is not metrics.log_loss else np.ones((4, 2)))
    with refused(DataError, "shapes", at="metrics", naming=["sample"]):
        metric(np.ones(0), np.ones(0))


def test_sets_are_compared_without_order():
    assert metrics.selection_recall([3, 1], [1, 3]) == metrics.selection_precision([3, 1], [1, 3]) == 1.0
    assert metrics.selection_precision([1, 2, 3, 4], [1]) == 0.25
    assert metrics.selection_recall([], [1, 2]) == 0.0
    assert metrics.selection_recall([], []) == metrics.selection_precision([], [1]) == metrics.jaccard([], []) == 1.0


def test_stability_of_one_selection_is_not_defined():
    assert np.isnan(metrics.stability([[1, 2]]))
    assert metrics.stability([[1, 2], [1, 2], [2, 1]]) == 1.0
