"""Sixteen dot products of bytes at a time, by an instruction that some processors have.

Sums of int32 are exact: those of other processors, of float32 over short bands, are the same numbers.
"""

from __future__ import annotations

import llvmlite.binding
from llvmlite import ir
from numba import config, types

from daskfs.kernels.instructions import STRIP, add_integer_tile
from daskfs.kernels.linear.gram_tiles import TILE
from daskfs.kernels.machine_code import instruction

_IS_FOR_THIS_MACHINE = not (getattr(config, "CPU_NAME", None) or getattr(config, "CPU_FEATURES", None))
HAS_BYTE_PRODUCTS = _IS_FOR_THIS_MACHINE and llvmlite.binding.get_host_cpu_features().get("avx512vnni", False)
"""Whether one instruction adds 64 products of bytes, without which nothing here can be compiled."""
WIDTH = 64
LANES = ir.VectorType(ir.IntType(32), 16)
BYTES = ir.VectorType(ir.IntType(8), WIDTH)


@instruction(add_integer_tile)
def _add_integer_tile(typing_context, left, right, b, sums, a):  # type: ignore[no-untyped-def]
    signature = types.void(left, right, b, sums, a)

    def generate(context, builder, _, arguments):  # type: ignore[no-untyped-def]
        integer = arguments[2].type
        arrays = [context.make_array(signature.args[q])(context, builder, arguments[q]) for q in (0, 1, 3)]
        rows = [[builder.mul(integer(q), integer(STRIP)) for q in range(TILE)]]
        rows.append([builder.mul(builder.add(arguments[2], integer(q)), integer(STRIP)) for q in range(TILE)])
        before, loop = builder.basic_block, builder.append_basic_block("loop")
        after = builder.append_basic_block("after")
        builder.branch(loop)
        builder.position_at_end(loop)
        at = builder.phi(integer)
        at.add_incoming(integer(0), before)
        totals = [builder.phi(LANES) for _ in range(TILE * TILE)]
        some = []
        for array, starts in zip(arrays[:2], rows, strict=True):
            places = [builder.gep(array.data, [builder.add(start, at)]) for start in starts]
            some.append([builder.load(builder.bitcast(place, BYTES.as_pointer()), align=1) for place in places])
        add = _intrinsic(builder, "llvm.x86.avx512.vpdpbusd.512", LANES, [LANES, BYTES, BYTES])
        later = [builder.call(add, [total, some[0][q // TILE], some[1][q % TILE]]) for q, total in enumerate(totals)]
        for total, then in zip(totals, later, strict=True):
            total.add_incoming(ir.Constant(LANES, None), before)
            total.add_incoming(then, loop)
        following = builder.add(at, integer(WIDTH))
        at.add_incoming(following, loop)
        builder.cbranch(builder.icmp_signed("<", following, integer(STRIP)), loop, after)
        builder.position_at_end(after)
        n_columns = builder.extract_value(arrays[2].shape, 1)
        reduce = _intrinsic(builder, "llvm.vector.reduce.add.v16i32", LANES.element, [LANES])
        for q, total in enumerate(later):
            found = builder.sitofp(builder.call(reduce, [total]), ir.DoubleType())
            row = builder.mul(builder.add(arguments[4], integer(q // TILE)), n_columns)
            place = builder.gep(arrays[2].data, [builder.add(row, builder.add(arguments[2], integer(q % TILE)))])
            builder.store(builder.fadd(builder.load(place), found), place)
        return context.get_dummy_value()

    return signature, generate


def _intrinsic(builder, name, result, arguments):  # type: ignore[no-untyped-def]
    found = builder.module.globals.get(name)
    return found or ir.Function(builder.module, ir.FunctionType(result, arguments), name)
