"""Run a pipeline: source -> store -> split -> select and refit -> evaluate -> report, written atomically."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from daskfs import interrupts
from daskfs.applied.model import Model
from daskfs.cluster.open import check_scheduler, open_cluster
from daskfs.cluster.workers import Here, Workers
from daskfs.dashboard.shown import on_dashboard
from daskfs.documents import dump_yaml
from daskfs.errors import CorruptStoreError, DaskfsError, RunError, StoreError, StoreExistsError
from daskfs.files import written_whole
from daskfs.matrix.base import Matrix
from daskfs.metrics import PREDICTION_METRICS, SELECTION_METRICS
from daskfs.pipeline.applying import model_of
from daskfs.pipeline.compile_ahead import compile_ahead
from daskfs.pipeline.config import Pipeline
from daskfs.pipeline.evaluate import linear_predictor
from daskfs.pipeline.examining import Predicted, evidence_of
from daskfs.pipeline.folder import PIPELINE, RunFolder, check_output, resume_command
from daskfs.pipeline.planning import (
    DataFacts,
    Plan,
    check_losses,
    check_pipeline,
    check_sizes,
    facts_in_place,
    facts_of,
    facts_of_store,
    jobs_of,
    open_source,
    plan_pipeline,
    text_of_jobs,
)
from daskfs.pipeline.progress import watched
from daskfs.pipeline.refit import refit_beside
from daskfs.pipeline.stream_plan import check_selections, check_stream
from daskfs.pipeline.stream_run import StreamRun
from daskfs.pipeline.variants import examine_variants, has_variants
from daskfs.report.html import draw_figures, render_report
from daskfs.report.runs import write_page
from daskfs.result import SelectionResult
from daskfs.selectors.base import BaseSelector
from daskfs.selectors.shared.budget import DataShape
from daskfs.selectors.shared.run import Run
from daskfs.sources.base import Source
from daskfs.sources.ingest import ingest, replaceable
from daskfs.sources.sparse.base import SparseSource
from daskfs.store.feature_store import FeatureStore, open_store
from daskfs.store.unfinished import set_aside
from daskfs.watching.base import Progress, Silent
from daskfs.watching.watch import Watch

if TYPE_CHECKING:
    from distributed import Client

    from daskfs.sources.genotype_matrix import GenotypeMatrix


@dataclass(frozen=True)
class RunOutcome:
    """A finished run: its folder, its report and its results by label."""

    folder: Path
    report: Path
    results: dict[str, SelectionResult]

    def to_document(self) -> dict[str, Any]:
        """Return a JSON-serialisable summary that names the files with the details."""
        model = self.folder / "model.json"
        return {
            "run": str(self.folder),
            "report": str(self.report),
            "model": str(model) if model.exists() else None,
            "selections": {
                label: {
                    "method": result.method,
                    "n_samples": result.n_samples,
                    "n_features": result.n_features,
                    "selected": [str(name) for name in result.table["name"]],
                    "metrics": {name: float(value) for name, value in result.metrics.items()},
                    "notes": [str(note) for note in result.notes],
                    "result": str(self.folder / (label if len(self.results) > 1 else "") / "result.json"),
                }
                for label, result in self.results.items()
            },
        }


def run_pipeline(
    pipeline: Pipeline,
    *,
    resume: bool = False,
    force: bool = False,
    progress: Progress | None = None,
    stream: SparseSource | None = None,
    model: BaseSelector | None = None,
) -> RunOutcome:
    """Run a pipeline.

    Parameters
    ----------
    pipeline : Pipeline
    resume : bool
        Continue the interrupted run at `pipeline.output`. The result is that of an uninterrupted run.
    force : bool
        Replace an existing run at `pipeline.output` when the new one is finished. Also replace the pipeline's store if
        it was made from another source or with other settings.
    progress : Progress, optional
        Receiver of progress.
    stream : SparseSource, optional
        With ``store: none``, a source that replaces the pipeline's source, such as standard input.
    model : Mission, optional
        With `stream`, the model to train further: `daskfs.pipeline.stream_run.load_model`.

    Returns
    -------
    RunOutcome

    Raises
    ------
    DaskfsError
        A user error. No unfinished files are left, except those of a run that lost its workers or disk and can be
        resumed.
    KeyboardInterrupt
        With a note on how to resume, if something was computed.
    """
    if not resume:
        check_output(pipeline.output_path, force=force)
    jobs = text_of_jobs(jobs_of(pipeline, to_run=True))
    with _other_store_aside(pipeline) if force else nullcontext():
        write = _of_stream(pipeline, stream, model, resume) if pipeline.is_stream else _of_store(pipeline)
        return _in_folder(pipeline, write, jobs, resume, force, progress, comes_once=stream is not None)


def _in_folder(
    pipeline: Pipeline,
    write: Write,
    jobs: str,
    resume: bool,
    force: bool,
    progress: Progress | None,
    comes_once: bool,
) -> RunOutcome:
    """Write a run folder, which is renamed to its final name when it is finished."""
    output = pipeline.output_path
    folder: RunFolder | None = None
    try:
        with interrupts.held():
            kept = pipeline.checkpoint.place
            folder = RunFolder.resume(output, **kept) if resume else RunFolder.start(output, force=force, **kept)
        watching = watched(folder.path, pipeline.name, progress)
        with interrupts.guard(), _explained(folder.path), watching as steps:
            for line in filter(None, jobs.splitlines()):
                steps.say(line)
            if not resume:
                _write_pipeline(folder, pipeline)
            results = write(folder, steps)
            if resume:  # some settings may differ from the interrupted run, such as the cluster
                _write_pipeline(folder, pipeline)
        with interrupts.concluding():
            folder.finish()
    except BaseException as fault:
        if folder is None or folder.is_finished:
            raise
        is_user_error = isinstance(fault, DaskfsError) and not isinstance(fault, RunError)
        with interrupts.held():
            can_resume = folder.let_go(keep=not is_user_error)
        if can_resume and not is_user_error and not comes_once:
            fault.add_note(f"continue with {resume_command(output)}")
        raise
    return RunOutcome(output, output / "report.html", results)


def _write_pipeline(folder: RunFolder, pipeline: Pipeline) -> None:
    with written_whole(folder.path / PIPELINE) as path:
        path.write_text(dump_yaml(pipeline.to_document()), encoding="utf-8")


@contextmanager
def _other_store_aside(pipeline: Pipeline) -> Iterator[None]:
    """Move a store that cannot be reused, or lacks its encoder, out of the way until the run has made a new one."""
    path, aside = pipeline.store_path, False
    source = open_source(pipeline) if pipeline.has_stored and isinstance(path, Path) else None
    if source is not None:
        try:
            stands = make_store(pipeline, source, 2**30, Silent())  # opens the existing store
            aside = stands.encoder is None  # made by an older version; runs on it would write no model
        except (StoreExistsError, CorruptStoreError):
            aside = True
    with set_aside(replaceable(path)) if aside else nullcontext():
        yield


Stored: TypeAlias = "FeatureStore | GenotypeMatrix"
"""Source of the rows of a run."""
Write = Callable[[RunFolder, Watch], dict[str, SelectionResult]]
"""Function that computes everything, writes all files of a run folder and returns the results by label."""


def _of_store(pipeline: Pipeline) -> Write:
    """Check and plan a pipeline; return the function that runs it."""
    source = check_pipeline(pipeline)
    plan = plan_pipeline(pipeline, facts_of(pipeline, source))
    return lambda folder, steps: _Run(pipeline, folder, plan, source, steps).write()


def _of_stream(pipeline: Pipeline, stream: SparseSource | None, model: BaseSelector | None, resume: bool) -> Write:
    """Check a pipeline without a store; return the function that runs it."""
    if stream is None:
        source = check_stream(pipeline)
        return lambda folder, steps: StreamRun(pipeline, source, folder, steps).write()
    if resume:
        problem = "a run on standard input cannot be resumed, because its lines cannot be read again"
        remedy = "train the model that the interrupted run saved on more lines, with --model"
        raise RunError(problem, str(pipeline.output_path), remedy)
    check_selections(pipeline)
    return lambda folder, steps: StreamRun(pipeline, stream, folder, steps, model, comes_once=True).write()


@contextmanager
def _explained(folder: Path) -> Iterator[None]:
    """Convert an OSError to a RunError if the run folder cannot be written."""
    try:
        yield
    except OSError as fault:
        if fault.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES):
            raise
        problem = f"the run folder cannot be written: {os.strerror(fault.errno).lower()}"
        raise RunError(problem, str(fault.filename or folder), "free disk space, or choose another output") from fault


class _Run:
    """A run on a store or on genotype files."""

    def __init__(self, pipeline: Pipeline, folder: RunFolder, plan: Plan, source: Source | None, steps: Watch) -> None:
        self.pipeline = pipeline
        self.folder = folder
        self.plan = plan
        self.source = source
        self.steps = steps
        self.ingest_seconds = 0.0
        self.ingest_memory: dict[str, int] = {}
        self.models: dict[str, Model] = {}

    def write(self) -> dict[str, SelectionResult]:
        """Compute everything, write all files and return the results by label."""
        pipeline, path = self.pipeline, self.folder.path
        if pipeline.cluster.kind == "address":
            check_scheduler(**pipeline.cluster_arguments)
        for line in self.plan.to_text().splitlines():
            self.steps.say(line)
        cluster, limits = pipeline.cluster, self.plan.limits
        kind = cluster.kind
        with ExitStack() as opened:
            workers: Workers | None = None
            if limits.ingests_on_workers(self.plan.data) and not limits.ends_after_ingest:
                workers = opened.enter_context(self._cluster(kind))
            store = self._in_place() if pipeline.is_in_place else self._store(workers)
            self.folder.checkpoint.claim(_settings(pipeline, store))
            self._warm_up(store)
            workers = workers or opened.enter_context(self._cluster(kind))
            if kind not in ("none", "threads", "local"):
                self._plan_again(self.plan.data, -(-workers.n_threads // self.plan.limits.n_threads))
            self.steps.promised = self.plan.promised_nbytes
            self.steps.row_nbytes = DataShape.of(store).nbytes / max(1, store.shape[0])
            with workers.performance_report(path / "dask.html"):
                results = {label: self._select(label, store, workers) for label in pipeline.selections}
            self._write_results(results, workers)
        return results

    @contextmanager
    def _cluster(self, kind: str) -> Iterator[Workers]:
        """Open the cluster, and show the run on its dashboard."""
        opened = open_cluster(**self.pipeline.cluster_arguments | {"kind": kind}, tell=self._tell)
        with opened as workers, on_dashboard(workers, self.steps):
            yield workers

    def _tell(self, line: str) -> None:
        self.steps.say(line)
        self.steps.tell(line)

    def _plan_again(self, facts: DataFacts, n_workers: int) -> None:
        """Plan again if the sizes or the number of workers differ from those planned."""
        if (facts, n_workers) != (self.plan.data, self.plan.limits.n_workers):
            self.plan = plan_pipeline(self.pipeline, facts, n_workers)

    def _compile(self, selections: Iterable[Mapping[str, Any]], dtype: str) -> None:
        """Compile the kernels in other processes, because the compiler's memory could exceed this process's limit."""
        compile_ahead(selections, dtype, self.steps)

    def _warm_up(self, store: Stored) -> None:
        losses = check_losses(self.pipeline, self.plan.data.target)
        then: dict[str, Any] = {"n_classes": min(self.plan.data.target.n_classes, 3)}
        if self.pipeline.refit.by != "method":
            then["then_refit"] = True
        selections = (
            _named_loss(one.model_dump(mode="json"), losses[label]) | then
            for label, one in self.pipeline.selections.items()
        )
        self._compile(selections, str(store.dtype))

    def _in_place(self) -> GenotypeMatrix:
        """Return the source's files as a matrix, after counting their missing values."""
        assert self.source is not None
        self._compile([{"text": "bed"}], "float32")
        since = time.perf_counter()
        self.steps.start("survey", 1)
        matrix: GenotypeMatrix = self.source.as_matrix()
        self.steps.advance()
        self.steps.finish()
        self.ingest_seconds = time.perf_counter() - since
        check_sizes(self.pipeline, matrix.shape[1])
        self._plan_again(facts_in_place(self.pipeline, self.source, matrix.shape), self.plan.limits.n_workers)
        return matrix

    def _store(self, workers: Workers | None) -> FeatureStore:
        """Make or open the store, and plan again with its sizes, which were estimates for text sources.

        Parameters
        ----------
        workers : Workers, optional
            Workers that make the store, if planned. Without them, local processes are started if the plan uses workers.
        """
        since = time.perf_counter()
        facts, limits = self.plan.data, self.plan.limits
        limit = limits.ingest_nbytes(facts)
        if workers is None and limits.ingests_on_workers(facts):
            with self._cluster("local") as own:
                store = make_store(self.pipeline, self.source, limit, self.steps, own.client)
                self.ingest_memory = own.peak_memory()
        else:
            client = None if workers is None else workers.client
            store = make_store(self.pipeline, self.source, limit, self.steps, client)
        self.ingest_seconds = time.perf_counter() - since
        check_sizes(self.pipeline, store.shape[1])
        found = facts_of_store(self.pipeline, store, is_new=not facts.store_exists)
        self._plan_again(replace(found, has_parts=facts.has_parts), limits.n_workers)
        return store

    def _select(self, label: str, store: Stored, workers: Workers) -> SelectionResult:
        pipeline, steps = self.pipeline, self.steps
        evaluated = steps.seconds.get("evaluate", 0.0)
        train: Matrix = store
        test: Matrix | None = None
        tested: Predicted | None = None
        retested: Predicted | None = None
        if pipeline.split is not None:
            split = pipeline.split
            train, test = store.split(split.test, by=split.by, random_state=split.random_state, groups=split.groups)
        selector = pipeline.selections[label].make_selector(self.plan.available_nbytes)
        selector.fit_matrix(train, workers=workers, progress=steps, checkpoint=self.folder.checkpoint.part(label))
        result: SelectionResult = selector.result_
        refitted: BaseSelector | None = None
        if pipeline.refit.by != "method":
            run = Run(train, selector.method, workers, steps, task_limit=self.plan.available_nbytes)
            refitted = refit_beside(selector, run, pipeline.refit.by, pipeline.refit.ridge)
        if test is not None:
            where = (
                workers if workers.client is None or self.plan.limits.predicts_on_workers(self.plan.data) else Here()
            )
            testing = Run(test, "evaluate", where, steps, task_limit=self.plan.available_nbytes)
            tested = self._tested(selector, testing)
            result.metrics = self._evaluate(selector, store, tested)
            if refitted is not None:
                retested = self._tested(refitted, testing)
                own = self._evaluate(refitted, store, retested)
                result.metrics |= {f"refit_{name}": own[name] for name in own if name in PREDICTION_METRICS}
            store.verify_unchanged()
        encoder = self._encoder_of(store)
        if encoder is not None:
            self.models[label] = model_of(selector, store, encoder, refitted)
        words = "" if pipeline.split is None else pipeline.split.in_words
        suspicions = () if self.source is None else self.source.suspicions
        result.evidence = evidence_of(store, train, test, words, selector, result, tested, retested, suspicions)
        if has_variants(result):
            clumps = pipeline.clumps
            window, r2 = (None, 1.0) if clumps is None else (clumps.window_bp, clumps.min_r2)
            examine_variants(selector, train, window_bp=window, min_r2=r2, workers=workers, progress=steps)
        result.store_digest = store.digest
        result.notes = list(dict.fromkeys([*store.notes, *result.notes, *self._own_notes()]))
        result.time = {
            "ingest": self.ingest_seconds,
            **result.time,
            "evaluate": steps.seconds.get("evaluate", 0.0) - evaluated,
        }
        return result

    def _encoder_of(self, store: Stored) -> dict[str, Any] | None:
        """Return the encoder of the store's rows; None for a store of an older version without one."""
        if isinstance(store, FeatureStore):
            return store.encoder
        assert self.source is not None
        return self.source.encoder

    def _own_notes(self) -> list[str]:
        notes = ["resumed: times are of the last part of the run only"] if self.folder.resumed else []
        if self.folder.checkpoint.room.is_full:
            notes.append(f"the checkpoint reached its maximum of {self.pipeline.checkpoint.max_size}; it is incomplete")
        return notes

    def _tested(self, selector: BaseSelector, testing: Run) -> Predicted | None:
        """Return the test rows with their predictions; None without a target."""
        y, weight = testing.matrix.read_target(), testing.matrix.read_weight()
        if y is None:
            return None
        predictor = linear_predictor(selector.predictor(), testing)
        return Predicted.by(selector, y, predictor, weight)

    def _evaluate(self, selector: BaseSelector, store: Stored, tested: Predicted | None) -> dict[str, float]:
        if tested is None:
            return {}
        values = tested.metrics(self.pipeline.evaluate.metrics_of(tested.loss))
        for name in self.pipeline.evaluate.metrics or ():
            if name in SELECTION_METRICS:
                values[name] = SELECTION_METRICS[name](selector.selected_.tolist(), _true_features(store))
        return values

    def _write_results(self, results: dict[str, SelectionResult], workers: Workers) -> None:
        path, several = self.folder.path, len(results) > 1
        self.steps.start("report", 1)
        # Draw the figures before the peak memory is measured, so that it includes them.
        figures = {label: draw_figures(one) for label, one in results.items()}
        measured = workers.peak_memory()
        measured |= {name: max(nbytes, measured.get(name, 0)) for name, nbytes in self.ingest_memory.items()}
        for label, result in results.items():
            result.memory |= {
                "limit_nbytes": result.memory.get("limit_nbytes", {}) | self.plan.limits.by_process,
                "promised_nbytes": self.plan.promised_nbytes,
                "measured_nbytes": measured,
            }
            if several:
                result.save(path / label, overwrite=True)
                if label in self.models:
                    self.models[label].save(path / label)
        for model in list(self.models.values())[:1]:
            model.save(path)
        next(iter(results.values())).save(path, overwrite=True)
        metrics = {label: result.to_record(0).metrics for label, result in results.items()}
        text = json.dumps(metrics if several else next(iter(metrics.values())), indent=2) + "\n"
        (path / "metrics.json").write_text(text, encoding="utf-8")
        write_page(path / "report.html", render_report(self.pipeline.name, results, figures))
        self.steps.advance()
        self.steps.finish()


def make_store(
    pipeline: Pipeline,
    source: Source | None,
    memory_limit: int,
    progress: Progress,
    client: Client | None = None,
) -> FeatureStore:
    """Ingest the source, or open the existing store that was made from it."""
    path = pipeline.store_path
    if source is None:
        return open_store(path)
    wanted = pipeline.stored
    try:
        if isinstance(path, Path):
            path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as fault:
        problem = f"cannot create the store's folder: {fault.strerror}"
        raise StoreError(problem, str(path), "choose another store.path") from None
    return ingest(
        source,
        path,
        dtype=wanted.dtype,
        shuffle=wanted.shuffle,
        random_state=wanted.random_state,
        codec=wanted.codec,
        tile_shape=None if wanted.tile_shape is None else (wanted.tile_shape[0], wanted.tile_shape[1]),
        memory_limit=memory_limit,
        progress=progress,
        client=client,
        storage_options=pipeline.storage_options,
    )


def _true_features(store: Stored) -> list[int]:
    """Return the true features of a synthetic source."""
    assert isinstance(store, FeatureStore)
    return [int(j) for j in store.source["support"]]


def _named_loss(selection: dict[str, Any], loss: str) -> dict[str, Any]:
    return selection | {"loss": loss} if "loss" in selection else selection


def _settings(pipeline: Pipeline, store: Stored) -> dict[str, Any]:
    """Return the settings on which the arrays of a checkpoint depend."""
    document = pipeline.to_document()
    chosen = pipeline.model_dump(mode="json", include={"split", "select"})
    if any(chosen[name] != document[name] for name in chosen):  # values from ${NAME} are saved only as a digest
        document["select"] = [document["select"], hashlib.sha256(json.dumps(chosen).encode()).hexdigest()]
    return {"store": {"digest": store.digest}, "split": document["split"], "select": document["select"]}
