"""Spark SQL for sqlglot, with the statements that stock sqlglot leaves as opaque commands turned into nodes.

CALL and SHOW PARTITIONS are parsed to the expression classes below. Nothing here is ever rendered back to
SQL: Spark runs the user's own text.
"""

from __future__ import annotations

from typing import Any, ClassVar, cast

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ParseError
from sqlglot.parsers.spark import SparkParser
from sqlglot.tokens import TokenType  # type: ignore[attr-defined]


class CallProcedure(exp.Expression):
    """`CALL a.b[(argument, …)]`: `name` is the dotted name, `arguments` hold expressions and `exp.Kwarg`s."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "expressions": False}


class ShowPartitions(exp.Expression):
    """`SHOW PARTITIONS t [PARTITION (column = value, …)]`."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "expressions": False}


_OPAQUE = ("CALL", "EXPLAIN", "SHOW", "MSCK REPAIR")


class HudiSqlParser(SparkParser):
    """Spark's parser with our statements before its own."""

    def _parse_statement(self) -> exp.Expr | None:
        if self._match_text_seq("CALL"):
            return self._parse_call()
        if self._match_text_seq("SHOW", "PARTITIONS"):
            return self._parse_show_partitions()
        return super()._parse_statement()

    def _parse_call(self) -> exp.Expr:
        parts = [self._parse_name_part()]
        while self._match(TokenType.DOT):
            parts.append(self._parse_name_part())
        arguments: list[exp.Expr] = []
        if self._match(TokenType.L_PAREN) and not self._match(TokenType.R_PAREN):
            arguments = self._parse_csv(self._parse_call_argument)
            self._match_r_paren()
        return CallProcedure(this=".".join(parts), expressions=arguments)

    def _parse_name_part(self) -> str:
        token = self._curr
        if not token or not (token.token_type == TokenType.IDENTIFIER or _is_word(token.text)):
            self.raise_error("Expected the name of a procedure")
        self._advance()
        return str(token.text)

    def _parse_call_argument(self) -> exp.Expr | None:
        name = None
        if self._curr and self._next and self._next.token_type == TokenType.FARROW:
            name = str(self._curr.text)
            self._advance(2)
        start = self._curr
        value = self._parse_assignment()
        if value is None:
            self.raise_error("Expected a value")
            return None
        if start:
            value.meta["start"], value.meta["end"] = start.start, self._prev.end
        return exp.Kwarg(this=exp.to_identifier(name, quoted=True), expression=value) if name else value

    def _parse_show_partitions(self) -> exp.Expr:
        table = self._parse_table_parts()
        values: list[exp.Expr] = []
        if self._match(TokenType.PARTITION):
            values = self._parse_wrapped_csv(self._parse_assignment)
        return ShowPartitions(this=table, expressions=values)


class HudiSql(Spark):
    """The dialect: Spark's tokens, but for the keywords that would swallow the rest of the statement."""

    class Tokenizer(Spark.Tokenizer):
        """Spark's tokens; SHOW, CALL and EXPLAIN are plain words."""

        KEYWORDS: ClassVar[dict[str, TokenType]] = {
            **{word: kind for word, kind in Spark.Tokenizer.KEYWORDS.items() if word not in _OPAQUE},
        }
        COMMANDS: ClassVar[set[TokenType]] = Spark.Tokenizer.COMMANDS - {TokenType.SHOW}

    Parser = HudiSqlParser


def parse(text: str) -> exp.Expr | None:
    """The syntax tree of one statement. Raises sqlglot's TokenError, ParseError."""
    dialect = HudiSql()
    trees = cast("list[Any]", dialect.parser().parse(dialect.tokenize(text), text))
    found = [tree for tree in trees if tree is not None and not isinstance(tree, exp.Semicolon)]
    if len(found) > 1:
        raise ParseError("more than one statement")
    return found[0] if found else None


def offset_of(text: str, line: int | None, column: int | None) -> int:
    """The offset at which sqlglot reports the token; the text's end if there is none."""
    for token in HudiSql().tokenize(text):
        if (token.line, token.col) == (line, column):
            return int(token.start)
    return len(text)


def _is_word(text: str) -> bool:
    return text.replace("_", "a").isalnum()
