"""Base files: whole records with their five meta columns, written row group by row group, rolled at a size.

Follows the files of Hudi 0.15's bulk insert (`HoodieCreateHandle`, `HoodieAvroParquetWriter`): file ids
`<uuid>-<n>`, meta columns first, every column optional, decimals FIXED, timestamps in microseconds, keys and
bloom filter in the footer. Lists have 3 levels, as the parquet format requires, since 2-level lists cannot
have null elements. Takes Arrow batches and their keys; knows neither Spark nor the source of the rows.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from hudisql.config.hudi_config import BLOOM_FPP, CODEC, MAX_FILE_SIZE
from hudisql.format.paths.file_names import base_file_name, parse_base_file_name
from hudisql.format.schema import meta_columns
from hudisql.format.schema.avro_schema import avro_from_arrow
from hudisql.read.files.conform import with_dictionaries
from hudisql.storage import Storage, join
from hudisql.table.hudi_table import without_columns
from hudisql.write.handle.key_footer import KeyFooter, NoKeyFooter
from hudisql.write.handle.meta_arrays import (
    META_ARRAY_SCHEMA,
    meta_arrays_of_kept_rows,
    meta_arrays_of_new_rows,
)
from hudisql.write.handle.open_base_file import OpenBaseFile, dictionary_columns

# The Arrow bytes of a row group before it is written; its pages are about a quarter of that.
ROW_GROUP_BYTES: Final = 64 << 20
# A file this close to its target size gets no further row group.
_IS_FULL: Final = 0.95


@dataclass(frozen=True, slots=True)
class BaseFileConfig:
    """How base files are written.

    `codec` is gzip, zstd, snappy or none; `bloom_entries` None sizes a file's filter to its rows. With
    `keeps_snappy` the next base file of a file group whose data is in snappy is in snappy, too. Files do not
    have the `dropped_columns`. Without `populates_meta` the meta columns are null, and footers have no keys.
    """

    codec: str = CODEC.default_value
    max_file_bytes: int = MAX_FILE_SIZE.default_value
    bloom_entries: int | None = None
    bloom_fpp: float = BLOOM_FPP.default_value
    keeps_snappy: bool = False
    dropped_columns: tuple[str, ...] = ()
    populates_meta: bool = True

    def in_files(self, schema: pa.Schema) -> pa.Schema:
        """The columns of `schema` that files have."""
        return without_columns(schema, self.dropped_columns)


@dataclass(frozen=True, slots=True)
class FileNaming:
    """The directory of one task's files, and the parts of their names and sequence numbers.

    `directory` is the partition's whole path; file ids are `<file_id_prefix>-<n>`.
    """

    directory: str
    partition_path: str
    instant_time: str
    file_id_prefix: str
    write_token: str
    task_partition_id: int


@dataclass(frozen=True, slots=True)
class WrittenBaseFile:
    """One finished base file; `footer` is its parquet footer, for the process that wrote it."""

    file_id: str
    path: str
    rows: int
    bytes: int
    min_key: str | None
    max_key: str | None
    footer: pq.FileMetaData | None = field(default=None, kw_only=True, compare=False, repr=False)


def key_footer(entries: int | None, config: BaseFileConfig) -> KeyFooter | NoKeyFooter:
    """Collects the keys of one file; see `KeyFooter` for `entries`."""
    return KeyFooter(entries, config.bloom_fpp) if config.populates_meta else NoKeyFooter()


def base_file_avro_schema(schema: pa.Schema, table_name: str) -> str:
    """The Avro schema that a base file's footer carries: the table's, with the meta columns in front."""
    document = json.loads(avro_from_arrow(schema, table_name))
    meta_fields = json.loads(meta_columns.SKELETON_AVRO_SCHEMA)["fields"]
    document["fields"] = [*meta_fields, *document["fields"]]
    return json.dumps(document, separators=(",", ":"))


class BaseFileWriter:
    """Writes rows of one partition into base files of the configured size.

    `create_marker` is called with the name of each file before the file is created. A caller that does not
    reach `finish` must call `abandon`. `expected_rows` (None if unknown) and `bytes_per_row` (an estimate)
    size the bloom filters and the first row groups; the actual file size decides when to roll. With
    `keeps_meta_columns` the rows start with their meta columns, of which only the file name changes. Memory:
    one row group of 64 MB of Arrow data, or what fits into a file if that is less.
    """

    def __init__(
        self,
        storage: Storage,
        file_naming: FileNaming,
        schema: pa.Schema,
        avro_schema: str,
        config: BaseFileConfig,
        *,
        expected_rows: int | None,
        bytes_per_row: float,
        first_sequence_number: int = 0,
        create_marker: Callable[[str], None] | None = None,
        keeps_meta_columns: bool = False,
    ) -> None:
        self.written: list[WrittenBaseFile] = []
        self._storage = storage
        self._file_naming = file_naming
        self._schema = pa.schema([*META_ARRAY_SCHEMA, *schema])
        self._avro_schema = avro_schema
        self._config = config
        self._expected_rows = expected_rows
        self._bytes_per_row = max(bytes_per_row, 0.01)
        self._dictionary_columns = dictionary_columns(config.in_files(self._schema))
        self._create_marker = create_marker
        self._keeps_meta_columns = keeps_meta_columns
        self._buffered: list[tuple[pa.StringArray, pa.RecordBatch]] = []
        self._buffered_rows = 0
        self._buffered_bytes = 0
        self._sequence_number = first_sequence_number
        self._rows_before = 0
        self._file: OpenBaseFile | None = None

    def write(self, keys: pa.StringArray, rows: pa.RecordBatch) -> list[tuple[int, int]]:
        """Write the rows, columns as in the schema, and their record keys.

        Returns the number of each file, counted from 0, with its count of the rows, in their order. Raises
        StorageError.
        """
        runs = []
        while rows.num_rows:
            taken = min(rows.num_rows, max(1, self._room() - self._buffered_rows))
            self._buffer(keys.slice(0, taken), rows.slice(0, taken))
            runs.append((len(self.written), taken))
            keys, rows = keys.slice(taken), rows.slice(taken)
            if self._buffered_bytes >= ROW_GROUP_BYTES or self._buffered_rows >= self._room():
                self._write_row_group()
        return runs

    def finish(self, *, empty_too: bool = False) -> list[WrittenBaseFile]:
        """Write the buffered rows, close the last file and return all files. Raises StorageError.

        With `empty_too` a file is written even without rows.
        """
        self._write_row_group()
        if empty_too and self._file is None and not self.written:
            self._file = self._open_file()
        self._close_file()
        return self.written

    def abandon(self) -> None:
        """Delete all files, including the unfinished one."""
        if self._file is not None:
            self._file.abandon()
        self._storage.delete_files([file.path for file in self.written])

    def _buffer(self, keys: pa.StringArray, rows: pa.RecordBatch) -> None:
        self._buffered.append((keys, rows))
        self._buffered_rows += rows.num_rows
        self._buffered_bytes += rows.nbytes + keys.nbytes

    def _room(self) -> int:
        """The approximate number of rows that the current file still takes, including buffered rows."""
        used = 0 if self._file is None else self._file.bytes
        return max(1, math.ceil((self._config.max_file_bytes - used) / self._bytes_per_row))

    def _write_row_group(self) -> None:
        if not self._buffered:
            return
        if self._file is None:
            self._file = self._open_file()
        file = self._file
        keys = pa.chunked_array([keys for keys, _ in self._buffered])
        rows = pa.Table.from_batches([rows for _, rows in self._buffered])
        self._buffered, self._buffered_rows, self._buffered_bytes = [], 0, 0
        if self._keeps_meta_columns:
            meta, data = meta_arrays_of_kept_rows(rows, file.name), rows.columns[len(META_ARRAY_SCHEMA) :]
        else:
            data = rows.columns
            meta = meta_arrays_of_new_rows(
                keys.combine_chunks(),
                instant_time=self._file_naming.instant_time,
                partition_path=self._file_naming.partition_path,
                file_name=file.name,
                task=self._file_naming.task_partition_id,
                first_row=self._sequence_number,
            )
        arrays = [*meta, *data]
        found = pa.schema(list(zip(self._schema.names, (array.type for array in arrays), strict=True)))
        file.write(pa.Table.from_arrays(arrays, schema=with_dictionaries(self._schema, found)))
        self._sequence_number += rows.num_rows
        self._rows_before += rows.num_rows
        self._bytes_per_row = max(file.bytes / file.rows, 0.01)
        if file.bytes >= self._config.max_file_bytes * _IS_FULL:
            self._close_file()

    def _open_file(self) -> OpenBaseFile:
        file_id = f"{self._file_naming.file_id_prefix}-{len(self.written)}"
        name = base_file_name(file_id, self._file_naming.write_token, self._file_naming.instant_time)
        if self._create_marker is not None:
            self._create_marker(name)
        return OpenBaseFile(
            self._storage,
            join(self._file_naming.directory, name),
            self._config.in_files(self._schema),
            self._dictionary_columns,
            key_footer(self._bloom_entries(), self._config),
            self._config.codec,
        )

    def _bloom_entries(self) -> int | None:
        if self._config.bloom_entries is not None or self._expected_rows is None:
            return self._config.bloom_entries
        remaining = max(self._expected_rows - self._rows_before, self._buffered_rows)
        fitting = max(self._buffered_rows, math.ceil(self._room() * 1.1))
        return max(1, min(remaining, fitting))

    def _close_file(self) -> None:
        if self._file is not None:
            file = self._file
            footer = file.close(self._avro_schema)
            name = parse_base_file_name(file.name)
            assert name is not None  # the name comes from base_file_name
            self.written.append(
                WrittenBaseFile(
                    name.file_id,
                    file.path,
                    file.rows,
                    file.bytes,
                    file.footer.min_key,
                    file.footer.max_key,
                    footer=footer,
                )
            )
            self._file = None
