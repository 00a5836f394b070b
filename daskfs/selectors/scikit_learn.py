"""scikit-learn's base classes, which selectors have as soon as somebody has loaded them.

`sklearn.base` takes a second of CPU to import, for scipy.stats and pandas most of all. Whoever reads what a method
declares, checks a pipeline file or plans a run needs none of it. So `Estimator` gets its bases

- when a selector is made, copied or unpickled, or an attribute of a class is asked for that scikit-learn has;
- when scikit-learn is imported by anybody: whoever can ask ``issubclass(Message, BaseEstimator)`` hears the truth.
"""

from __future__ import annotations

import functools
import sys
import threading
from abc import ABCMeta
from collections.abc import Callable, Iterator
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import MethodType, ModuleType
from typing import TYPE_CHECKING, Any, Self

BASES = {"sklearn.base": "BaseEstimator", "sklearn.feature_selection._base": "SelectorMixin"}
"""The modules of scikit-learn in which the bases stand, in the order in which they are loaded."""


class _Plain:
    """The base until then: Python lets a class change its bases, but not from `object`."""


class _HasBasesToCome(ABCMeta):
    """The type of classes whose bases come when what they have is asked for."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__") or join():
            raise AttributeError(f"type object {cls.__name__!r} has no attribute {name!r}")
        return getattr(cls, name)

    def __dir__(cls) -> list[str]:
        join()
        return [*super().__dir__()]


if TYPE_CHECKING:
    from sklearn.base import BaseEstimator
    from sklearn.feature_selection import SelectorMixin

    class Estimator(SelectorMixin, BaseEstimator):  # type: ignore[misc]
        """What scikit-learn takes for a feature selector."""

        @classmethod
        def to_plan_with(cls, **parameters: Any) -> Self:
            """Return a selector that will plan and do nothing else."""

else:

    class Estimator(_Plain, metaclass=_HasBasesToCome):
        """What scikit-learn takes for a feature selector."""

        def __new__(cls, *arguments, **parameters):
            """Return a selector that scikit-learn knows."""
            join()
            return super().__new__(cls)

        @classmethod
        def to_plan_with(cls, **parameters):
            """Return a selector that will plan and do nothing else: scikit-learn is not loaded for it."""
            selector = object.__new__(cls)
            selector.__init__(**parameters)
            return selector


_JOINING = threading.RLock()


def join() -> bool:
    """Load scikit-learn and give selectors its bases; return whether they had them."""
    if len(Estimator.__bases__) == len(BASES):
        return True
    import sklearn.feature_selection  # noqa: F401  (`_Watcher` hears of it)

    return False


def _take(module: ModuleType) -> None:
    """Give selectors the base that stands in a module, before those that they have."""
    with _JOINING:
        base = getattr(module, BASES[module.__name__])
        others = [other for other in Estimator.__bases__ if other not in (_Plain, base)]
        Estimator.__bases__ = (base, *others)
        for cls in _below(Estimator):
            super(Estimator, cls).__init_subclass__()  # type: ignore[misc]


def _below(cls: Any) -> Iterator[Any]:
    for subclass in cls.__subclasses__():
        yield subclass
        yield from _below(subclass)


class _Watcher(MetaPathFinder):
    """Has bases taken from modules when they have been loaded."""

    def find_spec(self, name: str, path: Any, target: ModuleType | None = None) -> ModuleSpec | None:
        if name not in BASES:
            return None
        others = (finder for finder in sys.meta_path if finder is not self)
        spec = next(filter(None, (finder.find_spec(name, path, target) for finder in others)), None)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def execute_and_take(module: ModuleType) -> None:
                execute(module)
                _take(module)

            spec.loader.exec_module = execute_and_take  # type: ignore[method-assign]
        return spec


sys.meta_path.insert(0, _Watcher())
for _name in BASES:
    if _name in sys.modules:
        _take(sys.modules[_name])


class available_if:
    """Decorates a method that an object has where `check` says so."""

    def __init__(self, check: Callable[[Any], bool]) -> None:
        self._check = check

    def __call__(self, method: Callable[..., Any]) -> available_if:
        """Decorate a method."""
        functools.update_wrapper(self, method)
        self._method = method
        return self

    def __get__(self, instance: Any, owner: type) -> Any:
        if instance is None:
            return self._method
        if not self._check(instance):
            raise AttributeError(f"This {owner.__name__!r} has no attribute {self._method.__name__!r}")
        return MethodType(self._method, instance)
