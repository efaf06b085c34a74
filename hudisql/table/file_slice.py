"""File groups and slices as values.

A file group is all versions of one file id in one partition; a file slice is one version: a base file (or a
skeleton that points to an external file, RFC-12) plus the log files written on top of it. Follows Hudi's
`FileSlice`, `HoodieBaseFile` and `BootstrapBaseFileMapping`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa

from hudisql.format.keys.computed_meta import ComputedMeta
from hudisql.format.log_file.log_block import LENGTHS_WITHOUT_ROWS
from hudisql.format.paths.external_file import ExternalFile as ExternalFile
from hudisql.format.paths.file_names import FileGroup, is_log_file
from hudisql.format.schema.internal_schema import FileColumns
from hudisql.storage import FileInfo


@dataclass(frozen=True, slots=True)
class BaseFile:
    """A base or skeleton parquet file `<file id>_<write token>_<instant>.parquet`; length in bytes."""

    path: str
    length: int
    file_id: str
    write_token: str
    instant_time: str


@dataclass(frozen=True, slots=True)
class LogFile:
    """A log file `.<file id>_<base instant>.log.<version>_<write token>`; length in bytes.

    With timeline layout 2 the name has the instant of the commit that wrote it in place of the base instant.
    """

    path: str
    length: int
    file_id: str
    base_instant_time: str
    version: int
    write_token: str

    @property
    def holds_rows(self) -> bool:
        """False for log files that lost their rows in a rollback of hudisql, by their length."""
        return self.length not in LENGTHS_WITHOUT_ROWS


@dataclass(frozen=True, slots=True)
class FileSlice:
    """One version of a file group. With `external_file`, `base_file` is a skeleton of the same rows, or None
    if the file belongs to a register-only partition.

    `compaction_instant` is a pending compaction of the group, which only writers use. With
    `accepts_changed_source` an external file of the recorded length is read whatever its modification time.
    `columns` finds columns in files of older schemas; None if the table's columns have no ids. With
    `computed_meta` the files have no values of the meta columns.
    """

    partition_path: str
    file_id: str
    base_instant_time: str
    base_file: BaseFile | None
    log_files: tuple[LogFile, ...] = ()
    external_file: ExternalFile | None = None
    compaction_instant: str | None = None
    accepts_changed_source: bool = False
    columns: FileColumns | None = field(default=None, compare=False, repr=False)
    computed_meta: ComputedMeta | None = field(default=None, compare=False, repr=False)

    @property
    def file_group(self) -> FileGroup:
        """The identity of the file group in its table: partition path and file id."""
        return self.partition_path, self.file_id

    def columns_in_base(self, schema: pa.Schema) -> pa.Schema:
        """The columns with the names and types that they have in the base file and the external file."""
        if self.columns is None or self.base_file is None:
            return schema
        return self.columns.in_file(schema, self.base_file.instant_time)

    @property
    def log_base_instant(self) -> str:
        """The base instant of the next log file: the slice's own, or the pending compaction's."""
        return self.compaction_instant or self.base_instant_time

    @property
    def is_bootstrapped(self) -> bool:
        """True if the data columns still lie in an external file."""
        return self.external_file is not None

    @property
    def is_register_only(self) -> bool:
        """True if it is a plain parquet file of a register-only partition."""
        return self.external_file is not None and self.base_file is None

    @property
    def has_log_files(self) -> bool:
        """True if reading the latest state needs a merge; rolled back log files do not count."""
        return any(log_file.holds_rows for log_file in self.log_files)

    @property
    def length(self) -> int:
        """The bytes of all its files, the external one too."""
        return self.base_length + self.log_length

    @property
    def own_length(self) -> int:
        """The bytes of its files in the table: the base file or skeleton, and the log files."""
        return (0 if self.base_file is None else self.base_file.length) + self.log_length

    @property
    def base_length(self) -> int:
        """The bytes of its rows without log files: of the base file, or of skeleton and external file."""
        return sum(file.length for file in (self.base_file, self.external_file) if file is not None)

    @property
    def log_length(self) -> int:
        """The bytes of its log files."""
        return sum(log_file.length for log_file in self.log_files)


def has_lost_its_rows(entry: FileInfo) -> bool:
    """True for a log file without rows (`LogFile.holds_rows`), which hudisql lists in no metadata table."""
    return entry.length in LENGTHS_WITHOUT_ROWS and is_log_file(entry.name)
