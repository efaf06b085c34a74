"""The shell commands that are not SQL, and their help text."""

from __future__ import annotations

import sys
from typing import Final

from hudisql.sql.text.shell_commands import CommandLine as CommandLine
from hudisql.sql.text.shell_commands import ShellCommand as ShellCommand
from hudisql.sql.text.shell_commands import find_shell_command as find_shell_command

HELP: Final = """\
Statements end with ';' and may span several lines. BEGIN … END is one statement.
  quit, exit        leave the shell; in a script, end the script (Control-D leaves the shell, too)
  help              this text
  clear             clear the screen
  source FILE       run the statements of a file
  \\l                databases        \\c DATABASE    use a database
  \\d                tables           \\d TABLE       columns of a table, \\d+ TABLE with its properties
  \\df               procedures       \\df NAME       parameters and output of a procedure
  \\x                one column a line, on or off (in the shell)
  CALL help()       list the procedures; CALL help(cmd => 'bootstrap_table') explains one
  SHOW TABLES, DESCRIBE t, EXPLAIN …   as in Spark SQL
Documentation: README.md and docs/ (docs/limits.md lists what is not supported)."""


def run_shell_command(command: ShellCommand) -> None:
    """Print the help text, or clear the terminal; the caller runs the other commands."""
    if command is ShellCommand.HELP:
        print(HELP, flush=True)
    elif command is ShellCommand.CLEAR and sys.stdout.isatty():
        print("\x1b[H\x1b[2J", end="", flush=True)
