"""Where the code of kernels is gathered: each function by itself, linked once, natively only what Python calls.

As numba has it, every function becomes native code of its own and is optimised again inside each of its callers. The
process that has compiled then calls the former where a process that loads the caller from disk calls the latter, and
dot products that are optimised twice need not be summed as those that are optimised once: the last bit changed with the
state of the cache. So a function that only kernels call is kept as LLVM's bitcode, to be linked into its callers, and
what is linked is each caller's own. It takes less than three quarters of the time, too.
"""

from __future__ import annotations

import functools
from typing import Any

import llvmlite.binding
from numba.core.codegen import JITCodeLibrary
from numba.core.environment import lookup_environment

ENVIRONMENT = "_ZN08NumbaEnv"
"""How the names of variables begin through which a function finds its Python constants; one in a process."""


class KernelLibrary(JITCodeLibrary):  # type: ignore[misc]
    """The code of a function, to which what it calls is linked once, where native code is made."""

    def finalize(self) -> None:
        """Link all that this calls, directly or not, in the order of each being linked into its callers."""
        self._linking_libraries = self.called()
        super().finalize()

    def called(self) -> list[Any]:
        """Return the libraries that are not yet linked to this."""
        found: dict[Any, None] = {}
        to_visit = self._linking_libraries[::-1]
        while to_visit:
            library = to_visit.pop()
            if library not in found:
                found[library] = None
                if isinstance(library, PlainLibrary):
                    to_visit.extend(library._linking_libraries[::-1])
        return list(found)

    @functools.cached_property
    def environments(self) -> dict[str, str]:
        """The variables that lead the functions in this to their Python constants, and their declarations."""
        variables = ((variable.name, variable) for variable in self._final_module.global_variables)
        return {name: str(variable) for name, variable in variables if name.startswith(ENVIRONMENT)}

    def constants(self) -> tuple[Any, ...]:
        """Return the Python constants of the functions in this, to be kept on disk with it."""
        found = map(lookup_environment, self.environments)
        return tuple(one for one in found if one is not None and one.can_cache())


class NativeLibrary(KernelLibrary):
    """The code of a function that Python calls, with all that it calls; no other library shares these."""

    def _finalize_final_module(self) -> None:
        for function in self._final_module.functions:
            if function.linkage == llvmlite.binding.Linkage.linkonce_odr:
                function.linkage = llvmlite.binding.Linkage.internal
        super()._finalize_final_module()


class LinkedLibrary(KernelLibrary):
    """The code of a function that kernels call: to be linked into theirs, not native."""

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._verify_declare_only_symbols()
        engine = self._codegen._engine
        missing = [text for name, text in self.environments.items() if not engine.is_symbol_defined(name)]
        if missing:
            engine.add_module(llvmlite.binding.parse_assembly("\n".join(missing)))
            engine.finalize_object()
        self._finalized = True

    @functools.cached_property
    def bitcode(self) -> bytes:
        """The code itself."""
        code: bytes = self._get_module_for_linking().as_bitcode()
        return code

    def serialize_using_object_code(self) -> tuple[Any, ...]:
        """Return what is kept on disk."""
        return self.name, "bitcode", (self.bitcode,)

    @classmethod
    def _unserialize(cls, codegen: Any, state: tuple[Any, ...]) -> Any:
        """Return the library that was kept."""
        name, _, (first, *others) = state
        self = codegen.create_library(name)
        self._final_module = llvmlite.binding.parse_bitcode(first)
        for other in others:
            self._final_module.link_in(llvmlite.binding.parse_bitcode(other))
        self._finalize_final_module()
        return self


class PlainLibrary(LinkedLibrary):
    """The same, linked and optimised with native code alone: nothing in it may be summed in another order."""

    def finalize(self) -> None:
        """Leave it to whom it is linked into."""
        for library in self._linking_libraries:
            self._reload_init.update(library._reload_init)
            self._dynamic_globals.extend(library._dynamic_globals)
        self._finalize_final_module()

    def _verify_declare_only_symbols(self) -> None:
        """What it calls is in other libraries."""

    def _optimize_functions(self, module: Any) -> None:
        module.data_layout = self._codegen._data_layout

    def serialize_using_object_code(self) -> tuple[Any, ...]:
        """Return what is kept on disk: this, and all that it calls."""
        return self.name, "bitcode", tuple(library.bitcode for library in self._kept())

    def constants(self) -> tuple[Any, ...]:
        """Return the Python constants of this and of all that it calls."""
        return tuple(one for library in self._kept() for one in LinkedLibrary.constants(library))

    def _kept(self) -> list[LinkedLibrary]:
        """Return this and all that it calls, without numba's own."""
        return [library for library in (self, *self.called()) if isinstance(library, LinkedLibrary)]
