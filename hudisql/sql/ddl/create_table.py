"""CREATE TABLE … USING hudi: an empty table, or the entry of a table that exists.

Follows `CreateHoodieTableCommand` of Hudi 0.15. The table's properties are created last, in one atomic step;
the metastore follows.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from hudisql.bootstrap.blockers import name_some
from hudisql.bootstrap.lease.protected_sources import refuse_touching_sources
from hudisql.bootstrap.rollback.table_removal import names_of_table
from hudisql.catalog.metastore_table import (
    FURTHER_SUFFIXES,
    READ_OPTIMIZED_PROPERTY,
    MetastoreTable,
    hudi_base_path,
    is_read_optimized,
)
from hudisql.catalog.sync import sync_table
from hudisql.catalog.sync_entries import SyncOptions
from hudisql.catalog.table_entries import registered_entries
from hudisql.catalog.table_location import database_directory
from hudisql.config.config_key import HudiConfig
from hudisql.errors import (
    InvalidArgumentError,
    NoSuchDatabaseError,
    TableExistsError,
)
from hudisql.format import table_properties as keys
from hudisql.format.schema.avro_schema import LOCAL_TIMESTAMP
from hudisql.format.schema.meta_columns import is_meta_column
from hudisql.format.schema.spark_schema import spark_json_from_arrow, spark_type_name
from hudisql.format.table_properties import DROP_PARTITION_COLUMNS, POPULATE_META_FIELDS
from hudisql.options.insert_options import check_load_operation
from hudisql.options.known_settings import warn_of_properties
from hudisql.options.table_call import TableCall, open_session_table
from hudisql.options.table_settings import settings_of
from hudisql.options.writer_settings import write_options
from hudisql.result import LocalResult, Result
from hudisql.sql.ddl.create_table_like import read_definition_like
from hudisql.sql.ddl.empty_table import check_free, plan_empty_table, publish_empty_table
from hudisql.sql.ddl.generator_options import with_generator_settings
from hudisql.sql.ddl.properties_without_effect import without_idle_properties
from hudisql.sql.ddl.table_options import (
    check_bootstrapped,
    check_properties,
    new_table,
    ordering_of,
    record_key_of,
    table_type_of,
    with_plain_key,
)
from hudisql.sql.dml.dml_execution import OUTPUT, result_row
from hudisql.sql.dml.insert_rows import as_inserts
from hudisql.sql.query import query_plan as query
from hudisql.sql.query.target_table import find_hudi_root
from hudisql.sql.schema.store_assignment import with_types
from hudisql.sql.schema.table_definition import TableDefinition, read_table_definition
from hudisql.sql.text import statements as st
from hudisql.sql.text.mapped_sql import source_from
from hudisql.sql.text.spark_errors import SourceText
from hudisql.sql_literals import quote_string
from hudisql.storage import join
from hudisql.table.hudi_table import HudiTable
from hudisql.table.properties.new_table import remove_new_table
from hudisql.write.execution.apply_changes import apply_changes
from hudisql.write.execution.bulk_insert import bulk_insert_rows
from hudisql.write.transaction.commit_annotations import announce_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from hudisql.context import Context

COMMENT: Final = "comment"


def create_table(context: Context, statement: st.CreateTableStatement) -> Result:
    """Create the table, or register the one at the given location; returns no rows.

    Raises TableExistsError, NoSuchDatabaseError, UnsupportedTableError, UnsupportedStatementError,
    InvalidArgumentError; nothing is then left behind. SyncFailedError means that the table exists and only
    the sync with the metastore failed.
    """
    definition = _definition_of(context, statement)
    if READ_OPTIMIZED_PROPERTY in definition.properties:
        return _create_view_of_files(context, statement, definition)
    found = _free_name(context, statement, definition)
    if found is None:
        return LocalResult(context.spark, (), ())
    database, name = found
    path = _place_of(context, definition, database, name)
    table = _find_table(context, path)
    if table is None:
        table = _make_table(context, definition, database, name, path)
    elif definition.location is None and not _is_begun(table, name):
        raise _table_is_there(context, table, database, name)
    else:
        _check_agreement(definition, table)
        check_bootstrapped(table, definition.properties)
        context.console.info(f"{database}.{name}: the Hudi table at {path} is registered as it is")
    register_table(context, definition, table, database, name)
    return LocalResult(context.spark, (), ())


def _create_view_of_files(
    context: Context, statement: st.CreateTableStatement, definition: TableDefinition
) -> Result:
    """Register a further name of a merge-on-read table: base files only, or with merged log files.

    An entry that shows the same already, as each sync makes them, stays. Raises InvalidArgumentError without
    such a table at the LOCATION.
    """
    text = definition.properties[READ_OPTIMIZED_PROPERTY].strip().lower()
    if text not in ("true", "false"):
        raise InvalidArgumentError(f"{READ_OPTIMIZED_PROPERTY} is neither true nor false: '{text}'")
    others = {key: value for key, value in definition.properties.items() if key != READ_OPTIMIZED_PROPERTY}
    definition = replace(definition, properties=others)
    database, name = context.qualify_table_name(statement.table.quoted)
    path = _place_of(context, definition, database, name)
    table = None if definition.location is None else _find_table(context, path)
    if table is None or not table.is_merge_on_read:
        raise InvalidArgumentError(
            f"{READ_OPTIMIZED_PROPERTY} is for a further name of a merge-on-read table, and there is none at "
            f"{path}",
            hint="give the LOCATION of such a table, or leave the property out",
        )
    _check_agreement(definition, table)
    found = registered_entries(context.metastore, table, database, name)
    if any(entry.name == name and is_read_optimized(entry) == (text == "true") for entry in found):
        context.console.info(f"{database}.{name} shows the table at {path} so already: nothing was done")
    elif _free_name(context, statement, definition) is not None:
        shown = SyncOptions(strategy="RO" if text == "true" else "RT")
        parameters = _parameters_of(definition)
        sync_table(context.metastore, table, database, name, shown, parameters=parameters)
    return LocalResult(context.spark, (), ())


def create_table_as(context: Context, statement: st.CreateTableAsStatement, source: SourceText) -> Result:
    """Create the table with the query's columns, insert the query's rows, and register it.

    Returns the row of an INSERT. If it fails, nothing is left behind.
    """
    planned = plan_table_as(context, statement, source)
    definition, target = planned.definition, planned.target
    if target is None:
        return LocalResult(context.spark, (), ())
    database, name, path = target.database, target.name, target.path
    table = _make_table(context, definition, database, name, path, announces=True)
    try:
        rows = with_types(context, planned.frame, table.schema, f"{database}.{name}")
        options = write_options(context, table, settings_of(context, table, definition.properties))
        with query.bound_errors(
            planned.prepared.bound, source_from(statement.query_start, statement.text, source)
        ):
            if options.index.has_rings:
                written = apply_changes(context.spark, table, as_inserts(rows), "BULK_INSERT", options)
            else:
                written = bulk_insert_rows(context.spark, table, rows, options)
    except BaseException:
        drop_incomplete_table(context, table)
        raise
    register_table(context, definition, open_session_table(context, path), database, name)
    return LocalResult(context.spark, OUTPUT, [result_row(written)])


def register_table_as(context: Context, statement: st.CreateTableAsStatement, table: HudiTable) -> None:
    """Create the metastore entries of a CREATE TABLE AS SELECT that was killed after its commit.

    Raises SyncFailedError, SqlSyntaxError.
    """
    columns = json.loads(spark_json_from_arrow(table.schema))["fields"]
    definition = _definition_of(context, statement, columns)
    database, name = context.qualify_table_name(statement.table.quoted)
    register_table(context, definition, table, database, name)


@dataclass(frozen=True)
class TableTarget:
    """The location and properties of a table that is going to be created."""

    database: str
    name: str
    path: str
    table_type: str
    record_key: tuple[str, ...]


@dataclass(frozen=True)
class PlannedTable:
    """A CREATE TABLE AS SELECT before its run; `target` is None if IF NOT EXISTS found a table."""

    definition: TableDefinition
    frame: DataFrame
    prepared: query.PreparedQuery
    target: TableTarget | None


def plan_table_as(
    context: Context, statement: st.CreateTableAsStatement, source: SourceText, *, count_all: bool = False
) -> PlannedTable:
    """Analyze the query and check the definition; nothing is created.

    Raises TableExistsError, NoSuchDatabaseError, UnsupportedTableError, UnsupportedStatementError,
    InvalidArgumentError, QueryError, SettingsError.
    """
    check_load_operation(HudiConfig(context.setting))
    select = st.Statement(statement.text[statement.query_start :])
    origin = source_from(statement.query_start, statement.text, source)
    prepared = query.prepare_query(context, select, origin, count_all=count_all)
    frame = query.run_prepared(context, prepared, origin)
    frame = frame.drop(*(name for name in frame.columns if is_meta_column(name)))
    definition = _definition_of(context, statement, frame.schema.jsonValue()["fields"])
    if READ_OPTIMIZED_PROPERTY in definition.properties:
        raise InvalidArgumentError(
            f"{READ_OPTIMIZED_PROPERTY} is for a further name of a table, not for a new one",
            hint=f"leave it out: a merge-on-read table also gets the name {statement.table}_ro",
        )
    found = _free_name(context, statement, definition)
    if found is None:
        return PlannedTable(definition, frame, prepared, None)
    database, name = found
    path = _place_of(context, definition, database, name)
    table = _find_table(context, path)
    if table is not None:
        raise _table_is_there(context, table, database, name)
    made = new_table(definition, database, name, {})
    return PlannedTable(
        definition, frame, prepared, TableTarget(database, name, path, made.table_type, made.record_key)
    )


def create_table_of_rows(
    context: Context, definition: TableDefinition, database: str, name: str
) -> HudiTable:
    """Create an empty table for rows that are written next; `register_table` registers it afterwards."""
    check_properties(definition.properties)
    _check_name(database, name)
    path = _place_of(context, definition, database, name)
    table = _find_table(context, path)
    if table is not None:
        raise _table_is_there(context, table, database, name)
    return _make_table(context, definition, database, name, path)


def begun_table(context: Context, definition: TableDefinition, database: str, name: str) -> HudiTable | None:
    """The table at the location of the new one, if it has the same definition; None otherwise.

    A killed CREATE leaves it. Raises TableExistsError for a directory inside another table.
    """
    table = _find_table(context, _place_of(context, definition, database, name))
    return None if table is None or any(_differences(definition, table)) else table


def drop_incomplete_table(context: Context, table: HudiTable) -> None:
    """Delete a new table whose rows could not be written; a warning names files of others, which stay.

    Raises StorageError.
    """
    path = table.base_path
    others = remove_new_table(context.storage, path)
    if others is None:
        context.console.warning(
            f"a commit of the new table at {path} is complete: the table stays, and CALL hive_sync(table => "
            f"'db.name', path => {quote_string(path)}) registers it"
        )
    elif others:
        context.console.warning(
            f"{name_some(others)} came into {path} while the table was made, and stay: remove or move them "
            "before the statement is run again"
        )


def _definition_of(
    context: Context, statement: st.CreateTableStatement, columns: list[dict[str, Any]] | None = None
) -> TableDefinition:
    if statement.like is None:
        definition = read_table_definition(context, statement.text, columns)
    else:
        definition = read_definition_like(context, statement)
    properties = without_idle_properties(context, definition.properties, statement.table)
    definition = replace(definition, properties=with_plain_key(properties))
    return with_generator_settings(definition, context.spark.conf)


def _free_name(
    context: Context, statement: st.CreateTableStatement, definition: TableDefinition
) -> tuple[str, str] | None:
    """Database and name of the new table; None if it exists and IF NOT EXISTS was given."""
    check_properties(definition.properties)
    properties = definition.properties
    warn_of_properties(context.console, properties, f"CREATE TABLE {statement.table}", properties)
    database, name = context.qualify_table_name(statement.table.quoted)
    _check_name(database, name)
    if context.metastore.get_table(database, name) is None:
        return database, name
    if statement.if_not_exists:
        context.console.info(f"{database}.{name} exists already: nothing was done")
        return None
    raise TableExistsError(
        f"{database}.{name} exists already", hint="CREATE TABLE IF NOT EXISTS leaves it as it is"
    )


def register_table(
    context: Context, definition: TableDefinition, table: HudiTable, database: str, name: str
) -> None:
    """Create the table's metastore entries, those of a managed table if the definition has no LOCATION.

    Then it is published as an Iceberg table, if its properties say so.

    Raises SyncFailedError: the table exists nevertheless.
    """
    parameters = _parameters_of(definition)
    is_managed = definition.location is None
    sync_table(context.metastore, table, database, name, parameters=parameters, is_managed=is_managed)
    entry = MetastoreTable(database, name, "EXTERNAL_TABLE", table.base_path, ())
    TableCall(context, table, entry, settings_of(context, table, parameters)).publish()


def _parameters_of(definition: TableDefinition) -> dict[str, str]:
    comment = {} if definition.comment is None else {COMMENT: definition.comment}
    return {**definition.properties, **comment}


def _make_table(
    context: Context,
    definition: TableDefinition,
    database: str,
    name: str,
    path: str,
    *,
    announces: bool = False,
) -> HudiTable:
    storage = context.storage
    if not len(definition.columns):
        raise InvalidArgumentError(
            f"CREATE TABLE {database}.{name} gives no columns, and there is no Hudi table at {path}",
            hint="give columns, or the LOCATION of a Hudi table",
        )
    _warn_of_types(context, definition)
    empty = plan_empty_table(definition, database, name, path)
    _warn_of_dates(context, empty.date_columns)
    check_free(storage, path)
    refuse_touching_sources(context, [path], f"the table {database}.{name} would lie")
    if empty.values[keys.TYPE] == keys.MERGE_ON_READ:
        _check_names_free(context, database, name)
    if announces:
        announce_table(path)
    publish_empty_table(storage, path, empty)
    return open_session_table(context, path)


def _warn_of_types(context: Context, definition: TableDefinition) -> None:
    local = [field.name for field in definition.columns if field.type == LOCAL_TIMESTAMP]
    if local:
        context.console.warning(
            f"{', '.join(local)}: Apache Hudi 0.15 cannot read TIMESTAMP_NTZ columns (1.2 can), and Hive "
            "sees a bigint of microseconds"
        )


def _warn_of_dates(context: Context, names: Sequence[str]) -> None:
    if names:
        context.console.warning(
            f"{', '.join(names)}: Apache Hudi 0.15 reads partition columns from directory names, "
            "and may fail "
            "where a date stands for a number; with STRING columns it shows the directory's text"
        )


def _check_name(database: str, name: str) -> None:
    for part in (database, name):
        if not part.isascii() or not part.replace("_", "a").isalnum():
            raise InvalidArgumentError(
                f"'{part}' is not a name that the metastore takes", hint="letters, digits and _ only"
            )


def _place_of(context: Context, definition: TableDefinition, database: str, name: str) -> str:
    """The table's directory: the given location, or that of its name in the database's directory."""
    if context.metastore.get_database(database) is None:
        raise NoSuchDatabaseError(f"there is no database {database}", hint=f"CREATE DATABASE {database}")
    home = database_directory(context.storage, context.metastore, context.warehouse, database)
    location = definition.location
    if location is None:
        return join(home, name)
    is_relative = not location.startswith("/") and ":/" not in location
    return context.storage.qualify(join(home, location) if is_relative else location)


def _find_table(context: Context, path: str) -> HudiTable | None:
    root = find_hudi_root(context, path)
    if root is None:
        return None
    if root != path:
        raise TableExistsError(f"{path} lies in the Hudi table at {root}", hint="choose another LOCATION")
    return open_session_table(context, path)


def _is_begun(table: HudiTable, name: str) -> bool:
    """True for a table of this name without commits, as a killed CREATE TABLE leaves it."""
    return not (table.timeline.commits or table.is_bootstrapped) and table.name.lower() == name


def _table_is_there(context: Context, table: HudiTable, database: str, name: str) -> TableExistsError:
    """The error for a new table whose directory already contains `table`, which may have been renamed."""
    path = table.base_path
    for own_database, own_name in names_of_table(table):
        entry = context.metastore.get_table(own_database, own_name)
        location = None if entry is None else hudi_base_path(entry)
        if location is not None and context.storage.qualify(location) == path:
            return TableExistsError(
                f"{path} is the directory of the table {own_database}.{own_name}",
                hint=f"give {database}.{name} another LOCATION",
            )
    return TableExistsError(
        f"there is a Hudi table at {path} already, and the metastore has no {database}.{name}",
        hint=f"CREATE TABLE {database}.{name} USING hudi LOCATION {quote_string(path)}, with these"
        " TBLPROPERTIES, registers it; then INSERT INTO adds rows, or DROP TABLE … PURGE removes it",
    )


def _check_names_free(context: Context, database: str, name: str) -> None:
    for suffix in FURTHER_SUFFIXES:
        if context.metastore.get_table(database, name + suffix) is not None:
            raise TableExistsError(
                f"{database}.{name}{suffix} exists already, and a merge-on-read table {name} needs that name",
                hint="drop it, or choose another name",
            )


def _check_agreement(definition: TableDefinition, table: HudiTable) -> None:
    """Raise TableExistsError if the statement contradicts the table at the location."""
    differences = list(_differences(definition, table))
    if differences:
        raise TableExistsError(
            f"there is a Hudi table at {table.base_path} already, and it differs: {'; '.join(differences)}",
            hint="CREATE TABLE … USING hudi LOCATION '…' without columns registers it as it is",
        )


def _differences(definition: TableDefinition, table: HudiTable) -> Iterator[str]:
    properties = table.properties
    if len(definition.columns):
        stored = {field.name.lower(): spark_type_name(field.type) for field in table.schema}
        wanted = {field.name.lower(): spark_type_name(field.type) for field in definition.columns}
        for name in dict.fromkeys([*wanted, *stored]):
            if stored.get(name) != wanted.get(name):
                yield f"column {name} is {stored.get(name, 'absent')}, not {wanted.get(name, 'absent')}"
        for name, sized in definition.lengths.items():
            if (found := properties.column_lengths.get(name)) != sized:
                yield f"column {name} is {'string' if found is None else found.name}, not {sized.name}"
    asked: list[tuple[str, object, object]] = [
        ("type", table_type_of(definition.properties), properties.table_type),
        (
            "primaryKey",
            _joined(record_key_of(definition)),
            _joined(properties.record_key_fields) or "(generated)",
        ),
        ("preCombineField", ordering_of(definition), properties.precombine_field),
        (
            POPULATE_META_FIELDS,
            definition.properties.get(POPULATE_META_FIELDS),
            str(properties.populate_meta_fields).lower(),
        ),
        (
            DROP_PARTITION_COLUMNS,
            definition.properties.get(DROP_PARTITION_COLUMNS),
            str(properties.drop_partition_columns).lower(),
        ),
    ]
    if len(definition.columns) or definition.partition_columns:
        partitions = _joined(definition.partition_columns) or "nothing"
        asked.append(("PARTITIONED BY", partitions, _joined(properties.partition_fields) or "nothing"))
    for label, wish, value in asked:
        if wish is not None and str(wish).lower() != str(value).lower():
            yield f"{label} is {value}, not {wish}"


def _joined(names: tuple[str, ...] | None) -> str | None:
    return None if names is None else ",".join(names)
