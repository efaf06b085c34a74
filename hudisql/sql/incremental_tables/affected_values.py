"""The values of result columns that changed source rows can affect.

Follows the rules by which Catalyst pushes filters and semi joins down (`PushDownLeftSemiAntiJoin`): if a
filter on columns of the result can be applied to a source's rows instead, a row of the source affects only
result rows with its own values of these columns. Sources that such a filter does not reach affect rows of
their join's other side. Superfluous values are harmless; a plan whose values cannot be determined is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING, Any, Final

from hudisql.sql.incremental_tables import catalyst_plans as cat

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_LEFT_KEPT: Final = frozenset({"Inner", "Cross", "LeftOuter", "LeftSemi", "LeftAnti"})
_RIGHT_KEPT: Final = frozenset({"Inner", "Cross", "RightOuter"})
_PASSING: Final = frozenset(
    {
        "Distinct",
        "Filter",
        "Generate",
        "RepartitionByExpression",
        "ResolvedHint",
        "Sort",
        "SubqueryAlias",
        "View",
    }
)
_CONSTANT: Final = frozenset({"LocalRelation", "OneRowRelation", "Range"})


class NotTraceableError(Exception):
    """The values cannot be determined; the text says why, for users."""


@dataclass
class AffectedValues:
    """Walks one analyzed plan in which aliases `view_name` stand for the references to Hudi tables.

    `changed` has those that changed, with their rows before and after if they are read; `unchanged` are the
    names of the others. Without these rows the walk only finds whether values can be determined, and collects
    the used columns of each reference in `needed`.
    """

    spark: SparkSession
    changed: Mapping[str, DataFrame | None]
    unchanged: frozenset[str]
    needed: dict[str, set[str]] = field(default_factory=dict)
    joins_back: bool = False
    _common: dict[int, Any] = field(default_factory=dict)
    _with: dict[tuple[int, ...], Any] = field(default_factory=dict)

    def plans(self, root: Any, attributes: Sequence[Any]) -> list[Any]:
        """Plans whose rows, in the columns `attributes` of the root, are together the affected values.

        Empty if no source of the root has changed. Raises NotTraceableError.
        """
        return self._cover(root, list(attributes)) if self.changes(root) else []

    def changes(self, node: Any) -> bool:
        """True if a source below the node has changed, in subqueries too. Raises NotTraceableError."""
        kind = cat.class_name(node)
        if kind == "SubqueryAlias" and (name := cat.alias_of(node)) in self.changed:
            return True
        if kind == "SubqueryAlias" and name in self.unchanged:
            return False
        if kind == "CTERelationRef":
            return self.changes(self._definition(node))
        if kind == "WithCTE":
            self._learn(node)
            return self.changes(cat.main_plan_of(node))
        children = cat.children_of(node)
        if not children and kind not in _CONSTANT:
            raise NotTraceableError("it reads a non-Hudi table, whose changes are unknown")
        return any(self.changes(plan) for plan in (*children, *cat.subquery_plans(node)))

    def _cover(self, node: Any, attributes: list[Any]) -> list[Any]:
        kind = cat.class_name(node)
        if kind == "SubqueryAlias" and (name := cat.alias_of(node)) in self.changed:
            return self._leaf(name, attributes)
        if kind == "SubqueryAlias" and name in self.unchanged:
            return []
        if any(self.changes(plan) for plan in cat.subquery_plans(node)):
            raise NotTraceableError("a subquery in an expression reads rows that changed")
        if kind == "Distinct":
            _check_exact(attributes, "DISTINCT")
        if kind in _PASSING:
            return self._pass(node, attributes)
        reader = _READERS.get(kind)
        if reader is None:
            raise NotTraceableError(f"changes are not followed through '{kind}'")
        return reader(self, node, attributes)

    def _leaf(self, view_name: str, attributes: list[Any]) -> list[Any]:
        names = [cat.name_of(attribute) for attribute in attributes]
        self.needed.setdefault(view_name, set()).update(names)
        images = self.changed[view_name]
        if images is None:
            return [None]
        plan = cat.analyzed_plan(images)
        found = {cat.name_of(part).lower(): part for part in cat.parts_of(plan, "output")}
        columns = [
            cat.alias_as(self.spark, found[name.lower()], attribute)
            for name, attribute in zip(names, attributes, strict=True)
        ]
        return [cat.project(self.spark, columns, plan)]

    def _pass(self, node: Any, attributes: list[Any]) -> list[Any]:
        child = cat.children_of(node)[0]
        known = cat.output_of(child)
        if not {cat.attribute_id(attribute) for attribute in attributes} <= known.keys():
            raise NotTraceableError(f"columns get a new identity in '{cat.class_name(node)}'")
        return self._cover(child, attributes)

    def _project(self, node: Any, attributes: list[Any]) -> list[Any]:
        return self._compute(node, "projectList", attributes)

    def _aggregate(self, node: Any, attributes: list[Any]) -> list[Any]:
        groups = cat.parts_of(node, "groupingExpressions")
        columns = {cat.attribute_id(group) for group in groups if cat.is_attribute(group)}
        wanted = {cat.attribute_id(attribute) for attribute in attributes}
        for part in cat.parts_of(node, "aggregateExpressions"):
            if cat.attribute_id(part) not in wanted:
                continue
            value = cat.unnamed(part)
            # An expression of group columns alone is the same for all rows of a group.
            references = cat.references_of(value).keys()
            is_group = any(bool(value.semanticEquals(group)) for group in groups)
            if not is_group and not (references and references <= columns and not _aggregates(value)):
                raise NotTraceableError(f"{cat.name_of(part)} is not a group column")
            _check_exact([value] if is_group else cat.references_of(value).values(), "GROUP BY")
        return self._compute(node, "aggregateExpressions", attributes)

    def _window(self, node: Any, attributes: list[Any]) -> list[Any]:
        partition = {
            cat.attribute_id(part) for part in cat.parts_of(node, "partitionSpec") if cat.is_attribute(part)
        }
        for attribute in attributes:
            if cat.attribute_id(attribute) not in partition:
                raise NotTraceableError(
                    f"{cat.name_of(attribute)} is not a partition column of a window function"
                )
        _check_exact(attributes, "PARTITION BY")
        return self._cover(cat.children_of(node)[0], attributes)

    def _compute(self, node: Any, expressions: str, attributes: list[Any]) -> list[Any]:
        """The covers of a node that computes named expressions of its child's rows."""
        wanted = [cat.attribute_id(attribute) for attribute in attributes]
        named = cat.by_id(cat.parts_of(node, expressions))
        columns = [named[identity] for identity in wanted]
        below: dict[int, Any] = {}
        for column in columns:
            below |= cat.references_of(column)
        if not below:
            raise NotTraceableError("the columns are constants")
        covers = self._cover(cat.children_of(node)[0], list(below.values()))
        return [None if cover is None else cat.project(self.spark, columns, cover) for cover in covers]

    def _union(self, node: Any, attributes: list[Any]) -> list[Any]:
        positions = {cat.attribute_id(part): at for at, part in enumerate(cat.parts_of(node, "output"))}
        covers = []
        for child in cat.children_of(node):
            if not self.changes(child):
                continue
            output = cat.parts_of(child, "output")
            own = [output[positions[cat.attribute_id(attribute)]] for attribute in attributes]
            covers += self._renamed(self._cover(child, own), own, attributes)
        return covers

    def _common_table(self, node: Any, attributes: list[Any]) -> list[Any]:
        self._learn(node)
        return self._cover(cat.main_plan_of(node), attributes)

    def _common_reference(self, node: Any, attributes: list[Any]) -> list[Any]:
        definition = self._definition(node)
        positions = {cat.attribute_id(part): at for at, part in enumerate(cat.parts_of(node, "output"))}
        output = cat.parts_of(definition, "output")
        own = [output[positions[cat.attribute_id(attribute)]] for attribute in attributes]
        return self._renamed(self._cover(definition, own), own, attributes)

    def _learn(self, node: Any) -> None:
        definitions = {int(part.id()): cat.children_of(part)[0] for part in cat.parts_of(node, "cteDefs")}
        self._common |= definitions
        self._with[tuple(definitions)] = node

    def _definition(self, reference: Any) -> Any:
        found = self._common.get(int(reference.cteId()))
        if found is None:
            raise NotTraceableError("it names a common table expression of an outer query")
        return found

    def _renamed(self, covers: list[Any], own: list[Any], attributes: list[Any]) -> list[Any]:
        columns = [cat.alias_as(self.spark, mine, meant) for mine, meant in zip(own, attributes, strict=True)]
        return [None if cover is None else cat.project(self.spark, columns, cover) for cover in covers]

    def _join(self, node: Any, attributes: list[Any]) -> list[Any]:
        kind = cat.join_kind(node)
        pairs = cat.equal_pairs(node)
        left, right = cat.children_of(node)
        ids = {cat.attribute_id(attribute) for attribute in attributes}
        if kind in _LEFT_KEPT and ids <= cat.output_of(left).keys():
            return self._cover_sides(left, right, attributes, pairs)
        swapped = [(two, one) for one, two in pairs]
        if kind in _RIGHT_KEPT and ids <= cat.output_of(right).keys():
            return self._cover_sides(right, left, attributes, swapped)
        if kind == "Inner":
            for kept, other, given in ((left, right, pairs), (right, left, swapped)):
                own = _counterparts(attributes, kept, given)
                if own is not None:
                    return self._renamed(self._cover_sides(kept, other, own, given), own, attributes)
        raise NotTraceableError(f"the columns do not come from the side that '{kind}' keeps")

    def _cover_sides(
        self, kept: Any, other: Any, attributes: list[Any], pairs: list[tuple[Any, Any]]
    ) -> list[Any]:
        """The covers of a join whose rows have the columns `attributes` from the side `kept`."""
        covers = self._cover(kept, attributes) if self.changes(kept) else []
        if not self.changes(other):
            return covers
        own = _counterparts(attributes, other, [(two, one) for one, two in pairs])
        if own is not None:
            try:
                return covers + self._renamed(self._cover(other, own), own, attributes)
            except NotTraceableError:
                pass
        return covers + self._joined_back(kept, other, attributes, pairs)

    def _joined_back(
        self, kept: Any, other: Any, attributes: list[Any], pairs: list[tuple[Any, Any]]
    ) -> list[Any]:
        """The columns of the rows of `kept` that have a join value of changed rows of `other`.

        `kept` is in its current state: its own changed rows are covered by their images.
        """
        if len(self._with) > 1 or cat.contains(kept, "WithCTE"):
            raise NotTraceableError("a view has common table expressions, and a join reads it")
        reason = NotTraceableError("a join has no condition of equality")
        for chosen in (pairs, *([pair] for pair in pairs)):
            below: dict[int, Any] = reduce(lambda a, b: a | b, (cat.references_of(b) for _, b in chosen), {})
            if not below:
                continue
            try:
                covers = self._cover(other, list(below.values()))
            except NotTraceableError as error:
                reason = error
                continue
            self.joins_back = True
            return [None] if None in covers else self._semi_join(kept, attributes, chosen, covers)
        raise reason

    def _semi_join(
        self, kept: Any, attributes: list[Any], pairs: list[tuple[Any, Any]], covers: list[Any]
    ) -> list[Any]:
        from pyspark.sql import functions as sf

        values = [f"v{at}" for at in range(len(pairs))]
        frames = [
            cat.frame_of(
                self.spark,
                cat.project(
                    self.spark,
                    [
                        cat.alias_new(self.spark, two, name)
                        for (_, two), name in zip(pairs, values, strict=True)
                    ],
                    cover,
                ),
            )
            for cover in covers
        ]
        changed = reduce(lambda one, two: one.union(two), frames).distinct()
        names = [f"a{at}" for at in range(len(attributes))]
        computed = [
            *(
                cat.alias_new(self.spark, attribute, name)
                for attribute, name in zip(attributes, names, strict=True)
            ),
            *(cat.alias_new(self.spark, one, f"w{at}") for at, (one, _) in enumerate(pairs)),
        ]
        plan = cat.project(self.spark, computed, kept)
        for node in self._with.values():
            plan = cat.with_common_tables(self.spark, plan, node)
        rows = cat.frame_of(self.spark, plan)
        # A join may make nulls equal, and a superfluous row is harmless.
        condition = reduce(
            lambda one, two: one & two,
            (sf.col(f"w{at}").eqNullSafe(sf.col(f"v{at}")) for at in range(len(pairs))),
        )
        touched = rows.join(changed, condition, "left_semi").select(*names)
        plan = cat.analyzed_plan(touched)
        parts = cat.parts_of(plan, "output")
        columns = [cat.alias_as(self.spark, one, two) for one, two in zip(parts, attributes, strict=True)]
        return [cat.project(self.spark, columns, plan)]


def _counterparts(attributes: Sequence[Any], side: Any, pairs: Sequence[tuple[Any, Any]]) -> list[Any] | None:
    """The columns of `side` that are equal to `attributes`: themselves, or by a pair (of `side`, of the
    other); None if one has none.
    """
    output = cat.output_of(side)
    equal = {
        cat.attribute_id(two): one
        for one, two in pairs
        if cat.is_attribute(one) and cat.is_attribute(two) and cat.is_exact(one)
    }
    found = []
    for attribute in attributes:
        identity = cat.attribute_id(attribute)
        column = attribute if identity in output else equal.get(identity)
        if column is None:
            return None
        found.append(column)
    return found


def _check_exact(expressions: Iterable[Any], clause: str) -> None:
    """Raise NotTraceableError where rows are combined by values that are equal but not identical."""
    if not all(cat.is_exact(expression) for expression in expressions):
        raise NotTraceableError(f"{clause} compares values of a type whose equal values can differ")


def _aggregates(expression: Any) -> bool:
    if cat.class_name(expression) == "AggregateExpression":
        return True
    return any(_aggregates(child) for child in cat.children_of(expression))


_READERS: Final[Mapping[str, Callable[[AffectedValues, Any, list[Any]], list[Any]]]] = {
    "Project": AffectedValues._project,
    "Aggregate": AffectedValues._aggregate,
    "Window": AffectedValues._window,
    "Union": AffectedValues._union,
    "Join": AffectedValues._join,
    "WithCTE": AffectedValues._common_table,
    "CTERelationRef": AffectedValues._common_reference,
}
