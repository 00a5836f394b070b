"""Declared parameters: an annotated class attribute with a default value declares a parameter of a selector.

    class Message(BaseSelector):
        gamma: Share = 0.5

This line defines the argument of the constructor, its check and error message, the key of a pipeline file and its entry
in the JSON Schema. The meaning of the parameter is documented only in the class's docstring. Ranges are declared with
`annotated_types`, which pydantic reads too (it is not imported here). The method `_check_combination` checks
combinations of parameters.

A subclass inherits the parameters of its bases. ``fixed={"patience": 3}`` fixes the value of one and removes it from
the constructor; ``renamed={"old": "new"}`` keeps an old name working.
"""

from __future__ import annotations

import inspect
import math
import operator
import re
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from numbers import Integral, Real
from types import MappingProxyType, NoneType, SimpleNamespace, UnionType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    ClassVar,
    Final,
    Literal,
    NamedTuple,
    Self,
    TypeAlias,
    Union,
    dataclass_transform,
    get_args,
    get_origin,
    get_type_hints,
)  # fmt: skip

from annotated_types import Ge, Gt, Le, Len, Lt
from typing_extensions import TypedDict  # before 3.12 pydantic takes no other

from daskfs.errors import ConfigError, did_you_mean
from daskfs.losses import (
    AUTO,
    Requirement,
    TargetKind,
    check_loss,
    check_loss_for,
    loss_for,
    losses_with,
)


@dataclass(frozen=True)
class Kind:
    """Allowed values of a parameter. ``Annotated[Any, Kind(...)]`` declares a type that Python has no name for."""

    doc: str
    """Type in a docstring."""
    accepts: Callable[[Any], bool] = lambda value: True
    expected: str = ""
    """Description of the expected values in an error message."""
    in_yaml: Any = None
    """Type for pydantic; None if the parameter cannot be written in a pipeline file."""
    words: tuple[str, ...] = ()
    """Allowed words, used to suggest one for a misspelt word."""


class LossOf:
    """Losses that meet all requirements and are in `among`, or "auto". ``Annotated[str, LossOf(LIKELIHOOD)]``.

    `daskfs.losses.loss_for` resolves "auto", with `prefers` and `several` as arguments.
    """

    expected, words = "", ()

    def __init__(
        self, *requires: Requirement, among: tuple[str, ...] | None = None, prefers: str = "", several: bool = False
    ) -> None:
        self.requires, self.among, self.prefers, self.several = requires, among, prefers, several

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the registered losses that are allowed."""
        return losses_with(self.requires, self.among)

    @property
    def by_target(self) -> dict[int, str]:
        """Losses that "auto" resolves to, by number of classes: numbers (0), two classes (2) and more (3)."""
        found = {}
        for n_classes in (0, 2, 3):
            with suppress(ConfigError):  # the method does not support such a target
                found[n_classes] = self.of("", AUTO, TargetKind(n_classes))
        return found

    @property
    def by_default(self) -> list[str]:
        """Losses that "auto" can resolve to, without duplicates."""
        return [*dict.fromkeys(self.by_target.values())]

    @property
    def doc(self) -> str:
        """Type in a docstring."""
        return _braces((AUTO, *self.names))

    @property
    def in_yaml(self) -> Any:
        """Type for pydantic."""
        return Literal[(AUTO, *self.names)]

    def accepts(self, value: Any) -> bool:
        """Return whether a value is an allowed name."""
        return isinstance(value, str) and (value == AUTO or value in self.names)

    def of(self, method: str, named: str, kind: TargetKind) -> str:
        """Return the loss of a fit: the named one, or the one that the target determines.

        Raises
        ------
        ConfigError
            The loss is for numbers but the target has declared classes, or the reverse, or the method does not support
            the target.
        """
        if named == AUTO:
            named = loss_for(method, kind, self.requires, self.among, self.prefers, self.several)
        check_loss_for(named, kind, self.requires, self.among)
        return named


def _is_power_of_two(value: Any) -> bool:
    return _is_whole(value) and 1 <= value <= 2**31 and value & (value - 1) == 0


CV: Final = "cv"
"""Value instead of a number of features: cross-validation chooses the number."""
Count: TypeAlias = Annotated[int, Ge(1)]
Positive: TypeAlias = Annotated[float, Gt(0)]
NotNegative: TypeAlias = Annotated[float, Ge(0)]
Share: TypeAlias = Annotated[float, Ge(0), Le(1)]
PositiveShare: TypeAlias = Annotated[float, Gt(0), Le(1)]
Tolerance: TypeAlias = Annotated[float, Ge(0), Lt(1)]
PowerOfTwo: TypeAlias = Annotated[int, Kind("int", _is_power_of_two, "a power of two of at most 2**31", Count)]
RandomState: TypeAlias = Annotated[Any, Kind("int, RandomState or None", in_yaml=Annotated[int, Ge(0)])]
MemoryLimit: TypeAlias = Annotated[int | str | None, Kind("int or str")]
RefitBy: TypeAlias = Literal["none", "ols", "ridge", "elastic"]
Client: TypeAlias = Annotated[Any, Kind("distributed.Client")]
TableSchemaGiven: TypeAlias = Annotated[Any, Kind('path, mapping, TableSchema, "judge" or None')]
Verbose: TypeAlias = Annotated[Any, Kind("bool", lambda value: isinstance(value, int), "True or False")]
Estimator: TypeAlias = Annotated[Any, Kind("scikit-learn estimator")]
Selector: TypeAlias = Annotated[Any, Kind("selector")]
_SIZES = Kind(
    "list of int",
    lambda value: not isinstance(value, str) and len(value) > 0 and all(_is_whole(size) and size > 0 for size in value),
    "whole numbers of at least 1",
    Annotated[list[Annotated[int, Ge(1)]], Len(min_length=1)],
)
Sizes: TypeAlias = Annotated[Any, _SIZES]
_FOLDS = Kind(
    "int or scikit-learn splitter",
    lambda value: (_is_whole(value) and value >= 2) or hasattr(value, "split"),
    "a whole number of at least 2, or a splitter of scikit-learn",
    Annotated[int, Ge(2)],
)
Folds: TypeAlias = Annotated[Any, _FOLDS]
RowGroups: TypeAlias = Annotated[Any, Kind("array of shape (n_samples,) or str", in_yaml=str)]
Text: TypeAlias = Annotated[str, Kind("str", lambda value: isinstance(value, str), "a name", str)]
Columns: TypeAlias = Annotated[Any, Kind("array of int or str", in_yaml=list[Annotated[int, Ge(0)] | str])]
_ORDER = Kind("array of int", lambda value: not isinstance(value, str), "column numbers", list[Annotated[int, Ge(0)]])
ColumnOrder: TypeAlias = Annotated[Any, _ORDER]
_WEIGHTS = Kind(
    "mapping of a class to its weight", lambda value: isinstance(value, Mapping), "a mapping of classes to weights",
    dict[float, float],
)  # fmt: skip
ClassWeights: TypeAlias = Annotated[Any, _WEIGHTS]


class Parameter(NamedTuple):
    """One parameter of a class."""

    name: str
    default: Any
    kinds: tuple[Kind | LossOf, ...]
    """The alternatives of its type, besides None."""
    may_be_none: bool
    meaning: str
    """Description from the docstring, in reStructuredText."""

    @property
    def doc(self) -> str:
        """Type as written in a docstring: ``int, optional``, ``{"drop", "keep"}``."""
        text = " or ".join(
            kind.doc.strip("{}") if len(kind.words) == 1 < len(self.kinds) else kind.doc for kind in self.kinds
        )
        if self.default is None and not text.endswith("or None"):
            return f"{text}, optional"
        return f"{text} or None" if self.may_be_none and self.default is not None else text

    @property
    def in_yaml(self) -> Any:
        """Type in a pipeline file for pydantic; None if the parameter cannot be written there."""
        types = tuple(kind.in_yaml for kind in self.kinds if kind.in_yaml is not None)
        if not types:
            return None
        return Union[(*types, None) if self.may_be_none else types]  # noqa: UP007  (known only at run time)

    def check(self, value: Any, method: str) -> None:
        """Refuse an invalid value; `method` is the name of the class.

        Raises
        ------
        ConfigError
        """
        if (value is None and self.may_be_none) or any(kind.accepts(value) for kind in self.kinds):
            return
        if isinstance(self.kinds[0], LossOf):
            check_loss(method, value, self.kinds[0].requires, self.kinds[0].among)
        words = [word for kind in self.kinds for word in kind.words]
        others = [kind.expected for kind in self.kinds if not kind.words]
        if others:
            expected = " or ".join([*others, *map(repr, words)])
        else:
            known = [*words, "None"] if self.may_be_none else words
            expected = f"one of {', '.join(known)}" if len(known) > 1 else known[0]
        raise ConfigError(f"expected {expected}, found {value!r}{did_you_mean(str(value), words)}", self.name)


class Declaration(NamedTuple):
    """Parameters that one class adds to those of its bases."""

    names: list[str]
    kw_only: bool
    fixed: Mapping[str, Any]
    renamed: Mapping[str, str]


@dataclass_transform(eq_default=False)
class Parameters:
    """Base of a class whose annotated attributes with default values are its parameters."""

    _parameter_owners: ClassVar[dict[str, type]] = {}
    """Class that declares each parameter, by name, in the constructor's order."""
    _keyword_only: ClassVar[frozenset[str]] = frozenset()
    _renamed: ClassVar[dict[str, str]] = {}
    """New names by old names."""
    _declaration: ClassVar[Declaration]
    _parameters: ClassVar[Mapping[str, Parameter]]

    def __init_subclass__(
        cls,
        *,
        kw_only: bool = False,
        fixed: Mapping[str, Any] | None = None,
        renamed: Mapping[str, str] | None = None,
        **further: Any,
    ) -> None:
        super().__init_subclass__(**further)
        own = [
            name
            for name, hint in inspect.get_annotations(cls).items()
            if name in cls.__dict__ and not str(hint).startswith("ClassVar")
        ]
        for name, value in (fixed or {}).items():
            setattr(cls, name, value)
        cls._declaration = Declaration(own, kw_only, fixed or {}, renamed or {})
        either: dict[str, type] = {}
        keyword: dict[str, type] = {}
        cls._renamed = {}
        for owner in reversed(cls.__mro__):  # from the base to the subclass, which overrides
            declared: Declaration | None = vars(owner).get("_declaration")
            if declared is None:
                continue
            for name in declared.names:
                (keyword if name in keyword else either)[name] = owner
            if declared.kw_only:  # parameters that all selectors have come last
                keyword = {name: either.pop(name) for name in declared.names if name not in keyword} | keyword
            for name in declared.fixed:
                either.pop(name, None)
                keyword.pop(name, None)
            cls._renamed |= declared.renamed
        cls._parameter_owners, cls._keyword_only = either | keyword, frozenset(keyword)
        for old, new in (renamed or {}).items():
            setattr(cls, old, _old_name(old, new))
        if cls.__init__ is object.__init__ or hasattr(cls.__init__, "__signature__"):  # not written by hand
            cls.__init__ = _constructor(cls)  # type: ignore[method-assign]
        cls.__doc__ = _with_inherited_parameters(cls)

    def check_parameters(self) -> None:
        """Refuse invalid parameters and invalid combinations of them.

        Raises
        ------
        ConfigError
            A parameter is invalid; the message names it.
        """
        for parameter in parameters_of(type(self)).values():
            parameter.check(getattr(self, parameter.name), type(self).__name__)
        self._check_combination()

    def _check_combination(self) -> None:
        """Refuse invalid combinations of parameters that are individually valid."""

    def set_params(self, **params: Any) -> Self:
        """Set parameters by name; those of a nested estimator as ``name__parameter``.

        Returns
        -------
        self
        """
        return super().set_params(**new_names(type(self), params))  # type: ignore[misc, no-any-return]

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__({self._renamed.get(name, name): value for name, value in state.items()})  # type: ignore[misc]


def parameters_of(cls: type[Parameters]) -> Mapping[str, Parameter]:
    """Return the parameters of a class by name, in the constructor's order. The result is cached."""
    if "_parameters" not in vars(cls):
        cls._parameters = MappingProxyType(_made_out(cls))
    return cls._parameters


def _made_out(cls: type[Parameters]) -> dict[str, Parameter]:
    texts = _entries(cls.__doc__ or "")
    found = {}
    for name, owner in cls._parameter_owners.items():
        declared = SimpleNamespace(__annotations__={name: inspect.get_annotations(owner)[name]})
        hint = get_type_hints(declared, vars(sys.modules[owner.__module__]), include_extras=True)[name]
        alternatives = [*_alternatives(hint)]
        kinds = tuple(_kind(one) for one in alternatives if one is not NoneType)
        default = getattr(cls, name)
        may_be_none = default is None or NoneType in alternatives
        found[name] = Parameter(name, default, kinds, may_be_none, texts.get(name, ("", ""))[1])
    return found


def n_to_select(asked: int | None, n_features: int, default: int) -> int:
    """Return the number of features to select: by default `default`, or all features if there are fewer.

    Raises
    ------
    ConfigError
        More features are requested than there are.
    """
    if asked is not None and asked > n_features:
        problem = f"requests {asked:,} features, but there are {n_features:,}"
        raise ConfigError(problem, "n_features_to_select", f"request at most {n_features:,}")
    return min(default, n_features) if asked is None else int(asked)


def new_names(cls: type[Parameters], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return parameters by their current names, with a FutureWarning for each old name.

    Raises
    ------
    TypeError
        Both the old and the new name are given.
    """
    found: dict[str, Any] = {}
    for name, value in given.items():
        new = cls._renamed.get(name, name)
        if new != name:
            warnings.warn(f"{name} is now called {new}", FutureWarning, stacklevel=3)
        if new in found or (new != name and new in given):
            raise TypeError(f"{cls.__name__}: {name} is the old name of {new}; pass only {new}")
        found[new] = value
    return found


def _constructor(cls: type[Parameters]) -> Callable[..., None]:
    """Return an ``__init__`` that stores the parameters, with their names and default values in its signature."""
    keyword, either = inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD
    signature = inspect.Signature(
        [
            inspect.Parameter("self", either),
            *(
                inspect.Parameter(name, keyword if name in cls._keyword_only else either, default=getattr(cls, name))
                for name in cls._parameter_owners
            ),
        ]
    )

    def __init__(self: Parameters, *args: Any, **options: Any) -> None:
        options = new_names(cls, options)
        for name in options:
            if name not in signature.parameters:
                hint = did_you_mean(name, cls._parameter_owners)
                raise TypeError(f"{cls.__name__} has no parameter {name!r}{hint}")
        bound = signature.bind(self, *args, **options)
        bound.apply_defaults()
        for name in cls._parameter_owners:
            setattr(self, name, bound.arguments[name])

    __init__.__signature__ = signature  # type: ignore[attr-defined]
    __init__.__qualname__ = f"{cls.__qualname__}.__init__"
    __init__.__module__ = cls.__module__
    return __init__


def _old_name(old: str, new: str) -> property:
    def get(self: Parameters) -> Any:
        warnings.warn(f"{old} is now called {new}", FutureWarning, stacklevel=2)
        return getattr(self, new)

    def put(self: Parameters, value: Any) -> None:
        warnings.warn(f"{old} is now called {new}", FutureWarning, stacklevel=2)
        setattr(self, new, value)

    return property(get, put, doc=f"The old name of `{new}`.")


def _alternatives(hint: Any) -> Iterator[Any]:
    if get_origin(hint) in (Union, UnionType):
        for part in get_args(hint):
            yield from _alternatives(part)
    else:
        yield hint


def _kind(hint: Any) -> Kind | LossOf:
    """Return the kind of a type: the `Kind` in its annotation, a set of words, a Boolean, or a number in a range."""
    base, *annotated = get_args(hint) if get_origin(hint) is Annotated else (hint,)
    for item in annotated:
        if isinstance(item, Kind | LossOf):
            return item
    if get_origin(base) is Literal:
        known = get_args(base)
        return Kind(
            _braces(known),
            lambda value: isinstance(value, str | Integral) and not isinstance(value, bool) and value in known,
            in_yaml=hint,
            words=tuple(map(str, known)),
        )
    if base is bool:
        return Kind("bool", lambda value: type(value).__name__ in ("bool", "bool_"), "True or False", hint)
    is_type = {int: _is_whole, float: _is_number}[base]
    limits = {type(limit).__name__: getattr(limit, type(limit).__name__.lower()) for limit in annotated}
    return Kind(
        base.__name__,
        lambda value: is_type(value) and all(_HOLDS[sign](value, limit) for sign, limit in limits.items()),
        _range_text("a whole number" if base is int else "a number", limits),
        hint,
    )


_HOLDS = {"Ge": operator.ge, "Gt": operator.gt, "Le": operator.le, "Lt": operator.lt}


def _range_text(noun: str, limits: Mapping[str, Any]) -> str:
    match limits:
        case {"Ge": low, "Le": high}:
            return f"{noun} from {low} to {high}"
        case {"Ge": low, "Lt": high}:
            return f"{noun} from {low} to below {high}"
        case {"Gt": low, "Le": high}:
            return f"{noun} above {low} and up to {high}"
        case {"Gt": low, "Lt": high}:
            return f"{noun} between {low} and {high}"
        case {"Ge": low}:
            return f"{noun} of at least {low}"
        case {"Gt": 0}:
            return noun.replace("a ", "a positive ", 1)
    return noun


def _is_whole(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)


def _braces(words: tuple[Any, ...]) -> str:
    return "{" + ", ".join(f'"{word}"' if isinstance(word, str) else str(word) for word in words) + "}"


_SECTION = re.compile(r"^Parameters\n-+\n(.*?)(?=\n\n\w[^\n]*\n---|\Z)", re.DOTALL | re.MULTILINE)
_NEXT_SECTION = re.compile(r"\n\n(?=\w[^\n]*\n---)|\Z")


def _entries(doc: str) -> dict[str, tuple[str, str]]:
    """Return the type and meaning of each parameter in a docstring."""
    section = _SECTION.search(inspect.cleandoc(doc))
    found = {}
    for entry in re.split(r"\n(?=\S)", section[1]) if section else ():
        head, _, text = entry.partition("\n")
        names, _, kind = head.partition(" : ")
        found.update({name.strip(): (kind, inspect.cleandoc(text)) for name in names.split(",")})
    return found


def _with_inherited_parameters(cls: type[Parameters]) -> str | None:
    """Return the docstring of a class including inherited parameters, in the constructor's order."""
    if not cls.__doc__:
        return None
    doc = inspect.cleandoc(cls.__doc__)
    texts = {name: entry for owner in reversed(cls.__mro__) for name, entry in _entries(owner.__doc__ or "").items()}
    lines = ["Parameters", "----------"]
    for name in cls._parameter_owners:
        kind, text = texts.get(name, ("", ""))
        lines += [f"{name} : {kind}", *(f"    {line}" if line else "" for line in text.splitlines())]
    section = "\n".join(lines)
    if _SECTION.search(doc):
        return _SECTION.sub(lambda _: section, doc, count=1)
    return _NEXT_SECTION.sub(lambda found: f"\n\n{section}{found[0]}", doc, count=1)


SIZE_SEARCH: Final = {
    "cv": Folds,
    "sizes": Sizes,
    "rule": Literal["best", "1se"],
    "metric": Text,
    "groups": RowGroups,
    "order": Literal["random", "time"],
}
"""Keys of a mapping that is passed instead of a number of features; they are parameters of `daskfs.SelectionCV`."""
_OF_SEARCH = {name: _kind(hint) for name, hint in SIZE_SEARCH.items()}
_typed_mapping: Any = TypedDict  # the keys are computed, which a type checker cannot follow
SizeSearchOptions = _typed_mapping(
    "SizeSearchOptions", {name: kind.in_yaml for name, kind in _OF_SEARCH.items()}, total=False
)
SizeSearchOptions.__pydantic_config__ = {"extra": "forbid"}
_SEARCH = Kind(
    "mapping",
    lambda value: (
        isinstance(value, Mapping)
        and all(name in _OF_SEARCH and _OF_SEARCH[name].accepts(one) for name, one in value.items())
    ),
    f"a mapping of {', '.join(SIZE_SEARCH)} (as SelectionCV has them)",
    SizeSearchOptions,
)
if TYPE_CHECKING:
    CountOrCV: TypeAlias = Count  # code that reads it runs after the number was chosen
else:
    CountOrCV = Count | Literal["cv"] | Annotated[Any, _SEARCH]
