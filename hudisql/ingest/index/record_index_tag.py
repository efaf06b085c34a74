"""Tagging by the record index of the table's metadata table, in place of an index in memory.

Follows `SparkMetadataTableRecordIndex.tagLocation` of Hudi 0.15. That is an index of the whole table, while
keys are those of a partition here: of a key that it has elsewhere it does not tell whether the partition has
it, too.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hudisql.format.metadata_table.record_locations import NOT_FOUND
from hudisql.read.scan.record_skipping import look_up_keys
from hudisql.table.files.snapshot import file_slices_at
from hudisql.table.metadata_table.incomplete_groups import incomplete_groups
from hudisql.table.metadata_table.metadata_table import MetadataTable


def tag_by_record_index(metadata: MetadataTable, path: str, keys: pa.Array) -> pa.Array | None:
    """The id of the file group of each distinct key, null for new ones of the partition.

    `metadata` is that of `record_index_of` the table. None if the index cannot tell where all these keys are:
    if it may lack keys of the partition's file groups (`incomplete_groups`), or has one of them in another
    partition. Raises CorruptTableError, StorageError.
    """
    table = metadata.table
    slices = {file_slice.file_group for file_slice in file_slices_at(table, [path])}
    if not slices:
        return pa.nulls(len(keys), pa.string())
    others = incomplete_groups(table, metadata)
    if others is None or others & slices:
        return None
    found = look_up_keys(metadata, pc.cast(keys, pa.string()))
    if found is None:
        return None
    numbers = np.unique(found.numbers[found.numbers != NOT_FOUND])
    if not {found.groups[number] for number in numbers} <= slices:
        return None
    file_ids = pa.array([*(file_id for _, file_id in found.groups), None], pa.string())
    # NOT_FOUND is -1 and becomes the place of the last one.
    return file_ids.take(pa.array(found.numbers % len(file_ids)))
