"""A run without a store (``store: none``): MISSION learns from a sparse source while reading it once.

An interrupted run on files continues after the rows from which it has learned. On standard input, which cannot be read
again, it saves the model, which can be trained on more lines.

Test rows are left out of training and read in a second pass. They are determined only by the row number.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from daskfs import interrupts
from daskfs.applied.model import Model
from daskfs.cluster.memory import peak_memory_nbytes
from daskfs.cluster.open import open_cluster
from daskfs.dashboard.shown import on_dashboard
from daskfs.errors import ConfigError
from daskfs.losses import find_loss
from daskfs.methods import find_method
from daskfs.parameters import parameters_of
from daskfs.pipeline.applying import model_of_stream
from daskfs.pipeline.config import Pipeline, Split
from daskfs.pipeline.examining import Constant, Predicted, evidence_of_stream
from daskfs.pipeline.folder import RunFolder
from daskfs.pipeline.planning import limits_of
from daskfs.pipeline.stream_plan import available_nbytes
from daskfs.report.html import render_report
from daskfs.report.runs import write_page
from daskfs.result import SelectionResult
from daskfs.sources.sparse.base import SparseBlock, SparseSource
from daskfs.watching.watch import Watch

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


class StreamRun:
    """A run without a store.

    Parameters
    ----------
    pipeline : Pipeline
    source : SparseSource
    folder : RunFolder
    steps : Watch
    before : Mission, optional
        Model to train further.
    comes_once : bool
        Whether the source cannot be read again.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        source: SparseSource,
        folder: RunFolder,
        steps: Watch,
        before: Any = None,
        *,
        comes_once: bool = False,
    ) -> None:
        self.pipeline, self.source, self.steps, self.before = pipeline, source, steps, before
        self.path, self.checkpoint, self.comes_once = folder.path, folder.checkpoint, comes_once
        self.models: list[Model] = []

    def write(self) -> dict[str, SelectionResult]:
        """Compute everything, write all files and return the results by label."""
        path, results = self.path, {}
        several = len(self.pipeline.selections) > 1
        if not self.comes_once:
            self.checkpoint.claim(self._settings())
        for label in self.pipeline.selections:
            folder = path / label if several else path
            folder.mkdir(exist_ok=True)
            results[label] = self._select(label, folder)
            results[label].save(folder, overwrite=True)
        if several:
            next(iter(results.values())).save(path, overwrite=True)
            for model in self.models[:1]:
                model.save(path)
        metrics = {label: result.to_record(0).metrics for label, result in results.items()}
        text = json.dumps(metrics if several else next(iter(metrics.values())), indent=2) + "\n"
        (path / "metrics.json").write_text(text, encoding="utf-8")
        write_page(path / "report.html", render_report(self.pipeline.name, results))
        return results

    def _select(self, label: str, folder: Path) -> SelectionResult:
        pipeline = self.pipeline
        selector = self.before or pipeline.selections[label].make_selector(available_nbytes(pipeline))
        holdout = None if pipeline.split is None else Holdout(pipeline.split)
        keep = None if holdout is None else holdout.is_kept
        self.steps.say(f"{label}: learning")
        cluster = open_cluster(**pipeline.cluster_arguments, tell=self._tell)
        with cluster as workers, on_dashboard(workers, self.steps):
            self.steps.start(f"{selector.method}-stream", 1)
            selector.set_params(client=workers.client)
            if self.comes_once:
                self._learn_once(selector)
            else:
                checkpoint = self.checkpoint.part(label)
                selector.fit_source(self.source, keep=keep, tell=self._tell, checkpoint=checkpoint)
            selector.set_params(client=None)
            self.steps.finish()
        selector.save(folder / MODEL)
        model = model_of_stream(selector, self.source)
        if model is not None:
            self.models.append(model)
            model.save(folder)
        result: SelectionResult = selector.result_
        tested, baseline = (None, 0.0) if holdout is None else self._tested(selector, holdout)
        if tested is not None:
            result.metrics = tested.metrics(pipeline.evaluate.metrics_of(tested.loss))
        words = "" if pipeline.split is None else pipeline.split.in_words
        result.evidence = evidence_of_stream(self.source, words, selector, result, tested, baseline)
        result.notes = list(dict.fromkeys([*self.source.notes, *result.notes]))
        limits = limits_of(pipeline.cluster)
        result.memory |= {"limit_nbytes": limits.by_process, "measured_nbytes": {"client": peak_memory_nbytes()}}
        return result

    def _settings(self) -> dict[str, Any]:
        """Return the settings that must be unchanged on resume: the source's files, the split and the selections."""
        document = self.pipeline.to_document()
        files = self.source.stamps()
        return {"source": document["source"], "files": files, "split": document["split"], "select": document["select"]}

    def _learn_once(self, selector: Any) -> None:
        """Learn from a source that can be read only once; save the model on an interrupt."""
        model = self.checkpoint.folder / MODEL
        try:
            learn = selector.fit_source if self.before is None else selector.partial_fit
            learn(self.source, tell=self._tell)
        except KeyboardInterrupt as fault:
            with interrupts.held():
                if selector.can_go_on:
                    model.parent.mkdir(parents=True, exist_ok=True)
                    selector.save(model)
                    fault.add_note(f"the model so far is in {model}; continue with --model {model} --force")
            raise

    def _tell(self, line: str) -> None:
        self.steps.say(line)
        self.steps.tell(line)

    def _tested(self, selector: Any, holdout: Holdout) -> tuple[Predicted, float]:
        """Read the test rows in a second pass; return them, and the baseline of the training rows."""
        self.steps.say("evaluate: reading the test rows")
        constant = Constant(is_class=find_loss(selector.loss_).is_classifier)

        def is_test(block: SparseBlock) -> np.ndarray:
            found = holdout.is_test(block)
            if block.y is not None:
                constant.update(block.y[~found], None if block.weight is None else block.weight[~found])
            return found

        y, weight, predictor = selector.predictors_of(self.source, keep=is_test)
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
