"""Verifies one bootstrapped file slice: the source file, its skeleton and the reader's result for both.

Runs inside a Spark task, one slice at a time: lengths and modification times, row counts of both footers, and
for the selected row groups the meta columns against keys computed again from the source. Follows RFC-12; it
knows no Spark and does not choose the slices.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from hudisql.errors import HudisqlError, SourceChangedError, StorageError
from hudisql.format.keys.record_keys import render_record_keys
from hudisql.format.paths.external_file import ExternalFile, is_same_time, utc_text
from hudisql.format.schema import meta_columns
from hudisql.format.schema.meta_columns import META_SCHEMA
from hudisql.format.timeline.commit_metadata import WriteStat
from hudisql.read.calendar.hybrid_calendar import rebases_of
from hudisql.read.files.conform import constant_column, rebase_batch
from hudisql.read.files.parquet_rows import ParquetRows
from hudisql.read.files.splits import Split
from hudisql.read.slice.slice_reader import SliceRead, read_file_slice
from hudisql.storage import FileInfo, Storage, join
from hudisql.table.file_slice import BaseFile, FileSlice
from hudisql.table.hudi_table import HudiTable
from hudisql.table.timeline.instant_files import read_commit

SOURCE_MISSING: Final = "source missing"
SOURCE_CHANGED: Final = "source changed"
SOURCE_UNREADABLE: Final = "source unreadable"
SOURCE_NEW: Final = "source new"
SKELETON_MISSING: Final = "skeleton missing"
SKELETON_CHANGED: Final = "skeleton changed"
SKELETON_UNREADABLE: Final = "skeleton unreadable"
ROWS_DIFFER: Final = "rows differ"
META_DIFFERS: Final = "meta columns differ"
DATA_DIFFERS: Final = "data differ"
FILE_MISSING: Final = "base file missing"
FILE_CHANGED: Final = "base file changed"
FILE_UNREADABLE: Final = "base file unreadable"
REWRITTEN_SOURCE_CHANGED: Final = "source changed after it was rewritten"
LISTING_DIFFERS: Final = "metadata table differs"
LISTING_UNREADABLE: Final = "metadata table unreadable"
LISTING_NOT_USED: Final = "metadata table not in use"
NOT_LISTED: Final = "file not in the metadata table"
FILE_BEING_DELETED: Final = "file being deleted"

_NOTICES: Final = (SOURCE_NEW, REWRITTEN_SOURCE_CHANGED, LISTING_NOT_USED, NOT_LISTED, FILE_BEING_DELETED)

_BATCH_ROWS: Final = 65_536


@dataclass(frozen=True, slots=True)
class Discrepancy:
    """One difference from the bootstrap or metadata table; an error unless all readers get the right rows."""

    kind: str
    partition_path: str
    path: str
    detail: str

    @property
    def is_error(self) -> bool:
        """False for source files that the table never took or no longer needs, and files that none reads."""
        return self.kind not in _NOTICES


class RowsToCompare(Enum):
    """Which rows of a file are read."""

    NONE = "none"
    ONE_ROW_GROUP = "one row group"
    ALL = "all"


@dataclass(frozen=True, slots=True)
class FileToVerify:
    """A bootstrapped slice; `expected_bytes` and `expected_rows` are those of its skeleton in the commit.

    `source` is the source file as it is now, None if it is missing.
    """

    file_slice: FileSlice
    partition_values: Mapping[str, object]
    rows_to_compare: RowsToCompare
    source: FileInfo | None
    expected_bytes: int | None = None
    expected_rows: int | None = None


@dataclass(frozen=True, slots=True)
class FileVerdict:
    """The result for one slice: rows of its skeleton, how many of them were compared, the differences.

    `is_readable` is True if nothing is known that would stop the table's reader.
    """

    rows: int
    compared_rows: int
    is_readable: bool
    discrepancies: tuple[Discrepancy, ...]


def committed_files(table: HudiTable, instant_time: str) -> dict[str, WriteStat]:
    """The bootstrap's commit metadata at `instant_time` of each file, by its path; empty once archived."""
    return {
        join(table.base_path, stat.path): stat
        for commit in table.timeline.commits
        if commit.timestamp == instant_time
        for stat in read_commit(table, commit).write_stats
        if stat.path
    }


def verify_files(
    storage: Storage,
    schema: pa.Schema,
    record_key: tuple[str, ...],
    complex_keys: bool,
    files: Iterable[FileToVerify],
) -> Iterator[FileVerdict]:
    """A verdict per slice, in order. `schema` is the table's, meta columns first.

    Raises StorageError only if the store itself fails: problems of a file are in its verdict.
    """
    for file in files:
        yield _FileCheck(storage, schema, record_key, complex_keys, file).verdict()


class _FileCheck:
    """The checks of one slice, cheapest first; a failed check skips those that depend on it."""

    def __init__(
        self,
        storage: Storage,
        schema: pa.Schema,
        record_key: tuple[str, ...],
        complex_keys: bool,
        file: FileToVerify,
    ) -> None:
        file_slice = file.file_slice
        assert file_slice.base_file is not None  # only bootstrapped slices are verified
        assert file_slice.external_file is not None
        self._storage = storage
        self._schema = schema
        self._record_key = record_key
        self._complex_keys = complex_keys
        self._file = file
        self._skeleton = file_slice.base_file
        self._source: ExternalFile = file_slice.external_file
        self._found: list[Discrepancy] = []

    def verdict(self) -> FileVerdict:
        """Run the checks."""
        is_source_whole = self._check_source_entry()
        rows = self._rows_of(self._skeleton, SKELETON_UNREADABLE)
        self._check_skeleton_commit(rows)
        source_rows = self._rows_of(self._source, SOURCE_UNREADABLE) if is_source_whole else None
        compared = 0
        is_readable = False
        if rows is not None and source_rows is not None:
            if rows != source_rows:
                self._add(
                    ROWS_DIFFER,
                    self._source.path,
                    f"the source has {source_rows:,} rows, the skeleton {self._skeleton.path} has {rows:,}",
                )
            else:
                compared = self._compare_rows()
                unreadable = (SOURCE_UNREADABLE, SKELETON_UNREADABLE)
                is_readable = not any(discrepancy.kind in unreadable for discrepancy in self._found)
        return FileVerdict(rows or 0, compared, is_readable, tuple(self._found))

    def _add(self, kind: str, path: str, detail: str) -> None:
        self._found.append(Discrepancy(kind, self._file.file_slice.partition_path, path, detail))

    def _check_source_entry(self) -> bool:
        """True if the source file can be the one that was bootstrapped."""
        info = self._file.source
        if info is None:
            self._add(SOURCE_MISSING, self._source.path, f"it had {self._source.length:,} bytes")
            return False
        if info.length != self._source.length:
            self._add(
                SOURCE_CHANGED,
                self._source.path,
                f"it has {info.length:,} bytes and had {self._source.length:,}",
            )
            return False
        if not is_same_time(self._source.modification_time_ms, info.modification_time_ms):
            self._add(
                SOURCE_CHANGED,
                self._source.path,
                f"of the same length, but modified at {utc_text(info.modification_time_ms)}"
                f" where it was {utc_text(self._source.modification_time_ms)}",
            )
        return True

    def _rows_of(self, file: BaseFile | ExternalFile, unreadable: str) -> int | None:
        try:
            with self._storage.open_input(file.path, file.length) as stream:
                return int(pq.ParquetFile(stream).metadata.num_rows)
        except (pa.ArrowException, OSError) as error:
            self._add(unreadable, file.path, _first_line(error))
            return None

    def _check_skeleton_commit(self, rows: int | None) -> None:
        expected_bytes, expected_rows = self._file.expected_bytes, self._file.expected_rows
        if expected_bytes is not None and self._skeleton.length != expected_bytes:
            self._add(
                SKELETON_CHANGED,
                self._skeleton.path,
                f"it has {self._skeleton.length:,} bytes, the commit says {expected_bytes:,}",
            )
        if rows is not None and expected_rows is not None and rows != expected_rows:
            self._add(
                SKELETON_CHANGED,
                self._skeleton.path,
                f"it has {rows:,} rows, the commit says {expected_rows:,}",
            )

    def _compare_rows(self) -> int:
        """Compare the selected rows with those of the table's own reader; returns their number."""
        wanted = self._file.rows_to_compare
        if wanted is RowsToCompare.NONE:
            return 0
        compared = 0
        try:
            for group in self._groups_to_compare(wanted):
                compared += self._compare_row_group(group, reads_all_columns=wanted is not RowsToCompare.ALL)
                if self._found and self._found[-1].kind == META_DIFFERS:
                    break
        except SourceChangedError as error:
            self._add(SOURCE_UNREADABLE, self._source.path, error.message)
        except (pa.ArrowException, OSError) as error:
            self._add(SOURCE_UNREADABLE, self._source.path, _first_line(error))
        except HudisqlError as error:
            self._add(SKELETON_UNREADABLE, self._skeleton.path, error.message)
        return compared

    def _groups_to_compare(self, wanted: RowsToCompare) -> range:
        with self._storage.open_input(self._source.path) as stream:
            groups = int(pq.ParquetFile(stream).metadata.num_row_groups)
        if wanted is RowsToCompare.ALL or groups == 0:
            return range(groups)
        # Always the same group of a file, but different groups in different files.
        chosen = zlib.crc32(self._skeleton.file_id.encode()) % groups
        return range(chosen, chosen + 1)

    def _compare_row_group(self, group: int, *, reads_all_columns: bool) -> int:
        with ParquetRows(self._storage, self._source.path, pa.schema([])) as rows:
            split = Split(rows.middle_of(group), 1)
        schema = self._schema if reads_all_columns else META_SCHEMA
        if not reads_all_columns:
            # A column of the source makes the reader combine both files by the source's row groups.
            data = [field for field in self._schema if field.name not in self._file.partition_values]
            schema = pa.schema([*META_SCHEMA, *_key_roots(data, self._record_key)])
        read = SliceRead(self._file.file_slice, schema, self._file.partition_values, None, split)
        compared = 0
        # Every column is decoded, batch by batch; only the meta columns are kept.
        batches = (batch.select(META_SCHEMA.names) for batch in read_file_slice(self._storage, read))
        seen = pa.Table.from_batches(batches, META_SCHEMA)
        with self._storage.open_input(self._source.path) as stream:
            source = pq.ParquetFile(stream, coerce_int96_timestamp_unit="us")
            values = self._file.partition_values
            stored = [name for name in self._record_key if name not in values]
            has_key = all(source.schema_arrow.get_field_index(name.split(".")[0]) >= 0 for name in stored)
            if not has_key or not stored:
                self._compare_meta(seen, None, compared)
                return int(seen.num_rows)
            rebases = rebases_of(source.schema, source.schema_arrow, source.metadata.metadata)
            for found in source.iter_batches(
                _BATCH_ROWS, row_groups=[group], columns=stored, use_threads=False
            ):
                batch = rebase_batch(found, rebases)
                for name in self._record_key:
                    if name in values:
                        field = self._schema.field(name)
                        constant = constant_column(values[name], field.type, batch.num_rows)
                        batch = batch.append_column(field, constant)
                keys = render_record_keys(batch, self._record_key, complex_keys=self._complex_keys).keys
                self._compare_meta(seen.slice(compared, len(batch)), keys, compared)
                compared += len(batch)
        return compared

    def _compare_meta(self, seen: pa.Table, keys: pa.StringArray | None, first_row: int) -> None:
        file_slice = self._file.file_slice
        constants = {
            meta_columns.COMMIT_TIME: file_slice.base_instant_time,
            meta_columns.PARTITION_PATH: file_slice.partition_path,
            meta_columns.FILE_NAME: self._skeleton.path.rsplit("/", 1)[-1],
        }
        wrong = {
            name: pc.not_equal(pc.fill_null(seen[name], "\0"), value) for name, value in constants.items()
        }
        wrong[meta_columns.COMMIT_SEQNO] = pc.is_null(seen[meta_columns.COMMIT_SEQNO])
        if not self._record_key:
            # A generated key is the sequence number that the bootstrap gave the row.
            keys = seen[meta_columns.COMMIT_SEQNO]
        if keys is not None:
            if len(keys) != seen.num_rows:
                self._add(
                    ROWS_DIFFER,
                    self._source.path,
                    f"the table's reader gives {seen.num_rows:,} of {len(keys):,} rows of a row group",
                )
                return
            # The text stands for null: no column contains it.
            wrong[meta_columns.RECORD_KEY] = pc.not_equal(
                pc.fill_null(seen[meta_columns.RECORD_KEY], "\0"), pc.fill_null(keys, "\0")
            )
        for name, mask in wrong.items():
            count = pc.sum(mask).as_py() or 0
            if count:
                row = int(np.flatnonzero(np.asarray(mask))[0])
                self._add(
                    META_DIFFERS,
                    self._skeleton.path,
                    f"{name} is wrong in {count:,} of {seen.num_rows:,} rows, first in row"
                    f" {first_row + row:,} of the compared row group",
                )
                return


def _key_roots(data: list[pa.Field], record_key: tuple[str, ...]) -> list[pa.Field]:
    roots = {name.split(".")[0].lower() for name in record_key}
    key_fields = [field for field in data if field.name.lower() in roots]
    return key_fields or [field for field in data if field.name not in META_SCHEMA.names][:1]


def _first_line(error: Exception) -> str:
    if isinstance(error, StorageError):
        return error.message
    return str(error).splitlines()[0] if str(error) else type(error).__name__
