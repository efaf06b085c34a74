"""How each file slice of a scan is read: by Spark's own parquet scan if that gives the same rows.

Spark's scan needs one file that holds all columns. A slice with few log records has the rows of its file that
no record replaces, and the records' rows (`replaced_rows`). The slice reader reads all other slices, for
example meta columns together with data columns of an external file. Pure values.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, auto
from typing import Final

import pyarrow as pa

from hudisql.format.schema.meta_columns import META_COLUMNS
from hudisql.read.files.splits import driving_file_bytes
from hudisql.read.slice.slice_reader import needs_data_columns
from hudisql.storage import parent_of
from hudisql.table.file_slice import FileSlice

# One task reads a smaller slice faster than the positions of replaced rows are sent to all executors.
_LEAST_BYTES_TO_MERGE: Final = 32 << 20
# All positions of replaced rows are sent to every executor: at most one for each 60 bytes of these.
_MOST_LOG_BYTES: Final = 64 << 20
_MOST_LOG_SHARE: Final = 0.25


class ScanMethod(Enum):
    """How one file slice is read."""

    NATIVE = auto()
    """By Spark's parquet scan of its one file."""
    MERGED = auto()
    """By Spark's parquet scan without the rows that log records replace, plus the records' rows."""
    STITCHED = auto()
    """By the slice reader."""


def scanned_file(file_slice: FileSlice, *, needs_data: bool) -> str | None:
    """The path of the one file that Spark scans; None if the slice consists of log files alone.

    That is the file with the data columns, or the skeleton if only meta columns of a bootstrapped slice are
    read (not `needs_data`).
    """
    if file_slice.external_file is not None and (needs_data or file_slice.is_register_only):
        return file_slice.external_file.path
    return None if file_slice.base_file is None else file_slice.base_file.path


def scan_methods(
    slices: Sequence[FileSlice],
    columns: pa.Schema,
    partition_columns: Sequence[str],
    *,
    has_partial_blocks: bool = False,
    has_predicate: bool = False,
) -> list[ScanMethod]:
    """The method for each slice of a scan that reads `columns`.

    If log blocks may have only some of the columns, the slice reader merges the log files. It also reads
    slices with floats in structs if a predicate can skip row groups, since Spark must not skip any there, and
    slices whose files have columns of the scan under other names or types (schema-on-read).
    """
    if has_predicate and has_floats_in_structs(columns):
        return [ScanMethod.STITCHED] * len(slices)
    needs_data = needs_data_columns(columns, partition_columns)
    needs_meta = any(name in META_COLUMNS for name in columns.names)
    merged = [file_slice for file_slice in slices if file_slice.has_log_files]
    merges_natively = (
        not has_partial_blocks
        and sum(driving_file_bytes(file_slice, needs_data=needs_data) for file_slice in merged)
        >= _LEAST_BYTES_TO_MERGE
        and sum(file_slice.log_length for file_slice in merged) <= _MOST_LOG_BYTES
    )
    partition_of_directory: dict[str, str] = {}

    def method_of(each: FileSlice) -> ScanMethod:
        path = scanned_file(each, needs_data=needs_data)
        # A bootstrapped slice has its meta columns in another file than its data.
        is_apart = each.is_bootstrapped and not each.is_register_only and needs_meta and needs_data
        is_computed = each.computed_meta is not None and needs_meta
        is_renamed = not each.columns_in_base(columns).equals(columns)
        if path is None or is_apart or is_computed or is_renamed or not _is_seen_by_spark(path):
            return ScanMethod.STITCHED
        few = driving_file_bytes(each, needs_data=needs_data) * _MOST_LOG_SHARE
        # Rows that are only counted are not read, so no positions are sent to executors.
        is_cheaper = merges_natively and (not columns.names or each.log_length <= few)
        if each.has_log_files and not is_cheaper:
            return ScanMethod.STITCHED
        # Spark's file index knows one partition per directory.
        if partition_of_directory.setdefault(parent_of(path), each.partition_path) != each.partition_path:
            return ScanMethod.STITCHED
        return ScanMethod.MERGED if each.has_log_files else ScanMethod.NATIVE

    return [method_of(file_slice) for file_slice in slices]


def has_floats_in_structs(columns: pa.Schema) -> bool:
    """True if Spark would skip row groups by bounds of a struct member that leave out NaN.

    For top-level columns `native_scan` prevents that.
    """
    return any(pa.types.is_struct(field.type) and _has_floats(field.type) for field in columns)


def _has_floats(struct: pa.StructType) -> bool:
    return any(
        pa.types.is_floating(field.type) or (pa.types.is_struct(field.type) and _has_floats(field.type))
        for field in struct
    )


def _is_seen_by_spark(path: str) -> bool:
    """False for names that Spark's file index ignores, or that Hadoop cannot open locally."""
    name = path.rsplit("/", 1)[-1]
    return not name.startswith(("_", ".")) and ":" not in name
