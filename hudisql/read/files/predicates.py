"""Row predicates as values, with Spark SQL's meaning.

A predicate is a tree of frozen dataclasses over column paths and Python values. A predicate keeps a row if it
is TRUE (three-valued logic; NaN equals NaN and is greater than every other number, as in Spark SQL). The
module evaluates predicates on whole Arrow columns, and decides by minimum, maximum and null count whether a
row group can match. It knows neither files nor Spark; `sql/query/catalyst` builds predicates from filters.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any, Literal, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hudisql.errors import InvalidArgumentError
from hudisql.format.schema.column_path import ColumnPath, type_of_path

Operator: TypeAlias = Literal["=", "!=", "<", "<=", ">", ">=", "<=>"]

_MANY_VALUES = 1_000
_NEGATED: Mapping[str, Operator] = {"=": "!=", "!=": "=", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}
_SYMBOLS: Mapping[str, Callable[[Any, Any], Any]] = {
    "=": pc.equal,
    "!=": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}


@dataclass(frozen=True, slots=True)
class Comparison:
    """`column operator value`; `<=>` is null-safe equality. A None value makes the others NULL."""

    column: ColumnPath
    operator: Operator
    value: object

    def __str__(self) -> str:
        return f"{'.'.join(self.column)} {self.operator} {_literal(self.value)}"


@dataclass(frozen=True, slots=True)
class In:
    """`column IN (values)`; a None among the values makes a miss NULL."""

    column: ColumnPath
    values: tuple[object, ...]

    def __str__(self) -> str:
        return f"{'.'.join(self.column)} IN ({', '.join(_literal(value) for value in self.values)})"


@dataclass(frozen=True, slots=True)
class InSet:
    """`column IN (values)` for very many of them: sorted, distinct, none null."""

    column: ColumnPath
    values: pa.Array

    def __str__(self) -> str:
        return f"{'.'.join(self.column)} IN ({len(self.values)} values)"


@dataclass(frozen=True, slots=True)
class IsNull:
    """`column IS NULL`."""

    column: ColumnPath

    def __str__(self) -> str:
        return f"{'.'.join(self.column)} IS NULL"


@dataclass(frozen=True, slots=True)
class IsNotNull:
    """`column IS NOT NULL`."""

    column: ColumnPath

    def __str__(self) -> str:
        return f"{'.'.join(self.column)} IS NOT NULL"


@dataclass(frozen=True, slots=True)
class StartsWith:
    """`column LIKE 'prefix%'`, by bytes."""

    column: ColumnPath
    prefix: str

    def __str__(self) -> str:
        return f"{'.'.join(self.column)} STARTS WITH {_literal(self.prefix)}"


@dataclass(frozen=True, slots=True)
class And:
    """All parts (at least one)."""

    parts: tuple[Predicate, ...]

    def __str__(self) -> str:
        return "(" + " AND ".join(str(part) for part in self.parts) + ")"


@dataclass(frozen=True, slots=True)
class Or:
    """Any part (at least one)."""

    parts: tuple[Predicate, ...]

    def __str__(self) -> str:
        return "(" + " OR ".join(str(part) for part in self.parts) + ")"


@dataclass(frozen=True, slots=True)
class Not:
    """The negation; NULL stays NULL."""

    part: Predicate

    def __str__(self) -> str:
        return f"NOT {self.part}"


Predicate: TypeAlias = Comparison | In | InSet | IsNull | IsNotNull | StartsWith | And | Or | Not


@dataclass(frozen=True, slots=True)
class ColumnStatistics:
    """The statistics of one column in a row group's footer; None for missing ones.

    `minimum` and `maximum` bound the values that are neither null nor NaN, as Python values.
    """

    rows: int
    null_count: int | None = None
    minimum: Any = None
    maximum: Any = None


def conjunction(predicates: Iterable[Predicate]) -> Predicate | None:
    """One predicate that holds if all hold; None for none."""
    parts = tuple(part for predicate in predicates for part in split_conjuncts(predicate))
    if not parts:
        return None
    return parts[0] if len(parts) == 1 else And(parts)


def split_conjuncts(predicate: Predicate | None) -> tuple[Predicate, ...]:
    """The parts that must all hold, nested ANDs flattened."""
    if predicate is None:
        return ()
    if isinstance(predicate, And):
        return tuple(leaf for part in predicate.parts for leaf in split_conjuncts(part))
    return (predicate,)


def columns_of(predicate: Predicate | None) -> frozenset[ColumnPath]:
    """Every column path that the predicate looks at."""
    match predicate:
        case None:
            return frozenset()
        case And(parts) | Or(parts):
            return frozenset().union(*(columns_of(part) for part in parts))
        case Not(part):
            return columns_of(part)
        case _:
            return frozenset([predicate.column])


def values_of(predicate: Predicate) -> tuple[ColumnPath, Collection[object]]:
    """A column, and the values of which rows must have one; no column for other predicates."""
    match predicate:
        case Comparison(column, "=" | "<=>", value) if value is not None:
            return column, (value,)
        case In(column, values):
            return column, [value for value in values if value is not None]
        case _:
            return (), ()


def literals_of(predicate: Predicate) -> Iterator[object]:
    """Every value that the predicate compares a column with."""
    match predicate:
        case And(parts) | Or(parts):
            for part in parts:
                yield from literals_of(part)
        case Not(part):
            yield from literals_of(part)
        case Comparison(value=value):
            yield value
        case In(values=values):
            yield from values
        case InSet(values=values):
            yield from values.to_pylist()
        case StartsWith(prefix=prefix):
            yield prefix


def restrict_predicate(predicate: Predicate | None, columns: Collection[str]) -> Predicate | None:
    """The part of `predicate` on these top-level columns, never stronger than it; None if there is none."""
    if predicate is None:
        return None
    if all(path[0] in columns for path in columns_of(predicate)):
        return predicate
    if isinstance(predicate, And):
        kept = (restrict_predicate(part, columns) for part in predicate.parts)
        return conjunction(part for part in kept if part is not None)
    if isinstance(predicate, Or):
        parts = [restrict_predicate(part, columns) for part in predicate.parts]
        return None if any(part is None for part in parts) else Or(tuple(part for part in parts if part))
    return None


def bind_predicate(predicate: Predicate, schema: pa.Schema) -> Predicate | None:
    """The predicate with its values in the columns' own types, or None if they do not fit the schema.

    None means that the caller must read without the predicate, for example if a value does not fit its
    column's type.
    """
    match predicate:
        case And(parts) | Or(parts):
            bound = [bind_predicate(part, schema) for part in parts]
            if any(part is None for part in bound):
                return None
            return type(predicate)(tuple(part for part in bound if part is not None))
        case Not(part):
            inner = bind_predicate(part, schema)
            return None if inner is None else Not(inner)
    field_type = type_of_path(schema, predicate.column)
    if field_type is None:
        return None
    if isinstance(predicate, IsNull | IsNotNull):
        return predicate
    if pa.types.is_nested(field_type):
        return None
    try:
        if isinstance(predicate, Comparison):
            value = _python_value(predicate.value, field_type)
            return Comparison(predicate.column, predicate.operator, value)
        if isinstance(predicate, In):
            return In(predicate.column, tuple(_python_value(value, field_type) for value in predicate.values))
        if isinstance(predicate, InSet):
            return InSet(predicate.column, predicate.values.cast(field_type))
        return predicate if pa.types.is_string(field_type) else None
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return None


def matching_rows(predicate: Predicate, batch: pa.RecordBatch) -> pa.BooleanArray:
    """TRUE, FALSE or NULL for each row of the batch; a filter keeps the TRUE rows.

    Raises InvalidArgumentError if the batch lacks a column of the predicate.
    """
    match predicate:
        case And(parts):
            return reduce(pc.and_kleene, (matching_rows(part, batch) for part in parts))
        case Or(parts):
            return reduce(pc.or_kleene, (matching_rows(part, batch) for part in parts))
        case Not(part):
            return pc.invert(matching_rows(part, batch))
    column = _column_of(batch, predicate.column)
    match predicate:
        case IsNull():
            return pc.is_null(column)
        case IsNotNull():
            return pc.is_valid(column)
        case StartsWith(prefix=prefix):
            return pc.starts_with(column, pattern=prefix)
        case In(values=values):
            return _is_in(column, values)
        case InSet(values=values):
            return pc.is_in(column, value_set=_values_near(column, values))
        case Comparison(operator="<=>", value=value):
            if value is None:
                return pc.is_null(column)
            return pc.fill_null(_compare(column, "=", value), False)
        case Comparison(operator=operator, value=value):
            return _compare(column, operator, value)
    raise InvalidArgumentError(f"not a predicate: {predicate!r}")


def _values_near(column: pa.Array, values: pa.Array) -> pa.Array:
    """The sorted values within the column's bounds: Arrow hashes all given values on each call."""
    is_comparable = column.type == values.type and pa.types.is_integer(values.type)
    if len(values) < _MANY_VALUES or not is_comparable:
        return values
    extremes = pc.min_max(column)
    if not extremes["min"].is_valid:
        return values.slice(0, 0)
    numbers = values.to_numpy()
    # Bounds of another type would make numpy convert all values.
    low, high = (numbers.dtype.type(extremes[each].as_py()) for each in ("min", "max"))
    start, stop = int(np.searchsorted(numbers, low, "left")), int(np.searchsorted(numbers, high, "right"))
    return values.slice(start, stop - start)


def may_match(
    predicate: Predicate,
    statistics_of: Callable[[ColumnPath], ColumnStatistics | None],
    *,
    negated: bool = False,
) -> bool:
    """False only if the statistics prove that no row makes the predicate TRUE.

    `statistics_of` returns None for columns without statistics. With `negated`, the same for NOT predicate.
    """
    match predicate:
        case And(parts) | Or(parts):
            every = isinstance(predicate, And) != negated
            outcomes = (may_match(part, statistics_of, negated=negated) for part in parts)
            return all(outcomes) if every else any(outcomes)
        case Not(part):
            return may_match(part, statistics_of, negated=not negated)
    statistics = statistics_of(predicate.column)
    if statistics is None:
        return True
    if isinstance(predicate, IsNull | IsNotNull):
        return _may_be_null(statistics) if isinstance(predicate, IsNull) != negated else _may_hold(statistics)
    if isinstance(predicate, Comparison) and predicate.operator == "<=>":
        if negated:
            return True
        if predicate.value is None:
            return _may_be_null(statistics)
        return _may_hold(statistics) and _may_compare(statistics, "=", predicate.value)
    if not _may_hold(statistics):
        return False
    match predicate:
        case Comparison(operator=operator, value=value):
            return _may_compare(statistics, _NEGATED[operator] if negated else operator, value)
        case In(values=values) if not negated:
            return any(_may_compare(statistics, "=", value) for value in values)
        case InSet(values=values) if not negated:
            return _may_be_one_of(statistics, values)
        case StartsWith(prefix=prefix) if not negated:
            return _may_start_with(statistics, prefix)
    return True


def _may_be_null(statistics: ColumnStatistics) -> bool:
    return statistics.null_count is None or statistics.null_count > 0


def _may_hold(statistics: ColumnStatistics) -> bool:
    # Some row is not null.
    return statistics.null_count is None or statistics.null_count < statistics.rows


def _may_compare(statistics: ColumnStatistics, operator: str, value: Any) -> bool:
    if value is None:
        return False
    low, high = statistics.minimum, statistics.maximum
    if low is None or high is None or _is_nan(value) or _is_nan(low) or _is_nan(high):
        return True
    # NaN is above every number but counts in neither bound, so a floating column has no upper bound.
    unbounded = isinstance(high, float)
    try:
        match operator:
            case "=":
                return bool(low <= value <= high)
            case "<":
                return bool(low < value)
            case "<=":
                return bool(low <= value)
            case ">":
                return unbounded or bool(high > value)
            case ">=":
                return unbounded or bool(high >= value)
            case "!=":
                return unbounded or not (low == value == high)
    except TypeError:
        return True
    return True


def _may_be_one_of(statistics: ColumnStatistics, values: pa.Array) -> bool:
    low, high = statistics.minimum, statistics.maximum
    if low is None or high is None or _is_nan(low) or _is_nan(high):
        return bool(len(values))
    try:
        at = bisect_left(range(len(values)), low, key=lambda number: values[number].as_py())
        return at < len(values) and bool(values[at].as_py() <= high)
    except TypeError:
        return True


def _may_start_with(statistics: ColumnStatistics, prefix: str) -> bool:
    low, high = statistics.minimum, statistics.maximum
    if not isinstance(low, str) or not isinstance(high, str):
        return True
    wanted = prefix.encode()
    return low.encode()[: len(wanted)] <= wanted <= high.encode()[: len(wanted)]


def _compare(column: pa.Array, operator: str, value: Any) -> pa.BooleanArray:
    if value is None:
        return pa.nulls(len(column), pa.bool_())
    if not pa.types.is_floating(column.type):
        return _SYMBOLS[operator](column, pa.scalar(value, column.type))
    if _is_nan(value):
        is_nan = pc.is_nan(column)
        match operator:
            case "=" | ">=":
                return is_nan
            case "!=" | "<":
                return pc.invert(is_nan)
            case "<=":
                return pc.or_(is_nan, pc.invert(is_nan))
            case _:
                return pc.and_(is_nan, pc.invert(is_nan))
    outcome = _SYMBOLS[operator](column, pa.scalar(value, column.type))
    return pc.or_(outcome, pc.is_nan(column)) if operator in (">", ">=") else outcome


def _is_in(column: pa.Array, values: tuple[object, ...]) -> pa.BooleanArray:
    known = [value for value in values if value is not None]
    if pa.types.is_floating(column.type):
        found = reduce(
            pc.or_kleene,
            (_compare(column, "=", value) for value in known),
            pc.and_(pc.is_valid(column), pa.scalar(False)),
        )
    else:
        found = pc.is_in(column, value_set=pa.array(known, column.type))
    unknown = pc.is_null(column)
    if len(known) < len(values):
        unknown = pc.or_(unknown, pc.invert(pc.fill_null(found, False)))
    return pc.if_else(unknown, pa.scalar(None, pa.bool_()), found)


def _is_nan(value: object) -> bool:
    return isinstance(value, float) and math.isnan(value)


def _column_of(batch: pa.RecordBatch, path: ColumnPath) -> pa.Array:
    if path[0] not in batch.schema.names:
        raise InvalidArgumentError(f"a filter names the column '{'.'.join(path)}', which is not read")
    column = batch.column(path[0])
    for name in path[1:]:
        column = pc.struct_field(column, name)
    return column


def _python_value(value: object, column_type: pa.DataType) -> object:
    if isinstance(value, bool) != pa.types.is_boolean(column_type) and value is not None:
        raise TypeError("a boolean compares with booleans only")
    return None if value is None else pa.scalar(value, column_type).as_py()


def _literal(value: object) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return str(value)
