"""What a statement needs, decided before it runs: on the tables that it really reads and writes.

The text is parsed as it will be run, after the substitution of variables. Spark's plan of it gives the tables
of queries, of subqueries and of views below them; hudisql's own statement gives its table once more. What is
not known to be harmless is refused: only admins read or write by path, load code or change other settings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from hudisql.context import split_identifier
from hudisql.server.rights.command_rights import COLUMN_DEFINITIONS, COMMANDS, LISTINGS, Command
from hudisql.server.rights.harmless import harmless_functions
from hudisql.server.rights.parsed_names import NAMED_WINDOWS, Name, NameReader, ParsedNames
from hudisql.server.rights.procedure_rights import require_call
from hudisql.server.rights.rights_file import Right, UserRights
from hudisql.server.rights.table_names import NamedTables
from hudisql.spark.jvm import class_name, items_of, pairs_of
from hudisql.sql.incremental_tables.definition import definition_of
from hudisql.sql.query.references import TABLE_FUNCTIONS, parse_plan
from hudisql.sql.query.views import ViewDefinition, active_session, session_of_view
from hudisql.sql.text import statements as st
from hudisql.sql.text.parser import parse_statement
from hudisql.sql.text.spark_errors import SourceText

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from hudisql.context import Context

_READING: Final = (
    *st.ABOUT_A_TABLE,
    *(st.CacheTableStatement, st.UncacheTableStatement, st.RefreshTableStatement),
)
_CHANGING_ROWS: Final = (st.InsertStatement, st.UpdateStatement, st.DeleteStatement, st.MergeStatement)
_OF_COLUMNS: Final = ("DEFAULT", "GENERATED")
_RELATION_OPTIONS: Final = "options of a table in a query"


def require_rights(context: Context, rights: UserRights, text: str) -> bool:
    """Raise RightMissingError unless the user may run the statement; True if its rows are names of tables.

    Raises SqlSyntaxError for a text that cannot be parsed, and NoSuchTableError for a missing table.
    """
    check = _Check(context, rights)
    check.require(parse_statement(text))
    return check.lists_names


class _Check:
    def __init__(self, context: Context, rights: UserRights) -> None:
        self._context = context
        self._rights = rights
        self._database = context.current_database
        self._tables = NamedTables(context, rights, self._require_view)
        self.lists_names = False

    def require(self, statement: st.Statement) -> None:
        self._refuse_variables(statement.text)
        reader = _OWN_STATEMENTS.get(type(statement))
        if reader is not None:
            reader(self, statement)
            return
        self._require_table_of(statement)
        if isinstance(statement, st.ExplainStatement):
            self.require(statement.explained)
            if type(statement.explained) in _OWN_STATEMENTS:
                return
        plan = parse_plan(self._context.spark, statement.text, SourceText(statement.text))
        if isinstance(statement, st.ExplainStatement):
            if class_name(plan) != "ExplainCommand":
                raise self._rights.refuse(f"run EXPLAIN of {class_name(plan)}")
            plan = plan.logicalPlan()
        self._require_plan(plan, statement)
        self.lists_names = self.lists_names and not isinstance(statement, st.ExplainStatement)

    def _require_plan(self, plan: Any, statement: st.Statement) -> None:
        kind = class_name(plan)
        if kind == "DescribeQueryCommand":
            plan = plan.plan()
            kind = class_name(plan)
        command = COMMANDS.get(kind)
        self.lists_names = kind in LISTINGS
        names = self._names_of(self._context.spark, plan, statement, kind if command else None)
        self._require_names(names, self._database, temporary=True, depth=0)
        if command is not None:
            command(self._command_of(plan, names))
        elif names.subjects or names.databases:
            raise self._rights.refuse(f"run {kind}")

    def _command_of(self, plan: Any, names: ParsedNames) -> Command:
        return Command(self._context.spark, self._rights, self._tables, self._database, plan, names)

    def _require_view(self, view: ViewDefinition, depth: int) -> None:
        self._refuse_variables(view.text)
        own_session = session_of_view(self._context.spark, view)
        with active_session(own_session, self._context.spark):
            plan = parse_plan(own_session, view.text)
            names = self._names_of(own_session, plan, st.Statement(view.text), None)
        self._require_names(names, view.database, temporary=view.is_temporary, depth=depth)
        if names.subjects or names.databases or names.writes:
            raise self._rights.refuse(f"read the view {view.name}, whose query is not one")

    def _names_of(
        self, spark: SparkSession, plan: Any, statement: st.Statement, command: str | None
    ) -> ParsedNames:
        ignores_case = str(spark.conf.get("spark.sql.caseSensitive")).lower() != "true"
        reader = NameReader(ignores_case=ignores_case, command=command)
        tree = str(plan.toJSON())
        reader.read(tree)
        names = reader.found
        if names.windows:
            nodes = list(_nodes_with_windows(plan))
            if len(nodes) != names.windows:
                names.unknown["windows with names"] = None
            for node in nodes:
                for _, window in pairs_of(node.windowDefinitions()):
                    reader.read(str(window.toJSON()))
        tokens = statement.tokens
        if any(one.is_keyword("WITH") and two.is_keyword("(") for one, two in pairwise(tokens)):
            names.unknown[_RELATION_OPTIONS] = None
        # Spark 3.5 keeps these expressions as texts.
        if command in COLUMN_DEFINITIONS and "DefaultValueExpression" not in tree:
            names.unknown.update({token.text: None for token in tokens if token.is_keyword(*_OF_COLUMNS)})
        # Spark joins the parts of a name by commas.
        quoted = [token.text[1:-1] for token in tokens if token.text[0] in '`"' and "," in token.text]
        self._refuse_ambiguous(names, quoted)
        return names

    def _refuse_ambiguous(self, names: ParsedNames, quoted: list[str]) -> None:
        for name in (*names.reads, *names.writes, *names.subjects, *names.databases):
            joined = ", ".join(name)
            if any(text.replace("``", "`").replace('""', '"') in joined for text in quoted):
                raise self._rights.refuse(f"name a table with a comma ({joined})")

    def _require_names(self, names: ParsedNames, database: str, *, temporary: bool, depth: int) -> None:
        for unknown in names.unknown:
            raise self._rights.refuse(f"use {unknown}")
        for function in names.functions:
            if len(function) != 1 or function[0].lower() not in harmless_functions():
                raise self._rights.refuse(f"call the function {'.'.join(function)}")
        for name, arguments in names.table_functions:
            self._require_table_function(name, arguments, database)
        for name in names.reads:
            self._tables.require_reading(name, database, temporary=temporary, depth=depth)
        for name in names.writes:
            self._tables.require_writing(name, database, right=Right.EDITOR)

    def _require_table_function(self, name: Name, arguments: tuple[str, ...] | None, database: str) -> None:
        plain = ".".join(name).lower()
        if plain in TABLE_FUNCTIONS:
            if not arguments:
                raise self._rights.refuse(f"call {plain} with arguments that are not constants")
            self._tables.require_reading(split_identifier(arguments[0]), database, temporary=False)
        elif plain not in harmless_functions():
            raise self._rights.refuse(f"call the function {plain}")

    def _require_table_of(self, statement: st.Statement) -> None:
        """Require the right on the table of hudisql's own statement, beside those that Spark's plan names."""
        if isinstance(statement, st.DropDatabaseStatement):
            self._rights.require(Right.WRITER, statement.database.lower())
        if isinstance(statement, st.CreateTableStatement) and statement.like is not None:
            self._tables.require_reading(statement.like.parts, self._database)
        if not isinstance(statement, st.TableStatement) or self._tables.is_own_view(statement.table.parts):
            return
        if isinstance(statement, _READING) and not getattr(statement, "has_query", False):
            self._tables.require_reading(statement.table.parts, self._database)
        elif not isinstance(statement, st.CacheTableStatement) and not getattr(statement, "temporary", False):
            targets = getattr(statement, "targets", None) or (statement.table,)
            for target in targets:
                right = _right_to_change(statement)
                self._tables.require_writing(target.parts, self._database, exists=False, right=right)

    def _call(self, statement: st.CallStatement) -> None:
        require_call(self._context, self._rights, self._tables, statement, self._database)

    def _create_incremental(self, statement: st.CreateIncrementalTableStatement) -> None:
        self._tables.require_writing(statement.table.parts, self._database, exists=False)
        self._require_text(statement.definition)

    def _alter_incremental(self, statement: st.AlterIncrementalTableStatement) -> None:
        self._tables.require_writing(statement.table.parts, self._database)
        self._require_text(statement.text[statement.query_start :])

    def _refresh_incremental(self, statement: st.RefreshIncrementalTableStatement) -> None:
        entry = self._tables.require_writing(statement.table.parts, self._database)
        definition = None if entry is None else definition_of(entry)
        if definition is not None:
            view = ViewDefinition(str(statement.table), definition.database, definition.query, ())
            self._require_view(view, depth=1)

    def _require_text(self, text: str) -> None:
        """Require what another statement needs, which the running one contains or makes."""
        statement = parse_statement(text)
        self._require_table_of(statement)
        self._require_plan(parse_plan(self._context.spark, text, SourceText(text)), statement)

    def _refuse_variables(self, text: str) -> None:
        if "${" in text:
            raise self._rights.refuse("leave a ${variable} in a statement, its comments or a view")

    def _refuse(self, statement: st.Statement) -> None:
        what = " ".join(token.text.upper() for token in statement.tokens[:2])
        raise self._rights.refuse(f"run {what}")


def _right_to_change(statement: st.TableStatement) -> Right:
    """EDITOR for a statement that changes rows only."""
    changes_schema = any(
        one.is_keyword("SCHEMA") and two.is_keyword("EVOLUTION") for one, two in pairwise(statement.tokens)
    )
    changes_rows = isinstance(statement, _CHANGING_ROWS) and not changes_schema
    return Right.EDITOR if changes_rows else Right.WRITER


def _nodes_with_windows(plan: Any) -> Iterator[Any]:
    """The nodes of a plan (JVM objects) that define named windows: in subqueries and CTEs too."""
    kind = class_name(plan)
    if kind == NAMED_WINDOWS:
        yield plan
    if kind == "UnresolvedWith":
        for definition in items_of(plan.cteRelations()):
            yield from _nodes_with_windows(definition.productElement(1))
    for inner in (*items_of(plan.children()), *items_of(plan.subqueries())):
        yield from _nodes_with_windows(inner)


_OWN_STATEMENTS: Final[Mapping[type[st.Statement], Callable[[_Check, Any], None]]] = {
    st.CallStatement: _Check._call,
    st.CreateIncrementalTableStatement: _Check._create_incremental,
    st.AlterIncrementalTableStatement: _Check._alter_incremental,
    st.RefreshIncrementalTableStatement: _Check._refresh_incremental,
    st.BlockStatement: _Check._refuse,
    st.ExecuteImmediateStatement: _Check._refuse,
}
"""Statements that Spark cannot parse, or whose text does not tell what they run."""
