"""Machine instructions that kernels need and numba does not offer. The only file that writes LLVM IR.

`numba.extending.intrinsic` is documented; the bodies of its functions are written with `llvmlite.ir`.
"""

from __future__ import annotations

import ctypes
from typing import Any

import llvmlite.binding
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from daskfs import interrupts

STOP_SYMBOL = "daskfs_stop"
"""Symbol by which cached machine code finds `daskfs.interrupts.STOP` in each process."""

llvmlite.binding.add_symbol(STOP_SYMBOL, ctypes.addressof(interrupts.STOP))


def _is_stopped(typing_context):  # type: ignore[no-untyped-def]
    """Return whether `daskfs.interrupts.STOP` names the calling thread."""

    def generate(context, builder, _, arguments):  # type: ignore[no-untyped-def]
        word, bit = context.get_value_type(types.uintp), ir.IntType(1)
        known = builder.module.globals
        place = known.get(STOP_SYMBOL) or ir.GlobalVariable(builder.module, word, STOP_SYMBOL)
        this_thread = known.get("pthread_self") or ir.Function(
            builder.module,
            ir.FunctionType(word, []),
            "pthread_self",  # called by `threading.get_ident`
        )
        thread = builder.load_atomic(place, "monotonic", align=word.width // 8)
        before = builder.basic_block
        with builder.if_then(builder.icmp_unsigned("!=", thread, word(0)), likely=False):
            is_this = builder.icmp_unsigned("==", thread, builder.call(this_thread, []))
            asked = builder.basic_block
        answer = builder.phi(bit)
        answer.add_incoming(bit(0), before)
        answer.add_incoming(is_this, asked)
        return answer

    return types.boolean(), generate


def _prefetch(typing_context, array, index):  # type: ignore[no-untyped-def]
    """Prefetch ``array[index]`` for writing."""

    def generate(context, builder, _, arguments):  # type: ignore[no-untyped-def]
        struct = context.make_array(array)(context, builder, arguments[0])
        place = builder.bitcast(builder.gep(struct.data, [arguments[1]]), ir.IntType(8).as_pointer())
        integer = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [place.type, integer, integer, integer])
        function = builder.module.declare_intrinsic("llvm.prefetch", [place.type], kind)
        builder.call(function, [place, *(ir.Constant(integer, number) for number in (1, 3, 1))])  # write, keep, data
        return context.get_dummy_value()

    return types.void(array, index), generate


def _address_of(typing_context, text):  # type: ignore[no-untyped-def]
    """Return the address of the first element of an array. The array must be kept alive while the address is used."""

    def generate(context, builder, _, arguments):  # type: ignore[no-untyped-def]
        struct = context.make_array(text)(context, builder, arguments[0])
        return builder.ptrtoint(struct.data, ir.IntType(64))

    return types.int64(text), generate


def _byte_at(typing_context, address):  # type: ignore[no-untyped-def]
    """Return the byte at an address."""

    def generate(context, builder, _, arguments):  # type: ignore[no-untyped-def]
        loaded = builder.load(builder.inttoptr(arguments[0], ir.IntType(8).as_pointer()))
        return builder.zext(loaded, ir.IntType(64))

    return types.int64(types.int64), generate


def _word_at(typing_context, address):  # type: ignore[no-untyped-def]
    """Return the eight bytes from an address on."""

    def generate(context, builder, _, arguments):  # type: ignore[no-untyped-def]
        return builder.load(builder.inttoptr(arguments[0], ir.IntType(64).as_pointer()), align=1)

    return types.uint64(types.int64), generate


def _trailing_zeros(typing_context, word):  # type: ignore[no-untyped-def]
    """Return the number of trailing zero bits of a nonzero word."""

    def generate(context, builder, _, arguments):  # type: ignore[no-untyped-def]
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.uint64), generate


is_stopped: Any = intrinsic(_is_stopped)
prefetch: Any = intrinsic(_prefetch)
address_of: Any = intrinsic(_address_of)
byte_at: Any = intrinsic(_byte_at)
word_at: Any = intrinsic(_word_at)
trailing_zeros: Any = intrinsic(_trailing_zeros)
