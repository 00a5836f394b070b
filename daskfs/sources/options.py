"""Options of a source in a pipeline file; each class in `daskfs.sources.registry` has its own."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Discriminator, Field, Tag

from daskfs import errors
from daskfs.documents import Section

ConfigError = errors.ConfigError.about("formats")

Interactions: TypeAlias = Annotated[
    Annotated[Literal["all"], Tag("word")]
    | Annotated[list[Annotated[list[str], Field(min_length=2, max_length=2)]], Field(min_length=1), Tag("list")],
    Discriminator(lambda value: "word" if isinstance(value, str) else "list"),
]


class SourceOptions(Section):
    """Base class: fields are named like the constructor's parameters; the docstring is the schema's description."""

    kind: str


class SparseOptions(SourceOptions):
    """Base class for sources of sparse rows: adds the interactions of `daskfs.sources.sparse.pairs`."""

    interactions: Interactions | None = Field(
        default=None, description="add products of pairs of features: all, or [[namespace, namespace], ...]"
    )


def check_choices(**options: tuple[Any, tuple[Any, ...]]) -> None:
    """Check options, given as (value, allowed values) by name.

    Raises
    ------
    ConfigError
    """
    for name, (value, allowed) in options.items():
        if value not in allowed:
            raise ConfigError(f"expected one of {allowed}, found {value!r}", f"source.{name}")
