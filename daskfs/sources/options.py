"""Options of a source in a pipeline file: each class of `daskfs.sources.registry` has its own beside it."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import Discriminator, Field, Tag

from daskfs.documents import Section

Interactions: TypeAlias = Annotated[
    Annotated[Literal["all"], Tag("word")]
    | Annotated[list[Annotated[list[str], Field(min_length=2, max_length=2)]], Field(min_length=1), Tag("list")],
    Discriminator(lambda value: "word" if isinstance(value, str) else "list"),
]


class SourceOptions(Section):
    """Base: the fields are named as the constructor's parameters, the docstring is what the schema says of the kind."""

    kind: str


class SparseOptions(SourceOptions):
    """Base of those whose rows are entries: what `daskfs.sources.sparse.pairs` adds to any of them."""

    interactions: Interactions | None = Field(
        default=None, description="pairs of features of a row: all, or [[namespace, namespace], ...]"
    )
