"""`stability` and `knockoffs` of a pipeline file: selectors that every selection of it is given to."""

from __future__ import annotations

from functools import cache
from typing import Annotated, Any, ClassVar, TypeAlias

from pydantic import SerializeAsAny, create_model

from daskfs.documents import ByPlace, Section
from daskfs.methods import MODEL_SELECTION, load
from daskfs.parameters import parameters_of
from daskfs.pipeline.selections import described_field


class About(Section):
    """What a selector about a selector declares, but the selector inside."""

    selector: ClassVar[Any]
    """The class."""

    def around(self, inside: Any, memory_limit: int, *, to_plan: bool = False) -> Any:
        """Return the selector about another one; or one that plans, without scikit-learn."""
        make = self.selector.to_plan_with if to_plan else self.selector
        return make(selector=inside, **self.model_dump(), memory_limit=memory_limit)


@cache
def section_about(name: str) -> type[About]:
    """Return the model of a section: the parameters that its class declares."""
    cls = load(MODEL_SELECTION[name])
    fields: dict[str, Any] = {
        parameter.name: described_field(parameter)
        for parameter in parameters_of(cls).values()
        if parameter.in_yaml is not None
    }
    model = create_model(f"{cls.__name__}Section", __base__=About, **fields)
    model.selector = cls
    return model


Stability: TypeAlias = Annotated[SerializeAsAny[About], ByPlace("stability", section_about)]
Knockoffs: TypeAlias = Annotated[SerializeAsAny[About], ByPlace("knockoffs", section_about)]
