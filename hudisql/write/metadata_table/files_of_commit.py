"""The files that a commit writes, each as a slice of its own to be measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from hudisql.format.paths.file_names import parse_base_file_name, parse_log_file_name
from hudisql.format.timeline.commit_metadata import WriteStat
from hudisql.read.merge.merge_mode import InstantRange, log_merge_config_of
from hudisql.storage import join
from hudisql.table.file_slice import BaseFile, FileSlice, LogFile
from hudisql.table.hudi_table import HudiTable
from hudisql.table.partitions.listed_partitions import partition_of
from hudisql.write.metadata_table.column_ranges import MeasuredFile


def name_of(stat: WriteStat) -> str:
    """The name of the file."""
    assert stat.path is not None  # callers leave out those without
    return stat.path.rpartition("/")[2]


def files_to_measure(
    table: HudiTable,
    written: Mapping[str, Sequence[WriteStat]],
    fields: tuple[pa.Field, ...],
    instant_time: str,
) -> dict[str, list[MeasuredFile]]:
    """The files by partition path, with these columns to be measured; of log files the commit's own rows."""
    return {
        path: [_measured(table, path, stat, fields, instant_time) for stat in stats]
        for path, stats in written.items()
    }


def _measured(
    table: HudiTable, path: str, stat: WriteStat, fields: tuple[pa.Field, ...], instant_time: str
) -> MeasuredFile:
    file_slice = slice_of_file(table, path, name_of(stat), stat.file_size_in_bytes)
    config = None
    if file_slice.base_file is None:
        only = InstantRange(frozenset(), None, only=frozenset({instant_time}))
        config = replace(log_merge_config_of(table), instant_range=only)
    return MeasuredFile(
        name_of(stat), file_slice, fields, partition_values(table, path), log_merge_config=config
    )


def partition_values(table: HudiTable, path: str) -> dict[str, object]:
    """The values of the partition columns that the path gives."""
    values = partition_of(table, path).values
    return {
        partition_column.name: value
        for partition_column, value in zip(table.partition_columns, values, strict=True)
    }


def slice_of_file(table: HudiTable, path: str, name: str, length: int) -> FileSlice:
    """A slice of one base file or log file alone."""
    whole = join(table.base_path, path, name)
    base = parse_base_file_name(name)
    if base is not None:
        file = BaseFile(whole, length, base.file_id, base.write_token, base.instant_time)
        return FileSlice(path, base.file_id, base.instant_time, file)
    log = parse_log_file_name(name)
    assert log is not None  # a commit writes base files and log files
    log_file = LogFile(whole, length, log.file_id, log.base_instant_time, log.version, log.write_token or "")
    computed_meta = table.computed_meta
    return FileSlice(path, log.file_id, log.base_instant_time, None, (log_file,), computed_meta=computed_meta)
