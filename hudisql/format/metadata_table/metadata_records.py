"""The records of a metadata table as columns: HFiles of Avro records, one kind a partition.

Follows `HoodieMetadata.avsc` and `HoodieMetadataPayload` of Hudi 0.15 and 1.2, whose schemas differ: each
HFile holds the schema of its writer. A partition of a metadata table is an index, and fills one field of the
record.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hudisql.errors import CorruptTableError
from hudisql.format.avro.avro_program import program_of
from hudisql.format.avro.avro_rows import decode_rows
from hudisql.format.hfile.hfile import HFileReader
from hudisql.format.hfile.hfile_cells import Cells, cells_with_keys, cells_with_prefixes, read_cells

FILES: Final = "files"
COLUMN_STATS: Final = "column_stats"
PARTITION_STATS: Final = "partition_stats"
RECORD_INDEX: Final = "record_index"
RECORD_LEVEL_INDEX: Final = "record_level_index"
"""A `record_index` with file groups of its own for each partition of the table, as Hudi's options call it."""
BLOOM_FILTERS: Final = "bloom_filters"
SECONDARY_PREFIX: Final = "secondary_index_"
"""The beginning of the names of secondary indexes."""
EXPRESSION_PREFIX: Final = "expr_index_"
"""The beginning of the names of expression indexes."""
ALL_PARTITIONS: Final = "__all_partitions__"
"""The key of the record of `files` that lists the partitions."""
NON_PARTITIONED: Final = "."
"""The name that the partition of a table without partition columns has in keys."""

_FIELD_OF_INDEX: Final[Mapping[str, str]] = MappingProxyType(
    {
        FILES: "filesystemMetadata",
        COLUMN_STATS: "ColumnStatsMetadata",
        PARTITION_STATS: "ColumnStatsMetadata",
        RECORD_INDEX: "recordIndexMetadata",
        BLOOM_FILTERS: "BloomFilterMetadata",
    }
)
_SCHEMA: Final = b"schema"
_SECONDARY_FIELD: Final = "SecondaryIndexMetadata"
READ_INDEXES: Final = tuple(_FIELD_OF_INDEX)
"""The indexes whose records are read, beside secondary indexes and expression indexes."""


def has_read_records(index: str) -> bool:
    """True for indexes whose records are read."""
    return index in _FIELD_OF_INDEX or index.startswith((SECONDARY_PREFIX, EXPRESSION_PREFIX))


@dataclass(frozen=True, slots=True)
class MetadataRecords:
    """Records of one HFile in the order of their keys; a null of `values` is a deleted key.

    `values` are those of the field that the index fills, in the types of the file's own schema.
    """

    keys: pa.Array
    values: pa.Array


def read_metadata_records(
    reader: HFileReader,
    index: str,
    name: str,
    keys: Collection[str] | None = None,
    *,
    are_prefixes: bool = False,
) -> MetadataRecords:
    """The records of an HFile of a partition of the metadata table; only those of `keys` if given.

    `keys` may also be what the keys begin with. `name` stands in errors. Raises CorruptTableError,
    UnsupportedTableError.
    """
    found = cells_with_prefixes(reader, keys or ()) if are_prefixes else None
    cells = chosen_cells(reader, keys) if found is None else found
    return MetadataRecords(cells.keys.cast(pa.string()), decode_values(reader, index, name, cells.values))


def chosen_cells(reader: HFileReader, keys: Collection[str] | pa.Array | None) -> Cells:
    """The cells of these keys (None: all), whose blocks alone are read. Raises CorruptTableError."""
    if keys is None:
        return read_cells(reader)
    wanted = keys if isinstance(keys, pa.Array) else pa.array(keys, pa.string())
    return cells_with_keys(reader, wanted)


def decode_values(reader: HFileReader, index: str, name: str, records: pa.LargeBinaryArray) -> pa.Array:
    """What the index has of each of these records of the file. Raises CorruptTableError naming `name`."""
    schema_text = reader.read_file_info().get(_SCHEMA, b"").decode()
    try:
        return decode_in_schema(schema_text, index, records)
    except CorruptTableError as error:
        raise CorruptTableError(
            f"cannot read {name}: its records are not those of a metadata table ({error})"
        ) from error


def decode_in_schema(schema_text: str, index: str, records: pa.LargeBinaryArray) -> pa.Array:
    """What the index has of each of these records, which have this Avro schema. Raises CorruptTableError."""
    return _decode(schema_text, _field_of(index), records)


def _field_of(index: str) -> str:
    """The field of a record that the index fills."""
    if index.startswith(EXPRESSION_PREFIX):
        return _FIELD_OF_INDEX[COLUMN_STATS]
    return _FIELD_OF_INDEX.get(index, _SECONDARY_FIELD)


def _decode(schema_text: str, field: str, records: pa.LargeBinaryArray) -> pa.Array:
    known = {avro_node.name for avro_node in program_of(schema_text).fields}
    if field not in known:
        return pa.nulls(len(records))
    _, offset_buffer, data_buffer = records.buffers()
    if not len(records) or data_buffer is None:
        offsets, data = np.zeros(1, np.int64), np.zeros(0, np.uint8)
    else:
        first, stop = records.offset, records.offset + len(records) + 1
        offsets, data = (
            np.frombuffer(offset_buffer, np.int64)[first:stop],
            np.frombuffer(data_buffer, np.uint8),
        )
    return decode_rows(data, offsets[:-1], offsets[1:], schema_text, {field}).column(0)


def deleted_records(keys: pa.Array) -> MetadataRecords:
    """The records of a delete block."""
    return MetadataRecords(keys, pa.nulls(len(keys)))


def without_deleted(layers: Sequence[MetadataRecords]) -> list[MetadataRecords]:
    """The layers, the oldest first, without the records that the same or a later layer deletes."""
    deleted = pa.array([], pa.string())
    kept: list[MetadataRecords] = []
    for layer in reversed(layers):
        lives = pc.and_(layer.values.is_valid(), pc.invert(pc.is_in(layer.keys, deleted)))
        kept.append(MetadataRecords(layer.keys.filter(lives), layer.values.filter(lives)))
        deleted = pa.concat_arrays([deleted, layer.keys.filter(layer.values.is_null())])
    return [layer for layer in reversed(kept) if len(layer.keys)]


def newest_records(layers: Sequence[MetadataRecords]) -> MetadataRecords:
    """The newest record of each key that is not deleted, sorted by key; `layers` as in `without_deleted`."""
    live = _joined(without_deleted(layers))
    if not len(live.keys):
        return live
    numbers = live.keys.dictionary_encode().indices.to_numpy(zero_copy_only=False)
    newest = np.zeros(int(numbers.max()) + 1, np.int64)
    newest[numbers] = np.arange(len(live.keys))  # Of equal indices the last one holds.
    rows = pa.array(newest)
    return sorted_records([MetadataRecords(live.keys.take(rows), live.values.take(rows))])


def sorted_records(parts: Sequence[MetadataRecords]) -> MetadataRecords:
    """The records of all parts, sorted by key; equal keys, as of several partitions, all stay."""
    joined = _joined([part for part in parts if len(part.keys)])
    order = pc.sort_indices(joined.keys)
    return MetadataRecords(joined.keys.take(order), joined.values.take(order))


def _joined(parts: Sequence[MetadataRecords]) -> MetadataRecords:
    if not parts:
        return MetadataRecords(pa.array([], pa.string()), pa.nulls(0))
    kind = _common_type([part.values.type for part in parts])
    return MetadataRecords(
        pa.concat_arrays([part.keys for part in parts]),
        pa.concat_arrays([_conformed(part.values, kind) for part in parts]),
    )


def _common_type(types: Sequence[pa.DataType]) -> pa.DataType:
    """The type with the fields of all; writers of later versions add some."""
    unified = pa.unify_schemas(
        [pa.schema([pa.field("value", each)]) for each in types], promote_options="permissive"
    )
    return unified.field(0).type


def _conformed(values: pa.Array, kind: pa.DataType) -> pa.Array:
    if values.type == kind or not pa.types.is_struct(kind):
        return values
    known = {field.name for field in values.type}
    children = [
        _conformed(values.field(field.name), field.type)
        if field.name in known
        else pa.nulls(len(values), field.type)
        for field in kind
    ]
    return pa.StructArray.from_arrays(children, fields=list(kind), mask=values.is_null())
