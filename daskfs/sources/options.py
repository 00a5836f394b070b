"""Options of a source in a pipeline file: each class of `daskfs.sources.registry` has its own beside it."""

from __future__ import annotations

from daskfs.documents import Section


class SourceOptions(Section):
    """Base: the fields are named as the constructor's parameters, the docstring is what the schema says of the kind."""

    kind: str
