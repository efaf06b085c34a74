"""Procedures on the timeline's files: `commits_compare`, `export_instants`, `delete_marker`.

Names, parameters and columns are those of Hudi 0.15 (`CommitsCompareProcedure`, `ExportInstantsProcedure`,
`DeleteMarkerProcedure`). Beyond Hudi, replacecommits and restores are exported as well.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from hudisql.config.config_key import split_names
from hudisql.errors import InvalidArgumentError, WriteConflictError
from hudisql.options.table_call import find_table
from hudisql.procedures.registry import NamedTableArguments, parameter, procedure
from hudisql.storage import is_inside, join

if TYPE_CHECKING:
    from hudisql.context import Context
    from hudisql.format.timeline.instant import Instant
    from hudisql.table.hudi_table import HudiTable
    from hudisql.table.timeline.archived_timeline import ArchiveReader

_DEFAULT_ACTIONS: Final = "clean,commit,deltacommit,rollback,savepoint,restore"
_RECORDS: Final = {
    "clean": "HoodieCleanMetadata",
    "rollback": "HoodieRollbackMetadata",
    "savepoint": "HoodieSavepointMetadata",
    "restore": "HoodieRestoreMetadata",
}
_ARCHIVED_FIELDS: Final = {
    "clean": "hoodieCleanMetadata",
    "commit": "hoodieCommitMetadata",
    "deltacommit": "hoodieCommitMetadata",
    "replacecommit": "hoodieReplaceCommitMetadata",
    "rollback": "hoodieRollbackMetadata",
    "savepoint": "hoodieSavePointMetadata",
}


@dataclass(frozen=True, kw_only=True)
class CommitsCompareArguments(NamedTableArguments):
    """The parameters of `commits_compare`."""

    path: str = parameter(help="directory of the other table")


@dataclass(frozen=True)
class CommitsCompareRow:
    """The commits by which the table is ahead of the other one, or behind it."""

    compare_detail: str


@procedure("Compares the commits of a table with those of a copy of it.")
def commits_compare(context: Context, arguments: CommitsCompareArguments) -> Iterable[CommitsCompareRow]:
    """One row. Raises NoSuchTableError, StorageError."""
    source = find_table(context, arguments.table)
    target = find_table(context, None, arguments.path)
    ours, theirs = ([commit.timestamp for commit in table.timeline.commits] for table in (source, target))
    last, last_of_target = ours[-1] if ours else "0", theirs[-1] if theirs else "0"
    is_behind = last_of_target > last
    missing = (
        [time for time in theirs if time > last] if is_behind else [t for t in ours if t > last_of_target]
    )
    return [
        CommitsCompareRow(
            f"Source {source.name} is {'behind' if is_behind else 'ahead'} by {len(missing)} commits. "
            f"Commits to catch up - [{', '.join(missing)}]"
        )
    ]


@dataclass(frozen=True, kw_only=True)
class ExportInstantsArguments(NamedTableArguments):
    """The parameters of `export_instants`."""

    local_folder: str = parameter(help="directory for the files, which must exist")
    limit: int = parameter(-1, help="most instants; -1: all")
    actions: str = parameter(_DEFAULT_ACTIONS, help="actions, separated by commas")
    desc: bool = parameter(False, help="newest first")


@dataclass(frozen=True)
class ExportInstantsRow:
    """The number of instants that were written."""

    export_detail: str


@procedure("Writes the contents of completed instants, archived ones too, as JSON files into a directory.")
def export_instants(context: Context, arguments: ExportInstantsArguments) -> Iterable[ExportInstantsRow]:
    """One row. Raises NoSuchTableError, InvalidArgumentError, SourceProtectedError, CorruptTableError,
    StorageError.
    """
    from hudisql.bootstrap.lease.protected_sources import refuse_touching_sources

    table = find_table(context, arguments.table)
    storage = context.storage
    directory = storage.qualify(arguments.local_folder)
    info = storage.info(directory)
    if info is None or not info.is_directory:
        raise InvalidArgumentError(f"{arguments.local_folder} is not a directory", hint="make it first")
    if is_inside(directory, table.base_path):
        raise InvalidArgumentError(f"{arguments.local_folder} lies in the table that is exported")
    refuse_touching_sources(context, [directory], "export_instants would write files")
    actions = {*split_names(arguments.actions)}
    found = exported_instants(table, actions, arguments.desc)
    exported = 0
    for name, content in islice(found, None if arguments.limit < 0 else arguments.limit):
        storage.write(join(directory, name), content)
        exported += 1
    return [ExportInstantsRow(f"Exported {exported} Instants to {arguments.local_folder}")]


def exported_instants(table: HudiTable, actions: set[str], newest_first: bool) -> Iterator[tuple[str, bytes]]:
    """Name and content of each file, in the order of the instants; each is decoded lazily."""
    from hudisql.table.timeline.archived_timeline import ArchiveReader

    archive = ArchiveReader(table)
    found: dict[tuple[str, str], tuple[str, Callable[[], bytes | None]]] = {}
    for instant, path in archive.completed_instants().items():
        time, action = instant.timestamp, instant.completed_action
        if action in actions:
            found[time, action] = (f"{time}.{action}", partial(_archived_json, archive, instant, path))
    for instant in table.timeline.completed:
        if instant.action in actions:
            # After an interrupted archiving an instant is in the archive, too.
            name = table.timeline.layout.file_name(instant)
            found[instant.timestamp, instant.action] = (name, partial(_active_json, table, instant))
    for key in sorted(found, reverse=newest_first):
        name, read = found[key]
        content = read()
        if content is not None:
            yield name, content


def _active_json(table: HudiTable, instant: Any) -> bytes:
    """The content of the instant's file; commits are JSON already, other actions become the JSON of Avro."""
    from hudisql.format.avro.avro_container import load_codec
    from hudisql.table.timeline.instant_files import read_instant

    content = read_instant(table, instant)
    record = _RECORDS.get(instant.action)
    if record is None:
        return content if content.startswith(b"{") else _document_json(content)
    codec = load_codec(record)
    return _avro_json(json.loads(codec.schema_text), codec.decode(content, table.instant_path(instant)))


def _document_json(content: bytes) -> bytes:
    """The JSON of commit metadata that timeline layout 2 stores as Avro."""
    from hudisql.format.timeline.commit_metadata import parse_commit_document

    return json.dumps(parse_commit_document(content), indent=2, ensure_ascii=False).encode()


def _archived_json(archive: ArchiveReader, instant: Instant, path: str) -> bytes | None:
    from hudisql.format.avro.avro_container import load_codec

    name = _ARCHIVED_FIELDS.get(instant.completed_action)
    entry = None if name is None else archive.entry(instant, path, name)
    if name is None or entry is None:
        return None
    found = entry.record[name]
    schema = json.loads(load_codec("HoodieArchivedMetaEntry").schema_text)
    (kind,) = (field["type"] for field in schema["fields"] if field["name"] == name)
    return _avro_json(next(each for each in kind if each != "null"), found)


def _avro_json(schema: Any, record: Any) -> bytes:
    import fastavro

    written = io.StringIO()
    fastavro.json_writer(written, schema, [record])
    return json.dumps(json.loads(written.getvalue()), indent=2, ensure_ascii=False).encode()


@dataclass(frozen=True, kw_only=True)
class DeleteMarkerArguments(NamedTableArguments):
    """The parameters of `delete_marker`."""

    instant_time: str = parameter(help="instant times whose markers are deleted, separated by commas")


@dataclass(frozen=True)
class DeleteMarkerRow:
    """True once there are no markers."""

    delete_marker_result: bool


@procedure("Deletes the markers that instants have left.")
def delete_marker(context: Context, arguments: DeleteMarkerArguments) -> Iterable[DeleteMarkerRow]:
    """One row; nothing is deleted if one of the times does not fit.

    Raises NoSuchTableError, InvalidArgumentError, WriteConflictError for an instant that is pending,
    StorageError.
    """
    from hudisql.table.hudi_table import check_written_version
    from hudisql.write.transaction.markers import delete_markers

    table = find_table(context, arguments.table)
    check_written_version(table.version, table.base_path)
    times = [time.strip() for time in arguments.instant_time.split(",")]
    for time in times:
        _check_abandoned(table, time)
    for time in times:
        delete_markers(table.storage, table.base_path, time)
    return [DeleteMarkerRow(True)]


def _check_abandoned(table: HudiTable, time: str) -> None:
    if not time.isdigit():
        raise InvalidArgumentError(f"instant_time must be an instant time, not '{time}'")
    if any(instant.timestamp == time for instant in table.timeline.pending):
        raise WriteConflictError(
            f"the instant {time} of {table.base_path} is not complete: its markers say which files a "
            "rollback deletes",
            hint="the next write rolls it back, and deletes its markers, once its writer is gone",
        )
