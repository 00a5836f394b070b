"""The step of a run without a store (``store: none``): MISSION learns from a sparse source while reading it once.

An interrupted run on files continues after the rows from which it has learned. On standard input, which cannot be read
again, it saves the model, which can be trained on more lines.

Test rows are left out of training and read in a second pass. They are determined only by the row number.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from daskfs import errors, interrupts
from daskfs.losses import find_loss
from daskfs.methods import find_method
from daskfs.parameters import parameters_of
from daskfs.pipeline.applying import model_of_stream
from daskfs.pipeline.config import Split
from daskfs.pipeline.examining import evidence_of_stream
from daskfs.pipeline.prediction_quality import Constant, Predicted
from daskfs.pipeline.steps.cluster import open_workers
from daskfs.pipeline.steps.context import Context
from daskfs.result import SelectionResult
from daskfs.sources.sparse.base import SparseBlock, SparseSource

ConfigError = errors.ConfigError.about("streams")

MODEL = "model.npz"
"""File of the trained model in a run folder; `daskfs.Mission.load` loads it for further training."""

_GOLDEN, _FIRST, _SECOND = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB


def load_model(path: Path) -> tuple[Any, dict[str, Any]]:
    """Load a model for further training; return it and a `select` entry with its parameters.

    Raises
    ------
    RunError
        The file does not exist or is not a model.
    """
    model = find_method("mission").load(path)
    found = model.get_params(deep=False)
    return model, {name: found[name] for name, one in parameters_of(type(model)).items() if one.in_yaml is not None}


def run(
    context: Context, source: SparseSource, label: str, memory_limit: int, before: Any, *, comes_once: bool
) -> SelectionResult:
    """Learn, save the model and its evidence, and return the result.

    Parameters
    ----------
    context : Context
    source : SparseSource
    label : str
    memory_limit : int
        Bytes for the model.
    before : Mission or None
        Model to train further.
    comes_once : bool
        Whether the source cannot be read again.
    """
    pipeline, watch = context.pipeline, context.watch
    selector = before or pipeline.selections[label].make_selector(memory_limit)
    holdout = None if pipeline.split is None else Holdout(pipeline.split)
    watch.say(f"{label}: learning")
    with open_workers(context, pipeline.cluster.kind) as workers:
        watch.start(f"{selector.method}-stream", 1)
        selector.set_params(client=workers.client)
        if comes_once:
            learn = selector.fit_source if before is None else selector.partial_fit
            _learn_once(selector, learn, source, context)
        else:
            keep = None if holdout is None else holdout.is_kept
            checkpoint = context.folder.checkpoint.part(label)
            selector.fit_source(source, keep=keep, tell=context.tell, checkpoint=checkpoint)
        selector.set_params(client=None)
        watch.finish()
    several = len(pipeline.selections) > 1
    folder = context.folder.path / label if several else context.folder.path
    folder.mkdir(exist_ok=True)
    selector.save(folder / MODEL)
    model = model_of_stream(selector, source)
    if model is not None:
        context.models[label] = model
    result: SelectionResult = selector.result_
    tested, baseline = None, 0.0
    if holdout is not None:
        watch.say("evaluate: reading the test rows")
        tested, baseline = _tested(selector, source, holdout)
        result.metrics = tested.metrics(pipeline.evaluate.metrics_of(tested.loss))
    words = "" if pipeline.split is None else pipeline.split.in_words
    result.evidence = evidence_of_stream(source, words, selector, result, tested, baseline)
    result.notes = list(dict.fromkeys([*source.notes, *result.notes]))
    return result


def _learn_once(selector: Any, learn: Callable[..., Any], source: SparseSource, context: Context) -> None:
    """Learn from a source that can be read only once; save the model on an interrupt."""
    model = context.folder.checkpoint.folder / MODEL
    try:
        learn(source, tell=context.tell)
    except KeyboardInterrupt as fault:
        with interrupts.held():
            if selector.can_go_on:
                model.parent.mkdir(parents=True, exist_ok=True)
                selector.save(model)
                fault.add_note(f"the model so far is in {model}; continue with --model {model} --force")
        raise


def _tested(selector: Any, source: SparseSource, holdout: Holdout) -> tuple[Predicted, float]:
    """Read the test rows in a second pass; return them, and the baseline of the training rows."""
    constant = Constant(is_class=find_loss(selector.loss_).is_classifier)

    def is_test(block: SparseBlock) -> np.ndarray:
        found = holdout.is_test(block)
        if block.y is not None:
            constant.update(block.y[~found], None if block.weight is None else block.weight[~found])
        return found

    y, weight, predictor = selector.predictors_of(source, keep=is_test)
    if not len(y):
        raise ConfigError("there are no test rows", "split.test", "raise it, or write `split: null`")
    return Predicted.by(selector, y, predictor, weight), constant.value


class Holdout:
    """Test rows of a source: a fraction chosen by a hash of the row number, or rows with given values of a column."""

    def __init__(self, split: Split) -> None:
        self.split = split

    def is_test(self, block: SparseBlock) -> np.ndarray:
        """Return which rows of a block are test rows, bool of shape (n_rows,)."""
        if self.split.by != "random":
            values = self.split.test if isinstance(self.split.test, list) else [self.split.test]
            return np.isin(np.asarray(block.labels[self.split.by], dtype=str), [str(value) for value in values])
        rows = np.arange(block.start, block.start + block.n_rows, dtype=np.uint64)
        with np.errstate(over="ignore"):  # splitmix64
            h = (rows + np.uint64(1)) * np.uint64(_GOLDEN) + np.uint64(self.split.random_state * _SECOND % 2**64)
            h = (h ^ (h >> np.uint64(30))) * np.uint64(_FIRST)
            h = (h ^ (h >> np.uint64(27))) * np.uint64(_SECOND)
        share: np.ndarray = (h ^ (h >> np.uint64(31))) >> np.uint64(11)
        return share < float(self.split.test) * 2.0**53  # type: ignore[arg-type]

    def is_kept(self, block: SparseBlock) -> np.ndarray:
        """Return which rows of a block are training rows."""
        return ~self.is_test(block)
