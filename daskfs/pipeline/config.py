"""The pipeline file: what each key may be, overrides from the command line, and paths relative to the file."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Discriminator,
    Field,
    PrivateAttr,
    SerializeAsAny,
    Tag,
    model_validator,
)

from daskfs.cluster.jobqueue import JOB_QUEUES, JobOptions
from daskfs.cluster.open import parse_bytes
from daskfs.documents import (
    PATH,
    ByTag,
    Section,
    as_written,
    check_document,
    expand_environment,
    one_or_list,
    parse_yaml,
    read_yaml,
    resolve_paths,
)
from daskfs.errors import ConfigError
from daskfs.files import Location, location
from daskfs.losses import Loss
from daskfs.metrics import PREDICTION_METRICS, SELECTION_METRICS
from daskfs.objects.address import is_url
from daskfs.parameters import Count
from daskfs.pipeline.features import AnyFeatures, Features
from daskfs.pipeline.folder import check_name, folded
from daskfs.pipeline.selections import (
    AnySelection,
    InferenceSection,
    KnockoffsSection,
    Seed,
    Selection,
    StabilitySection,
)
from daskfs.sources.options import SourceOptions
from daskfs.sources.registry import SOURCES, find_source
from daskfs.sources.registry import section_of as section_of_source
from daskfs.store.manifest import is_finished


def _known_size(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        parse_bytes(value)
    except ConfigError as fault:
        raise ValueError(f"{fault.problem}; {fault.remedy}") from None
    return value


def _no_kubernetes(kind: Any) -> Any:
    if kind == "kubernetes":
        raise ValueError(
            "expected a cluster that daskfs can start, found 'kubernetes'; start it with dask-kubernetes and give the "
            "address of its scheduler with kind: address (docs/hpc.md)"
        )
    return kind


Size: TypeAlias = Annotated[
    Annotated[Count, Tag("number")] | Annotated[str, AfterValidator(_known_size), Tag("text")],
    Discriminator(lambda value: "text" if isinstance(value, str) else "number"),
]
Metric: TypeAlias = Literal[(*PREDICTION_METRICS, *SELECTION_METRICS)]  # type: ignore[valid-type]


Source: TypeAlias = Annotated[SerializeAsAny[SourceOptions], ByTag("kind", SOURCES, section_of_source)]


class Store(Section):
    """The feature store: made once, reused when source and encoding are unchanged."""

    path: Annotated[str | None, PATH] = Field(
        default=None, description="runs/<name>.zarr beside the pipeline file by default"
    )
    dtype: Literal["float32", "float64", "int8"] = "float32"
    codec: Literal["raw", "lz4"] | None = None
    tile_shape: Annotated[list[Count], Field(min_length=2, max_length=2)] | None = None
    shuffle: bool = True
    random_state: Seed = 0


StoreOrNone: TypeAlias = Annotated[
    Annotated[Literal["none"], Tag("word")] | Annotated[Store, Tag("mapping")],
    Discriminator(lambda value: "word" if isinstance(value, str) else "mapping"),
]


class Split(Section):
    """How the rows are split into training and test rows."""

    test: float | str | list[str] = Field(
        default=0.2, description="proportion of test rows, or the values that mark test rows"
    )
    by: str = Field(default="random", description="random, order, or the name of a column of role split")
    random_state: Seed = 0
    groups: str | None = Field(
        default=None,
        description="column (role id or split; fid of PLINK's files: families) whose rows of one value are on one side",
    )

    @model_validator(mode="after")
    def _share_of_rows(self) -> Split:
        by_share = self.by in ("random", "order")
        if by_share and not (isinstance(self.test, (int, float)) and 0 < self.test < 1):
            raise ValueError(
                f"test: expected a proportion between 0 and 1, found {self.test!r}; "
                "write `split: null` to train on every row"
            )
        if self.groups is not None and self.by != "random":
            raise ValueError(f"groups: whole groups are drawn at random, found by: {self.by}; leave one of them out")
        return self

    @property
    def in_words(self) -> str:
        """How the test rows are chosen."""
        if self.by not in ("random", "order"):
            return f"rows whose {self.by!r} is {self.test}"
        how = f"drawn at random, seed {self.random_state}" if self.by == "random" else "the last of the source"
        how += f", in whole groups of {self.groups!r}" if self.groups is not None else ""
        return f"{self.test:.0%} of the rows, {how}"


Select: TypeAlias = Annotated[
    Annotated[SerializeAsAny[AnySelection], Tag("one")]
    | Annotated[list[SerializeAsAny[AnySelection]], Tag("list"), Field(min_length=1)],
    Discriminator(one_or_list),
]


class Refit(Section):
    """The fit on the selected features: each method's own, or beside it one that is the same for all methods."""

    by: Literal["method", "ols", "ridge", "elastic"] = Field(
        default="method",
        description="method: coefficients as the method defines them; ridge: beside them a fit of the same loss on the "
        "selected features of all training rows, with its metrics; ols: without a penalty; elastic: with an l1 penalty "
        "too, by the loss on rows held out",
    )
    ridge: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = Field(
        default=None,
        description="with by: ridge or elastic, λ of ½ λ Σ b², b the coefficients of standardised columns; 0: none; by "
        "default chosen from the data",
    )

    @model_validator(mode="after")
    def _ridge_where_asked(self) -> Refit:
        if self.ridge is not None and self.by not in ("ridge", "elastic"):
            raise ValueError(f"ridge: has no effect with by: {self.by}; write by: ridge")
        return self


class Evaluate(Section):
    """Metrics on the test rows; selection_recall and selection_precision where the source knows its true features."""

    metrics: list[Metric] | None = Field(
        default=None, min_length=1, description="by default mse and r2; for classes accuracy and auc"
    )

    def metrics_of(self, loss: Loss) -> list[str]:
        """Return the metrics that apply to this loss."""
        if self.metrics is None:
            return list(loss.default_metrics)
        return [name for name in self.metrics if name in loss.metrics or name not in PREDICTION_METRICS]


class Adapt(Section):
    """Between how many worker processes Dask chooses, as there is work."""

    minimum: Annotated[int, Field(ge=0)] = 0
    maximum: Count

    @model_validator(mode="after")
    def _in_order(self) -> Adapt:
        if self.minimum > self.maximum:
            raise ValueError(f"minimum: expected at most {self.maximum}, found {self.minimum}")
        return self


class Tls(Section):
    """Certificates of a scheduler that speaks TLS: those it was started with, or signed by the same authority."""

    ca_file: Annotated[str, PATH]
    cert: Annotated[str, PATH]
    key: Annotated[str, PATH]


Seconds: TypeAlias = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Walltime: TypeAlias = Annotated[str, Field(pattern=r"^(\d+-)?\d+(:\d+){0,2}$")]

_OF_MOST_KINDS = ("kind", "n_workers", "memory_limit", "local_directory")
_TEXTS_OF_JOBS = ("queue", "account", "resource_spec", "prologue", "directives", "python", "interface")
_OF_JOBS = [field.name for field in fields(JobOptions) if field.name not in _OF_MOST_KINDS]
_ONLY_WITH: dict[str, tuple[str, ...]] = {  # keys that have an effect with some kinds only
    **dict.fromkeys(_OF_JOBS, tuple(JOB_QUEUES)),
    **dict.fromkeys(("start_with", "wait_timeout_s"), (*JOB_QUEUES, "address")),
    **dict.fromkeys(("cores", "processes", "python", "interface"), (*JOB_QUEUES, "ssh")),
    **dict.fromkeys(("address", "scheduler_file", "connect_timeout_s"), ("address",)),
    "lost_timeout_s": ("local", *JOB_QUEUES, "ssh", "address"),
    "tls": ("address", "ssh"),
    "hosts": ("ssh",),
    "client_memory_limit": ("local", *JOB_QUEUES, "ssh", "address"),
}


class Cluster(Section):
    """Where the work runs: here, in processes of this machine, in jobs of a batch system, or on a running cluster.

    What jobs are not told here they take from dask-jobqueue's ``jobqueue.yaml``.
    """

    kind: Annotated[
        Literal["none", "threads", "local", "slurm", "pbs", "lsf", "sge", "oar", "ssh", "address"],
        BeforeValidator(_no_kubernetes),
    ] = "none"
    n_workers: Count = Field(default=1, description="threads or worker processes; of jobs, those of all jobs together")
    memory_limit: Size = Field(
        default="4GiB",
        description="memory limit of this process or, with workers, of each worker process; of jobs by default the "
        "memory of a job by its processes",
    )
    client_memory_limit: Size | None = Field(
        default=None,
        description="memory limit of the client process, with workers; memory_limit by default, at least 1GiB",
    )
    address: str | None = Field(default=None, description="of a running scheduler: tcp://host:8786")
    scheduler_file: Annotated[str | None, PATH] = Field(
        default=None, description="in place of an address: what dask scheduler --scheduler-file has written"
    )
    tls: Tls | None = None
    hosts: Annotated[list[str], Field(min_length=2)] | None = Field(
        default=None, description="with kind: ssh, the scheduler's host, then those of the workers"
    )
    connect_timeout_s: Seconds | None = Field(
        default=None, description="how long a running scheduler may take to answer; Dask's 30 s by default"
    )
    wait_timeout_s: Seconds | None = Field(
        default=None,
        description="how long to wait for workers, before the work begins with those there are; by default as long as "
        "the batch system takes, and not at all for those of a running scheduler",
    )
    start_with: Annotated[int, Field(ge=0)] | None = Field(
        default=None,
        description="worker processes that are waited for; n_workers by default, or adapt.minimum, or one of a running "
        "scheduler",
    )
    lost_timeout_s: Seconds | None = Field(
        default=None,
        description="how long a run that has lost all its workers waits for another one, before it ends and can be "
        "resumed; 300 s by default, and as long as a batch system takes",
    )
    adapt: Adapt | None = Field(default=None, description="as many workers as there is work for, in place of n_workers")
    cores: Count | None = Field(default=None, description="threads of a job, or of a host; 1 by default")
    processes: Count | None = Field(
        default=None, description="worker processes of a job, or of a host; cores by default"
    )
    memory: Size | None = Field(
        default=None, description="that a job asks for; by default what its workers may take, and 256 MiB"
    )
    walltime: Walltime | None = Field(default=None, description="of a job: 02:00:00, 1-12:00:00")
    lifetime_s: Seconds | None = Field(
        default=None, description="after which a worker hands over and ends; by default a little before the walltime"
    )
    queue: str | None = Field(default=None, description="queue or partition")
    account: str | None = Field(default=None, description="account or project that pays")
    resource_spec: str | None = Field(default=None, description="of pbs, sge and oar, in place of cores and memory")
    prologue: list[str] | None = Field(
        default=None, description="lines of the job's script before the worker starts: module load, source activate"
    )
    directives: list[str] | None = Field(default=None, description="further options of the batch system")
    python: str | None = Field(default=None, description="the interpreter on the nodes; this one by default")
    interface: str | None = Field(default=None, description="network of scheduler and workers: ib0")
    log_directory: Annotated[str | None, PATH] = Field(
        default=None, description="of the jobs' logs, on a file system that all nodes see; <output>.jobs by default"
    )
    config_name: str | None = Field(default=None, description="section of jobqueue.yaml; the kind by default")
    dashboard_address: str | None = "127.0.0.1:0"
    local_directory: Annotated[str | None, PATH] = None

    @model_validator(mode="after")
    def _keys_with_effect(self) -> Cluster:
        for key, kinds in _ONLY_WITH.items():
            if getattr(self, key) is not None and self.kind not in kinds:
                instead = "set memory_limit" if key == "client_memory_limit" else f"write kind: {' or '.join(kinds)}"
                raise ValueError(f"{key}: has no effect with kind: {self.kind}; {instead}")
        if self.kind == "address" and (self.address is None) == (self.scheduler_file is None):
            found = (
                "this key is required with" if self.address is None else "leave out scheduler_file, or this key, with"
            )
            raise ValueError(f"address: {found} kind: address{'; add it' if self.address is None else ''}")
        if self.kind == "ssh" and self.hosts is None:
            raise ValueError("hosts: this key is required with kind: ssh; add it")
        if self.adapt is not None and "n_workers" in self.model_fields_set and self.n_workers != self.adapt.maximum:
            raise ValueError("n_workers: has no effect with adapt; leave one of them out")
        return self

    @model_validator(mode="after")
    def _what_follows(self) -> Cluster:
        if self.adapt is not None:
            self.n_workers = self.adapt.maximum
        if self.hosts is not None:
            self.n_workers = (len(self.hosts) - 1) * (self.processes or self.cores or 1)
        if self.kind in JOB_QUEUES:
            if "memory_limit" not in self.model_fields_set:
                self.memory_limit = self.jobs().memory_limit_of_worker
            _ = self.jobs().memory_of_job, self.jobs().lifetime
        return self

    def jobs(self, log_directory: str | None = None) -> JobOptions:
        """Return what jobs are asked for, of a pipeline whose workers are jobs; with the default of their logs."""
        given = {field.name: getattr(self, field.name) for field in fields(JobOptions)}
        if "memory_limit" not in self.model_fields_set:
            given["memory_limit"] = None
        for key in ("memory_limit", "memory"):
            given[key] = None if given[key] is None else parse_bytes(given[key])
        given["adapt"] = None if self.adapt is None else (self.adapt.minimum, self.adapt.maximum)
        options = JobOptions(**given)
        if log_directory is None or options.log_directory or options.of_file("log-directory"):
            return options
        return replace(options, log_directory=log_directory)

    def arguments(self, log_directory: str) -> dict[str, Any]:
        """Return what `daskfs.cluster.open.open_cluster` takes; with the default folder of jobs' logs."""
        keys = ["kind", "n_workers", "address", "dashboard_address", "local_directory", "scheduler_file"]
        keys += ["connect_timeout_s", "wait_timeout_s", "start_with", "lost_timeout_s"]
        found = {key: getattr(self, key) for key in keys} | {"memory_limit": self.limits_nbytes.get("worker")}
        found |= {"tls": None if self.tls is None else self.tls.model_dump(), "hosts": self.hosts or ()}
        if self.kind in JOB_QUEUES:
            jobs = self.jobs(log_directory)
            found |= {field.name: getattr(jobs, field.name) for field in fields(JobOptions)}
        elif self.kind == "ssh":
            found |= {key: getattr(self, key) for key in ("cores", "processes", "python", "interface")}
        return found

    @property
    def has_workers(self) -> bool:
        """True where the work runs in worker processes."""
        return self.kind not in ("none", "threads")

    @property
    def threads_of_worker(self) -> int:
        """Threads of each worker process, as far as is known."""
        if self.kind in JOB_QUEUES:
            return self.jobs().threads_of_worker
        return (self.cores or 1) // (self.processes or self.cores or 1)

    @property
    def limits_nbytes(self) -> dict[str, int]:
        """Bytes that this process, the client, and each worker process may take."""
        limit = parse_bytes(self.memory_limit)
        if not self.has_workers:
            return {"client": limit}
        client = max(limit, 2**30) if self.client_memory_limit is None else parse_bytes(self.client_memory_limit)
        return {"client": client, "worker": limit}


@dataclass(frozen=True)
class Written:
    """How a pipeline was written, before variables were expanded; those that say the same are the same pipeline."""

    document: Any = field(compare=False)


class Kept(Section):
    """What is kept of a run while it lasts, so that an interrupted one goes on where it stood."""

    path: Annotated[str | None, PATH] = Field(
        default=None, description="folder in which the run's checkpoint is made; by default in the run's own folder"
    )
    max_size: Size = Field(
        default="4GiB",
        description="beyond which nothing more is kept: what comes after is computed again where a run is resumed",
    )

    @property
    def place(self) -> dict[str, Any]:
        """As `daskfs.pipeline.folder.RunFolder` takes it."""
        kept_in = None if self.path is None else Path(self.path)
        return {"kept_in": kept_in, "max_nbytes": parse_bytes(self.max_size)}


class Pipeline(Section):
    """A pipeline file, version 1."""

    version: Literal[1]
    name: Annotated[str, AfterValidator(lambda name: check_name(name, "name"))] = Field(pattern=r"^[\w.-]+$")
    source: Source | None = Field(default=None, description="optional where the store exists already")
    store: StoreOrNone = Field(
        default=Store(),
        description="the feature store; none: mission learns from a sparse source as it is read; genotypes are read "
        "out of their files by every method",
    )
    split: Split | None = Split()
    select: Select
    features: AnyFeatures | None = Field(
        default=None, description="what is selected from; left out: each column alone, as the selections say"
    )
    stability: StabilitySection | None = Field(
        default=None, description="select what every selection selects on most of other halves of the rows"
    )
    knockoffs: KnockoffsSection | None = Field(
        default=None, description="select what counts for more than its knockoff, by every selection"
    )
    split_inference: InferenceSection | None = Field(
        default=None, description="every selection on some rows, intervals of its coefficients on the others"
    )
    refit: Refit = Refit()
    evaluate: Evaluate = Evaluate()
    cluster: Cluster = Cluster()
    checkpoint: Kept = Kept()
    output: Annotated[str | None, PATH] = Field(
        default=None, description="runs/<name> beside the pipeline file by default"
    )
    storage_options: dict[str, str | int | bool] | None = Field(
        default=None,
        description="options of s3://, gs:// and az:// addresses, as obstore names them (endpoint, region ...); "
        "without them each process, on workers too, finds its own in its environment",
    )
    _written: Written = PrivateAttr(default_factory=lambda: Written({}))

    @model_validator(mode="after")
    def _former_names_of_metrics(self) -> Pipeline:
        if self.source is None or not find_source(self.source.kind).knows_true_features or not self.evaluate.metrics:
            return self
        former = [name for name in self.evaluate.metrics if f"selection_{name}" in SELECTION_METRICS]
        for name in former:
            said = f"evaluate.metrics: {name} of selected features is now called selection_{name}"
            warnings.warn(
                f"{said}; {name} alone will be that of labels here, as it is elsewhere", FutureWarning, stacklevel=2
            )
        self.evaluate.__dict__["metrics"] = [
            f"selection_{name}" if name in former else name for name in self.evaluate.metrics
        ]
        return self

    @model_validator(mode="after")
    def _distinct_labels(self) -> Pipeline:
        seen: dict[str, str] = {}
        for label in self._labels():
            same = seen.get(folded(label))
            if same == label:
                raise ValueError(f"select: duplicate label {label!r}; give each selection its own")
            if same is not None:
                raise ValueError(f"select: the labels {same!r} and {label!r} may be one folder; change one of them")
            seen[folded(label)] = label
        return self

    @model_validator(mode="after")
    def _about_each(self) -> Pipeline:
        sections = ("stability", "knockoffs", "split_inference")
        named = [name for name in sections if getattr(self, name) is not None]
        if len(named) > 1:
            raise ValueError(
                f"expected stability, knockoffs or split_inference, found {' and '.join(named)}; leave one"
            )
        about = getattr(self, named[0]) if named else None
        if about is not None and self.is_stream:
            raise ValueError(f"{named[0]} reads rows more than once, store: none reads them once; make a store")
        groups = self.split.groups if self.split is not None else None
        if groups is not None and getattr(about, "groups", "") is None and getattr(about, "subsamples", "") != "own":
            about.groups = groups  # type: ignore[union-attr]
        for selection in self._listed():
            selection._about = about
        return self

    @model_validator(mode="after")
    def _metrics_for_each(self) -> Pipeline:
        for label, selection in self.selections.items():
            loss = selection.loss_record
            if loss is not None and not self.evaluate.metrics_of(loss):
                wanted = " or ".join(loss.default_metrics)
                raise ValueError(f"evaluate.metrics: none of them measures {label} (loss {loss.name}); add {wanted}")
        return self

    def _listed(self) -> list[Selection]:
        return self.select if isinstance(self.select, list) else [self.select]

    def _labels(self) -> list[str]:
        """Labels as given; without one, a method among several is numbered."""
        listed = self._listed()
        if len(listed) == 1:
            return [listed[0].label or listed[0].method]
        return [selection.label or f"{selection.method}-{k + 1}" for k, selection in enumerate(listed)]

    @property
    def selections(self) -> dict[str, Selection]:
        """The selections to run, by label."""
        return dict(zip(self._labels(), self._listed(), strict=True))

    @property
    def is_stream(self) -> bool:
        """Whether the source is learnt from as it is read, row by row, without a store."""
        return not self.has_store and not self.is_in_place

    @property
    def is_in_place(self) -> bool:
        """Whether rows and columns are read out of the source's files, as often as is needed, without a store."""
        return not self.has_store and self.source is not None and find_source(self.source.kind).is_read_in_place

    @property
    def has_store(self) -> bool:
        """Whether there is a feature store."""
        return isinstance(self.store, Store)

    @property
    def stored(self) -> Store:
        """How the store is made, of a pipeline that has one."""
        return self.store if isinstance(self.store, Store) else Store()

    @property
    def store_path(self) -> Location:
        """Path, or address, of the feature store."""
        return location(self.stored.path or "", self.storage_options)

    @property
    def has_stored(self) -> bool:
        """Whether the feature store stands."""
        return self.has_store and is_finished(self.store_path)

    @property
    def output_path(self) -> Path:
        """Path of the run's folder."""
        return Path(self.output or "")

    @property
    def cluster_arguments(self) -> dict[str, Any]:
        """What `daskfs.cluster.open.open_cluster` takes."""
        return self.cluster.arguments(f"{self.output_path}.jobs")

    @property
    def cluster_jobs(self) -> JobOptions:
        """What jobs are asked for, where the workers are jobs, as it may be shown: see `to_document`."""
        jobs, shown = self.cluster.jobs(f"{self.output_path}.jobs"), self.to_document()["cluster"]
        return replace(jobs, **{key: shown[key] for key in _TEXTS_OF_JOBS if shown[key] is not None})

    def to_document(self) -> dict[str, Any]:
        """Return the resolved pipeline as plain mappings: what pipeline.yaml of a run holds.

        Values that came from ``${NAME}`` stand as they were written, and no password or signature in clear.
        """
        found: dict[str, Any] = as_written(self.model_dump(mode="json"), self._written.document)
        return found


def load_pipeline(path: str | os.PathLike[str], overrides: Iterable[str] = ()) -> Pipeline:
    """Read and check a pipeline file.

    Parameters
    ----------
    path : path-like
    overrides : iterable of str
        ``key.path=value``, applied before anything else; the value is read as YAML. A number in the key path
        stands for an entry of a list: ``select.0.n_subsets=20``.

    Returns
    -------
    Pipeline
        Paths absolute, variables expanded.

    Raises
    ------
    ConfigError
        One line per place.
    """
    path = Path(path)
    document = read_yaml(path)
    for override in overrides:
        apply_override(document, override)
    return build_pipeline(document, str(path), path.resolve().parent)


def build_pipeline(document: dict[str, Any], where: str, folder: Path) -> Pipeline:
    """Check a mapping as a pipeline; paths in it are relative to `folder`, `where` names it in messages."""
    pipeline = check_document(Pipeline, expand_environment(document, where), where)
    pipeline._written = Written(written_paths(pipeline, document, where, folder))
    if isinstance(pipeline.store, Store):
        pipeline.store.path = pipeline.store.path or f"runs/{pipeline.name}.zarr"
    pipeline.output = pipeline.output or f"runs/{pipeline.name}"
    resolve_paths(pipeline, folder)
    if pipeline.features is not None:
        _say_features(pipeline, pipeline.features, where)
    if not pipeline.has_store:
        return pipeline
    _keep_apart(pipeline, where)
    if pipeline.source is None and not pipeline.has_stored:
        problem = f"expected a source, or a store at {pipeline.store_path}; found neither"
        raise ConfigError(problem, f"{where}: source", "add the source or fix store.path")
    return pipeline


def written_paths(section: Section, written: dict[str, Any], where: str, folder: Path) -> dict[str, Any]:
    """Return a section as it was written, in which paths with ``${NAME}`` name the same place from anywhere."""
    found = dict(written)
    for name, declared in type(section).model_fields.items():
        key = declared.alias or name
        item, value = written.get(key), getattr(section, name)
        if isinstance(value, Section) and isinstance(item, dict):
            found[key] = written_paths(value, item, where, folder)
        elif PATH in declared.metadata and isinstance(item, list):
            found[key] = [_anchored(path, where, folder) for path in item]
        elif PATH in declared.metadata and isinstance(item, str):
            found[key] = _anchored(item, where, folder)
    return found


def _anchored(path: str, where: str, folder: Path) -> str:
    resolved = expand_environment(path, where)
    return path if is_url(resolved) or Path(resolved).expanduser().is_absolute() else str(folder / path)


def _say_features(pipeline: Pipeline, features: Features, where: str) -> None:
    """Give every selection the parameter for which `features` stands."""
    name, value = features.parameter
    for label, selection in pipeline.selections.items():
        if name not in type(selection).model_fields:
            problem = f"{selection.method} takes no {name}, for which features stands"
            raise ConfigError(problem, f"{where}: select ({label})", "leave it out, or select with fgm")
        if getattr(selection, name) not in (None, value):
            problem = f"expected features or select.{name}, found both"
            raise ConfigError(problem, f"{where}: features", "leave one out")
        setattr(selection, name, value)


def _keep_apart(pipeline: Pipeline, where: str) -> None:
    """Refuse a run's folder and a store inside each other: each is renamed when it is whole."""
    store, output = pipeline.store_path, pipeline.output_path
    if not isinstance(store, Path):
        return
    if store == output or store in output.parents or output in store.parents:
        problem = f"expected a run's folder apart from the store, found {output} and {store}"
        raise ConfigError(problem, f"{where}: output", "choose another output or store.path")


def apply_override(document: dict[str, Any], override: str) -> None:
    """Set one value of a document, given as ``key.path=value``; see `load_pipeline`."""
    place = f"--set {override}"
    key_path, equals, text = override.partition("=")
    keys = key_path.strip().split(".")
    if not equals or not all(keys):
        raise ConfigError("expected key.path=value", place, "for example --set select.n_subsets=20")
    node: Any = document
    for depth, key in enumerate(keys):
        index = _entry(node, key, place, ".".join(keys[:depth]))
        if depth == len(keys) - 1:
            node[index] = parse_yaml(text, place)
            return
        if isinstance(node, dict) and node.get(index) is None:
            node[index] = {}
        node = node[index]


def _entry(node: Any, key: str, place: str, above: str) -> str | int:
    if isinstance(node, dict):
        return key
    if isinstance(node, list):
        if key.isdecimal() and int(key) < len(node):
            return int(key)
        problem = f"{above} is a list of {len(node)}, so expected a number from 0, found {key!r}"
        raise ConfigError(problem, place, f"--set {above}.0...=value")
    raise ConfigError(f"{above} is {node!r}, which has no key {key!r}", place, f"--set {above}=...")
