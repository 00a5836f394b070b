import csv
import json
from dataclasses import asdict, replace
from pathlib import Path

import jsonschema
import numpy as np
import pandas as pd
import pytest

from daskfs.errors import ConfigError, RunError
from daskfs.evidence import CalibrationBin, DataRecord, EvidenceRecord, FeatureRecord, QualityRecord
from daskfs.result import SelectionResult
from daskfs.selected_table import Parent, columns_of_parents, parents_in, selection_table, text_of_cell
from tests.refusals import refused

SCHEMA = json.loads((Path(__file__).parents[1] / "data_schemas" / "result.schema.json").read_text())


@pytest.fixture
def result():
    names = np.array(["age", "größe <b>", "x,y", "bmi"], dtype=object)
    table = selection_table([3, 1], [1.5, -0.25], [1.0, 0.6], names)
    return SelectionResult(
        "message",
        table,
        0.1,
        {"n_subsets": np.int64(5), "gamma": 0.5, "max_features": None},
        n_samples=100,
        n_features=4,
        history=pd.DataFrame({"lambda": [1.0, 0.1], "gic": [3.0, 2.0], "df": [0, 2]}),
        scores=np.array([0.2, 0.6, np.nan, 1.0]),
        feature_names=names,
        store_digest="abc",
        metrics={"mse": 1.25, "r2": float("nan")},
        memory={"limit_nbytes": {"client": 10}, "promised_nbytes": {"client": 7}, "measured_nbytes": {"client": 5}},
        time={"select": 0.5},
        notes=["3 rows dropped"],
    )


def test_a_result_reads_back_equal(result, tmp_path):
    again = SelectionResult.load(result.save(tmp_path / "run"))
    pd.testing.assert_frame_equal(again.table, result.table)
    pd.testing.assert_frame_equal(again.history, result.history)
    np.testing.assert_array_equal(again.scores, result.scores)
    assert list(again.feature_names) == list(result.feature_names)
    assert again.to_record() == result.to_record()
    assert np.isnan(again.metrics["r2"])


@pytest.mark.parametrize("n_selected", [0, 1, 2, 5, 6])
def test_features_are_written_some_at_a_time_as_they_would_be_at_once(result, tmp_path, monkeypatch, n_selected):
    monkeypatch.setattr("daskfs.result._ROWS_WRITTEN", 2)
    names = np.array([f'"selected": [] {j}' for j in range(6)], dtype=object)
    result.table = selection_table(range(n_selected), np.arange(n_selected), np.ones(n_selected), names)
    text = (result.save(tmp_path) / "result.json").read_text(encoding="utf-8")
    assert text == json.dumps(asdict(result.to_record()), indent=2, ensure_ascii=False) + "\n"
    assert len(result.to_record(1).selected) == min(1, n_selected)


def test_result_json_keeps_to_its_schema(result, tmp_path):
    record = json.loads((result.save(tmp_path) / "result.json").read_text())
    jsonschema.validate(record, SCHEMA)
    assert record["metrics"]["r2"] is None
    assert record["selected"][0] == {"rank": 1, "index": 3, "name": "bmi", "coef": 1.5, "score": 1.0}


@pytest.fixture
def of_products(result):
    parents = [[Parent("bmi", 0.25, 1), Parent("=age, x", 1e-300, 4)], [Parent("größe <b>", None, 2)]]
    return parents, replace(result, table=result.table.assign(**columns_of_parents([0.5, np.nan], parents)))


def test_what_features_are_made_of_is_saved_and_read_back(of_products, tmp_path):
    parents, result = of_products
    folder = result.save(tmp_path)
    record = json.loads((folder / "result.json").read_text())
    jsonschema.validate(record, SCHEMA)
    assert record["selected"][0]["parents"][1] == {"name": "=age, x", "score": 1e-300, "rank": 4}
    assert record["selected"][1]["first_score"] is None
    for gone in (None, "selected.csv"):  # which people may have edited
        if gone:
            (folder / gone).unlink()
        again = SelectionResult.load(folder)
        pd.testing.assert_frame_equal(again.table, result.table, check_exact=True)
        assert again.to_record() == result.to_record()
    assert [parents_in(row) for row in again.table.to_dict("records")] == parents


def test_people_are_shown_what_a_feature_is_made_of_in_one_column(of_products):
    result = of_products[1]
    shown = result.shown_table(5)
    assert shown.columns[-1] == "of columns (score, rank)"
    assert shown.iloc[0, -1] == "bmi (0.25, rank 1), =age, x (1e-300, rank 4)"
    assert not [name for name in shown if name.startswith("parent_")]
    assert "bmi (0.25, rank 1)" in result._repr_html_()


def test_an_empty_selection_is_a_result(tmp_path):
    empty = SelectionResult("message", selection_table([], [], []), 2.0, {}, n_samples=10, n_features=3)
    again = SelectionResult.load(empty.save(tmp_path))
    assert len(again.table) == 0
    assert list(again.table.columns) == ["rank", "index", "name", "coef", "score"]
    assert repr(again) == "SelectionResult(message: 0 of 3 features from 10 samples)"


def test_saving_leaves_only_the_files_it_names(result, tmp_path):
    result.save(tmp_path)
    names = {"result.json", "selected.csv", "history.parquet", "scores.parquet"}
    assert {path.name for path in tmp_path.iterdir()} == names


def test_a_result_is_not_overwritten_unless_asked(result, tmp_path):
    result.save(tmp_path)
    with refused(RunError, "run-folders", naming=["exists"]):
        result.save(tmp_path)
    result.notes = ["second"]
    result.save(tmp_path, overwrite=True)
    assert SelectionResult.load(tmp_path).notes == ["second"]


def test_a_folder_without_a_result_is_named(tmp_path):
    with refused(RunError, "run-folders", naming=["result.json"]):
        SelectionResult.load(tmp_path)


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"format_version": "1"}', '{"format_version": 1}'])
def test_a_damaged_result_is_refused(tmp_path, text):
    (tmp_path / "result.json").write_text(text)
    with pytest.raises(RunError, match=str(tmp_path)):
        SelectionResult.load(tmp_path)


def test_a_result_of_a_newer_format_asks_for_an_upgrade(tmp_path):
    (tmp_path / "result.json").write_text('{"format_version": 2}')
    with refused(RunError, "run-folders", naming=["upgrade"]):
        SelectionResult.load(tmp_path)


def test_html_escapes_the_names_of_features(result):
    page = result._repr_html_()
    assert "größe &lt;b&gt;" in page
    assert "<b>;" not in page


def test_plot_draws_one_bar_per_selected_feature(result):
    import matplotlib as mpl

    mpl.use("agg")
    axes = result.plot()
    assert len(axes.patches) == 2
    assert [label.get_text() for label in axes.get_yticklabels()] == ["bmi", "größe <b>"]


@pytest.fixture
def with_evidence(result):
    bins = [CalibrationBin(x, x + 0.1, x - 0.2, x + 0.3, 20) for x in (0.0, 1.0, 2.0)]
    quality = QualityRecord(60, "the mean", {}, {}, bins, [], [], [], [], "r2", [1, 2], [0.2, 0.5])
    data = DataRecord("a.csv", "<y>", None, "", 80, None, None, None)
    features = [FeatureRecord("bmi", 2.0, 0.0, 1.0), FeatureRecord("x", None, None, None)]
    evidence = EvidenceRecord(data, features, test=quality, warnings=["<look>"])
    history = pd.DataFrame({"lambda": [1.0, 0.1], "df": [0, 1], "gic": [3.0, 2.0]})
    return replace(result, evidence=evidence, history=history, history_kind="criterion path")


def test_plot_draws_what_it_is_asked_for(with_evidence):
    import matplotlib as mpl

    mpl.use("agg")
    table = with_evidence.table
    kinds = ("coefficients", "effects")
    widths = {kind: [bar.get_width() for bar in with_evidence.plot(kind=kind).patches] for kind in kinds}
    assert widths["coefficients"] == table["coef"].tolist()
    assert widths["effects"][0] == 2.0 * table["coef"][0]
    assert with_evidence.plot(kind="history").get_xlabel() == "features in the model"
    assert with_evidence.plot(kind="calibration").get_ylabel() == "observed"
    assert list(with_evidence.plot(kind="sizes").lines[0].get_ydata()) == [0.2, 0.5]
    mpl.pyplot.close("all")


def test_plot_says_what_it_cannot_draw(result):
    with refused(ConfigError, "run-folders", at="message.plot", naming=["plot"]):
        result.plot(kind="calibration")
    with refused(ConfigError, "run-folders", at="kind", naming=["'score'", "did you mean", "'scores'"]):
        result.plot(kind="score")
    with refused(ConfigError, "run-folders", at="n_features", naming=["plot(kind='history'"]):
        result.plot("history")


def test_evidence_is_saved_read_back_and_shown_in_notebooks(with_evidence, tmp_path):
    folder = with_evidence.save(tmp_path)
    jsonschema.validate(json.loads((folder / "result.json").read_text()), SCHEMA)
    assert SelectionResult.load(folder).evidence == with_evidence.evidence
    assert "&lt;look&gt;" in with_evidence._repr_html_()
    assert "<look>" not in with_evidence._repr_html_()


def test_a_methods_own_columns_come_back_from_disk(tmp_path):
    table = selection_table([7, 2], [1.5, -0.5], [1.0, 0.8])
    table["touches"] = [12, 3]
    SelectionResult("mission", table, 0.25, {}, n_samples=100, n_features=10).save(tmp_path)
    assert SelectionResult.load(tmp_path).table["touches"].tolist() == [12, 3]
    (tmp_path / "selected.csv").unlink()
    assert "touches" not in SelectionResult.load(tmp_path).table


def test_variants_may_have_names_that_spreadsheets_take_for_missing(result, tmp_path):
    texts = {"selected": ["NA", "null"], "variant": ["None", "NA"], "chromosome": ["nan", "1"]}
    clumps = pd.DataFrame(texts, dtype="str").assign(position=[1, 2], r2=[0.5, np.nan], marginal_p_value=[np.nan, 0.1])
    again = SelectionResult.load(replace(result, clumps=clumps).save(tmp_path))
    pd.testing.assert_frame_equal(again.clumps, clumps)


def test_coefficients_change_the_target_or_the_log_odds_of_a_class(with_evidence):
    assert with_evidence.unit == "<y>"
    assert replace(with_evidence, evidence=None).unit == "the prediction"
    assert replace(with_evidence, parameters={"loss": "logistic"}).unit == "log-odds"
    of_classes = replace(with_evidence.evidence.test, labels=["no", "yes"])
    assert replace(with_evidence, evidence=replace(with_evidence.evidence, test=of_classes)).unit == "log-odds"


def test_a_result_saved_before_it_said_its_kinds_is_known_by_its_method(tmp_path):
    SelectionResult("fgm", selection_table([7], [1.5], [1.0]), 0.25, {}, n_samples=100, n_features=10).save(tmp_path)
    record = json.loads((tmp_path / "result.json").read_text())
    del record["score_kind"], record["history_kind"]
    (tmp_path / "result.json").write_text(json.dumps(record))
    again = SelectionResult.load(tmp_path)
    assert (again.score_kind, again.history_kind) == ("standardised coefficient", "passes")


def test_names_that_spreadsheets_would_run_are_texts_in_the_csv_and_themselves_when_read_back(tmp_path):
    names = ["=cmd|'/C calc'!A0", "+1+1", "-2", "@SUM(1)", "\tx", "\rx", "'=x", "'quoted'", "plain", "a=b"]
    table = selection_table(np.arange(10), np.arange(10.0), np.arange(10.0), np.array(names, dtype=object))
    table["group"] = names
    SelectionResult(method="message", table=table, intercept=0.0, parameters={}, n_samples=9, n_features=10).save(
        tmp_path
    )
    with (tmp_path / "selected.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        assert not row["name"].startswith(("=", "+", "-", "@", "\t", "\r"))
    assert [text_of_cell(row["name"]) for row in rows] == names
    loaded = SelectionResult.load(tmp_path)
    assert loaded.table["name"].to_list() == names
    assert loaded.table["group"].to_list() == names
