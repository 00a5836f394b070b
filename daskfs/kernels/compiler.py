"""How numba is made to compile kernels: natively only what Python calls, and the same bits whoever has compiled.

As numba has it, every function becomes native code of its own and is optimised again inside each of its callers. The
process that has compiled then calls the former where a process that loads the caller from disk calls the latter, and
dot products that are optimised twice need not be summed as those that are optimised once: the last bit changed with the
state of the cache. So a function that only kernels call is kept as LLVM's bitcode, to be linked into its callers, and
what is linked is each caller's own. It takes less than three quarters of the time, too.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import llvmlite.binding
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.extending import overload
from numba.np import arrayobj

from daskfs import interrupts

ENVIRONMENT = "_ZN08NumbaEnv"
"""How the names of variables begin through which a function finds its Python constants; one in a process."""


class NativeLibrary(JITCodeLibrary):
    """The code of a function that Python calls, with all that it calls; no other library shares these."""

    def _finalize_final_module(self) -> None:
        for function in self._final_module.functions:
            if function.linkage == llvmlite.binding.Linkage.linkonce_odr:
                function.linkage = llvmlite.binding.Linkage.internal
        super()._finalize_final_module()


class LinkedLibrary(JITCodeLibrary):
    """The code of a function that kernels call: to be linked into theirs, not native."""

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._verify_declare_only_symbols()
        engine = self._codegen._engine
        found = (v for v in self._final_module.global_variables if v.name.startswith(ENVIRONMENT))
        missing = [str(variable) for variable in found if not engine.is_symbol_defined(variable.name)]
        if missing:
            engine.add_module(llvmlite.binding.parse_assembly("\n".join(missing)))
            engine.finalize_object()
        self._finalized = True

    def serialize_using_object_code(self) -> tuple[Any, ...]:
        """Return what is kept on disk."""
        kept: tuple[Any, ...] = self.serialize_using_bitcode()
        return kept


class PlainLibrary(LinkedLibrary):
    """The same, optimised where it is linked into native code alone: nothing in it may be summed in another order."""

    def _optimize_functions(self, module: Any) -> None:
        module.data_layout = self._codegen._data_layout

    def _optimize_final_module(self) -> None:
        """Leave it to whom it is linked into."""


def refuse_shapes(source: Any, target: Any) -> None:
    """Say that an array does not fit where it is assigned; numba's own words take a second to compile."""


@overload(refuse_shapes)
def _refuse_shapes(source, target):  # type: ignore[no-untyped-def]
    def refuse(source, target):  # type: ignore[no-untyped-def]
        raise ValueError("an array is assigned to one of another shape")

    return refuse


@contextmanager
def making(library: type[JITCodeLibrary], codegen: Any) -> Iterator[None]:
    """Have numba make libraries of a class for what is compiled or loaded; under numba's compiler lock."""
    before = codegen._library_class, arrayobj.raise_with_shape_context
    codegen._library_class, arrayobj.raise_with_shape_context = library, refuse_shapes
    try:
        yield
    finally:
        codegen._library_class, arrayobj.raise_with_shape_context = before


@contextmanager
def collecting_seldom() -> Iterator[None]:
    """Let Python look for circles after 50,000 objects, not 700: what a compiler makes stays, and looking took a sixth.

    Under numba's compiler lock. It takes 10 MiB more; without any collection it would be 130.
    """
    before = gc.get_threshold()
    gc.set_threshold(max(before[0], 50_000) if before[0] else 0, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


class CompilerForKernels(Compiler):
    """Compiles a function that kernels call."""

    library_class: type[JITCodeLibrary] = PlainLibrary

    def _compile_core(self) -> Any:
        interrupts.raise_waiting()
        codegen = self.state.targetctx.codegen()
        library = self.library_class
        if library is PlainLibrary and self.state.flags.fastmath:
            library = LinkedLibrary
        self.state.library = library(codegen, self.state.func_id.func_qualname)
        self.state.library.enable_object_caching()
        with collecting_seldom(), making(PlainLibrary, codegen):  # numba's own functions among them
            return super()._compile_core()


class CompilerForPython(CompilerForKernels):
    """Compiles a function that Python calls."""

    library_class = NativeLibrary
