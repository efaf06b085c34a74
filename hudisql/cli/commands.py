"""The words of the command line that are no SQL: `quit`, `help`, `clear`, as in spark-sql and beeline.

They work in the shell, with or without a semicolon, and as a statement of a script. Knows no SQL.
"""

from __future__ import annotations

import sys
from enum import Enum, auto
from typing import Final

HELP: Final = """\
Statements end with ';' and may span several lines. BEGIN … END is one statement.
  quit, exit        leave the shell; in a script, end the script (Control-D leaves the shell, too)
  help              this text
  clear             clear the screen
  CALL help()       list the procedures; CALL help(cmd => 'bootstrap_table') explains one
  SHOW TABLES, DESCRIBE t, EXPLAIN …   as in Spark SQL
Documentation: README.md and docs/ (docs/limits.md lists what is not supported)."""


class ShellCommand(Enum):
    """A word that is no SQL."""

    QUIT = auto()
    HELP = auto()
    CLEAR = auto()


_WORDS: Final = {
    **dict.fromkeys(("quit", "exit", "\\q"), ShellCommand.QUIT),
    **dict.fromkeys(("help", "\\?"), ShellCommand.HELP),
    "clear": ShellCommand.CLEAR,
}


def find_shell_command(text: str) -> ShellCommand | None:
    """The command that a text is, in any case, with or without `!` before and `;` behind it."""
    return _WORDS.get(text.strip().rstrip(";").strip().removeprefix("!").lower())


def run_shell_command(command: ShellCommand) -> None:
    """Print the help text, or clear the terminal; QUIT is the caller's matter."""
    if command is ShellCommand.HELP:
        print(HELP, flush=True)
    elif command is ShellCommand.CLEAR and sys.stdout.isatty():
        print("\x1b[H\x1b[2J", end="", flush=True)
