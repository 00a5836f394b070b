"""A pipeline with several targets of genotypes: one run for each, which share passes over the files.

Each run is that of the same pipeline with one target, in a folder of its own with the name of the target. The first of
them computes the steps of all selections that can share passes (`daskfs.selectors.shared.ahead`); the others find the
results in their checkpoints.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from daskfs.cluster.workers import Workers
from daskfs.errors import DaskfsError
from daskfs.matrix.base import Matrix
from daskfs.pipeline.checks import check_losses, check_pipeline
from daskfs.pipeline.config import Pipeline
from daskfs.pipeline.folder import UNFINISHED, check_output
from daskfs.selectors.shared.ahead import compute_ahead
from daskfs.selectors.shared.run import Checkpoint
from daskfs.watching.base import Progress


@dataclass
class Together:
    """Runs of the same pipeline with different targets, and what was computed for them together."""

    pipelines: Sequence[Pipeline]
    found: dict[tuple[str, str], InMemory] = field(default_factory=dict)

    def others(self, pipeline: Pipeline) -> list[Pipeline]:
        """Return the pipelines for which this one computes something: none if an earlier one has done so."""
        return [] if self.found else [one for one in self.pipelines if one is not pipeline]

    def compute(
        self,
        pipeline: Pipeline,
        label: str,
        checkpoint: Checkpoint,
        train: Matrix,
        workers: Workers,
        progress: Progress,
        memory_limit: int,
    ) -> None:
        """Put into a checkpoint what a selection can share; the first call computes it for all pipelines."""
        key = str(pipeline.output_path), label
        if key in self.found:
            for name, arrays in self.found.pop(key).arrays.items():
                checkpoint.save(name, arrays)
            return
        own, waiting = pipeline.make_selector(label, memory_limit).prepared(train, workers, checkpoint, progress)
        for one in self.pipelines:
            if one is not pipeline:
                kept = self.found[str(one.output_path), label] = InMemory()
                rows: Any = training_rows(one)
                try:
                    waiting += one.make_selector(label, memory_limit).prepared(rows, workers, kept, None)[1]
                except DaskfsError as fault:
                    fault.add_note(f"in the run of {one.output_path.name}, which shares passes with this one")
                    raise
                rows.base.forget()
        with own:
            compute_ahead(own, waiting)


@dataclass
class InMemory:
    """A checkpoint in memory."""

    arrays: dict[str, dict[str, np.ndarray]] = field(default_factory=dict)

    def load(self, name: str) -> dict[str, np.ndarray] | None:
        """Return the arrays saved under a name, or None."""
        return self.arrays.get(name)

    def save(self, name: str, arrays: dict[str, np.ndarray]) -> None:
        """Save arrays under a name."""
        self.arrays[name] = arrays


def training_rows(pipeline: Pipeline) -> Matrix:
    """Return the training rows of genotypes that are read in place."""
    source: Any = check_pipeline(pipeline)
    matrix: Matrix = source.as_matrix()
    split = pipeline.split
    if split is None:
        return matrix
    return matrix.split(split.test, by=split.by, random_state=split.random_state, groups=split.groups)[0]


def waiting_runs(pipelines: Sequence[Pipeline], resume: bool, force: bool) -> list[tuple[Pipeline, bool]]:
    """Return the pipelines that are still to be run, and whether each continues an interrupted run.

    Raises
    ------
    DaskfsError
        A pipeline does not fit the data, or its folder exists.
    """
    found = []
    for one in pipelines:
        is_unfinished = Path(f"{one.output_path}{UNFINISHED}").exists()
        if resume and one.output_path.exists() and not is_unfinished:
            continue
        try:
            source = check_pipeline(one)
            if source is not None and len(pipelines) > 1:
                check_losses(one, source.estimate_target())
        except DaskfsError as fault:
            if len(pipelines) > 1:
                fault.add_note(f"in the run of {one.output_path.name}")
            raise
        if not (resume and is_unfinished):
            check_output(one.output_path, force=force)
        found.append((one, resume and is_unfinished))
    return found
