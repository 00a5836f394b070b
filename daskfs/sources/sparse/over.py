"""A sparse source that transforms the rows of another source."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, Generic, Self, TypeVar

from daskfs.cluster.workers import Workers
from daskfs.losses import TargetKind
from daskfs.sources.base import Source
from daskfs.sources.sparse.base import SparseSource

SourceT = TypeVar("SourceT", bound=Source)


class OverSource(SparseSource, Generic[SourceT]):
    """Transforms the rows of another source one by one; targets, weights and labels stay as they are.

    Parameters
    ----------
    source : Source
    """

    features_are_ids = True
    feature_names: list[str] = []  # noqa: RUF012 - ids have no list

    def __init__(self, source: SourceT) -> None:
        self.source = source

    def __copy__(self) -> Self:
        """Return a copy with its own notes."""
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__, source=copy.copy(self.source))
        return other

    def check(self) -> None:
        """Check the source."""
        self.source.check()

    def stamps(self) -> list[Any]:
        """Return the stamps of the source."""
        return self.source.stamps()

    def learn(self, workers: Workers) -> None:
        """Learn what the source needs."""
        self.source.learn(workers)

    def leave_off(self) -> None:
        """Cancel reading the source."""
        self.source.leave_off()

    def tell(self, notes: Sequence[str]) -> None:
        """Append notes to those of the source."""
        self.source.tell(notes)

    @property
    def kind(self) -> str:  # type: ignore[override]
        """Kind of the source."""
        return self.source.kind

    @property
    def exchangeable(self) -> bool:  # type: ignore[override]
        """Whether rows are in random order."""
        return self.source.exchangeable

    @property
    def has_weight(self) -> bool:  # type: ignore[override]
        """Whether rows have weights."""
        return self.source.has_weight

    @property
    def n_samples(self) -> int | None:  # type: ignore[override]
        """Number of rows, if known."""
        return self.source.n_samples

    @property
    def target_names(self) -> Sequence[str]:  # type: ignore[override]
        """Names of the targets."""
        return self.source.target_names

    @property
    def label_names(self) -> Sequence[str]:  # type: ignore[override]
        """Names of label columns."""
        return self.source.label_names

    @property
    def target_classes(self) -> list[str] | None:
        """Texts of the classes."""
        return self.source.target_classes

    @property
    def notes(self) -> list[str]:  # type: ignore[override]
        """Notes of the source."""
        return self.source.notes

    @property
    def missing(self) -> Sequence[dict[str, Any]]:  # type: ignore[override]
        """Missing values of the source."""
        return self.source.missing

    @property
    def suspicions(self) -> Sequence[str]:  # type: ignore[override]
        """Suspicions of the source."""
        return self.source.suspicions

    def describe(self) -> dict[str, Any]:
        """Return what identifies the source."""
        return self.source.describe()

    def digest(self) -> str:
        """Return the digest of the source's content."""
        return self.source.digest()

    def is_unchanged(self, description: dict[str, Any], digest: str) -> bool:
        """Return whether the content is unchanged."""
        return self.source.is_unchanged(description, digest)

    def estimate_target(self) -> TargetKind:
        """Return the inferred kind of target."""
        return self.source.estimate_target()

    @property
    def has_parts(self) -> bool:
        """Whether the source has parts."""
        return self.source.has_parts

    def parts(self) -> Sequence[Any]:
        """Return the parts of the source."""
        return self.source.parts()

    def part_facts(self) -> Any:
        """Return what the source has learnt from reading a part."""
        return self.source.part_facts()

    def conclude(self, facts: Sequence[Any], n_samples: int) -> None:
        """Combine the facts from all parts."""
        self.source.conclude(facts, n_samples)
