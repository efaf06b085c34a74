"""The file groups that hold the record keys of a filter, by the record index of the table's metadata table.

Follows `RecordLevelIndexSupport` of Hudi 1.2: filters `key = …` and `key IN (…)` on the only column of the
record key, or on `_hoodie_record_key`. A partitioned record index is asked for each of these keys in each
partition that may have its row.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from hudisql.errors import CorruptTableError, NoSuchPathError, NoSuchTableError, UnsupportedTableError
from hudisql.format.metadata_table.metadata_records import RECORD_INDEX
from hudisql.format.metadata_table.record_locations import NOT_FOUND, RecordLocations
from hudisql.format.paths.file_names import FileGroup
from hudisql.format.schema.meta_columns import RECORD_KEY
from hudisql.format.table_properties import read_table_properties
from hudisql.read.files.predicates import Predicate, split_conjuncts, values_of
from hudisql.read.merge.merge_mode import merge_mode_of
from hudisql.table.file_slice import FileSlice
from hudisql.table.hudi_table import HudiTable
from hudisql.table.metadata_table.incomplete_groups import NO_GROUPS, incomplete_groups
from hudisql.table.metadata_table.kept_metadata_table import find_kept, has_partitioned_records
from hudisql.table.metadata_table.metadata_table import MetadataTable
from hudisql.table.metadata_table.record_lookup import find_records

MOST_PARTITIONS: Final = 10
"""Filters ask a partitioned record index in no more partitions, as in Hudi."""
_MOST_VALUES: Final = 10_000
_OF_USERS: Final = "USER_PROVIDED"


@dataclass(frozen=True, slots=True)
class LookedUpGroups:
    """Where rows with looked-up record keys may be: in the file groups `only` (None: any), not `without`."""

    only: frozenset[FileGroup] | None = None
    without: frozenset[FileGroup] = frozenset()

    @property
    def paths(self) -> frozenset[str] | None:
        """The paths of the partitions of `only`."""
        return None if self.only is None else frozenset(path for path, _ in self.only)

    def may_hold(self, file_slice: FileSlice) -> bool:
        """True if the slice may have one of the rows."""
        group = file_slice.file_group
        return group not in self.without and (self.only is None or group in self.only)

    @property
    def exclude_any(self) -> bool:
        """False if all file groups may hold the rows."""
        return self.only is not None or bool(self.without)


ANY_GROUP: Final = LookedUpGroups()


def record_index_of(table: HudiTable, *, is_global: bool = True) -> MetadataTable | None:
    """The metadata table whose record index tells where all rows of the table, as it was opened, are.

    By the key alone if `is_global`, else by a partitioned index, which is asked with the partition, too. None
    if there is none. Raises StorageError.
    """
    if (
        RECORD_INDEX not in table.properties.metadata_partitions
        or table.properties.has_register_only_partitions
    ):
        return None
    try:
        if has_partitioned_records(table) == is_global:
            return None
    except CorruptTableError:
        return None
    metadata = find_kept(table)
    return None if metadata is None or metadata.has_later_commits else metadata


def look_up_groups(
    metadata: MetadataTable,
    forms: Sequence[pa.Array],
    paths: Sequence[str] | None = None,
    indexes: Collection[str] = (RECORD_INDEX,),
) -> frozenset[FileGroup] | None:
    """The file groups that may have these record keys; None as `look_up_keys`. Raises StorageError.

    `forms` are the texts of the keys in each form that they may have. A partitioned index is asked for each
    key in each of the partitions with these paths.
    """
    keys, of_pairs = pa.concat_arrays(forms), None
    if paths is not None:
        numbers = np.tile(np.arange(len(paths), dtype=np.int32), len(keys))
        of_pairs = pa.DictionaryArray.from_arrays(pa.array(numbers), pa.array(paths, pa.string()))
        keys = keys.take(pa.array(np.repeat(np.arange(len(keys)), len(paths))))
    locations = look_up_keys(metadata, keys, of_pairs, indexes)
    if locations is None:
        return None
    is_found = (locations.numbers != NOT_FOUND).reshape(len(forms), -1).any(axis=0)
    is_sure = is_found.all() and not may_have_deleted_keys(metadata.table)
    others = NO_GROUPS if is_sure else incomplete_groups(metadata.table, metadata)
    return None if others is None else others.union(locations.groups)


def look_up_keys(
    metadata: MetadataTable,
    keys: pa.Array,
    paths: pa.Array | None = None,
    indexes: Collection[str] = (RECORD_INDEX,),
) -> RecordLocations | None:
    """Where the rows with these record keys are; None if one of the `indexes` is gone or cannot be read.

    `paths` are those of the partitions of the keys, without which a partitioned index is not read. Rows of
    keys that are not found may be in the `incomplete_groups`.

    Another process may have compacted or dropped the metadata table meanwhile: an index is no longer among
    the table's properties before its files are deleted. Raises StorageError.
    """
    table = metadata.table
    try:
        locations = find_records(metadata, keys, paths)
        now = read_table_properties(table.storage, table.base_path)
    except (CorruptTableError, NoSuchPathError, NoSuchTableError, UnsupportedTableError):
        return None
    return locations if {*indexes} <= {*now.metadata_partitions} else None


def may_have_deleted_keys(table: HudiTable) -> bool:
    """True if the table's record index may have keys of deletes, which could have lost against stored rows.

    Their rows may have come back elsewhere.
    """
    if not table.is_merge_on_read:
        return False
    try:
        mode = merge_mode_of(table)
    except UnsupportedTableError:
        return True
    return mode.keeps_newer_base_rows or mode.orders_deletes


def keys_of_predicate(table: HudiTable, predicate: Predicate) -> tuple[pa.Array, ...] | None:
    """All record keys that rows may have for which the predicate is TRUE; None if it does not tell.

    There is an array for each form of the texts of record keys: writers of several Hudi versions may have
    mixed both.
    """
    fields = table.properties.record_key_fields
    # Whose class may make any text of a column.
    is_foreign = table.properties.key_generator_type == _OF_USERS
    for part in split_conjuncts(predicate):
        column, values = values_of(part)
        if column == (RECORD_KEY,):
            forms = [[str(value) for value in values]]
        elif column == fields and not is_foreign and all(_is_plain(value) for value in values):
            forms = [[f"{value}" for value in values], [f"{fields[0]}:{value}" for value in values]]
        else:
            continue
        if len(values) <= _MOST_VALUES:
            return tuple(pa.array(texts, pa.string()) for texts in forms)
    return None


def _is_plain(value: object) -> bool:
    """True if the text of the value is that of its record key."""
    return value != "" and isinstance(value, (str, int)) and not isinstance(value, bool)
