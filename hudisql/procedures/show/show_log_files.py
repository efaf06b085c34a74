"""Procedures that show the content of log files, and base files that are not parquet files.

Names, parameters and columns are those of Hudi 0.15 (`ShowHoodieLogFileMetadataProcedure`,
`ShowHoodieLogFileRecordsProcedure`, `ShowInvalidParquetProcedure`); delete blocks, at which Hudi 0.15 fails,
are counted or skipped.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from hudisql.config.config_key import split_names
from hudisql.errors import InvalidArgumentError
from hudisql.format.paths.file_names import parse_base_file_name, parse_log_file_name
from hudisql.options.table_call import find_table
from hudisql.procedures.registry import (
    Arguments,
    TableArguments,
    parameter,
    parameter_without_effect,
    procedure,
)
from hudisql.procedures.show.shown_rows import filter_parameter, find_paths, first_rows, limit_parameter
from hudisql.storage import FileInfo, Storage, join, parent_of

if TYPE_CHECKING:
    import pyarrow as pa

    from hudisql.context import Context
    from hudisql.format.log_file.log_block import LogBlockHead
    from hudisql.table.file_slice import LogFile
    from hudisql.table.hudi_table import HudiTable

_BATCH_ROWS = 1024
_PATTERN_HELP = "path of log files, absolute or below the table; *, ?, […] and {a,b} match within one level"


@dataclass(frozen=True, kw_only=True)
class LogFileMetadataArguments(TableArguments):
    """The parameters of `show_logfile_metadata`."""

    log_file_path_pattern: str = parameter(help=_PATTERN_HELP)
    limit: int = limit_parameter(10)
    filter: str = filter_parameter()


@dataclass(frozen=True, kw_only=True)
class LogFileRecordsArguments(TableArguments):
    """The parameters of `show_logfile_records`."""

    log_file_path_pattern: str = parameter(help=_PATTERN_HELP)
    merge: bool = parameter(False, help="only the latest committed record of each record key")
    limit: int = limit_parameter(10)
    filter: str = filter_parameter()


@dataclass(frozen=True)
class LogBlockRow:
    """A block of a log file: the instant that wrote it, its records, its header and footer as JSON."""

    instant_time: str
    record_count: Annotated[int, "int"]
    block_type: str
    header_metadata: str
    footer_metadata: str


@dataclass(frozen=True)
class LogRecordRow:
    """A record of a log file, as JSON."""

    records: str


@procedure("Shows the blocks of log files: their instants, numbers of records and headers.")
def show_logfile_metadata(context: Context, arguments: LogFileMetadataArguments) -> Iterable[LogBlockRow]:
    """A row for each block. Raises NoSuchTableError, InvalidArgumentError, StorageError."""
    table = find_table(context, arguments.table, arguments.path)
    paths = [file.path for file in _log_files(table, arguments.log_file_path_pattern)]
    blocks = (row for path in paths for row in _block_rows(table.storage, path))
    return first_rows(context, blocks, LogBlockRow, arguments.filter, arguments.limit)


@procedure("Shows the records of log files.")
def show_logfile_records(context: Context, arguments: LogFileRecordsArguments) -> Iterable[LogRecordRow]:
    """A row for each record. Raises NoSuchTableError, InvalidArgumentError, UnsupportedTableError,
    CorruptTableError, StorageError.
    """
    from hudisql.format.avro.avro_text import avro_texts

    table = find_table(context, arguments.table, arguments.path)
    files = _log_files(table, arguments.log_file_path_pattern)
    batches = _merged_batches(table, files) if arguments.merge else _batches(table.storage, files)
    most = _BATCH_ROWS if arguments.filter.strip() else min(max(arguments.limit, 0), _BATCH_ROWS)
    records = (
        LogRecordRow(text)
        for batch in batches
        for start in range(0, batch.num_rows, max(most, 1))
        for text in avro_texts(batch.slice(start, most))
    )
    return first_rows(context, records, LogRecordRow, arguments.filter, arguments.limit)


def _log_files(table: HudiTable, pattern: str) -> list[LogFile]:
    """The log files at the paths that match."""
    from hudisql.table.file_slice import LogFile

    is_absolute = pattern.startswith("/") or ":" in pattern.split("/", 1)[0]
    log_files = []
    for path in find_paths(table.storage, pattern if is_absolute else join(table.base_path, pattern)):
        name = parse_log_file_name(path.name)
        if name is not None and not path.is_directory:
            log_files.append(LogFile(path.path, path.length, *name))
    if not log_files:
        raise InvalidArgumentError(
            f"there is no log file at {pattern}",
            hint=f"such as {table.base_path}/*/.*.log.*; CALL show_fsview_all lists log files",
        )
    return log_files


def _block_rows(storage: Storage, path: str) -> Iterator[LogBlockRow]:
    from hudisql.format.log_file.log_block import CorruptBlock, scan_log_blocks

    corrupt = unnamed = 0
    with storage.open_input(path) as source:
        for block in scan_log_blocks(source, path):
            if isinstance(block, CorruptBlock):
                corrupt += 1
                yield LogBlockRow(f"corrupt_block_{corrupt}", 0, "CORRUPT_BLOCK", "{}", "{}")
                continue
            time = block.instant_time
            if not time:
                unnamed += 1
                time = f"dummy_instant_time_{unnamed}"
            kind = f"{block.block_type.name}_BLOCK"
            count = _count_records(source, block)
            yield LogBlockRow(time, count, kind, _as_json(block.header), _as_json(block.footer))


def _as_json(metadata: object) -> str:
    from hudisql.format.log_file.log_block import HeaderKey

    assert isinstance(metadata, dict)
    known = {header_key.value: header_key.name for header_key in HeaderKey}
    named = {known.get(key, str(key)): value for key, value in sorted(metadata.items())}
    return json.dumps(named, separators=(",", ":"), ensure_ascii=False)


def _count_records(source: pa.NativeFile, block: LogBlockHead) -> int:
    """The number of rows or deletes in a block; 0 for an unknown block type."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from hudisql.format.log_file.log_block import BlockType
    from hudisql.format.log_file.log_block_content import decode_delete_records

    if block.block_type is BlockType.AVRO_DATA or block.block_type is BlockType.CDC_DATA:
        return int.from_bytes(source.read_at(4, block.start + 4), "big")
    if block.block_type is BlockType.DELETE:
        content = source.read_at(block.stop - block.start, block.start)
        return len(decode_delete_records(content).record_keys)
    if block.block_type is BlockType.PARQUET_DATA:
        content = source.read_at(block.stop - block.start, block.start)
        return int(pq.read_metadata(pa.BufferReader(content)).num_rows)
    return 0


def _batches(storage: Storage, files: Sequence[LogFile]) -> Iterator[pa.RecordBatch]:
    """The rows of the data blocks in their order, committed or not."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from hudisql.format.log_file.log_block import BlockType, CorruptBlock, HeaderKey, scan_log_blocks
    from hudisql.format.log_file.log_block_content import decode_data_block

    for log_file in files:
        with storage.open_input(log_file.path) as source:
            for block in scan_log_blocks(source, log_file.path):
                if isinstance(block, CorruptBlock):
                    continue
                if block.block_type is BlockType.AVRO_DATA:
                    content = source.read_at(block.stop - block.start, block.start)
                    yield decode_data_block(content, block.header.get(HeaderKey.SCHEMA, ""))
                elif block.block_type is BlockType.PARQUET_DATA:
                    content = source.read_at(block.stop - block.start, block.start)
                    yield from pq.read_table(pa.BufferReader(content)).to_batches()


def _merged_batches(table: HudiTable, files: Sequence[LogFile]) -> Iterator[pa.RecordBatch]:
    """For each file slice the latest committed rows of its log files, without deletes."""
    import numpy as np
    import pyarrow as pa

    from hudisql.format.schema.meta_columns import META_SCHEMA
    from hudisql.read.merge.merge_mode import log_merge_config_of
    from hudisql.read.merge.merged_log_scanner import read_log_records
    from hudisql.table.file_slice import FileSlice

    config = log_merge_config_of(table)
    schema = pa.schema([*META_SCHEMA, *table.schema])
    slices: dict[tuple[str, str, str], list[LogFile]] = {}
    for file in files:
        slices.setdefault((parent_of(file.path), file.file_id, file.base_instant_time), []).append(file)
    for (directory, file_id, base_instant_time), logs in slices.items():
        logs.sort(key=lambda log: (log.version, log.write_token))
        file_slice = FileSlice(
            partition_path=directory.removeprefix(table.base_path).strip("/"),
            file_id=file_id,
            base_instant_time=base_instant_time,
            base_file=None,
            log_files=tuple(logs),
            columns=table.file_columns,
            computed_meta=table.computed_meta,
        )
        records = read_log_records(table.storage, file_slice, config, schema)
        numbers = records.row_of_key[records.row_of_key >= 0]
        yield records.rows.take(np.sort(numbers[~records.is_delete[numbers]]))


@dataclass(frozen=True, kw_only=True)
class ShowInvalidParquetArguments(Arguments):
    """The parameters of `show_invalid_parquet`."""

    path: str = parameter(help="the table's directory")
    parallelism: int | None = parameter_without_effect("files are read in threads, without Spark")
    limit: int = limit_parameter(100)
    needDelete: bool | None = parameter_without_effect("no file is deleted")  # noqa: N815 (Hudi's name)
    partitions: str = parameter("", help="only these partitions and those below them, separated by commas")
    instants: str = parameter("", help="only files of these instants, separated by commas")
    filter: str = filter_parameter()


@dataclass(frozen=True)
class InvalidParquetRow:
    """A file that is not a parquet file."""

    path: str


@procedure("Shows the base files of a table that are not valid parquet files.")
def show_invalid_parquet(
    context: Context, arguments: ShowInvalidParquetArguments
) -> Iterable[InvalidParquetRow]:
    """A row for each file; their last bytes are read. Raises NoSuchTableError, StorageError."""
    table = find_table(context, None, arguments.path)
    storage = table.storage
    files = _parquet_files(table, split_names(arguments.partitions), split_names(arguments.instants))
    with ThreadPoolExecutor(_THREADS) as pool:
        is_parquet = pool.map(lambda file: _is_parquet(storage, file), files)
        invalid = (
            InvalidParquetRow(storage.hadoop_uri(file.path))
            for file, is_right in zip(files, is_parquet, strict=True)
            if not is_right
        )
        shown = first_rows(context, invalid, InvalidParquetRow, arguments.filter, arguments.limit)
        pool.shutdown(cancel_futures=True)
    return shown


_THREADS = 16


def _parquet_files(table: HudiTable, partitions: Sequence[str], instants: Sequence[str]) -> list[FileInfo]:
    from hudisql.read.scan.partition_pruning import is_below
    from hudisql.table.partitions.listed_partitions import list_partition_paths

    paths = list_partition_paths(table)
    if partitions:
        paths = [path for path in paths if any(is_below(path, partition) for partition in partitions)]
    directories = [join(table.base_path, path) for path in paths]
    return [
        entry
        for entries in table.storage.list_directories(directories, missing_ok=True)
        for entry in entries
        if entry.name.endswith(".parquet")
        and not entry.is_directory
        and not entry.name.startswith(".")
        and (not instants or _instant_of(entry.name) in instants)
    ]


def _instant_of(name: str) -> str | None:
    parsed = parse_base_file_name(name)
    return None if parsed is None else parsed.instant_time


def _is_parquet(storage: Storage, file: FileInfo) -> bool:
    """True if the file ends with a footer. The data before it is not read."""
    if file.length < _SMALLEST:
        return False
    with storage.open_input(file.path) as source:
        end = source.read_at(8, file.length - 8)
    footer = int.from_bytes(end[:4], "little")
    return end[4:] in (b"PAR1", b"PARE") and footer <= file.length - _SMALLEST


_SMALLEST = 12
