"""From a function to machine code: numba's dispatchers, and the files in which they keep what they have compiled.

numba's own cache keeps machine code beside the source. Where that folder cannot be written (a system-wide installation,
a read-only container) and there is no home, it refuses to import. It does not see a change in a called function of
another file (see `daskfs.kernels.sources`). And its index of a function is read, changed and written by every process:
of two that compile the same function for different types at once, one may later load the other's code. So `KernelCache`
keeps one file for each function and signature, whole or not there, below the stamp of the sources it was made from::

    <cache directory>/<module>/<stamp of its sources>/<function>-<digest of signature, processor, versions>.nbc

Of each module the last `N_STAMPS` states of its sources are kept, for work trees and branches beside each other.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import pickle
import sys
import time
import uuid
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

import llvmlite
import llvmlite.binding
import numba
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompileResult
from numba.core.imputils import lower_constant
from numba.core.serialize import dumps
from numba.core.typing.templates import infer_global, make_intrinsic_template
from numba.extending import models, overload, register_model

from daskfs import interrupts
from daskfs.kernels.cache_folder import CACHE_DIRECTORY, make_stamped
from daskfs.kernels.collecting import collecting_seldom
from daskfs.kernels.compiler import CompilerForKernels, CompilerForPython, making
from daskfs.kernels.instructions import CHOICES, is_stopped, prefetch
from daskfs.kernels.libraries import LinkedLibrary

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

LONGEST_WAIT_S = 30.0
"""For another process that compiles the same function; then it is compiled here too."""

THREAD_NUMBER = "GetCurrentThreadId" if os.name == "nt" else "pthread_self"
"""The function of the system's that `threading.get_ident` calls."""


class KernelCache:
    """The machine code of one function on disk, for every signature; numba's dispatchers ask it as they ask their own.

    Parameters
    ----------
    function : callable
    folder : Path
        Of all modules.
    stamp : str
        Of the sources of the function's module.
    callers : str
        For whom it is compiled.
    """

    def __init__(self, function: Callable[..., Any], folder: Path, stamp: str, callers: str) -> None:
        if function.__closure__:
            raise TypeError(f"{function.__qualname__} is a closure: its machine code cannot be told from another's")
        self.cache_path = str(folder / function.__module__ / stamp)
        self._function, self._stamp, self._callers = function, stamp, callers
        self._compiling: dict[tuple[str, ...], IO[str]] = {}

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the compiled function for a signature, or None."""
        target_context.refresh()
        key = self._key(sig, target_context.codegen())
        kept = self._read(key)
        if kept is None and self._wait_for_others(key):
            kept = self._read(key)
        if kept is None:
            return None
        if hashlib.sha256(kept[32:]).digest() != kept[:32]:  # the machine went down as it was written
            return None
        found, reduced = pickle.loads(kept[32:])
        if found != key:
            return None
        self._go_on(key)
        with making(JITCodeLibrary if self._callers == "python" else LinkedLibrary, target_context.codegen()):
            return CompileResult._rebuild(target_context, *reduced)

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep a compiled function; what cannot be kept (a full disk) is compiled again by the next process."""
        if data.library.has_dynamic_globals or data.lifted:
            self._go_on(self._key(sig, data.codegen))
            warnings.warn(
                f"{self._function.__qualname__} refers to what is only in this process: not kept", stacklevel=2
            )
            return
        key = self._key(sig, data.codegen)
        path = self._file(key)
        unfinished = path.with_name(f"{path.name}.{uuid.uuid4().hex[:16]}")
        try:
            make_stamped(path.parent)
            *parts, _ = data._reduce()
            reduced = dumps((key, (*parts, data.library.constants())))
            unfinished.write_bytes(hashlib.sha256(reduced).digest() + reduced)
            unfinished.replace(path)
        except OSError:
            with suppress(OSError):
                unfinished.unlink()
        self._go_on(key)

    def _read(self, key: tuple[str, ...]) -> bytes | None:
        try:
            return self._file(key).read_bytes()
        except OSError:
            return None

    def _wait_for_others(self, key: tuple[str, ...]) -> bool:
        """Wait for another process that compiles the same; return whether there was one. Else others wait for this one.

        Functions call each other without circles, so no two processes wait for each other. A process that fails to
        compile, or ends, lets the others go on.
        """
        if fcntl is None:
            return False
        path = self._file(key).with_suffix(".compiling")
        deadline = time.monotonic() + LONGEST_WAIT_S
        try:
            make_stamped(path.parent)
            mine = path.open("w")
        except OSError:
            return False
        waited = False
        while True:
            try:
                fcntl.flock(mine, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                waited = True
                if time.monotonic() > deadline:
                    mine.close()
                    return True
                time.sleep(0.02)
                continue
            self._compiling[key] = mine
            return waited or self._file(key).exists()

    def give_up(self, sig: Any, target_context: Any) -> None:
        """Let others go on: what was to be compiled for a signature cannot be, here."""
        self._go_on(self._key(sig, target_context.codegen()))

    def _go_on(self, key: tuple[str, ...]) -> None:
        """Let others go on that wait for this process."""
        held = self._compiling.pop(key, None)
        if held is not None:
            with suppress(OSError):
                Path(held.name).unlink()
            held.close()

    def flush(self) -> None:
        """Forget all signatures."""
        for path in Path(self.cache_path).glob(f"{self._function.__qualname__}-*"):
            path.unlink(missing_ok=True)

    def _key(self, sig: Any, codegen: Any) -> tuple[str, ...]:
        arguments = sig if isinstance(sig, tuple) else (*sig.args, sig.return_type)
        function = self._function
        of_function = (self._stamp, function.__qualname__, str(function.__code__.co_firstlineno), self._callers)
        versions = (sys.version, numba.__version__, llvmlite.__version__)
        return (*of_function, *versions, *map(str, codegen.magic_tuple()), *map(_described, arguments))

    def _file(self, key: tuple[str, ...]) -> Path:
        digest = hashlib.sha256("\0".join(key).encode()).hexdigest()[:24]
        return Path(self.cache_path) / f"{self._function.__qualname__}-{digest}.nbc"


def _described(kind: Any) -> str:
    """Return the name of a type, with what numba's leaves out: the file and the fields of a record."""
    if not isinstance(kind, types.BaseTuple):
        return str(kind)
    parts = [_described(part) for part in kind]  # type: ignore[attr-defined]
    record = getattr(kind, "instance_class", None)
    if record is None:
        return f"({', '.join(parts)})"
    fields = ", ".join(f"{name}: {part}" for name, part in zip(record._fields, parts, strict=True))
    return f"{record.__module__}.{record.__qualname__}({fields})"


def load_numba_without_blas() -> None:
    """Load numba's array functions without SciPy's BLAS, which takes 15 MiB and which no kernel calls.

    numba imports scipy.linalg only to see whether it is there. Only in worker processes that daskfs starts itself
    (DASKFS_OWN_WORKER is set): elsewhere a user's own numba functions may need it. Without effect where scipy.linalg is
    loaded already.
    """
    if "scipy.linalg" in sys.modules:
        return
    sys.modules["scipy.linalg"] = None  # type: ignore[assignment]  # an import of it fails, as if it were not there
    try:
        import numba.np.arraymath  # noqa: F401
    finally:
        del sys.modules["scipy.linalg"]


if os.environ.get("DASKFS_OWN_WORKER"):
    load_numba_without_blas()


class KernelType(types.Dispatcher):  # type: ignore[misc]
    """The type of a kernel that a kernel refers to: nothing at run time.

    numba writes the address of a dispatcher into the code of whoever refers to it, and does not keep such code on disk
    before an optimiser has seen that nobody reads it.
    """


register_model(KernelType)(models.OpaqueModel)


@lower_constant(KernelType)
def _nothing(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    return context.get_dummy_value()


def compile_or_give_up(compile: Callable[[Any], Any], dispatcher: Any, sig: Any) -> Any:
    """Compile a function for a signature; where that fails or is interrupted, others need not wait for it."""
    try:
        with collecting_seldom():
            return compile(sig)
    except BaseException:
        dispatcher._cache.give_up(sig, dispatcher.targetctx)
        raise


def dispatcher_of(function: Callable[..., Any], fastmath: bool | set[str], stamp: str) -> Any:
    """Return a dispatcher for Python, which has another for kernels that call the function.

    The latter compiles no wrapper that takes Python objects apart, which for a record of twenty arrays is longer than
    the function itself and would be optimised again in every caller.
    """
    while CHOICES:
        chosen, choose = CHOICES.pop()
        overload(chosen)(choose)
    njit: Any = functools.partial(numba.njit, nogil=True, fastmath=fastmath, no_cfunc_wrapper=True)
    for_python: Any = njit(pipeline_class=CompilerForPython)(function)
    if for_python is function:  # NUMBA_DISABLE_JIT
        return function
    for_kernels: Any = njit(pipeline_class=CompilerForKernels, no_cpython_wrapper=True)(function)
    for callers, dispatcher in (("python", for_python), ("kernels", for_kernels)):
        dispatcher._cache = KernelCache(function, CACHE_DIRECTORY, stamp, callers)
        dispatcher.compile = functools.partial(compile_or_give_up, dispatcher.compile, dispatcher)

    def template_of(arguments: Any, keywords: Any) -> Any:
        """Without `types.unliteral`, ``step(0)`` and ``step(i)`` would be two functions."""
        of_arguments = [types.unliteral(kind) for kind in arguments]
        return for_kernels.get_call_template(of_arguments, {name: types.unliteral(keywords[name]) for name in keywords})

    for_python.get_call_template, for_python.get_overload = template_of, for_kernels.get_overload
    return for_python


def instruction(function: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate with what a call of `function` is compiled to."""

    def register(define: Callable[..., Any]) -> Callable[..., Any]:
        infer_global(function, types.Function(make_intrinsic_template(function, define, function.__name__)))
        return define

    return register


@instruction(prefetch)
def _prefetch(typing_context, array, index):  # type: ignore[no-untyped-def]
    signature = types.void(array, index)

    def generate(context, builder, _, arguments):  # type: ignore[no-untyped-def]
        struct = context.make_array(array)(context, builder, arguments[0])
        place = builder.bitcast(builder.gep(struct.data, [arguments[1]]), ir.IntType(8).as_pointer())
        integer = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [place.type, integer, integer, integer])
        function = builder.module.declare_intrinsic("llvm.prefetch", [place.type], kind)
        builder.call(function, [place, *(ir.Constant(integer, number) for number in (1, 3, 1))])  # to write, keep, data
        return context.get_dummy_value()

    return signature, generate


STOP_SYMBOL = "daskfs_stop"
llvmlite.binding.add_symbol(STOP_SYMBOL, ctypes.addressof(interrupts.STOP))


@instruction(is_stopped)
def _is_stopped(typing_context):  # type: ignore[no-untyped-def]
    def generate(context, builder, _, arguments):  # type: ignore[no-untyped-def]
        word, bit = context.get_value_type(types.uintp), ir.IntType(1)
        place = builder.module.globals.get(STOP_SYMBOL) or ir.GlobalVariable(builder.module, word, STOP_SYMBOL)
        thread = builder.load_atomic(place, "monotonic", align=word.width // 8)
        answer = cgutils.alloca_once_value(builder, bit(0))
        with builder.if_then(cgutils.is_not_null(builder, thread), likely=False):
            this = cgutils.get_or_insert_function(builder.module, ir.FunctionType(word, []), THREAD_NUMBER)
            builder.store(builder.icmp_unsigned("==", thread, builder.call(this, [])), answer)
        return builder.load(answer)

    return types.boolean(), generate
