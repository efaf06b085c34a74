"""The rows of `hudi_metadata`: the records of a table's metadata table, merged.

Follows `HoodieMetadataTableValuedFunction` of Hudi 1.2, whose columns these are; the members of `minValue`
and `maxValue` are numbered by Hudi's union of types. Files that were deleted are left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import date, datetime, time, timedelta
from types import MappingProxyType
from typing import Any, Final

from hudisql.format.metadata_table.metadata_records import (
    ALL_PARTITIONS,
    BLOOM_FILTERS,
    COLUMN_STATS,
    FILES,
    NON_PARTITIONED,
    PARTITION_STATS,
    RECORD_INDEX,
    has_read_records,
)
from hudisql.table.hudi_table import HudiTable
from hudisql.table.metadata_table.expression_indexes import is_expression
from hudisql.table.metadata_table.merged_records import read_merged_records
from hudisql.table.metadata_table.metadata_table import MetadataTable, find_metadata_table

_TYPE_OF_INDEX: Final[Mapping[str, int]] = MappingProxyType(
    {COLUMN_STATS: 3, BLOOM_FILTERS: 4, RECORD_INDEX: 5, PARTITION_STATS: 6}
)
_SECONDARY_TYPE: Final = 7
_BYTES_OF_PARTITION_KEY: Final = 36
"""The length of keys of partitions in expression indexes; those of files are longer."""
_PARTITIONS_TYPE: Final = 1
_FILES_TYPE: Final = 2
_EPOCH: Final = datetime(1970, 1, 1)
_VALUE: Final = "struct<{}>".format(
    ",".join(
        f"member{number}:struct<value:{kind}>"
        for number, kind in enumerate(
            [
                "boolean",
                "int",
                "bigint",
                "float",
                "double",
                "binary",
                "string",
                "int",
                "decimal(30,15)",
                "bigint",
                "bigint",
                "int",
            ]
        )
    )
)
METADATA_COLUMNS: Final = (
    "key string, type int, filesystemMetadata map<string,struct<size:bigint,isDeleted:boolean>>, "
    "BloomFilterMetadata struct<type:string,timestamp:string,bloomFilter:binary,isDeleted:boolean>, "
    f"ColumnStatsMetadata struct<fileName:string,columnName:string,minValue:{_VALUE},maxValue:{_VALUE},"
    "valueCount:bigint,nullCount:bigint,totalSize:bigint,totalUncompressedSize:bigint,isDeleted:boolean,"
    "isTightBound:boolean,valueType:struct<typeOrdinal:int,additionalInfo:string>>, "
    "recordIndexMetadata struct<partitionName:string,fileIdHighBits:bigint,fileIdLowBits:bigint,"
    "fileIndex:int,fileId:string,instantTime:bigint,fileIdEncoding:int,position:bigint>, "
    "SecondaryIndexMetadata struct<isDeleted:boolean>"
)
"""The columns as Spark's DDL."""


def metadata_rows(table: HudiTable) -> Iterator[tuple[Any, ...]]:
    """The records in the columns of `METADATA_COLUMNS`; structs are dictionaries.

    Raises InvalidArgumentError if the table has no metadata table, CorruptTableError, StorageError.
    """
    metadata = find_metadata_table(table)
    yield from _listings(metadata)
    for index in sorted(filter(has_read_records, {*metadata.indexes} - {FILES})):
        has_ranges = index in (COLUMN_STATS, PARTITION_STATS) or is_expression(index)
        records = read_merged_records(metadata, index) if has_ranges else metadata.read_records(index)
        for key, value in zip(records.keys.to_pylist(), records.values.to_pylist(), strict=True):
            if is_expression(index):
                statistics_index = PARTITION_STATS if len(key) == _BYTES_OF_PARTITION_KEY else COLUMN_STATS
                yield _row(key, _TYPE_OF_INDEX[statistics_index], statistics_index, value)
            else:
                yield _row(key, _TYPE_OF_INDEX.get(index, _SECONDARY_TYPE), index, value)


def _listings(metadata: MetadataTable) -> Iterator[tuple[Any, ...]]:
    paths = metadata.list_partitions()
    names = {path or NON_PARTITIONED: {"size": 0, "isDeleted": False} for path in paths}
    yield _row(ALL_PARTITIONS, _PARTITIONS_TYPE, FILES, names)
    for path, listed in metadata.list_files(paths).items():
        sizes = zip(listed.names.to_pylist(), listed.sizes.to_pylist(), strict=True)
        files = {name: {"size": size, "isDeleted": False} for name, size in sizes}
        yield _row(path or NON_PARTITIONED, _FILES_TYPE, FILES, files)


def _row(key: str, kind: int, index: str, value: Any) -> tuple[Any, ...]:
    files = value if index == FILES else None
    bloom_filter = value if index == BLOOM_FILTERS else None
    statistics = _statistics(value) if index in (COLUMN_STATS, PARTITION_STATS) else None
    location = value if index == RECORD_INDEX else None
    secondary = value if kind == _SECONDARY_TYPE else None
    return key, kind, files, bloom_filter, statistics, location, secondary


def _statistics(value: Mapping[str, Any]) -> dict[str, Any]:
    return {**value, "minValue": _members(value["minValue"]), "maxValue": _members(value["maxValue"])}


def _members(wrappers: Mapping[str, Any] | None) -> dict[str, Any] | None:
    filled = {name: wrapper for name, wrapper in (wrappers or {}).items() if wrapper is not None}
    if not filled:
        return None
    # The first branch of Hudi's union is null.
    return {
        f"member{int(name) - 1}": {"value": _stored(wrapper["value"])} for name, wrapper in filled.items()
    }


def _stored(value: Any) -> Any:
    """Days, and microseconds, as Hudi stores them."""
    if isinstance(value, datetime):
        return (value.replace(tzinfo=None) - _EPOCH) // timedelta(microseconds=1)
    if isinstance(value, date):
        return (value - _EPOCH.date()).days
    if isinstance(value, time):
        return (datetime.combine(_EPOCH, value) - _EPOCH) // timedelta(microseconds=1)
    return value
