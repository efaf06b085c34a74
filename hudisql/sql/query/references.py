"""The tables that a SQL text reads, with their exact places, found by Spark's own parser.

Spark parses the text (`UnresolvedRelation` has the span of its name); names of common table expressions are
left out by Spark's scoping rules. Needs only a SparkSession: other modules decide which of the tables are
Hudi tables.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from hudisql.errors import SqlSyntaxError
from hudisql.spark.jvm import items_of, session_state
from hudisql.spark.versions import called_since, set_active_session
from hudisql.sql.query.hive_functions import called_hive_functions, provide_hive_functions
from hudisql.sql.text import statements as st
from hudisql.sql.text.spark_errors import SourceText, translate_spark_error
from hudisql.sql.text.tokens import Token, tokenize, with_quoted_names

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Span = tuple[int, int]
ReferenceForm = Literal["relation", "table", "argument", "subject", "function"]
TABLE_FUNCTIONS = frozenset(
    {"hudi_query", "hudi_table_changes", "hudi_query_timeline", "hudi_filesystem_view", "hudi_metadata"}
)
"""Hudi's table-valued functions, which Spark does not know."""


@dataclass(frozen=True)
class TimeTravel:
    """A `TIMESTAMP AS OF expression` or `VERSION AS OF version` clause after a table's name."""

    span: Span
    timestamp: str | None = None
    version: str | None = None


@dataclass(frozen=True)
class TableFunction:
    """The call of one of `TABLE_FUNCTIONS`, with the texts of its arguments."""

    name: str
    arguments: tuple[str, ...]


@dataclass(frozen=True)
class TableReference:
    """One place where a statement reads a table.

    `parts` is the name without backticks (empty if it is `identifier_expression`, not yet evaluated), `span`
    its offsets in the text (end exclusive). `form` is the kind of the place: a relation of a FROM clause, a
    `TABLE name` query, the argument of a table function, or the subject of a command (`CACHE TABLE name`, the
    target of a DML statement) that is not read as a part of a query, or the call of a `function`, whose name
    are the `parts`. `aliased` is true if columns cannot be qualified by the name itself; if not, an alias can
    be inserted at offset `alias_at`.
    """

    parts: tuple[str, ...]
    span: Span
    aliased: bool
    alias_at: int
    form: ReferenceForm = "relation"
    time_travel: TimeTravel | None = None
    options: tuple[tuple[str, str], ...] = ()
    identifier_expression: str | None = None
    function: TableFunction | None = None


@dataclass(frozen=True)
class StatementNames:
    """The tables that a statement reads, in order, and its aliases and CTE names (lower case).

    `tokens` are those of its text, if it reads tables; `selects` its unresolved SELECTs (JVM objects).
    """

    references: tuple[TableReference, ...]
    aliases: frozenset[str]
    tokens: Sequence[Token] = ()
    selects: Sequence[Any] = ()


def find_table_references(spark: SparkSession, text: str) -> tuple[TableReference, ...]:
    """Every table or view that `text` reads or changes through a query clause, in order of their positions.

    Names of CTEs are left out where they hide a table's. DDL subjects (`CREATE TABLE x`, `DROP TABLE x`) and
    the targets of INSERT are not relations to Spark's parser and not among them. Raises SqlSyntaxError with
    Spark's message if Spark cannot parse the text.
    """
    return find_names(spark, st.Statement(text), parse_plan(spark, text)).references


def find_names(spark: SparkSession, statement: st.Statement, plan: Any) -> StatementNames:
    """`find_table_references` of a parsed statement, with the aliases given in it."""
    ignores_case = str(spark.conf.get("spark.sql.caseSensitive")).lower() != "true"
    walk = _ReferenceWalk(statement.text, ignores_case)
    walk.visit(plan, frozenset(), aliased=False, alias_at=0, parent="")
    if not walk.found:
        return StatementNames((), frozenset(walk.aliases))
    tokens = statement.tokens
    if has_quoted_names(spark, statement.text):
        tokens = with_quoted_names(tokens)
    references = tuple(_with_form(found, tokens) for _, found in sorted(walk.found.items()))
    return StatementNames(references, frozenset(walk.aliases), tokens, walk.selects)


def has_quoted_names(spark: SparkSession, text: str) -> bool:
    """True if double quotes in `text` enclose names by the session's settings."""
    if '"' not in text:
        return False
    return bool(session_state(spark).conf().doubleQuotedIdentifiers())


class UnplacedSyntaxError(SqlSyntaxError):
    """Spark cannot parse a text; the caller adds the position in the script."""


def parse_plan(spark: SparkSession, text: str, source: SourceText | None = None) -> Any:
    """Spark's unresolved logical plan of a text (a JVM object).

    `source` maps the text to its script. Raises SqlSyntaxError, without `source` UnplacedSyntaxError.
    """
    from pyspark.errors import ParseException

    provide_hive_functions(spark, called_hive_functions(text))
    # The parser takes its settings from the thread's active session.
    set_active_session(spark)
    try:
        return session_state(spark).sqlParser().parsePlan(text)
    except ParseException as error:
        if source is None:
            raise UnplacedSyntaxError(translate_spark_error(error, SourceText(text)).message) from error
        raise translate_spark_error(error, source) from error


def replace_spans(text: str, replacements: Iterable[tuple[Span, str]]) -> str:
    """`text` with each span (they must not overlap) replaced; equal starts keep the order given."""
    pieces: list[str] = []
    position = 0
    for (start, end), new_text in sorted(replacements, key=lambda item: item[0]):
        assert start >= position, "replacements overlap"
        pieces += [text[position:start], new_text]
        position = end
    return "".join([*pieces, text[position:]])


def find_qualifiers(
    tokens: Sequence[Token],
    database: str,
    table: str,
    columns: Container[str],
    outside: Collection[Span],
) -> list[Span]:
    """The spans of `[spark_catalog.]database.table` that qualify a column or a `*`, or stand in a hint.

    `columns` are the table's columns in lower case; spans inside `outside` (the references themselves) are
    left out. A struct field path of the same form (`database.table.x` of a column `database`) is only
    recognized by `columns`, as Spark prefers the table's column, too.
    """
    wanted = [database.lower(), table.lower()]
    spans: list[Span] = []
    in_hint = False
    for position, token in enumerate(tokens):
        if token.text in ("/*+", "*/"):
            in_hint = token.text == "/*+"
        start = _qualifier_at(tokens, position, wanted)
        if start is None or any(begin <= token.start < end for begin, end in outside):
            continue
        following = tokens[position + 3 : position + 5]
        if _names_a_column(following, columns) or (in_hint and not _starts_with_dot(following)):
            spans.append((tokens[start].start, tokens[position + 2].end))
    return spans


def _qualifier_at(tokens: Sequence[Token], position: int, wanted: list[str]) -> int | None:
    """The start of the qualifier whose `database` token is at `position`, or None if there is none."""
    three = tokens[position : position + 3]
    if len(three) < 3 or not (three[0].is_name and _starts_with_dot(three[1:]) and three[2].is_name):
        return None
    if [three[0].name.lower(), three[2].name.lower()] != wanted:
        return None
    if not position or tokens[position - 1].text != ".":
        return position
    is_catalog = position >= 2 and tokens[position - 2].name.lower() == "spark_catalog"
    return position - 2 if is_catalog and (position < 3 or tokens[position - 3].text != ".") else None


def _names_a_column(following: Sequence[Token], columns: Container[str]) -> bool:
    if len(following) < 2 or not _starts_with_dot(following):
        return False
    return following[1].text == "*" or (following[1].is_name and following[1].name.lower() in columns)


def _starts_with_dot(tokens: Sequence[Token]) -> bool:
    return bool(tokens) and tokens[0].text == "."


def _with_form(found: TableReference, tokens: Sequence[Token]) -> TableReference:
    if found.form in ("subject", "function"):
        return found
    before = [token for token in tokens if token.end <= found.span[0]][-2:]
    if before and before[-1].is_keyword("TABLE"):
        # The word TABLE is replaced, too: `TABLE t` cannot have an alias.
        return replace(found, form="table", span=(before[-1].start, found.span[1]))
    if len(before) == 2 and before[0].is_keyword("TABLE") and before[1].is_keyword("("):
        return replace(found, form="argument")
    return found


class _ReferenceWalk:
    """Visits a parsed plan with its expressions' subqueries; collects references by position."""

    def __init__(self, text: str, ignores_case: bool) -> None:
        self._text = text
        self._ignores_case = ignores_case
        self.found: dict[int, TableReference] = {}
        self.aliases: set[str] = set()
        self.selects: list[Any] = []

    def visit(self, node: Any, hidden: frozenset[str], *, aliased: bool, alias_at: int, parent: str) -> None:
        """Visit a logical plan node; `hidden` are the CTE names in scope."""
        kind = node.getClass().getSimpleName()
        if kind == "UnresolvedRelation":
            self._add_relation(node, hidden, aliased, alias_at, parent)
        elif kind == "SubqueryAlias":
            self.aliases.add(str(node.alias()).lower())
        elif kind in ("Project", "Aggregate"):
            self.selects.append(node)
        elif kind == "RelationTimeTravel":
            self._add_time_travel(node, hidden, aliased, alias_at)
        elif kind == "UnresolvedWith":
            hidden = self._visit_definitions(node, hidden)
        elif kind == "PlanWithUnresolvedIdentifier" and parent and not node.children().size():
            self._add_identifier(node, aliased, alias_at)
        elif kind == "UnresolvedTableValuedFunction":
            self._add_function(node, aliased)
        for plan in _plans_held_aside(node, kind):
            self.visit(plan, hidden, aliased=False, alias_at=0, parent=kind)
        keeps = kind in ("UnresolvedSubqueryColumnAliases", "Sample", "GlobalLimit", "LocalLimit")
        if (
            keeps
            and (span := span_of(node))
            and self._text[span[0] : span[1]].upper().startswith("TABLESAMPLE")
        ):
            alias_at = max(alias_at, span[1])
        for child in items_of(node.children()):
            self.visit(
                child,
                hidden,
                aliased=kind == "SubqueryAlias" or (keeps and aliased),
                alias_at=alias_at if keeps else 0,
                parent=kind,
            )
        for subquery in items_of(node.subqueries()):
            self.visit(subquery, hidden, aliased=False, alias_at=0, parent="subquery")

    def _visit_definitions(self, node: Any, hidden: frozenset[str]) -> frozenset[str]:
        recursive = bool(called_since((4, 0), node, "allowRecursion", False))
        for definition in items_of(node.cteRelations()):
            name = self._folded(str(definition.productElement(0)))
            inside = hidden | {name} if recursive else hidden
            self.visit(
                definition.productElement(1), inside, aliased=False, alias_at=0, parent="UnresolvedWith"
            )
            hidden |= {name}
        return hidden

    def _folded(self, name: str) -> str:
        return name.lower() if self._ignores_case else name

    def _add_relation(
        self,
        node: Any,
        hidden: frozenset[str],
        aliased: bool,
        alias_at: int,
        parent: str,
        time_travel: TimeTravel | None = None,
    ) -> None:
        parts = tuple(str(part) for part in items_of(node.multipartIdentifier()))
        span = span_of(node)
        if span is None or (len(parts) == 1 and self._folded(parts[0]) in hidden):
            return
        options = _options_of(node)
        is_subject = parent == "CacheTable" or any(key.startswith("__required_write") for key, _ in options)
        self.found[span[0]] = TableReference(
            parts,
            span,
            aliased,
            max(alias_at, span[1], time_travel.span[1] if time_travel else 0),
            "subject" if is_subject else "relation",
            time_travel,
            options,
        )

    def _add_time_travel(self, node: Any, hidden: frozenset[str], aliased: bool, alias_at: int) -> None:
        span = span_of(node)
        assert span is not None
        timestamp = version = None
        if node.timestamp().isDefined():
            place = span_of(node.timestamp().get())
            timestamp = self._text[slice(*place)] if place else str(node.timestamp().get().sql())
        if node.version().isDefined():
            version = str(node.version().get())
        relation = node.relation()
        if relation.getClass().getSimpleName() == "UnresolvedRelation":
            travel = TimeTravel(span, timestamp, version)
            self._add_relation(relation, hidden, aliased, alias_at, "RelationTimeTravel", travel)

    def _add_function(self, node: Any, aliased: bool) -> None:
        name = ".".join(str(part) for part in items_of(node.name())).lower()
        span = span_of(node)
        if name not in TABLE_FUNCTIONS or span is None:
            return
        arguments, length = _call_arguments(self._text[slice(*span)])
        place = (span[0], span[0] + length)
        call = TableFunction(name, arguments)
        self.found[span[0]] = TableReference((name,), place, aliased, place[1], "function", function=call)

    def _add_identifier(self, node: Any, aliased: bool, alias_at: int) -> None:
        span = span_of(node)
        if span is None:
            return
        tokens = tokenize(self._text[slice(*span)])
        inner = self._text[span[0] + tokens[1].end : span[0] + tokens[-1].start]
        self.found[span[0]] = TableReference(
            (), span, aliased, max(alias_at, span[1]), identifier_expression=inner
        )


def _call_arguments(text: str) -> tuple[tuple[str, ...], int]:
    """The texts of the arguments of the call at the start of a text, and the length of the call."""
    depth, start = 0, 0
    arguments: list[str] = []
    for token in tokenize(text):
        if token.kind != "mark":
            continue
        if token.text in "([{":
            depth += 1
            start = token.end if depth == 1 else start
        elif token.text in ")]}":
            depth -= 1
        if (token.text == "," and depth == 1) or not depth:
            arguments.append(text[start : token.start].strip())
            start = token.end
        if not depth:
            return tuple(argument for argument in arguments if argument), token.end
    return tuple(arguments), len(text)


def _plans_held_aside(node: Any, kind: str) -> Iterator[Any]:
    # The `children` of these do not include their query.
    if kind == "ExplainCommand":
        yield node.logicalPlan()
    elif kind == "DescribeQueryCommand":
        yield node.plan()


def _options_of(node: Any) -> tuple[tuple[str, str], ...]:
    options = node.options()
    # py4j ends an iteration by an exception, which PySpark analyzes in dozens of calls.
    if options.isEmpty():
        return ()
    return tuple(sorted((str(key), str(value)) for key, value in options.asCaseSensitiveMap().items()))


def span_of(node: Any) -> Span | None:
    """The place of a node of Spark's plan in the parsed text, None for nodes that no text stands for."""
    # Spark counts code points, as Python does.
    origin = node.origin()
    start, stop = origin.startIndex(), origin.stopIndex()
    return (int(start.get()), int(stop.get()) + 1) if start.isDefined() and stop.isDefined() else None
