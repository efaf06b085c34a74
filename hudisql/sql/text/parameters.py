"""Values for the parameter markers `:name` and `?` of a statement, as in `SparkSession.sql(text, args)`.

A marker is replaced by the value's literal before the text is parsed, as in Spark 4, so that every statement
can have parameters. Pure text: knows neither Spark nor the metastore.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Final

from hudisql.errors import InvalidArgumentError
from hudisql.sql.text.script import position_at
from hudisql.sql.text.tokens import Token, TokenCursor, tokenize

SqlArguments = Mapping[str, object] | Sequence[object]
_HINT: Final = "session.sql(text, {'name': value}) for :name, session.sql(text, [value, …]) for ?"


@dataclass(frozen=True)
class SqlExpression:
    """A parameter's value that is an expression of Spark SQL already."""

    text: str


def used_arguments(text: str, arguments: SqlArguments) -> SqlArguments:
    """The values that the statement has a marker for: `spark.sql` ignores the others."""
    names = [name for name, _, _ in _markers(tokenize(text))]
    if isinstance(arguments, Mapping):
        return {name: value for name, value in arguments.items() if name in names}
    return arguments[: names.count(None)]


def bind_parameters(text: str, arguments: SqlArguments) -> str:
    """`text` with each marker replaced: `:name` by the mapping's value, `?` by the sequence's next one.

    Values are None, bool, int, float, Decimal, str, bytes, date, datetime (with a time zone: an instant,
    without: as in the session's time zone), and lists and mappings of these. Raises InvalidArgumentError for
    a marker without a value, values without a marker, and values of other types.
    """
    if isinstance(arguments, str | bytes):
        raise InvalidArgumentError("args must be a mapping or a list, not text", hint=_HINT)
    markers = list(_markers(tokenize(text)))
    pieces, position = [], 0
    values = iter(()) if isinstance(arguments, Mapping) else iter(arguments)
    missing = object()
    for name, start, end in markers:
        value = next(values, missing) if name is None else missing
        if name is not None and isinstance(arguments, Mapping):
            value = arguments.get(name, missing)
        if value is missing:
            place = "line {}, column {}".format(*position_at(text, start))
            raise InvalidArgumentError(
                f"{place}: there is no value for the parameter {text[start:end]}", hint=_HINT
            )
        pieces += [text[position:start], sql_literal(value)]
        position = end
    if isinstance(arguments, Mapping):
        unknown = sorted(set(arguments) - {name for name, _, _ in markers if name is not None})
        if unknown:
            raise InvalidArgumentError(f"the statement has no parameter :{unknown[0]}", hint=_HINT)
    elif next(values, missing) is not missing:
        raise InvalidArgumentError(f"{len(arguments)} values are given for {len(markers)} parameters")
    return "".join([*pieces, text[position:]])


def sql_literal(value: object) -> str:
    """A Python value as an expression of Spark SQL. Raises InvalidArgumentError for other types."""
    match value:
        case SqlExpression(text):
            return f"({text})"
        case None:
            return "NULL"
        case bool():
            return "true" if value else "false"
        case int():
            return f"({value})" if -(2**31) <= value < 2**31 else f"({_long(value)})"
        case float():
            return f"({value!r}D)" if math.isfinite(value) else f"double('{value}')"
        case Decimal():
            if not value.is_finite():
                raise InvalidArgumentError(f"{value} is not a decimal of SQL")
            return f"({value:f}BD)"
        case str():
            return _text(value)
        case bytes():
            return f"X'{value.hex()}'"
        case datetime():
            zone = "TIMESTAMP" if value.tzinfo is None else "TIMESTAMP_LTZ"
            moment = value if value.tzinfo is None else value.astimezone(UTC)
            suffix = "" if value.tzinfo is None else "Z"
            return f"{zone}'{moment.replace(tzinfo=None).isoformat(sep=' ')}{suffix}'"
        case date():
            return f"DATE'{value.isoformat()}'"
        case Mapping():
            return (
                f"map({', '.join(f'{sql_literal(key)}, {sql_literal(item)}' for key, item in value.items())})"
            )
        case list() | tuple():
            return f"array({', '.join(map(sql_literal, value))})"
        case _:
            raise InvalidArgumentError(
                f"a value of type {type(value).__name__} cannot be a parameter of a statement",
                hint="give text, numbers, dates, timestamps, bytes, lists or mappings of these",
            )


def _long(value: int) -> str:
    return f"{value}L" if -(2**63) < value < 2**63 else f"{value}BD"


def _text(value: str) -> str:
    # The meaning of backslashes depends on spark.sql.parser.escapedStringLiterals, and `${name}` would be
    # substituted.
    if not any(mark in value for mark in "'\\$"):
        return f"'{value}'"
    return f"decode(X'{value.encode().hex()}', 'UTF-8')"


def _markers(tokens: list[Token]) -> list[tuple[str | None, int, int]]:
    """Each marker's name (None for `?`) and span."""
    found: list[tuple[str | None, int, int]] = []
    cursor = TokenCursor(tokens)
    while (token := cursor.peek()) is not None:
        if cursor.at_keyword("?"):
            found.append((None, token.start, token.end))
        elif cursor.at_keyword(":") and (name := _name_behind(cursor, token)) is not None:
            found.append((name.text, token.start, name.end))
        cursor.take()
    return found


def _name_behind(cursor: TokenCursor, colon: Token) -> Token | None:
    """The name of the marker whose colon is next; None for `a::int`, `v:field` and labels."""
    name, before = cursor.peek(1), cursor.peek(-1)
    if name is None or name.kind != "word" or name.start != colon.end:
        return None
    touches = before is not None and before.end == colon.start
    if touches and before is not None and (before.kind != "mark" or before.text in (":", ")", "]")):
        return None
    return name
