"""Run a pipeline: source -> store -> split -> select and refit -> evaluate -> report, written atomically."""

from __future__ import annotations

import errno
import hashlib
import json
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from daskfs import interrupts
from daskfs.cluster.memory import peak_memory_nbytes
from daskfs.cluster.open import check_scheduler
from daskfs.cluster.workers import Here, Workers
from daskfs.documents import dump_yaml
from daskfs.errors import CorruptStoreError, RunError, StoreExistsError, keeps_work
from daskfs.files import written_whole
from daskfs.losses import TargetKind
from daskfs.matrix.base import Matrix
from daskfs.pipeline.applying import model_of
from daskfs.pipeline.checks import check_losses, check_pipeline, check_sizes
from daskfs.pipeline.compile_ahead import compile_ahead
from daskfs.pipeline.config import Pipeline
from daskfs.pipeline.examining import evidence_of
from daskfs.pipeline.facts import DataFacts, facts_in_place, facts_of, facts_of_store, open_source
from daskfs.pipeline.folder import PIPELINE, RunFolder, check_output, resume_command
from daskfs.pipeline.limits import available_for_model, limits_of
from daskfs.pipeline.plan import Plan, jobs_of, plan_pipeline, text_of_jobs
from daskfs.pipeline.progress import watched
from daskfs.pipeline.several import Together, waiting_runs
from daskfs.pipeline.steps import evaluate, ingest, learn, refit, report, select
from daskfs.pipeline.steps.cluster import open_workers
from daskfs.pipeline.steps.context import Context, Stored
from daskfs.pipeline.stream_checks import check_selections, check_stream
from daskfs.pipeline.variants import examine_variants, has_variants
from daskfs.result import SelectionResult
from daskfs.selectors.base import BaseSelector
from daskfs.selectors.shared.budget import DataShape
from daskfs.selectors.shared.run import Run
from daskfs.sources.ingest import replaceable
from daskfs.sources.sparse.base import SparseSource
from daskfs.store.feature_store import FeatureStore
from daskfs.store.unfinished import set_aside
from daskfs.watching.base import Progress, Silent
from daskfs.watching.watch import Watch


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
    together: Together | None = None,
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
        With `stream`, the model to train further: `daskfs.pipeline.steps.learn.load_model`.
    together : Together, optional
        Runs with other targets that share passes, see `run_each`.

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
        write = _of_stream(pipeline, stream, model, resume) if pipeline.is_stream else _of_store(pipeline, together)
        return _in_folder(pipeline, write, jobs, resume, force, progress, comes_once=stream is not None)


def run_each(
    pipeline: Pipeline, *, resume: bool = False, force: bool = False, progress: Progress | None = None
) -> Iterator[RunOutcome]:
    """Run a pipeline for each of its targets, in folders within its own; yield the outcomes.

    Genotypes that are read in place are read in the same passes for all targets, as far as methods and memory allow.

    Parameters
    ----------
    pipeline : Pipeline
    resume : bool
        Leave out the targets whose runs are finished, and continue one that was interrupted.
    force, progress
        See `run_pipeline`.

    Raises
    ------
    DaskfsError
        A user error, for any of the targets before the first is run; or all of them are finished.
    """
    waiting = waiting_runs(pipeline.of_each_target, resume, force)
    if not waiting:
        problem = "nothing to resume: the runs of all targets are finished"
        raise RunError(problem, str(pipeline.output_path), "leave --resume out, and choose another output")
    together = Together([one for one, _ in waiting])
    for one, is_interrupted in waiting:
        yield run_pipeline(one, resume=is_interrupted, force=force, progress=progress, together=together)


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
        is_kept = keeps_work(fault)
        with interrupts.held():
            can_resume = folder.let_go(keep=is_kept)
        if can_resume and is_kept and not comes_once:
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
            stands = ingest.make_store(pipeline, source, 2**30, Silent())  # opens the existing store
            aside = stands.encoder is None  # made by an older version; runs on it would write no model
        except (StoreExistsError, CorruptStoreError):
            aside = True
    with set_aside(replaceable(path)) if aside else nullcontext():
        yield


Write = Callable[[RunFolder, Watch], dict[str, SelectionResult]]
"""Function that computes everything, writes all files of a run folder and returns the results by label."""


def _of_store(pipeline: Pipeline, together: Together | None) -> Write:
    """Check and plan a pipeline; return the function that runs it."""
    source = check_pipeline(pipeline)
    plan = plan_pipeline(pipeline, facts_of(pipeline, source))
    return lambda folder, watch: _StoreRun(Context(pipeline, folder, watch, source, together), plan).run()


def _of_stream(pipeline: Pipeline, stream: SparseSource | None, model: BaseSelector | None, resume: bool) -> Write:
    """Check a pipeline without a store; return the function that runs it."""
    comes_once = stream is not None
    if comes_once and resume:
        problem = "a run on standard input cannot be resumed, because its lines cannot be read again"
        remedy = "train the model that the interrupted run saved on more lines, with --model"
        raise RunError(problem, str(pipeline.output_path), remedy)
    if stream is None:
        source = check_stream(pipeline)
    else:
        check_selections(pipeline)
        source = stream

    def write(folder: RunFolder, watch: Watch) -> dict[str, SelectionResult]:
        context, limits = Context(pipeline, folder, watch, source), limits_of(pipeline.cluster)
        if not comes_once:
            document, files = pipeline.to_document(), source.stamps()  # which must be unchanged on resume
            unchanged = {key: document[key] for key in ("source", "split", "select")} | {"files": files}
            folder.checkpoint.claim(unchanged)
        results = {
            label: learn.run(context, source, label, available_for_model(limits), model, comes_once=comes_once)
            for label in pipeline.selections
        }
        report.run(
            context,
            results,
            lambda: {"limit_nbytes": limits.by_process, "measured_nbytes": {"client": peak_memory_nbytes()}},
        )
        return results

    return write


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


class _StoreRun:
    """A run on a store or on genotype files, step by step."""

    def __init__(self, context: Context, plan: Plan) -> None:
        self.context, self.plan = context, plan

    def run(self) -> dict[str, SelectionResult]:
        """Run all steps, write all files and return the results by label."""
        pipeline, watch, folder = self.context.pipeline, self.context.watch, self.context.folder
        if pipeline.cluster.kind == "address":
            check_scheduler(**pipeline.cluster_arguments)
        for line in self.plan.to_text().splitlines():
            watch.say(line)
        kind, limits = pipeline.cluster.kind, self.plan.limits
        with ExitStack() as opened:
            workers: Workers | None = None
            if limits.ingests_on_workers(self.plan.data) and not limits.ends_after_ingest:
                workers = opened.enter_context(open_workers(self.context, kind))
            store, data = self._store(workers)
            folder.checkpoint.claim(_settings(pipeline, store))
            self._compile(pipeline, str(store.dtype), data.target)
            together = self.context.together
            for one in () if together is None else together.others(pipeline):
                self._compile(one, str(store.dtype), facts_of(one, check_pipeline(one)).target)
            workers = workers or opened.enter_context(open_workers(self.context, kind))
            n_workers = limits.n_workers
            if kind not in ("none", "threads", "local"):
                n_workers = -(-workers.n_threads // limits.n_threads)
            if (data, n_workers) != (self.plan.data, limits.n_workers):  # sizes were estimates, or workers are others'
                self.plan = plan_pipeline(pipeline, data, n_workers)
            watch.promised = self.plan.promised_nbytes
            watch.row_nbytes = DataShape.of(store).nbytes / max(1, store.shape[0])
            with workers.performance_report(folder.path / "dask.html"):
                results = {label: self._selection(label, store, workers) for label in pipeline.selections}
            report.run(self.context, results, partial(self._memory, workers))
        return results

    def _store(self, workers: Workers | None) -> tuple[Stored, DataFacts]:
        """Make or open the store; return it with its sizes, which were estimates for text sources."""
        context, facts, limits = self.context, self.plan.data, self.plan.limits
        pipeline = context.pipeline
        store: Stored
        if pipeline.is_in_place:
            compile_ahead([{"text": "bed"}], "float32", context.watch)
            store = ingest.run_in_place(context)
            assert context.source is not None
            found = facts_in_place(pipeline, context.source, store.shape)
        else:
            store = ingest.run(context, facts, limits, workers)
            found = facts_of_store(pipeline, store, is_new=not facts.store_exists)
            found = replace(found, has_parts=facts.has_parts)
        check_sizes(pipeline, store.shape[1])
        return store, found

    def _compile(self, pipeline: Pipeline, dtype: str, target: TargetKind) -> None:
        """Compile the kernels in other processes, because the compiler's memory could exceed this process's limit."""
        losses = check_losses(pipeline, target)
        then: dict[str, Any] = {"n_classes": min(target.n_classes, 3)}
        if pipeline.refit.by != "method":
            then["then_refit"] = True
        dumped = ((losses[label], one.model_dump(mode="json")) for label, one in pipeline.selections.items())
        selections = (one | ({"loss": loss} if "loss" in one else {}) | then for loss, one in dumped)
        compile_ahead(selections, dtype, self.context.watch)

    def _selection(self, label: str, store: Stored, workers: Workers) -> SelectionResult:
        """Select, refit, evaluate and examine."""
        context, pipeline, watch = self.context, self.context.pipeline, self.context.watch
        limits, available = self.plan.limits, self.plan.available_nbytes
        evaluated = watch.seconds.get("evaluate", 0.0)
        train: Matrix = store
        test: Matrix | None = None
        split = pipeline.split
        if split is not None:
            train, test = store.split(split.test, by=split.by, random_state=split.random_state, groups=split.groups)
        selector = select.run(context, label, train, workers, available)
        result: SelectionResult = selector.result_
        refitted = tested = retested = None
        if pipeline.refit.by != "method":
            rows = Run(train, selector.method, workers, watch, task_limit=available)
            refitted = refit.run(selector, rows, pipeline.refit.by, pipeline.refit.ridge)
        if test is not None:
            where = workers if workers.client is None or limits.predicts_on_workers(self.plan.data) else Here()
            testing = Run(test, "evaluate", where, watch, task_limit=available)
            tested, retested = evaluate.run(pipeline.evaluate, selector, refitted, store, testing)
            store.verify_unchanged()
        encoder = self._encoder_of(store)
        if encoder is not None:
            context.models[label] = model_of(selector, store, encoder, refitted)
        words, source = "" if split is None else split.in_words, context.source
        suspicions = () if source is None else source.suspicions
        result.evidence = evidence_of(store, train, test, words, selector, result, tested, retested, suspicions)
        if has_variants(result):
            clumps = pipeline.clumps
            window, r2 = (None, 1.0) if clumps is None else (clumps.window_bp, clumps.min_r2)
            examine_variants(selector, train, window_bp=window, min_r2=r2, workers=workers, progress=watch)
        result.store_digest = store.digest
        result.notes = list(dict.fromkeys([*store.notes, *result.notes, *self._own_notes()]))
        seconds = watch.seconds.get("evaluate", 0.0) - evaluated
        result.time = {"ingest": context.ingest_seconds, **result.time, "evaluate": seconds}
        return result

    def _encoder_of(self, store: Stored) -> dict[str, Any] | None:
        """Return the encoder of the store's rows; None for a store of an older version without one."""
        if isinstance(store, FeatureStore):
            return store.encoder
        assert self.context.source is not None
        return self.context.source.encoder

    def _own_notes(self) -> list[str]:
        folder = self.context.folder
        notes = ["resumed: times are of the last part of the run only"] if folder.resumed else []
        if folder.checkpoint.room.is_full:
            most = self.context.pipeline.checkpoint.max_size
            notes.append(f"the checkpoint reached its maximum of {most}; it is incomplete")
        return notes

    def _memory(self, workers: Workers) -> dict[str, dict[str, int]]:
        measured, before = workers.peak_memory(), self.context.ingest_memory
        return {
            "limit_nbytes": self.plan.limits.by_process,
            "promised_nbytes": self.plan.promised_nbytes,
            "measured_nbytes": measured | {name: max(before[name], measured.get(name, 0)) for name in before},
        }


def _settings(pipeline: Pipeline, store: Stored) -> dict[str, Any]:
    """Return the settings on which the arrays of a checkpoint depend."""
    document = pipeline.to_document()
    chosen = pipeline.model_dump(mode="json", include={"split", "select"})
    if any(chosen[name] != document[name] for name in chosen):  # values from ${NAME} are saved only as a digest
        document["select"] = [document["select"], hashlib.sha256(json.dumps(chosen).encode()).hexdigest()]
    return {"store": {"digest": store.digest}, "split": document["split"], "select": document["select"]}
