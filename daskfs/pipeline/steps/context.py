"""What the steps of a run share."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from daskfs.pipeline.config import Pipeline
from daskfs.pipeline.folder import RunFolder
from daskfs.sources.base import Source
from daskfs.store.feature_store import FeatureStore
from daskfs.watching.watch import Watch

if TYPE_CHECKING:
    from daskfs.applied.model import Model
    from daskfs.pipeline.several import Together
    from daskfs.sources.genotype_matrix import GenotypeMatrix

Stored: TypeAlias = "FeatureStore | GenotypeMatrix"
"""Source of the rows of a run."""


@dataclass
class Context:
    """What the steps of a run share.

    Parameters
    ----------
    pipeline : Pipeline
    folder : RunFolder
    watch : Watch
        Receiver of progress, times and messages.
    source : Source or None
        The open source; None if there is only a store.
    """

    pipeline: Pipeline
    folder: RunFolder
    watch: Watch
    source: Source | None
    together: Together | None = None
    """Runs for other targets, with which some steps are computed."""
    models: dict[str, Model] = field(default_factory=dict)
    """The saved model of each selection, by label."""
    ingest_seconds: float = 0.0
    ingest_memory: dict[str, int] = field(default_factory=dict)
    """Peak memory of processes that ended after the ingest, by process."""

    def tell(self, line: str) -> None:
        """Show a message, and write it to the log."""
        self.watch.say(line)
        self.watch.tell(line)
