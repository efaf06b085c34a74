"""Verifies full-record partitions: base files against commit, keys against rows, rows against source.

A partition is compared with its source only while it has exactly the files that the bootstrap wrote; its
source may later change or be removed without harm, which is a notice, not an error. Reads only.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from hudisql.bootstrap.files.full_record_sources import RewrittenSource
from hudisql.bootstrap.source.source_files import TableReadByName
from hudisql.bootstrap.verify.verify_files import (
    DATA_DIFFERS,
    FILE_CHANGED,
    FILE_MISSING,
    FILE_UNREADABLE,
    META_DIFFERS,
    REWRITTEN_SOURCE_CHANGED,
    ROWS_DIFFER,
    Discrepancy,
    committed_files,
)
from hudisql.bootstrap.verify.verify_rows import compare_rewritten_rows
from hudisql.format.keys.record_keys import render_record_keys
from hudisql.format.paths.external_file import ExternalFile
from hudisql.format.schema import meta_columns
from hudisql.format.table_properties import BOOTSTRAP_SOURCE_TABLE
from hudisql.format.timeline.commit_metadata import WriteStat
from hudisql.format.timeline.instant import FULL_BOOTSTRAP_INSTANT_TIME
from hudisql.read.scan.scan_plan import ScannedSlice
from hudisql.spark.task_runner import run_on_files
from hudisql.storage import Storage, join
from hudisql.table.file_slice import FileSlice
from hudisql.table.hudi_table import HudiTable
from hudisql.table.properties.version_properties import made_with_key_pairs
from hudisql.table.timeline.replaced_groups import replaced_file_groups

if TYPE_CHECKING:
    from hudisql.context import Context

_BATCH_ROWS: Final = 65_536


@dataclass(frozen=True, slots=True)
class FullRecordVerification:
    """The numbers of checked files and rows and of compared rows, and the differences."""

    files: int = 0
    rows: int = 0
    compared_files: int = 0
    compared_rows: int = 0
    rewritten_files: int = 0
    discrepancies: tuple[Discrepancy, ...] = ()


@dataclass(frozen=True, slots=True)
class _FileToCheck:
    file_slice: FileSlice
    expected: WriteStat | None
    compares_rows: bool


@dataclass(frozen=True, slots=True)
class _Checked:
    rows: int
    compared_rows: int
    discrepancies: tuple[Discrepancy, ...]


def verify_full_records(
    context: Context,
    table: HudiTable,
    slices: Sequence[ScannedSlice],
    sources: Sequence[RewrittenSource],
    *,
    sampled_files: int,
    compares_all: bool,
) -> FullRecordVerification:
    """Verify the full-record files among the table's latest `slices`.

    `sampled_files` of them have one row group's keys compared with its data; `compares_all` compares every
    row with the source. Raises StorageError, CorruptTableError and, with `compares_all`, QueryError.
    """
    storage = table.storage
    own = [
        (file_slice, values)
        for file_slice, values in slices
        if file_slice.base_instant_time == FULL_BOOTSTRAP_INSTANT_TIME
    ]
    stats = committed_files(table, FULL_BOOTSTRAP_INSTANT_TIME)
    if not own and not stats:
        return FullRecordVerification()
    missing, rewritten = _unseen(table, stats, slices)
    step = max(1, -(-len(own) // sampled_files)) if sampled_files else 0
    files = [
        _FileToCheck(
            file_slice,
            stats.get(file_slice.base_file.path) if file_slice.base_file else None,
            bool(step) and number % step == 0,
        )
        for number, (file_slice, _) in enumerate(own)
    ]
    checked: list[_Checked] = run_on_files(
        context.spark,
        files,
        partial(
            _check_files,
            storage,
            table.properties.record_key_fields,
            made_with_key_pairs(table.properties),
        ),
        weight=lambda _file: 0,
        console=context.console,
        label=f"Verifying {table.name}, rewritten files",
    )
    discrepancies = [*missing, *(discrepancy for verdict in checked for discrepancy in verdict.discrepancies)]
    rows = {file.file_slice.file_id: verdict.rows for file, verdict in zip(files, checked, strict=True)}
    discrepancies += _compare_with_source(
        context,
        table,
        own,
        rows,
        sources,
        rewritten | {discrepancy.partition_path for discrepancy in missing},
        compares_all=compares_all and not discrepancies,
    )
    return FullRecordVerification(
        len(own),
        sum(rows.values()),
        sum(1 for verdict in checked if verdict.compared_rows),
        sum(verdict.compared_rows for verdict in checked),
        max(0, len(stats) - len(own) - len(missing)),
        tuple(discrepancies),
    )


def _unseen(
    table: HudiTable,
    stats: Mapping[str, WriteStat],
    slices: Sequence[ScannedSlice],
) -> tuple[list[Discrepancy], set[str]]:
    """Committed files without a file group, and the partitions that later commits wrote to."""
    alive = {file_slice.file_group: file_slice for file_slice, _ in slices}
    replaced = replaced_file_groups(table)
    committed = {(stat.partition_path or "", stat.file_id) for stat in stats.values()}
    missing = []
    rewritten = {
        file_slice.partition_path
        for file_slice, _ in slices
        if file_slice.file_group not in committed or file_slice.has_log_files
    }
    for path, stat in stats.items():
        file_group = (stat.partition_path or "", stat.file_id)
        file_slice = alive.get(file_group)
        if file_slice is not None and file_slice.base_instant_time == FULL_BOOTSTRAP_INSTANT_TIME:
            continue
        if file_slice is None and file_group not in replaced:
            detail = f"the commit says that it has {stat.num_writes:,} rows"
            missing.append(Discrepancy(FILE_MISSING, file_group[0], path, detail))
        rewritten.add(file_group[0])
    return missing, rewritten


def _check_files(
    storage: Storage, record_key: tuple[str, ...], complex_keys: bool, files: Iterable[_FileToCheck]
) -> Iterator[_Checked]:
    for file in files:
        yield _check_file(storage, record_key, complex_keys, file)


def _check_file(
    storage: Storage, record_key: tuple[str, ...], complex_keys: bool, file: _FileToCheck
) -> _Checked:
    base_file, partition_path = file.file_slice.base_file, file.file_slice.partition_path
    assert base_file is not None  # only slices of the bootstrap's second commit come here
    discrepancies = []
    stat = file.expected
    if stat is not None and base_file.length != stat.file_size_in_bytes:
        detail = f"it has {base_file.length:,} bytes, the commit says {stat.file_size_in_bytes:,}"
        discrepancies.append(Discrepancy(FILE_CHANGED, partition_path, base_file.path, detail))
    rows = compared = 0
    try:
        with storage.open_input(base_file.path) as stream, pq.ParquetFile(stream) as parquet:
            rows = int(parquet.metadata.num_rows)
            if stat is not None and rows != stat.num_writes:
                detail = f"it has {rows:,} rows, the commit says {stat.num_writes:,}"
                discrepancies.append(Discrepancy(FILE_CHANGED, partition_path, base_file.path, detail))
            if file.compares_rows and rows:
                compared, wrong = _compare_keys(parquet, record_key, complex_keys, file.file_slice)
                if wrong:
                    discrepancies.append(Discrepancy(META_DIFFERS, partition_path, base_file.path, wrong))
    except (pa.ArrowException, OSError) as error:
        detail = str(error).splitlines()[0] if str(error) else type(error).__name__
        discrepancies.append(Discrepancy(FILE_UNREADABLE, partition_path, base_file.path, detail))
    return _Checked(rows, compared, tuple(discrepancies))


def _compare_keys(
    parquet: pq.ParquetFile, record_key: tuple[str, ...], complex_keys: bool, file_slice: FileSlice
) -> tuple[int, str | None]:
    """The rows of the first row group whose meta columns were compared, and their differences."""
    assert file_slice.base_file is not None
    constants = {
        meta_columns.COMMIT_TIME: file_slice.base_instant_time,
        meta_columns.PARTITION_PATH: file_slice.partition_path,
        meta_columns.FILE_NAME: file_slice.base_file.path.rsplit("/", 1)[-1],
    }
    compared = 0
    # All columns are decoded, so that a damaged one is found too.
    for batch in parquet.iter_batches(_BATCH_ROWS, row_groups=[0], use_threads=False):
        # A generated key is the sequence number that the bootstrap gave the row.
        expected = (
            render_record_keys(batch, record_key, complex_keys=complex_keys).keys
            if record_key
            else batch.column(meta_columns.COMMIT_SEQNO)
        )
        if not batch.column(meta_columns.RECORD_KEY).equals(expected):
            return compared, f"{meta_columns.RECORD_KEY} is not what the rows from {compared:,} on give"
        for name, value in constants.items():
            if not pc.all(pc.equal(pc.fill_null(batch.column(name), "\0"), value)).as_py():
                return compared, f"{name} is not {value} in the rows from {compared:,} on"
        compared += len(batch)
    return compared, None


def _compare_with_source(
    context: Context,
    table: HudiTable,
    slices: Sequence[ScannedSlice],
    rows: Mapping[str, int],
    sources: Sequence[RewrittenSource],
    left_out: set[str],
    *,
    compares_all: bool,
) -> list[Discrepancy]:
    """The rows of each partition against its source, if unchanged; with `compares_all` their values too."""
    by_partition: dict[str, list[RewrittenSource]] = defaultdict(list)
    for source in sources:
        if source.partition_path not in left_out:
            by_partition[source.partition_path].append(source)
    of_table: dict[str, int] = defaultdict(int)
    for file_slice, _ in slices:
        of_table[file_slice.partition_path] += rows[file_slice.file_id]
    discrepancies = []
    for path, files in by_partition.items():
        expected = sum(file.rows for file in files)
        if of_table[path] != expected:
            detail = f"its source files had {expected:,} rows, the partition has {of_table[path]:,}"
            discrepancies.append(Discrepancy(ROWS_DIFFER, path, join(table.base_path, path), detail))
    changed = list(
        _changed_sources(table.storage, [file for files in by_partition.values() for file in files])
    )
    if compares_all and not discrepancies:
        changed_partitions = {discrepancy.partition_path for discrepancy in changed}
        whole = {
            path: [file.file for file in files]
            for path, files in by_partition.items()
            if path not in changed_partitions
        }
        discrepancies += _compare_values(context, table, slices, whole)
    return discrepancies + changed


def _compare_values(
    context: Context,
    table: HudiTable,
    slices: Sequence[ScannedSlice],
    sources: Mapping[str, Sequence[ExternalFile]],
) -> list[Discrepancy]:
    compared = [(file_slice, values) for file_slice, values in slices if file_slice.partition_path in sources]
    source_table = _source_table(table)
    if source_table is not None:
        entry = context.metastore.get_table(source_table.database, source_table.name)
        if entry is None:
            detail = "the metastore has no such table, and its rows were not compared"
            return [Discrepancy(REWRITTEN_SOURCE_CHANGED, "", source_table.full_name, detail)]
    differing = compare_rewritten_rows(context.spark, table, compared, sources, source_table)
    detail = "the rows do not have the same values in source and table"
    return [Discrepancy(DATA_DIFFERS, path, join(table.base_path, path), detail) for path in differing]


def _source_table(table: HudiTable) -> TableReadByName | None:
    """The source table if only Spark reads its files."""
    properties = table.properties
    kind, name = properties.bootstrap_source_kind, properties.get(BOOTSTRAP_SOURCE_TABLE)
    if kind is None or name is None:
        return None
    database, _, plain_name = name.partition(".")
    return TableReadByName(database, plain_name, kind)


def _changed_sources(storage: Storage, sources: Sequence[RewrittenSource]) -> Iterator[Discrepancy]:
    infos = storage.infos_by_directory([source.file.path for source in sources])
    for source, info in zip(sources, infos, strict=True):
        if info is None:
            yield Discrepancy(
                REWRITTEN_SOURCE_CHANGED, source.partition_path, source.file.path, "it was removed"
            )
        elif (info.length, info.modification_time_ms) != (
            source.file.length,
            source.file.modification_time_ms,
        ):
            detail = "it is no longer the file that was rewritten"
            yield Discrepancy(REWRITTEN_SOURCE_CHANGED, source.partition_path, source.file.path, detail)
