"""A sparse source made of another source."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, Generic, Self, TypeVar

from daskfs.losses import TargetKind
from daskfs.sources.base import Source
from daskfs.sources.sparse.base import SparseSource

SourceT = TypeVar("SourceT", bound=Source)


class OverSource(SparseSource, Generic[SourceT]):
    """Rows made of those of another source, one by one: what these have beside their features is as it was.

    Parameters
    ----------
    source : Source
    """

    features_are_ids = True
    feature_names: list[str] = []  # noqa: RUF012 - ids have no list

    def __init__(self, source: SourceT) -> None:
        self.source = source

    def __copy__(self) -> Self:
        """Return a source that notes by itself what it has read."""
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__, source=copy.copy(self.source))
        return other

    def check(self) -> None:
        """Check the source."""
        self.source.check()

    def stamps(self) -> list[Any]:
        """Return those of the source."""
        return self.source.stamps()

    def leave_off(self) -> None:
        """Have the source return that waits for more rows."""
        self.source.leave_off()

    def tell(self, notes: Sequence[str]) -> None:
        """Add notes to those of the source."""
        self.source.tell(notes)

    @property
    def kind(self) -> str:  # type: ignore[override]
        """That of the source."""
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
        """Number of rows, where it is known."""
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
        """Those of the source."""
        return self.source.notes

    @property
    def missing(self) -> Sequence[dict[str, Any]]:  # type: ignore[override]
        """Those of the source."""
        return self.source.missing

    @property
    def suspicions(self) -> Sequence[str]:  # type: ignore[override]
        """Those of the source."""
        return self.source.suspicions

    def describe(self) -> dict[str, Any]:
        """Return what identifies the source."""
        return self.source.describe()

    def digest(self) -> str:
        """Return the digest of the source's content."""
        return self.source.digest()

    def is_unchanged(self, description: dict[str, Any], digest: str) -> bool:
        """Tell whether the content is the same."""
        return self.source.is_unchanged(description, digest)

    def estimate_target(self) -> TargetKind:
        """Return what the target is taken for."""
        return self.source.estimate_target()

    @property
    def has_parts(self) -> bool:
        """Whether there are parts."""
        return self.source.has_parts

    def parts(self) -> Sequence[Any]:
        """Return the parts of the source."""
        return self.source.parts()

    def part_facts(self) -> Any:
        """Return what the source has noted."""
        return self.source.part_facts()

    def conclude(self, facts: Sequence[Any], n_samples: int) -> None:
        """Take what reading all parts has shown."""
        self.source.conclude(facts, n_samples)
