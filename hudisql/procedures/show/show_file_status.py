"""`show_file_status`: whether a data file exists, and if not, which instant has deleted it.

Follows `ShowFileStatusProcedure` of Hudi 1.2, with its parameters, columns and words. Savepoints and commits
delete no files: only cleans, rollbacks and restores list deleted files.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from hudisql.errors import InvalidArgumentError
from hudisql.options.table_call import find_table
from hudisql.procedures.registry import TableArguments, parameter, procedure
from hudisql.procedures.show.shown_rows import filter_parameter, filter_rows
from hudisql.storage import is_inside, join

if TYPE_CHECKING:
    from hudisql.context import Context
    from hudisql.table.hudi_table import HudiTable

_RECORDS: Final = {
    "clean": ("HoodieCleanMetadata", "hoodieCleanMetadata"),
    "rollback": ("HoodieRollbackMetadata", "hoodieRollbackMetadata"),
    "restore": ("HoodieRestoreMetadata", "hoodieRestoreMetadata"),
}


@dataclass(frozen=True, kw_only=True)
class FileStatusArguments(TableArguments):
    """The parameters of `show_file_status`."""

    partition: str | None = parameter(None, help="path of the file's partition, such as dt=2024-03-01")
    file: str = parameter(help="name of the file")
    filter: str = filter_parameter()


@dataclass(frozen=True)
class FileStatusRow:
    """`status` is exist, deleted (by the action at the instant) or unknown; `timeline` active or archived."""

    status: str
    action: str
    instant: str
    timeline: str
    full_path: str


@procedure("Shows whether a data file exists, and otherwise which instant deleted it.")
def show_file_status(context: Context, arguments: FileStatusArguments) -> Iterable[FileStatusRow]:
    """One row. Raises NoSuchTableError, InvalidArgumentError, CorruptTableError, StorageError."""
    table = find_table(context, arguments.table, arguments.path)
    if table.properties.partition_fields and not arguments.partition:
        raise InvalidArgumentError(
            f"{table.base_path} is a partitioned table: the file's partition is missing",
            hint="add partition => 'column=value'",
        )
    partition = (arguments.partition or "").strip("/")
    path = table.storage.qualify(join(table.base_path, partition, arguments.file))
    if not is_inside(path, table.base_path) or "/" in arguments.file:
        raise InvalidArgumentError(f"file must be the name of a file, not '{arguments.file}'")
    if table.storage.exists(path):
        row = FileStatusRow("exist", "", "", "active", path)
    else:
        row = _deletion_of(table, partition, arguments.file) or FileStatusRow("unknown", "", "", "", "")
    return filter_rows(context, [row], FileStatusRow, arguments.filter)


def _deletion_of(table: HudiTable, partition: str, name: str) -> FileStatusRow | None:
    for action, instant_time, timeline, record in _deleting_records(table, name):
        if name in _deleted_names(record, partition):
            return FileStatusRow("deleted", action, instant_time, timeline, "")
    return None


def _deleting_records(table: HudiTable, name: str) -> Iterator[tuple[str, str, str, Mapping[str, Any]]]:
    """Action, instant time, timeline and record of instants that may have deleted a file, newest first."""
    from hudisql.format.avro.avro_container import load_codec
    from hudisql.table.timeline.archived_timeline import read_archived_entries
    from hudisql.table.timeline.instant_files import read_instant

    for instant in reversed(table.timeline.completed):
        if instant.action in _RECORDS and (content := read_instant(table, instant)):
            path = table.instant_path(instant)
            record = load_codec(_RECORDS[instant.action][0]).decode(content, path)
            yield instant.action, instant.timestamp, "active", record
    for entry in reversed(read_archived_entries(table, containing=name.encode())):
        if entry.instant.is_completed and entry.instant.action in _RECORDS:
            archived = entry.record.get(_RECORDS[entry.instant.action][1])
            if archived is not None:
                yield entry.instant.action, entry.instant.timestamp, "archived", archived


def _deleted_names(record: Mapping[str, Any], partition: str) -> set[str]:
    """The names of the partition's files that a clean, a rollback or a restore has deleted."""
    undone = (record.get("hoodieRestoreMetadata") or {}).values()
    rollbacks = (rollback for some in undone for rollback in some if rollback)
    return {
        str(path).rpartition("/")[2]
        for rollback in (record, *rollbacks)
        for path in ((rollback.get("partitionMetadata") or {}).get(partition) or {}).get("successDeleteFiles")
        or ()
    }
