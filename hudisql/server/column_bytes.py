"""Arrow columns as the `TColumn` of HiveServer2's protocol: whole columns without a loop over values.

A column is the list of its values, big-endian, and a bitmap of its nulls, whose lowest bit is the first row
(`org.apache.hive.service.cli.ColumnBasedSet`). A null has a value in the list, too, zero or empty.
"""

from __future__ import annotations

from enum import Enum
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hudisql.server import thrift_binary as thrift


class WireType(Enum):
    """The eight kinds of columns: field number in the union `TColumn`, Thrift type, Arrow type."""

    BOOLEAN = (1, thrift.BOOL, pa.bool_())
    TINYINT = (2, thrift.BYTE, pa.int8())
    SMALLINT = (3, thrift.I16, pa.int16())
    INT = (4, thrift.I32, pa.int32())
    BIGINT = (5, thrift.I64, pa.int64())
    DOUBLE = (6, thrift.DOUBLE, pa.float64())
    STRING = (7, thrift.STRING, pa.string())
    BINARY = (8, thrift.STRING, pa.binary())


_BIG_ENDIAN: Final = {
    thrift.BYTE: "i1",
    thrift.I16: ">i2",
    thrift.I32: ">i4",
    thrift.I64: ">i8",
    thrift.DOUBLE: ">f8",
}
_LENGTH_BYTES: Final = 4
_FEW_TEXTS: Final = 2_000


def encode_column(column: pa.Array, wire: WireType) -> list[thrift.Field]:
    """The fields of the union `TColumn` for the column. Raises pyarrow's errors for a wrong type."""
    number, kind, arrow_type = wire.value
    if pa.types.is_float32(column.type):
        # As Hive: the double that has the float's shortest text, so that 0.1 stays 0.1.
        column = column.cast(pa.string())
    values = column.cast(arrow_type)
    encoded = _encode_texts(values) if kind == thrift.STRING else _encode_numbers(values, kind)
    listed = thrift.ListOf(kind, encoded=encoded, count=len(values))
    return [(number, thrift.STRUCT, ((1, thrift.LIST, listed), (2, thrift.STRING, _nulls_of(values))))]


def _nulls_of(values: pa.Array) -> bytes:
    if values.null_count == 0:
        return b""
    return np.packbits(_as_numpy(values.is_null()), bitorder="little").tobytes()


def _encode_numbers(values: pa.Array, kind: int) -> bytes:
    if kind == thrift.BOOL:
        return bytes(_as_numpy(pc.fill_null(values, False)).astype("u1").tobytes())
    if values.null_count:
        values = pc.fill_null(values, pa.scalar(0, values.type))
    return bytes(_as_numpy(values).astype(_BIG_ENDIAN[kind]).tobytes())


def _encode_texts(values: pa.Array) -> bytes:
    """Each text behind its length in four bytes."""
    if values.null_count:
        values = pc.fill_null(values, pa.scalar("" if pa.types.is_string(values.type) else b"", values.type))
    count = len(values)
    if count == 0:
        return b""
    _, offset_buffer, data_buffer = values.buffers()
    offsets = np.frombuffer(offset_buffer, "i4", count + 1, values.offset * 4).astype("i8")
    first, last = int(offsets[0]), int(offsets[-1])
    if first == last:
        return bytes(_LENGTH_BYTES * count)
    if count > _FEW_TEXTS:
        return _write_many(offsets, data_buffer)
    return _place_few(offsets, np.frombuffer(data_buffer, "u1", last - first, first))


def _write_many(offsets: npt.NDArray[np.int64], data: pa.Buffer) -> bytes:
    # Loads numba, which takes longer than encoding a few texts.
    from hudisql.server.text_kernels import write_texts

    size = int(offsets[-1] - offsets[0]) + _LENGTH_BYTES * (len(offsets) - 1)
    encoded = np.empty(size, "u1")
    write_texts(offsets, data.address, encoded, encoded.ctypes.data)
    return encoded.tobytes()


def _place_few(offsets: npt.NDArray[np.int64], content: npt.NDArray[np.uint8]) -> bytes:
    count = len(offsets) - 1
    encoded = np.empty(len(content) + _LENGTH_BYTES * count, "u1")
    starts = offsets[:-1] - offsets[0] + _LENGTH_BYTES * np.arange(count)
    is_content = np.ones(len(encoded), bool)
    prefixes = np.diff(offsets).astype(">i4").view("u1").reshape(count, _LENGTH_BYTES)
    for position in range(_LENGTH_BYTES):
        is_content[starts + position] = False
        encoded[starts + position] = prefixes[:, position]
    encoded[is_content] = content
    return encoded.tobytes()


def _as_numpy(values: pa.Array) -> Any:
    return values.to_numpy(zero_copy_only=False)
