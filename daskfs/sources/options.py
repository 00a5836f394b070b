"""Options of a source in a pipeline file: each class of `daskfs.sources.registry` has its own beside it."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Discriminator, Field, Tag

from daskfs.documents import Section
from daskfs.errors import ConfigError

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


def check_choices(**options: tuple[Any, tuple[Any, ...]]) -> None:
    """Check options, of each of which the value is given and what it may be.

    Raises
    ------
    ConfigError
    """
    for name, (value, allowed) in options.items():
        if value not in allowed:
            raise ConfigError(f"expected one of {allowed}, found {value!r}", f"source.{name}")
