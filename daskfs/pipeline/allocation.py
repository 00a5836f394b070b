"""Run a pipeline whose scheduler, client and workers are the tasks of one allocation: `daskfs.cluster.allocation`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from daskfs.cluster.allocation import Allocated, led, serve
from daskfs.cluster.open import parse_bytes
from daskfs.pipeline.config import Cluster, Pipeline


@contextmanager
def in_allocation(pipeline: Pipeline, runner: str | None) -> Iterator[Pipeline | None]:
    """Yield the pipeline in the client task, with the cluster of the other tasks; those serve and then yield None.

    Without a runner the pipeline is unchanged. The memory limits and waiting time of its own cluster are kept.
    """
    if runner is None:
        yield pipeline
        return
    task, cluster = Allocated.of(runner), pipeline.cluster
    folder = Path(cluster.log_directory or f"{pipeline.output_path}.jobs")
    if not task.is_client:
        serve(task, folder, parse_bytes(cluster.memory_limit), cluster.interface, cluster.local_directory)
        yield None
        return
    with led(task, folder) as found:
        section: dict[str, Any] = {
            "memory_limit": cluster.memory_limit,
            "wait_timeout_s": cluster.wait_timeout_s or 300.0,
        }
        if cluster.has_workers:
            section["client_memory_limit"] = cluster.limits_nbytes["client"]
        yield pipeline.model_copy(update={"cluster": Cluster.model_validate(section | found)})
