"""The records of the index `bloom_filters` of a metadata table: the filters of the base files of a commit.

Follows `HoodieTableMetadataUtil.convertMetadataToBloomFilterRecords` of Hudi 1.2: a record for each new base
file has the filter of its footer. Log files have none. By them `hoodie.bloom.index.use.metadata` finds files.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from hudisql.format.hfile.hfile_cells import EncodedCells, cells_of
from hudisql.format.metadata_table.metadata_keys import file_key_part, partition_key_part
from hudisql.format.metadata_table.metadata_writing import encode_bloom_filter
from hudisql.format.paths.file_names import parse_base_file_name
from hudisql.format.schema.meta_columns import (
    BLOOM_FILTER_TYPE,
    FOOTER_BLOOM_FILTER,
    FOOTER_BLOOM_FILTER_TYPE,
)
from hudisql.read.files.parquet_rows import read_footer
from hudisql.storage import Storage, join
from hudisql.storage.parallel_reads import read_small
from hudisql.table.hudi_table import HudiTable
from hudisql.table.metadata_table.kept_metadata_table import MOST_BLOOM_BYTES

_FILES_AT_ONCE: Final = 64


def bloom_filter_key(path: str, name: str) -> str:
    """The key of the record of a base file of the partition with this path."""
    return f"{partition_key_part(path)}{file_key_part(name)}"


def bloom_filter_records(
    table: HudiTable, sizes: Mapping[str, Mapping[str, int]], instant_time: str
) -> EncodedCells | None:
    """The records of the base files among these new files, which are bytes by partition path and name.

    None if the footer of one has no filter, since Hudi needs those of all base files, and if they have more
    than 256 MiB together. Reads the footers. Raises CorruptTableError, StorageError.
    """
    files = [
        (path, name, length)
        for path, found in sizes.items()
        for name, length in found.items()
        if parse_base_file_name(name) is not None
    ]

    def record_of(file: tuple[str, str, int]) -> bytes | None:
        path, name, length = file
        return _record(table.storage, join(table.base_path, path, name), length, instant_time)

    records: list[bytes | None] = []
    for start in range(0, len(files), _FILES_AT_ONCE):
        records += read_small(record_of, files[start : start + _FILES_AT_ONCE], table.base_path)
        if sum(len(record or b"") for record in records) > MOST_BLOOM_BYTES:
            return None
    return _cells(files, records)


def _cells(files: Sequence[tuple[str, str, int]], records: Sequence[bytes | None]) -> EncodedCells | None:
    known = {
        bloom_filter_key(path, name): record
        for (path, name, _), record in zip(files, records, strict=True)
        if record is not None
    }
    return cells_of(known) if len(known) == len(files) else None


def _record(storage: Storage, path: str, length: int, instant_time: str) -> bytes | None:
    footer = read_footer(storage, path, length).metadata or {}
    content = footer.get(FOOTER_BLOOM_FILTER.encode())
    if content is None:
        return None
    kind = footer.get(FOOTER_BLOOM_FILTER_TYPE.encode(), BLOOM_FILTER_TYPE.encode()).decode()
    return encode_bloom_filter(kind, instant_time, content)
