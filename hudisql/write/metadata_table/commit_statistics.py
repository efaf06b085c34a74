"""The statistics of the files that a commit writes, and of their partitions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from types import MappingProxyType

import pyarrow as pa

from hudisql.format.hfile.hfile_cells import cells_of
from hudisql.format.metadata_table.merged_ranges import mergeable_range, merged_ranges
from hudisql.format.metadata_table.metadata_keys import file_key_part, key_parts, partition_key_part
from hudisql.format.metadata_table.metadata_records import COLUMN_STATS, PARTITION_STATS
from hudisql.format.metadata_table.metadata_writing import ColumnRange, encode_range, fits_first_form_values
from hudisql.format.metadata_table.value_types import is_measured
from hudisql.format.schema.meta_columns import META_SCHEMA
from hudisql.format.timeline.commit_metadata import WriteStat
from hudisql.table.hudi_table import HudiTable
from hudisql.table.metadata_table.kept_metadata_table import has_first_form, has_statistics_form
from hudisql.table.metadata_table.metadata_table import readable_metadata_table
from hudisql.table.metadata_table.statistics_types import may_be_in_files
from hudisql.write.metadata_table.added_columns import nulls_of_files, nulls_of_partitions
from hudisql.write.metadata_table.deltacommit_files import IndexUpdate, IndexUpdates
from hudisql.write.metadata_table.files_of_commit import files_to_measure
from hudisql.write.metadata_table.measured_files import Measured, measure


def statistics_of_commit(
    table: HudiTable,
    schema: pa.Schema,
    instant_time: str,
    written: Mapping[str, Sequence[WriteStat]],
    columns: Sequence[str],
    added: Sequence[pa.Field],
) -> IndexUpdates:
    """The updates of both indexes of statistics; none if `column_stats` cannot have those of this commit."""
    if not all(has_statistics_form(table, column.type) for column in added):
        return {}
    metadata = readable_metadata_table(table) if added else None
    if added and (metadata is None or may_be_in_files(metadata, [each.name for each in added])):
        return {}
    fields = _measured_fields(schema, columns)
    measured = measure(table, files_to_measure(table, written, fields, instant_time))
    if has_first_form(table) and not fit_first_form(measured):
        return {}
    with_partitions = PARTITION_STATS in table.properties.metadata_partitions
    others = nulls_of_partitions(metadata, added) if metadata and with_partitions else {}
    updates = statistics_updates(
        measured, others, with_partitions=with_partitions, in_first_form=has_first_form(table)
    )
    if metadata is not None:
        nulls = cells_of(nulls_of_files(metadata, added))
        updates[COLUMN_STATS] = IndexUpdate(updates[COLUMN_STATS].records.with_others(nulls))
    return updates


def fit_first_form(measured: Measured) -> bool:
    """False if a range has a bound that indexes of version V1 cannot hold."""
    return all(
        fits_first_form_values(column_range)
        for files in measured.values()
        for _, ranges in files
        for column_range in ranges
    )


def statistics_updates(
    measured: Measured,
    others: Mapping[str, Sequence[ColumnRange]] = MappingProxyType({}),
    *,
    with_partitions: bool,
    in_first_form: bool = False,
) -> dict[str, IndexUpdate]:
    """The records of both indexes of statistics, in the form of version V1 or V2.

    `others` are ranges of other files by partition path.
    """
    of_files: dict[str, bytes] = {}
    of_partitions: dict[str, bytes] = {}
    names = {each.column for found in measured.values() for _, ranges in found for each in ranges}
    columns = key_parts(sorted(names | {each.column for ranges in others.values() for each in ranges}))
    for path in {**measured, **others}:
        partition = partition_key_part(path)
        by_column: dict[str, list[ColumnRange]] = defaultdict(list)
        for other in others.get(path, ()):
            by_column[other.column].append(other)
        for name, ranges in measured.get(path, ()):
            file = file_key_part(name)
            for column_range in ranges:
                key = f"{columns[column_range.column]}{partition}{file}"
                of_files[key] = encode_range(column_range, name, in_first_form=in_first_form)
                by_column[column_range.column].append(column_range)
        for column, ranges in by_column.items():
            key = f"{columns[column]}{partition}"
            merged = mergeable_range(merged_ranges(ranges))
            of_partitions[key] = encode_range(merged, path, of_partition=True, in_first_form=in_first_form)
    updates = {COLUMN_STATS: IndexUpdate(cells_of(of_files))}
    if with_partitions:
        updates[PARTITION_STATS] = IndexUpdate(cells_of(of_partitions))
    return updates


def _measured_fields(schema: pa.Schema, columns: Sequence[str]) -> tuple[pa.Field, ...]:
    """The columns of the index that the table has by this schema."""
    types = {each.name: each for each in (*META_SCHEMA, *schema)}
    found = [types[name] for name in columns if name in types]
    return tuple(each for each in found if is_measured(each.type))
