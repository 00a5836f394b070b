"""The command line interface ``daskfs``: each command reads its options, calls one function and prints the result."""

from __future__ import annotations

import errno
import json
import os
import re
import shlex
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from typer.core import TyperGroup

from daskfs import errors, interrupts
from daskfs.cells import digits
from daskfs.errors import CorruptStoreError, DaskfsError, RunError, SelectionWarning, did_you_mean
from daskfs.files import location

if TYPE_CHECKING:
    from daskfs.pipeline.config import Pipeline
    from daskfs.pipeline.run import RunOutcome
    from daskfs.result import SelectionResult
    from daskfs.watching.watch import Watch

ConfigError = errors.ConfigError.about("command-line")
EXIT_INTERRUPTED = 130
_UsageError: Any = typer.BadParameter.__base__
_CHOICE = re.compile(r"'(.*)' is not one of (.*?)\.?")


class _Commands(TyperGroup):
    """Group of commands that converts user errors to a message and exit code 2, and an interrupt to exit code 130.

    With --json, the error is also printed as JSON.
    """

    def invoke(self, ctx: Any) -> Any:

        as_json = "--json" in ctx.args
        try:
            with interrupts.guard(command=True), _warnings_in_a_line(), _without_swallowed_interrupts():
                return super().invoke(ctx)
        except DaskfsError as fault:
            _tell(fault, str(fault), fault.exit_code, as_json)
            raise typer.Exit(fault.exit_code) from None
        except _UsageError as fault:
            fault.message = _with_suggestion(fault.message)
            if as_json:
                _print_json(_error(fault, fault.format_message(), fault.exit_code))
            raise
        except KeyboardInterrupt as fault:
            sys.unraisablehook = lambda _: None  # destructors of half-constructed objects may raise
            _tell(fault, "interrupted", EXIT_INTERRUPTED, as_json)
            raise typer.Exit(EXIT_INTERRUPTED) from None
        except BrokenPipeError:
            sys.stderr.close()  # the reader of our output has exited, as in `daskfs info ... | head`
            raise typer.Exit(1) from None
        except OSError as fault:
            if fault.errno != errno.ENAMETOOLONG:
                raise
            _say(f"{str(fault.filename)[:40]}...: the file name is too long; shorten it")
            raise typer.Exit(2) from None


def _tell(fault: BaseException, message: str, exit_code: int, as_json: bool) -> None:
    """Print the error that ended a command on stderr, and with --json also on stdout."""
    _say(message, *getattr(fault, "__notes__", ()))
    if as_json:
        _print_json(_error(fault, message, exit_code))


def _error(fault: BaseException, message: str, exit_code: int) -> dict[str, Any]:
    """Return an error as printed by --json, with one message for each place."""
    known = {"kind": type(fault).__name__, "messages": message.splitlines(), "topic": getattr(fault, "topic", None)}
    return {"error": known | {"notes": list(getattr(fault, "__notes__", ())), "exit_code": exit_code}}


def _with_suggestion(message: str) -> str:
    """Return the message for an invalid choice with the most similar valid choice."""
    message = message.removeprefix("Value error, ")
    if found := _CHOICE.fullmatch(message):
        message = message.removesuffix(".") + did_you_mean(found[1], re.findall("'([^']*)'", found[2]))
    return message


@contextmanager
def _without_swallowed_interrupts() -> Iterator[None]:
    """Silence reports of interrupts that a destructor or an import swallowed: they are raised again later."""
    by_default = sys.unraisablehook

    def said(unraisable: Any) -> None:
        if unraisable.exc_type is not KeyboardInterrupt:
            by_default(unraisable)

    sys.unraisablehook = said
    try:
        yield
    finally:
        sys.unraisablehook = by_default


@contextmanager
def _warnings_in_a_line() -> Iterator[None]:
    """Print warnings of daskfs on one line like errors, without file and line of the code.

    Each `SelectionWarning` is printed, also if it was printed before.
    """
    with warnings.catch_warnings():
        by_default = warnings.showwarning

        def show(message: Any, category: type[Warning], *place: Any, **further: Any) -> None:
            if category in (UserWarning, SelectionWarning):
                _say(f"warning: {message}")
            else:
                by_default(message, category, *place, **further)

        warnings.simplefilter("always", SelectionWarning)
        warnings.showwarning = show
        yield


app = typer.Typer(
    cls=_Commands,
    help="Select the few features that matter from data larger than memory.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

PipelineFile = Annotated[Path, typer.Argument(metavar="PIPELINE.yaml", help="Pipeline file.", show_default=False)]
StorePath = Annotated[
    Path,
    typer.Argument(metavar="STORE.zarr", help="Feature store: a path or a URL.", show_default=False, parser=location),
]
Overrides = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY.PATH=VALUE", help="Set a value of the pipeline, read as YAML. Repeatable."),
]
FinishedRun = Annotated[
    Path,
    typer.Argument(
        metavar="RUN_DIR", help="Folder of a finished run, or of one of its selections.", show_default=False
    ),
]
Phenotypes = Annotated[str | None, typer.Option(help="Genotypes: phenotype table with FID and IID.", metavar="FILE")]
Covariates = Annotated[
    str | None,
    typer.Option(
        help="Genotypes: covariates, as columns of the phenotypes (age,sex,PC1-PC10) or a table. Always selected.",
        metavar="COLUMNS",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document, for errors too.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Show warnings and errors only, no progress.")]
MemoryLimit = Annotated[str | None, typer.Option(help="Memory limit per process, e.g. 4GiB.", metavar="SIZE")]
RandomState = Annotated[int, typer.Option(help="Random seed.", min=0)]
Force = Annotated[bool, typer.Option("--force", help="Replace a finished run, and a store with other contents.")]
Resume = Annotated[Path | None, typer.Option(metavar="RUN_DIR", help="Continue the interrupted run in this folder.")]
Scheduler = Annotated[
    str | None, typer.Option(metavar="ADDRESS", help="Address of a Dask scheduler to run on, e.g. tcp://host:8786.")
]


def _known_methods() -> list[str]:
    from daskfs.methods import METHODS

    return [*METHODS]


def _known_topics() -> list[str]:
    from daskfs.error_topics import TOPICS

    return [*_known_methods(), *TOPICS]


def _known_kinds() -> list[str]:
    from daskfs.sources.registry import SOURCES

    return [*SOURCES]


def _known_documents() -> list[str]:
    from daskfs.pipeline.schemas import DOCUMENTS

    return [*DOCUMENTS]


@app.callback(invoke_without_command=True)
def _front(version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False) -> None:
    if version:
        from daskfs import __version__

        print(f"daskfs {__version__}")
        raise typer.Exit


@app.command()
def run(
    pipeline_file: Annotated[
        Path | None,
        typer.Argument(metavar="PIPELINE.yaml", help="Pipeline file; not needed with --resume."),
    ] = None,
    overrides: Overrides = None,
    resume: Resume = None,
    scheduler: Scheduler = None,
    runner: Annotated[
        Literal["slurm", "mpi"] | None,
        typer.Option(help="Run as one task of srun or mpirun: scheduler, client or worker, by rank."),
    ] = None,
    force: Force = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Run a pipeline: source, store, selection, evaluation, report."""
    pipeline = _load(pipeline_file, overrides, scheduler, resume)
    from daskfs.pipeline.allocation import in_allocation

    with in_allocation(pipeline, runner) as led:
        if led is None:  # another task runs the pipeline
            return
        _run(led, resume, force, quiet, as_json)


@app.command()
def plan(
    pipeline_file: PipelineFile,
    overrides: Overrides = None,
    as_json: AsJson = False,
    on: Annotated[
        str | None,
        typer.Option(metavar="NxC", help="Also estimate the time on N machines with C cores each, e.g. 100x16."),
    ] = None,
    price: Annotated[float | None, typer.Option(help="With --on: price per core-hour.", min=0)] = None,
    latency: Annotated[float, typer.Option(help="With --on: latency of the object store in seconds.", min=0)] = 0.0,
    machine: Annotated[
        Path | None,
        typer.Option(help="With --on: speed of one core, a file of `python -m benchmarks.scale machine`."),
    ] = None,
) -> None:
    """Print the memory and passes that a pipeline needs, without reading data.

    Shows bytes read and written, passes, tasks and the peak memory of each process; for a batch system, also the job
    script. A pipeline that needs more than its memory limit is refused.
    """
    found = {}
    for one in _load(pipeline_file, overrides).of_each_target:
        found[one.output_path.name] = _plan_of(one, on, price, latency, machine)
    if len(found) == 1:
        (document, text), *_ = found.values()
        _print(document, text, as_json)
        return
    texts = "\n\n".join(f"{name}:\n{text}" for name, (_, text) in found.items())
    _print({"plans": {name: document for name, (document, _) in found.items()}}, texts, as_json)


def _plan_of(
    pipeline: Pipeline, on: str | None, price: float | None, latency: float, machine: Path | None
) -> tuple[dict[str, Any], str]:
    """Return a plan as a document and as text."""
    from daskfs.pipeline.checks import check_pipeline
    from daskfs.pipeline.facts import facts_of
    from daskfs.pipeline.plan import jobs_of, plan_pipeline, text_of_jobs

    jobs = jobs_of(pipeline)
    if pipeline.is_stream:
        from daskfs.pipeline.plan import plan_of_stream

        text = plan_of_stream(pipeline)
        document: dict[str, Any] = {"text": text}
    else:
        planned = plan_pipeline(pipeline, facts_of(pipeline, check_pipeline(pipeline)))
        text, document = planned.to_text(), planned.to_document()
        if on is not None:
            from daskfs.pipeline.cost import MEASURED, Machine, Nodes, costs_of, text_of_costs

            nodes, methods = Nodes.parse(on), {label: one.method for label, one in pipeline.selections.items()}
            one_core = MEASURED if machine is None else Machine.read(machine)
            costs = costs_of(planned, methods, nodes, replace(one_core, latency_s=latency))
            text += "\n" + text_of_costs(planned, costs, nodes, price)
            document["on"] = {"cores": nodes.total, "price": price, "steps": [vars(one) for one in costs]}
    return document | jobs, "\n".join(filter(None, (text, text_of_jobs(jobs))))


@app.command()
def validate(pipeline_file: PipelineFile, overrides: Overrides = None, as_json: AsJson = False) -> None:
    """Check a pipeline file without running it.

    Checks the keys, the table schema, and the header of the source or store.
    """
    pipeline = _load(pipeline_file, overrides)
    from daskfs.pipeline.checks import check_pipeline
    from daskfs.pipeline.stream_checks import check_stream

    for one in pipeline.of_each_target:
        (check_stream if one.is_stream else check_pipeline)(one)
    _print({"pipeline": str(pipeline_file), "is_valid": True}, f"{pipeline_file}: valid", as_json)


@app.command()
def init(
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE",
            help="Text or Parquet table, folder or pattern; genotypes: .bed, .pgen, .bgen or VCF Zarr.",
            show_default=False,
        ),
    ],
    target: Annotated[
        str | None,
        typer.Option(
            help="Column to predict. Default: one named target, label, class or y, else the last.", metavar="COLUMN"
        ),
    ] = None,
    phenotypes: Phenotypes = None,
    covariates: Covariates = None,
    output: Annotated[
        Path,
        typer.Option(metavar="FOLDER", help="Output folder, or path of the pipeline file."),
    ] = Path(),
    as_json: AsJson = False,
    force: Annotated[bool, typer.Option("--force", help="Overwrite existing files.")] = False,
) -> None:
    """Inspect a table or genotypes; write a pipeline file, and a schema for a table.

    The files show the inferred type of each column and flag suspicious ones: identifiers, copies, constants, columns
    that leak the target. The name of an example pipeline (quickstart, message, fgm, ...) copies that pipeline instead.
    """
    from daskfs.bundled import pipelines
    from daskfs.pipeline.drafting import copy_of_bundled, draft
    from daskfs.pipeline.genotype_drafts import are_genotypes, draft_genotypes

    is_word = re.fullmatch(r"\w+", file) is not None and not Path(file).exists()
    if is_word and file not in pipelines() and (near := did_you_mean(file, pipelines())):
        raise ConfigError(f"expected a file, or the name of a bundled pipeline, found neither{near}", file)
    if is_word and file in pipelines():
        names = [str(path) for path in copy_of_bundled(file, output, force=force)]
        _print({"pipeline": names[0], "schemas": names[1:]}, f"wrote {' and '.join(names)}", as_json)
        _suggest(f"daskfs run {shlex.quote(names[0])}", as_json)
        return
    drafted: Any
    if are_genotypes(file):
        drafted = draft_genotypes(file, target, output, phenotypes=phenotypes, covariates=covariates, force=force)
    elif phenotypes is not None or covariates is not None:
        name = "--phenotypes" if phenotypes is not None else "--covariates"
        raise ConfigError("expected genotypes, found a table", name, "leave out this option, which is for genotypes")
    else:
        drafted = draft(file, target, output, force=force)
    _print(drafted.to_document(), drafted.to_text(), as_json)
    _suggest(f"daskfs run {shlex.quote(str(drafted.pipeline))}", as_json)


@app.command()
def ingest(
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE", help="File, glob pattern, folder, Zarr array or sklearn:NAME.", show_default=False
        ),
    ],
    store: StorePath,
    target: Annotated[str | None, typer.Option(help="Target column.", metavar="COLUMN")] = None,
    schema: Annotated[
        Path | None, typer.Option(help="Table schema: names, types and roles of the columns.", metavar="SCHEMA.yaml")
    ] = None,
    weight: Annotated[str | None, typer.Option(help="Column of sample weights.", metavar="COLUMN")] = None,
    kind: Annotated[
        str | None,
        typer.Option(
            help="Kind of source, if the file name does not show it: libsvm, vw, clicks, text ...",
            metavar="KIND",
            autocompletion=_known_kinds,
        ),
    ] = None,
    delimiter: Annotated[str | None, typer.Option(help="Field delimiter of a text table.")] = None,
    one_hot: Annotated[
        Literal["dense", "sparse"] | None,
        typer.Option(help="Encode categories as dense columns, or as sparse entries (any number of levels)."),
    ] = None,
    dtype: Annotated[
        Literal["float32", "float64", "int8"], typer.Option(help="dtype of the stored matrix.")
    ] = "float32",
    codec: Annotated[
        Literal["raw", "lz4"] | None, typer.Option(help="Compression codec; by default chosen from the data.")
    ] = None,
    shuffle: Annotated[bool, typer.Option(help="Shuffle the rows, as methods that use row subsets require.")] = True,
    random_state: RandomState = 0,
    memory_limit: MemoryLimit = "1GiB",
    workers: Annotated[
        int, typer.Option(min=0, help="Number of worker processes that read large text and Parquet files; 0: none.")
    ] = 0,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing store.")] = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Convert a source to a feature store."""
    from daskfs.cluster.open import open_cluster
    from daskfs.sources.ingest import ingest as ingest_source

    options: dict[str, Any] = {"target": target, "schema": schema, "weight": weight, "kind": kind}
    options |= {"delimiter": delimiter, "one_hot": one_hot}
    with (
        interrupts.concluding(),
        _shown_progress(quiet) as progress,
        open_cluster("local" if workers else "none", workers) as cluster,
    ):
        made = ingest_source(
            source,
            store,
            **{name: value for name, value in options.items() if value is not None},
            dtype=dtype,
            codec=codec,
            shuffle=shuffle,
            random_state=random_state,
            memory_limit=memory_limit or "1GiB",
            on_exists="replace" if force else "reuse",
            progress=progress,
            client=cluster.client,
        )
    n_samples, n_features = made.shape
    text = f"{store}: {n_samples:,} samples x {n_features:,} features, {made.dtype}"
    document = {"store": str(store), "n_samples": n_samples, "n_features": n_features, "dtype": str(made.dtype)}
    _print(document | {"notes": list(made.notes)}, "\n  ".join([text, *made.notes]), as_json)
    _suggest(f"daskfs select {shlex.quote(str(store))}", as_json or quiet)


@app.command()
def info(store: StorePath, as_json: AsJson = False) -> None:
    """Describe a feature store."""
    from daskfs.store.feature_store import open_store

    facts = open_store(store).info()
    _print(facts, "\n".join(f"{name:<16} {value}" for name, value in facts.items()), as_json)


@app.command()
def export_store(
    store: StorePath,
    path: Annotated[str, typer.Argument(metavar="PATH", help="Path of the new Zarr folder.", show_default=False)],
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Write a feature store as an AnnData store, which scanpy reads.

    A sparse matrix becomes compressed rows (CSR). A dense store is an AnnData store already.
    """
    from daskfs.store.feature_store import open_store

    opened = open_store(store)
    with interrupts.concluding(), _shown_progress(quiet) as progress:
        opened.export(path, progress)
    n_samples, n_features = opened.shape
    text = f"{path}: {n_samples:,} samples x {n_features:,} features, in AnnData's format"
    _print({"path": path, "n_samples": n_samples, "n_features": n_features}, text, as_json)


@app.command()
def verify(
    store: StorePath,
    seal: Annotated[
        bool, typer.Option("--seal", help="Add checksums to the manifest of a store that was made without them.")
    ] = False,
    workers: Annotated[int, typer.Option(min=0, help="Number of worker processes that read the store; 0: none.")] = 0,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Check every checksum of a feature store.

    Lists each damaged part with its file.
    """
    from daskfs.cluster.open import open_cluster
    from daskfs.store.feature_store import open_store, verify_store

    with _shown_progress(quiet) as progress, open_cluster("local" if workers else "none", workers) as cluster:
        damaged = verify_store(store, progress, cluster)
    if damaged:
        count = f"{len(damaged)} damaged {'part' if len(damaged) == 1 else 'parts'}"
        raise CorruptStoreError("\n".join([*damaged, f"{store}: {count}; remove it and ingest the source again"]))
    opened = open_store(store)
    if seal and not opened.is_sealed:
        opened = opened.sealed()
    unsealed = "\n  its manifest has no checksums, so swapped chunks are not detected; --seal adds the checksums"
    text = f"{store}: whole{'' if opened.is_sealed else unsealed}"
    _print({"store": str(store), "is_whole": True, "is_sealed": opened.is_sealed}, text, as_json)


@app.command()
def select(
    store: Annotated[
        Path,
        typer.Argument(
            metavar="STORE.zarr|FILE|-",
            help="Feature store, or a file that is converted to one: path or URL. Genotypes are read as they are, also "
            "by a quoted pattern, 'chr{1..22}.bed'. -: standard input.",
            show_default=False,
            parser=location,
        ),
    ],
    target: Annotated[
        str | None,
        typer.Option(
            help="For a file: column to predict. Default: one named target, label, class or y, else the last. "
            "Genotypes: also several phenotypes, separated by commas, with a run for each."
        ),
    ] = None,
    phenotypes: Phenotypes = None,
    covariates: Covariates = None,
    keep: Annotated[str | None, typer.Option(help="Genotypes: samples to use.", metavar="FILE")] = None,
    remove: Annotated[str | None, typer.Option(help="Genotypes: samples to leave out.", metavar="FILE")] = None,
    extract: Annotated[str | None, typer.Option(help="Genotypes: variants to use.", metavar="FILE")] = None,
    exclude: Annotated[str | None, typer.Option(help="Genotypes: variants to leave out.", metavar="FILE")] = None,
    min_frequency: Annotated[
        float | None, typer.Option(help="Genotypes: minor allele frequency of the variants to use.", min=0, max=0.5)
    ] = None,
    max_missing: Annotated[
        float | None, typer.Option(help="Genotypes: share of missing dosages of the variants to use.", min=0, max=1)
    ] = None,
    method: Annotated[
        str, typer.Option(help="Method, named as in a pipeline file.", autocompletion=_known_methods)
    ] = "message",
    n_features: Annotated[
        int | None,
        typer.Option(help="Number of features to select; for message, the maximum per subset.", min=1),
    ] = None,
    parameters: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Set a parameter of the method, read as YAML. Repeatable."),
    ] = None,
    feature_map: Annotated[
        str | None,
        typer.Option("--map", metavar="YAML", help="Feature map to select from: pairs, {map: pairs, ...} or groups."),
    ] = None,
    n_subsets: Annotated[
        int | None, typer.Option(help="message and its baselines: number of subsets of the rows.", min=1)
    ] = None,
    subset_size: Annotated[
        int | None, typer.Option(help="message and its baselines: rows per subset, instead of --n-subsets.", min=2)
    ] = None,
    criterion: Annotated[str | None, typer.Option(help="message and its baselines: information criterion.")] = None,
    gamma: Annotated[
        float | None, typer.Option(help="message and its baselines: EBIC parameter (0 to 1).", min=0, max=1)
    ] = None,
    test: Annotated[
        float, typer.Option(help="Fraction of rows held out for testing; 0 for none.", min=0, max=0.99)
    ] = 0.2,
    dtype: Annotated[
        Literal["float32", "float64", "int8"] | None,
        typer.Option(help="dtype of the store that a file is converted to."),
    ] = None,
    random_state: RandomState = 0,
    n_workers: Annotated[int | None, typer.Option(help="Number of worker processes on this machine.", min=1)] = None,
    scheduler: Scheduler = None,
    memory_limit: MemoryLimit = None,
    output: Annotated[
        Path | None, typer.Option(metavar="RUN_DIR", help="Output folder. Default: runs/<store>-<method>.")
    ] = None,
    resume: Resume = None,
    force: Force = False,
    lines: Annotated[
        str | None, typer.Option("--format", metavar="FORMAT", help="With -: format of the lines, libsvm or vw.")
    ] = None,
    interactions: Annotated[
        str | None,
        typer.Option(metavar="YAML", help="With -: pairs of features, all or [[namespace, namespace], ...]."),
    ] = None,
    max_rows: Annotated[int | None, typer.Option(help="With -: stop after this many rows.", min=1)] = None,
    model: Annotated[
        Path | None,
        typer.Option(
            metavar="MODEL.npz", help="With -: model of an earlier run to train further; keeps its parameters."
        ),
    ] = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Select features from a store, a file, or standard input (-, with --method mission), without a pipeline file.

    Column types of a table are inferred as by `daskfs init` and written to runs/<name>.schema.yaml, beside the
    store, where you can edit them.
    The options of single methods (`--n-subsets`, `--subset-size`, `--criterion`, `--gamma`) are shortcuts for `--set`.
    """
    from daskfs.pipeline.config import build_pipeline
    from daskfs.pipeline.drafting import LOOK_AT
    from daskfs.pipeline.short import short_pipeline

    stream = _standard_input(lines, interactions, max_rows) if str(store) == "-" else None
    given = {"n_subsets": n_subsets, "subset_size": subset_size, "criterion": criterion, "gamma": gamma}
    filters: dict[str, Any] = {"keep": keep, "remove": remove, "extract": extract, "exclude": exclude}
    filters |= {"min_frequency": min_frequency, "max_missing": max_missing}
    cluster: dict[str, Any] = {"kind": "none" if n_workers is None else "local", "n_workers": n_workers or 1}
    if scheduler is not None:
        cluster = {"kind": "address", "address": scheduler}
    if memory_limit is not None:
        cluster["memory_limit"] = memory_limit
    document, said = short_pipeline(
        None if stream else store,
        method,
        target=target,
        phenotypes=phenotypes,
        covariates=covariates,
        filters=filters,
        dtype=dtype,
        n_features=n_features,
        parameters={key: value for key, value in given.items() if value is not None},
        overrides=parameters or (),
        feature_map=feature_map,
        test=test,
        random_state=random_state,
        cluster=cluster,
        output=_run_dir(resume) if resume is not None else None if output is None else str(output),
    )
    _say(*(line for line in said if not quiet or line.startswith(LOOK_AT)))
    before = None if model is None else _model_to_go_on(model, stream, document["select"])
    pipeline = build_pipeline(document, "daskfs select", Path.cwd())
    _run(pipeline, resume, force, quiet, as_json, stream=stream, model=before)


def _standard_input(lines: str | None, interactions: str | None, max_rows: int | None) -> Any:
    """Return standard input as a source."""
    from daskfs.documents import parse_yaml
    from daskfs.sources.sparse.pairs import PairsSource
    from daskfs.sources.sparse.streams import LineStream

    if lines is None:
        raise ConfigError("expected the format of the lines, found none", "--format", "libsvm or vw")
    stream = LineStream(sys.stdin.buffer.raw, lines, max_rows=max_rows)  # type: ignore[union-attr]
    return stream if interactions is None else PairsSource(stream, parse_yaml(interactions, "--interactions"))


def _model_to_go_on(path: Path, stream: Any, selection: dict[str, Any]) -> Any:
    """Return a saved model to train further, whose parameters become those of the selection."""
    from daskfs.pipeline.steps.learn import load_model

    if stream is None or selection["method"] != "mission":
        raise ConfigError(
            "only mission can be trained further, on standard input",
            "--model",
            "use `daskfs select - --method mission`",
        )
    if set(selection) > {"method", "random_state"}:
        raise ConfigError("the model keeps its own parameters", "--model", "leave out --n-features and --set")
    model, kept = load_model(path)
    selection |= kept
    return model


@app.command()
def apply(
    run_dir: FinishedRun,
    data: Annotated[
        str,
        typer.Argument(
            metavar="FILE|-",
            help="New rows: a file that ingest can read, a folder, a glob pattern or a URL; -: standard input.",
            show_default=False,
        ),
    ],
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="OUT", help="Output file, .csv or .parquet; -: print CSV.")
    ] = "-",
    features: Annotated[bool, typer.Option("--features", help="Also write the selected features.")] = False,
    keep: Annotated[
        list[str] | None, typer.Option(metavar="COLUMN", help="Copy a column of the file to the output. Repeatable.")
    ] = None,
    unseen: Annotated[
        Literal["zero", "other"] | None,
        typer.Option(help="What to do with categories that were not in the training data, if the schema refuses them."),
    ] = None,
    refit: Annotated[
        bool, typer.Option("--refit", help="Use the refitted model (refit: {by: ridge} in the pipeline).")
    ] = False,
    kind: Annotated[
        str | None, typer.Option(help="Kind of file, if its name does not show it.", metavar="KIND")
    ] = None,
    delimiter: Annotated[
        str | None, typer.Option(help="Field delimiter, if it differs from that of the training data.")
    ] = None,
    covariates: Annotated[
        str | None, typer.Option(help="Genotypes: table of the samples' covariates, by IID.", metavar="FILE")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace OUT.")] = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Predict new rows with the model of a run. The rows are encoded like its training data.

    Only the source columns of the selected features are needed, in any order. One block of rows is in memory at a time.
    If the file has the target, the metrics on these rows are printed.

    Examples: daskfs apply runs/power new.csv -o new.parquet; zcat new.csv.gz | daskfs apply runs/power - > new.csv
    """
    import tempfile

    from daskfs.applied.apply import STANDARD_OUTPUT, spooled
    from daskfs.applied.apply import apply as apply_model
    from daskfs.applied.model import Model
    from daskfs.applied.rows import OF_LINES

    if as_json and output == STANDARD_OUTPUT:
        raise ConfigError(
            "the predictions and the JSON document would both go to standard output", "--json", "name a file with -o"
        )
    model = Model.load(run_dir, refit=refit)
    given = {"delimiter": delimiter, "covariates": covariates}
    options = {name: value for name, value in given.items() if value is not None}
    with (
        interrupts.concluding(),
        tempfile.TemporaryDirectory(prefix="daskfs-") as folder,
        _shown_progress(quiet) as progress,
    ):
        word = model.document["encoder"]["kind"]
        source = spooled(kind or (word if word in OF_LINES else None), folder) if data == "-" else data
        how: dict[str, Any] = {"kind": kind, "options": options, "kept": keep or (), "unseen": unseen}
        applied = apply_model(model, source, output, features=features, force=force, progress=progress, **how)
    if output != STANDARD_OUTPUT:
        _print(vars(applied), applied.to_text(), as_json)
    elif not quiet:
        _say(*applied.to_text().splitlines())


@app.command()
def export(
    run_dir: FinishedRun,
    form: Annotated[
        Literal["list", "columns", "sql", "sklearn"],
        typer.Option(
            "--as",
            help="Feature names, names of their source columns, a SQL SELECT, or a Python file.",
        ),
    ] = "list",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Output file. Default: print.")
    ] = None,
    table: Annotated[str, typer.Option(help="With --as sql: name of the table.", metavar="TABLE")] = "data",
    dialect: Annotated[
        Literal["standard", "sqlite"], typer.Option(help="With --as sql: dialect for parts of dates.")
    ] = "standard",
    refit: Annotated[
        bool, typer.Option("--refit", help="Use the refitted model (refit: {by: ridge} in the pipeline).")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace FILE.")] = False,
    as_json: AsJson = False,
) -> None:
    """Export the selected features of a run as a list, as SQL, or as a scikit-learn pipeline.

    Examples: daskfs export runs/power --as sql --table meters; daskfs export runs/power --as sklearn -o power.py
    """
    from daskfs.applied.export import export as export_model
    from daskfs.applied.model import Model
    from daskfs.files import written_whole

    text = export_model(Model.load(run_dir, refit=refit), form, table=table, dialect=dialect)
    document: dict[str, Any] = {"as": form, "file": None if output is None else str(output)}
    document |= {"names": text.splitlines()} if form in ("list", "columns") else {"text": text}
    if output is None:
        _print(document, text.removesuffix("\n"), as_json)
        return
    if output.exists() and not force:
        raise RunError("the file already exists", str(output), "choose another name, or replace it with --force")
    with written_whole(output) as path:
        path.write_text(text, encoding="utf-8")
    _print(document, str(output), as_json)


@app.command()
def watch(
    run_dir: Annotated[
        Path, typer.Argument(metavar="RUN_DIR", help="Folder of one run, or of several.", show_default=False)
    ],
    once: Annotated[bool, typer.Option("--once", help="Print the current state and exit.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one line of JSON per update.")] = False,
) -> None:
    """Follow a run of another process through the files in its folder, until it ends.

    The exit code is that of the run: 0 finished, 2 invalid input, 130 interrupted, 1 any other error. A process of this
    machine that has died is reported at once; a run without a heartbeat is reported after five minutes.
    """
    from daskfs.pipeline.following import follow, json_line, runs_in
    from daskfs.watching.terminal import rewritten

    with nullcontext(print) if as_json else rewritten(sys.stdout) as write:
        for seen in follow(runs_in(run_dir)):
            write(json_line(seen) if as_json else "\n".join(one.to_text() for one in seen))
            if once:
                break
    codes = [one.exit_code or 0 for one in seen]
    if any(codes):
        raise typer.Exit(max(codes))


@app.command()
def methods(as_json: AsJson = False) -> None:
    """List the methods: selectors and baselines."""
    from daskfs.pipeline.explaining import all_methods, methods_text

    _print(all_methods(), methods_text(), as_json)
    _suggest("daskfs explain METHOD", as_json)


@app.command()
def explain(
    method: Annotated[
        str,
        typer.Argument(
            metavar="METHOD|TOPIC",
            help="Method, or topic named by an error.",
            show_default=False,
            autocompletion=_known_topics,
        ),
    ],
    as_json: AsJson = False,
) -> None:
    """Explain a method (algorithm and parameters), or the topic that an error names, with its remedies."""
    from daskfs.pipeline.explaining import explanation, explanation_text

    _print(explanation(method), explanation_text(method), as_json)


@app.command()
def report(
    run_dirs: Annotated[
        list[Path], typer.Argument(metavar="RUN_DIR...", help="Folders of finished runs.", show_default=False)
    ],
    output: Annotated[Path | None, typer.Option(metavar="PAGE.html", help="Path of the page.")] = None,
    as_json: AsJson = False,
) -> None:
    """Write the HTML report of a run, or a comparison of several runs; with --json print its contents."""
    from daskfs.report.runs import report_as_json, write_report

    if as_json:
        _print_json(report_as_json(run_dirs))
    else:
        print(write_report(run_dirs, output))


@app.command()
def schema(
    name: Annotated[
        str,
        typer.Argument(
            help="Kind of document: pipeline, store, result, model or table.", autocompletion=_known_documents
        ),
    ] = "pipeline",
    as_json: AsJson = False,
) -> None:
    """Print the JSON Schema of a kind of document, for editors. It is JSON with and without --json."""
    from daskfs.pipeline.schemas import json_schema_text

    print(json_schema_text(name), end="")


@app.command()
def warmup(
    method: Annotated[
        list[str] | None,
        typer.Option(help="Method to compile for. Repeatable.", autocompletion=_known_methods),
    ] = None,
    loss: Annotated[
        str | None, typer.Option(help="Loss to compile for. Default: those chosen by default for each kind of target.")
    ] = None,
    dtype: Annotated[Literal["float32", "float64", "int8"], typer.Option(help="dtype of the matrix.")] = "float32",
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Compile the kernels before the first run.

    By default the kernels of the five selectors and of the text readers. They are cached on disk, so that later
    commands start without delay.
    """
    from daskfs.losses import find_loss
    from daskfs.methods import SELECTORS, find_method
    from daskfs.pipeline.compile_ahead import TEXTS, compile_ahead, kinds_of

    names = method or list(SELECTORS)
    for name in names:
        find_method(name)
    if loss is not None:
        find_loss(loss)
    kinds = [kind for name in names for kind in kinds_of(name, loss)]
    with _shown_progress(quiet) as progress:
        compile_ahead(kinds if method else [*kinds, *({"text": text} for text in TEXTS)], dtype, progress)
    _print({"methods": names, "dtype": dtype}, "the kernels are compiled", as_json)


def main() -> None:
    """Run the command that the arguments name. The entry point of the process is ``daskfs.__main__``."""
    app(prog_name="daskfs")


def _load(
    path: Path | None, overrides: list[str] | None, scheduler: str | None = None, resume: Path | None = None
) -> Pipeline:
    from daskfs.pipeline.config import load_pipeline
    from daskfs.pipeline.folder import pipeline_of

    if path is None:
        path = pipeline_of(resume)
    listed = list(overrides or ())
    if scheduler is not None:
        listed += ["cluster.kind=address", f"cluster.address={json.dumps(scheduler)}"]
    if resume is not None:
        listed.append(f"output={json.dumps(_run_dir(resume))}")
    return load_pipeline(path, listed)


def _run_dir(resume: Path) -> str:
    return str(resume.resolve()).removesuffix(".unfinished")


def _run(pipeline: Pipeline, resume: Path | None, force: bool, quiet: bool, as_json: bool, **options: Any) -> None:
    """Run a pipeline, and print its outcome."""
    from daskfs.pipeline.run import run_each, run_pipeline

    if len(pipeline.of_each_target) == 1:
        with _shown_progress(quiet) as progress:
            outcome = run_pipeline(pipeline, resume=resume is not None, force=force, progress=progress, **options)
        _print_outcome(outcome, as_json, quiet)
        return
    outcomes = []
    with _shown_progress(quiet) as progress:
        for outcome in run_each(pipeline, resume=resume is not None, force=force, progress=progress):
            outcomes.append(outcome.to_document())
            if not as_json:
                print(f"{outcome.folder.name}:")
                _print_outcome(outcome, as_json, quiet)
    if as_json:
        _print_json({"runs": outcomes})


def _print_outcome(outcome: RunOutcome, as_json: bool, quiet: bool) -> None:
    if as_json:
        _print_json(outcome.to_document())
        return
    for label, result in outcome.results.items():
        if len(outcome.results) > 1:
            print(f"{label}:")
        _print_result(result)
    if len(outcome.results) > 1:
        from daskfs.report.comparison import differences, sentences

        for said in sentences(differences(outcome.results)):
            print(said)
    print(f"report: {outcome.report}")
    if (outcome.folder / "model.json").exists():
        _suggest(f"daskfs apply {shlex.quote(os.path.relpath(outcome.folder))} NEW.csv -o predictions.csv", quiet)


def _print_result(result: SelectionResult) -> None:
    of_all = f" of {result.n_features:,}" if result.n_features < 2**63 else ""  # ids are of 64 bits
    print(f"{len(result.table):,}{of_all} features selected from {result.n_samples:,} samples")
    if len(result.table):
        shown = result.shown_table(30)
        numbers = shown.select_dtypes("Int64")
        shown = shown.assign(**numbers.astype(object).where(numbers.notna(), ""))  # na_rep does not apply to them
        print(shown.to_string(index=False, float_format=digits, na_rep=""))
    if len(result.table) > 30:
        print(f"and {len(result.table) - 30:,} more, in selected.csv")
    if result.metrics:
        print("on the test rows: " + ", ".join(f"{name} {digits(value)}" for name, value in result.metrics.items()))


def _print(document: Any, text: str, as_json: bool) -> None:
    """Print the outcome of a command: a JSON document or a text."""
    if as_json:
        _print_json(document)
    else:
        print(text)


def _print_json(document: Any) -> None:
    print(json.dumps(document, indent=2, default=str))


def _suggest(command: str, is_unasked: bool = False) -> None:
    """Suggest the next command if the output is a terminal."""
    if sys.stdout.isatty() and not is_unasked:
        print(f"next: {command}")


def _say(*lines: str) -> None:
    for line in lines:
        print(line, file=sys.stderr)


@contextmanager
def _shown_progress(quiet: bool = False) -> Iterator[Watch]:
    """Show progress on stderr: a bar on a terminal, which is removed at the end, else lines; nothing if `quiet`."""
    from daskfs.watching.terminal import shown
    from daskfs.watching.watch import Watch

    with nullcontext(Watch()) if quiet else shown() as watch:
        yield watch
