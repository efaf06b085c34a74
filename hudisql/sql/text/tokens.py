"""The words and marks of a SQL text with their places, for code that edits spans of it.

Follows the lexical rules of Spark's SqlBaseLexer (strings, raw strings, backticked names, nested comments);
hints (`/*+ … */`) are code, as they are for Spark. Knows no grammar.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal

TokenKind = Literal["word", "quoted", "string", "mark"]

STRINGS: Final = r"""(?P<raw>(?<![\w`])[rR](?:'[^']*'|"[^"]*"))
      | (?P<string>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")"""
"""The groups of a verbose pattern that take a raw string and a string."""
_TOKEN = re.compile(
    r"""(?P<space>\s+|--[^\r\n]*)
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
_COMMENT_EDGE = re.compile(r"/\*|\*/")


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


def tokenize(text: str, *, quoted_names: bool = False) -> list[Token]:
    """The tokens of `text` in order; white space and comments are left out. Never fails.

    With `quoted_names` double quotes hold a name (`spark.sql.ansi.doubleQuotedIdentifiers`), not a string.
    """
    tokens: list[Token] = []
    offset = 0
    while offset < len(text):
        match = _TOKEN.match(text, offset)
        assert match is not None  # the last alternative takes anything
        kind, end = match.lastgroup, match.end()
        if kind == "comment":
            end = end_of_comment(text, offset) or len(text)
        elif kind in ("raw", "string"):
            is_name = quoted_names and match.group().startswith('"')
            tokens.append(Token("quoted" if is_name else "string", match.group(), offset, end))
        elif kind == "quoted":
            tokens.append(Token("quoted", match.group(), offset, end))
        elif kind == "word":
            tokens.append(Token("word", match.group(), offset, end))
        elif kind != "space":
            tokens.append(Token("mark", match.group(), offset, end))
        offset = end
    return tokens


def end_of_comment(text: str, start: int) -> int | None:
    """Where the comment ends that starts with `/*` at `start`, others nested in it; None if nowhere."""
    depth = 0
    for edge in _COMMENT_EDGE.finditer(text, start):
        depth += 1 if edge.group() == "/*" else -1
        if depth == 0:
            return edge.end()
    return None
