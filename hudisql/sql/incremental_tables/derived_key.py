"""The key of a query's rows, derived from the query: group columns, or the key of its only source."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hudisql.sql.incremental_tables import catalyst_plans as cat
from hudisql.sql.incremental_tables.sources import QuerySources

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_KEEPING_ROWS = frozenset({"Project", "Filter", "Sort", "SubqueryAlias", "View", "Window"})


def derived_key(frame: DataFrame, sources: QuerySources) -> tuple[str, ...]:
    """The names of the key columns of a query's rows; empty if the query does not determine them."""
    node: Any = cat.analyzed_plan(frame)
    shown = {cat.attribute_id(each): cat.name_of(each) for each in cat.parts_of(node, "output")}
    paths = {reference.view_name: reference.path for reference in sources.references}
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
    for each in cat.parts_of(node, "projectList"):
        name = shown.get(cat.attribute_id(each))
        value = cat.unnamed(each)
        if name is not None and cat.is_attribute(value):
            below[cat.attribute_id(value)] = name
    return below


def _of_groups(node: Any, shown: dict[int, str]) -> tuple[str, ...]:
    named = [(each, cat.unnamed(each)) for each in cat.parts_of(node, "aggregateExpressions")]
    found = []
    for group in cat.parts_of(node, "groupingExpressions"):
        names = [
            shown[cat.attribute_id(each)]
            for each, value in named
            if bool(value.semanticEquals(group)) and cat.attribute_id(each) in shown
        ]
        if not names:
            return ()
        found.append(names[0])
    return tuple(dict.fromkeys(found))


def _of_source(node: Any, shown: dict[int, str], sources: QuerySources, path: str) -> tuple[str, ...]:
    by_column = {
        cat.name_of(each).lower(): shown[cat.attribute_id(each)]
        for each in cat.parts_of(node, "output")
        if cat.attribute_id(each) in shown
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
