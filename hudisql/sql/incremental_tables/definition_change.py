"""Compares the definition of an incremental table with its table, and derives its key from the query."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from hudisql.catalog.metastore_table import MetastoreTable
from hudisql.errors import InvalidArgumentError, UnsupportedTableError
from hudisql.format.schema.meta_columns import is_meta_column
from hudisql.sql.ddl.create_table import COMMENT
from hudisql.sql.ddl.table_options import ORDERING, PRIMARY_KEY, properties_of_table
from hudisql.sql.incremental_tables import catalyst_plans as cat
from hudisql.sql.incremental_tables.definition import IncrementalDefinition
from hudisql.sql.incremental_tables.sources import QuerySources, check_ordering, read_sources
from hudisql.sql.query import query_plan
from hudisql.sql.query.target_table import open_hudi_entry
from hudisql.sql.schema.table_definition import TableDefinition, read_table_definition
from hudisql.sql.text import statements as st
from hudisql.sql.text.mapped_sql import source_from
from hudisql.sql.text.spark_errors import SourceText

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from hudisql.context import Context


_KEEPING_ROWS = frozenset({"Project", "Filter", "Sort", "SubqueryAlias", "View", "Window"})


@dataclass(frozen=True)
class DefinitionChange:
    """How a CREATE INCREMENTAL TABLE differs from the table of its name.

    `query` says that the query differs, `added` are its new columns with their types, `properties` the
    TBLPROPERTIES and the comment that the table lacks or has with other values. `refused` says why the table
    cannot become this; empty if it can.
    """

    query: bool
    added: tuple[tuple[str, str], ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    refused: str = ""


def definition_change(
    context: Context,
    statement: st.CreateIncrementalTableStatement,
    entry: MetastoreTable,
    stored: IncrementalDefinition,
    source: SourceText,
) -> DefinitionChange:
    """Compare a statement with the table; an unchanged query is not analyzed.

    Raises InvalidArgumentError, UnsupportedStatementError, QueryError.
    """
    text = statement.text[statement.query_start :]
    changed = IncrementalDefinition(text, context.current_database, statement.key, statement.ordering)
    is_other = (changed.query, changed.database) != (stored.query, stored.database)
    added: tuple[tuple[str, str], ...] = ()
    gone: set[str] = set()
    if is_other:
        origin = source_from(statement.query_start, statement.text, source)
        frame, changed = analyzed_definition(context, changed, entry.full_name, origin)
        known = columns_of(entry)
        gone = known - {name.lower() for name in frame.columns}
        added = tuple(
            (column.name, column.dataType.simpleString())
            for column in frame.schema
            if column.name.lower() not in known
        )
    definition = read_table_definition(context, statement.definition, [])
    properties = _changed_properties(definition, entry)
    refused = _refused(definition, entry, (stored, changed), gone)
    refused = refused or _refused_properties(context, definition, entry, properties)
    return DefinitionChange(is_other, added, properties, refused)


def columns_of(entry: MetastoreTable) -> set[str]:
    """The names of the table's columns without Hudi's meta columns."""
    names = {column.name.lower() for column in (*entry.columns, *entry.partition_columns)}
    return {name for name in names if not is_meta_column(name)}


def refuse_key_properties(definition: TableDefinition) -> None:
    """Raise InvalidArgumentError for TBLPROPERTIES that name the key or the ordering column."""
    for name in definition.properties:
        if name.lower() in (*PRIMARY_KEY, *ORDERING):
            raise InvalidArgumentError(
                f"{name} is not a property of an incremental table",
                hint="KEY (column, …) names the key, ORDERING column says which row of a key stays",
            )


def _changed_properties(definition: TableDefinition, entry: MetastoreTable) -> dict[str, str]:
    wanted = dict(definition.properties)
    if definition.comment is not None:
        wanted[COMMENT] = definition.comment
    # The metastore stores no empty comments.
    there = {COMMENT: "", **entry.parameters}
    return {name: value for name, value in wanted.items() if there.get(name) != value}


def _refused_properties(
    context: Context, definition: TableDefinition, entry: MetastoreTable, changed: Mapping[str, str]
) -> str:
    own = {name: value for name, value in changed.items() if name != COMMENT}
    if not own:
        return ""
    try:
        refuse_key_properties(definition)
        properties_of_table(open_hudi_entry(context, entry), own)
    except (InvalidArgumentError, UnsupportedTableError) as error:
        return error.message
    return ""


def _refused(
    definition: TableDefinition,
    entry: MetastoreTable,
    definitions: tuple[IncrementalDefinition, IncrementalDefinition],
    gone: set[str],
) -> str:
    stored, changed = definitions
    if gone:
        return f"the query no longer has {', '.join(sorted(gone))}"
    if changed.key and _folded(changed.key) != _folded(stored.key):
        return f"the key is now {', '.join(changed.key)}, but the rows are stored by {', '.join(stored.key)}"
    if (changed.ordering or "").lower() != (stored.ordering or "").lower():
        return f"ORDERING is {changed.ordering or 'not there'} now, and was {stored.ordering or 'not there'}"
    partitions = definition.partition_columns
    now = [column.name for column in entry.partition_columns]
    if _folded(partitions) != _folded(now):
        given_text, stored_text = (", ".join(columns) or "nothing" for columns in (partitions, now))
        return f"it is now partitioned by {given_text}, but its files by {stored_text}"
    return ""


def _folded(names: tuple[str, ...] | list[str]) -> list[str]:
    return [name.lower() for name in names]


def analyzed_definition(
    context: Context, incremental: IncrementalDefinition, name: str, origin: SourceText
) -> tuple[DataFrame, IncrementalDefinition]:
    """The query's rows, and the definition; its key is derived from the query if none is named.

    Raises InvalidArgumentError, UnsupportedStatementError, QueryError.
    """
    check_ordering(incremental.ordering)
    sources = read_sources(context, incremental.query)
    parts = name.split(".")
    sources.check_permanent(parts)
    whole = query_plan.analyzed_query(context, sources.binder, sources.bound, origin)
    frame = whole.drop(*(column for column in whole.columns if is_meta_column(column)))
    columns = {column.lower(): column for column in frame.columns}
    key = incremental.key or derived_key(whole, sources)
    if not key:
        raise InvalidArgumentError(
            f"the query of {name} does not determine which columns are the key of its rows",
            hint="name them after the table: CREATE INCREMENTAL TABLE … KEY (column, …) AS …",
        )
    for column in (*key, *([incremental.ordering] if incremental.ordering else ())):
        if column.lower() not in columns:
            raise InvalidArgumentError(
                f"the query of {name} has no column '{column}'", hint=f"its columns are {', '.join(columns)}"
            )
    ordering = incremental.ordering and columns[incremental.ordering.lower()]
    return frame, replace(
        incremental, key=tuple(columns[column.lower()] for column in key), ordering=ordering
    )


def derived_key(frame: DataFrame, sources: QuerySources) -> tuple[str, ...]:
    """The names of the key columns of a query's rows; empty if the query does not determine them."""
    node: Any = cat.analyzed_plan(frame)
    shown = {cat.attribute_id(part): cat.name_of(part) for part in cat.parts_of(node, "output")}
    paths = {reference.view_name: reference.entry.path for reference in sources.references}
    while True:
        kind = cat.class_name(node)
        if kind == "Aggregate":
            return _of_groups(node, shown)
        if kind == "SubqueryAlias" and (name := cat.alias_of(node)) in paths:
            return _of_source(node, shown, sources, paths[name])
        if kind not in _KEEPING_ROWS:
            return ()
        if kind == "Project":
            shown = _through(node, shown)
        node = cat.children_of(node)[0]


def _through(node: Any, shown: dict[int, str]) -> dict[int, str]:
    """The shown columns by their identity below a projection; computed ones are dropped."""
    below = {}
    for part in cat.parts_of(node, "projectList"):
        name = shown.get(cat.attribute_id(part))
        value = cat.unnamed(part)
        if name is not None and cat.is_attribute(value):
            below[cat.attribute_id(value)] = name
    return below


def _of_groups(node: Any, shown: dict[int, str]) -> tuple[str, ...]:
    named = [(part, cat.unnamed(part)) for part in cat.parts_of(node, "aggregateExpressions")]
    found = []
    for group in cat.parts_of(node, "groupingExpressions"):
        names = [
            shown[cat.attribute_id(expression)]
            for expression, value in named
            if bool(value.semanticEquals(group)) and cat.attribute_id(expression) in shown
        ]
        if not names:
            return ()
        found.append(names[0])
    return tuple(dict.fromkeys(found))


def _of_source(node: Any, shown: dict[int, str], sources: QuerySources, path: str) -> tuple[str, ...]:
    by_column = {
        cat.name_of(part).lower(): shown[cat.attribute_id(part)]
        for part in cat.parts_of(node, "output")
        if cat.attribute_id(part) in shown
    }
    table = sources.tables[path]
    # A record key is unique within its partition.
    fields = [
        *table.properties.record_key_fields,
        *(partition_column.name for partition_column in table.partition_columns),
    ]
    names = [by_column.get(field.lower()) for field in fields]
    if not table.properties.record_key_fields or None in names:
        return ()
    return tuple(dict.fromkeys(name for name in names if name is not None))
