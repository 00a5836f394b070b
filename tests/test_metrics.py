import numpy as np
import pytest
from sklearn import metrics as reference

from daskfs import metrics
from daskfs.errors import DataError

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


def test_r2_of_a_constant_target_is_not_defined():
    assert np.isnan(metrics.r2(np.ones(3), np.zeros(3)))


def test_auc_needs_two_labels():
    with pytest.raises(DataError, match="expected two labels, found 1"):
        metrics.auc(np.ones(3), np.arange(3.0))
    with pytest.raises(DataError, match="expected two labels, found 1"):
        metrics.average_precision(np.ones(3), np.arange(3.0))


@pytest.mark.parametrize("metric", metrics.PREDICTION_METRICS.values())
def test_arrays_of_different_or_no_length_are_refused(metric):
    with pytest.raises(DataError, match="one shape"):
        metric(np.ones(3), np.ones((3, 1)))
    with pytest.raises(DataError, match="at least one sample"):
        metric(np.ones(0), np.ones(0))


def test_sets_are_compared_without_order():
    assert metrics.recall([3, 1], [1, 3]) == metrics.precision([3, 1], [1, 3]) == 1.0
    assert metrics.precision([1, 2, 3, 4], [1]) == 0.25
    assert metrics.recall([], [1, 2]) == 0.0
    assert metrics.recall([], []) == metrics.precision([], [1]) == metrics.jaccard([], []) == 1.0


def test_stability_of_one_selection_is_not_defined():
    assert np.isnan(metrics.stability([[1, 2]]))
    assert metrics.stability([[1, 2], [1, 2], [2, 1]]) == 1.0
