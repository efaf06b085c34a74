"""The tokens of one statement, read from left to right, and errors that mark their position in it.

The parser of statements and the readers of their clauses share it. It knows names, but no other grammar.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

from hudisql.context import split_identifier
from hudisql.sql.text import statements as st
from hudisql.sql.text.script import syntax_error
from hudisql.sql.text.tokens import Token, TokenCursor


class StatementCursor(TokenCursor):
    """A cursor over a statement's tokens; it starts at `line` and `column` of its script."""

    def __init__(self, text: str, tokens: Sequence[Token], line: int, column: int) -> None:
        super().__init__(tokens)
        self.text = text
        self.line = line
        self.column = column

    @property
    def is_at_end(self) -> bool:
        """True if no token is left."""
        return self.at >= len(self.tokens)

    def word(self, ahead: int = 0) -> str:
        """The upper-case text of the next word or mark; empty for a quoted name, a string or the end."""
        token = self.peek(ahead)
        return token.text.upper() if token is not None and token.kind in ("word", "mark") else ""

    def skip_one_of(self, *words: str) -> str:
        """Skip the next word if it is one of these; empty if it is not."""
        word = self.word()
        return word if word in words and self.skip(word) else ""

    def expect(self, word: str) -> None:
        """Skip the word. Raises SqlSyntaxError if another comes next."""
        if not self.skip(word):
            self.fail(f"{word} is missing")

    def expect_end(self) -> None:
        """Raise SqlSyntaxError if tokens are left."""
        if not self.is_at_end:
            self.fail("this is not expected here")

    def skip_brackets(self) -> None:
        """Skip a bracketed part, which comes next, with its closing bracket."""
        self.at += 1
        self.skip_to("(", ")", (")",))
        if not self.skip(")"):
            self.fail("a bracket is not closed")

    def table_name(self) -> st.TableName:
        """A dotted name, or IDENTIFIER('…') with literal text."""
        if self.at_keyword("IDENTIFIER", "("):
            literal = self.peek(2)
            if literal is None or literal.text[0] not in "'\"" or self.word(3) != ")":
                self.fail("IDENTIFIER needs literal text here")
            self.at += 4
            return st.TableName(split_identifier(literal.text[1:-1]))
        parts = [self.name_part()]
        while self.skip("."):
            parts.append(self.name_part())
        return st.TableName(tuple(parts))

    def bracketed_names(self) -> tuple[str, ...]:
        """Skip a list of names in brackets. Raises SqlSyntaxError."""
        self.expect("(")
        names = [self.name_part()]
        while self.skip(","):
            names.append(self.name_part())
        self.expect(")")
        return tuple(names)

    def name_part(self) -> str:
        """Skip a name; a double-quoted one, too: only the session knows whether that is a string."""
        token = self.peek()
        if token is None:
            self.fail("a name is missing")
        is_quoted = token.kind == "string" and token.text.startswith('"')
        if not token.is_name and not is_quoted:
            self.fail("this is not a name")
        self.at += 1
        return token.text[1:-1] if is_quoted else token.name

    def fail(self, problem: str) -> NoReturn:
        """Raise SqlSyntaxError at the next token."""
        token = self.peek()
        start, length = (len(self.text), 1) if token is None else (token.start, token.end - token.start)
        raise self.error_at(problem, start, length)

    def error_at(self, problem: str, offset: int, length: int = 1) -> Exception:
        """A SqlSyntaxError that marks this part of the text."""
        return syntax_error(problem, self.text, offset, length, line=self.line, column=self.column)
