"""Scripts: reading a file, splitting its text into statements at `;`, and substituting `${variables}`.

Follows the lexical rules of Spark SQL (strings with backslash escapes, raw strings, backticked names, `--`
and nested bracketed comments), so that a `;` or `${` inside them has no effect. Pure text: knows no SQL
grammar beyond its tokens.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

from hudisql.errors import InvalidArgumentError, SqlSyntaxError, UndefinedVariableError
from hudisql.sql.text.tokens import LINE_COMMENT, STRINGS, end_of_comment

PieceKind = Literal["code", "string", "name", "comment", "semicolon"]
_VARIABLE = re.compile(r"\$\{(?:(?P<namespace>\w+):)?(?P<name>[^{}$]+)\}")
SCRIPT_ENCODING = "utf-8-sig"
"""UTF-8; editors on Windows write a byte order mark at the start."""
_MAX_SUBSTITUTIONS = 40  # as Hive's and Spark's VariableSubstitution
TRANSACTION_WORDS: Final = frozenset({"TRANSACTION", "TRAN", "WORK"})
_UNCOUNTED: Final = frozenset({"IF", "WHILE", "REPEAT", "FOR", "LOOP"})
_WORD: Final = re.compile(r"\w+|[^\s\w]")
# With the indentation that errors have, a line of a terminal of 80 columns.
_SHOWN_LETTERS: Final = 76


@dataclass(frozen=True)
class ScriptStatement:
    """One statement of a script: its text, and where it starts there (1-based line and column)."""

    text: str
    line: int = 1
    column: int = 1


@dataclass(frozen=True)
class Variables:
    """The values of `${name}` and `${namespace:name}`."""

    hivevar: Mapping[str, str] = field(default_factory=dict)
    hiveconf: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=lambda: os.environ)

    def lookup(self, namespace: str | None, name: str) -> str | None:
        """The value, or None. Without a namespace: hivevar, then hiveconf (Spark's and Hive's settings)."""
        if namespace is None:
            value = self.hivevar.get(name)
            return self.hiveconf.get(name) if value is None else value
        named: dict[str, Mapping[str, str]] = {
            "hivevar": self.hivevar,
            "hiveconf": self.hiveconf,
            "sparkconf": self.hiveconf,
            "spark": self.hiveconf,
            "conf": self.hiveconf,
            "env": self.environment,
        }
        return named.get(namespace.lower(), {}).get(name)


@dataclass(frozen=True)
class _Piece:
    kind: PieceKind
    start: int
    end: int


def read_script(path: Path) -> str:
    """The text of a script file. Raises InvalidArgumentError if it cannot be read or is not UTF-8."""
    try:
        return path.read_text(encoding=SCRIPT_ENCODING)
    except OSError as error:
        raise InvalidArgumentError(f"cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InvalidArgumentError(f"{path} is not UTF-8 text: {error}") from error


def split_script(text: str) -> list[ScriptStatement]:
    """The statements of a script in order, without their semicolons and without comment-only parts.

    A `BEGIN … END` block is one statement. Raises SqlSyntaxError, with line and column, for a string, name,
    comment or block that is not closed.
    """
    statements: list[ScriptStatement] = []
    start = 0
    significant: int | None = None
    for piece in _pieces_of_statements(text):
        if piece.kind == "semicolon":
            if significant is not None:
                statements.append(_statement(text, significant, piece.start))
            start, significant = piece.end, None
        elif significant is None and piece.kind != "comment":
            body = text[piece.start : piece.end]
            if body.strip():
                significant = max(start, piece.start + len(body) - len(body.lstrip()))
    if significant is not None:
        statements.append(_statement(text, significant, len(text)))
    return statements


def is_complete(text: str) -> bool:
    """True if the text ends with a `;` that ends a statement (or contains nothing but comments)."""
    try:
        pieces = [piece for piece in _pieces_of_statements(text) if text[piece.start : piece.end].strip()]
    except SqlSyntaxError:
        return False
    meaningful = [piece for piece in pieces if piece.kind != "comment"]
    return not meaningful or meaningful[-1].kind == "semicolon"


def substitute_variables(text: str, variables: Variables, *, line: int = 1, column: int = 1) -> str:
    """`text` with every `${…}` outside of comments replaced by its value, nested values too.

    `line` and `column` say where the text starts in its script. Raises UndefinedVariableError, which names
    the variable and its place, if one has no value or refers to itself.
    """
    if "${" not in text:
        return text
    comments = [piece for piece in _pieces(text) if piece.kind == "comment"]

    def value_of(match: re.Match[str]) -> str:
        if any(comment.start <= match.start() < comment.end for comment in comments):
            return match.group()
        return _resolve(match, variables, position_at(text, match.start(), line, column))

    return _VARIABLE.sub(value_of, text)


def position_at(text: str, offset: int, line: int = 1, column: int = 1) -> tuple[int, int]:
    """The 1-based (line, column) of an offset in a text that itself starts at `line` and `column`."""
    before = text[:offset]
    breaks = before.count("\n")
    if not breaks:
        return line, column + offset
    return line + breaks, offset - before.rfind("\n")


def marked_line(text: str, offset: int, length: int = 1) -> str:
    """The line of `text` at `offset`, and below it a line of carets under the marked part.

    Of a long line the part around the mark is shown: where a terminal wraps a line, carets would mark another
    row.
    """
    start = text.rfind("\n", 0, offset) + 1
    end = text.find("\n", offset)
    whole = text[start : len(text) if end < 0 else end].rstrip("\r")
    at = offset - start
    begin = max(0, min(at - _SHOWN_LETTERS // 2, len(whole) - _SHOWN_LETTERS))
    shown, at = whole[begin : begin + _SHOWN_LETTERS], at - begin
    length = max(1, min(length, len(shown) - at))
    if begin:
        shown = f"…{shown[1:]}"
    if begin + _SHOWN_LETTERS < len(whole):
        shown = f"{shown[:-1]}…"
    indent = "".join("\t" if letter == "\t" else " " for letter in shown[:at])
    return f"  {shown}\n  {indent}{'^' * length}"


def syntax_error(
    problem: str, text: str, offset: int, length: int = 1, *, line: int = 1, column: int = 1
) -> SqlSyntaxError:
    """A SqlSyntaxError with line, column and the marked text."""
    at_line, at_column = position_at(text, offset, line, column)
    return SqlSyntaxError(
        f"line {at_line}, column {at_column}: {problem}\n{marked_line(text, offset, length)}"
    )


def _statement(text: str, start: int, end: int) -> ScriptStatement:
    line, column = position_at(text, start)
    return ScriptStatement(text[start:end].rstrip(), line, column)


def _resolve(match: re.Match[str], variables: Variables, position: tuple[int, int]) -> str:
    value = match.group()
    for _ in range(_MAX_SUBSTITUTIONS):
        found = _VARIABLE.search(value)
        if found is None:
            return value
        replacement = variables.lookup(found["namespace"], found["name"])
        if replacement is None:
            raise UndefinedVariableError(
                f"line {position[0]}, column {position[1]}: the variable {found.group()} has no value",
                hint=_definition_hint(found["namespace"], found["name"]),
            )
        value = value[: found.start()] + replacement + value[found.end() :]
    raise UndefinedVariableError(
        f"line {position[0]}, column {position[1]}: the variable {match.group()} refers to itself"
    )


def _definition_hint(namespace: str | None, name: str) -> str:
    if namespace == "env":
        return f"set the environment variable {name}"
    if namespace in (None, "hivevar"):
        return f"give it with --hivevar {name}=VALUE"
    return f"give it with --hiveconf {name}=VALUE or --conf {name}=VALUE"


# One token a match: the alternatives are tried in this order, `code` matches everything else.
_TOKEN = re.compile(
    r"""(?P<line_comment>"""
    + LINE_COMMENT
    + r""")
      | (?P<block_comment>/\*)
      | """
    + STRINGS
    + r"""
      | (?P<name>`(?:[^`]|``)*`)
      | (?P<semicolon>;)
      | (?P<unclosed>['"`])
      | (?P<code>(?:[^-/'"`;rR]|-(?!-)|/(?!\*)|(?<=\w)[rR]|[rR](?!['"]))+|.)""",
    re.VERBOSE | re.DOTALL,
)


def _pieces(text: str) -> Iterator[_Piece]:
    offset = 0
    while offset < len(text):
        match = _TOKEN.match(text, offset)
        assert match is not None  # `.` matches anything
        kind, end = match.lastgroup, match.end()
        if kind == "unclosed":
            what = "name in backticks" if match.group() == "`" else "string"
            raise syntax_error(f"this {what} is not closed", text, offset)
        if kind == "block_comment":
            closed = end_of_comment(text, offset)
            if closed is None:
                raise syntax_error("this comment is not closed", text, offset, 2)
            end = closed
            yield _Piece("comment", offset, end)
        elif kind == "line_comment":
            yield _Piece("comment", offset, end)
        elif kind in ("raw", "string"):
            yield _Piece("string", offset, end)
        else:
            yield _Piece(kind, offset, end)  # type: ignore[arg-type]
        offset = end


def _pieces_of_statements(text: str) -> Iterator[_Piece]:
    """The pieces of a script, where semicolons within a block are code."""
    scanner, start = BlockScanner(), 0
    for piece in _pieces(text):
        if piece.kind == "semicolon":
            scanner.take_semicolon()
            if not scanner.is_open:
                scanner, start = BlockScanner(), piece.end
            else:
                piece = _Piece("code", piece.start, piece.end)
        elif piece.kind == "code":
            scanner.take_code(text[piece.start : piece.end])
        elif piece.kind != "comment":
            scanner.take_name()
        yield piece
    scanner.end()
    if scanner.is_open:
        offset = start + len(text[start:]) - len(text[start:].lstrip())
        raise syntax_error("this block is not closed: its END is missing", text, offset, 5)


class BlockScanner:
    """Scans one statement, piece by piece; `is_open` says whether it is inside a block."""

    def __init__(self) -> None:
        self._head: list[str] = []
        self._depth = 0
        self._previous = ""
        self._seen_end = False

    @property
    def is_open(self) -> bool:
        """True from the block's BEGIN to the word after its END."""
        return self._depth > 0

    def take_code(self, text: str) -> None:
        """Scan code without strings, comments, quoted names and semicolons."""
        if self._depth or len(self._head) < 3:
            for word in _WORD.findall(text):
                self._take(word.upper())

    def take_name(self) -> None:
        """Scan a quoted name or a string."""
        self._take("`")

    def take_semicolon(self) -> None:
        """Scan a semicolon. It ends the statement if the block is not open afterwards."""
        if self._previous == "BEGIN" and self._depth == 1:
            # In other dialects `BEGIN;` begins a transaction.
            self._depth = 0
        self._take(";")

    def _take(self, word: str) -> None:
        if self._depth:
            self._count(word)
        elif len(self._head) < 3:
            self._head.append(word)
            if word == "BEGIN" and (len(self._head) == 1 or self._head[1:2] == [":"]):
                self._depth = 1
        self._previous = word

    def _count(self, word: str) -> None:
        if self._previous == "BEGIN" and self._depth == 1 and word in TRANSACTION_WORDS:
            self._depth = 0
            return
        if self._seen_end:
            self._seen_end = False
            if word in _UNCOUNTED:
                return
            self._depth -= 1
            if word == "CASE" or not self._depth:
                return
        if self._previous in (".", "AS"):
            return
        if word == "END":
            self._seen_end = True
        elif word in ("BEGIN", "CASE"):
            self._depth += 1

    def end(self) -> None:
        """End of the text."""
        self.take_semicolon()
