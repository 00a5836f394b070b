"""The step after a selection: metrics on the test rows."""

from __future__ import annotations

from daskfs.metrics import PREDICTION_METRICS, SELECTION_METRICS
from daskfs.pipeline.config import Evaluate
from daskfs.pipeline.facts import DataFacts
from daskfs.pipeline.limits import PlannedStep, ProcessLimits, predicting
from daskfs.pipeline.predicting import linear_predictor
from daskfs.pipeline.prediction_quality import Predicted
from daskfs.pipeline.steps.context import Stored
from daskfs.selectors.base import BaseSelector
from daskfs.selectors.shared.budget import Budget
from daskfs.selectors.shared.run import Run
from daskfs.store.feature_store import FeatureStore


def cost(data: DataFacts, limits: ProcessLimits) -> PlannedStep:
    """Return the planned step."""
    n_test = data.n_samples - data.n_train
    task = predicting(data)
    client, worker = limits.base_of_client(data.n_samples, data.held_nbytes), Budget()
    client.add("predictions of test rows", 2 * 8 * n_test * max(1, data.target.n_classes - 1))
    in_client = ""
    if limits.predicts_on_workers(data):
        worker = limits.base_of_worker(data) + task
    elif limits.worker is None:
        client.include(task.times(limits.n_tasks_in_process))
    else:
        client.include(task)
        in_client = "the prediction of test rows, for which the workers' memory limit is too small"
    read_nbytes = n_test * data.row_nbytes
    return PlannedStep("evaluate", read_nbytes, 1, 1, 0, client, worker, "selected columns only", in_client=in_client)


def run(
    wanted: Evaluate, selector: BaseSelector, refitted: BaseSelector | None, store: Stored, testing: Run
) -> tuple[Predicted | None, Predicted | None]:
    """Add the metrics of a selection, and of its refit, to its result.

    Parameters
    ----------
    wanted : Evaluate
        Section of the pipeline.
    selector, refitted : BaseSelector
        The fitted selector, and its common refit if there is one.
    store : FeatureStore or GenotypeMatrix
    testing : Run
        Run over the test rows.

    Returns
    -------
    tested, retested : Predicted or None
        The test rows with the predictions of each; None without a target, or without a refit.
    """
    tested = _predicted(selector, testing)
    selector.result_.metrics = _metrics(wanted, selector, store, tested)
    if refitted is None:
        return tested, None
    retested = _predicted(refitted, testing)
    own = _metrics(wanted, refitted, store, retested)
    selector.result_.metrics |= {f"refit_{name}": own[name] for name in own if name in PREDICTION_METRICS}
    return tested, retested


def _predicted(selector: BaseSelector, testing: Run) -> Predicted | None:
    y, weight = testing.matrix.read_target(), testing.matrix.read_weight()
    if y is None:
        return None
    return Predicted.by(selector, y, linear_predictor(selector.predictor(), testing), weight)


def _metrics(wanted: Evaluate, selector: BaseSelector, store: Stored, tested: Predicted | None) -> dict[str, float]:
    if tested is None:
        return {}
    values = tested.metrics(wanted.metrics_of(tested.loss))
    for name in wanted.metrics or ():
        if name in SELECTION_METRICS:
            assert isinstance(store, FeatureStore)
            true_features = [int(j) for j in store.source["support"]]  # of a synthetic source
            values[name] = SELECTION_METRICS[name](selector.selected_.tolist(), true_features)
    return values
