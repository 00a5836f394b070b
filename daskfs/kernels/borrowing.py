"""Which variables of a kernel need no count of references: the arguments, and what is seen through them.

numba counts whenever an array is named: once for each of the twenty arrays of a record that is handed on, and once
more when the name ends. Whoever calls a kernel holds its arguments until it returns. So a variable that only ever
refers to arguments, their fields and views of them borrows what the caller holds, and is not counted.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from numba.core import ir, types
from numba.core.compiler_machinery import register_pass
from numba.core.lowering import Lower
from numba.core.typed_passes import BaseNativeLowering

PLAIN_INDICES = (types.Integer, types.SliceType, types.EllipsisType, types.NoneType)


class BorrowingLower(Lower):  # type: ignore[misc]
    """Writes a kernel's LLVM code; variables that borrow are not counted."""

    def init(self) -> None:
        """Find the variables that borrow."""
        super().init()
        self.borrowing: set[str] = set()
        if not self.func_ir.func_id.is_generator:
            self.borrowing = self._find_borrowing()

    def lower_assign(self, ty: Any, inst: Any) -> Any:
        """Write an assignment; where its target borrows, without what it is made of being counted."""
        if inst.target.name not in self.borrowing:
            return super().lower_assign(ty, inst)
        with self._uncounted():
            return super().lower_assign(ty, inst)

    def storevar(self, value: Any, name: str, argidx: int | None = None) -> None:
        """Write that a variable is given a value."""
        if name not in self.borrowing:
            return super().storevar(value, name, argidx)
        with self._uncounted():
            super().storevar(value, name, argidx)

    def delvar(self, name: str) -> None:
        """Write that a variable ends."""
        if name not in self.borrowing:
            super().delvar(name)

    @contextmanager
    def _uncounted(self) -> Iterator[None]:
        before, self.context.enable_nrt = self.context.enable_nrt, False
        try:
            yield
        finally:
            self.context.enable_nrt = before

    def _find_borrowing(self) -> set[str]:
        """Return the largest set of counted variables whose every value comes of arguments and members of the set."""
        values: dict[str, list[Any]] = {}
        returned = set()
        for block in self.blocks.values():
            for inst in block.body:
                if isinstance(inst, ir.Assign):
                    values.setdefault(inst.target.name, []).append(inst.value)
                elif isinstance(inst, ir.Return):
                    returned.add(inst.value.name)
        models = self.context.data_model_manager
        counted = {name for name in values if models[self.typeof(name)].contains_nrt_meminfo()}
        found = counted - returned
        while True:
            owned = counted - found
            kept = {name for name in found if all(self._borrows(value, owned) for value in values[name])}
            if kept == found:
                return found
            found = kept

    def _borrows(self, value: Any, owned: set[str]) -> bool:
        """Whether a value refers to nothing but what its parts refer to, and none of these is owned."""
        if isinstance(value, ir.Var):
            return value.name not in owned
        if not isinstance(value, ir.Expr):
            return not isinstance(value, ir.Yield)
        parts = []
        if value.op == "build_tuple":
            parts = value.items
        elif value.op == "call" and isinstance(self.typeof(value.func.name), types.NamedTupleClass):
            parts = [*value.args, *(part for _, part in value.kws)]
        elif value.op in ("cast", "exhaust_iter") or self._is_view(value):
            parts = [value.value]
        elif value.op != "undef":
            return False
        return all(part.name not in owned for part in parts)

    def _is_view(self, value: Any) -> bool:
        """Whether a value is a field, an item or a part of another, and not a copy."""
        if value.op not in ("getattr", "getitem", "static_getitem"):
            return False
        whole = self.typeof(value.value.name)
        if isinstance(whole, types.BaseTuple):
            return True
        if not isinstance(whole, types.Array):
            return False
        if value.op == "getattr":
            return bool(value.attr == "T")
        index = value.index_var if value.op == "static_getitem" else value.index
        kinds: Any = self.typeof(index.name) if index is not None else None
        each: Any = kinds if isinstance(kinds, types.BaseTuple) else [kinds]
        return all(isinstance(kind, PLAIN_INDICES) for kind in each)


@register_pass(mutates_CFG=True, analysis_only=False)
class BorrowingLowering(BaseNativeLowering):  # type: ignore[misc]
    """numba's last pass but one, by `BorrowingLower`."""

    _name = "borrowing_lowering"  # type: ignore[assignment]

    @property
    def lowering_class(self) -> type[Lower]:
        """What writes LLVM code."""
        return BorrowingLower
