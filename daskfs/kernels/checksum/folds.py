"""Bytes folded to 256 with the same crc32c: bytes are polynomials over {0, 1}, and crc32c a remainder modulo P.

What is followed by D bits stands for x^D times itself, so it may be added to these as its product with x^D mod P, which
is short. Four registers of 64 bytes hold what was read so far, and 64 bits of them at a time are multiplied. That takes
half as long as the instruction crc32, which takes 8 bytes in a cycle.
"""

from __future__ import annotations

import llvmlite.binding
from llvmlite import ir
from numba import config, types

from daskfs.kernels.instructions import fold
from daskfs.kernels.jit import kernel
from daskfs.kernels.machine_code import instruction

_IS_FOR_THIS_MACHINE = not (getattr(config, "CPU_NAME", None) or getattr(config, "CPU_FEATURES", None))
_FEATURES = llvmlite.binding.get_host_cpu_features() if _IS_FOR_THIS_MACHINE else {}
CAN_FOLD = all(_FEATURES.get(name, False) for name in ("avx512f", "vpclmulqdq"))
"""Whether one instruction multiplies four pairs of polynomials, without which nothing here can be compiled."""
REGISTER, N_REGISTERS = 64, 4
FOLDED = REGISTER * N_REGISTERS
"""Bytes that are left."""
P = 0x11EDC6F41
LANES = ir.VectorType(ir.IntType(64), REGISTER // 8)


def _power(n_bits: int) -> int:
    """Return x^n mod P, its highest power in the lowest bit, as bytes are read."""
    found = 1
    for _ in range(n_bits):
        found <<= 1
        found ^= P if found >> 32 else 0
    return int(f"{found:032b}"[::-1], 2) << 1


@kernel
def folded(data, begun, out):  # type: ignore[no-untyped-def]
    """Fold bytes to those of `out`, which have the same remainder.

    Parameters
    ----------
    data : ndarray of shape (n,), uint8
        n > 0, a multiple of `FOLDED`.
    begun : int
        Remainder of what comes before, which is added to the first four bytes.
    out : ndarray of shape (FOLDED,), uint8
        Written.
    """
    fold(data, begun, out)


@instruction(fold)
def _fold(typing_context, data, begun, out):  # type: ignore[no-untyped-def]
    signature = types.void(data, begun, out)

    def generate(context, builder, _, arguments):  # type: ignore[no-untyped-def]
        read, written = (context.make_array(signature.args[q])(context, builder, arguments[q]) for q in (0, 2))
        n_bytes = builder.extract_value(read.shape, 0)
        integer, half = n_bytes.type, ir.IntType(64)
        kind = ir.FunctionType(LANES, [LANES, LANES, ir.IntType(8)])
        multiply = ir.Function(builder.module, kind, "llvm.x86.pclmulqdq.512")
        distance = 8 * FOLDED
        powers = ir.Constant(LANES, [_power(distance + 32), _power(distance - 32)] * (REGISTER // 16))

        def place(array, at):  # type: ignore[no-untyped-def]
            return builder.bitcast(builder.gep(array.data, [at]), LANES.as_pointer())

        starts = [integer(q * REGISTER) for q in range(N_REGISTERS)]
        first = [builder.load(place(read, start), align=1) for start in starts]
        before = builder.zext(builder.trunc(arguments[1], ir.IntType(32)), half)
        none = ir.Constant(LANES, [0] * (REGISTER // 8))
        first[0] = builder.xor(first[0], builder.insert_element(none, before, starts[0]))
        entry, loop, step = builder.basic_block, *(builder.append_basic_block(name) for name in ("loop", "step"))
        after = builder.append_basic_block("after")
        builder.branch(loop)
        builder.position_at_end(loop)
        at = builder.phi(integer)
        at.add_incoming(integer(FOLDED), entry)
        registers = [builder.phi(LANES) for _ in starts]
        for register, value in zip(registers, first, strict=True):
            register.add_incoming(value, entry)
        builder.cbranch(builder.icmp_signed("<", at, n_bytes), step, after)
        builder.position_at_end(step)
        for register, start in zip(registers, starts, strict=True):
            low, high = (builder.call(multiply, [register, powers, ir.IntType(8)(both)]) for both in (0x00, 0x11))
            value = builder.load(place(read, builder.add(at, start)), align=1)
            register.add_incoming(builder.xor(builder.xor(low, high), value), step)
        at.add_incoming(builder.add(at, integer(FOLDED)), step)
        builder.branch(loop)
        builder.position_at_end(after)
        for register, start in zip(registers, starts, strict=True):
            builder.store(register, place(written, start), align=1)
        return context.get_dummy_value()

    return signature, generate
