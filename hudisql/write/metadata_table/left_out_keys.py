"""The record keys of rows that the record index does not have, which a commit writes into it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from hudisql.errors import CorruptTableError, SourceError, StorageError, UnsupportedTableError
from hudisql.format.metadata_table.record_locations import NOT_FOUND
from hudisql.format.paths.file_names import FileGroup
from hudisql.read.merge.merge_mode import log_merge_config_of
from hudisql.storage.parallel_reads import read_large
from hudisql.table.files.snapshot import file_slices_at
from hudisql.table.hudi_table import HudiTable
from hudisql.table.metadata_table.incomplete_groups import incomplete_groups
from hudisql.table.metadata_table.kept_metadata_table import has_partitioned_records
from hudisql.table.metadata_table.metadata_table import MetadataTable, readable_metadata_table
from hudisql.table.metadata_table.record_lookup import find_records
from hudisql.write.metadata_table.key_changes import keys_of_slice

_MOST_BYTES: Final = 128 << 20
"""Of the file slices, of whose base files the keys alone are read."""
_MOST_KEYS: Final = 10_000_000


@dataclass(frozen=True, slots=True)
class LeftOutKeys:
    """Record keys (large strings) of rows by file groups, which the record index does not have there.

    With them `are_all` keys in the index, unless the table has several rows of a key.
    """

    keys: Sequence[tuple[FileGroup, pa.Array]] = ()
    are_all: bool = True


def read_left_out_keys(table: HudiTable) -> LeftOutKeys | None:
    """The keys of rows for which the record index does not have their file group, as the table was opened.

    None if they are not known, cannot be read, or are too many to look up: the index then stays as it is.
    """
    try:
        groups = incomplete_groups(table)
        if not groups:
            return None if groups is None else LeftOutKeys()
        metadata = readable_metadata_table(table)
        return None if metadata is None else _left_out_of(metadata, groups)
    except (CorruptTableError, SourceError, StorageError, UnsupportedTableError):
        # The commit is right without.
        return None


def _left_out_of(metadata: MetadataTable, groups: Collection[FileGroup]) -> LeftOutKeys | None:
    """Those of the groups; replaced ones have no slice, and the commits that replaced them wrote the keys."""
    table = metadata.table
    slices = [
        each
        for each in file_slices_at(table, sorted({path for path, _ in groups}))
        if each.file_group in groups
    ]
    if sum(each.own_length for each in slices) > _MOST_BYTES:
        return None
    config = log_merge_config_of(table)
    of_slices = read_large(lambda each: keys_of_slice(table.storage, config, each), slices)
    counts = [len(keys) for keys in of_slices]
    if not slices or sum(counts) > _MOST_KEYS:
        return LeftOutKeys() if not slices else None
    numbers = np.repeat(np.arange(len(slices)), counts)
    paths = None
    if has_partitioned_records(table):
        paths = pa.array([each.partition_path for each in slices]).take(pa.array(numbers))
    found = find_records(metadata, pa.concat_arrays(of_slices), paths)
    number_of = {group: number for number, group in enumerate(found.groups)}
    places = np.array([number_of.get(each.file_group, len(number_of)) for each in slices])
    is_out = found.numbers != places[numbers]
    bounds = np.cumsum(counts)[:-1]
    keys = [
        (each.file_group, of_slice.filter(pa.array(out)))
        for each, of_slice, out in zip(slices, of_slices, np.split(is_out, bounds), strict=True)
    ]
    return LeftOutKeys(keys, are_all=bool((found.numbers[is_out] == NOT_FOUND).all()))
