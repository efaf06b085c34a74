# ruff: noqa: ARG001 (numba gives its own arguments)
"""Loads, searches and copies of bytes as LLVM instructions, which numba does not offer.

Kernels that read bytes take addresses, since an array argument takes seven words in each call. Nothing is
checked. Up to 16 bytes behind an address are read, so buffers must be padded.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

_WIDTH = 16
_BYTE = ir.IntType(8)
_VECTOR = ir.VectorType(_BYTE, _WIDTH)


def llvm_code(function: Callable[..., Any]) -> Any:
    """The function as a numba intrinsic: it returns a signature and a generator of LLVM instructions."""
    return intrinsic(function)


def _pointer(builder: Any, address: Any, pointee: Any) -> Any:
    return builder.inttoptr(address, pointee.as_pointer())


def _splat(value: int) -> Any:
    return ir.Constant(_VECTOR, [ir.Constant(_BYTE, value)] * _WIDTH)


@llvm_code
def byte_at(typing_context, at):  # type: ignore[no-untyped-def]
    """The byte at an address."""

    def code(context, builder, signature, args):  # type: ignore[no-untyped-def]
        return builder.load(_pointer(builder, args[0], _BYTE))

    return types.uint8(types.int64), code


@llvm_code
def set_byte(typing_context, at, value):  # type: ignore[no-untyped-def]
    """Store a byte at an address."""

    def code(context, builder, signature, args):  # type: ignore[no-untyped-def]
        builder.store(builder.trunc(args[1], _BYTE), _pointer(builder, args[0], _BYTE))
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), code


@llvm_code
def word_at(typing_context, at):  # type: ignore[no-untyped-def]
    """The eight bytes at an address as one little-endian word."""

    def code(context, builder, signature, args):  # type: ignore[no-untyped-def]
        return builder.load(_pointer(builder, args[0], ir.IntType(64)), align=1)

    return types.uint64(types.int64), code


@llvm_code
def plain_bytes(typing_context, at):  # type: ignore[no-untyped-def]
    """The number of plain bytes, up to 16, at an address before the first special byte of a JSON string.

    Special bytes are control characters, `"`, `\\` and all bytes outside of ASCII.
    """

    def code(context, builder, signature, args):  # type: ignore[no-untyped-def]
        block = builder.load(_pointer(builder, args[0], _VECTOR), align=1)
        # Signed: bytes from 128 on are negative.
        found = builder.icmp_signed("<", block, _splat(32))
        for special in (34, 92):
            found = builder.or_(found, builder.icmp_unsigned("==", block, _splat(special)))
        bits = builder.zext(builder.bitcast(found, ir.IntType(_WIDTH)), ir.IntType(64))
        bits = builder.or_(bits, ir.Constant(ir.IntType(64), 1 << _WIDTH))
        return builder.cttz(bits, ir.Constant(ir.IntType(1), 1))

    return types.int64(types.int64), code


@llvm_code
def copy_bytes(typing_context, to, at, count):  # type: ignore[no-untyped-def]
    """Copy `count` bytes from the address `at` to the address `to`."""

    def code(context, builder, signature, args):  # type: ignore[no-untyped-def]
        target, source = (_pointer(builder, address, _BYTE) for address in args[:2])
        cgutils.raw_memcpy(builder, target, source, args[2], 1)  # type: ignore[no-untyped-call]
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), code
