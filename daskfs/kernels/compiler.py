"""How numba is made to compile kernels: the same bits whoever has compiled, and nothing done twice."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from numba.core import types
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.targetconfig import ConfigStack
from numba.core.typed_passes import NativeLowering
from numba.extending import overload
from numba.np import arrayobj

from daskfs import interrupts
from daskfs.kernels.borrowing import BorrowingLowering
from daskfs.kernels.libraries import LinkedLibrary, NativeLibrary, PlainLibrary


def refuse_shapes(source: Any, target: Any) -> None:
    """Say that an array does not fit where it is assigned; numba's own words take a second to compile."""


@overload(refuse_shapes)
def _refuse_shapes(source, target):  # type: ignore[no-untyped-def]
    def refuse(source, target):  # type: ignore[no-untyped-def]
        raise ValueError("an array is assigned to one of another shape")

    return refuse


class CallTypes:
    """What numba found for calls of its own functions with arguments of some types.

    It tries dozens of templates for every ``a + b`` and ``a[i]``, and does so whenever it goes through a function.
    """

    def __init__(self) -> None:
        self._resolve: Any = types.Function.get_call_type
        self._found: dict[Any, tuple[Any, Any]] = {}
        self._options: tuple[Any, str] = (None, "")

    def resolve(self, function: Any, context: Any, arguments: Any, keywords: Any) -> Any:
        """Return the signature of a call."""
        key = (function, context, tuple(arguments), tuple(keywords.items()), self._options_now())
        found = self._found.get(key)
        if found is None:
            signature: Any = self._resolve(function, context, arguments, keywords)
            self._found[key] = signature, function._impl_keys[signature.args]
            return signature
        signature, function._impl_keys[signature.args] = found
        return signature

    def _options_now(self) -> str:
        """Return the options with which is compiled, on which the machine code of numba's functions depends."""
        now = ConfigStack.top_or_none()
        if now is not self._options[0]:
            self._options = now, str(sorted(now._values.items()))
        return self._options[1]


CALL_TYPES = CallTypes()


@contextmanager
def making(library: type[JITCodeLibrary], codegen: Any) -> Iterator[None]:
    """Have numba make libraries of a class for what is compiled or loaded, by our ways; under its compiler lock."""
    function: Any = types.Function
    before = codegen._library_class, arrayobj.raise_with_shape_context, function.get_call_type
    codegen._library_class, arrayobj.raise_with_shape_context = library, refuse_shapes
    function.get_call_type = lambda *asked: CALL_TYPES.resolve(*asked)
    try:
        yield
    finally:
        codegen._library_class, arrayobj.raise_with_shape_context, function.get_call_type = before


class CompilerForKernels(Compiler):
    """Compiles a function that kernels call."""

    library_class: type[JITCodeLibrary] = PlainLibrary

    def define_pipelines(self) -> list[Any]:
        """Return numba's passes, with references counted where they need be."""
        [passes] = super().define_pipelines()
        passes.passes = [(BorrowingLowering if one is NativeLowering else one, name) for one, name in passes.passes]
        return [passes]

    def _compile_core(self) -> Any:
        interrupts.raise_waiting()
        codegen = self.state.targetctx.codegen()
        library = self.library_class
        if library is PlainLibrary and self.state.flags.fastmath:
            library = LinkedLibrary
        self.state.library = library(codegen, self.state.func_id.func_qualname)
        self.state.library.enable_object_caching()
        with making(PlainLibrary, codegen):  # numba's own functions among them
            return super()._compile_core()


class CompilerForPython(CompilerForKernels):
    """Compiles a function that Python calls."""

    library_class = NativeLibrary
