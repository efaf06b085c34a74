"""Records of a metadata table in the form in which Hudi 1.2 stores them: Avro records in HFiles.

Follows `HoodieMetadata.avsc`, `HoodieHFileDataBlock` and `HoodieMetadataPayload` of Hudi 1.2. The HFiles have
no bloom filter and no compression, which all readers accept.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import pyarrow as pa

from hudisql.format.avro.avro_container import AvroRecordCodec, load_codec
from hudisql.format.hfile.hfile import HFileReader
from hudisql.format.hfile.hfile_cells import EncodedCells, key_order, write_cells
from hudisql.format.log_file.log_block import BlockType, HeaderKey, LogBlock
from hudisql.format.log_file.log_block_content import encode_delete_records
from hudisql.format.metadata_table.metadata_records import MetadataRecords, decode_in_schema
from hudisql.format.metadata_table.record_locations import location_value
from hudisql.format.metadata_table.value_types import (
    DATE_ORDINAL,
    DATE_WRAPPER,
    DECIMAL_ORDINAL,
    DECIMAL_WRAPPER,
    FIRST_DIGITS,
    decimal_of,
)
from hudisql.format.paths.file_names import FileGroup

_SCHEMA_RECORD: Final = "HoodieMetadata"
_SCHEMA: Final = b"schema"
_BLOCK_BYTES: Final = 32 << 10
"""A look-up of one key reads one block, and the first keys of all blocks of its file."""
_COMPARATOR: Final = "org.apache.hudi.io.storage.HoodieHBaseKVComparator"
_MODEL: Final = "org.apache.hudi.avro.model"
_PARTITION_LIST, _FILES, _COLUMN_STATS, _BLOOM_FILTERS = 1, 2, 3, 4
_RECORD_INDEX, _PARTITION_STATS, _SECONDARY_INDEX = 5, 6, 7


@dataclass(frozen=True, slots=True)
class ColumnRange:
    """The values of one column in a file or partition, as Hudi stores them.

    `wrapper` is the name of the Avro record around both bounds, which are None if no value is known;
    `type_ordinal` and `type_details` are those of Hudi 1.2's `ValueType`, None in the form of version V1.
    """

    column: str
    wrapper: str
    type_ordinal: int | None
    least: Any
    greatest: Any
    values: int
    nulls: int
    type_details: str | None = None
    stored_bytes: int = 0
    raw_bytes: int = 0


def fits_first_form_values(found: ColumnRange) -> bool:
    """False if a bound has too many digits for indexes of version V1."""
    if found.type_ordinal != DECIMAL_ORDINAL or found.type_details is None:
        return True
    most = 10 ** (FIRST_DIGITS + int(found.type_details.rpartition(",")[2]))
    bounds = (bound for bound in (found.least, found.greatest) if bound is not None)
    return all(-most < int.from_bytes(bound, "big", signed=True) < most for bound in bounds)


def first_form(found: ColumnRange) -> ColumnRange:
    """The range as indexes of version V1 have it, where the wrapper alone tells the type.

    Follows `HoodieAvroWrapperUtils` of Hudi 1.2: decimals have the scale 15.
    """
    if found.type_ordinal == DATE_ORDINAL:
        return replace(found, wrapper=DATE_WRAPPER, type_ordinal=None)
    if found.type_ordinal != DECIMAL_ORDINAL or found.type_details is None:
        return replace(found, type_ordinal=None, type_details=None)
    scale = int(found.type_details.rpartition(",")[2])
    least, greatest = (
        None if bound is None else decimal_of(int.from_bytes(bound, "big", signed=True), scale)
        for bound in (found.least, found.greatest)
    )
    return replace(
        found,
        wrapper=DECIMAL_WRAPPER,
        type_ordinal=None,
        type_details=None,
        least=least,
        greatest=greatest,
    )


def encode_partition_list(paths: Sequence[str], *, deleted: Sequence[str] = ()) -> bytes:
    """The record of the key `__all_partitions__`; `paths` are those of keys of `files`."""
    live = {path: {"size": 0, "isDeleted": False} for path in paths}
    gone = {path: {"size": 0, "isDeleted": True} for path in deleted}
    return _encode({"type": _PARTITION_LIST, "filesystemMetadata": live | gone})


def encode_file_list(sizes: Mapping[str, int], *, deleted: Sequence[str] = ()) -> bytes:
    """The record of one partition of `files`: the bytes of new files by name, and the deleted ones."""
    live = {name: {"size": size, "isDeleted": False} for name, size in sizes.items()}
    gone = {name: {"size": 0, "isDeleted": True} for name in deleted}
    return _encode({"type": _FILES, "filesystemMetadata": live | gone})


def encode_range(
    found: ColumnRange, name: str, *, of_partition: bool = False, in_first_form: bool = False
) -> bytes:
    """The record of `column_stats` of the file `name`, or of `partition_stats` of the partition `name`.

    The ranges of a partition are merged by readers with the older ones. With `in_first_form` the record is
    that of version V1.
    """
    if in_first_form:
        found = first_form(found)
    stored = {
        "fileName": name,
        "columnName": found.column,
        "minValue": _wrapped(found.wrapper, found.least),
        "maxValue": _wrapped(found.wrapper, found.greatest),
        "valueCount": found.values,
        "nullCount": found.nulls,
        "totalSize": found.stored_bytes,
        "totalUncompressedSize": found.raw_bytes,
        "isDeleted": False,
        "isTightBound": False,
        "valueType": None
        if found.type_ordinal is None
        else {"typeOrdinal": found.type_ordinal, "additionalInfo": found.type_details},
    }
    kind = _PARTITION_STATS if of_partition else _COLUMN_STATS
    return _encode({"type": kind, "ColumnStatsMetadata": stored})


class RangeOfFiles:
    """Gives the record of `column_stats`, as `encode_range` does, of files that all have the same range."""

    def __init__(self, found: ColumnRange, *, in_first_form: bool = False) -> None:
        self._found, self._in_first_form = found, in_first_form
        self._parts: dict[int, tuple[bytes, bytes]] = {}

    def encode(self, name: str) -> bytes:
        """The record of the file `name`."""
        text = name.encode()
        parts = self._parts.get(len(text))
        if parts is None:
            encoded = encode_range(self._found, name, in_first_form=self._in_first_form)
            # Avro's form of a text begins with its length: names of one length have the same place.
            at = encoded.find(text)
            if at == encoded.rfind(text):
                self._parts[len(text)] = (encoded[:at], encoded[at + len(text) :])
            return encoded
        return b"".join((parts[0], text, parts[1]))


def _wrapped(wrapper: str, value: Any) -> Any:
    return None if value is None else (f"{_MODEL}.{wrapper}", {"value": value})


def _encode(record: Mapping[str, Any]) -> bytes:
    return load_codec(_SCHEMA_RECORD).encode_body({"key": "", **record})


def encode_location(group: FileGroup, inserted: int) -> bytes:
    """The record of `record_index` of every key that is put into a file group at this time (ms)."""
    return _encode({"type": _RECORD_INDEX, "recordIndexMetadata": location_value(group, inserted)})


def encode_bloom_filter(kind: str, instant_time: str, content: bytes) -> bytes:
    """The record of `bloom_filters` of a base file: the type and the text of the filter in its footer."""
    stored = {"type": kind, "timestamp": instant_time, "bloomFilter": content, "isDeleted": False}
    return _encode({"type": _BLOOM_FILTERS, "BloomFilterMetadata": stored})


def encode_secondary() -> bytes:
    """The record of every key of a secondary index."""
    return _encode({"type": _SECONDARY_INDEX, "SecondaryIndexMetadata": {"isDeleted": False}})


def encode_metadata_file(records: EncodedCells) -> bytes:
    """An HFile with these records by key, as base files are and data blocks of logs hold."""
    content = io.BytesIO()
    info = {_SCHEMA: load_codec(_SCHEMA_RECORD).schema_text.encode()}
    write_cells(records, info, content, comparator=_COMPARATOR, block_bytes=_BLOCK_BYTES)
    return content.getvalue()


def metadata_blocks(
    records: EncodedCells, deleted: pa.Array, index: str, instant_time: str
) -> list[LogBlock]:
    """The blocks of one log file: the records, then the deleted keys of the partition `index`.

    Without both it is an empty block of deletes, by which readers know the file group.
    """
    header: dict[int, str] = {
        HeaderKey.INSTANT_TIME: instant_time,
        HeaderKey.SCHEMA: load_codec(_SCHEMA_RECORD).schema_text,
    }
    blocks = []
    if len(records):
        blocks.append(LogBlock(BlockType.HFILE_DATA, header, encode_metadata_file(records)))
    if len(deleted) or not blocks:
        keys = deleted.take(pa.array(key_order(deleted)))
        blocks.append(LogBlock(BlockType.DELETE, header, encode_delete_records(keys, index)))
    return blocks


def decode_own(records: EncodedCells, index: str) -> MetadataRecords:
    """The records of the index in their order. Raises CorruptTableError."""
    distinct = pa.array(records.values, pa.large_binary())
    values = decode_in_schema(load_codec(_SCHEMA_RECORD).schema_text, index, distinct)
    return MetadataRecords(records.keys.cast(pa.string()), values.take(pa.array(records.numbers)))


def in_own_schema(reader: HFileReader, records: pa.LargeBinaryArray) -> pa.LargeBinaryArray:
    """The records of an HFile in the schema in which they are written here; Hudi 0.15 has an older one.

    Raises CorruptTableError.
    """
    schema_text = reader.read_file_info().get(_SCHEMA, b"").decode()
    if schema_text == load_codec(_SCHEMA_RECORD).schema_text:
        return records
    codec = AvroRecordCodec(schema_text)
    # The records of a record index are alike for all keys of a file group.
    distinct = records.dictionary_encode()
    own = [_encode(codec.decode_body(record)) for record in distinct.dictionary.to_pylist()]
    return pa.array(own, pa.large_binary()).take(distinct.indices)


def merge_file_records(records: Sequence[bytes]) -> bytes:
    """One record of `files` in place of several of one key, the oldest first.

    A file's size is the greatest since it was last deleted; deleted files are left out.
    """
    merged: dict[str, int] = {}
    decoded = [load_codec(_SCHEMA_RECORD).decode_body(record) for record in records]
    for record in decoded:
        for name, stored in record["filesystemMetadata"].items():
            if stored["isDeleted"]:
                merged.pop(name, None)
            else:
                merged[name] = max(stored["size"], merged.get(name, 0))
    listed = {name: {"size": size, "isDeleted": False} for name, size in merged.items()}
    return _encode({"type": decoded[-1]["type"], "filesystemMetadata": listed})


def merge_range_records(
    records: Sequence[bytes], merge: Callable[[Sequence[ColumnRange]], ColumnRange]
) -> bytes:
    """One record of `partition_stats`, or of `column_stats`, in place of several of a key, the oldest first.

    `merge` gives the range over several; a tight or deleted range replaces those before it.
    """
    decoded = [load_codec(_SCHEMA_RECORD).decode_body(record) for record in records]
    ranges: list[ColumnRange] = []
    for record in decoded:
        stored = record["ColumnStatsMetadata"]
        if stored["isTightBound"] or stored["isDeleted"]:
            ranges = []
        if not stored["isDeleted"]:
            ranges.append(_range_of(stored))
    if len(ranges) < 2:
        return records[-1]
    # Expression indexes have records of both types.
    of_partition = decoded[-1]["type"] == _PARTITION_STATS
    return encode_range(merge(ranges), stored["fileName"], of_partition=of_partition)


def _range_of(stored: Mapping[str, Any]) -> ColumnRange:
    least, greatest = stored["minValue"], stored["maxValue"]
    name, _ = least or greatest or (f"{_MODEL}.StringWrapper", None)
    kind = stored["valueType"] or {"typeOrdinal": None, "additionalInfo": None}
    return ColumnRange(
        stored["columnName"],
        name.rpartition(".")[2],
        kind["typeOrdinal"],
        None if least is None else least[1]["value"],
        None if greatest is None else greatest[1]["value"],
        values=stored["valueCount"],
        nulls=stored["nullCount"],
        type_details=kind["additionalInfo"],
        stored_bytes=stored["totalSize"],
        raw_bytes=stored["totalUncompressedSize"],
    )
