"""Binds one statement to empty tables: raises what would fail, and applies what it defines.

The parser, the binder of CALL and the planners are those of the session; nothing that exists is written, and
no row is read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any, Final

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from hudisql.check.bootstrap_calls import (
    define_bootstrapped,
    dry_run,
    existing_table_problem,
    idempotence_problems,
)
from hudisql.check.procedure_arguments import bind_call
from hudisql.config.config_key import split_names
from hudisql.errors import (
    HudisqlError,
    NoSuchDatabaseError,
    NoSuchTableError,
    TableExistsError,
    UnsupportedStatementError,
)
from hudisql.options.known_settings import unknown_setting
from hudisql.spark.jvm import spark_sql
from hudisql.sql.ddl.alter_table import alter_table
from hudisql.sql.ddl.create_table import plan_table_as
from hudisql.sql.ddl.create_table_like import makes_hudi_table, read_definition_like
from hudisql.sql.dml.dml_plan import plan_dml
from hudisql.sql.dml.statement_scope import check_changeable, open_scope
from hudisql.sql.query import query_plan
from hudisql.sql.query.command_targets import find_hudi_target
from hudisql.sql.query.references import parse_plan
from hudisql.sql.query.target_table import find_entry
from hudisql.sql.schema.table_definition import TableDefinition, read_table_definition
from hudisql.sql.spark_scripts import check_block
from hudisql.sql.text import clauses as cl
from hudisql.sql.text import statements as st
from hudisql.sql.text.database_names import created_database, used_database
from hudisql.sql.text.spark_errors import CHANGES_ROWS_HINT, SourceText

if TYPE_CHECKING:
    from hudisql.check.shadow_metastore import ShadowContext
    from hudisql.context import Context

Problem = Callable[[str, str, str | None], None]
"""Receives a finding that is not an error: its code, the message and a hint."""
_SETTING: Final = re.compile(r"\s*(?:SET|RESET)\b", re.IGNORECASE)
_SET_OF_HUDI: Final = re.compile(r"\s*SET\s+`?(hoodie\.[^\s=`]+)`?\s*=", re.IGNORECASE)
_MADE_BY_COPIES: Final = {"copy_to_table": "new_table", "copy_to_temp_view": "view_name"}
_HUDI_ONLY: Final = (st.UpdateStatement, st.DeleteStatement, st.MergeStatement)


class StatementCheck:
    """Checks statements one after the other on one context."""

    def __init__(
        self, context: ShadowContext, real: Context | None = None, *, runs_dry: bool = False
    ) -> None:
        """`real` is the session's own context, None offline; with `runs_dry` bootstraps are planned on it.

        While `declares` is true, statements describe what exists: their databases need not be created first.
        A migration script (`is_migration`) may create what the metastore already has: it was applied.
        """
        self.context = context
        self.real = real
        self.runs_dry = runs_dry
        self.problem: Problem = lambda *_: None
        self.is_migration = False
        self.declares = False

    def check(self, statement: st.Statement, source: SourceText) -> None:
        """Raise the error that the statement would raise before it runs; other findings go to `problem`."""
        reads = isinstance(statement, st.QueryStatement | st.ChangeStatement)
        self.context.shadows.refuses_dropped = reads
        try:
            self._check(statement, source)
        except HudisqlError as error:
            if not self._is_about_opaque(error):
                raise

    def _check(self, statement: st.Statement, source: SourceText) -> None:
        match statement:
            case st.CallStatement():
                self._call(statement)
            case st.UseStatement():
                self._use(statement)
            case st.CreateTableStatement():
                self._create(statement, source)
            case st.DropTableStatement():
                self._drop(statement)
            case st.AlterTableStatement() | st.CommentOnStatement() | st.TruncateStatement():
                self._alter(statement)
            case st.ChangeStatement():
                self._change(statement, source)
            case st.CreateViewStatement():
                self._view(statement, source)
            case st.QueryStatement() | st.DescribeQueryStatement():
                self._query(statement, source)
            case st.ExplainStatement():
                self._check(statement.explained, source)
            case st.BlockStatement():
                self._block(statement)
            case st.ExecuteImmediateStatement():
                return  # its statement is known when it runs
            case st.TableStatement():
                self._existing(statement.table)
            case _:
                self._other(statement, source)

    def _call(self, statement: st.CallStatement) -> None:
        declared, arguments = bind_call(statement)
        if declared.name == "bootstrap_table":
            for message, hint in idempotence_problems(arguments):
                self.problem("not-idempotent", message, hint)
            key = self.context.qualify_table_name(arguments.table)
            if key in self.context.shadows.made:
                self.problem("not-idempotent", f"{arguments.table} is made by an earlier statement", None)
                return
            if self.real is not None and not self.is_migration:
                error = existing_table_problem(self.real, arguments)
                if error is not None:
                    self.problem("not-idempotent", error.message, error.hint)
            if not arguments.dry_run:
                define_bootstrapped(self.context, arguments)
            if self.runs_dry and self.real is not None:
                dry_run(self.real, declared, arguments)
            return
        table = getattr(arguments, "table", None)
        makes = ("run_bootstrap", "hive_sync", "rollback_bootstrap")
        if isinstance(table, str) and declared.name not in makes:
            for name in split_names(table) or (table,):
                self._existing(st.TableName(self.context.qualify_table_name(name)))
        if declared.name in _MADE_BY_COPIES:
            made = getattr(arguments, _MADE_BY_COPIES[declared.name])
            self.context.shadows.opaque.add(self.context.qualify_table_name(made))

    def _use(self, statement: st.UseStatement) -> None:
        database = used_database(statement.text)
        if database is None:
            return
        if self.context.metastore.get_database(database) is None:
            raise NoSuchDatabaseError(f"there is no database {database}", hint=f"CREATE DATABASE {database}")
        self.context.database = database

    def _create(self, statement: st.CreateTableStatement, source: SourceText) -> None:
        context, shadows = self.context, self.context.shadows
        key = context.qualify_table_name(statement.table.quoted)
        if self.declares:
            shadows.databases.add(key[0])
        if context.metastore.get_database(key[0]) is None:
            raise NoSuchDatabaseError(f"there is no database {key[0]}", hint=f"CREATE DATABASE {key[0]}")
        exists = context.metastore.get_table(*key) is not None or key in shadows.opaque
        if exists and not statement.replaces and not statement.if_not_exists:
            if key in shadows.made or not self.is_migration:
                raise TableExistsError(f"{'.'.join(key)} exists already", hint="CREATE TABLE IF NOT EXISTS")
            shadows.drop_shadow(key)
            exists = False
        if exists and statement.if_not_exists:
            return
        if exists:
            shadows.drop_shadow(key)
        if makes_hudi_table(context, statement):
            self._define_hudi(key, statement, source)
            return
        try:
            definition = read_table_definition(context, statement.text)
            shadows.define(key, definition.columns)
        except UnsupportedStatementError:
            if isinstance(statement, st.CreateTableAsStatement):
                self._query(st.Statement(statement.text[statement.query_start :]), source)
            shadows.opaque.add(key)
            shadows.made.add(key)

    def _define_hudi(
        self, key: tuple[str, str], statement: st.CreateTableStatement, source: SourceText
    ) -> None:
        definition: TableDefinition
        if isinstance(statement, st.CreateTableAsStatement):
            definition = plan_table_as(self.context, statement, source).definition
        elif statement.like is not None:
            definition = read_definition_like(self.context, statement)
        else:
            definition = read_table_definition(self.context, statement.text)
        if not len(definition.columns):
            # It registers the table at its LOCATION.
            self.context.shadows.opaque.add(key)
            return
        self.context.shadows.define(key, definition.columns, definition)

    def _drop(self, statement: st.DropTableStatement) -> None:
        key = self.context.qualify_table_name(statement.table.quoted)
        if not statement.if_exists:
            self._existing(statement.table)
        self.context.shadows.drop_shadow(key)

    def _alter(self, statement: st.ChangeStatement) -> None:
        entry = self._existing(statement.table)
        if entry is None or (entry.database, entry.name) in self.context.shadows.plain:
            parse_plan(self.context.spark, statement.text)
            return
        before = set(self.context.shadows.tables)
        alter_table(self.context, entry, statement)
        self.context.shadows.made |= set(self.context.shadows.tables) - before

    def _change(self, statement: st.ChangeStatement, source: SourceText) -> None:
        targets = statement.targets if isinstance(statement, st.InsertStatement) else (statement.table,)
        entries = [self._existing(target) for target in targets]
        entry = entries[0]
        if len(entries) != 1 or entry is None:
            return
        is_plain = (entry.database, entry.name) in self.context.shadows.plain
        if is_plain and isinstance(statement, _HUDI_ONLY):
            raise UnsupportedStatementError(
                f"{statement.verb} needs a Hudi table, and {entry.full_name} is not one",
                hint=CHANGES_ROWS_HINT,
            )
        if entry.is_view:
            return
        check_changeable(entry, statement.verb)
        if isinstance(statement, st.MergeStatement):
            self._merge_key(statement, source)
        with open_scope(self.context, entry) as scope:
            plan_dml(scope, statement, source)

    def _merge_key(self, statement: st.MergeStatement, source: SourceText) -> None:
        entry = find_entry(self.context, statement.table)
        if entry is None:
            return
        from hudisql.sql.query.target_table import open_hudi_entry

        record_key = open_hudi_entry(self.context, entry).properties.record_key_fields
        clauses = cl.read_merge(statement, line=source.line, column=source.column)
        names = [clauses.target.alias] if clauses.target.alias else [statement.table.parts[-1]]
        missing = missing_key_columns(clauses.condition.text, names, record_key)
        if missing:
            self.problem(
                "merge-key",
                f"MERGE INTO {statement.table}: ON does not compare {', '.join(missing)} of the record key "
                f"({', '.join(record_key)})",
                "compare the whole record key, or several rows of the source may change one row",
            )

    def _view(self, statement: st.CreateViewStatement, source: SourceText) -> None:
        if statement.temporary:
            query_plan.create_view(self.context, statement.text, source)
            return
        key = self.context.qualify_table_name(statement.table.quoted)
        self.context.shadows.opaque.add(key)

    def _query(self, query: st.Statement, source: SourceText) -> None:
        prepared = query_plan.prepare_query(self.context, query, source, is_query=True)
        _ = query_plan.run_prepared(self.context, prepared, source).schema

    def _other(self, statement: st.Statement, source: SourceText) -> None:
        if (made := created_database(statement.text)) is not None:
            self.context.shadows.databases.add(made)
            return
        from hudisql.sql.dispatch import check_head

        check_head(statement, line=source.line, column=source.column)
        plan = parse_plan(self.context.spark, statement.text)
        if _SETTING.match(statement.text):
            self._setting(statement.text)
            return
        kind, entry = find_hudi_target(self.context, plan)
        if entry is not None:
            kind = statement.kind if isinstance(statement, st.PassThroughStatement) else kind
            raise UnsupportedStatementError(f"{kind} is not supported on the Hudi table {entry.full_name}")

    def _setting(self, text: str) -> None:
        if (name := _SET_OF_HUDI.match(text)) is not None:
            for problem, hint in unknown_setting(name[1]):
                self.problem("unknown-setting", problem, hint)
        spark_sql(self.context.spark, text)

    def _block(self, block: st.BlockStatement) -> None:
        """Raise the error that the block would raise before it runs; its non-Hudi tables are Spark's."""
        shadows = self.context.shadows
        while True:
            known = set(shadows.plain)
            try:
                with shadows.hidden_plain_tables():
                    return check_block(self.context, block)
            except UnsupportedStatementError:
                if shadows.plain == known:
                    raise

    def _existing(self, name: st.TableName) -> Any:
        """The entry of a table; None for views of the session."""
        entry = find_entry(self.context, name)
        if entry is not None:
            return entry
        from hudisql.sql.query.target_table import is_temporary_view

        if len(name.parts) == 1 and is_temporary_view(self.context, name.parts[0]):
            return None
        raise NoSuchTableError(f"there is no table {name}")

    def _is_about_opaque(self, error: HudisqlError) -> bool:
        """True if a table has unknown columns: the statement cannot be checked."""
        text = error.message.replace("`", "").lower()
        database = self.context.database
        return any(
            f"{table_database}.{name}" in text
            or (table_database == database and re.search(rf"\b{re.escape(name)}\b", text))
            for table_database, name in self.context.shadows.opaque
        )


def missing_key_columns(
    condition: str, target_names: Collection[str], record_key: Sequence[str]
) -> tuple[str, ...]:
    """The columns of the record key that no `target.column = …` of the conjunction compares.

    A MERGE on such a condition finds rows of other keys, too. Columns are the target's if their qualifier, or
    their name, says so. None are missing in a condition that sqlglot cannot read: Spark says what is wrong.
    """
    try:
        tree = sqlglot.parse_one(condition, dialect="spark")
    except SqlglotError:
        return ()
    names = {name.lower() for name in target_names}
    compared: set[str] = set()
    for part in tree.flatten() if isinstance(tree, exp.And) else [tree]:
        inner = part.unnest()
        if isinstance(inner, exp.EQ | exp.NullSafeEQ):
            compared |= {
                side.name.lower()
                for side in (inner.left, inner.right)
                if isinstance(side, exp.Column) and (not side.table or side.table.lower() in names)
            }
    return tuple(column for column in record_key if column.lower() not in compared)
