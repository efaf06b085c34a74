"""Z-order and Hilbert curves: one sort value that keeps rows together whose values are close in several
columns.

Follows `SpaceCurveSortingHelper` of Hudi 0.15 with the curve build method DIRECT: each value becomes a number
of 64 bits in the order of its column, and the numbers' bits are interleaved (z-order) or follow the Hilbert
curve (J. Skilling, "Programming the Hilbert curve", 2004). Pure Arrow and numpy.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hudisql.errors import UnsupportedTableError

Curve = Literal["z-order", "hilbert"]
_BITS = 64
_SIGN = np.uint64(1 << 63)
_Numbers = npt.NDArray[np.uint64]


def curve_values(columns: Sequence[pa.Array], names: Sequence[str], curve: Curve) -> pa.Array:
    """The position of each row on the curve, as binary values that sort bytewise; nulls come first.

    Raises UnsupportedTableError for columns whose values have no order.
    """
    numbers = [_ordered(column, name) for column, name in zip(columns, names, strict=True)]
    return _interleaved(_hilbert(numbers) if curve == "hilbert" else numbers)


def has_position(kind: pa.DataType) -> bool:
    """True if values of the type have a position on a curve: numbers, texts, dates, timestamps, booleans."""
    return any(
        is_kind(kind)
        for is_kind in (
            pa.types.is_boolean,
            pa.types.is_string,
            pa.types.is_binary,
            pa.types.is_large_string,
            pa.types.is_floating,
            pa.types.is_decimal,
            pa.types.is_integer,
            pa.types.is_temporal,
        )
    )


def _ordered(column: pa.Array, name: str) -> _Numbers:
    """Numbers in the order of the column's values; for texts their first eight bytes."""
    kind = column.type
    if not has_position(kind):
        raise UnsupportedTableError(
            f"the column '{name}' of type {kind} has no order to sort by",
            hint="choose columns of numbers, texts, dates or timestamps",
        )
    if pa.types.is_boolean(kind):
        numbers = _fill(column, pa.uint8()).astype(np.uint64)
    elif pa.types.is_string(kind) or pa.types.is_binary(kind) or pa.types.is_large_string(kind):
        numbers = _prefixes(column)
    elif pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        bits = (_fill(column, pa.float64()) + 0.0).view(np.uint64)
        numbers = np.where(bits & _SIGN != 0, ~bits, bits | _SIGN)
    else:
        whole = column.cast(pa.int32()) if pa.types.is_date32(kind) else column
        numbers = _fill(whole, pa.int64()).view(np.uint64) ^ _SIGN
    numbers[column.is_null().to_numpy(zero_copy_only=False)] = 0
    return numbers


def _fill(column: pa.Array, kind: pa.DataType) -> npt.NDArray[Any]:
    filled = pc.fill_null(column.cast(kind, safe=False), pa.scalar(0).cast(kind))
    return np.ascontiguousarray(filled.to_numpy(zero_copy_only=False))


def _prefixes(column: pa.Array) -> _Numbers:
    texts = pc.fill_null(column.cast(pa.binary()), b"")
    start = pc.binary_slice(texts, 0, _BITS // 8)
    padded = b"".join(each.ljust(_BITS // 8, b"\0") for each in start.to_pylist())
    return np.frombuffer(padded, dtype=">u8").astype(np.uint64)


def _hilbert(axes: Sequence[_Numbers]) -> list[_Numbers]:
    """Skilling's transform: axes whose interleaved bits are the position on the Hilbert curve."""
    found = [ax.copy() for ax in axes]
    first, last = found[0], found[-1]
    for shift in range(_BITS - 1, 0, -1):
        bit, lower = np.uint64(1 << shift), np.uint64((1 << shift) - 1)
        for axis in found:
            is_set = axis & bit != 0
            exchanged = np.where(is_set, np.uint64(0), (first ^ axis) & lower)
            first ^= np.where(is_set, lower, exchanged)
            if axis is not first:
                axis ^= exchanged
    for before, axis in pairwise(found):
        axis ^= before
    flips = np.zeros_like(first)
    for shift in range(_BITS - 1, 0, -1):
        is_set = last & np.uint64(1 << shift) != 0
        flips ^= np.where(is_set, np.uint64((1 << shift) - 1), np.uint64(0))
    for axis in found:
        axis ^= flips
    return found


def _interleaved(axes: Sequence[_Numbers]) -> pa.Array:
    rows, width = len(axes[0]), len(axes) * _BITS // 8
    octets = np.stack([ax.astype(">u8").view(np.uint8).reshape(rows, 8) for ax in axes], axis=1)
    bits = np.unpackbits(octets, axis=2).transpose(0, 2, 1).reshape(rows, len(axes) * _BITS)
    packed = np.packbits(bits, axis=1)
    return pa.FixedSizeBinaryArray.from_buffers(
        pa.binary(width), rows, [None, pa.py_buffer(packed.tobytes())]
    ).cast(pa.binary())
