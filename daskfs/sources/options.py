"""What a pipeline file may say of a source: each class of `daskfs.sources.registry` declares it beside itself."""

from __future__ import annotations

from daskfs.documents import Section


class SourceOptions(Section):
    """Base: the fields are named as the constructor's parameters, the docstring is what the schema says of the kind."""

    kind: str
