r"""The shell commands that are not SQL: `quit`, `help`, `source FILE`, `\d table` and the like.

As in spark-sql, beeline and psql. They work in the shell, with or without a semicolon, and as a statement of
a script that the command line runs. Knows no SQL but the statements that some of them stand for.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from hudisql.sql_literals import quote_string


class ShellCommand(Enum):
    """The kind of a shell command."""

    QUIT = auto()
    HELP = auto()
    CLEAR = auto()
    VERTICAL = auto()
    SOURCE = auto()
    STATEMENT = auto()


@dataclass(frozen=True)
class CommandLine:
    """A command with its argument: the file of SOURCE, the SQL of STATEMENT."""

    command: ShellCommand
    argument: str = ""


_WORDS: Final = {
    **dict.fromkeys(("quit", "exit", "\\q"), ShellCommand.QUIT),
    **dict.fromkeys(("help", "\\?", "\\h"), ShellCommand.HELP),
    "clear": ShellCommand.CLEAR,
    "\\x": ShellCommand.VERTICAL,
}
_STATEMENTS: Final = {"\\l": "SHOW DATABASES", "\\d": "SHOW TABLES", "\\df": "CALL help()"}
_STATEMENTS_OF: Final = {"\\c": "USE {}", "\\d": "DESCRIBE TABLE {}", "\\d+": "DESCRIBE TABLE EXTENDED {}"}
_SOURCE: Final = ("source", "\\i")
_NAME: Final = re.compile(r"[\w.`$-]+")


def find_shell_command(text: str) -> CommandLine | None:
    """The command of a text, in any case, with or without `!` before and `;` after it; None for SQL."""
    line = text.strip().rstrip(";").strip().removeprefix("!")
    word, _, rest = line.partition(" ")
    word, argument = word.lower(), rest.strip()
    if not argument:
        if word in _STATEMENTS:
            return CommandLine(ShellCommand.STATEMENT, _STATEMENTS[word])
        return CommandLine(_WORDS[word]) if word in _WORDS else None
    if word in _SOURCE and "\n" not in argument:
        return CommandLine(ShellCommand.SOURCE, _without_quotes(argument))
    if _NAME.fullmatch(argument):
        if word == "\\df":
            return CommandLine(ShellCommand.STATEMENT, f"CALL help(cmd => {quote_string(argument)})")
        if word in _STATEMENTS_OF:
            return CommandLine(ShellCommand.STATEMENT, _STATEMENTS_OF[word].format(argument))
    return None


def _without_quotes(path: str) -> str:
    return path[1:-1] if len(path) > 1 and path[0] == path[-1] and path[0] in "'\"" else path
