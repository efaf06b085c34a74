"""Change logs beside base files: one `.cdc` file for each merge of a table with change logs.

Follows `HoodieCDCLogger` of Hudi 0.15 and 1.2. Memory: the rows of one block. Works on Arrow columns inside
one task; knows no Spark.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from hudisql.errors import StorageError
from hudisql.format.log_file.change_log import (
    DELETE,
    INSERT,
    UPDATE,
    change_log_block,
    change_log_rows,
)
from hudisql.format.log_file.change_log_mode import ChangeLogMode
from hudisql.format.log_file.log_block import encode_log_block
from hudisql.storage import Storage


@dataclass(frozen=True, slots=True)
class ChangeLogConfig:
    """How a commit logs changes: the mode, the Avro schema of the blocks, and the most bytes of a block.

    `schema` has the columns of the images.
    """

    mode: ChangeLogMode
    schema: pa.Schema
    avro_schema: str
    max_block_bytes: int


class ChangeLogWriter:
    """Writes the change log at `path` of the commit `instant_time`. Its owner closes or abandons it."""

    def __init__(self, storage: Storage, path: str, config: ChangeLogConfig, instant_time: str) -> None:
        self.path = path
        self.bytes = 0
        self._storage = storage
        self._config = config
        self._instant_time = instant_time
        self._image = pa.struct(list(config.schema))
        self._rows: list[pa.RecordBatch] = []
        self._buffered_bytes = 0
        self._sink: Any = storage.open_output(path)

    def insert(self, record_keys: pa.Array, after: pa.Table) -> None:
        """Log new rows; tables hold at least the columns of the images. Raises StorageError."""
        self._log(INSERT, record_keys, None, after)

    def update(self, record_keys: pa.Array, before: pa.Table, after: pa.Table) -> None:
        """Log rows as they were and are, in the same order. Raises StorageError."""
        self._log(UPDATE, record_keys, before, after)

    def delete(self, record_keys: pa.Array, before: pa.Table) -> None:
        """Log deleted rows. Raises StorageError."""
        self._log(DELETE, record_keys, before, None)

    def close(self) -> None:
        """Write the last block: without changes one without rows, as Hudi does. Raises StorageError."""
        if self._rows or not self.bytes:
            self._write_block()
        try:
            self._sink.close()
        except OSError as error:
            raise StorageError(f"cannot write {self.path}: {error}") from error

    def abandon(self) -> None:
        """Close and delete the file, in any state."""
        with suppress(OSError):
            self._sink.close()
        self._storage.delete_file(self.path)

    def _log(
        self, operation: str, record_keys: pa.Array, before: pa.Table | None, after: pa.Table | None
    ) -> None:
        if not len(record_keys):
            return
        images = [self._images(table, len(record_keys)) for table in (before, after)]
        rows = change_log_rows(self._config.mode, operation, self._instant_time, record_keys, *images)
        step = max(1, rows.num_rows * self._config.max_block_bytes // max(1, rows.nbytes))
        for start in range(0, rows.num_rows, step):
            part = rows.slice(start, step)
            self._rows.append(part)
            self._buffered_bytes += part.nbytes
            if self._buffered_bytes >= self._config.max_block_bytes:
                self._write_block()

    def _images(self, table: pa.Table | None, count: int) -> pa.StructArray:
        if table is None or self._config.mode is ChangeLogMode.OP_KEY_ONLY:
            return pa.nulls(count, self._image)
        columns = [table.column(field.name).combine_chunks() for field in self._config.schema]
        return pa.StructArray.from_arrays(columns, fields=list(self._image))

    def _write_block(self) -> None:
        no_keys, no_images = pa.array([], pa.string()), pa.array([], self._image)
        empty = change_log_rows(self._config.mode, "", "", no_keys, no_images, no_images)
        rows = pa.concat_batches([empty, *self._rows])
        content = encode_log_block(change_log_block(rows, self._config.avro_schema, self._instant_time))
        try:
            self._sink.write(content)
        except OSError as error:
            raise StorageError(f"cannot write {self.path}: {error}") from error
        self.bytes += len(content)
        self._rows, self._buffered_bytes = [], 0
