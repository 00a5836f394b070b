"""What is exported gives the numbers that the model gives: SQL in sqlite3, the Python file with scikit-learn."""

import json
import math
import sqlite3
from contextlib import closing

import numpy as np
import pandas as pd
import pytest

from daskfs.applied.export import export
from daskfs.applied.model import Model
from daskfs.applied.rows import Columns
from daskfs.errors import ConfigError
from daskfs.feature_maps.product_features import ProductFeatures
from daskfs.selectors.base import BaseSelector
from daskfs.selectors.resulting import Selection
from daskfs.sources.registry import as_source
from tests.applied.test_apply import COLUMNS, messy, run_of
from tests.refusals import refused


class Fitted(BaseSelector):
    """A selector with coefficients that nobody has fitted."""

    method = "toy"
    loss = "squared"

    def _plan(self, shape, limits):
        raise NotImplementedError

    def _fit(self, run):
        raise NotImplementedError


def model_of(frame, columns, loss="squared", labels=None, n_classes=1, made=None):
    """A model of every feature of a table, or of those that are made of them."""
    source = as_source(frame, schema={"version": 1, "columns": columns})
    names = source.feature_names
    rng = np.random.default_rng(4)
    selector = Fitted()
    selector.loss_ = loss
    if labels is not None:
        selector.classes_ = np.arange(len(labels), dtype=float)
    k = len(names) if made is None else len(made.columns)
    coef = rng.normal(size=(n_classes, k) if n_classes > 1 else k)
    intercept = rng.normal(size=n_classes) if n_classes > 1 else 0.5
    selector.n_features_in_ = selector._n_columns = len(names)
    if made is None:
        selector._set_selection(np.arange(len(names)), rng.random(k), coef, intercept)
    else:
        selector._selection = Selection.of_made(len(names), made, rng.random(k), coef, intercept)
    used = selector.predictor().columns
    chosen = Columns(used, [names[j] for j in used], len(names), "float32", False)
    return Model.of(selector, chosen, source.encoder, target="y", labels=labels)


@pytest.fixture
def frame():
    return messy()


CASES = {
    "numbers": {},
    "counts": {"loss": "poisson"},
    "two classes": {"loss": "logistic", "labels": ["it's", "not"]},
    "hinge": {"loss": "squared_hinge", "labels": ["a", "b"]},
    "three classes": {"loss": "multinomial", "labels": ["a", "b", "c"], "n_classes": 3},
    "one against the rest": {"loss": "logistic", "labels": ["a", "b", "c"], "n_classes": 3},
}


def in_sqlite(text, frame):
    with closing(sqlite3.connect(":memory:")) as base:
        base.create_function("EXP", 1, lambda x: None if x is None else math.exp(x))
        frame.assign(when=frame.when.dt.strftime("%Y-%m-%d")).to_sql("data", base, index=False)
        return pd.read_sql(text, base)


@pytest.mark.parametrize("case", CASES)
def test_a_select_gives_the_predictions_of_the_model(case, frame):
    model = model_of(frame, COLUMNS, **CASES[case])
    found = in_sqlite(export(model, "sql", dialect="sqlite"), frame)
    assert list(found["id"]) == list(frame["id"])
    expected = model.predict(frame)
    is_kept = frame.gone.notna().to_numpy()
    if model.classes is None:
        np.testing.assert_allclose(found["prediction"], expected, rtol=1e-5)
    else:
        assert list(found["prediction"][is_kept]) == list(expected[is_kept])
    assert found["prediction"].isna().to_numpy()[~is_kept].all()
    if case == "two classes":
        np.testing.assert_allclose(found["probability_not"], model.predict_proba(frame)[:, 1], atol=1e-5)


@pytest.mark.parametrize("case", CASES)
def test_the_python_file_gives_the_predictions_of_the_model_and_can_be_fitted(case, frame):
    frame = frame.dropna(subset="gone")
    model = model_of(frame, COLUMNS, **CASES[case])
    text = export(model, "sklearn")
    space = {}
    exec(compile(text, "exported.py", "exec"), space)
    pipeline = space["build"]()
    found, expected = pipeline.predict(frame), model.predict(frame)
    if model.classes is None:
        np.testing.assert_allclose(found, expected, rtol=1e-9)
    else:
        assert list(found) == list(expected)
    if case in ("two classes", "three classes"):
        np.testing.assert_allclose(pipeline.predict_proba(frame), model.predict_proba(frame), rtol=1e-9)
    np.testing.assert_array_equal(pipeline[:-1].transform(frame), model.transform(frame))
    assert list(pipeline[:-1].get_feature_names_out()) == model.features
    if case == "counts":
        return  # its solver wants columns of one size
    y = frame.y if model.classes is None else expected
    assert space["build"](fitted=False).fit(frame, y).predict(frame).shape == (len(frame),)


def test_products_are_made_in_sql_and_in_python(frame):
    frame = frame.dropna(subset="gone")
    some = {name: COLUMNS[name] for name in ("a", "share", "y")}
    some |= {name: {"role": "ignore"} for name in frame if name not in some}
    made = ProductFeatures(np.array([0, 7, 9]), np.array([[0, -1], [0, 1], [1, 1]]), np.array([0.25, -40.0]))
    model = model_of(frame, some, made=made)
    assert model.features == ["a", "a * share", "share^2"]
    found = in_sqlite(export(model, "sql", dialect="sqlite"), frame)
    np.testing.assert_allclose(found["prediction"], model.predict(frame), rtol=1e-5)
    space = {}
    exec(compile(export(model, "sklearn"), "exported.py", "exec"), space)
    np.testing.assert_allclose(space["build"]().predict(frame), model.predict(frame), rtol=1e-9)


def test_levels_as_entries_and_as_counts_are_made_in_sql_and_in_python(frame, tmp_path):
    frame = frame.assign(town=frame.city.fillna("none"), code=frame.code.map("k{}".format))
    columns = {
        "a": {},
        "town": {"dtype": "string", "encoding": "counts"},
        "code": {"dtype": "string"},
        "city": {"dtype": "string", "missing": "category"},
        "y": {"role": "target"},
    }
    frame = frame[[*columns]]
    frame.to_csv(tmp_path / "t.csv", index=False)
    (tmp_path / "s.yaml").write_text(json.dumps({"version": 1, "columns": columns}))
    select = {"method": "online_substitution", "n_features_to_select": 7, "loss": "squared"}
    source = {"kind": "csv", "path": "t.csv", "schema": "s.yaml", "one_hot": "sparse"}
    model = Model.load(run_of(tmp_path, source, select))
    assert {"town.count", "a"} <= {*model.features} or len(model.features) == 7
    assert any(name.startswith("city=") for name in model.features)
    with closing(sqlite3.connect(":memory:")) as base:
        frame.to_sql("data", base, index=False)
        found = pd.read_sql(export(model, "sql", dialect="sqlite"), base)
    np.testing.assert_allclose(found["prediction"], model.predict(frame), rtol=1e-5)
    space = {}
    exec(compile(export(model, "sklearn"), "exported.py", "exec"), space)
    np.testing.assert_allclose(space["build"]().predict(frame), model.predict(frame), rtol=1e-9)
    assert {*export(model, "columns").split()} <= {*columns}


def test_hashed_levels_are_refused_with_what_to_do_instead(frame):
    some = {name: {"role": "ignore"} for name in frame if name not in ("code", "y")}
    model = model_of(frame, some | {"code": {"dtype": "string", "encoding": {"hashed": 4}}, "y": {"role": "target"}})
    with refused(ConfigError, "new-rows", at="--as sql", naming=["daskfs apply"]):
        export(model, "sql")
    with refused(ConfigError, "new-rows", at="--as sklearn", naming=["daskfs.load"]):
        export(model, "sklearn")
    assert len(export(model, "list").splitlines()) == 4


def test_names_with_quotes_and_code_are_names(frame):
    name = 'a"; DROP TABLE data; --\n"""'
    frame = frame.rename(columns={"a": name})
    columns = {name if key == "a" else key: value for key, value in COLUMNS.items()}
    model = model_of(frame, columns)
    found = in_sqlite(export(model, "sql", dialect="sqlite"), frame)
    np.testing.assert_allclose(found["prediction"], model.predict(frame), rtol=1e-5)
    space = {}
    exec(compile(export(model, "sklearn"), "exported.py", "exec"), space)
    kept = frame.dropna(subset="gone")
    np.testing.assert_allclose(space["build"]().predict(kept), model.predict(kept), rtol=1e-9)


def test_lists_are_of_features_and_of_the_columns_that_they_are_made_of(frame):
    model = model_of(frame, COLUMNS)
    assert export(model, "list").splitlines() == model.ranking
    assert export(model, "columns").splitlines() == [name for name in COLUMNS if name not in ("id", "y")]
    assert "EXTRACT(MONTH FROM" in export(model, "sql")
    with refused(ConfigError, "new-rows", at="--as"):
        export(model, "pmml")
