"""The pipeline file: models of its sections, overrides from the command line, and paths relative to the file."""

from __future__ import annotations

import os
import re
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

from daskfs import errors
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
from daskfs.files import Location, location
from daskfs.losses import LOSSES, Loss
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

ConfigError = errors.ConfigError.about("pipeline-files")


def _known_size(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        parse_bytes(value)
    except errors.ConfigError as fault:
        raise ValueError(f"{fault.problem}; {fault.remedy}") from None
    return value


def _no_kubernetes(kind: Any) -> Any:
    if kind == "kubernetes":
        raise ValueError(
            "expected a cluster that daskfs can start, found 'kubernetes'; start it with dask-kubernetes and set the "
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
    """The feature store. It is made once, and reused while source and encoding are unchanged."""

    path: Annotated[str | None, PATH] = Field(
        default=None, description="default: runs/<name>.zarr beside the pipeline file"
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
        description="column (role id or split; fid of PLINK files for families): rows with equal values stay together",
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
            raise ValueError(f"groups: expected by: random with groups, found by: {self.by}; leave one of them out")
        return self

    @property
    def in_words(self) -> str:
        """Description of how the test rows are chosen."""
        if self.by not in ("random", "order"):
            return f"rows whose {self.by!r} is {self.test}"
        how = f"drawn at random, seed {self.random_state}" if self.by == "random" else "the last rows of the source"
        how += f", in whole groups of {self.groups!r}" if self.groups is not None else ""
        return f"{self.test:.0%} of the rows, {how}"


Select: TypeAlias = Annotated[
    Annotated[SerializeAsAny[AnySelection], Tag("one")]
    | Annotated[list[SerializeAsAny[AnySelection]], Tag("list"), Field(min_length=1)],
    Discriminator(one_or_list),
]


class Refit(Section):
    """Fit on the selected features: each method's own, or in addition a common one that is the same for all methods."""

    by: Literal["method", "ols", "ridge", "elastic"] = Field(
        default="method",
        description="method: only the method's own coefficients; ridge: also fit the same loss on the selected "
        "features of all training rows, with metrics of this fit; ols: the same without a penalty; elastic: with an l1 "
        "penalty too, chosen by the loss on held-out rows",
    )
    ridge: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = Field(
        default=None,
        description="with by: ridge or elastic, λ of the penalty ½ λ Σ b², where b are the coefficients of "
        "standardised columns; 0: no penalty; default: chosen from the data",
    )

    @model_validator(mode="after")
    def _ridge_where_asked(self) -> Refit:
        if self.ridge is not None and self.by not in ("ridge", "elastic"):
            raise ValueError(f"ridge: has no effect with by: {self.by}; write by: ridge")
        return self


class Clumps(Section):
    """Of genotypes: which variants belong to the clump of a selected variant."""

    window_bp: Annotated[int, Field(ge=0, lt=2**40)] = Field(
        default=250_000, description="largest distance from the selected variant in base pairs"
    )
    min_r2: Annotated[float, Field(gt=0, le=1)] = Field(
        default=0.5, description="smallest squared correlation with the selected variant"
    )


class Evaluate(Section):
    """Metrics on the test rows. selection_recall and selection_precision need a source with known true features."""

    metrics: list[Metric] | None = Field(
        default=None, min_length=1, description="default: mse and r2; for classes accuracy and auc"
    )

    def metrics_of(self, loss: Loss) -> list[str]:
        """Return the metrics that apply to this loss."""
        if self.metrics is None:
            return list(loss.default_metrics)
        return [name for name in self.metrics if name in loss.metrics or name not in PREDICTION_METRICS]


class Adapt(Section):
    """Range of the number of worker processes, within which Dask adapts it to the work."""

    minimum: Annotated[int, Field(ge=0)] = 0
    maximum: Count

    @model_validator(mode="after")
    def _in_order(self) -> Adapt:
        if self.minimum > self.maximum:
            raise ValueError(f"minimum: expected at most {self.maximum}, found {self.minimum}")
        return self


class Tls(Section):
    """TLS certificates of a scheduler: those it was started with, or certificates signed by the same authority."""

    ca_file: Annotated[str, PATH]
    cert: Annotated[str, PATH]
    key: Annotated[str, PATH]


Seconds: TypeAlias = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Walltime: TypeAlias = Annotated[str, Field(pattern=r"^(\d+-)?\d+(:\d+){0,2}$")]

_OF_MOST_KINDS = ("kind", "n_workers", "memory_limit", "local_directory")
_TEXTS_OF_JOBS = ("queue", "account", "resource_spec", "prologue", "directives", "python", "interface")
_OF_JOBS = [field.name for field in fields(JobOptions) if field.name not in _OF_MOST_KINDS]
_ONLY_WITH: dict[str, tuple[str, ...]] = {  # keys that have an effect only with these kinds
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
    """Where the work runs: in this process, local processes, jobs of a batch system, or a running cluster.

    Options of jobs that are not set here come from dask-jobqueue's ``jobqueue.yaml``.
    """

    kind: Annotated[
        Literal["none", "threads", "local", "slurm", "pbs", "lsf", "sge", "oar", "ssh", "address"],
        BeforeValidator(_no_kubernetes),
    ] = "none"
    n_workers: Count = Field(default=1, description="number of threads or worker processes; for jobs, of all jobs")
    memory_limit: Size = Field(
        default="4GiB",
        description="memory limit of this process or, with workers, of each worker process; default for jobs: the "
        "memory of a job divided by its number of processes",
    )
    client_memory_limit: Size | None = Field(
        default=None,
        description="memory limit of the client process, with workers; default: memory_limit, at least 1GiB",
    )
    address: str | None = Field(default=None, description="address of a running scheduler, e.g. tcp://host:8786")
    scheduler_file: Annotated[str | None, PATH] = Field(
        default=None, description="instead of address: the file written by dask scheduler --scheduler-file"
    )
    tls: Tls | None = None
    hosts: Annotated[list[str], Field(min_length=2)] | None = Field(
        default=None, description="with kind: ssh, the host of the scheduler, then the hosts of the workers"
    )
    connect_timeout_s: Seconds | None = Field(
        default=None, description="time limit for a running scheduler to answer; default: 30 s, as in Dask"
    )
    wait_timeout_s: Seconds | None = Field(
        default=None,
        description="how long to wait for workers before the work begins with those available; default: without limit "
        "for a batch system, and no waiting for a running scheduler",
    )
    start_with: Annotated[int, Field(ge=0)] | None = Field(
        default=None,
        description="number of worker processes to wait for; default: n_workers, or adapt.minimum, or one for a "
        "running scheduler",
    )
    lost_timeout_s: Seconds | None = Field(
        default=None,
        description="how long a run that has lost all its workers waits for a new one before it stops and can be "
        "resumed; default: 300 s, and without limit for a batch system",
    )
    adapt: Adapt | None = Field(default=None, description="adapt the number of workers to the work; replaces n_workers")
    cores: Count | None = Field(default=None, description="threads per job or host; default: 1")
    processes: Count | None = Field(default=None, description="worker processes per job or host; default: cores")
    memory: Size | None = Field(
        default=None, description="memory requested per job; default: the limits of its workers plus 256 MiB"
    )
    walltime: Walltime | None = Field(default=None, description="time limit of a job: 02:00:00, 1-12:00:00")
    lifetime_s: Seconds | None = Field(
        default=None,
        description="time after which a worker hands over its data and ends; default: slightly less than walltime",
    )
    queue: str | None = Field(default=None, description="queue or partition")
    account: str | None = Field(default=None, description="account or project to charge")
    resource_spec: str | None = Field(default=None, description="for pbs, sge and oar, instead of cores and memory")
    prologue: list[str] | None = Field(
        default=None, description="lines of the job script before the worker starts: module load, source activate"
    )
    directives: list[str] | None = Field(default=None, description="further options of the batch system")
    python: str | None = Field(default=None, description="Python interpreter on the nodes; default: this one")
    interface: str | None = Field(default=None, description="network interface of scheduler and workers, e.g. ib0")
    log_directory: Annotated[str | None, PATH] = Field(
        default=None, description="folder of job logs, on a file system shared by all nodes; default: <output>.jobs"
    )
    config_name: str | None = Field(default=None, description="section of jobqueue.yaml; default: the kind")
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
        """Return the job options, for workers that are jobs; `log_directory` is the default folder of job logs."""
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
        """Return the arguments of `open_cluster`; `log_directory` is the default folder of job logs."""
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
        """Whether the work runs in worker processes."""
        return self.kind not in ("none", "threads")

    @property
    def threads_of_worker(self) -> int:
        """Number of threads of each worker process, if known."""
        if self.kind in JOB_QUEUES:
            return self.jobs().threads_of_worker
        return (self.cores or 1) // (self.processes or self.cores or 1)

    @property
    def limits_nbytes(self) -> dict[str, int]:
        """Memory limits in bytes of the client process and of each worker process."""
        limit = parse_bytes(self.memory_limit)
        if not self.has_workers:
            return {"client": limit}
        client = max(limit, 2**30) if self.client_memory_limit is None else parse_bytes(self.client_memory_limit)
        return {"client": client, "worker": limit}


@dataclass(frozen=True)
class Written:
    """The pipeline as written by the user, before environment variables were expanded. Not compared for equality."""

    document: Any = field(compare=False)


class Kept(Section):
    """Checkpoint of a run, from which an interrupted run continues."""

    path: Annotated[str | None, PATH] = Field(
        default=None, description="folder for the checkpoint; default: the run's own folder"
    )
    max_size: Size = Field(
        default="4GiB",
        description="maximum size of the checkpoint; later results are not saved and are computed again on resume",
    )

    @property
    def place(self) -> dict[str, Any]:
        """Arguments of `daskfs.pipeline.folder.RunFolder`."""
        kept_in = None if self.path is None else Path(self.path)
        return {"kept_in": kept_in, "max_nbytes": parse_bytes(self.max_size)}


class Pipeline(Section):
    """A pipeline file, version 1."""

    version: Literal[1]
    name: Annotated[str, AfterValidator(lambda name: check_name(name, "name"))] = Field(pattern=r"^[\w.-]+$")
    source: Source | None = Field(default=None, description="optional if the store already exists")
    store: StoreOrNone = Field(
        default=Store(),
        description="the feature store; none: mission learns from a sparse source while reading it, and every method "
        "reads genotypes directly from their files (the default for genotypes)",
    )
    split: Split | None = Split()
    select: Select
    features: AnyFeatures | None = Field(
        default=None, description="feature map or groups to select from; default: single columns, or per selection"
    )
    stability: StabilitySection | None = Field(
        default=None, description="stability selection: select features chosen on most random halves of the rows"
    )
    knockoffs: KnockoffsSection | None = Field(
        default=None, description="knockoff filter: select features that outperform their knockoffs"
    )
    split_inference: InferenceSection | None = Field(
        default=None, description="select on some rows, and compute intervals of the coefficients on the others"
    )
    refit: Refit = Refit()
    evaluate: Evaluate = Evaluate()
    clumps: Clumps | None = Field(
        default=Clumps(),
        description="of genotypes, the variants that are correlated with the selected ones; null: only marginal tests",
    )
    cluster: Cluster = Cluster()
    checkpoint: Kept = Kept()
    output: Annotated[str | None, PATH] = Field(
        default=None, description="default: runs/<name> beside the pipeline file"
    )
    storage_options: dict[str, str | int | bool] | None = Field(
        default=None,
        description="options of s3://, gs:// and az:// URLs, named as in obstore (endpoint, region ...); without them "
        "each process, including workers, uses its own environment",
    )
    _written: Written = PrivateAttr(default_factory=lambda: Written({}))
    _n_targets: int = PrivateAttr(default=1)  # of the pipelines that are run together

    @model_validator(mode="after")
    def _former_names_of_metrics(self) -> Pipeline:
        if self.source is None or not find_source(self.source.kind).knows_true_features or not self.evaluate.metrics:
            return self
        former = [name for name in self.evaluate.metrics if f"selection_{name}" in SELECTION_METRICS]
        for name in former:
            said = f"evaluate.metrics: {name} of the selected features is now called selection_{name}"
            warnings.warn(f"{said}; in future, {name} will be the metric of labels", FutureWarning, stacklevel=2)
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
                raise ValueError(f"select: duplicate label {label!r}; give each selection its own label")
            if same is not None:
                raise ValueError(
                    f"select: the labels {same!r} and {label!r} may name the same folder; change one of them"
                )
            seen[folded(label)] = label
        return self

    @model_validator(mode="after")
    def _about_each(self) -> Pipeline:
        sections = ("stability", "knockoffs", "split_inference")
        named = [name for name in sections if getattr(self, name) is not None]
        if len(named) > 1:
            raise ValueError(
                f"expected stability, knockoffs or split_inference, found {' and '.join(named)}; keep one of them"
            )
        about = getattr(self, named[0]) if named else None
        if about is not None and self.is_stream:
            raise ValueError(f"{named[0]} reads rows more than once, but store: none reads them once; make a store")
        groups = self.split.groups if self.split is not None else None
        if groups is not None and getattr(about, "groups", "") is None and getattr(about, "subsamples", "") != "own":
            about.groups = groups  # type: ignore[union-attr]
        for selection in self._listed():
            selection._meta = about
        return self

    @model_validator(mode="after")
    def _metrics_for_each(self) -> Pipeline:
        for label, selection in self.selections.items():
            loss = LOSSES.get(getattr(selection, "loss", selection.selector.loss))  # None: the target determines it
            if loss is not None and not self.evaluate.metrics_of(loss):
                wanted = " or ".join(loss.default_metrics)
                raise ValueError(f"evaluate.metrics: none applies to {label} (loss {loss.name}); add {wanted}")
        return self

    def _listed(self) -> list[Selection]:
        return self.select if isinstance(self.select, list) else [self.select]

    def _labels(self) -> list[str]:
        """Return the labels. A selection without a label gets the method's name, with a number if there are several."""
        listed = self._listed()
        if len(listed) == 1:
            return [listed[0].label or listed[0].method]
        return [selection.label or f"{selection.method}-{k + 1}" for k, selection in enumerate(listed)]

    @property
    def selections(self) -> dict[str, Selection]:
        """The selections to run, by label."""
        return dict(zip(self._labels(), self._listed(), strict=True))

    def make_selector(self, label: str, memory_limit: int) -> Any:
        """Return the selector of a selection, with a memory limit in bytes for one task."""
        made = self.selections[label].make_selector(memory_limit)
        made.fits_in_step = self._n_targets
        return made

    @property
    def n_targets(self) -> int:
        """Number of pipelines with other targets that are run together, this one included."""
        return self._n_targets

    @property
    def of_each_target(self) -> list[Pipeline]:
        """This pipeline for each of its targets: of genotypes that are read in place, else the pipeline itself.

        Raises
        ------
        ConfigError
            Two targets have the same folder.
        """
        targets = getattr(self.source, "target", None)
        if self.source is None or not self.is_in_place or not isinstance(targets, list) or len(targets) < 2:
            return [self]
        found = dict[str, Pipeline]()
        for target in targets:
            folder = re.sub(r"[^\w-]", "_", target)  # no dots: ".." is another folder
            if folder in found:
                problem = f"expected a folder for each target, found two with the folder {folder!r}"
                raise ConfigError(problem, "source.target", "leave out one of them")
            source = self.source.model_copy(update={"target": target})
            changed = {"source": source, "output": str(self.output_path / folder), "name": f"{self.name}-{folder}"}
            found[folder] = self.model_copy(update=changed)
            found[folder]._n_targets = len(targets)
        return [*found.values()]

    @property
    def is_stream(self) -> bool:
        """Whether the method learns from the source row by row while reading it, without a store."""
        return not self.has_store and not self.is_in_place

    @property
    def is_in_place(self) -> bool:
        """Whether rows and columns are read directly from the source's files, without a store."""
        return not self.has_store and self.source is not None and find_source(self.source.kind).is_read_in_place

    @property
    def has_store(self) -> bool:
        """Whether there is a feature store."""
        return isinstance(self.store, Store)

    @property
    def stored(self) -> Store:
        """The `store` section of a pipeline that has a store."""
        return self.store if isinstance(self.store, Store) else Store()

    @property
    def store_path(self) -> Location:
        """Path or URL of the feature store."""
        return location(self.stored.path or "", self.storage_options)

    @property
    def has_stored(self) -> bool:
        """Whether the feature store exists and is finished."""
        return self.has_store and is_finished(self.store_path)

    @property
    def output_path(self) -> Path:
        """Path of the run folder."""
        return Path(self.output or "")

    @property
    def cluster_arguments(self) -> dict[str, Any]:
        """Arguments of `daskfs.cluster.open.open_cluster`."""
        return self.cluster.arguments(f"{self.output_path}.jobs")

    @property
    def cluster_jobs(self) -> JobOptions:
        """The job options for workers that are jobs, with secrets hidden as in `to_document`."""
        jobs, shown = self.cluster.jobs(f"{self.output_path}.jobs"), self.to_document()["cluster"]
        return replace(jobs, **{key: shown[key] for key in _TEXTS_OF_JOBS if shown[key] is not None})

    def to_document(self) -> dict[str, Any]:
        """Return the resolved pipeline as plain mappings, as saved in pipeline.yaml of a run.

        Values from ``${NAME}`` are kept as written; passwords and signatures are hidden.
        """
        found: dict[str, Any] = as_written(self.model_dump(mode="json"), self._written.document)
        return found


def load_pipeline(path: str | os.PathLike[str], overrides: Iterable[str] = ()) -> Pipeline:
    """Read and check a pipeline file.

    Parameters
    ----------
    path : path-like
    overrides : iterable of str
        ``key.path=value``, applied first; the value is read as YAML. A number in the key path is an index of a
        list: ``select.0.n_subsets=20``.

    Returns
    -------
    Pipeline
        With absolute paths and expanded variables.

    Raises
    ------
    ConfigError
        The file is invalid. The message has one line per place.
    """
    path = Path(path)
    document = read_yaml(path)
    for override in overrides:
        apply_override(document, override)
    return build_pipeline(document, str(path), path.resolve().parent)


def build_pipeline(document: dict[str, Any], where: str, folder: Path) -> Pipeline:
    """Check a mapping and return it as a pipeline. Paths are relative to `folder`; `where` names it in messages."""
    pipeline = check_document(Pipeline, expand_environment(document, where), where)
    pipeline._written = Written(written_paths(pipeline, document, where, folder))
    if pipeline.source is not None:
        are_genotypes = find_source(pipeline.source.kind).is_read_in_place
        if are_genotypes and "store" not in pipeline.model_fields_set:
            pipeline.store = "none"
        if not are_genotypes and pipeline.clumps not in (None, Clumps()):
            problem = f"a {pipeline.source.kind} source has no variants, so these options have no effect"
            raise ConfigError(problem, f"{where}: clumps", "leave it out")
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
        problem = f"expected a source or a store at {pipeline.store_path}, found neither"
        raise ConfigError(problem, f"{where}: source", "add the source or fix store.path")
    return pipeline


def written_paths(section: Section, written: dict[str, Any], where: str, folder: Path) -> dict[str, Any]:
    """Return a section as written, with relative paths that contain ``${NAME}`` anchored to `folder`."""
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
    """Set the parameter that `features` stands for in every selection."""
    name, value = features.parameter
    for label, selection in pipeline.selections.items():
        if name not in type(selection).model_fields:
            problem = f"{selection.method} has no parameter {name}, which features sets"
            raise ConfigError(problem, f"{where}: select ({label})", "leave features out, or use method: fgm")
        if getattr(selection, name) not in (None, value):
            problem = f"expected features or select.{name}, found both"
            raise ConfigError(problem, f"{where}: features", "leave one out")
        setattr(selection, name, value)


def _keep_apart(pipeline: Pipeline, where: str) -> None:
    """Refuse a run folder inside the store or the reverse, because each is renamed when it is finished."""
    store, output = pipeline.store_path, pipeline.output_path
    if not isinstance(store, Path):
        return
    if store == output or store in output.parents or output in store.parents:
        problem = f"expected a run folder outside the store, found {output} and {store}"
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
        problem = f"expected an index below {len(node)} of the list {above}, found {key!r}"
        raise ConfigError(problem, place, f"--set {above}.0...=value")
    raise ConfigError(f"{above} is {node!r}, which has no key {key!r}", place, f"--set {above}=...")
