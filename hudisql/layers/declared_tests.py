"""Tests of a table's rows: queries that must return no rows, as files or declared by dbt's names.

`-- test: unique(id)` above a model's statement declares one; `_KINDS` lists the tests.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from hudisql.errors import InvalidArgumentError
from hudisql.format.schema.spark_schema import quote_name, quote_path
from hudisql.sql.text.script import ScriptStatement
from hudisql.sql.text.statement_cursor import StatementCursor
from hudisql.sql.text.tokens import tokenize

_DECLARATION: Final = re.compile(r"\s*--\s*test\s*:\s*(?P<text>.*?)\s*", re.IGNORECASE)
Value = tuple[str, ...] | str
"""An argument: the parts of a name, or the text of a literal."""


@dataclass(frozen=True)
class SqlFile:
    """One file of the project; `name` is its path below the directory."""

    path: Path
    name: str


@dataclass(frozen=True)
class DataTest:
    """A query that must return no rows; `reads` are the full names of the tables that it reads.

    `number` is its position in the file, a model's statement included. `names_all_tables` is false if some of
    `reads` are behind views, or more is read than they name.
    """

    name: str
    statement: ScriptStatement
    file: SqlFile
    reads: tuple[str, ...]
    number: int = 1
    names_all_tables: bool = True

    @property
    def place(self) -> str:
        """The file and the line."""
        return f"{self.file.path}:{self.statement.line}"


def declared_tests(
    table: str, file: SqlFile, lines: Sequence[str], qualify: Callable[[str], str]
) -> tuple[DataTest, ...]:
    """The tests that the comments above a model's statement declare. Raises InvalidArgumentError."""
    data_tests: dict[str, DataTest] = {}
    for number, line in enumerate(lines, start=1):
        match = _DECLARATION.fullmatch(line)
        if match is not None:
            data_test = _Declaration(table, file, number, match["text"], qualify).test()
            data_tests.setdefault(data_test.name, replace(data_test, number=len(data_tests) + 2))
    return tuple(data_tests.values())


@dataclass(frozen=True)
class _Declaration:
    table: str
    file: SqlFile
    line: int
    text: str
    qualify: Callable[[str], str]

    def test(self) -> DataTest:
        cursor = StatementCursor(self.text, tokenize(self.text), self.line, 1)
        kind = cursor.word().lower()
        if kind not in _KINDS:
            raise self.error(f"there is no test '{kind or self.text}'")
        cursor.at += 1
        values = list(self._values(cursor))
        columns = [value[0] for value in values if isinstance(value, tuple) and len(value) == 1]
        query, *others = _KINDS[kind](self, columns, values)
        reads = (self.table, *others)
        name = f"{kind}({self.text[self.text.index('(') + 1 : self.text.rindex(')')].strip()})"
        return DataTest(
            f"{self.table}: {name}", ScriptStatement(query, self.line), self.file, tuple(dict.fromkeys(reads))
        )

    def error(self, problem: str) -> InvalidArgumentError:
        return InvalidArgumentError(
            f"{self.file.path}:{self.line}: {problem}",
            hint="unique(column, …), not_null(column, …), accepted_values(column, 'value', …) and "
            "relationships(column, table.column) can be declared; for other tests write a query into tests/",
        )

    def _values(self, cursor: StatementCursor) -> Iterable[Value]:
        is_first = True
        while not cursor.skip(")"):
            if not cursor.skip("(" if is_first else ","):
                raise self.error(f"'{self.text}' cannot be read")
            yield self._value(cursor)
            is_first = False
        if not cursor.is_at_end:
            raise self.error(f"'{self.text}' cannot be read")

    def _value(self, cursor: StatementCursor) -> Value:
        sign = "-" if cursor.skip("-") else ""
        token = cursor.peek()
        if token is None:
            raise self.error(f"'{self.text}' cannot be read")
        if token.kind == "string" or token.text[0].isdigit() or token.text[0] == "." or sign:
            cursor.at += 1
            return sign + token.text
        parts = cursor.take_name()
        if not parts:
            raise self.error(f"'{self.text}' cannot be read")
        return parts


def _unique(declared: _Declaration, columns: list[str], values: list[Value]) -> tuple[str, ...]:
    names = _only_columns(declared, columns, values)
    known = " AND ".join(f"{name} IS NOT NULL" for name in names)
    return (
        f"SELECT {', '.join(names)}, count(*) AS `rows` FROM {quote_path(declared.table)} WHERE {known} "
        f"GROUP BY {', '.join(names)} HAVING count(*) > 1",
    )


def _not_null(declared: _Declaration, columns: list[str], values: list[Value]) -> tuple[str, ...]:
    names = _only_columns(declared, columns, values)
    unknown = " OR ".join(f"{name} IS NULL" for name in names)
    return (f"SELECT * FROM {quote_path(declared.table)} WHERE {unknown}",)


def _accepted_values(declared: _Declaration, columns: list[str], values: list[Value]) -> tuple[str, ...]:
    literals = [value for value in values[1:] if isinstance(value, str)]
    if len(columns) != 1 or len(literals) != len(values) - 1 or not literals:
        raise declared.error("accepted_values takes a column and the values that it may have")
    name = quote_name(columns[0])
    return (
        f"SELECT {name}, count(*) AS `rows` FROM {quote_path(declared.table)} "
        f"WHERE {name} NOT IN ({', '.join(literals)}) GROUP BY {name}",
    )


def _relationships(declared: _Declaration, columns: list[str], values: list[Value]) -> tuple[str, ...]:
    other = values[1] if len(values) == 2 else ()
    if len(columns) != 1 or not isinstance(other, tuple) or len(other) < 2:
        raise declared.error("relationships takes a column, and table.column of the table that must have it")
    parent = declared.qualify(".".join(map(quote_name, other[:-1])))
    child, key = quote_name(columns[0]), quote_name(other[-1])
    return (
        f"SELECT c.{child}, count(*) AS `rows` FROM {quote_path(declared.table)} AS c "
        f"LEFT ANTI JOIN {quote_path(parent)} AS p ON c.{child} = p.{key} WHERE c.{child} IS NOT NULL "
        f"GROUP BY c.{child}",
        parent,
    )


def _only_columns(declared: _Declaration, columns: list[str], values: list[Value]) -> list[str]:
    if not columns or len(columns) != len(values):
        raise declared.error(f"'{declared.text}' takes columns")
    return [quote_name(column) for column in columns]


_KINDS: Final[Mapping[str, Callable[[_Declaration, list[str], list[Value]], tuple[str, ...]]]] = {
    "unique": _unique,
    "not_null": _not_null,
    "accepted_values": _accepted_values,
    "relationships": _relationships,
}
