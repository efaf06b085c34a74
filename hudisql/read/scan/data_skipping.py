"""Partitions and file slices that a filter excludes by the indexes of the table's metadata table.

Follows `PartitionStatsIndexSupport` and `ColumnStatsIndexSupport` of Hudi 1.2. Only metadata tables that
hudisql keeps are asked: the statistics of others may lack rows. Whatever has no statistics is read.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from hudisql.config.config_key import HudiConfig
from hudisql.config.hudi_config import DATA_SKIPPING, METADATA_ENABLE
from hudisql.errors import CorruptTableError, NoSuchPathError, UnsupportedTableError
from hudisql.format.metadata_table.column_bounds import ColumnBounds, bounds_by_key, merged_bounds
from hudisql.format.metadata_table.metadata_keys import file_key_part, key_parts
from hudisql.format.metadata_table.metadata_records import (
    COLUMN_STATS,
    NON_PARTITIONED,
    PARTITION_STATS,
    RECORD_INDEX,
    MetadataRecords,
)
from hudisql.format.metadata_table.value_types import value_kind
from hudisql.format.paths.file_names import FileGroup
from hudisql.format.schema.column_path import ColumnPath
from hudisql.format.schema.meta_columns import META_COLUMNS
from hudisql.read.files.predicates import (
    ColumnStatistics,
    Predicate,
    columns_of,
    may_match,
    restrict_predicate,
)
from hudisql.read.scan.record_skipping import (
    MOST_PARTITIONS,
    keys_of_predicate,
    look_up_groups,
    record_index_of,
)
from hudisql.read.scan.secondary_skipping import IndexedValues, indexed_values, keys_of_values
from hudisql.table.file_slice import FileSlice
from hudisql.table.hudi_table import HudiTable
from hudisql.table.metadata_table.kept_metadata_table import (
    find_kept,
    has_first_form,
    has_kept_indexes,
    has_trusted_statistics,
)
from hudisql.table.metadata_table.metadata_table import MetadataTable

FEWEST_TO_SKIP: Final = 8
"""Of fewer partitions or file slices the statistics are not read: that takes about as many requests."""
_COLUMN_PART: Final = 12

Bounds = Mapping[str, ColumnBounds]
"""Bounds of columns by the keys of an index."""


@dataclass(frozen=True)
class DataSkipping:
    """Skips what cannot hold a row that meets `predicate`, which is bound to `schema`.

    Of a past state (`is_past`) only files are skipped, since the statistics of partitions are those of now,
    and so is the record index, by which secondary indexes find file groups; it is not asked without log
    files (`is_read_optimized`) either, which may hold the deletes of rows that have moved.
    """

    table: HudiTable
    predicate: Predicate
    schema: pa.Schema
    is_past: bool
    is_read_optimized: bool = False
    asks_secondary_indexes: bool = False

    def prune_partitions(self, paths: Sequence[str]) -> Collection[str]:
        """Those of the partitions with these paths that may hold a matching row. Raises StorageError."""
        if len(paths) >= FEWEST_TO_SKIP and self.groups_with_keys is not None:
            with_keys = {path for path, _ in self.groups_with_keys}
            return [path for path in paths if path in with_keys]
        # Hudi makes ranges of a partition from those of its files that have bounds, which long texts and
        # files with NaN have not. In the form V1 it leaves decimals out.
        fields = {
            name: field
            for name, field in self._fields.items()
            if _has_bounds_always(field.type)
            and not (has_first_form(self.table) and pa.types.is_decimal(field.type))
        }
        predicate = restrict_predicate(self.predicate, fields)
        metadata = self._metadata if predicate is not None and len(paths) >= FEWEST_TO_SKIP else None
        if metadata is None or predicate is None or not self._knows_partitions(metadata):
            return paths
        parts = _partition_parts(paths)
        columns = key_parts([name for name in fields if (name,) in columns_of(predicate)])
        bounds = self._read(metadata, PARTITION_STATS, columns, parts.values())
        if bounds is None:
            return paths
        return {path for path in paths if _may_match(predicate, columns, bounds, (parts[path],))}

    def prune_slices(self, slices: Sequence[FileSlice]) -> list[bool]:
        """True for each of the file slices that may hold a matching row. Raises StorageError."""
        every = [True] * len(slices)
        if len(slices) < FEWEST_TO_SKIP:
            return every
        groups = self.groups_with_keys
        if groups is None:
            groups = self._groups_by_partition(slices)
        if groups is not None:
            return [each.file_group in groups for each in slices]
        if not self._fields or self._metadata is None:
            return every
        metadata = self._metadata
        if COLUMN_STATS not in metadata.indexes:
            return every
        parts = _partition_parts(sorted({file_slice.partition_path for file_slice in slices}))
        columns = key_parts(list(self._fields))
        bounds = self._read(metadata, COLUMN_STATS, columns, parts.values())
        if bounds is None:
            return every

        keys = (
            [f"{parts[file_slice.partition_path]}{file_key_part(name)}" for name in _names(file_slice)]
            for file_slice in slices
        )
        return [_may_match(self.predicate, columns, bounds, of_slice) for of_slice in keys]

    @cached_property
    def _metadata(self) -> MetadataTable | None:
        metadata = find_kept(self.table)
        return metadata if metadata is not None and has_trusted_statistics(metadata) else None

    @cached_property
    def groups_with_keys(self) -> frozenset[FileGroup] | None:
        """The file groups with the rows that the predicate names; None if they are not known."""
        metadata = record_index_of(self.table) if self.names_rows else None
        if metadata is None:
            return None
        if self._keys is not None:
            return look_up_groups(metadata, self._keys)
        assert self._values is not None  # of `names_rows`
        keys, used = keys_of_values(metadata, self._values), (RECORD_INDEX, self._values.index.name)
        return None if keys is None else look_up_groups(metadata, (keys,), indexes=used)

    def _groups_by_partition(self, slices: Sequence[FileSlice]) -> frozenset[FileGroup] | None:
        """Those with the keys of the predicate by a partitioned record index.

        None if they are not known, or the index of these partitions has about as many files as the slices.
        """
        paths = sorted({file_slice.partition_path for file_slice in slices})
        is_worth = len(paths) <= MOST_PARTITIONS and len(slices) >= FEWEST_TO_SKIP * len(paths)
        if self._keys is None or not is_worth:
            return None
        metadata = record_index_of(self.table, is_global=False)
        return None if metadata is None else look_up_groups(metadata, self._keys, paths)

    @property
    def names_rows(self) -> bool:
        """True if the predicate names all record keys or values of a secondary index that its rows may have.

        Raises StorageError.
        """
        return self._keys is not None or self._values is not None

    @cached_property
    def _keys(self) -> tuple[pa.Array, ...] | None:
        return keys_of_predicate(self.table, self.predicate) if self._is_latest else None

    @cached_property
    def _values(self) -> IndexedValues | None:
        is_asked = self.asks_secondary_indexes and self._is_latest
        return indexed_values(self.table, self.predicate) if is_asked else None

    @property
    def _is_latest(self) -> bool:
        return not self.is_past and not self.is_read_optimized

    @cached_property
    def _fields(self) -> dict[str, pa.Field]:
        """The columns of the predicate that have statistics."""
        names = {path[0] for path in columns_of(self.predicate) if len(path) == 1}
        if self.table.computed_meta is not None:
            names -= {*META_COLUMNS}
        return {field.name: field for field in self.schema if field.name in names and value_kind(field.type)}

    def _knows_partitions(self, metadata: MetadataTable) -> bool:
        """False if a later commit than the table's last one may have narrowed the ranges of partitions."""
        if self.is_past or PARTITION_STATS not in metadata.indexes:
            return False
        return not metadata.has_later_commits

    def _read(
        self, metadata: MetadataTable, index: str, columns: Mapping[str, str], partitions: Collection[str]
    ) -> Bounds | None:
        """The bounds of the columns in the partitions; None if they are gone or cannot be read.

        Another process may have compacted or dropped the metadata table meanwhile.
        """
        prefixes = [f"{column}{partition}" for column in columns.values() for partition in partitions]
        try:
            groups = metadata.read_layers(index, prefixes)
        except (CorruptTableError, NoSuchPathError, UnsupportedTableError):
            return None
        bounds: dict[str, ColumnBounds] = {}
        for name, column in columns.items():
            for layers in groups:
                bounds |= bounds_by_key(
                    _of_column(layers, column),
                    self._fields[name],
                    in_first_form=has_first_form(self.table),
                )
        return bounds


def skips_by_statistics(config: HudiConfig) -> bool:
    """True unless the settings of a read turn data skipping or the metadata table off."""
    is_without_metadata = config.is_set(METADATA_ENABLE) and not config.get(METADATA_ENABLE)
    return config.get(DATA_SKIPPING) and not is_without_metadata


def data_skipping(
    table: HudiTable,
    predicate: Predicate | None,
    schema: pa.Schema,
    *,
    is_past: bool,
    is_read_optimized: bool,
    asks_secondary_indexes: bool,
) -> DataSkipping | None:
    """The skipping of a scan; None without a predicate or a metadata table to ask. Sends no request."""
    if predicate is None or not has_kept_indexes(table):
        return None
    # Source files of another modification time may have other rows than their statistics tell.
    if table.accepts_changed_sources or table.properties.has_register_only_partitions:
        return None
    return DataSkipping(table, predicate, schema, is_past, is_read_optimized, asks_secondary_indexes)


def _has_bounds_always(kind: pa.DataType) -> bool:
    is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_binary(kind)
    return not is_text and not pa.types.is_floating(kind)


def _partition_parts(paths: Collection[str]) -> dict[str, str]:
    parts = key_parts([path or NON_PARTITIONED for path in paths])
    return {path: parts[path or NON_PARTITIONED] for path in paths}


def _names(file_slice: FileSlice) -> list[str]:
    """The names of the files of whose rows the rows of the slice are made."""
    paths = [log_file.path for log_file in file_slice.log_files if log_file.holds_rows]
    if file_slice.base_file is not None:
        paths.append(file_slice.base_file.path)
    return [path.rpartition("/")[2] for path in paths]


def _of_column(layers: Sequence[MetadataRecords], column: str) -> list[MetadataRecords]:
    chosen = []
    for layer in layers:
        is_chosen = pc.equal(pc.utf8_slice_codeunits(layer.keys, 0, _COLUMN_PART), column)
        chosen.append(MetadataRecords(layer.keys.filter(is_chosen), layer.values.filter(is_chosen)))
    return chosen


def _may_match(predicate: Predicate, columns: Mapping[str, str], bounds: Bounds, keys: Sequence[str]) -> bool:
    """False if the bounds exclude all rows of the partition, or of the files of a slice, with these keys.

    `keys` lack the part of the column. Merged rows may have values of several files of a slice.
    """

    def statistics_of(path: ColumnPath) -> ColumnStatistics | None:
        column = columns.get(path[0]) if len(path) == 1 else None
        found = [] if column is None else [bounds.get(f"{column}{key}") for key in keys]
        known = [column_bounds for column_bounds in found if column_bounds is not None]
        if not known or len(known) < len(found):
            return None
        whole = merged_bounds(known)
        return ColumnStatistics(whole.rows, whole.nulls, whole.least, whole.greatest)

    return may_match(predicate, statistics_of)
