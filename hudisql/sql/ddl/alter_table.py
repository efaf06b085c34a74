"""ALTER TABLE, TRUNCATE TABLE and COMMENT ON of a Hudi table.

Names, properties and a table's comment live in the metastore and in `hoodie.properties`; columns and
partitions change by commits, after which the metastore is synced.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from hudisql.catalog.added_partitions import added_among
from hudisql.catalog.guarded_alter import alter_guarded
from hudisql.catalog.metastore_table import PURGE_PROPERTY, MetastoreTable
from hudisql.config.config_key import HudiConfig
from hudisql.config.hudi_config import ICEBERG_SYNC, SCHEMA_ON_READ
from hudisql.errors import (
    InvalidArgumentError,
    SettingsError,
    TableExistsError,
    UnsupportedStatementError,
    UnsupportedTableError,
)
from hudisql.format import table_properties as keys
from hudisql.format.schema.internal_schema import arrow_schema
from hudisql.options.extra_metadata import extra_metadata
from hudisql.options.known_settings import warn_of_properties
from hudisql.options.table_call import TableCall
from hudisql.options.table_settings import settings_of, syncs_after_commit
from hudisql.options.writer_settings import writer_concurrency
from hudisql.result import LocalResult, Result
from hudisql.spark.jvm import class_name, pairs_of
from hudisql.sql.ddl.add_partitions import add_partitions
from hudisql.sql.ddl.partition_clauses import AddedPartitions, partitions_of_paths, partitions_to_drop
from hudisql.sql.ddl.table_options import properties_of_table
from hudisql.sql.dml.after_commit import after_commit
from hudisql.sql.query.target_table import (
    check_is_main_name,
    entries_of_table,
    find_entry,
    iceberg_entry_of,
    open_hudi_entry,
)
from hudisql.sql.schema import alterations as al
from hudisql.sql.schema.alter_columns import with_changed_columns
from hudisql.sql.schema.columns_by_id import changed_by_ids
from hudisql.sql.text import statements as st
from hudisql.table.hudi_table import HudiTable
from hudisql.table.partitions.listed_partitions import TablePartition
from hudisql.table.properties.table_configuration import update_table_properties
from hudisql.table.properties.written_versions import check_written
from hudisql.write.transaction.commit import OpenCommit
from hudisql.write.transaction.concurrency import Concurrency, default_lock
from hudisql.write.transaction.schema_change import (
    ALTER_SCHEMA,
    commit_internal_schema,
    commit_schema,
    commit_without_partitions,
    with_added_columns,
)

if TYPE_CHECKING:
    from hudisql.context import Context

_EXTERNAL: Final = "EXTERNAL"
_FIRST_IDS: Final = (
    "{} has columns with ids now: Apache Hudi reads and writes it right with "
    f"{SCHEMA_ON_READ} = true only, and most queries of Hive fail if it is partitioned"
)


def alter_table(context: Context, entry: MetastoreTable, statement: st.ChangeStatement) -> Result:
    """Run the statement on the Hudi table; it returns no rows.

    Raises UnsupportedStatementError, UnsupportedTableError, InvalidArgumentError, WriteConflictError: nothing
    has changed then. SyncFailedError means that only the sync with the metastore failed.
    """
    check_is_main_name(context, entry, statement.verb)
    alteration = al.read_alteration(context, statement.text)
    table = open_hudi_entry(context, entry)
    check_written(table, ALTER_SCHEMA)
    if isinstance(alteration, al.RenameTable):
        _rename(context, entry, table, alteration)
    elif isinstance(alteration, al.SetProperties):
        _set_properties(context, entry, table, alteration)
    elif isinstance(alteration, al.UnsetProperties):
        _unset_properties(context, entry, table, alteration)
    elif isinstance(alteration, al.DropPartitions):
        _drop_partitions(
            context,
            entry,
            table,
            lambda each, added: partitions_to_drop(each, alteration, entry.full_name, added),
        )
    elif isinstance(alteration, al.AddPartitions):
        add_partitions(context, entry, table, alteration)
    else:
        _change_schema(context, entry, table, alteration)
    return LocalResult(context.spark, (), ())


def drop_partitions_of_paths(
    context: Context, entry: MetastoreTable, paths: Sequence[str], verb: str
) -> None:
    """Drop the partitions with these paths (`partitions_of_paths`), all of them if no path is given.

    `verb` names the statement in errors, which are those of `alter_table`.
    """
    check_is_main_name(context, entry, verb)
    table = open_hudi_entry(context, entry)
    check_written(table, ALTER_SCHEMA)

    def choose(listed: HudiTable, added: AddedPartitions) -> tuple[TablePartition, ...]:
        if not paths:
            return partitions_to_drop(listed, al.DropPartitions(), entry.full_name, added)
        partitions, missing = partitions_of_paths(listed, paths, added)
        for path in missing:
            context.console.warning(f"{verb}: {entry.full_name} has no partition '{path}' with rows")
        return partitions

    _drop_partitions(context, entry, table, choose)


def _rename(context: Context, entry: MetastoreTable, table: HudiTable, renaming: al.RenameTable) -> None:
    parts = renaming.name if len(renaming.name) > 1 else (entry.database, *renaming.name)
    database, name = context.qualify_table_name(st.TableName(parts).quoted)
    if database != entry.database:
        raise UnsupportedStatementError(
            f"{entry.full_name} cannot be renamed into another database, {database}: nothing was run",
            hint=f"CREATE TABLE {database}.{name} USING hudi LOCATION '{table.base_path}' registers it there",
        )
    entries = entries_of_table(context, entry)
    if (iceberg_entry := iceberg_entry_of(context, entry)) is not None:
        entries = (*entries, iceberg_entry)
    for each in entries:
        wanted = name + each.name[len(entry.name) :]
        if context.metastore.get_table(database, wanted) is not None:
            raise TableExistsError(f"{database}.{wanted} exists already", hint="choose another name")
    with _configuration_lock(context, entry, table):
        for each in entries:
            _rename_entry(context, each, name + each.name[len(entry.name) :])
        update_table_properties(context.storage, table.base_path, {keys.NAME: name})
    context.console.info(f"{entry.full_name} is {database}.{name} now")


def _rename_entry(context: Context, entry: MetastoreTable, name: str) -> None:
    """Rename an entry without the metastore's move of a managed table's files.

    The entry is external during the rename; DROP TABLE still deletes the files of such a table.
    """
    if entry.is_external:
        context.metastore.alter_table(replace(entry, name=name), name=entry.name)
        return
    parameters = {**entry.parameters, _EXTERNAL: "TRUE", PURGE_PROPERTY: "true"}
    external = replace(entry, table_type="EXTERNAL_TABLE", parameters=parameters)
    context.metastore.alter_table(external)
    context.metastore.alter_table(replace(external, name=name), name=entry.name)
    context.metastore.alter_table(replace(entry, name=name))


def _set_properties(
    context: Context, entry: MetastoreTable, table: HudiTable, setting: al.SetProperties
) -> None:
    values = dict(setting.values)
    becomes_external = any(
        name.upper() == _EXTERNAL and value.upper() == "TRUE" for name, value in values.items()
    )
    if becomes_external:
        values = {name: value for name, value in values.items() if name.upper() != _EXTERNAL}
    comment = values.pop("comment", None)
    configuration = properties_of_table(table, values)
    properties = {**entry.parameters, **values}
    warn_of_properties(context.console, values, f"ALTER TABLE {entry.full_name}", properties)
    if configuration:
        _update_configuration(context, entry, table, configuration)
    if comment is not None:
        values["comment"] = comment
    for each in entries_of_table(context, entry):
        if becomes_external:
            each = replace(each, table_type="EXTERNAL_TABLE")
        own = values if each.name == entry.name else _without_purge(values)
        parameters = {**each.parameters, **own, **({_EXTERNAL: "TRUE"} if becomes_external else {})}
        if comment == "":
            parameters.pop("comment")
        alter_guarded(context.metastore, each, replace(each, parameters=parameters))
    if ICEBERG_SYNC.name in values:
        settings = settings_of(context, table, properties)
        TableCall(context, table, entry, settings).publish()


def _without_purge(values: Mapping[str, str]) -> dict[str, str]:
    """The properties without the one by which DROP TABLE of a table's `_ro` or `_rt` name deletes files."""
    return {name: value for name, value in values.items() if name.lower() != PURGE_PROPERTY}


def _unset_properties(
    context: Context, entry: MetastoreTable, table: HudiTable, unsetting: al.UnsetProperties
) -> None:
    configuration = properties_of_table(table, dict.fromkeys(set(unsetting.names) - {"comment"}))
    missing = [name for name in unsetting.names if name not in entry.parameters]
    missing = [name for name in missing if table.properties.get(name) is None]
    if missing and not unsetting.if_exists:
        raise InvalidArgumentError(
            f"{entry.full_name} has no property {', '.join(missing)}",
            hint="UNSET TBLPROPERTIES IF EXISTS takes that",
        )
    if configuration:
        _update_configuration(context, entry, table, configuration)
    for each in entries_of_table(context, entry):
        parameters = {name: value for name, value in each.parameters.items() if name not in unsetting.names}
        alter_guarded(context.metastore, each, replace(each, parameters=parameters))


def _update_configuration(
    context: Context, entry: MetastoreTable, table: HudiTable, changes: Mapping[str, str | None]
) -> None:
    """Change `hoodie.properties` under the table's lock."""
    with _configuration_lock(context, entry, table):
        update_table_properties(context.storage, table.base_path, changes)


@contextmanager
def _configuration_lock(context: Context, entry: MetastoreTable, table: HudiTable) -> Iterator[None]:
    """Hold the table's lock while the block runs."""
    try:
        concurrency = writer_concurrency(context, table, settings_of(context, table, entry.parameters))
    except (SettingsError, UnsupportedTableError):
        # The statement may correct these settings.
        concurrency = Concurrency(lock=default_lock(context.storage, table.base_path))
    with concurrency.hold():
        yield


def _drop_partitions(
    context: Context,
    entry: MetastoreTable,
    table: HudiTable,
    choose: Callable[[HudiTable, AddedPartitions], Sequence[TablePartition]],
) -> None:
    """Drop the partitions that `choose` finds in the table by a commit; no commit if there are none."""
    settings = settings_of(context, table, entry.parameters)
    concurrency = writer_concurrency(context, table, settings)
    table = table.listed_once()
    added = partial(added_among, context.metastore, table, entry)
    if partitions := choose(table, added):
        commit = commit_without_partitions(table, partitions, concurrency, extra_metadata(settings))
        _committed(context, entry, table, settings, commit)


def _change_schema(
    context: Context, entry: MetastoreTable, table: HudiTable, alteration: al.ColumnAlteration
) -> None:
    """Change columns by a commit; no commit if nothing changes."""
    settings = settings_of(context, table, entry.parameters)
    concurrency = writer_concurrency(context, table, settings)
    if settings.get(SCHEMA_ON_READ):
        changed = changed_by_ids(table, alteration, entry.full_name)
        if not table.schema.equals(arrow_schema(changed), check_metadata=True):
            commit = commit_internal_schema(table, changed, concurrency)
            if table.file_columns is None:
                context.console.warning(_FIRST_IDS.format(entry.full_name))
            _committed(context, entry, table, settings, commit)
        return
    _refuse_without_ids(entry, alteration)
    assert isinstance(alteration, al.AddColumns | al.ChangeColumns)
    if isinstance(alteration, al.AddColumns):
        schema = with_added_columns(table, alteration.columns, entry.full_name)
    else:
        schema = with_changed_columns(table, alteration.columns, entry.full_name)
    if not schema.equals(table.schema, check_metadata=True):
        _committed(context, entry, table, settings, commit_schema(table, schema, concurrency))


def _refuse_without_ids(entry: MetastoreTable, alteration: al.ColumnAlteration) -> None:
    if isinstance(alteration, al.DropColumns):
        what = f"DROP COLUMN {', '.join(alteration.names)}"
    elif isinstance(alteration, al.RenameColumn):
        what = f"RENAME COLUMN {alteration.name}"
    elif isinstance(alteration, al.AddColumns) and alteration.parents:
        name, parents = next(iter(alteration.parents.items()))
        what = f"ADD COLUMNS ({'.'.join((*parents, name))})"
    elif isinstance(alteration, al.AddColumns) and alteration.places:
        what = f"ADD COLUMNS … AFTER {next(iter(alteration.places.values()))}"
    elif isinstance(alteration, al.ChangeColumns) and (moved := alteration.first_moved):
        what = f"ALTER COLUMN {moved.name} {f'AFTER {moved.after}' if moved.after else 'FIRST'}"
    else:
        return
    raise UnsupportedStatementError(
        f"{what} of {entry.full_name} needs columns with ids ({SCHEMA_ON_READ} = true): nothing was run",
        hint=f"SET {SCHEMA_ON_READ} = true, for this table's other writers and readers, too "
        "(docs/tables.md, Schema-on-read)",
    )


def _committed(
    context: Context, entry: MetastoreTable, table: HudiTable, settings: HudiConfig, commit: OpenCommit
) -> None:
    context.console.info(f"{entry.full_name}: commit {commit.instant_time} ({commit.operation_type})")
    after_commit(
        context,
        entry,
        table,
        settings,
        syncs=syncs_after_commit(settings),
        dropped_metadata_table=commit.dropped_metadata_table,
    )


def make_external(context: Context, statement: st.AlterTableStatement, plan: Any) -> bool:
    """Run SET TBLPROPERTIES ('EXTERNAL' = 'TRUE') on a non-Hudi table; False for other statements.

    Spark refuses that property, and Hive accepts it: it protects a source's files from DROP TABLE. Sets the
    other properties, too. `plan` is the statement's unresolved plan.
    """
    if class_name(plan) != "SetTableProperties":
        return False
    values = {str(name): str(value) for name, value in pairs_of(plan.properties())}
    if not any(name.upper() == _EXTERNAL and value.upper() == "TRUE" for name, value in values.items()):
        return False
    entry = find_entry(context, statement.table)
    if entry is None or entry.is_view:
        return False
    others = {name: value for name, value in values.items() if name.upper() != _EXTERNAL}
    parameters = {**entry.parameters, **others, _EXTERNAL: "TRUE"}
    context.metastore.alter_table(replace(entry, table_type="EXTERNAL_TABLE", parameters=parameters))
    return True
