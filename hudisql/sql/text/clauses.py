"""The clauses of INSERT, UPDATE, DELETE and MERGE as spans of the user's text.

Reads the words between the expressions and leaves the expressions to Spark, so that they may be any valid
Spark SQL. Follows Spark's SqlBaseParser grammar of these statements. Knows no tables, no Spark.
With `quoted_names` double quotes hold a name, not a string.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from hudisql.sql.text.statement_cursor import StatementCursor
from hudisql.sql.text.statements import Statement
from hudisql.sql.text.tokens import with_quoted_names

_DEFAULT: Final = "DEFAULT"
_OPENING: Final = ("(", "[", "CASE")
_CLOSING: Final = (")", "]", "END")


@dataclass(frozen=True, slots=True)
class SourceSpan:
    """A part of the statement's text and the offset where it starts."""

    text: str
    start: int


@dataclass(frozen=True, slots=True)
class TargetClause:
    """The table that is changed: its name as written, and the alias, if any."""

    name: SourceSpan
    alias: str | None


@dataclass(frozen=True, slots=True)
class Assignment:
    """`column = value`; `column` has several parts for a field of a struct."""

    column: tuple[str, ...]
    value: SourceSpan
    start: int


@dataclass(frozen=True, slots=True)
class DeleteClauses:
    """`DELETE FROM target [WHERE condition]`."""

    target: TargetClause
    condition: SourceSpan | None


@dataclass(frozen=True, slots=True)
class UpdateClauses:
    """`UPDATE target SET assignments [WHERE condition]`."""

    target: TargetClause
    assignments: tuple[Assignment, ...]
    condition: SourceSpan | None


@dataclass(frozen=True, slots=True)
class InsertClauses:
    """`[WITH …] INSERT {INTO|OVERWRITE} target [PARTITION (…)] [(columns)|BY NAME] query`.

    The query provides the values of partition columns without a value (None). `prefix` is the WITH clause.
    """

    prefix: SourceSpan | None
    overwrite: bool
    partition: tuple[tuple[str, SourceSpan | None], ...]
    columns: tuple[str, ...] | None
    by_name: bool
    query: SourceSpan


@dataclass(frozen=True, slots=True)
class MergeAction:
    """One WHEN clause. `matched` is matched, not_matched or not_matched_by_source; `verb` UPDATE …

    `assignments` None stands for `*`; those of an INSERT are the columns with their values.
    """

    matched: str
    condition: SourceSpan | None
    verb: str
    assignments: tuple[Assignment, ...] | None
    start: int


@dataclass(frozen=True, slots=True)
class MergeClauses:
    """`[WITH …] MERGE [WITH SCHEMA EVOLUTION] INTO target USING source ON condition WHEN …`.

    `source` is without its alias, `column_names` the bracketed list behind that, if there is one.
    """

    prefix: SourceSpan | None
    target: TargetClause
    source: SourceSpan
    source_alias: str | None
    column_names: SourceSpan | None
    condition: SourceSpan
    actions: tuple[MergeAction, ...]
    evolves: bool = False

    @property
    def has_star(self) -> bool:
        """True if an action takes all columns of the source (`UPDATE SET *`, `INSERT *`)."""
        return any(action.assignments is None and action.verb != "DELETE" for action in self.actions)


def read_delete(
    statement: Statement, *, line: int = 1, column: int = 1, quoted_names: bool = False
) -> DeleteClauses:
    """The clauses of a DELETE. Raises SqlSyntaxError."""
    reader = _Reader(statement, line, column, quoted_names=quoted_names)
    reader.expect("DELETE")
    reader.expect("FROM")
    target = reader.target()
    condition = reader.rest() if reader.skip("WHERE") else None
    reader.expect_end()
    return DeleteClauses(target, condition)


def read_update(
    statement: Statement, *, line: int = 1, column: int = 1, quoted_names: bool = False
) -> UpdateClauses:
    """The clauses of an UPDATE. Raises SqlSyntaxError."""
    reader = _Reader(statement, line, column, quoted_names=quoted_names)
    reader.expect("UPDATE")
    target = reader.target()
    reader.expect("SET")
    assignments = reader.assignments(("WHERE",))
    condition = reader.rest() if reader.skip("WHERE") else None
    reader.expect_end()
    return UpdateClauses(target, assignments, condition)


def read_insert(
    statement: Statement, *, line: int = 1, column: int = 1, quoted_names: bool = False
) -> InsertClauses:
    """The clauses of an INSERT into one table. Raises SqlSyntaxError."""
    reader = _Reader(statement, line, column, quoted_names=quoted_names)
    if reader.at_keyword("FROM"):
        reader.fail("FROM … INSERT is not supported on a Hudi table: write INSERT … SELECT … FROM …")
    prefix = reader.with_clause("INSERT")
    reader.expect("INSERT")
    overwrite = reader.skip("OVERWRITE")
    if not overwrite:
        reader.expect("INTO")
    reader.skip("TABLE")
    reader.name()
    partition = reader.partition() if reader.skip("PARTITION") else ()
    if reader.skip("IF"):
        reader.fail("IF NOT EXISTS is not supported on a Hudi table")
    if reader.at_keyword("REPLACE"):
        reader.fail("REPLACE WHERE is not supported on a Hudi table: DELETE, then INSERT")
    by_name = reader.skip("BY", "NAME")
    columns = None if by_name else reader.columns()
    return InsertClauses(prefix, overwrite, partition, columns, by_name, reader.query())


def read_merge(
    statement: Statement, *, line: int = 1, column: int = 1, quoted_names: bool = False
) -> MergeClauses:
    """The clauses of a MERGE. Raises SqlSyntaxError."""
    reader = _Reader(statement, line, column, quoted_names=quoted_names)
    prefix = reader.with_clause("MERGE")
    reader.expect("MERGE")
    evolves = reader.skip("WITH", "SCHEMA", "EVOLUTION")
    reader.expect("INTO")
    target = reader.target()
    reader.expect("USING")
    source = reader.source()
    alias = reader.alias(("ON",))
    column_names = reader.brackets() if alias is not None else None
    reader.expect("ON")
    condition = reader.expression(("WHEN",))
    actions = []
    while reader.skip("WHEN"):
        actions.append(reader.action())
    if not actions:
        reader.fail("WHEN is missing")
    reader.expect_end()
    return MergeClauses(prefix, target, source, alias, column_names, condition, tuple(actions), evolves)


class _Reader(StatementCursor):
    """Reads the clauses of a statement."""

    def __init__(self, statement: Statement, line: int, column: int, *, quoted_names: bool) -> None:
        tokens = with_quoted_names(statement.tokens) if quoted_names else statement.tokens
        super().__init__(statement.text, tokens, line, column)

    def with_clause(self, verb: str) -> SourceSpan | None:
        """The common table expressions before the verb."""
        if not self.at_keyword("WITH"):
            return None
        return self.expression((verb,))

    def expression(self, stops: Sequence[str]) -> SourceSpan:
        """The text up to one of the words (or the end) outside of brackets and CASE … END."""
        first = self.at
        self.skip_to(_OPENING, _CLOSING, stops)
        if self.at == first:
            self.fail("an expression is missing")
        return self._span_from(first)

    def rest(self) -> SourceSpan:
        """The rest of the text."""
        return self.expression(())

    def query(self) -> SourceSpan:
        """The query that is left, the word DEFAULT as a value of its VALUES (…) replaced; offsets stay."""
        tokens = self.tokens[self.at :]
        query = self.rest()
        if not tokens[0].is_keyword("VALUES"):
            return query
        text, depth = query.text, 0
        for number, token in enumerate(tokens):
            depth += 1 if token.is_keyword("(") else -1 if token.is_keyword(")") else 0
            around = tokens[number - 1 : number + 2 : 2]
            if (
                depth == 1
                and token.is_keyword(_DEFAULT)
                and all(neighbour.is_keyword("(", ",", ")") for neighbour in around)
            ):
                start, end = token.start - query.start, token.end - query.start
                text = text[:start] + "NULL".ljust(len(_DEFAULT)) + text[end:]
        return replace(query, text=text)

    def name(self) -> SourceSpan:
        """A dotted name, or IDENTIFIER(…)."""
        first = self.at
        self._name_part()
        if self.tokens[first].is_keyword("IDENTIFIER") and self.at_keyword("("):
            self.skip_brackets()
        while self.skip("."):
            self._name_part()
        return self._span_from(first)

    def target(self) -> TargetClause:
        """A table with its alias."""
        name = self.name()
        return TargetClause(name, self.alias(("SET", "WHERE", "USING")))

    def alias(self, keywords: Sequence[str]) -> str | None:
        """`[AS] alias`, if present: a name that is not one of the keywords."""
        explicit = self.skip("AS")
        token = self.peek()
        if token is not None and token.is_name and (explicit or not token.is_keyword(*keywords)):
            self.at += 1
            return token.text
        if explicit:
            self.fail("an alias is missing")
        return None

    def source(self) -> SourceSpan:
        """A table's name, a bracketed query, or a table function's call."""
        first = self.at
        if self.at_keyword("("):
            self.skip_brackets()
        else:
            self.name()
            if self.at_keyword("("):
                self.skip_brackets()
        return self._span_from(first)

    def brackets(self) -> SourceSpan | None:
        """A bracketed part, if present."""
        if not self.at_keyword("("):
            return None
        first = self.at
        self.skip_brackets()
        return self._span_from(first)

    def partition(self) -> tuple[tuple[str, SourceSpan | None], ...]:
        """`(column [= value], …)`."""
        self.expect("(")
        found = []
        while True:
            name = self._name_part()
            found.append((name, self.expression((",", ")")) if self.skip("=") else None))
            if not self.skip(","):
                break
        self.expect(")")
        return tuple(found)

    def columns(self) -> tuple[str, ...] | None:
        """`(a, b, …)` if present and not a query."""
        before = self.at
        if not self.skip("("):
            return None
        names = []
        while (token := self.peek()) is not None and token.is_name:
            names.append(self._name_part())
            if self.skip(")"):
                return tuple(names)
            if not self.skip(","):
                break
        self.at = before
        return None

    def assignments(self, stops: Sequence[str]) -> tuple[Assignment, ...]:
        """`column = value, …` up to one of the words."""
        found = []
        while True:
            token = self.peek()
            start = len(self.text) if token is None else token.start
            path = [self._name_part()]
            while self.skip("."):
                path.append(self._name_part())
            self.expect("=")
            value = null_for_default(self.expression((",", *stops)))
            found.append(Assignment(tuple(path), value, start))
            if not self.skip(","):
                return tuple(found)

    def action(self) -> MergeAction:
        """What follows a WHEN."""
        start = self.tokens[self.at - 1].start
        matched = "not_matched" if self.skip("NOT") else "matched"
        self.expect("MATCHED")
        if matched == "not_matched" and self.skip("BY", "SOURCE"):
            matched = "not_matched_by_source"
        elif matched == "not_matched":
            self.skip("BY", "TARGET")
        condition = self.expression(("THEN",)) if self.skip("AND") else None
        self.expect("THEN")
        if self.skip("DELETE"):
            verb, assignments = "DELETE", None
        elif self.skip("UPDATE"):
            self.expect("SET")
            verb = "UPDATE"
            assignments = None if self.skip("*") else self.assignments(("WHEN",))
        elif self.skip("INSERT"):
            verb, assignments = "INSERT", self._inserted()
        else:
            self.fail("UPDATE, DELETE or INSERT is missing")
        if (verb == "INSERT") != (matched == "not_matched"):
            self.fail(f"{verb} cannot follow WHEN {matched.upper().replace('_', ' ')}")
        if verb == "UPDATE" and assignments is None and matched == "not_matched_by_source":
            self.fail("UPDATE SET * needs a source row")
        return MergeAction(matched, condition, verb, assignments, start)

    def _inserted(self) -> tuple[Assignment, ...] | None:
        if self.skip("*"):
            return None
        start = self.at
        columns = self.columns()
        if columns is None:
            self.fail("the columns are missing")
        self.expect("VALUES")
        self.expect("(")
        values = []
        while True:
            values.append(null_for_default(self.expression((",", ")"))))
            if not self.skip(","):
                break
        self.expect(")")
        if len(values) != len(columns):
            self.at = start
            self.fail(f"{len(columns)} columns, but {len(values)} values")
        offset = self.tokens[start].start
        return tuple(Assignment((name,), value, offset) for name, value in zip(columns, values, strict=True))

    def _name_part(self) -> str:
        token = self.peek()
        if token is None or not token.is_name:
            self.fail("a name is missing")
        self.at += 1
        return token.name

    def _span_from(self, first: int) -> SourceSpan:
        """The text from a token to the last one that was read."""
        start, end = self.tokens[first].start, self.tokens[self.at - 1].end
        return SourceSpan(self.text[start:end], start)


def null_for_default(value: SourceSpan) -> SourceSpan:
    """The value, with NULL for the word DEFAULT: columns of a Hudi table have no other default."""
    return replace(value, text="NULL") if value.text.upper() == _DEFAULT else value
