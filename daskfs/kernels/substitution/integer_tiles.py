"""Sixteen dot products of bytes at a time, by an instruction that some processors have.

Sums of int32 are exact: those of other processors, of float32 over short bands, are the same numbers.
"""

from __future__ import annotations

import llvmlite.binding
import numpy as np
from llvmlite import ir
from numba import config, types
from numba.extending import intrinsic

from daskfs.kernels.linear.columns import copy_into
from daskfs.kernels.numba_cache import inner_loop, is_stopped, kernel

TILE = 4
STRIP = 4096
"""Bytes of each row that are multiplied at once; 4096 x 255 x 128 is far below 2³¹."""
HAS_BYTE_PRODUCTS = not getattr(config, "CPU_NAME", None) and llvmlite.binding.get_host_cpu_features().get(
    "avx512vnni", False
)
"""Whether one instruction adds 64 products of bytes, without which nothing here can be compiled."""
WIDTH = 64
LANES = ir.VectorType(ir.IntType(32), 16)
BYTES = ir.VectorType(ir.IntType(8), WIDTH)


@intrinsic
def add_integer_tile(typing_context, left, right, b, sums, a):  # type: ignore[no-untyped-def]
    """Add the dot products of the rows of `left` with rows b to b + 3 of `right` to ``sums[a : a + 4, b : b + 4]``.

    Parameters
    ----------
    left : ndarray of shape (4, STRIP), uint8
    right : ndarray of shape (>= b + 4, STRIP), int8
    b, a : int
    sums : ndarray of shape (>= a + 4, >= b + 4), float64
        Exact as long as they are below 2⁵³.
    """
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


@kernel
def add_strips(left, right, which, strip, panel, sums, is_symmetric):  # type: ignore[no-untyped-def]
    """Add products of whole numbers, Σ (x + 128) y - 128 Σ y: processors multiply unsigned bytes with signed ones."""
    n_samples = left.shape[1]
    strip[:] = 0
    panel[:] = 0
    for start in range(0, n_samples, STRIP):
        if is_stopped():
            break
        stop = min(start + STRIP, n_samples)
        if stop - start < STRIP:
            panel[:] = 0
        for b in range(which.shape[0]):
            copy_into(right[which[b], start:stop], panel[b])
        for a in range(0, left.shape[0], TILE):
            if is_stopped():
                break
            for q in range(min(TILE, left.shape[0] - a)):
                _raise(left[a + q, start:stop], strip[q])
            for b in range(a if is_symmetric else 0, panel.shape[0], TILE):
                add_integer_tile(strip, panel, b, sums, a)  # type: ignore[call-arg]
    for b in range(which.shape[0]):
        if is_stopped():
            break
        raised = 128.0 * _total(right[which[b]])
        for a in range(sums.shape[0]):
            sums[a, b] -= raised


@inner_loop
def _raise(row, out):  # type: ignore[no-untyped-def]
    for i in range(row.shape[0]):
        out[i] = np.int32(row[i]) + 128


@inner_loop
def _total(row):  # type: ignore[no-untyped-def]
    total = 0
    for i in range(row.shape[0]):
        total += row[i]
    return total
