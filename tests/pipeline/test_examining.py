"""What a report tells beside a selection: intervals, baselines, calibration, and what looks suspicious."""

import numpy as np
import pandas as pd
import pytest

from daskfs.errors import Suspicion
from daskfs.losses import find_loss
from daskfs.metrics import PREDICTION_METRICS, bootstrap_interval
from daskfs.pipeline.config import load_pipeline
from daskfs.pipeline.prediction_quality import Predicted, _wilson_interval, record_of_test, warnings_on_test
from daskfs.pipeline.run import run_pipeline
from daskfs.report.comparison import differences
from daskfs.result import SelectionResult


def predicted(y, prediction, loss="squared", predictor=None):
    y, prediction = np.asarray(y, float), np.asarray(prediction, float)
    return Predicted(y, None, prediction if predictor is None else predictor, prediction, find_loss(loss))


@pytest.fixture
def numbers():
    rng = np.random.default_rng(0)
    prediction = rng.normal(size=400)
    return prediction + rng.normal(scale=0.5, size=400), prediction


def doubts(one, **metrics):
    metrics = metrics or {"r2": one.metric("r2")}
    return [*warnings_on_test(one, record_of_test(one, float(one.y.mean()), metrics), metrics)]


@pytest.mark.slow
@pytest.mark.parametrize("n", [60, 8_000])
def test_intervals_hold_the_truth_nearly_always(n):
    """Of 100 samples of residuals of variance 4: 95 are expected, and at least 85 in all but one of 10,000 cases."""
    held = 0
    for seed in range(100):
        residuals = np.random.default_rng(seed).normal(scale=2.0, size=n)
        low, high = bootstrap_interval("mse", residuals, np.zeros(n), random_state=seed)
        held += low <= 4.0 <= high
    assert held >= 85


def test_an_interval_of_a_sample_of_rows_is_as_wide_as_one_of_all():
    residuals = np.random.default_rng(0).normal(size=20_000)
    low, high = bootstrap_interval("mse", residuals, np.zeros(20_000))
    assert high - low == pytest.approx(2 * 1.96 * np.sqrt(2 / 20_000), rel=0.25)


def test_metrics_stand_beside_those_of_a_constant(numbers):
    one = predicted(*numbers)
    record = record_of_test(one, 0.25, {"mse": one.metric("mse"), "r2": one.metric("r2"), "selection_recall": 1.0})
    assert record.baseline_metrics["mse"] == pytest.approx(np.mean((one.y - 0.25) ** 2))
    assert record.baseline_metrics.keys() == record.intervals.keys() == {"mse", "r2", "rmse", "mae"}
    assert record.drawn.keys() == {"mse", "r2"}  # what was asked for; the others are in the target's unit, always
    for name, (low, high) in record.intervals.items():
        assert low < PREDICTION_METRICS[name](one.y, one.prediction) < high
    assert record.baseline == "the mean of the training rows, 0.25"
    assert sum(record.residual_counts) == 400


def test_predictions_that_are_right_on_average_are_calibrated(numbers):
    one = predicted(*numbers)
    bins = record_of_test(one, 0.0, {"r2": 0.5}).calibration
    assert sum(one.n_rows for one in bins) == 400
    assert all(np.diff([one.predicted for one in bins]) > 0)
    assert sum(one.low <= one.predicted <= one.high for one in bins) >= 7


def test_a_group_without_the_class_may_have_a_small_probability_of_it():
    predictor = np.concatenate([np.full(100, -6.0), np.full(100, 6.0)])
    one = predicted(np.sign(predictor), np.sign(predictor), "logistic", predictor)
    bins = record_of_test(one, -1.0, {"accuracy": 1.0}).calibration
    assert {one.observed for one in bins} == {0.0, 1.0}
    assert all(0.0 <= one.low <= one.predicted <= one.high <= 1.0 for one in bins)


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_an_interval_of_a_share_holds_it_whatever_is_rounded(share):
    for n in range(1, 2000):
        low, high = _wilson_interval(share, float(n))
        assert 0.0 <= low <= share <= high <= 1.0
        assert high > low


def test_classes_are_counted_by_truth_and_prediction():
    y = [-1, -1, -1, 1, 1]
    one = predicted(y, [-1, 1, -1, 1, 1], "logistic", np.array([-2.0, 0.1, -1.0, 3.0, 1.0]))
    record = record_of_test(one, -1.0, {"accuracy": 0.8, "auc": 0.9})
    assert record.labels == ["-1", "1"]
    assert record.confusion == [[2, 1], [0, 2]]
    assert record.baseline_metrics == {"accuracy": 0.6, "auc": 0.5}


def test_labels_are_those_of_the_table():
    one = predicted([0, 1, 2, 2], [0, 1, 1, 2], "multinomial", np.zeros((4, 3)))
    record = record_of_test(one, 2.0, {"accuracy": 0.75}, ["low", "mid", "high"])
    assert record.labels == ["low", "mid", "high"]
    assert record.baseline.endswith("high")
    assert record.calibration == []


def test_a_row_that_makes_the_error_is_named(numbers):
    y, prediction = numbers
    y[7] += 100
    found = [text for text in doubts(predicted(y, prediction)) if text.startswith("one row")]
    assert len(found) == 1
    assert "row 7 of the source" in found[0]


def test_what_is_too_good_is_suspicious_and_what_is_no_better_than_a_constant_too(numbers):
    y, prediction = numbers
    assert doubts(predicted(y, prediction)) == []
    assert "nearly so" in doubts(predicted(y, y))[0]
    assert "not significantly better than always predicting" in doubts(predicted(y, np.roll(prediction, 1)))[0]


@pytest.mark.slow
def test_a_copy_of_the_target_and_a_twin_are_told_of(document, write, tmp_path):
    table = pd.read_csv(tmp_path / "table.csv")
    table["y_known"] = 2 * table["y"] + 1
    table.to_csv(tmp_path / "table.csv", index=False)
    outcome = run_pipeline(load_pipeline(write(document)))
    warnings = outcome.results["message"].evidence.warnings
    assert any("possible leak: 'y_known' alone has correlation 1.0000" in text for text in warnings)
    page = outcome.report.read_text()
    assert page.index("Look at this first") < page.index("Data and settings")
    assert SelectionResult.load(outcome.folder).evidence == outcome.results["message"].evidence


@pytest.mark.slow
def test_features_of_one_column_stand_in_one_line_that_opens(document, write, tmp_path):
    rng = np.random.default_rng(0)
    table = pd.read_csv(tmp_path / "table.csv")
    table["colour"] = rng.choice(["red", "green", "=cmd()"], len(table))
    table["y"] += 5.0 * (table["colour"] == "red") - 5.0 * (table["colour"] == "=cmd()")
    table.to_csv(tmp_path / "table.csv", index=False)
    schema = (tmp_path / "schema.yaml").read_text().replace("other_columns", "  colour: {dtype: string}\nother_columns")
    (tmp_path / "schema.yaml").write_text(schema)
    outcome = run_pipeline(load_pipeline(write(document)))
    result = outcome.results["message"]
    features = result.evidence.features
    assert {one.column for one in features} == {"colour", "f1", "f6"}
    dummy = next(one for one in features if one.column == "colour")
    assert (dummy.minimum, dummy.maximum) == (0.0, 1.0)
    assert dummy.deviation == pytest.approx(np.sqrt(2) / 3, abs=0.05)
    assert result.evidence.data.n_columns == len(table.columns) - 2, "without target and split"
    assert result.evidence.data.target == "y"
    page = outcome.report.read_text()
    assert page.count("<details><summary>colour (") == 1
    assert "<code>daskfs run pipeline.yaml" in page


@pytest.mark.slow
def test_what_a_selector_remarks_is_a_warning_of_the_report(document, write, tmp_path):
    table = pd.read_csv(tmp_path / "table.csv")
    table["twin"] = table["f1"]
    table.to_csv(tmp_path / "table.csv", index=False)
    result = run_pipeline(load_pipeline(write(document))).results["message"]
    remarks = [note for note in result.notes if isinstance(note, Suspicion)]
    assert any("exact copies of selected columns" in note for note in remarks)
    assert {*remarks} <= {*result.evidence.warnings}


@pytest.mark.slow
def test_selections_of_one_run_are_compared_on_its_test_rows_and_the_refits_too(document, write, tmp_path):
    wrong = {"method": "online_substitution", "n_features_to_select": 1, "label": "one"}
    document["select"] = [{"method": "message", "n_subsets": 1}, wrong]
    document["refit"] = {"by": "ridge"}
    outcome = run_pipeline(load_pipeline(write(document)))
    tests = [result.evidence.test for result in outcome.results.values()]
    assert tests[0].rows == tests[1].rows != ""
    for result, test in zip(outcome.results.values(), tests, strict=True):
        for name in ("r2", "refit_r2"):
            low, high = test.intervals[name]
            assert low < result.metrics[name] < high
            assert len(test.drawn[name]) == 300
    found = {one.metric: one for one in differences(outcome.results)}
    assert {"r2", "refit_r2"} <= found.keys()
    assert (found["r2"].label, found["r2"].is_noise) == ("one", False)
    assert "Significant differences" in outcome.report.read_text()
    again = {label: SelectionResult.load(outcome.folder / label) for label in outcome.results}
    assert differences(again) == differences(outcome.results)
