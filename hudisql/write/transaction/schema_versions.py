"""The internal schema in commits: a table whose columns have ids keeps them in every commit.

Follows `BaseHoodieWriteClient.saveInternalSchema` and `FileBasedInternalSchemaStorageManager` of Hudi 0.15: a
commit carries the latest version, and a file of `.hoodie/.schema`, written before the commit completes, has
all of them.
"""

from __future__ import annotations

from dataclasses import replace

from hudisql.errors import UnsupportedTableError, WriteConflictError
from hudisql.format.schema.internal_schema import (
    LATEST_SCHEMA_KEY,
    InternalSchema,
    parse_internal_schema,
    render_schema_history,
)
from hudisql.format.schema.internal_schema_changes import initial_schema, reconciled
from hudisql.format.timeline.commit_metadata import SCHEMA_KEY, CommitMetadata
from hudisql.format.timeline.instant import SCHEMA_COMMIT, Instant, InstantState, new_instant_time
from hudisql.format.timeline.timeline_layout import schema_directory
from hudisql.storage import join
from hudisql.table.hudi_table import HudiTable
from hudisql.table.properties.timeline_clock import now_on_timeline
from hudisql.table.timeline.schema_history import read_schema_history


def check_keeps_ids(table: HudiTable) -> None:
    """Raise UnsupportedTableError if the latest commit has lost the ids that the table's columns had.

    Its reader finds columns by name then, in Apache Hudi, too: a write would store what is read as NULL.
    """
    if table.file_columns is None and read_schema_history(table):
        raise UnsupportedTableError(
            f"columns of the Hudi table at {table.base_path} were changed by schema-on-read, but its latest "
            "commit carries no internal schema: its writer had hoodie.schema.on.read.enable=false, and files "
            "from before the changes are read by names that have changed",
            hint="roll back the commits without it, newest first (CALL rollback_to_instant), and run these "
            "writes again with hoodie.schema.on.read.enable=true",
        )


def with_internal_schema(table: HudiTable, metadata: CommitMetadata, instant_time: str) -> CommitMetadata:
    """The metadata with the internal schema that the commit leaves, if the table's columns have ids."""
    columns = table.file_columns
    if columns is None or metadata.schema is None or LATEST_SCHEMA_KEY in metadata.extra_metadata:
        return metadata
    version = reconciled(columns.current, table.schema_of(metadata.schema), int(instant_time))
    own = {SCHEMA_KEY: metadata.schema, LATEST_SCHEMA_KEY: version.to_json()}
    return replace(metadata, extra_metadata={**own, **metadata.extra_metadata})


def check_same_ids(table: HudiTable, now: HudiTable, instant_time: str) -> None:
    """Raise WriteConflictError if another writer has changed the ids since `table` was opened.

    Files that are older than such a change are read by the schema before it.
    """
    after = now.file_columns
    if after is None or after.current.version_id > int(instant_time):
        return
    if table.file_columns is None or table.file_columns.current != after.current:
        raise WriteConflictError(
            f"another writer has changed the columns of {table.base_path} meanwhile",
            hint="run the statement again: it then uses the table as of that commit",
        )


def save_schema_version(table: HudiTable, metadata: CommitMetadata, instant_time: str) -> None:
    """Write the file of `.hoodie/.schema` for a commit that carries an internal schema.

    `table` is the table before the commit. Raises StorageError.
    """
    text = metadata.extra_metadata.get(LATEST_SCHEMA_KEY)
    if not text:
        return
    version = parse_internal_schema(text)
    has_ids = table.file_columns is not None
    known = read_schema_history(table, with_archived=True) if has_ids else ()
    known = known or _versions_before(table)
    versions = {internal_schema.version_id: internal_schema for internal_schema in (*known, version)}
    content = render_schema_history(versions[number] for number in sorted(versions, reverse=True))
    layout, directory = table.timeline.layout, schema_directory(table.base_path)
    completion_time = ""
    if layout.has_completion_times:
        completion_time = new_instant_time(instant_time, now_on_timeline(table))
    for state in InstantState:
        own = Instant(instant_time, SCHEMA_COMMIT, state, completion_time)
        path = join(directory, layout.file_name(own))
        # A killed run of a planned service may have written it.
        table.storage.delete_file(path)
        table.storage.create(path, content.encode() if own.is_completed else b"")


def _versions_before(table: HudiTable) -> tuple[InternalSchema, ...]:
    columns = table.file_columns
    return (initial_schema(table.schema),) if columns is None else columns.versions
