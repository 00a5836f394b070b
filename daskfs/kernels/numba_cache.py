"""The decorators that make a function a kernel, compiled when it is first called and kept on disk.

numba is loaded by that first call (`daskfs.kernels.machine_code`): whoever checks a pipeline file or plans what it will
take imports the kernels' modules, for sizes that are known there, and calls none.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any

from daskfs import interrupts
from daskfs.kernels.collecting import collecting_seldom
from daskfs.kernels.instructions import is_stopped as is_stopped
from daskfs.kernels.instructions import prefetch as prefetch
from daskfs.kernels.sources import stamp_of

_LOADING = threading.RLock()


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
        self.py_func, self._fastmath = function, fastmath
        self._stamp = stamp_of(function.__module__)

    @functools.cached_property
    def dispatcher(self) -> Any:
        """numba's, the same in all threads."""
        with interrupts.held(), _LOADING, collecting_seldom():  # loading numba is not to be cut short
            if "dispatcher" not in vars(self):
                from daskfs.kernels.machine_code import dispatcher_of

                vars(self)["dispatcher"] = dispatcher_of(self.py_func, self._fastmath, self._stamp)
            return vars(self)["dispatcher"]

    def __call__(self, *arguments: Any) -> Any:
        """Run the function."""
        return interrupts.call_kernel(self.dispatcher, arguments)

    @property
    def _numba_type_(self) -> Any:
        """What numba asks of a global that a kernel refers to."""
        from daskfs.kernels.machine_code import KernelType

        return KernelType(self.dispatcher)

    def __getattr__(self, name: str) -> Any:
        """Return what its dispatcher has."""
        if name.startswith("__") or name == "dispatcher":
            raise AttributeError(name)
        return getattr(self.dispatcher, name)

    def __reduce__(self) -> str:
        return self.__qualname__


class ByTypes:
    """Several kernels that kernels call as one: the types of the arguments say which is meant.

    Apart from `chosen_by_type`, which compiles a third function that calls one of them.
    """

    is_compiling = False  # numba asks: calls of itself are another matter

    @property
    def _numba_type_(self) -> Any:
        from daskfs.kernels.machine_code import KernelType

        return KernelType(self)  # type: ignore[arg-type]

    def kernel_for(self, kinds: tuple[Any, ...]) -> Any:
        """Return the kernel that is meant."""
        raise NotImplementedError

    def get_call_template(self, kinds: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        """Return numba's template of a call."""
        return self.kernel_for(kinds).get_call_template(kinds, keywords)

    def get_overload(self, kinds: tuple[Any, ...]) -> Any:
        """Return what numba calls."""
        return self.kernel_for(kinds).get_overload(kinds)


def kernel(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a function when first called, keep the machine code on disk, release the GIL while it runs.

    No fastmath: every sum has one order, so the same block gives the same bits in every process.
    """
    return Kernel(function, fastmath=False)


def inner_loop(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a dot product or a sum of rows, where a kernel spends its time.

    As `kernel`, but a product and a sum may round once instead of twice, and a dot product may be summed in lanes. Its
    order depends on the processor's instructions alone: the same bits in every thread and process of one kind of
    machine. NaN and infinity are respected.
    """
    return Kernel(function, fastmath={"contract", "reassoc", "nsz"})


def elementwise(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a formula of each element, an exponential say: as `kernel`, but a product and a sum may round once."""
    return Kernel(function, fastmath={"contract"})
