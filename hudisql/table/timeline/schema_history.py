"""The versions of a table's internal schema: files of `.hoodie/.schema`, one for each commit.

Follows `FileBasedInternalSchemaStorageManager` of Hudi 0.15 and 1.2: the newest file whose commit is
completed has all versions.
"""

from __future__ import annotations

from collections.abc import Mapping

from hudisql.errors import CorruptTableError, NoSuchPathError
from hudisql.format.schema.internal_schema import (
    LATEST_SCHEMA_KEY,
    FileColumns,
    InternalSchema,
    parse_internal_schema,
    parse_schema_history,
)
from hudisql.format.timeline.instant import SCHEMA_COMMIT
from hudisql.format.timeline.timeline_layout import schema_directory
from hudisql.storage import join
from hudisql.table.meta_client import TableMetaClient


def file_columns_of(table: TableMetaClient, extra_metadata: Mapping[str, str | None]) -> FileColumns | None:
    """How the columns of the commit with this extra metadata are found in older files.

    None if the commit carries no internal schema. Raises CorruptTableError, StorageError.
    """
    text = extra_metadata.get(LATEST_SCHEMA_KEY)
    if not text:
        return None
    current = parse_internal_schema(text)
    versions = {
        internal_schema.version_id: internal_schema
        for internal_schema in read_schema_history(table, with_archived=True)
    }
    versions[current.version_id] = current
    return FileColumns(current, tuple(versions[number] for number in sorted(versions, reverse=True)))


def has_schema_files(table: TableMetaClient) -> bool:
    """True if columns have had ids at some time. Raises StorageError."""
    try:
        names = table.storage.list_file_names(schema_directory(table.base_path))
    except NoSuchPathError:
        return False
    return any(name.endswith(f".{SCHEMA_COMMIT}") for name in names)


def read_schema_history(table: TableMetaClient, *, with_archived: bool = False) -> tuple[InternalSchema, ...]:
    """All versions of the internal schema as of the newest active commit with a file, newest first.

    A file that a rollback has left looks like that of an archived commit once the timeline begins later:
    `with_archived` takes it where no active commit has a file. Raises CorruptTableError, StorageError.
    """
    directory = schema_directory(table.base_path)
    try:
        names = table.storage.list_file_names(directory)
    except NoSuchPathError:
        return ()
    completed = sorted(
        (name for name in names if name.endswith(f".{SCHEMA_COMMIT}") and name[:1].isdigit()), reverse=True
    )
    instants = {name: name.split(".")[0].split("_")[0] for name in completed}
    active = {commit.timestamp for commit in table.timeline.commits}
    chosen = next((name for name in completed if instants[name] in active), None)
    if chosen is None and with_archived:
        chosen = next((name for name in completed if table.timeline.is_visible(instants[name])), None)
    if chosen is None:
        return ()
    path = join(directory, chosen)
    try:
        return parse_schema_history(table.storage.read(path).decode())
    except CorruptTableError as error:
        raise CorruptTableError(f"cannot decode {path}: {error.message}") from error
