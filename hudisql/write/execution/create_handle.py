"""Create new file groups of one partition, and the marker of every file that a task writes.

Follows `HoodieCreateHandle` of Hudi 0.15: a marker before each file, the partition's marker file before the
first one of a partition.
"""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import UTC, datetime

import pyarrow as pa

from hudisql.format.keys.record_keys import repeated_keys
from hudisql.format.paths.partition_metadata import (
    PARTITION_METADATA_FILE,
    PartitionMetadata,
    render_partition_metadata,
)
from hudisql.storage import join
from hudisql.write.execution.late_attempts import check_commit_is_open, fence_late_attempt
from hudisql.write.execution.write_context import WriteContext, WriteTask, WrittenFile, new_group_file
from hudisql.write.handle.base_file import BaseFileWriter
from hudisql.write.keygen.new_row_keys import NewRowKeys
from hudisql.write.transaction.markers import Marker, MarkerKind, create_marker


class CreateHandle:
    """Writes the new file groups of one bucket (`HoodieCreateHandle`)."""

    def __init__(self, write_context: WriteContext, task: WriteTask, row_keys: NewRowKeys) -> None:
        """`row_keys` are those of the Spark task; all of its handles share them."""
        self._write_context = write_context
        self._row_keys = row_keys
        self._task = task
        self._started = time.perf_counter()
        self._keys: list[pa.StringArray] = []
        self._moved_in = 0
        _mark_partition(write_context, task)
        self._writer = BaseFileWriter(
            write_context.storage,
            task.file_naming,
            write_context.schema,
            write_context.avro_schema,
            write_context.base_file_config,
            expected_rows=task.rows,
            bytes_per_row=write_context.bytes_per_row,
            create_marker=lambda name: create_file_marker(write_context, task, name, MarkerKind.CREATE),
        )

    def write(self, rows: pa.RecordBatch, moved_in: int = 0, kept_keys: pa.StringArray | None = None) -> None:
        """Take new rows, columns as in the schema; `moved_in` of them come from other files.

        `kept_keys`: see `NewRowKeys.of`. Raises WriteRefusedError for null keys, StorageError.
        """
        keys = self._row_keys.of(rows, self._task.file_naming.partition_path, kept_keys)
        self._writer.write(keys, rows)
        self._moved_in += moved_in
        if self._write_context.unique_new_keys:
            # A copy, since a slice of a batch would keep the whole batch in memory.
            self._keys.append(pa.concat_arrays([keys.slice(0, 0), keys]))

    def finish(self) -> list[WrittenFile]:
        """Close the files, unless the commit is no longer inflight.

        Raises WriteConflictError then, StorageError.
        """
        files = self._writer.finish()
        milliseconds = round((time.perf_counter() - self._started) * 1000)
        repeated = repeated_keys(pa.chunked_array(self._keys, pa.string()))
        partition_path = self._task.file_naming.partition_path
        written = [new_group_file(file, partition_path, milliseconds) for file in files]
        # Only the totals are used, so they are reported on the first file.
        written[:1] = [
            replace(first, moved_in=self._moved_in, repeated_keys=repeated) for first in written[:1]
        ]
        fence_late_attempt(self._write_context, written)
        return written

    def abandon(self) -> None:
        """Delete the files."""
        self._writer.abandon()


def create_file_marker(write_context: WriteContext, task: WriteTask, name: str, kind: MarkerKind) -> None:
    """Create the marker of a file, before the file is created.

    Raises WriteConflictError if the commit is over, StorageError.
    """
    marker = Marker(task.file_naming.partition_path, name, kind)
    create_marker(write_context.storage, write_context.base_path, write_context.instant_time, marker)
    # After the marker: if the commit completes after this check, the driver finds the file by its marker.
    if write_context.has_task_attempts:
        check_commit_is_open(write_context)


def _mark_partition(write_context: WriteContext, task: WriteTask) -> None:
    path = join(task.file_naming.directory, PARTITION_METADATA_FILE)
    if not task.is_new_partition and not _lacks_marker(write_context, path):
        return
    content = render_partition_metadata(
        PartitionMetadata(write_context.instant_time, task.depth), datetime.now(UTC)
    )
    write_context.storage.write(path, content)


def _lacks_marker(write_context: WriteContext, path: str) -> bool:
    """True if the partition's marker file is missing or empty.

    A killed writer has not written it, or a clean deleted the partition after the listing.
    """
    marker = write_context.storage.info(path)
    return marker is None or marker.length == 0
