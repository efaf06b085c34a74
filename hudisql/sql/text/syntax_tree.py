"""CALL and SHOW PARTITIONS by the syntax tree that sqlglot makes with our dialect, and their constants.

Importing it loads sqlglot. Constants are strings, numbers, booleans, NULL, arrays, maps, casts, dates,
timestamps and day-time intervals; anything else is refused with its position. Number types follow Spark: 1 is
an integer, 1.5 a decimal, 1e3 a double.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from typing import Any, Final, NoReturn

from sqlglot import exp
from sqlglot.errors import ParseError, TokenError

from hudisql.sql.text import dialect
from hudisql.sql.text import statements as st
from hudisql.sql.text.statement_cursor import StatementCursor

_UNIT_SECONDS: Final = {"WEEK": 604_800, "DAY": 86_400, "HOUR": 3_600, "MINUTE": 60, "SECOND": 1}
_FRACTIONAL_UNITS: Final = {"MILLISECOND": 1_000, "MICROSECOND": 1}


def parse_own_statement(cursor: StatementCursor) -> st.Statement:
    """The statement of the cursor's whole text. Raises SqlSyntaxError."""
    tree = _tree(cursor)
    if isinstance(tree, dialect.CallProcedure):
        return _call(cursor, tree)
    assert isinstance(tree, dialect.ShowPartitions)
    values = dict(_partition_value(cursor, expression) for expression in tree.expressions)
    return st.ShowPartitionsStatement(cursor.text, _name_of(tree.this), values)


def _tree(cursor: StatementCursor) -> exp.Expr:
    try:
        tree = dialect.parse(cursor.text)
    except TokenError as error:
        raise cursor.error_at(str(error).splitlines()[0], 0) from error
    except ParseError as error:
        _raise_parse_error(cursor, error)
    assert tree is not None
    return tree


def _raise_parse_error(cursor: StatementCursor, error: ParseError) -> NoReturn:
    details = error.errors[0] if error.errors else {}
    highlight = str(details.get("highlight") or "")
    offset = dialect.offset_of(cursor.text, details.get("line"), details.get("col"))
    problem = str(details.get("description") or error).rstrip(".")
    raise cursor.error_at(problem, offset, max(len(highlight), 1)) from error


def _call(cursor: StatementCursor, node: dialect.CallProcedure) -> st.Statement:
    positional: list[object] = []
    named: list[tuple[str, object]] = []
    for argument in node.expressions:
        is_named = isinstance(argument, exp.Kwarg)
        value = _constant(cursor, argument.expression if is_named else argument)
        if is_named:
            named.append((argument.this.name, value))
        elif named:
            _fail_at(cursor, argument, "a positional argument cannot follow a named one")
        else:
            positional.append(value)
    span = (cursor.tokens[0].start, cursor.tokens[-1].end)
    return st.CallStatement(cursor.text, str(node.this), tuple(positional), tuple(named), span)


def _partition_value(cursor: StatementCursor, node: exp.Expr) -> tuple[str, str | None]:
    if not isinstance(node, exp.EQ):
        cursor.at = len(cursor.tokens) - 1
        cursor.fail("a partition is given as column = value")
    value = _constant(cursor, node.expression)
    return node.this.name, None if value is None else str(value)


def _constant(cursor: StatementCursor, node: exp.Expr) -> object:
    try:
        return constant_value(node)
    except NotConstantError as error:
        _fail_at(cursor, node, str(error))


def _fail_at(cursor: StatementCursor, node: exp.Expr, problem: str) -> NoReturn:
    start, end = node.meta.get("start", 0), node.meta.get("end", 0)
    raise cursor.error_at(problem, start, end - start + 1)


def _name_of(node: exp.Expr) -> st.TableName:
    if not isinstance(node, exp.Table):
        return st.TableName((node.name,))
    return st.TableName(tuple(part.name for part in node.parts))


class NotConstantError(ValueError):
    """An expression is not a constant of a type that CALL supports; `node` is its position."""

    def __init__(self, message: str, node: exp.Expr) -> None:
        super().__init__(message)
        self.node = node


def constant_value(node: exp.Expr) -> object:
    """The Python value of a constant expression. Raises NotConstantError."""
    if isinstance(node, exp.Paren):
        return constant_value(node.this)
    if isinstance(node, exp.Null):
        return None
    if isinstance(node, exp.Boolean):
        return bool(node.this)
    if isinstance(node, exp.RawString):
        return str(node.this)
    if isinstance(node, exp.Literal):
        return str(node.this) if node.is_string else _number(str(node.this), node)
    if isinstance(node, exp.Neg):
        return _negated(node)
    if isinstance(node, exp.Array):
        return [constant_value(element) for element in node.expressions]
    if isinstance(node, exp.VarMap | exp.Map):
        return _map(node)
    if isinstance(node, exp.Cast):
        return _cast(node)
    if isinstance(node, exp.Interval):
        return _interval(node)
    if isinstance(node, exp.Column | exp.Identifier | exp.Dot):
        raise NotConstantError("a name is not a value here: put text in quotes", node)
    raise NotConstantError("only constants can be arguments of CALL", node)


def _number(text: str, node: exp.Expr) -> object:
    try:
        if "e" in text.lower():
            return float(text)
        return Decimal(text) if "." in text else int(text)
    except (ValueError, InvalidOperation):
        raise NotConstantError(f"'{text}' is not a number", node) from None


def _negated(node: exp.Neg) -> object:
    value = constant_value(node.this)
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal | datetime.timedelta):
        raise NotConstantError("only a number or an interval can be negative", node)
    return -value


def _map(node: exp.VarMap | exp.Map) -> dict[object, object]:
    keys, values = node.args.get("keys"), node.args.get("values")
    key_values = constant_value(keys) if keys else []
    entry_values = constant_value(values) if values else []
    assert isinstance(key_values, list)
    assert isinstance(entry_values, list)
    if len(key_values) != len(entry_values):
        raise NotConstantError("a map needs as many values as keys", node)
    return dict(zip(key_values, entry_values, strict=True))


def _timestamp(text: str) -> datetime.datetime:
    return datetime.datetime.fromisoformat(text.strip())


def _truth(text: str) -> bool:
    lowered = text.strip().lower()
    if lowered not in {"true", "t", "yes", "y", "1", "false", "f", "no", "n", "0"}:
        raise ValueError(text)
    return lowered in {"true", "t", "yes", "y", "1"}


_CASTS: Final[dict[str, Callable[[str], Any]]] = {
    **dict.fromkeys(("TINYINT", "SMALLINT", "INT", "BIGINT"), lambda text: int(Decimal(text))),
    **dict.fromkeys(("FLOAT", "DOUBLE"), float),
    "DECIMAL": Decimal,
    **dict.fromkeys(("TEXT", "VARCHAR", "CHAR"), str),
    "BOOLEAN": _truth,
    "DATE": lambda text: datetime.date.fromisoformat(text.strip()[:10]),
    **dict.fromkeys(("TIMESTAMP", "TIMESTAMPTZ", "TIMESTAMPLTZ", "TIMESTAMPNTZ"), _timestamp),
}


def _cast(node: exp.Cast) -> object:
    value = constant_value(node.this)
    target = node.to.this.name if hasattr(node.to.this, "name") else str(node.to.this)
    cast = _CASTS.get(str(target).upper())
    if cast is None:
        raise NotConstantError(f"a cast to {target} is not possible in CALL", node)
    if value is None:
        return None
    try:
        return cast(str(value))
    except (ValueError, InvalidOperation):
        raise NotConstantError(f"{value!r} cannot be cast to {target}", node) from None


def _interval(node: exp.Interval) -> datetime.timedelta:
    value = constant_value(node.this) if node.this else None
    unit = node.args.get("unit")
    if isinstance(unit, exp.IntervalSpan):
        return _day_time(str(value), unit, node)
    name = (unit.name if unit is not None else "").upper().removesuffix("S")
    try:
        amount = Decimal(str(value))
    except InvalidOperation:
        raise NotConstantError(f"'{value}' is not an interval", node) from None
    if name in _UNIT_SECONDS:
        return datetime.timedelta(microseconds=int(amount * _UNIT_SECONDS[name] * 1_000_000))
    if name in _FRACTIONAL_UNITS:
        return datetime.timedelta(microseconds=int(amount * _FRACTIONAL_UNITS[name]))
    raise NotConstantError("only intervals of weeks, days, hours, minutes and seconds have one length", node)


def _day_time(text: str, span: exp.IntervalSpan, node: exp.Expr) -> datetime.timedelta:
    units = ["DAY", "HOUR", "MINUTE", "SECOND"]
    first, last = span.this.name.upper(), span.expression.name.upper()
    numbers = text.strip().removeprefix("-").replace(" ", ":").split(":")
    if first not in units or last not in units or len(numbers) != units.index(last) - units.index(first) + 1:
        raise NotConstantError(f"'{text}' is not an interval {first} TO {last}", node)
    try:
        seconds = sum(
            Decimal(number) * _UNIT_SECONDS[unit]
            for number, unit in zip(numbers, units[units.index(first) :], strict=False)
        )
    except InvalidOperation:
        raise NotConstantError(f"'{text}' is not an interval {first} TO {last}", node) from None
    length = datetime.timedelta(microseconds=int(seconds * 1_000_000))
    return -length if text.strip().startswith("-") else length
