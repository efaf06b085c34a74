"""Hudi's meta columns of tables whose entries omit them: `*` leaves them out, a query may still name them.

A reference to such a table is read without the meta columns, unless its query block names one. Then it is
read with them, and each `*` over it becomes the list of the table's own columns. Knows neither tables nor
the metastore: it finds the places in a text.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from hudisql.errors import UnsupportedStatementError
from hudisql.format.schema.meta_columns import META_COLUMNS
from hudisql.format.schema.spark_schema import quote_name
from hudisql.spark.jvm import class_name, items_of
from hudisql.sql.query.references import Span, span_of
from hudisql.sql.text.tokens import Token

_BLOCK_KEYWORDS: Final = ("SELECT", "WITH", "FROM", "TABLE")
_TRANSPARENT: Final = ("Filter", "Sample", "UnresolvedHint", "UnresolvedHaving")
# Scala names classes of objects so.
_LEFT_ONLY_JOINS: Final = ("LeftSemi$", "LeftAnti$")


@dataclass(frozen=True)
class _StarSource:
    """A relation in a FROM clause: `at` is the offset of a table's name, `qualifier` its name or alias."""

    at: int | None
    qualifier: str


@dataclass(frozen=True)
class _Star:
    """A `*` or `t.*` (`target` is `t`), and the relations of its FROM clause.

    `is_list` is False if the columns are not those of the relations one after the other.
    """

    span: Span
    target: str | None
    sources: tuple[_StarSource, ...]
    is_list: bool

    def covered(self, offsets: Container[object]) -> tuple[_StarSource, ...]:
        """The relations at these offsets whose columns the star stands for."""
        target = self.target and self.target.lower()
        return tuple(
            source
            for source in self.sources
            if source.at in offsets and target in (None, source.qualifier.lower())
        )


def names_meta_column(tokens: Sequence[Token], at: int) -> bool:
    """True if the query block of the table reference at offset `at` names a meta column."""
    return any(token.is_name and token.name.lower() in META_COLUMNS for token in _query_block(tokens, at))


def _query_block(tokens: Sequence[Token], at: int) -> Sequence[Token]:
    """The tokens of the innermost parentheses around `at` that hold a query, or all tokens."""
    opened: list[int] = []
    for position, token in enumerate(tokens):
        if token.start >= at:
            break
        if token.text == "(":
            opened.append(position)
        elif token.text == ")" and opened:
            opened.pop()
    starts = [opening for opening in opened if tokens[opening + 1].is_keyword(*_BLOCK_KEYWORDS)]
    if not starts:
        return tokens
    depth = 0
    for position in range(starts[-1], len(tokens)):
        depth += {"(": 1, ")": -1}.get(tokens[position].text, 0)
        if depth == 0:
            return tokens[starts[-1] : position]
    return tokens[starts[-1] :]


def list_own_columns(
    selects: Sequence[Any], columns: Mapping[int, Sequence[str]], aliases: Mapping[int, str]
) -> dict[Span, str]:
    """The text for each star over one of the tables named at the offsets of `columns`, their own columns.

    `selects` are unresolved plans (JVM objects), `aliases` names of tables that replace those in the text.
    Raises UnsupportedStatementError for a `*` over columns that a join merges.
    """
    found = {}
    for star in _find_stars(selects):
        covered = star.covered(columns)
        if not covered:
            continue
        if not star.is_list and (star.target is None or len(covered) > 1):
            raise UnsupportedStatementError(
                f"* cannot leave out the meta columns of {covered[0].qualifier} here, in a query that names "
                "one of them",
                hint="name the columns, or put the * into a subquery of its own",
            )
        pieces: list[str] = []
        for source in star.sources if star.target is None else covered:
            known = None if source.at is None else columns.get(source.at)
            qualifier = aliases.get(-1 if source.at is None else source.at, source.qualifier)
            names = ["*"] if known is None else map(quote_name, known)
            pieces += [f"{quote_name(qualifier)}.{name}" for name in names]
        found[star.span] = ", ".join(pieces)
    return found


def _find_stars(selects: Sequence[Any]) -> list[_Star]:
    """The stars in the select lists, but for `count(*)`."""
    stars = []
    for select in selects:
        is_list, sources = _sources(select.children().apply(0))
        for star in _stars(items_of(select.expressions())):
            span = span_of(star)
            if span is not None:
                is_plain = class_name(star) == "UnresolvedStar"
                stars.append(_Star(span, _target(star), sources, is_list and is_plain))
    return stars


def _stars(expressions: Iterable[Any]) -> Iterator[Any]:
    for expression in expressions:
        kind = class_name(expression)
        if kind.startswith("UnresolvedStar"):
            yield expression
        elif not (kind == "UnresolvedFunction" and _counts_rows(expression)):
            yield from _stars(items_of(expression.children()))


def _counts_rows(function: Any) -> bool:
    names = [str(part).lower() for part in items_of(function.nameParts())]
    arguments = items_of(function.arguments())
    return (
        names == ["count"]
        and not function.isDistinct()
        and any(
            class_name(argument) == "UnresolvedStar" and argument.target().isEmpty() for argument in arguments
        )
    )


def _target(star: Any) -> str | None:
    return None if star.target().isEmpty() else [str(part) for part in items_of(star.target().get())][-1]


def _sources(node: Any) -> tuple[bool, tuple[_StarSource, ...]]:
    """Whether the columns of a FROM clause are those of its relations one after the other, and these."""
    kind = class_name(node)
    if kind in ("UnresolvedRelation", "RelationTimeTravel"):
        return True, (_table_source(node, None),)
    if kind == "SubqueryAlias":
        return True, (_table_source(node.child(), str(node.alias())),)
    children = list(items_of(node.children()))
    if kind == "Join" and class_name(node.joinType()) in _LEFT_ONLY_JOINS:
        return _sources(children[0])
    if kind == "Join" and class_name(node.joinType()) in ("UsingJoin", "NaturalJoin"):
        kind = "merged columns"
    if kind in ("Project", "Aggregate"):
        return False, ()
    child_sources = [_sources(child) for child in children]
    is_list = kind in ("Join", "OneRowRelation", *_TRANSPARENT) and all(
        is_plain for is_plain, _ in child_sources
    )
    sources = tuple(source for _, some in child_sources for source in some)
    names = [source.qualifier.lower() for source in sources]
    return is_list and len(set(names)) == len(names), sources


def _table_source(node: Any, alias: str | None) -> _StarSource:
    while class_name(node) in _TRANSPARENT:
        node = node.children().apply(0)
    if class_name(node) == "RelationTimeTravel":
        node = node.relation()
    if class_name(node) != "UnresolvedRelation":
        return _StarSource(None, alias or "")
    span = span_of(node)
    parts = [str(part) for part in items_of(node.multipartIdentifier())]
    return _StarSource(None if span is None else span[0], alias or parts[-1])
