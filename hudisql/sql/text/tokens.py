"""The words and marks of a SQL text with their places, for code that edits spans of it.

Follows the lexical rules of Spark's SqlBaseLexer (strings, raw strings, backticked names, nested comments,
line comments that a backslash continues); hints (`/*+ … */`) are code, as they are for Spark. Knows no
grammar.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

TokenKind = Literal["word", "quoted", "string", "mark"]

STRINGS: Final = r"""(?P<raw>(?<!\w)[rR](?:'[^']*'|"[^"]*"))
      | (?P<string>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")"""
"""The groups of a verbose pattern that take a raw string and a string."""
LINE_COMMENT: Final = r"--(?:\\\n|[^\r\n])*"
"""The pattern of a line comment: a backslash at the end of a line continues it."""
_TOKEN = re.compile(
    r"""(?P<space>\s+|"""
    + LINE_COMMENT
    + r""")
      | (?P<hint>/\*\+|\*/)
      | (?P<comment>/\*)
      | """
    + STRINGS
    + r"""
      | (?P<quoted>`(?:[^`]|``)*`)
      | (?P<number>\d+\.\d*(?![\w`])|\.\d+(?!\w))
      | (?P<word>\w+)
      | (?P<mark>.)""",
    re.VERBOSE | re.DOTALL,
)
# Of comments within comments Spark does not count what begins as a hint.
_COMMENT_EDGE = re.compile(r"/\*(?!\+)|\*/")


@dataclass(frozen=True, slots=True)
class Token:
    """One token; `start` and `end` (exclusive) are offsets into the text."""

    kind: TokenKind
    text: str
    start: int
    end: int

    @property
    def is_name(self) -> bool:
        """True if the token can be a part of an identifier."""
        return self.kind in ("word", "quoted")

    @property
    def name(self) -> str:
        """The identifier that the token stands for, without its quotes."""
        if self.kind != "quoted":
            return self.text
        quote = self.text[0]
        return self.text[1:-1].replace(quote * 2, quote)

    def is_keyword(self, *keywords: str) -> bool:
        """True if the token is one of these unquoted words or marks (keywords in upper case)."""
        return self.kind in ("word", "mark") and self.text.upper() in keywords


class TokenCursor:
    """Reads tokens from left to right; `at` is the next token's index."""

    def __init__(self, tokens: Sequence[Token]) -> None:
        self.tokens = tokens
        self.at = 0

    def peek(self, ahead: int = 0) -> Token | None:
        """The next token, or one relative to it; None beyond either end."""
        index = self.at + ahead
        return self.tokens[index] if 0 <= index < len(self.tokens) else None

    def take(self) -> Token | None:
        """Read the next token; None at the end."""
        token = self.peek()
        self.at += token is not None
        return token

    def at_keyword(self, *words: str) -> bool:
        """True if these unquoted words or marks come next."""
        coming = self.tokens[self.at : self.at + len(words)]
        return len(coming) == len(words) and all(
            token.is_keyword(word) for token, word in zip(coming, words, strict=True)
        )

    def skip(self, *words: str) -> bool:
        """Skip these words if they come next."""
        found = self.at_keyword(*words)
        self.at += len(words) if found else 0
        return found

    def take_name(self) -> tuple[str, ...]:
        """Read a dotted name; empty if none comes next. A dot without a following name is not read."""
        parts: list[str] = []
        while (token := self.peek()) is not None and token.is_name:
            parts.append(token.name)
            self.at += 1
            behind = self.peek(1)
            if not self.at_keyword(".") or behind is None or not behind.is_name:
                break
            self.at += 1
        return tuple(parts)

    def skip_to(self, opening: Sequence[str], closing: Sequence[str], stops: Sequence[str]) -> None:
        """Skip to the first of `stops` outside of brackets and the like, or to the end."""
        depth = 0
        while (token := self.peek()) is not None:
            if depth == 0 and token.is_keyword(*stops):
                return
            depth += 1 if token.is_keyword(*opening) else -1 if token.is_keyword(*closing) else 0
            self.at += 1


def tokenize(text: str) -> list[Token]:
    """The tokens of `text` in order; white space and comments are left out. Never fails."""
    tokens: list[Token] = []
    offset = 0
    while offset < len(text):
        match = _TOKEN.match(text, offset)
        assert match is not None  # the last alternative takes anything
        kind, end = match.lastgroup, match.end()
        if kind == "comment":
            end = end_of_comment(text, offset) or len(text)
        elif kind in ("raw", "string"):
            tokens.append(Token("string", match.group(), offset, end))
        elif kind == "quoted":
            tokens.append(Token("quoted", match.group(), offset, end))
        elif kind == "word":
            tokens.append(Token("word", match.group(), offset, end))
        elif kind != "space":
            tokens.append(Token("mark", match.group(), offset, end))
        offset = end
    return tokens


def with_quoted_names(tokens: Sequence[Token]) -> list[Token]:
    """The tokens if double quotes hold names (`spark.sql.ansi.doubleQuotedIdentifiers`), not strings."""
    return [
        replace(token, kind="quoted") if token.kind == "string" and token.text[0] == '"' else token
        for token in tokens
    ]


def end_of_comment(text: str, start: int) -> int | None:
    """The end of the comment (`/*` at `start`), including nested ones; None if it is not closed."""
    depth = 1
    for edge in _COMMENT_EDGE.finditer(text, start + 2):
        depth += 1 if edge.group() == "/*" else -1
        if depth == 0:
            return edge.end()
    return None
