"""scikit-learn's base classes, which selectors have from the first selector on that is made.

`sklearn.base` takes a second of CPU to import, for scipy.stats and pandas most of all. Whoever reads what a method
declares, checks a pipeline file or plans a run needs none of it. So `Estimator` gets its bases when a selector is made,
copied or unpickled, when an attribute of a class is asked for that scikit-learn has, and at once where scikit-learn is
loaded already. Until then ``issubclass(Message, BaseEstimator)`` is False; of a selector `isinstance` is always true.
"""

from __future__ import annotations

import functools
import sys
import threading
from abc import ABCMeta
from collections.abc import Callable, Iterator
from types import MethodType
from typing import TYPE_CHECKING, Any, Self

from daskfs import interrupts


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
    if _Plain not in Estimator.__bases__:
        return True
    from sklearn.base import BaseEstimator
    from sklearn.feature_selection import SelectorMixin

    with interrupts.held(), _JOINING:
        if _Plain in Estimator.__bases__:
            Estimator.__bases__ = (SelectorMixin, BaseEstimator)
            for cls in _below(Estimator):
                super(Estimator, cls).__init_subclass__()  # type: ignore[misc]
    return False


def _below(cls: Any) -> Iterator[Any]:
    for subclass in cls.__subclasses__():
        yield subclass
        yield from _below(subclass)


if "sklearn.base" in sys.modules:
    join()


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
