"""Checks that a resync adds no record key twice: against the table before, among its own rows after.

Keys are looked up by the table's index in the existing partitions, as an upsert does; new partitions cost
nothing. The new rows' keys are compared as those of a bootstrap, by hashes of the key columns of the files
just written, before the commit completes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from hudisql.bootstrap.files.skeleton import KeyCheck
from hudisql.bootstrap.resync.resync_rows import FILE_NUMBER, SourceRows, key_frame
from hudisql.bootstrap.run.key_uniqueness import ComparedFile, RepeatedKey, find_repeated_keys
from hudisql.errors import RepeatedKeysError, WriteRefusedError
from hudisql.read.scan.arrow_scan import calendar_settings
from hudisql.spark.cached_rows import cache_rows
from hudisql.spark.task_errors import spark_job
from hudisql.table.hudi_table import HudiTable
from hudisql.write.changes import PARTITION, RECORD_KEY
from hudisql.write.execution.write_context import WrittenFile
from hudisql.write.index.key_lookup import STORED_KEY, STORED_PARTITION, locate_keys
from hudisql.write.index.record_index import IndexKind, RecordIndex
from hudisql.write.keygen.partition_paths import PartitionPaths

if TYPE_CHECKING:
    from hudisql.context import Context

_SAMPLES: Final = 3


def refuse_stored_keys(
    context: Context,
    table: HudiTable,
    files: Sequence[SourceRows],
    paths: PartitionPaths,
    key_check: KeyCheck,
    *,
    complex_keys: bool,
) -> None:
    """Raise WriteRefusedError if record keys of the files are stored, in their partition or in the table."""
    is_global = key_check is KeyCheck.UNIQUE_GLOBAL
    concerned = [file for file in files if is_global or paths.existing(file.partition_path) is not None]
    if not key_check.is_unique or not concerned:
        return
    from pyspark.sql import functions as sf

    spark = context.spark
    index = RecordIndex(IndexKind.GLOBAL_BLOOM if is_global else IndexKind.BLOOM)
    calendars = calendar_settings(spark)
    with spark_job("the record keys of the new files could not be looked up"):
        cached = cache_rows(key_frame(spark, table, concerned, calendars, complex_keys=complex_keys))
        try:
            located, _ = locate_keys(spark, table, cached, index, pa.schema([]))
            condition = sf.col(RECORD_KEY) == sf.col(STORED_KEY)
            if not is_global:
                condition = condition & (sf.col(PARTITION) == sf.col(STORED_PARTITION))
            both = cached.frame.join(located, condition).groupBy(RECORD_KEY, PARTITION)
            repeated = both.agg(sf.min(FILE_NUMBER).alias(FILE_NUMBER), sf.min(STORED_PARTITION))
            samples = repeated.orderBy(RECORD_KEY).limit(_SAMPLES).collect()
            count = repeated.count() if len(samples) == _SAMPLES else len(samples)
        finally:
            cached.release()
    if samples:
        listed = [
            f"'{key}' of {concerned[number].new_file.file.path}"
            + (f" in partition '{stored}'" if stored else "")
            for key, _, number, stored in samples
        ]
        raise _stored_keys_error(table, count, listed)


def _stored_keys_error(table: HudiTable, count: int, listed: Sequence[str]) -> WriteRefusedError:
    more = f"\n  - and {count - len(listed):,} more" if count > len(listed) else ""
    subject = (
        "1 record key of the new files is" if count == 1 else f"{count:,} record keys of the new files are"
    )
    return WriteRefusedError(
        f"{subject} in the table at {table.base_path} already:"
        + "".join(f"\n  - {text}" for text in listed)
        + more,
        hint="nothing was written; mode => 'upsert' lets the new rows replace the stored ones,"
        " key_check => 'nulls' adds them as further rows of their keys",
    )


def refuse_repeated_keys(
    context: Context,
    files: Sequence[SourceRows],
    written: Sequence[tuple[int, WrittenFile]],
    key_check: KeyCheck,
    name: str,
) -> None:
    """Raise RepeatedKeysError if rows just written share a record key, in a partition or in the table.

    `written` names each file with the number of its source file.
    """
    if not key_check.is_unique or not written:
        return
    is_global = key_check is KeyCheck.UNIQUE_GLOBAL
    groups: dict[str, int] = {}
    compared = [
        ComparedFile(
            place,
            0 if is_global else groups.setdefault(file.partition_path, len(groups)),
            file.path,
            file.rows,
            file.bytes,
        )
        for place, (_, file) in enumerate(written)
    ]
    repeated_keys = find_repeated_keys(context, compared, label=f"Comparing keys of {name}, files")
    if not repeated_keys.keys:
        return
    listed = "".join(
        f"\n  - {_describe(files, written, sample)}" for sample in repeated_keys.samples[:_SAMPLES]
    )
    subject = "1 record key is" if repeated_keys.keys == 1 else f"{repeated_keys.keys:,} record keys are"
    raise RepeatedKeysError(
        f"{'at least ' if repeated_keys.is_cut else ''}{subject} in {repeated_keys.rows:,} rows of the new "
        f"files:{listed}",
        hint="nothing was written; remove the surplus rows from the source, mode => 'upsert' keeps the newest"
        " row of each key, key_check => 'nulls' keeps them all",
    )


def _describe(
    files: Sequence[SourceRows], written: Sequence[tuple[int, WrittenFile]], sample: RepeatedKey
) -> str:
    first, last = (files[written[place][0]].new_file.file.path for place, _ in (sample.first, sample.last))
    where = first if first == last else f"{first} and {last}"
    return f"'{sample.key}' in {sample.rows:,} rows: {where}"
