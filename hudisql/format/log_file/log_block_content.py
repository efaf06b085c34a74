"""The contents of log blocks: rows of Avro data blocks, and keys of delete blocks.

Follows `HoodieAvroDataBlock` (content version 3), `HoodieDeleteBlock` (version 3) and
`HoodieDeleteRecordList` of Hudi 0.15. The rows' schema stands in the block's header. Earlier delete blocks
hold Java objects serialized by Kryo and are refused. `read/merge` decides which record of a key wins.
"""

from __future__ import annotations

import struct
from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hudisql.errors import CorruptTableError, UnsupportedTableError
from hudisql.format.avro.avro_container import load_codec
from hudisql.format.avro.avro_program import program_of
from hudisql.format.avro.avro_rows import decode_framed_rows, decode_rows, encode_rows

DATA_BLOCK_VERSION = 3
DELETE_BLOCK_VERSION = 3

_PREFIX = struct.Struct(">ii")
_WRAPPERS = (
    "boolean",
    "int",
    "long",
    "float",
    "double",
    "bytes",
    "string",
    "date",
    "decimal",
    "time",
    "timestamp",
)
NATURAL_ORDER = 0
"""The ordering value, as an int, with which a delete replaces every earlier record."""


def decode_data_block(
    content: memoryview | bytes, schema_text: str, names: Collection[str] | None = None
) -> pa.RecordBatch:
    """The rows of a block's content by its writer's schema; only the named fields if `names` is given.

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


@dataclass(frozen=True, slots=True)
class DeleteRecords:
    """Deletes of one block: a key and a partition path each, and ordering values by their Java type.

    `ordering_values` has a column for each of Hudi's wrappers (`int`, `long` …), null where a delete has
    another. `lists` are the values of deletes in tables with several ordering fields, one for each field.
    """

    record_keys: pa.Array
    partition_paths: pa.Array
    ordering_values: pa.RecordBatch
    lists: pa.ListArray

    def lists_of_values(self, fields: int) -> list[pa.RecordBatch] | None:
        """For each of several ordering fields the deletes' values, as `ordering_values`; null for none.

        None if no delete has several values.
        """
        if self.lists.null_count == len(self.lists):
            return None
        lengths = self.lists.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
        starts = self.lists.offsets.to_numpy()[:-1]
        found = []
        for number in range(fields):
            places = pa.array(starts + number, mask=lengths <= number)
            found.append(_by_wrapper(self.lists.values.take(places)))
        return found


def decode_delete_records(content: memoryview | bytes) -> DeleteRecords:
    """The deletes of a block's content; those of Hudi 1.x may have lists of ordering values.

    Raises CorruptTableError, UnsupportedTableError for old versions.
    """
    if len(content) < _PREFIX.size:
        raise CorruptTableError("a delete block is cut short")
    version, length = _PREFIX.unpack_from(content, 0)
    if version != DELETE_BLOCK_VERSION:
        raise UnsupportedTableError(
            f"a log file has a delete block of version {version}, as Hudi before 0.13 wrote it; version "
            f"{DELETE_BLOCK_VERSION} is read",
            hint="compact the table with Hudi (run_compaction) and read it again",
        )
    start, stop = np.array([_PREFIX.size]), np.array([_PREFIX.size + length])
    if length < 0 or stop[0] > len(content):
        raise CorruptTableError("a delete block is cut short")
    batch = decode_rows(np.frombuffer(content, np.uint8), start, stop, _schema_with_lists())
    records = batch.column(0).values
    ordering = records.field("orderingVal")
    return DeleteRecords(
        records.field("recordKey"),
        records.field("partitionPath"),
        _by_wrapper(ordering),
        ordering.field(len(_WRAPPERS)).field(0),
    )


def _by_wrapper(values: pa.StructArray) -> pa.RecordBatch:
    wrapped = [pc.struct_field(values.field(number), [0]) for number in range(len(_WRAPPERS))]
    return pa.RecordBatch.from_arrays(wrapped, names=list(_WRAPPERS))


def encode_delete_records(record_keys: pa.Array, partition_path: str) -> bytes:
    """The content of a block that deletes the keys whatever their rows' ordering values are."""
    rows = len(record_keys)
    ordering_type = program_of(_schema()).fields[0].children[0].children[2].arrow_type
    assert ordering_type is not None
    natural = [
        pa.StructArray.from_arrays(
            [pa.array(np.full(rows, NATURAL_ORDER, np.int32))], fields=[wrapper.type.field(0)]
        )
        if name == "int"
        else pa.nulls(rows, wrapper.type)
        for name, wrapper in zip(_WRAPPERS, ordering_type, strict=True)
    ]
    item_type = program_of(_schema()).fields[0].children[0].arrow_type
    assert item_type is not None
    records = pa.StructArray.from_arrays(
        [
            record_keys,
            pa.repeat(pa.scalar(partition_path, pa.string()), rows),
            pa.StructArray.from_arrays(natural, fields=list(ordering_type)),
        ],
        fields=list(item_type),
    )
    listed = pa.ListArray.from_arrays(pa.array([0, rows], pa.int32()), records)
    list_type = program_of(_schema()).fields[0].arrow_type
    batch = pa.RecordBatch.from_arrays([listed.cast(list_type)], names=["deleteRecordList"])
    body = encode_rows(batch, _schema(), framed=False)
    return _PREFIX.pack(DELETE_BLOCK_VERSION, len(body)) + body


def _schema_with_lists() -> str:
    """The schema of Hudi 1.2, in which an ordering value can also be a list."""
    return load_codec("HoodieDeleteRecordListWithArrays").schema_text


def _schema() -> str:
    return load_codec("HoodieDeleteRecordList").schema_text
