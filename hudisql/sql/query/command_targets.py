"""Finds the tables that a command works on, by Spark's parser, before Spark runs the command.

Spark's own parser says which tables a command names (`UnresolvedTable`, `UnresolvedIdentifier`, plain
`TableIdentifier`s of older commands), so that unknown commands are covered, too. Tables that are only read by
a query inside the command are not checked here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from hudisql.errors import UnsupportedStatementError
from hudisql.format.schema.spark_schema import quote_name
from hudisql.spark.jvm import class_name, items_of
from hudisql.sql.query.bound_text import ViewRelation
from hudisql.sql.query.relations import TableBinder
from hudisql.sql.query.target_table import find_hudi_entry
from hudisql.sql.query.views import find_temporary_view
from hudisql.sql.text.statements import Statement, TableName

if TYPE_CHECKING:
    from hudisql.catalog.metastore_table import MetastoreTable
    from hudisql.context import Context

# Commands that change no table, by the start of their plan's class name (SetTableLocation does change one).
_READ_ONLY: Final = (
    *("Show", "Describe", "Explain", "SetCommand", "SetCatalog", "SetNamespaceCommand", "SetVariable"),
    *("Reset", "List", "Refresh", "Uncache"),
)
_UNRESOLVED: Final = frozenset(
    {"UnresolvedTable", "UnresolvedTableOrView", "UnresolvedView", "UnresolvedIdentifier"}
)


def find_hudi_target(context: Context, plan: Any) -> tuple[str, MetastoreTable | None]:
    """The kind of a command's unresolved plan (Spark's class name), and its first Hudi table, or None.

    Commands that are known to change nothing have none.
    """
    kind = class_name(plan)
    if kind.startswith(_READ_ONLY):
        return kind, None
    is_of_database = kind == "AnalyzeTables"
    tables = _tables_of_database(context, plan) if is_of_database else targets_of_plan(plan)
    entries = (find_hudi_entry(context, table) for table in dict.fromkeys(tables))
    return kind, next((entry for entry in entries if entry is not None), None)


def _tables_of_database(context: Context, plan: Any) -> Iterator[TableName]:
    """The tables of ANALYZE TABLES [IN database], which does not name them."""
    namespace = plan.children().apply(0)
    parts = items_of(namespace.multipartIdentifier()) if hasattr(namespace, "multipartIdentifier") else ()
    database = next(iter(list(map(str, parts))[-1:]), context.current_database)
    for name in context.metastore.list_tables(database):
        yield TableName((database, name))


def targets_of_plan(plan: Any) -> Iterator[TableName]:
    """The tables that a parsed command works on; some may come more than once."""
    kind = class_name(plan)
    if kind in _UNRESOLVED:
        parts = plan.nameParts() if kind == "UnresolvedIdentifier" else plan.multipartIdentifier()
        yield TableName(tuple(str(part) for part in items_of(parts)))
    elif kind == "InsertIntoStatement" and class_name(plan.table()) == "UnresolvedRelation":
        yield TableName(tuple(str(part) for part in items_of(plan.table().multipartIdentifier())))
    for index in range(int(plan.productArity())):
        yield from _identifiers(plan.productElement(index))
    for child in items_of(plan.children()):
        yield from targets_of_plan(child)


def _identifiers(value: Any) -> Iterator[TableName]:
    if not hasattr(value, "getClass"):
        return
    kind = class_name(value)
    if kind == "TableIdentifier":
        yield TableName(tuple(str(part) for part in items_of(value.nameParts())))
    elif kind == "CatalogTable":
        yield from _identifiers(value.identifier())
    elif kind == "Some":
        yield from _identifiers(value.get())


def refuse_view_target(context: Context, name: TableName, verb: str) -> None:
    """Raise UnsupportedStatementError if `name` is a view (temporary ones too) that reads Hudi tables."""
    bound = TableBinder(context).bind(Statement(f"SELECT * FROM {'.'.join(map(quote_name, name.parts))}"))
    view = next((relation for relation in bound.relations if isinstance(relation, ViewRelation)), None)
    if view is None:
        return
    tables = list(
        dict.fromkeys(
            f"{hudi_relation.entry.database}.{hudi_relation.entry.name}"
            for hudi_relation in bound.hudi_relations
        )
    )
    raise UnsupportedStatementError(
        f"{verb} is not possible on {view.definition.name}, which is a view of {', '.join(tables)}: nothing "
        "was run",
        hint=f"name the table itself: {tables[0]}",
    )


def refuse_temporary_view(context: Context, name: TableName, verb: str) -> None:
    """Raise UnsupportedStatementError if `name` is a temporary view, whose rows no statement can change."""
    *qualifiers, last = name.parts
    is_global = [part.lower() for part in qualifiers] == ["global_temp"]
    if (qualifiers and not is_global) or not find_temporary_view(context.spark, last, is_global=is_global):
        return
    raise UnsupportedStatementError(
        f"{verb} is not possible on {name}, which is a temporary view: nothing was run",
        hint="change the table that it reads, or define the view again;"
        f" CREATE TABLE … USING hudi AS SELECT * FROM {name} makes a table whose rows can be changed",
    )
