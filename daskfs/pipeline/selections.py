"""The entries of `select` in a pipeline file: a section for each method, generated from its declared parameters.

The class of a method is imported, and its section made, when a file names the method. The JSON Schema has all sections.
"""

from __future__ import annotations

from functools import cache
from typing import Annotated, Any, ClassVar, Literal, TypeAlias, TypeVar, Union, get_args, get_origin

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    PrivateAttr,
    SerializeAsAny,
    Tag,
    create_model,
    model_validator,
)
from typing_extensions import is_typeddict

from daskfs.documents import ByPlace, ByTag, Section
from daskfs.errors import ConfigError
from daskfs.losses import LOSSES, TargetKind, check_loss
from daskfs.methods import METHODS, MODEL_SELECTION, find_method, load
from daskfs.parameters import LossOf, Parameter, Parameters, new_names, parameters_of
from daskfs.pipeline.folder import check_name

SectionT = TypeVar("SectionT", bound=Section)
Seed: TypeAlias = Annotated[int, Field(ge=0)]


class MetaSection(Section):
    """Section of a meta-estimator, which wraps every selection: its parameters except the nested selector."""

    model_config = ConfigDict(allow_inf_nan=False)
    selector: ClassVar[Any]
    """The class of the meta-estimator."""


class Selection(Section):
    """An entry of `select`."""

    model_config = ConfigDict(allow_inf_nan=False)
    selector: ClassVar[Any]
    """The class of the method."""

    method: str
    label: Annotated[str, AfterValidator(lambda label: check_name(label, "label"))] | None = Field(
        default=None, pattern=r"^[\w.=+-]+$", description="name of this selection in the report"
    )

    _meta: MetaSection | None = PrivateAttr(default=None)
    """Meta-estimator that wraps this selection."""

    def loss_for(self, kind: TargetKind) -> str:
        """Return the loss for a kind of target: the named loss, or the one that the target determines.

        Raises
        ------
        ConfigError
            The method does not support such a target, or not with this loss.
        """
        named: str = getattr(self, "loss", self.selector.loss)
        parameter = parameters_of(self.selector).get("loss")
        if parameter is None or not isinstance(parameter.kinds[0], LossOf):
            return named
        return parameter.kinds[0].of(self.method, named, kind)

    def make_selector(self, memory_limit: int) -> Any:
        """Return the selector, with a memory limit in bytes for one task."""
        made = self.selector(**self.model_dump(exclude={"method", "label"}), memory_limit=memory_limit)
        if self._meta is None:
            return made
        return self._meta.selector(selector=made, **self._meta.model_dump(), memory_limit=memory_limit)

    @model_validator(mode="before")
    @classmethod
    def _with_new_names(cls, given: Any) -> Any:
        return new_names(cls.selector, given) if isinstance(given, dict) else given


@cache
def section_of(method: str) -> type[Selection]:
    """Return the model of a method's entry: its parameters with types, default values and descriptions.

    Raises
    ------
    ConfigError
        The method does not exist.
    """
    selector = find_method(method)
    made = declared_section(f"{selector.__name__}Select", Selection, selector, method=Literal[method])
    made.selector = selector
    return made


@cache
def section_of_meta(name: str) -> type[MetaSection]:
    """Return the model of a meta-estimator's section."""
    selector = load(MODEL_SELECTION[name])
    made = declared_section(f"{selector.__name__}Section", MetaSection, selector)
    made.selector = selector
    return made


def declared_section(name: str, base: type[SectionT], cls: type[Parameters], **named: Any) -> type[SectionT]:
    """Return a section with the parameters that a class declares, their default values and descriptions.

    `named` has further keys, with their types.
    """
    fields: dict[str, Any] = {key: (hint, ...) for key, hint in named.items()}
    for parameter in parameters_of(cls).values():
        if parameter.in_yaml is not None:
            meaning = Field(default=parameter.default, description=_first_sentence(parameter.meaning))
            fields[parameter.name] = (_with_tags(parameter), meaning)
    doc = f"{_first_sentence(cls.__doc__ or '')} (`{cls.__module__}.{cls.__name__}`)"
    return create_model(name, __base__=base, __module__=__name__, __doc__=doc, **fields)


def _first_sentence(text: str) -> str:
    """Return the first sentence of a paragraph, on one line."""
    paragraph = " ".join(text.partition("\n\n")[0].split())
    end = paragraph.find(". ")
    return paragraph[: end + 1] if end >= 0 else paragraph


def _with_tags(parameter: Parameter) -> Any:
    """Return the type of a parameter. For several types, tags make pydantic report errors only of the intended one."""
    if isinstance(parameter.kinds[0], LossOf):
        return Annotated[parameter.in_yaml, BeforeValidator(_known_loss(parameter.kinds[0]))]
    types = [kind.in_yaml for kind in parameter.kinds if kind.in_yaml is not None]
    if len(types) == 1:
        return parameter.in_yaml
    tags = tuple(Annotated[item, Tag(_tag_of_type(item))] for item in types)
    tagged: Any = Annotated[Union[tags], Discriminator(_tag_of_value)]  # type: ignore[valid-type]  # noqa: UP007
    return tagged | None if parameter.may_be_none else tagged


def _tag_of_type(item: Any) -> str:
    base = get_args(item)[0] if get_origin(item) is Annotated else item
    if is_typeddict(base):
        return "mapping"
    return {Literal: "word", list: "list", dict: "mapping"}.get(get_origin(base), "number")  # type: ignore[call-overload]


def _tag_of_value(value: Any) -> str:
    kinds = {str: "word", list: "list", dict: "mapping"}
    return next((tag for kind, tag in kinds.items() if isinstance(value, kind)), "number")


def _known_loss(kind: LossOf) -> Any:
    """Return a validator that explains why this method does not support a loss of other methods."""

    def check(value: Any) -> Any:
        if isinstance(value, str) and value in LOSSES:
            try:
                check_loss("this method", value, kind.requires, kind.among)
            except ConfigError as fault:
                raise ValueError(f"{fault.problem}; {fault.remedy}") from None
        return value

    return check


StabilitySection: TypeAlias = Annotated[SerializeAsAny[MetaSection], ByPlace("stability", section_of_meta)]
KnockoffsSection: TypeAlias = Annotated[SerializeAsAny[MetaSection], ByPlace("knockoffs", section_of_meta)]
InferenceSection: TypeAlias = Annotated[SerializeAsAny[MetaSection], ByPlace("split_inference", section_of_meta)]
AnySelection: TypeAlias = Annotated[Selection, ByTag("method", METHODS, section_of)]


def key_of_n_features(method: str) -> str:
    """Return the parameter that sets the number of features a method selects."""
    return "n_features_to_select" if "n_features_to_select" in parameters_of(find_method(method)) else "max_features"
