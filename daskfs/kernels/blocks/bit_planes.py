"""Numbers put together from their bits, which Blosc's bitshuffle writes in planes: all first bits, all second ones.

A plane has a byte for 8 numbers. Eight planes of 512 numbers fill eight registers: they are interleaved by 8 bytes, so
that each has 64 numbers, then by bytes, and an instruction turns the squares of 8 bits by 8 that this gives.
"""

from __future__ import annotations

from typing import Any

import llvmlite.binding
import numpy as np
from llvmlite import ir
from numba import config, types

from daskfs.kernels.instructions import from_planes
from daskfs.kernels.jit import inner_loop, is_stopped, kernel
from daskfs.kernels.machine_code import instruction

_IS_FOR_THIS_MACHINE = not (getattr(config, "CPU_NAME", None) or getattr(config, "CPU_FEATURES", None))
_FEATURES = llvmlite.binding.get_host_cpu_features() if _IS_FOR_THIS_MACHINE else {}
CAN_TURN = all(_FEATURES.get(name, False) for name in ("avx512bw", "avx512vbmi", "gfni"))
"""Whether the processor turns squares of bits and moves bytes anywhere, without which nothing here can be compiled."""
GROUP = 512
"""Numbers put together at once."""
BYTES, WORDS = ir.VectorType(ir.IntType(8), 64), ir.VectorType(ir.IntType(64), 8)


@kernel
def put_together(numbers, planes, per_block):  # type: ignore[no-untyped-def]
    """Put numbers together in place, of which each block has planes of its own.

    Parameters
    ----------
    numbers : ndarray of shape (n,), uint8, uint16, uint32 or uint64
        n a multiple of 8; replaced.
    planes : ndarray of uint8
        Room for a block.
    per_block : int
        Numbers of a block, a multiple of 8; the last one may have fewer.
    """
    bits = numbers.view(np.uint8)
    size = numbers.itemsize
    for start in range(0, numbers.shape[0], per_block):
        if is_stopped():
            break
        n = min(per_block, numbers.shape[0] - start)
        _copy(bits[start * size : (start + n) * size], planes)
        whole = n - n % GROUP
        for first in range(0, whole, GROUP):
            from_planes(planes, n // 8, first // 8, numbers, start + first)
        for i in range(whole, n):
            number = np.uint64(0)
            for plane in range(8 * size):
                bit = (planes[plane * (n // 8) + i // 8] >> np.uint8(i % 8)) & np.uint8(1)
                number |= np.uint64(bit) << np.uint64(plane)
            numbers[start + i] = number


@inner_loop
def _copy(values, out):  # type: ignore[no-untyped-def]
    for i in range(values.shape[0]):
        out[i] = values[i]


@instruction(from_planes)
def _from_planes(typing_context, planes, plane_nbytes, at, numbers, first):  # type: ignore[no-untyped-def]
    signature = types.void(planes, plane_nbytes, at, numbers, first)

    def generate(context, builder, _, arguments):  # type: ignore[no-untyped-def]
        read, written = (context.make_array(signature.args[q])(context, builder, arguments[q]) for q in (0, 3))
        size, integer = signature.args[3].dtype.bitwidth // 8, arguments[1].type
        kind = ir.FunctionType(BYTES, [BYTES, BYTES, ir.IntType(8)])
        turn = ir.Function(builder.module, kind, "llvm.x86.vgf2p8affineqb.512")
        one_bit = ir.Constant(BYTES, [1 << m for m in range(8)] * 8)
        by_bytes = [64 // 8 * (7 - k) + m for m in range(8) for k in range(8)]
        columns = []
        for byte in range(size):
            lines = []
            for plane in range(8 * byte, 8 * byte + 8):
                place = builder.add(arguments[2], builder.mul(integer(plane), arguments[1]))
                place = builder.bitcast(builder.gep(read.data, [place]), WORDS.as_pointer())
                lines.append(builder.load(place, align=1))
            squares = [_shuffled(builder, builder.bitcast(line, BYTES), by_bytes) for line in _zipped(builder, lines)]
            columns.append([builder.call(turn, [one_bit, square, ir.IntType(8)(0)]) for square in squares])
        out = builder.bitcast(builder.gep(written.data, [arguments[4]]), BYTES.as_pointer())
        for group in range(8):
            for q, part in enumerate(_zipped(builder, [column[group] for column in columns])):
                builder.store(part, builder.gep(out, [integer(size * group + q)]), align=1)
        return context.get_dummy_value()

    return signature, generate


def _zipped(builder: Any, vectors: list[Any]) -> list[Any]:
    """Return vectors with the first elements of all, then the second ones, and so on."""
    if len(vectors) == 1:
        return vectors
    n = vectors[0].type.count
    halves = [[number for pair in range(low, low + n // 2) for number in (pair, n + pair)] for low in (0, n // 2)]
    even, odd = _zipped(builder, vectors[::2]), _zipped(builder, vectors[1::2])
    return [_shuffled(builder, a, half, b) for a, b in zip(even, odd, strict=True) for half in halves]


def _shuffled(builder: Any, vector: Any, numbers: list[int], other: Any = None) -> Any:
    other = ir.Constant(vector.type, ir.Undefined) if other is None else other
    return builder.shuffle_vector(vector, other, ir.Constant(ir.VectorType(ir.IntType(32), len(numbers)), numbers))
