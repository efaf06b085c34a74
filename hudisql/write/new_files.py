"""New file groups of one partition, written by a task as the rows come; and what every written file needs.

Follows `HoodieCreateHandle` of Hudi 0.15: a marker before each file, the partition's marker file before the
first one of a partition.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import UTC, datetime

import pyarrow as pa

from hudisql.errors import WriteConflictError
from hudisql.format.partition_metadata import (
    PARTITION_METADATA_FILE,
    PartitionMetadata,
    render_partition_metadata,
)
from hudisql.storage import join
from hudisql.write.base_file import BaseFileWriter
from hudisql.write.commit_work import CommitWork, WriteTask, WrittenFile
from hudisql.write.markers import Marker, MarkerKind, create_marker
from hudisql.write.record_keys import NO_REPEATED_KEYS, render_record_keys, repeated_keys
from hudisql.write.slice_merge import null_key_error
from hudisql.write.taken_back import take_back_files


class NewFiles:
    """The new file groups of one bucket, written as the rows come."""

    def __init__(self, work: CommitWork, task: WriteTask) -> None:
        self._work = work
        self._task = task
        self._started = time.perf_counter()
        self._keys: list[pa.StringArray] = []
        self._moved_in = 0
        _mark_partition(work, task)
        self._writer = BaseFileWriter(
            work.storage,
            task.place,
            work.schema,
            work.avro_schema,
            work.form,
            expected_rows=task.rows,
            bytes_per_row=work.bytes_per_row,
            announce=lambda name: announce_file(work, task, name, MarkerKind.CREATE),
        )

    def write(self, rows: pa.RecordBatch, moved_in: int = 0) -> None:
        """Take new rows, columns as in the schema; `moved_in` of them come from other files.

        Raises WriteRefusedError for null keys, StorageError.
        """
        work = self._work
        rendered = render_record_keys(rows, work.record_key_fields, composite=work.composite)
        if rendered.null_keys.count:
            raise null_key_error(
                work.record_key_fields, self._task.place.partition_path, rendered.null_keys.count
            )
        self._writer.write(rendered.keys, rows)
        self._moved_in += moved_in
        if work.unique_new_keys:
            # A copy, since a slice of a batch would keep all its columns.
            self._keys.append(pa.concat_arrays([rendered.keys.slice(0, 0), rendered.keys]))

    def finish(self) -> list[WrittenFile]:
        """Close the files and give them, unless they came too late.

        Raises WriteConflictError then, StorageError.
        """
        files = self._writer.finish()
        milliseconds = round((time.perf_counter() - self._started) * 1000)
        repeated = repeated_keys(pa.chunked_array(self._keys, pa.string()))
        written = [
            WrittenFile(
                file_id=file.file_id,
                path=file.path,
                partition_path=self._task.place.partition_path,
                previous_instant=None,
                rows=file.rows,
                bytes=file.bytes,
                inserted=file.rows,
                updated=0,
                deleted=0,
                late=0,
                moved=0,
                milliseconds=milliseconds,
                changes=file.rows,
                # Only the totals are used: they are reported on the first file.
                moved_in=self._moved_in if number == 0 else 0,
                repeated_keys=repeated if number == 0 else NO_REPEATED_KEYS,
            )
            for number, file in enumerate(files)
        ]
        keep_or_take_back(self._work, written)
        return written

    def abandon(self) -> None:
        """Delete the files."""
        self._writer.abandon()


def announce_file(work: CommitWork, task: WriteTask, name: str, kind: MarkerKind) -> None:
    """Mark a file that is going to be written. Raises StorageError."""
    marker = Marker(task.place.partition_path, name, kind)
    create_marker(work.storage, work.base_path, work.instant_time, marker)


def keep_or_take_back(work: CommitWork, files: Sequence[WrittenFile]) -> None:
    """Take files back that came too late: their commit has been rolled back, so nobody else would.

    Raises WriteConflictError then.
    """
    if work.storage.exists(work.inflight_path):
        return
    take_back_files(work.storage, [file.path for file in files])
    raise WriteConflictError(
        f"the commit {work.instant_time} on {work.base_path} was rolled back while it was being written",
        hint="run the statement again",
    )


def _mark_partition(work: CommitWork, task: WriteTask) -> None:
    path = join(task.place.folder, PARTITION_METADATA_FILE)
    if not task.is_new_partition and not _is_torn(work, path):
        return
    content = render_partition_metadata(PartitionMetadata(work.instant_time, task.depth), datetime.now(UTC))
    work.storage.write(path, content)


def _is_torn(work: CommitWork, path: str) -> bool:
    """True if a writer was killed between making the marker and filling it: the folder counts as known."""
    marker = work.storage.info(path)
    return marker is not None and marker.length == 0
