"""The refit of a pipeline: one fit for every method, its coefficients and metrics beside the method's own."""

import json

import jsonschema
import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge

from daskfs.errors import ConfigError
from daskfs.metrics import accuracy, r2
from daskfs.pipeline.config import load_pipeline
from daskfs.pipeline.facts import facts_of
from daskfs.pipeline.plan import plan_pipeline
from daskfs.pipeline.run import run_pipeline
from daskfs.pipeline.schemas import json_schema
from daskfs.report.html import render_report
from daskfs.result import SelectionResult
from daskfs.store.feature_store import open_store
from tests.refusals import refused

FGM = {"method": "fgm", "loss": "squared", "n_features_to_select": 3, "n_features_per_pass": 2, "debias": False}


def run_with(document, write, **refit):
    """The folder of a run that selects by FGM, which shrinks what it selects, and both parts of the rows."""
    document["select"] = document["select"] if document["select"]["method"] == "fgm" else FGM
    document["refit"] = {"by": "ridge", **refit}
    folder = run_pipeline(load_pipeline(write(document))).folder
    train, test = open_store(folder.parent / "table.zarr").split(0.2, by="random", random_state=0)
    return folder, *((part.read(slice(None)).astype(float), part.read_target()) for part in (train, test))


@pytest.mark.slow
@pytest.mark.parametrize("ridge", [0.0, 0.25])
def test_the_refit_is_the_ridge_fit_of_the_selected_columns_on_the_training_rows(document, write, ridge):
    folder, (X, y), (X_test, y_test) = run_with(document, write, ridge=ridge)
    result = SelectionResult.load(folder)
    columns = result.table["index"].to_numpy()
    scale = X[:, columns].std(axis=0)
    expected = Ridge(ridge * len(y)) if ridge else LinearRegression()
    expected.fit(X[:, columns] / scale, y)
    np.testing.assert_allclose(result.refit.coef[0], expected.coef_ / scale, rtol=1e-5)
    np.testing.assert_allclose(result.table["refit_coef"], result.refit.coef[0])
    assert (result.refit.loss, result.refit.ridge) == ("squared", [ridge])
    assert not np.allclose(result.table["coef"], result.refit.coef[0], rtol=1e-6)
    wanted = r2(y_test, expected.predict(X_test[:, columns] / scale))
    assert result.metrics["refit_r2"] == pytest.approx(wanted, rel=1e-6)
    assert result.metrics["r2"] != result.metrics["refit_r2"]


@pytest.mark.slow
def test_it_stands_in_every_file_of_the_run(document, write):
    folder, *_ = run_with(document, write)
    record = json.loads((folder / "result.json").read_text())
    jsonschema.validate(record, json_schema("result"))
    assert 0.0 <= record["refit"]["ridge"][0] < 1.0
    assert set(json.loads((folder / "metrics.json").read_text())) == {"mse", "r2", "refit_mse", "refit_r2"}
    assert "refit_coef" in pd.read_csv(folder / "selected.csv").columns
    page = (folder / "report.html").read_text()
    assert "<td>refit r2</td>" in page
    assert "squared loss, ridge" in page
    assert page == render_report("table", {"fgm": SelectionResult.load(folder)})
    assert record["time"]["refit"] > 0


@pytest.mark.slow
def test_each_of_several_classes_is_told_from_the_rest(document, write, tmp_path):
    table = pd.read_csv(tmp_path / "table.csv")
    table["y"] = pd.cut(table["y"], [-np.inf, -1.5, 1.5, np.inf], labels=["low", "middle", "high"])
    table.to_csv(tmp_path / "table.csv", index=False)
    (tmp_path / "schema.yaml").write_text(
        "version: 1\nname: table\ncolumns: {y: {role: target, dtype: string}, part: {role: split, dtype: string}}\n"
        "other_columns: feature\n"
    )
    document["select"] = {"method": "fgm", "loss": "logistic", "n_features_to_select": 2}
    folder, (X, y), (X_test, y_test) = run_with(document, write, ridge=0.0)
    result = SelectionResult.load(folder)
    columns = result.table["index"].to_numpy()
    odds = []
    for k, label in enumerate(np.unique(y)):
        fit = LogisticRegression(C=np.inf, tol=1e-10, max_iter=1000).fit(X[:, columns], y == label)
        np.testing.assert_allclose(result.refit.coef[k], fit.coef_[0], rtol=1e-3, atol=1e-3)
        odds.append(fit.decision_function(X_test[:, columns]))
    assert result.metrics["refit_accuracy"] == pytest.approx(accuracy(y_test, np.argmax(odds, axis=0)), abs=0.02)


@pytest.mark.slow
def test_without_it_a_run_has_the_fit_of_the_method_alone(document, write):
    result = run_pipeline(load_pipeline(write(document))).results["message"]
    assert result.refit is None
    assert set(result.metrics) == {"mse", "r2"}


def test_the_plan_has_the_refit_with_what_it_holds(document, write):
    document["select"] = FGM
    names = []
    for refit in ({}, {"by": "ridge"}):
        pipeline = load_pipeline(write(document | {"refit": refit}))
        plan = plan_pipeline(pipeline, facts_of(pipeline))
        names.append([step.name for step in plan.steps])
    assert names == [["ingest", "fgm", "evaluate"], ["ingest", "fgm", "refit", "evaluate"]]
    assert "selected columns" in plan.steps[2].client.terms
    assert "at most 3 of them" in plan.to_text()


@pytest.mark.slow_cases("ols", "ridge")
@pytest.mark.parametrize("by", ["ols", "ridge", "elastic"])
def test_a_method_may_take_the_coefficients_of_a_refit_as_its_own(document, write, by):
    document["select"] = FGM | {"refit": by}
    folder = run_pipeline(load_pipeline(write(document))).folder
    result = SelectionResult.load(folder)
    assert result.parameters["refit"] == by
    assert "own_coef" in result.table
    assert f"refit ({by}): coef is a fit of the squared loss" in render_report("table", {"fgm": result})
    if by == "ols":
        store = open_store(folder.parent / "table.zarr")
        train, _ = store.split(0.2, by="random", random_state=0)
        X, y = train.read(slice(None)).astype(float), train.read_target()
        model = LinearRegression().fit(X[:, result.table["index"].to_numpy()], y)
        np.testing.assert_allclose(result.table["coef"], model.coef_, rtol=1e-5)


@pytest.mark.slow
def test_the_refit_of_a_pipeline_may_be_an_elastic_net(document, write):
    folder, *_ = run_with(document, write, by="elastic")
    result = SelectionResult.load(folder)
    assert any(note.startswith("refit (elastic): refit_coef is a fit of the squared loss") for note in result.notes)
    np.testing.assert_allclose(result.table["refit_coef"], result.refit.coef[0])


@pytest.mark.slow
def test_how_sizes_are_tried_stands_in_the_file_and_in_the_report(document, write):
    search = {"cv": 3, "sizes": [1, 2, 4], "rule": "1se", "metric": "r2", "groups": "part"}
    document["select"] = FGM | {"n_features_to_select": search}
    path = write(document)
    pipeline = load_pipeline(path)
    assert pipeline.to_document()["select"]["n_features_to_select"] == search
    plan = plan_pipeline(pipeline, facts_of(pipeline))
    assert "of 3 sizes in each of 3 folds of whole groups" in " ".join(step.text for step in plan.steps)
    with refused(ConfigError, "yaml-files", naming=["sizes"]):
        load_pipeline(write(document | {"select": FGM | {"n_features_to_select": {"sizes": []}}}))
    with refused(ConfigError, "yaml-files", naming=["size"]):
        load_pipeline(write(document | {"select": FGM | {"n_features_to_select": {"size": [1]}}}))
    document["select"]["n_features_to_select"] = search | {"groups": None, "order": "time"}
    del document["select"]["n_features_to_select"]["groups"]
    folder = run_pipeline(load_pipeline(write(document))).folder
    result = SelectionResult.load(folder)
    assert result.history["features"].tolist() == [1, 2, 4]
    assert "in 3 folds in time" in result.notes[0]
    assert "within one standard error" in render_report("table", {"fgm": result})
