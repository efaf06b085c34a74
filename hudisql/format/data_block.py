"""The content of Avro data blocks: a version, how many rows, and the rows.

Follows `HoodieAvroDataBlock` of Hudi 0.15 (content version 3). The rows' schema stands in the block's header.
"""

from __future__ import annotations

import struct
from collections.abc import Collection

import pyarrow as pa

from hudisql.errors import CorruptTableError, UnsupportedTableError
from hudisql.format.avro_rows import decode_framed_rows, encode_rows

DATA_BLOCK_VERSION = 3

_PREFIX = struct.Struct(">ii")


def decode_data_block(
    content: memoryview | bytes, schema_text: str, names: Collection[str] | None = None
) -> pa.RecordBatch:
    """The rows of a block's content, as its writer's schema says; only the named fields if `names` is given.

    Raises CorruptTableError, UnsupportedTableError for a version or a type that is unknown.
    """
    if len(content) < _PREFIX.size:
        raise CorruptTableError("a data block is cut short")
    version, rows = _PREFIX.unpack_from(content, 0)
    if not 1 <= version <= DATA_BLOCK_VERSION:
        raise UnsupportedTableError(f"a log file has an Avro data block of the unknown version {version}")
    return decode_framed_rows(content[_PREFIX.size :], rows, schema_text, names)


def encode_data_block(batch: pa.RecordBatch, schema_text: str) -> bytes:
    """The content of a block of these rows, whose columns are those of the schema in its order.

    Raises InvalidArgumentError if they are not.
    """
    return _PREFIX.pack(DATA_BLOCK_VERSION, batch.num_rows) + encode_rows(batch, schema_text)
