"""Log files of merge-on-read slices: the blocks that a delta commit appends, and their file.

Follows `HoodieAppendHandle` of Hudi 0.15: each delta commit writes a new version of the slice's log, rows in
data blocks (Avro, which every reader merges, or parquet) and deletes in delete blocks. Callers create markers
and statistics, and assign rows to file groups.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import pyarrow as pa
import pyarrow.parquet as pq

from hudisql.config.hudi_config import MAX_BLOCK_SIZE, MAX_LOG_SIZE
from hudisql.format.log_file.log_block import (
    NO_INSTANT,
    BlockType,
    HeaderKey,
    LogBlock,
    LogBlockHead,
    encode_log_block,
    scan_log_blocks,
)
from hudisql.format.log_file.log_block_content import encode_data_block, encode_delete_records
from hudisql.format.paths.file_names import log_file_name
from hudisql.format.schema import meta_columns
from hudisql.format.schema.avro_schema import arrow_from_avro
from hudisql.read.files.conform import batch_of, conform_array
from hudisql.storage import Storage, join
from hudisql.table.file_slice import FileSlice, LogFile

BlockFormat = Literal["avro", "parquet"]


@dataclass(frozen=True, slots=True)
class LogFileConfig:
    """How a commit writes logs: a data block holds `max_block_bytes` of rows, in Arrow's form, at most, and
    the next version of the log begins before a file would grow beyond `max_file_bytes`.

    Settings are Hudi's `hoodie.logfile.data.block.max.size` and `hoodie.logfile.max.size`.
    """

    block_format: BlockFormat = "avro"
    max_block_bytes: int = MAX_BLOCK_SIZE.default_value
    max_file_bytes: int = MAX_LOG_SIZE.default_value


def data_blocks(
    rows: pa.RecordBatch,
    schema: pa.Schema,
    avro_schema: str,
    instant_time: str,
    config: LogFileConfig | None = None,
) -> Iterator[tuple[LogBlock, int]]:
    """Blocks that insert or update the rows, each with its number of rows.

    Meta columns come first, then the columns of `schema`.
    `_hoodie_file_name` of log rows is the bare file id. `avro_schema` is that of `base_file_avro_schema`.
    Raises InvalidArgumentError if the rows don't fit it.
    """
    whole = pa.schema([*meta_columns.META_SCHEMA, *schema])
    columns = [conform_array(rows.column(each.name), each.type) for each in whole]
    plain = batch_of(columns, whole, rows.num_rows)
    config = config or LogFileConfig()
    count = max(1, -(-plain.nbytes // max(1, config.max_block_bytes)))
    step = max(1, -(-plain.num_rows // count))
    header: Mapping[int, str] = {HeaderKey.INSTANT_TIME: instant_time, HeaderKey.SCHEMA: avro_schema}
    for start in range(0, plain.num_rows, step):
        part = plain.slice(start, step)
        if config.block_format == "parquet":
            block = LogBlock(BlockType.PARQUET_DATA, header, _parquet_content(part, avro_schema))
        else:
            block = LogBlock(BlockType.AVRO_DATA, header, encode_data_block(part, avro_schema))
        yield block, part.num_rows


def delete_block(record_keys: pa.Array, partition_path: str, avro_schema: str, instant_time: str) -> LogBlock:
    """A block that deletes the keys, whatever the ordering values of their rows are."""
    header: Mapping[int, str] = {HeaderKey.INSTANT_TIME: instant_time, HeaderKey.SCHEMA: avro_schema}
    return LogBlock(BlockType.DELETE, header, encode_delete_records(record_keys, partition_path))


def next_log_version(file_slice: FileSlice, base_instant_time: str) -> int:
    """The version of the next log file on top of that base instant; the first is 1.

    The base instant is the slice's own, or that of a pending compaction of its group.
    """
    known = [
        log_file.version
        for log_file in file_slice.log_files
        if log_file.base_instant_time == base_instant_time
    ]
    return max(known, default=0) + 1


def write_log_file(
    storage: Storage,
    directory: str,
    file_id: str,
    base_instant_time: str,
    version: int,
    write_token: str,
    blocks: Sequence[LogBlock],
) -> LogFile:
    """Write the blocks as a new log file of the partition at `directory`. Raises StorageError."""
    path = join(directory, log_file_name(file_id, base_instant_time, version, write_token))
    content = b"".join(encode_log_block(block) for block in blocks)
    storage.write(path, content)
    return LogFile(path, len(content), file_id, base_instant_time, version, write_token)


def _parquet_content(rows: pa.RecordBatch, avro_schema: str) -> bytes:
    stream = io.BytesIO()
    with pq.ParquetWriter(
        stream,
        rows.schema,
        compression="gzip",
        compression_level=1,
        version="2.6",
        data_page_version="1.0",
        coerce_timestamps="us",
        store_decimal_as_integer=False,
        store_schema=False,
    ) as writer:
        writer.write_batch(rows, row_group_size=rows.num_rows)
        footer = {
            meta_columns.FOOTER_AVRO_SCHEMA: avro_schema,
            meta_columns.FOOTER_WRITER_MODEL: "avro",
        }
        writer.add_key_value_metadata(footer)
    return stream.getvalue()


def instants_of_blocks(storage: Storage, path: str) -> frozenset[str]:
    """The instants that wrote the blocks of a log file. Raises NoSuchPathError, StorageError."""
    return frozenset(block.instant_time for block in _whole_blocks(storage, path)) - {NO_INSTANT}


def columns_of_blocks(storage: Storage, path: str) -> frozenset[str]:
    """The names of the columns, in lower case, that the blocks of a log file have.

    Raises CorruptTableError, NoSuchPathError, StorageError.
    """
    texts = {block.header.get(HeaderKey.SCHEMA) for block in _whole_blocks(storage, path)}
    return frozenset(name.lower() for text in texts if text for name in arrow_from_avro(text).names)


def _whole_blocks(storage: Storage, path: str) -> list[LogBlockHead]:
    with storage.open_input(path) as source:
        return [block for block in scan_log_blocks(source, path) if isinstance(block, LogBlockHead)]
