"""The decorators that make a function a kernel: compiled by numba when it is first called, and kept on disk.

numba is loaded by that first call: whoever checks a pipeline file or plans what it will take imports the kernels'
modules, for sizes that are known there, and calls none.

Two things stand between a kernel and a plain ``numba.njit(cache=True, nogil=True)``:

- numba sees a copy of the function, whose globals are what numba knows in place of our lazy kernels. Kernels that a
  kernel calls become overloads (`numba.extending.overload`): only what Python calls gets a wrapper for Python's objects
  and a file on disk, with all that it calls.
- The copy says that it comes from a file of `daskfs.kernels.kept`. There numba keeps its machine code, beside the
  source as ever, and a change of any file that a kernel depends on leads to another folder.
"""

from __future__ import annotations

import functools
import pickle
import threading
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import numpy as np

from daskfs import interrupts
from daskfs.kernels.kept import kept_alone, source_file
from daskfs.kernels.sources import modules_behind, stamp_of

_COMPILING = threading.RLock()
_n_compiling = 0

DAMAGED = (pickle.UnpicklingError, EOFError, AttributeError, ImportError, IndexError)
"""What is raised where a file of machine code is not what was written, as `pickle` says."""


def is_compiling() -> bool:
    """Return whether a kernel is being compiled or loaded in this process."""
    return _n_compiling > 0


def is_stopped() -> bool:
    """Return whether the kernel is to return at once: what it returns will not be seen, see `daskfs.interrupts`.

    To be asked in loops whose steps take microseconds or more, such that no second goes by without.
    """
    return False


def prefetch(array, index):  # type: ignore[no-untyped-def]
    """Ask the processor to bring ``array[index]`` near, without waiting for it; `index` must be within the array."""


class Kernel:
    """A function that is compiled when it is first called; signals wait until it has returned.

    Parameters
    ----------
    function : callable
        Its Python code.
    fastmath : bool or set of str
        What the compiler may do to its sums, see `kernel` and `inner_loop`.
    """

    def __init__(self, function: Callable[..., Any], fastmath: bool | set[str]) -> None:
        functools.update_wrapper(self, function)
        self.py_func, self.fastmath = function, fastmath
        stamp_of(function.__module__)  # of the sources as this process has imported them, whatever is written later

    def __call__(self, *arguments: Any) -> Any:
        """Run the function."""
        return interrupts.call_kernel(self.dispatcher, arguments)

    @functools.cached_property
    def dispatcher(self) -> Any:
        """What Python calls: numba's, the same in all threads."""
        with interrupts.held(), _COMPILING:  # loading numba is not to be cut short
            if "dispatcher" not in vars(self):
                import numba

                if numba.config.DISABLE_JIT:  # type: ignore[attr-defined]
                    vars(self)["dispatcher"] = self.py_func
                else:
                    made: Any = numba.njit(cache=True, nogil=True, **_options(self.fastmath))(self.for_numba)
                    made.compile = functools.partial(self._compile, made, made.compile)
                    vars(self)["dispatcher"] = made
            return vars(self)["dispatcher"]

    @functools.cached_property
    def for_numba(self) -> FunctionType:
        """The function as numba sees it."""
        function = self.py_func
        code = function.__code__.replace(co_filename=str(source_file(function)))
        copy = FunctionType(code, _globals_of(function), function.__name__, function.__defaults__)
        copy.__qualname__, copy.__module__ = function.__qualname__, function.__module__
        return copy

    @functools.cached_property
    def in_kernels(self) -> Callable[..., Any]:
        """What kernels call: numba compiles it for each of them, as its own functions of arrays."""
        return _overloaded(self.for_numba, self.fastmath, lambda *_: self.for_numba)

    def _compile(self, dispatcher: Any, compile: Callable[[Any], Any], signature: Any) -> Any:
        """Have numba compile or load the function for types of arguments.

        numba's index of a function is read, changed and written by every process: of two that compile the same function
        for different types at once, one could later load the other's code. So one process does so at a time; another
        waits, and finds on disk what the first has made.
        """
        global _n_compiling
        self._check_records(signature)
        with _COMPILING, kept_alone(self.for_numba):
            _n_compiling += 1
            try:
                return compile(signature)
            except DAMAGED:  # a file on disk, which the machine went down as it was written
                for index in Path(dispatcher.stats.cache_path).glob(f"*{self.py_func.__name__}-*.nbi"):
                    index.unlink(missing_ok=True)
                return compile(signature)
            except OSError:  # a full disk: it is compiled, and will be again by the next process
                return compile(signature)
            finally:
                _n_compiling -= 1

    def _check_records(self, signature: Any) -> None:
        """Warn of a record of whose fields machine code on disk would not know when they change; tests fail by it."""
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
        """Return what its dispatcher has."""
        if name.startswith("__") or name in ("dispatcher", "for_numba", "in_kernels"):
            raise AttributeError(name)
        return getattr(self.dispatcher, name)

    def __reduce__(self) -> str:
        return self.__qualname__


class Choice:
    """Several kernels that are called as one: the classes of the arguments say which is meant.

    Parameters
    ----------
    choose : callable
        Given the class of each argument, as `type` has it, returns the kernel. All of them take the same arguments.
    """

    def __init__(self, choose: Callable[..., Any]) -> None:
        functools.update_wrapper(self, choose)
        self._choose = choose

    def __call__(self, *arguments: Any) -> Any:
        """Run the kernel that is meant."""
        return self._choose(*map(type, arguments))(*arguments)

    @functools.cached_property
    def in_kernels(self) -> Callable[..., Any]:
        """What kernels call."""

        def meant(*arguments: Any) -> Any:
            raise NotImplementedError

        return _overloaded(meant, False, lambda *kinds: self._choose(*map(_class_of, kinds)).for_numba)


def kernel(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a function when first called, keep the machine code on disk, release the GIL while it runs.

    No fastmath: sums have the order in which they are written.
    """
    return Kernel(function, fastmath=False)


def inner_loop(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a dot product or a sum of rows, where a kernel spends its time.

    As `kernel`, but a product and a sum may round once instead of twice, and a dot product may be summed in lanes. The
    machine code says in which order, so threads and processes of one machine agree. Another processor or version of
    numba may have another order, and a caller into which the function is compiled may. NaN and infinity are respected.
    """
    return Kernel(function, fastmath={"contract", "reassoc", "nsz"})


def elementwise(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a formula of each element, an exponential say: as `kernel`, but a product and a sum may round once."""
    return Kernel(function, fastmath={"contract"})


def _options(fastmath: bool | set[str]) -> Any:
    """Return how numba compiles: a division by 0 is infinite or NaN, as in NumPy.

    To raise in its place would take a branch at every division, and a sixth more time to compile.
    """
    return {"fastmath": fastmath, "error_model": "numpy"}


def _globals_of(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the globals that a function names, kernels as numba knows them."""
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
    """Have kernels that call `function` call what is chosen for the types of its arguments."""
    from numba.extending import overload

    def compiled_for(*kinds: Any, **named: Any) -> Callable[..., Any]:
        interrupts.raise_waiting()  # between two functions numba can be left; in the midst of one, parts would be lost
        return choose(*kinds, *named.values())

    with _COMPILING:
        overload(function, jit_options=_options(fastmath), strict=False)(compiled_for)
    return function


def _class_of(kind: Any) -> Any:
    """Return the class of what has a type of numba's: of an array or a record."""
    from numba import types

    if isinstance(kind, types.Array):
        return np.ndarray
    return getattr(kind, "instance_class", type(kind))


def _records_in(kinds: Any) -> Iterator[type]:
    """Return the classes of the named tuples among types, and within these."""
    from numba import types

    for kind in kinds:
        if isinstance(kind, types.BaseTuple):
            yield from _records_in(kind)  # type: ignore[arg-type]
            if isinstance(kind, types.BaseNamedTuple):
                yield kind.instance_class  # type: ignore[attr-defined]
