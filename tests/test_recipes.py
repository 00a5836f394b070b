"""A new method, parameter and loss: what has to be written, and that all else follows."""

import jsonschema
import numpy as np
import pytest

import daskfs.methods
from daskfs.errors import ConfigError
from daskfs.losses import LOSSES, Loss
from daskfs.pipeline.config import load_pipeline
from daskfs.pipeline.run import run_pipeline
from daskfs.pipeline.schemas import json_schema
from daskfs.pipeline.selections import section_of
from daskfs.selectors.message.selector import Message

CORRELATION = '''
"""Select the columns that correlate most with the target."""

from __future__ import annotations

from typing import Annotated

import numpy as np

from daskfs.losses import NUMBERS
from daskfs.parameters import Count, LossOf, Share, n_to_select
from daskfs.result import SelectionResult, selection_table
from daskfs.selectors.base import BaseSelector
from daskfs.selectors.shared.budget import Budget, DataShape, Limits, SelectorPlan
from daskfs.selectors.shared.run import Run


class Correlation(BaseSelector):
    """Select the columns that correlate most with the target.

    Parameters
    ----------
    n_features_to_select : int, optional
        How many; two by default.
    loss : {"squared"}
        Least squares.
    threshold : float
        Smallest correlation of a column that is selected.
    """

    method = "correlation"
    score_kind = "coefficient"

    n_features_to_select: Count | None = None
    loss: Annotated[str, LossOf(NUMBERS, among=("squared",))] = "squared"
    threshold: Share = 0.0

    def _plan(self, shape: DataShape, limits: Limits) -> SelectorPlan:
        rows = Budget().add("all rows", 2 * shape.n_samples * shape.n_features * 8)
        return SelectorPlan(1, 1, shape.nbytes, rows, Budget(), "all rows at once")

    def _fit(self, run: Run) -> None:
        X, y = np.array(run.matrix.read(slice(None)), float), np.asarray(run.matrix.read_target(slice(None)))
        X, y = X - X.mean(axis=0), y - y.mean()
        self.scores_ = np.abs(X.T @ y) / np.sqrt((X**2).sum(axis=0) * (y**2).sum())
        k = n_to_select(self.n_features_to_select, X.shape[1], 2)
        best = np.argsort(-self.scores_, kind="stable")[:k]
        self.selected_ = best[self.scores_[best] >= self.threshold]
        self.support_ = np.isin(np.arange(X.shape[1]), self.selected_)
        self.coef_ = np.zeros(X.shape[1])
        self.coef_[self.selected_] = np.linalg.lstsq(X[:, self.selected_], y)[0]
        self.intercept_ = 0.0
        table = selection_table(self.selected_, self.coef_[self.selected_], self.scores_[self.selected_])
        self.result_ = SelectionResult(self.method, table, 0.0, {}, len(y), X.shape[1], scores=self.scores_)
'''


@pytest.fixture
def line(tmp_path, monkeypatch):
    """One line: a name and where the class is."""
    (tmp_path / "correlation_of_columns.py").write_text(CORRELATION)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(daskfs.methods.METHODS, "correlation", "correlation_of_columns:Correlation")
    yield
    section_of.cache_clear()


@pytest.fixture
def document(tmp_path):
    path = tmp_path / "pipeline.yaml"
    path.write_text(
        "version: 1\nname: toy\nsource: {kind: synthetic, n_samples: 200, n_features: 12, n_informative: 2}\n"
        "select: {method: correlation, n_features_to_select: 3}\n"
    )
    return path


def test_a_new_method_is_a_file_and_a_line(line, document):
    """Its check, YAML section, schema, plan, run folder and report are there."""
    with pytest.raises(ConfigError, match=r"select.threshold: expected less than or equal to 1, found 3"):
        load_pipeline(document, ["select.threshold=3"])
    with pytest.raises(ConfigError, match=r"select.treshold: unknown key .did you mean 'threshold'"):
        load_pipeline(document, ["select.treshold=1"])
    schema = json_schema("pipeline")
    assert schema["$defs"]["CorrelationSelect"]["properties"]["threshold"]["description"].startswith("Smallest corr")
    pipeline = load_pipeline(document)
    jsonschema.validate(pipeline.to_document(), schema)
    outcome = run_pipeline(pipeline)
    (result,) = outcome.results.values()
    assert len(result.table) == 3
    assert "correlation" in (pipeline.output_path / "report.html").read_text()


def test_a_new_parameter_is_a_line_and_its_meaning(line, document, tmp_path):
    module = tmp_path / "correlation_of_columns.py"
    text = module.read_text()
    text = text.replace("    threshold: Share = 0.0\n", "    threshold: Share = 0.0\n    n_folds: Count = 5\n")
    text = text.replace('    """\n\n    method', '    n_folds : int\n        Of nothing.\n    """\n\n    method')
    (tmp_path / "folded.py").write_text(text)
    selector = daskfs.methods.load("folded:Correlation")
    assert selector(n_folds=3).get_params()["n_folds"] == 3
    with pytest.raises(ConfigError, match="n_folds: expected a whole number of at least 1, found 0"):
        selector(n_folds=0).fit(np.eye(4), np.arange(4.0))


def test_a_new_loss_is_a_record_and_every_method_that_can_takes_it(monkeypatch):
    cauchy = Loss("cauchy", 8, "½ log(1 + (z - y)²)", "number", curvature_bound=1.0, is_likelihood=True)
    with pytest.raises(ConfigError, match=r"loss: expected one of squared, .* found 'cauchy'"):
        Message(loss="cauchy").check_parameters()
    monkeypatch.setitem(LOSSES, "cauchy", cauchy)
    Message(loss="cauchy").check_parameters()
    with pytest.raises(ConfigError, match=r"loss: Mission does not take 'cauchy': its gradient is not known row"):
        daskfs.Mission(loss="cauchy").check_parameters()
