"""Finds out whether a query reads a meta column that changes when a commit rewrites an unchanged row.

Changes of a source are detected by its data columns. But the file name of a row changes by each compaction,
clustering, or change of a row beside it, and its commit time by an update to the same values.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Set
from dataclasses import dataclass, field
from typing import Any, Final

from hudisql.format.schema.meta_columns import COMMIT_SEQNO, COMMIT_TIME, FILE_NAME, is_meta_column
from hudisql.sql.incremental_tables import catalyst_plans as cat
from hudisql.sql.incremental_tables.sources import QuerySources

_OF_A_WRITE: Final = frozenset({COMMIT_TIME, COMMIT_SEQNO, FILE_NAME})
_KEEPING_COLUMNS: Final = frozenset(
    {
        *("Filter", "Generate", "GlobalLimit", "Join", "LocalLimit", "RepartitionByExpression"),
        *("ResolvedHint", "Sort", "SubqueryAlias", "View", "Window"),
    }
)


def column_of_rewritten_rows(
    root: Any, sources: QuerySources, changed: Collection[str], *, ordered: bool
) -> str:
    """The first such column of the sources with these base paths on which the query's result depends.

    Empty if there is none. Meta columns of the result itself do not count: the table does not store them, and
    `*` gives them. `root` is the analyzed plan; `ordered` says that it chooses one row for each key.
    """
    names = {reference.view_name: reference.entry.path in changed for reference in sources.references}
    walk = _Walk(names, sources.constant)
    node = _inner_query(root) if ordered else root
    output = cat.parts_of(node, "output")
    walk.visit(
        node,
        {cat.attribute_id(attribute) for attribute in output if not is_meta_column(cat.name_of(attribute))},
    )
    return walk.column


def _inner_query(root: Any) -> Any:
    """The query as written: without the selection of one row for each key above it."""
    for kind in ("Window", "SubqueryAlias"):
        while cat.class_name(root) != kind:
            root = cat.children_of(root)[0]
    return root


@dataclass
class _Walk:
    """Follows a plan's columns to the columns of the sources that they depend on.

    `sources` says of each source whether it has changed, by its alias.
    """

    sources: dict[str, bool]
    constant: frozenset[str]
    column: str = ""
    _common: dict[int, Any] = field(default_factory=dict)

    def visit(self, node: Any, needed: Set[int]) -> None:
        """Visit the node for the columns with the ids `needed`."""
        kind = cat.class_name(node)
        if kind == "SubqueryAlias" and (name := cat.alias_of(node)) in self.sources:
            self._look_at(node, needed if self.sources[name] else set())
        elif kind == "WithCTE":
            definitions = cat.parts_of(node, "cteDefs")
            self._common |= {
                int(definition.id()): cat.children_of(definition)[0] for definition in definitions
            }
            self.visit(cat.main_plan_of(node), needed)
        elif kind == "CTERelationRef" and int(node.cteId()) in self._common:
            self._visit_by_position(node, [self._common[int(node.cteId())]], needed)
        elif kind == "Union":
            self._visit_by_position(node, cat.children_of(node), needed)
        elif not (kind == "SubqueryAlias" and name in self.constant):
            below = self._needed_below(node, kind, needed)
            for child in cat.children_of(node):
                self.visit(child, cat.output_of(child).keys() if below is None else below)

    def _look_at(self, source: Any, needed: Set[int]) -> None:
        for part in cat.parts_of(source, "output"):
            if cat.attribute_id(part) in needed and cat.name_of(part).lower() in _OF_A_WRITE:
                self.column = self.column or cat.name_of(part)

    def _visit_by_position(self, node: Any, children: list[Any], needed: Set[int]) -> None:
        output = cat.parts_of(node, "output")
        positions = [at for at, attribute in enumerate(output) if cat.attribute_id(attribute) in needed]
        for child in children:
            own = cat.parts_of(child, "output")
            self.visit(child, {cat.attribute_id(own[at]) for at in positions})

    def _needed_below(self, node: Any, kind: str, needed: Set[int]) -> Set[int] | None:
        """The ids of columns of the node's children on which its own columns depend; None for all."""
        if kind in _KEEPING_COLUMNS:
            return needed | cat.references_of(node).keys()
        if kind == "Project":
            named = cat.by_id(cat.parts_of(node, "projectList"))
            return _references(named[identity] for identity in needed & named.keys())
        if kind == "Aggregate":
            named = cat.by_id(cat.parts_of(node, "aggregateExpressions"))
            groups = cat.parts_of(node, "groupingExpressions")
            return _references([*(named[identity] for identity in needed & named.keys()), *groups])
        return None


def _references(expressions: Iterable[Any]) -> set[int]:
    return {reference for expression in expressions for reference in cat.references_of(expression)}
