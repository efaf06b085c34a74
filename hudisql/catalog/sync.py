"""Updates the metastore's entries of a Hudi table.

Idempotent and restartable: only differences are sent, and the time of the last synced commit is stored last.
A failed sync never changes the table; its error names the CALL that runs the sync again. Follows Hudi's
`HiveSyncTool`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile

from hudisql.catalog.client import ADD_BATCH, DROP_BATCH, MetastoreClient
from hudisql.catalog.guarded_alter import alter_guarded
from hudisql.catalog.metastore_table import (
    PURGE_PROPERTY,
    MetastoreColumn,
    MetastoreTable,
    loses_files_when_dropped,
)
from hudisql.catalog.sync_changes import (
    COMMIT_PROPERTIES,
    changed_partitions,
    is_incremental,
)
from hudisql.catalog.sync_entries import (
    OMIT_META_COLUMNS_OPTION,
    EntryKind,
    SyncOptions,
    changed_settings,
    entry_kinds,
    sync_options_from,
    wanted_partition,
)
from hudisql.catalog.sync_plan import EntrySync, ExistingEntries, SyncPlan, plan_sync
from hudisql.catalog.table_entries import kinds_of, main_name, options_of, registered_entries
from hudisql.errors import (
    HudisqlError,
    MetastoreError,
    MetastoreUnavailableError,
    SyncFailedError,
    TableExistsError,
)
from hudisql.sql_literals import quote_string
from hudisql.table.hudi_table import HudiTable


@dataclass(frozen=True)
class SyncResult:
    """The changes of a sync; counts are over all entries."""

    tables: tuple[str, ...]
    created_tables: int
    altered_tables: int
    added_partitions: int
    changed_partitions: int
    dropped_partitions: int

    @property
    def summary(self) -> str:
        """The counts, for a reader."""
        return (
            f"{', '.join(self.tables)}: {self.created_tables} created, {self.altered_tables} altered; "
            f"partitions: {self.added_partitions} added, {self.changed_partitions} changed, "
            f"{self.dropped_partitions} dropped"
        )


def sync_table(
    client: MetastoreClient,
    table: HudiTable,
    database: str,
    name: str,
    options: SyncOptions | None = None,
    *,
    metastore_uri: str | None = None,
    parameters: Mapping[str, str] | None = None,
    is_managed: bool = False,
) -> SyncResult:
    """Read the metastore's entries, plan and run: the whole sync of one table.

    `parameters` are properties of new entries; with `is_managed` a new entry under the table's own name is a
    managed table. The table itself is never changed. Raises SyncFailedError, whose hint is the CALL that runs
    the sync again (with `metastore_uri`, if it is not the session's metastore), or the CREATE TABLE with
    these properties.
    """
    options = _following(parameters or {}, options or SyncOptions())
    table = table.with_listing()

    def read_plan_and_run() -> SyncResult:
        existing = read_existing(client, table, database, name, options)
        plan = plan_sync(table, database, name, existing, options).with_parameters(parameters or {})
        return run_sync(client, plan.as_managed(name) if is_managed else plan, options.batch_size)

    try:
        try:
            return read_plan_and_run()
        except TableExistsError:
            # Another sync created an entry meanwhile: the second attempt finds it, or a real conflict.
            return read_plan_and_run()
    except SyncFailedError:
        raise
    except HudisqlError as error:
        again = sync_call(table, database, name, options, metastore_uri)
        # An entry that was created has the properties, and later entries copy them.
        if (parameters or is_managed) and not _has_entry(client, database, name):
            purged = {PURGE_PROPERTY: "true"} if is_managed else {}
            again = _registration(table, database, name, {**(parameters or {}), **purged})
        raise _failed(table, f"{database}.{name}", error, again) from error


def sync_registered(
    client: MetastoreClient, table: HudiTable, database: str, name: str, *, incremental: bool = False
) -> SyncResult:
    """Update the table's existing entries by this name, each with its own kind; creates none.

    `name` may be any of the entries; `incremental` as in SyncOptions. Raises SyncFailedError, whose hint says
    how to run the sync again.
    """
    again = f"MSCK REPAIR TABLE {database}.{name}"
    table = table.with_listing()
    try:
        main = main_name(client, table, database, name)
        entries = registered_entries(client, table, database, main)
        options = options_of(table, main, entries)
        if options is not None:
            again = sync_call(table, database, main, options, None)
        # A new column is declared like the others of its type.
        declared = any(column.type == "timestamp" for entry in entries for column in entry.columns)
        options = SyncOptions(support_timestamp=declared, incremental=incremental)
        existing = _with_partitions(client, table, entries, options)
        plan = plan_sync(table, database, main, existing, options, kinds_of(table, entries))
        return run_sync(client, plan)
    except HudisqlError as error:
        raise _failed(table, f"{database}.{name}", error, again) from error


def _following(parameters: Mapping[str, str], options: SyncOptions) -> SyncOptions:
    """The options; where they do not say whether meta columns are omitted, a new entry's properties do."""
    if options.omits_meta_columns is not None or OMIT_META_COLUMNS_OPTION not in parameters:
        return options
    chosen = sync_options_from({OMIT_META_COLUMNS_OPTION: parameters[OMIT_META_COLUMNS_OPTION]})
    return replace(options, omits_meta_columns=chosen.omits_meta_columns)


def _has_entry(client: MetastoreClient, database: str, name: str) -> bool:
    try:
        return client.get_table(database, name) is not None
    except HudisqlError:
        return False


def _registration(table: HudiTable, database: str, name: str, parameters: Mapping[str, str]) -> str:
    """The statement that registers the table with these properties."""
    values = dict(parameters)
    comment = values.pop("comment", None)
    pairs = ", ".join(f"{quote_string(key)} = {quote_string(value)}" for key, value in values.items())
    return (
        f"CREATE TABLE {database}.{name} USING hudi LOCATION {quote_string(table.base_path)}"
        + ("" if comment is None else f" COMMENT {quote_string(comment)}")
        + (f" TBLPROPERTIES ({pairs})" if pairs else "")
    )


def _failed(table: HudiTable, full_name: str, error: HudisqlError, again: str) -> SyncFailedError:
    advice = f"{error.hint}; then run: " if error.hint else "to sync it later, run: "
    return SyncFailedError(
        f"the Hudi table at {table.base_path} is committed and complete, but the metastore entry "
        f"{full_name} could not follow it: {error.message}",
        hint=advice + again,
    )


def sync_call(
    table: HudiTable, database: str, name: str, options: SyncOptions, metastore_uri: str | None
) -> str:
    """The CALL statement that syncs this table with these options."""
    arguments = [f"table => {quote_string(f'{database}.{name}')}", f"path => {quote_string(table.base_path)}"]
    if metastore_uri:
        arguments.append(f"metastore_uri => {quote_string(metastore_uri)}")
    settings = changed_settings(replace(options, incremental=False))
    if settings:
        pairs = ", ".join(f"{quote_string(key)}, {quote_string(value)}" for key, value in settings.items())
        arguments.append(f"options => map({pairs})")
    return f"CALL hive_sync({', '.join(arguments)})"


def read_existing(
    client: MetastoreClient, table: HudiTable, database: str, name: str, options: SyncOptions
) -> ExistingEntries:
    """The metastore's entries of the names that this table gets. Raises MetastoreError."""
    if client.get_database(database) is None:
        return ExistingEntries(False, {}, {})
    return read_entries(client, table, database, entry_kinds(table, name, options), options)


def read_entries(
    client: MetastoreClient,
    table: HudiTable,
    database: str,
    kinds: Sequence[EntryKind],
    options: SyncOptions,
) -> ExistingEntries:
    """The entries of these names in an existing database. Raises MetastoreError."""
    entries = [client.get_table(database, kind.name) for kind in kinds]
    return _with_partitions(client, table, [entry for entry in entries if entry is not None], options)


def _with_partitions(
    client: MetastoreClient, table: HudiTable, entries: Sequence[MetastoreTable], options: SyncOptions
) -> ExistingEntries:
    partitions = {}
    for entry in entries:
        if options.incremental and is_incremental(table, entry):
            changed = changed_partitions(table, entry)
            both = (*changed.present, *changed.dropped)
            values = [wanted_partition(table, entry, partition).values for partition in both]
            partitions[entry.name] = client.find_partitions(entry, values)
        elif entry.partition_columns:
            partitions[entry.name] = client.list_partitions(entry.database, entry.name)
    return ExistingEntries(True, {entry.name: entry for entry in entries}, partitions)


def run_sync(client: MetastoreClient, plan: SyncPlan, batch_size: int = ADD_BATCH) -> SyncResult:
    """Apply a plan, with `batch_size` partitions in each call.

    Raises MetastoreError and its subclasses; running the sync again continues from there.
    """
    if plan.creates_database:
        client.create_database(plan.database)
    for entry in plan.entries:
        _run_entry(client, entry, batch_size)
    changed = [entry for entry in plan.entries if entry.existing is not None]
    return SyncResult(
        tables=tuple(entry.table.full_name for entry in plan.entries),
        created_tables=len(plan.entries) - len(changed),
        altered_tables=sum(1 for entry in changed if entry.changes_columns or entry.changed_properties),
        added_partitions=sum(len(entry.added_partitions) for entry in plan.entries),
        changed_partitions=sum(len(entry.changed_partitions) for entry in plan.entries),
        dropped_partitions=sum(len(entry.dropped_partitions) for entry in plan.entries),
    )


def _run_entry(client: MetastoreClient, entry: EntrySync, batch_size: int) -> None:
    # The synced commit is stored last, so that an interrupted sync does not look complete.
    earlier = entry.existing.parameters if entry.existing else {}
    noted = {key: earlier[key] for key in COMMIT_PROPERTIES if key in earlier}
    others = {key: value for key, value in entry.table.parameters.items() if key not in COMMIT_PROPERTIES}
    first = replace(entry.table, parameters={**others, **noted})
    works_on_partitions = entry.added_partitions or entry.changed_partitions or entry.dropped_partitions
    if not works_on_partitions:
        first = entry.table
    if entry.existing is None:
        client.create_table(first)
    elif entry.changes_columns or entry.changed_properties:
        _alter_table(client, entry, first)
    client.add_partitions(first, entry.added_partitions, batch_size)
    client.alter_partitions(first, entry.changed_partitions, batch_size)
    client.drop_partitions(first, entry.dropped_partitions, min(batch_size, DROP_BATCH))
    if works_on_partitions and first.parameters != entry.table.parameters:
        stored = client.get_table(first.database, first.name)
        if stored is not None:
            noted = {
                key: entry.table.parameters[key] for key in COMMIT_PROPERTIES if key in entry.table.parameters
            }
            alter_guarded(client, stored, replace(stored, parameters={**stored.parameters, **noted}))


def _columns_kept(before: MetastoreTable, after: MetastoreTable) -> tuple[MetastoreColumn, ...]:
    """The leading columns that keep name and type; none if every position does."""
    pairs = list(zip(before.columns, after.columns, strict=False))
    if all(old.type == new.type for old, new in pairs):
        return ()
    same = takewhile(lambda pair: (pair[0].name, pair[0].type) == (pair[1].name, pair[1].type), pairs)
    return tuple(old for old, _ in same)


def _alter_table(client: MetastoreClient, entry: EntrySync, table: MetastoreTable) -> None:
    try:
        assert entry.existing is not None
        cascade = entry.changes_columns and bool(table.partition_columns)
        if entry.replaces_columns and (metastore_columns := _columns_kept(entry.existing, table)):
            # The server compares types by position: it takes others where there were no columns.
            alter_guarded(
                client, entry.existing, replace(entry.existing, columns=metastore_columns), cascade=cascade
            )
        alter_guarded(client, entry.existing, table, cascade=cascade)
    except MetastoreUnavailableError:
        raise
    except MetastoreError as error:
        if not (entry.changed_columns or entry.dropped_columns) or loses_files_when_dropped(table):
            raise
        raise MetastoreError(
            error.message,
            hint=f"to replace it, drop the entry (its data stays): DROP TABLE {table.full_name}",
        ) from error
