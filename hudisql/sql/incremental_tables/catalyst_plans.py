"""Reads and composes Catalyst's analyzed plans: attributes, projections, DataFrames of a part of a plan.

This module contains the use of Catalyst's internal API for incremental tables; it knows neither tables nor
refreshes. Plans are immutable: answers of the JVM about a node or an expression are cached with its proxy.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from hudisql.spark import jvm
from hudisql.spark.jvm import items_of, java_class, remembered, scala_object
from hudisql.spark.versions import frame_of_plan, scala_sequence

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_EXPRESSIONS: Final = "org.apache.spark.sql.catalyst.expressions"
_PLANS: Final = "org.apache.spark.sql.catalyst.plans.logical"
_EXACT: Final = frozenset(
    {
        *("BooleanType$", "ByteType$", "ShortType$", "IntegerType$", "LongType$", "StringType$", "DateType$"),
        *("DecimalType", "TimestampType$", "TimestampNTZType$", "BinaryType$"),
    }
)


def analyzed_plan(frame: DataFrame) -> Any:
    """The analyzed plan of a DataFrame."""
    return remembered(
        jvm.java_dataset(frame), "analyzed", lambda dataset: dataset.queryExecution().analyzed()
    )


def class_name(node: Any) -> str:
    """The simple name of the class of a node or an expression."""
    return remembered(node, "class", jvm.class_name)


def name_of(named: Any) -> str:
    """A column's name."""
    return remembered(named, "name", lambda expression: str(expression.name()))


def alias_of(node: Any) -> str:
    """The name of a `SubqueryAlias`."""
    return remembered(node, "alias", lambda aliased: str(aliased.alias()))


def join_kind(join: Any) -> str:
    """A join's type, as Catalyst names it."""
    return remembered(join, "join", lambda join_node: str(join_node.joinType()))


def children_of(node: Any) -> list[Any]:
    """The children of a node or expression."""
    return remembered(node, "children", lambda parent: list(items_of(parent.children())))


def main_plan_of(node: Any) -> Any:
    """The main query of a query WITH common table expressions."""
    return remembered(node, "plan", lambda subquery: subquery.plan())


def parts_of(node: Any, name: str) -> list[Any]:
    """The items of a sequence of a node, as `projectList`."""
    return remembered(node, name, lambda holder: list(items_of(getattr(holder, name)())))


def attribute_id(attribute: Any) -> int:
    """The id of an attribute, unique in its plan."""
    return remembered(attribute, "id", lambda reference: int(reference.exprId().id()))


def output_of(node: Any) -> dict[int, Any]:
    """A node's output attributes by id."""
    return remembered(node, "by id", lambda _: by_id(parts_of(node, "output")))


def by_id(named: Iterable[Any]) -> dict[int, Any]:
    """Attributes, or other named expressions, by their ids."""
    return {attribute_id(attribute): attribute for attribute in named}


def references_of(expression: Any) -> dict[int, Any]:
    """The attributes in an expression by id."""
    return remembered(
        expression, "references", lambda referring: by_id(items_of(referring.references().toSeq()))
    )


def is_attribute(expression: Any) -> bool:
    """True for a plain column."""
    return class_name(expression) == "AttributeReference"


def chosen_columns(plan: Any) -> list[int] | None:
    """The ids of a leaf's attributes that a plan selects; None if it does more than select columns."""
    chosen = list(output_of(plan))
    while class_name(plan) == "Project":
        named = by_id(parts_of(plan, "projectList"))
        values = [unnamed(named[identity]) for identity in chosen]
        if not all(map(is_attribute, values)):
            return None
        chosen, plan = [attribute_id(value) for value in values], children_of(plan)[0]
    return None if children_of(plan) else chosen


def unnamed(expression: Any) -> Any:
    """The expression below an alias; another expression itself."""
    return children_of(expression)[0] if class_name(expression) == "Alias" else expression


def is_exact(expression: Any) -> bool:
    """True if equal values of the type are identical, unlike -0.0 and 0.0, or 'a' and 'A' by a collation."""
    kind = remembered(expression, "type", lambda typed: jvm.class_name(typed.dataType()))
    return kind in _EXACT


def calls_moment(spark: SparkSession, plan: Any) -> bool:
    """True if the plan uses the current time, zone, user or database, in subqueries too.

    By Catalyst's mark of these functions, since the text of a plan leaves out columns of wide ones.
    """
    patterns = scala_object(spark, "org.apache.spark.sql.catalyst.trees.TreePattern")
    return bool(plan.containsPattern(patterns.CURRENT_LIKE()))


def conjuncts(expression: Any) -> Iterator[Any]:
    """The parts of a condition that AND joins."""
    if class_name(expression) == "And":
        yield from conjuncts(expression.left())
        yield from conjuncts(expression.right())
    else:
        yield expression


def equal_pairs(join: Any) -> list[tuple[Any, Any]]:
    """The pairs of expressions of the left and the right side that a join's condition equates."""
    return remembered(join, "equal pairs", _equal_pairs)


def _equal_pairs(join: Any) -> list[tuple[Any, Any]]:
    if not join.condition().isDefined():
        return []
    left, right = map(output_of, children_of(join))
    pairs = []
    for part in conjuncts(join.condition().get()):
        if class_name(part) not in ("EqualTo", "EqualNullSafe"):
            continue
        sides = (part.left(), part.right())
        of_one, of_other = (set(references_of(side)) for side in sides)
        if of_one and of_other and of_one <= left.keys() and of_other <= right.keys():
            pairs.append((sides[0], sides[1]))
        elif of_one and of_other and of_one <= right.keys() and of_other <= left.keys():
            pairs.append((sides[1], sides[0]))
    return pairs


def contains(plan: Any, kind: str) -> bool:
    """True if the plan has a node of this class."""
    return class_name(plan) == kind or any(contains(child, kind) for child in children_of(plan))


def subquery_plans(node: Any) -> list[Any]:
    """The plans of subqueries in a node's expressions."""
    return parts_of(node, "subqueries")


def alias_as(spark: SparkSession, expression: Any, attribute: Any) -> Any:
    """The expression under the identity of an attribute."""
    if is_attribute(expression) and attribute_id(expression) == attribute_id(attribute):
        return expression
    return _alias(spark, expression, attribute.name(), attribute.exprId())


def alias_new(spark: SparkSession, expression: Any, name: str) -> Any:
    """The expression under a new name."""
    new_id = scala_object(spark, f"{_EXPRESSIONS}.NamedExpression").newExprId()
    return _alias(spark, expression, name, new_id)


def _alias(spark: SparkSession, expression: Any, name: str, identity: Any) -> Any:
    empty = scala_object(spark, "scala.collection.immutable.Nil")
    none = java_class(spark, "scala.Option").empty()
    return java_class(spark, f"{_EXPRESSIONS}.Alias")(expression, name, identity, empty, none, empty)


def project(spark: SparkSession, columns: Iterable[Any], child: Any) -> Any:
    """The plan that computes these named expressions of the child's rows."""
    return java_class(spark, f"{_PLANS}.Project")(scala_sequence(spark, list(columns)), child)


def with_common_tables(spark: SparkSession, plan: Any, node: Any) -> Any:
    """The plan with the common table expressions that `node` (`WithCTE`) defines."""
    return java_class(spark, f"{_PLANS}.WithCTE")(plan, node.cteDefs())


def frame_of(spark: SparkSession, plan: Any, names: Sequence[str] | None = None) -> DataFrame:
    """The rows of a plan, with new names for its columns if given."""
    frame = frame_of_plan(spark, plan)
    return frame if names is None else frame.toDF(*names)
