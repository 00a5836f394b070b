"""What every entry of `select` may be told, and the types of its values."""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

from pydantic import ConfigDict, Field

from daskfs.documents import Document

Count: TypeAlias = Annotated[int, Field(ge=1)]
Seed: TypeAlias = Annotated[int, Field(ge=0)]
Positive: TypeAlias = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Share: TypeAlias = Annotated[float, Field(ge=0, le=1)]


def one_or_list(value: Any) -> str:
    """Return the tag of a value that may stand alone or in a list."""
    return "list" if isinstance(value, list) else "one"


class Section(Document):
    """A part of a pipeline file."""

    model_config = ConfigDict(serialize_by_alias=True, validate_by_alias=True, validate_by_name=False)


class MethodSection(Section):
    """An entry of `select`; a subclass adds ``method: Literal[...]`` and the method's parameters by their names."""

    label: str | None = Field(default=None, pattern=r"^[\w.=+-]+$", description="name of this selection in the report")
    random_state: Seed = 0
