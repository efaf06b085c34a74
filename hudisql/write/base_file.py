"""Base files: whole records with their five meta columns, written row group by row group, rolled at a size.

Follows what Hudi 0.15's bulk insert leaves on disk (`HoodieCreateHandle`, `HoodieAvroParquetWriter`): file
ids `<uuid>-<n>`, meta columns first, every column optional, decimals FIXED, timestamps in microseconds, keys
and bloom filter in the footer. Lists are 3-level ones, as the parquet format asks, since 2-level ones hold no
null elements. Takes Arrow batches and their keys; knows no Spark and not where the rows come from.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from hudisql.errors import HudisqlError, StorageError
from hudisql.format import meta_columns
from hudisql.format.calendar import PROLEPTIC_SPARK_VERSION, SPARK_VERSION_KEY
from hudisql.format.file_names import base_file_name
from hudisql.format.schema import avro_from_arrow
from hudisql.storage import Storage, join
from hudisql.write.key_footer import KeyFooter

DEFAULT_MAX_FILE_BYTES: Final = 120 * 1024 * 1024
DEFAULT_BLOOM_FPP: Final = 1e-3
# What is held of a row group before it is written, in Arrow's form; pages are about a quarter of that.
_ROW_GROUP_BYTES: Final = 64 << 20
# A file this near to its size takes no further row group.
_IS_FULL: Final = 0.95
_CODEC_LEVELS: Final[Mapping[str, int | None]] = {"gzip": 1, "zstd": 1, "snappy": None, "none": None}
_CONSTANT_COLUMNS: Final = (meta_columns.COMMIT_TIME, meta_columns.PARTITION_PATH, meta_columns.FILE_NAME)
_UNIQUE_COLUMNS: Final = (meta_columns.COMMIT_SEQNO, meta_columns.RECORD_KEY)
_DICTIONARY: Final = pa.dictionary(pa.int32(), pa.string())


@dataclass(frozen=True, slots=True)
class BaseFileForm:
    """How base files are written.

    `codec` is gzip, zstd, snappy or none; `bloom_entries` None sizes a file's filter to its rows.
    """

    codec: str = "gzip"
    max_file_bytes: int = DEFAULT_MAX_FILE_BYTES
    bloom_entries: int | None = None
    bloom_fpp: float = DEFAULT_BLOOM_FPP


@dataclass(frozen=True, slots=True)
class BaseFilePlace:
    """Where one task's files go and what their names and sequence numbers are made of.

    `folder` is the partition's whole path; file ids are `<file_id_prefix>-<n>`.
    """

    folder: str
    partition_path: str
    instant_time: str
    file_id_prefix: str
    write_token: str
    task_partition_id: int


@dataclass(frozen=True, slots=True)
class WrittenBaseFile:
    """One finished base file."""

    file_id: str
    path: str
    rows: int
    bytes: int
    min_key: str | None
    max_key: str | None


def base_file_avro_schema(schema: pa.Schema, table_name: str) -> str:
    """The Avro schema that a base file's footer carries: the table's, with the meta columns in front."""
    document = json.loads(avro_from_arrow(schema, table_name))
    meta_fields = json.loads(meta_columns.SKELETON_AVRO_SCHEMA)["fields"]
    document["fields"] = [*meta_fields, *document["fields"]]
    return json.dumps(document, separators=(",", ":"))


class BaseFileWriter:
    """Writes rows of one partition into as many base files as their size asks for.

    Whoever does not come to `finish` must `abandon` it. `expected_rows` and `bytes_per_row` (about) size the
    bloom filters and the first row groups; the files' real size decides when to roll. Memory: one row group
    of 64 MB of Arrow data, or what fits into a file if that is less.
    """

    def __init__(
        self,
        storage: Storage,
        place: BaseFilePlace,
        schema: pa.Schema,
        avro_schema: str,
        form: BaseFileForm,
        *,
        expected_rows: int,
        bytes_per_row: float,
        first_sequence_number: int = 0,
    ) -> None:
        self.written: list[WrittenBaseFile] = []
        self._storage = storage
        self._place = place
        self._schema = pa.schema([*_meta_fields(), *schema])
        self._avro_schema = avro_schema
        self._form = form
        self._expected_rows = expected_rows
        self._bytes_per_row = max(bytes_per_row, 0.01)
        self._dictionary_columns = _dictionary_columns(self._schema)
        self._held: list[tuple[pa.StringArray, pa.RecordBatch]] = []
        self._held_rows = 0
        self._held_bytes = 0
        self._sequence_number = first_sequence_number
        self._rows_before = 0
        self._file: _OpenFile | None = None

    def write(self, keys: pa.StringArray, rows: pa.RecordBatch) -> list[tuple[int, int]]:
        """Take the rows, columns as in the schema, and their record keys.

        Returns which file, counted from 0, takes how many of the rows, in their order. Raises StorageError.
        """
        runs = []
        while rows.num_rows:
            taken = min(rows.num_rows, max(1, self._room() - self._held_rows))
            self._hold(keys.slice(0, taken), rows.slice(0, taken))
            runs.append((len(self.written), taken))
            keys, rows = keys.slice(taken), rows.slice(taken)
            if self._held_bytes >= _ROW_GROUP_BYTES or self._held_rows >= self._room():
                self._write_row_group()
        return runs

    def finish(self) -> list[WrittenBaseFile]:
        """Write what is held, close the last file and return all of them. Raises StorageError."""
        self._write_row_group()
        self._close_file()
        return self.written

    def abandon(self) -> None:
        """Delete all files, the unfinished one too."""
        if self._file is not None:
            self._file.abandon()
        self._storage.delete_files([file.path for file in self.written])

    def _hold(self, keys: pa.StringArray, rows: pa.RecordBatch) -> None:
        self._held.append((keys, rows))
        self._held_rows += rows.num_rows
        self._held_bytes += rows.nbytes + keys.nbytes

    def _room(self) -> int:
        """About how many rows the present file still takes, those held included."""
        used = 0 if self._file is None else self._file.bytes
        return max(1, math.ceil((self._form.max_file_bytes - used) / self._bytes_per_row))

    def _write_row_group(self) -> None:
        if not self._held:
            return
        if self._file is None:
            self._file = self._open_file()
        file = self._file
        keys = pa.chunked_array([keys for keys, _ in self._held])
        rows = pa.Table.from_batches([rows for _, rows in self._held])
        self._held, self._held_rows, self._held_bytes = [], 0, 0
        file.write(keys.combine_chunks(), rows, self._sequence_number)
        self._sequence_number += rows.num_rows
        self._rows_before += rows.num_rows
        self._bytes_per_row = max(file.bytes / file.rows, 0.01)
        if file.bytes >= self._form.max_file_bytes * _IS_FULL:
            self._close_file()

    def _open_file(self) -> _OpenFile:
        remaining = max(self._expected_rows - self._rows_before, self._held_rows)
        fitting = max(self._held_rows, math.ceil(self._room() * 1.1))
        entries = self._form.bloom_entries or max(1, min(remaining, fitting))
        file_id = f"{self._place.file_id_prefix}-{len(self.written)}"
        return _OpenFile(
            self._storage,
            self._place,
            file_id,
            self._schema,
            self._dictionary_columns,
            KeyFooter(entries, self._form.bloom_fpp),
            self._form.codec,
        )

    def _close_file(self) -> None:
        if self._file is not None:
            self.written.append(self._file.close(self._avro_schema))
            self._file = None


class _OpenFile:
    """One base file that is being written."""

    def __init__(
        self,
        storage: Storage,
        place: BaseFilePlace,
        file_id: str,
        schema: pa.Schema,
        dictionary_columns: Sequence[str],
        footer: KeyFooter,
        codec: str,
    ) -> None:
        self._storage = storage
        self._place = place
        self._file_id = file_id
        self._schema = schema
        self._footer = footer
        self._name = base_file_name(file_id, place.write_token, place.instant_time)
        self._path = join(place.folder, self._name)
        self.rows = 0
        self.bytes = 0
        storage.delete_file(self._path)  # and with it the stale checksum of an earlier try
        self._sink: Any = storage.open_output(self._path)
        self._writer = pq.ParquetWriter(
            self._sink,
            schema,
            compression=codec,
            compression_level=_CODEC_LEVELS[codec],
            use_dictionary=list(dictionary_columns),
            version="2.6",
            data_page_version="1.0",
            coerce_timestamps="us",
            store_decimal_as_integer=False,
            store_schema=False,
        )

    def write(self, keys: pa.StringArray, rows: pa.Table, first_sequence_number: int) -> None:
        """Write one row group."""
        constants = (self._place.instant_time, self._place.partition_path, self._name)
        columns: dict[str, Any] = {
            name: _constant_column(value, rows.num_rows)
            for name, value in zip(_CONSTANT_COLUMNS, constants, strict=True)
        }
        columns[meta_columns.RECORD_KEY] = keys
        columns[meta_columns.COMMIT_SEQNO] = self._sequence_numbers(first_sequence_number, rows.num_rows)
        meta = [columns[name] for name in meta_columns.META_COLUMNS]
        table = pa.Table.from_arrays([*meta, *rows.columns], schema=self._schema)
        with _storage_errors(self._path):
            self._writer.write_table(table, row_group_size=table.num_rows)
            self.bytes = self._sink.tell()
        self._footer.add(keys)
        self.rows += table.num_rows

    def close(self, avro_schema: str) -> WrittenBaseFile:
        """Write the footer."""
        with _storage_errors(self._path):
            footer = self._footer.key_values(avro_schema)
            footer[SPARK_VERSION_KEY.decode()] = PROLEPTIC_SPARK_VERSION
            self._writer.add_key_value_metadata(footer)
            self._writer.close()
            self.bytes = self._sink.tell()
            self._sink.close()
        return WrittenBaseFile(
            self._file_id, self._path, self.rows, self.bytes, self._footer.min_key, self._footer.max_key
        )

    def abandon(self) -> None:
        """Close and delete the file, whatever state it is in."""
        for part in (self._writer, self._sink):
            try:
                part.close()
            except (pa.ArrowException, OSError):
                continue
        self._storage.delete_file(self._path)

    def _sequence_numbers(self, first: int, rows: int) -> pa.StringArray:
        numbers = pc.cast(pa.array(np.arange(first, first + rows)), pa.string())
        prefix = f"{self._place.instant_time}_{self._place.task_partition_id}_"
        return pc.binary_join_element_wise(prefix, numbers, "")


class _storage_errors:  # noqa: N801
    """Turns what pyarrow raises while it writes `path` into a StorageError that names it."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __enter__(self) -> None:
        return None

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if isinstance(error, (pa.ArrowException, OSError)) and not isinstance(error, HudisqlError):
            raise StorageError(f"cannot write {self._path}: {error}") from error


def _meta_fields() -> list[pa.Field]:
    return [
        pa.field(name, _DICTIONARY if name in _CONSTANT_COLUMNS else pa.string())
        for name in meta_columns.META_COLUMNS
    ]


def _constant_column(value: str, rows: int) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(np.zeros(rows, dtype=np.int32), pa.array([value]))


def _dictionary_columns(schema: pa.Schema) -> list[str]:
    """The leaves, by their path in the file, that are worth a dictionary: all but those of unique values."""
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(sink, schema, store_schema=False):
        pass
    leaves = pq.read_metadata(pa.BufferReader(sink.getvalue())).schema
    paths = [leaves.column(number).path for number in range(len(leaves))]
    return [path for path in paths if path not in _UNIQUE_COLUMNS]
