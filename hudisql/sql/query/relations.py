"""Binds the table names of a statement: finds Hudi tables, and views over Hudi tables.

A bound text is the user's text with some spans replaced: each Hudi table or view over Hudi tables becomes the
name of its own temporary view. Names are resolved as Spark resolves them (temporary views first, then the
current database). Nothing is read and no view is registered here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from hudisql.catalog.metastore_table import MetastoreTable, hudi_base_path, is_hudi_table, is_read_optimized
from hudisql.catalog.sync_entries import omits_meta_columns
from hudisql.context import Context, split_identifier
from hudisql.errors import NoSuchTableError, QueryError, UnsupportedStatementError
from hudisql.format.schema.spark_schema import quote_name
from hudisql.options.table_call import open_queried_table, refuse_iceberg_entry
from hudisql.read.scan.table_state import TableState
from hudisql.spark.jvm import java_class, spark_sql
from hudisql.sql.query.bound_text import BoundText, HudiEntry, HudiRelation, ViewRelation
from hudisql.sql.query.hidden_columns import list_own_columns, names_meta_column
from hudisql.sql.query.references import (
    Span,
    StatementNames,
    TableReference,
    UnplacedSyntaxError,
    find_names,
    find_qualifiers,
    parse_plan,
    replace_spans,
)
from hudisql.sql.query.table_functions import evaluate_call
from hudisql.sql.query.time_travel import changes_state, past_state
from hudisql.sql.query.views import (
    ViewDefinition,
    active_session,
    definition_of_metastore_view,
    find_spark_view,
    find_temporary_view,
    session_of_view,
)
from hudisql.sql.text import statements as st
from hudisql.sql.text.spark_errors import SourceText
from hudisql.sql.text.tokens import Token
from hudisql.table.hudi_table import HudiTable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_MAX_VIEW_DEPTH = 100
_CATALOG_TABLE = re.compile(
    r"SubqueryAlias spark_catalog\.(`(?:[^`]|``)+`|[^.`\n]+)\.(`(?:[^`]|``)+`|[^.`\n]+)$", re.MULTILINE
)


class TableBinder:
    """Binds the texts of one statement; looks each name up once and opens each table once."""

    def __init__(
        self,
        context: Context,
        opened: Iterable[HudiTable] = (),
        entries: Iterable[MetastoreTable] = (),
    ) -> None:
        """`opened` are tables that the statement has opened already, `entries` those it has looked up."""
        self._context = context
        self._statement = uuid4().hex[:8]
        self._count = 0
        self._entries: dict[tuple[str, str], HudiEntry | ViewDefinition | None] = {}
        self._tables = {table.base_path: table for table in opened}
        self._states: dict[str, TableState] = {}
        for entry in entries:
            self._entries[entry.database, entry.name] = self._hudi_entry(entry)

    def open(self, entry: HudiEntry) -> HudiTable:
        """The table, opened and listed once per statement. Raises NoSuchTableError, UnsupportedTableError."""
        if entry.path not in self._tables:
            self._tables[entry.path] = open_queried_table(self._context, entry.path).listed_once()
        return self._tables[entry.path]

    def state_of(self, relation: HudiRelation) -> TableState:
        """The table state of a scanned reference, resolved once per statement."""
        if relation.view_name not in self._states:
            table = self.open(relation.entry)
            if relation.call is not None:
                state = changes_state(relation.session, table, *relation.call.window)
            elif relation.time_travel is not None:
                state = past_state(relation.session, table, relation.time_travel)
            else:
                state = TableState(table)
            self._states[relation.view_name] = state
        return self._states[relation.view_name]

    def bind(self, statement: st.Statement, source: SourceText | None = None, plan: Any = None) -> BoundText:
        """Bind a statement; `source` places it in its script, `plan` is its unresolved plan if known.

        Raises SqlSyntaxError, UnsupportedStatementError.
        """
        spark = self._context.spark
        text = substituted_by_spark(spark, statement.text)
        if text != statement.text:
            statement, plan, source = st.Statement(text), None, None
        plan = parse_plan(spark, text, source) if plan is None else plan
        return self._bind(statement, plan, self._context.current_database, None, 0, spark)

    def check_permanent_view(self, parts: Sequence[str], query: BoundText, what: str = "view") -> None:
        """Refuse a permanent view (or `what`) that reads a temporary view or itself, as Spark does.

        `parts` is the view's name. Raises UnsupportedStatementError.
        """
        for reference in find_names(self._context.spark, st.Statement(query.original), query.plan).references:
            if len(reference.parts) == 1 and find_temporary_view(self._context.spark, reference.parts[0]):
                raise UnsupportedStatementError(
                    f"the {what} {'.'.join(parts)} cannot read the temporary view {reference.parts[0]}, "
                    "which ends with the session",
                    hint="make it a temporary view, too, or the other one a permanent view"
                    if what == "view"
                    else "make it a permanent view; if you mean a table, name it with its database",
                )
        own_name = ".".join(parts[-2:] if len(parts) > 1 else (self._context.current_database, parts[0]))
        if own_name.lower() in {view.definition.name.lower() for view in query.view_relations}:
            raise UnsupportedStatementError(f"the view {own_name} would read itself")

    def refuse_hidden_tables(self, analyzed_plan: str) -> None:
        """Refuse a statement whose analyzed plan (as text) still contains a Hudi table.

        Spark would read all versions of its files as plain parquet. Only Spark sees bodies of SQL functions,
        for example. Raises UnsupportedStatementError.
        """
        for database, name in dict.fromkeys(_CATALOG_TABLE.findall(analyzed_plan)):
            hudi_entry = self._look_up(database.strip("`").lower(), name.strip("`"))
            if isinstance(hudi_entry, HudiEntry):
                raise UnsupportedStatementError(
                    f"the Hudi table {hudi_entry.database}.{hudi_entry.name} is read inside a SQL function, "
                    "where hudisql cannot read it right",
                    hint="write the function's query into the statement, or make it a view",
                )

    def _bind(
        self,
        statement: st.Statement,
        plan: Any,
        database: str,
        view: ViewDefinition | None,
        depth: int,
        session: SparkSession,
    ) -> BoundText:
        if depth > _MAX_VIEW_DEPTH:
            raise UnsupportedStatementError(
                f"views are nested more than {_MAX_VIEW_DEPTH} deep, or in a circle"
            )
        names, text = find_names(session, statement, plan), statement.text
        relations: list[HudiRelation | ViewRelation] = []
        replacements: list[tuple[Span, str]] = []
        aliases: dict[int, str] = {}
        for reference in names.references:
            if reference.function is not None:
                made = self._function_relation(reference, database, session)
                relations.append(made)
                replacements.append((reference.span, quote_name(made.view_name)))
                continue
            parts = self._parts_of(reference, session)
            # The target of a command is checked before anything is bound.
            if parts is None or (reference.form == "subject" and reference.options):
                continue
            view_definition = self._resolve(
                parts, database, temporary_allowed=view is None or view.is_temporary
            )
            if isinstance(view_definition, ViewDefinition):
                own_session = session_of_view(session, view_definition)
                bound = self._bind_view(view_definition, depth + 1, own_session, session)
                relation: HudiRelation | ViewRelation | None = None
                if bound.relations and reference.form != "subject":
                    self._refuse_travel(reference, f"the view {view_definition.name}")
                    relation = ViewRelation(self._new_name(), view_definition, bound, own_session)
            elif view_definition is not None:
                if reference.form == "subject":
                    raise UnsupportedStatementError(
                        f"the Hudi table {'.'.join(parts)} cannot be cached under its own name",
                        hint=f"CACHE TABLE <name> AS SELECT * FROM {'.'.join(parts)}",
                    )
                relation = self._hudi_relation(reference, view_definition, parts, names.tokens, session)
            else:
                relation = None
            if relation is not None:
                relations.append(relation)
                changes, alias = self._replace_reference(names, reference, parts, relation, database)
                replacements += changes
                if alias is not None:
                    aliases[reference.span[0]] = alias
            elif view is not None and len(parts) == 1 and not self._is_temporary(view, parts[0]):
                # The body is run in the session's database, not in the view's.
                full = f"{quote_name(database)}.{quote_name(parts[0])}"
                keyword = "TABLE " if reference.form == "table" else ""
                replacements.append((reference.span, keyword + full))
        if not relations:
            return BoundText(text, text, plan)
        replacements = self._replace_stars(names, relations, aliases, replacements)
        # References to one table share its qualifiers.
        ordered = tuple(sorted(dict(replacements).items(), key=lambda item: item[0]))
        return BoundText(text, replace_spans(text, ordered), plan, tuple(relations), ordered)

    def _is_temporary(self, view: ViewDefinition, name: str) -> bool:
        """True if a name in the query of a view is that of a temporary view."""
        return view.is_temporary and find_temporary_view(self._context.spark, name) is not False

    def _bind_view(
        self, view: ViewDefinition, depth: int, own_session: SparkSession, session: SparkSession
    ) -> BoundText:
        try:
            with active_session(own_session, session):
                plan = parse_plan(own_session, view.text)
                return self._bind(st.Statement(view.text), plan, view.database, view, depth, own_session)
        except UnplacedSyntaxError as error:
            refused = QueryError(f"the query of the view {view.name}: {error.message}")
            refused.condition = error.condition
            raise refused from error

    def _parts_of(self, reference: TableReference, session: SparkSession) -> tuple[str, ...] | None:
        """The name's parts; an IDENTIFIER(expression) is evaluated. None if it is not a table's name."""
        if reference.identifier_expression is None:
            return reference.parts
        from pyspark.errors import PySparkException

        try:
            row = spark_sql(session, f"SELECT {reference.identifier_expression} AS name").head()
        except PySparkException:
            # Spark reports the error when it runs the statement.
            return None
        return None if row is None or row[0] is None else split_identifier(str(row[0]))

    def _resolve(
        self, parts: tuple[str, ...], database: str, *, temporary_allowed: bool
    ) -> HudiEntry | ViewDefinition | None:
        spark = self._context.spark
        if len(parts) == 3 and parts[0].lower() == "spark_catalog":
            parts = parts[1:]
        elif len(parts) == 1:
            if temporary_allowed:
                temporary = find_temporary_view(spark, parts[0])
                if temporary is not False:
                    return temporary if isinstance(temporary, ViewDefinition) else None
            if spark.catalog.currentCatalog() != "spark_catalog":
                return None
            parts = (database, parts[0])
        if len(parts) != 2:
            return None
        if parts[0].lower() == _global_database(spark):
            shared = find_temporary_view(spark, parts[1], is_global=True)
            return shared if isinstance(shared, ViewDefinition) else None
        if spark.conf.get(f"spark.sql.catalog.{parts[0]}", None) is not None:
            return None
        return self._look_up(parts[0].lower(), parts[1])

    def _look_up(self, database: str, name: str) -> HudiEntry | ViewDefinition | None:
        if database == "hudi" and "/" in name:
            # Spark's `SELECT … FROM format.`path``.
            return HudiEntry(database, name, self._context.storage.qualify(name))
        key = (database, name.lower())
        if key not in self._entries:
            table = self._context.metastore.get_table(database, name.lower())
            entry: HudiEntry | ViewDefinition | None = None
            if table is None:
                entry = find_spark_view(self._context.spark, database, name)
            elif table.is_view:
                entry = definition_of_metastore_view(table)
            elif is_hudi_table(table):
                entry = self._hudi_entry(table)
            else:
                refuse_iceberg_entry(table)
            self._entries[key] = entry
        return self._entries[key]

    def _hudi_entry(self, entry: MetastoreTable) -> HudiEntry:
        path = self._context.storage.qualify(hudi_base_path(entry) or "")
        return HudiEntry(
            entry.database, entry.name, path, is_read_optimized(entry), omits_meta_columns(entry)
        )

    def _hudi_relation(
        self,
        reference: TableReference,
        entry: HudiEntry,
        parts: tuple[str, ...],
        tokens: Sequence[Token],
        session: SparkSession,
    ) -> HudiRelation:
        written = ".".join(parts)
        if reference.options:
            keys = ", ".join(key for key, _ in reference.options)
            raise UnsupportedStatementError(
                f"the Hudi table {written} takes no options in a query (given: {keys})"
            )
        return HudiRelation(
            self._new_name(),
            entry,
            written,
            session,
            reference.time_travel,
            reference.span[0],
            shows_meta_columns=not entry.omits_meta_columns or names_meta_column(tokens, reference.span[0]),
        )

    def _function_relation(
        self, reference: TableReference, database: str, session: SparkSession
    ) -> HudiRelation:
        assert reference.function is not None
        call = evaluate_call(session, reference.function)
        if "/" in call.table:
            entry: HudiEntry | ViewDefinition | None = self._look_up("hudi", call.table)
        else:
            entry = self._resolve(split_identifier(call.table), database, temporary_allowed=False)
        if not isinstance(entry, HudiEntry):
            raise NoSuchTableError(f"{call.name}: there is no Hudi table {call.table}")
        written = f"{call.name}({call.table})"
        if call.is_query:
            entry = replace(entry, read_optimized=entry.read_optimized or call.is_read_optimized)
            return HudiRelation(self._new_name(), entry, written, session, at=reference.span[0])
        return HudiRelation(self._new_name(), entry, written, session, at=reference.span[0], call=call)

    def _refuse_travel(self, reference: TableReference, what: str) -> None:
        if reference.time_travel is not None:
            raise UnsupportedStatementError(
                f"{what} has no past states: only the Hudi tables that it reads have",
                hint="write the clause behind these tables, in the view's query or instead of the view",
            )

    def _new_name(self) -> str:
        self._count += 1
        return f"__hudisql_{self._statement}_{self._count}"

    def _replace_reference(
        self,
        names: StatementNames,
        reference: TableReference,
        parts: tuple[str, ...],
        relation: HudiRelation | ViewRelation,
        database: str,
    ) -> tuple[list[tuple[Span, str]], str | None]:
        """The reference's own replacement, the alias that it needs, and its possible qualifiers.

        And that alias, without quotes; None if the statement gives one.
        """
        own_name = quote_name(relation.view_name)
        changes: list[tuple[Span, str]] = []
        if reference.time_travel is not None:
            changes.append((reference.time_travel.span, ""))
        if reference.form == "argument" or (reference.form == "relation" and reference.aliased):
            return [*changes, (reference.span, own_name)], None
        table_database = parts[-2] if len(parts) > 1 else database
        qualifiers = find_qualifiers(
            names.tokens,
            table_database,
            parts[-1],
            _ColumnNames(lambda: self._column_names(relation)),
            [other.span for other in names.references],
        )
        # If `t` may also mean something else, a qualified `db.t.column` must not be resolved by it.
        others = [other.parts for other in names.references if not other.aliased and other.parts]
        is_shared = parts[-1].lower() in names.aliases or any(
            other[-1].lower() == parts[-1].lower()
            and (other[-2] if len(other) > 1 else database).lower() != table_database.lower()
            for other in others
        )
        name = parts[-1]
        if qualifiers and is_shared:
            # One for all references to the table, as error messages show it.
            name = f"__hudisql_{self._statement}_of_{table_database}.{parts[-1]}".lower()
        alias = quote_name(name)
        changes += [(span, alias) for span in qualifiers]
        if reference.form == "table":
            columns = "*"
            if isinstance(relation, HudiRelation) and relation.names_meta_columns:
                columns = ", ".join(map(quote_name, self._own_columns(relation)))
            changes.append((reference.span, f"SELECT {columns} FROM {own_name} AS {alias}"))
        elif reference.alias_at == reference.span[1]:
            changes.append((reference.span, f"{own_name} AS {alias}"))
        else:
            changes += [(reference.span, own_name), ((reference.alias_at,) * 2, f" AS {alias}")]
        return changes, name

    def _replace_stars(
        self,
        names: StatementNames,
        relations: Sequence[HudiRelation | ViewRelation],
        aliases: Mapping[int, str],
        replacements: list[tuple[Span, str]],
    ) -> list[tuple[Span, str]]:
        """The replacements, and those of each `*` over a table whose meta columns the query names."""
        columns = {
            relation.at: self._own_columns(relation)
            for relation in relations
            if isinstance(relation, HudiRelation) and relation.names_meta_columns
        }
        stars = list_own_columns(names.selects, columns, aliases) if columns else {}
        # The qualifier of `t.*` is replaced with it.
        outside = [
            replacement
            for replacement in replacements
            if not any(start <= replacement[0][0] and replacement[0][1] <= end for start, end in stars)
        ]
        return [*outside, *stars.items()]

    def _own_columns(self, relation: HudiRelation) -> list[str]:
        return list(self.state_of(relation).table.schema.names)

    def _column_names(self, relation: HudiRelation | ViewRelation) -> set[str]:
        if isinstance(relation, ViewRelation):
            return {column.name.lower() for column in relation.definition.columns}
        return {name.lower() for name in self.state_of(relation).table.full_schema.names}


class _ColumnNames:
    """A table's column names, looked up only if a text may contain one."""

    def __init__(self, load: Callable[[], Collection[str]]) -> None:
        self._load = cache(load)

    def __contains__(self, name: object) -> bool:
        return name in self._load()


def substituted_by_spark(spark: Any, text: str) -> str:
    """The text with the values of Spark's `${variables}`; unknown ones stay."""
    # Spark's parser counts offsets in the text after its own ${} substitution.
    if "${" not in text:
        return text
    return str(java_class(spark, "org.apache.spark.sql.internal.VariableSubstitution")().substitute(text))


def _global_database(spark: Any) -> str:
    return str(spark.conf.get("spark.sql.globalTempDatabase", "global_temp")).lower()
