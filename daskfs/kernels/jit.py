"""Decorators that make a function a kernel: compiled by numba on the first call, and cached on disk.

The first call imports numba. Checking a pipeline file or planning a run imports the kernels' modules for their size
functions only, calls no kernel, and so does not import numba.

A kernel differs in two ways from a plain ``numba.njit(cache=True, nogil=True)``:

- numba sees a copy of the function whose globals are numba objects in place of our lazy kernels. Kernels called by a
  kernel become overloads (`numba.extending.overload`): only functions called from Python get a wrapper for Python
  objects and a file on disk, which includes all that they call.
- The copy claims to come from a file of `daskfs.kernels.kept`. numba caches its machine code beside that file, as
  usual, and a change of any file that a kernel depends on leads to another folder.
"""

from __future__ import annotations

import functools
import pickle
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import numpy as np

from daskfs import interrupts
from daskfs.kernels.kept import kept_alone, source_file
from daskfs.kernels.sources import modules_behind, stamp_of

_COMPILING = threading.RLock()
_n_compiling = 0
_listeners: list[Callable[[], None]] = []

DAMAGED = (pickle.UnpicklingError, EOFError, AttributeError, ImportError, IndexError)
"""Errors raised by `pickle` for a damaged file of machine code."""


def is_compiling() -> bool:
    """Return whether this process is compiling or loading a kernel."""
    return _n_compiling > 0


@contextmanager
def announced(tell: Callable[[], None]) -> Iterator[None]:
    """Call `tell` during the block when this process compiles a kernel; not when it loads one.

    It is called before a kernel that is not on disk, and after one that is there for other argument types.
    """
    _listeners.append(tell)
    try:
        yield
    finally:
        _listeners.remove(tell)


def is_stopped() -> bool:
    """Return whether the kernel should return at once, because its result is discarded; see `daskfs.interrupts`.

    Call it in loops whose steps take microseconds or more, at least once per second.
    """
    return False


def prefetch(array, index):  # type: ignore[no-untyped-def]
    """Ask the processor to prefetch ``array[index]`` without waiting. `index` must be within the array."""


class Kernel:
    """A function that is compiled on its first call. Signals wait until it has returned.

    Parameters
    ----------
    function : callable
        Its Python code.
    fastmath : bool or set of str
        Optimisations that the compiler may apply to sums, see `kernel` and `inner_loop`.
    """

    def __init__(self, function: Callable[..., Any], fastmath: bool | set[str]) -> None:
        functools.update_wrapper(self, function)
        self.py_func, self.fastmath = function, fastmath
        stamp_of(function.__module__)  # reads the sources as imported by this process, before they can change

    def __call__(self, *arguments: Any) -> Any:
        """Run the function."""
        return interrupts.call_kernel(self.dispatcher, arguments)

    @functools.cached_property
    def dispatcher(self) -> Any:
        """The numba function that Python calls, the same in all threads."""
        with interrupts.held(), _COMPILING:  # the import of numba must not be interrupted
            if "dispatcher" not in vars(self):
                import numba

                if numba.config.DISABLE_JIT:  # type: ignore[attr-defined]
                    vars(self)["dispatcher"] = self.py_func
                else:
                    is_cached, options = self._is_cached, _options(self.fastmath)
                    made: Any = numba.njit(cache=is_cached, nogil=True, **options)(self.for_numba)
                    made.compile = functools.partial(self._compile, made, made.compile)
                    vars(self)["dispatcher"] = made
            return vars(self)["dispatcher"]

    @functools.cached_property
    def for_numba(self) -> FunctionType:
        """The function in the form that numba compiles."""
        function = self.py_func
        code = function.__code__
        with suppress(OSError):  # a full disk: nothing is cached
            code = code.replace(co_filename=str(source_file(function)))
        copy = FunctionType(code, _globals_of(function), function.__name__, function.__defaults__)
        copy.__qualname__, copy.__module__ = function.__qualname__, function.__module__
        return copy

    @property
    def _is_cached(self) -> bool:
        return self.for_numba.__code__.co_filename != self.py_func.__code__.co_filename

    @functools.cached_property
    def in_kernels(self) -> Callable[..., Any]:
        """The overload that kernels call. numba compiles it into each of them, like its own array functions."""
        return _overloaded(self.for_numba, self.fastmath, lambda *_: self.for_numba)

    def _compile(self, dispatcher: Any, compile: Callable[[Any], Any], signature: Any) -> Any:
        """Let numba compile or load the function for given argument types.

        Every process reads, changes and writes numba's index of a function. If two processes compile the same function
        for different types at once, one could later load the other's code. So only one process compiles at a time;
        another waits, and then finds the code on disk.
        """
        global _n_compiling
        self._check_records(signature)
        with _COMPILING, kept_alone(self.for_numba) if self._is_cached else nullcontext():
            _n_compiling += 1
            indices = []
            if self._is_cached:
                indices = [*Path(dispatcher.stats.cache_path).glob(f"*{self.py_func.__name__}-*.nbi")]
            if not indices:
                _announce()
            try:
                return compile(signature)
            except DAMAGED:  # a damaged file on disk, for example after a crash while it was written
                for index in indices:
                    index.unlink(missing_ok=True)
                return compile(signature)
            except OSError:  # a full disk: compiled now, and again by the next process
                return compile(signature)
            finally:
                _n_compiling -= 1
                if indices and dispatcher.stats.cache_misses:
                    _announce()

    def _check_records(self, signature: Any) -> None:
        """Warn if cached machine code would not notice a change of a record's fields. Tests fail on the warning."""
        for kind in _records_in(signature):
            if kind.__module__.startswith("daskfs.") and kind.__module__ not in modules_behind(self.__module__):
                warnings.warn(
                    f"expected {self.__module__} to import {kind.__qualname__}, which its kernel {self.__name__} "
                    f"takes, found that it does not: import it from {kind.__module__}, so that a change of its fields "
                    "compiles the kernel again",
                    RuntimeWarning,
                    stacklevel=2,
                )

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the dispatcher."""
        if name.startswith("__") or name in ("dispatcher", "for_numba", "in_kernels"):
            raise AttributeError(name)
        return getattr(self.dispatcher, name)

    def __reduce__(self) -> str:
        return self.__qualname__


class Choice:
    """Several kernels behind one name. The classes of the arguments select the kernel.

    Parameters
    ----------
    choose : callable
        Takes the class of each argument and returns the kernel. All kernels take the same arguments.
    """

    def __init__(self, choose: Callable[..., Any]) -> None:
        functools.update_wrapper(self, choose)
        self._choose = choose

    def __call__(self, *arguments: Any) -> Any:
        """Run the selected kernel."""
        return self._choose(*map(type, arguments))(*arguments)

    @functools.cached_property
    def in_kernels(self) -> Callable[..., Any]:
        """The overload that kernels call."""

        def meant(*arguments: Any) -> Any:
            raise NotImplementedError

        return _overloaded(meant, False, lambda *kinds: self._choose(*map(_class_of, kinds)).for_numba)


def kernel(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a function on the first call, cache the machine code on disk, and release the GIL while it runs.

    No fastmath: sums are computed in the order in which they are written.
    """
    return Kernel(function, fastmath=False)


def inner_loop(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a dot product or a sum of rows in which a kernel spends its time.

    Like `kernel`, but a multiply-add may round once instead of twice, and a dot product may be summed in several lanes.
    The order is fixed in the machine code, so threads and processes of one machine agree. It may differ on another
    processor, with another version of numba, or in another caller into which the function is inlined. NaN and infinity
    are respected.
    """
    return Kernel(function, fastmath={"contract", "reassoc", "nsz"})


def elementwise(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile an elementwise formula, such as an exponential. Like `kernel`, but a multiply-add may round once."""
    return Kernel(function, fastmath={"contract"})


def _announce() -> None:
    for tell in [*_listeners]:
        tell()


def _options(fastmath: bool | set[str]) -> Any:
    """Return numba's options. A division by 0 gives infinity or NaN, as in NumPy.

    Raising an error instead would need a branch at every division, and a sixth more compile time.
    """
    return {"fastmath": fastmath, "error_model": "numpy"}


def _globals_of(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the globals that a function uses, with kernels in the form that numba knows."""
    from daskfs.kernels import intrinsics

    ours = function.__globals__
    found = {name: ours[name] for name in _names_in(function.__code__) if name in ours}
    known: dict[Any, Any] = {is_stopped: intrinsics.is_stopped, prefetch: intrinsics.prefetch}
    for name, value in found.items():
        if isinstance(value, (Kernel, Choice)):
            found[name] = value.in_kernels
        elif isinstance(value, FunctionType):
            found[name] = known.get(value, value)
    return {"__builtins__": ours["__builtins__"], "__name__": function.__module__, **found}


def _names_in(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names_in(constant)


def _overloaded(
    function: Callable[..., Any], fastmath: bool | set[str], choose: Callable[..., Callable[..., Any]]
) -> Callable[..., Any]:
    """Let kernels that call `function` call what `choose` returns for the argument types."""
    from numba.extending import overload

    def compiled_for(*kinds: Any, **named: Any) -> Callable[..., Any]:
        interrupts.raise_waiting()  # an interrupt may be raised between two functions, not within one
        return choose(*kinds, *named.values())

    with _COMPILING:
        overload(function, jit_options=_options(fastmath), strict=False)(compiled_for)
    return function


def _class_of(kind: Any) -> Any:
    """Return the class of an array or record with a numba type."""
    from numba import types

    if isinstance(kind, types.Array):
        return np.ndarray
    return getattr(kind, "instance_class", type(kind))


def _records_in(kinds: Any) -> Iterator[type]:
    """Return the classes of the named tuples among the types, including nested ones."""
    from numba import types

    for kind in kinds:
        if isinstance(kind, types.BaseTuple):
            yield from _records_in(kind)  # type: ignore[arg-type]
            if isinstance(kind, types.BaseNamedTuple):
                yield kind.instance_class  # type: ignore[attr-defined]
