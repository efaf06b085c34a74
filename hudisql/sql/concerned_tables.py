"""Decides whether a statement concerns Hudi tables: `hudisql.install` leaves all others to Spark.

A statement does if hudisql alone knows it (CALL, INCREMENTAL TABLE), makes a Hudi table, reads or changes one
by name or through a view, or would harm the files of one. Nothing is run, and no table is opened.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from hudisql.catalog.metastore_table import MetastoreTable, is_hudi_table
from hudisql.context import split_identifier
from hudisql.errors import (
    HudisqlError,
    InvalidArgumentError,
    SourceProtectedError,
    SqlSyntaxError,
    UnsupportedStatementError,
    UnsupportedTableError,
)
from hudisql.sql.ddl.create_table_like import makes_hudi_table
from hudisql.sql.ddl.table_options import PROVIDERS
from hudisql.sql.dispatch import names_nothing
from hudisql.sql.query.command_targets import find_hudi_target
from hudisql.sql.query.path_guard import refuse_changes_of_files
from hudisql.sql.query.references import parse_plan
from hudisql.sql.query.relations import TableBinder
from hudisql.sql.query.target_table import find_entry, find_hudi_entry
from hudisql.sql.spark_databases import concerns_databases, has_own_databases
from hudisql.sql.spark_scripts import names_hudi
from hudisql.sql.text import statements as st
from hudisql.sql.text.parser import parse_statement

if TYPE_CHECKING:
    from hudisql.context import Context

_OWN = (
    st.CreateIncrementalTableStatement,
    st.AlterIncrementalTableStatement,
    st.RefreshIncrementalTableStatement,
)
_SCRIPTS = (st.BlockStatement, st.ExecuteImmediateStatement)


def concerns_hudi(context: Context, text: str) -> bool:
    """True if hudisql has to run the statement; also for a statement that it refuses.

    False for a text that neither it nor Spark can parse. Raises MetastoreError.
    """
    try:
        statement = parse_statement(text)
    except SqlSyntaxError:
        return False
    try:
        return _concerns(context, statement)
    except (SqlSyntaxError, UnsupportedTableError):
        # Spark reports the error, or reads the Iceberg entry of a Hudi table by its Iceberg catalog.
        return False


def find_named_table(context: Context, name: str) -> MetastoreTable | None:
    """The entry of the Hudi table with a dotted name; None for others, and names of other catalogs."""
    entry = find_named_entry(context, name)
    return entry if entry is not None and is_hudi_table(entry) else None


def find_named_entry(context: Context, name: str) -> MetastoreTable | None:
    """The metastore's entry for a dotted name; None without one, and for temporary views."""
    return find_entry(context, st.TableName(split_identifier(name)))


def _concerns(context: Context, statement: st.Statement) -> bool:
    if isinstance(statement, st.CallStatement):
        return not _is_call_of_other_catalog(context, statement)
    if isinstance(statement, _OWN):
        return True
    if isinstance(statement, st.QueryStatement) and names_nothing(statement):
        return False
    if isinstance(statement, st.ExplainStatement):
        return _concerns(context, statement.explained)
    if isinstance(statement, _SCRIPTS):
        return names_hudi(context, statement)
    if concerns_databases(context, statement.text):
        return True
    if isinstance(statement, st.DropDatabaseStatement):
        return has_own_databases(context) or _has_hudi_tables(context, statement.database)
    if isinstance(statement, st.CreateTableStatement) and _makes_hudi_table(context, statement):
        return True
    if any(find_hudi_entry(context, target) is not None for target in _targets(statement)):
        return True
    plan = parse_plan(context.spark, statement.text)
    is_command = not isinstance(statement, st.QueryStatement)
    if is_command and (find_hudi_target(context, plan)[1] is not None or _harms_files(context, plan)):
        return True
    try:
        return bool(TableBinder(context).bind(statement, plan=plan).relations)
    except (SqlSyntaxError, UnsupportedTableError):
        raise
    except HudisqlError:
        # What hudisql refuses, it refuses again, with the place in the text.
        return True


def _targets(statement: st.Statement) -> Sequence[st.TableName]:
    if isinstance(statement, st.InsertStatement):
        return statement.targets
    if isinstance(statement, st.TableStatement) and not isinstance(statement, st.CreateViewStatement):
        return (statement.table,)
    return ()


def _makes_hudi_table(context: Context, statement: st.CreateTableStatement) -> bool:
    is_like = statement.like is not None and find_hudi_entry(context, statement.like) is not None
    return statement.provider in PROVIDERS or is_like or makes_hudi_table(context, statement)


def _is_call_of_other_catalog(context: Context, statement: st.CallStatement) -> bool:
    """True for `CALL catalog.…` of a catalog that Spark is configured with (Iceberg's, Delta's)."""
    first = statement.tokens[1].name if len(statement.tokens) > 1 else ""
    is_catalog = context.spark.conf.get(f"spark.sql.catalog.{first}", None) is not None
    return is_catalog and first.lower() != "spark_catalog"


def _has_hudi_tables(context: Context, database: str) -> bool:
    if context.metastore.get_database(database.lower()) is None:
        return False
    names = context.metastore.list_tables(database.lower())
    entries = (context.metastore.get_table(database.lower(), name) for name in names)
    return any(entry is not None and is_hudi_table(entry) for entry in entries)


def _harms_files(context: Context, plan: Any) -> bool:
    """True if Spark would delete or overwrite files of Hudi tables, or of their bootstrap sources."""
    try:
        refuse_changes_of_files(context, plan)
    except (UnsupportedStatementError, SourceProtectedError):
        return True
    except InvalidArgumentError:
        # A location with credentials: of a plain table, Spark's own affair.
        return False
    return False
