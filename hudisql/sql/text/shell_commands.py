r"""The shell commands that are not SQL: `quit`, `help`, `source FILE`, `\d table` and the like.

As in spark-sql, beeline and psql, and by the names of duckdb (`.tables`). They work with or without a
semicolon; those that concern the screen only in the shell, the others as a statement of a script, too. Knows
no SQL but the statements that some of them stand for.
"""

from __future__ import annotations

import difflib
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
    SOURCE = auto()
    STATEMENT = auto()
    EXPANDED = auto()
    FORM = auto()
    LIMIT = auto()
    TIMING = auto()
    OUTPUT = auto()
    EDIT = auto()
    SYSTEM = auto()
    UNKNOWN = auto()


@dataclass(frozen=True)
class CommandLine:
    """A command with its argument: the file of SOURCE, the SQL of STATEMENT, the problem of UNKNOWN."""

    command: ShellCommand
    argument: str = ""


_WORDS: Final = {
    **dict.fromkeys(("quit", "exit", "\\q"), ShellCommand.QUIT),
    **dict.fromkeys(("help", "?", "\\?", "\\h"), ShellCommand.HELP),
    "clear": ShellCommand.CLEAR,
}
_SCREEN_WORDS: Final = {
    "\\x": ShellCommand.EXPANDED,
    **dict.fromkeys(("\\f", "\\pset"), ShellCommand.FORM),
    "\\limit": ShellCommand.LIMIT,
    "\\timing": ShellCommand.TIMING,
    "\\o": ShellCommand.OUTPUT,
    "\\e": ShellCommand.EDIT,
    "\\!": ShellCommand.SYSTEM,
}
_ADVICE_IN_SCRIPTS: Final = {
    ShellCommand.EXPANDED: "--format vertical does the same for scripts",
    ShellCommand.FORM: "--format FORM does the same for scripts",
    ShellCommand.LIMIT: "a script gets all rows; LIMIT in the query leaves some out",
    ShellCommand.TIMING: "scripts print their times unless -S is given",
    ShellCommand.OUTPUT: "redirect the output of a script: hudisql -f FILE > RESULTS",
    ShellCommand.EDIT: "edit the script",
    ShellCommand.SYSTEM: "run it before or after hudisql",
}
# duckdb's and sqlite's names.
_DOTTED: Final = {
    ".tables": "\\dt",
    ".databases": "\\l",
    ".schema": "\\d",
    **dict.fromkeys((".quit", ".exit"), "quit"),
    ".help": "help",
    ".read": "source",
    ".timer": "\\timing",
    ".mode": "\\f",
    ".output": "\\o",
    ".maxrows": "\\limit",
    ".edit": "\\e",
    **dict.fromkeys((".shell", ".system"), "\\!"),
}
_STATEMENTS: Final = {
    **dict.fromkeys(("\\l", "\\dn", "\\l+"), "SHOW DATABASES"),
    **dict.fromkeys(("\\d", "\\dt", "\\dt+"), "SHOW TABLES"),
    "\\dv": "SHOW VIEWS",
    "\\df": "CALL help()",
    **dict.fromkeys(("\\c", "\\conninfo"), "SELECT current_database()"),
}
_STATEMENTS_OF: Final = {
    "\\c": "USE {}",
    "\\d": "DESCRIBE TABLE {}",
    "\\d+": "DESCRIBE TABLE EXTENDED {}",
}
_SOURCE: Final = ("source", "\\i")
_NAME: Final = re.compile(r"[\w.`$-]+")
_PATTERN: Final = re.compile(r"[\w*|$-]+")
_ADVICE: Final = {
    "\\copy": "INSERT OVERWRITE DIRECTORY … writes a query's rows, --format csv prints them",
    "\\set": "SET hivevar:name=value, used as ${name}",
    "\\g": "a statement runs at its ';'",
    "\\p": "the key Up shows the last statement",
    "\\r": "Control-C drops what was typed",
    "\\s": "Control-R searches the history",
    "\\w": "\\e opens the last statement in $EDITOR",
    "\\du": "hudisql serve --users has the users",
    "\\di": "CALL show_metadata_table_stats(table => '…') and \\d+ TABLE describe a table's indexes",
    ".import": "CALL bootstrap_table(…), or INSERT INTO … SELECT * FROM csv.`file`",
    ".dump": "SHOW CREATE TABLE, and --format csv",
    ".open": "hudisql --warehouse DIR",
}

_LISTED: Final = "help lists the commands"


def find_shell_command(text: str) -> CommandLine | None:
    r"""The command of a text, in any case, with or without `!` before and `;` after it; None for SQL.

    What begins as a command (`\`, `.`, `!`) and is none has the kind UNKNOWN.
    """
    line = text.strip().rstrip(";").strip()
    if "\n" in line:
        return None
    if line.startswith("!"):
        return _find(line[1:].strip()) or CommandLine(ShellCommand.SYSTEM, line[1:].strip())
    return _find(line) or _unknown(line)


def refusal_in_scripts(line: CommandLine) -> str | None:
    """Why a script cannot have the command; None if it can."""
    if line.command is ShellCommand.UNKNOWN:
        return line.argument
    if line.command not in _ADVICE_IN_SCRIPTS:
        return None
    names = [name for name, command in _SCREEN_WORDS.items() if command is line.command]
    return f"{names[0]} works in the shell only; {_ADVICE_IN_SCRIPTS[line.command]}"


def _find(line: str) -> CommandLine | None:
    word, _, rest = line.partition(" ")
    word, argument = word.lower(), rest.strip()
    word = _DOTTED.get(word, word)
    if word in _SCREEN_WORDS:
        if word == "\\pset":
            argument = argument.removeprefix("format").strip()
        return CommandLine(_SCREEN_WORDS[word], argument)
    if not argument:
        if word in _STATEMENTS:
            return CommandLine(ShellCommand.STATEMENT, _STATEMENTS[word])
        return CommandLine(_WORDS[word]) if word in _WORDS else None
    if word in _SOURCE:
        return CommandLine(ShellCommand.SOURCE, _without_quotes(argument))
    statement = _statement_of(word, argument)
    return None if statement is None else CommandLine(ShellCommand.STATEMENT, statement)


def _statement_of(word: str, argument: str) -> str | None:
    if word == "\\dt" and _PATTERN.fullmatch(argument):
        return f"SHOW TABLES LIKE {quote_string(argument)}"
    if not _NAME.fullmatch(argument):
        return None
    if word == "\\df":
        return f"CALL help(cmd => {quote_string(argument)})"
    return _STATEMENTS_OF[word].format(argument) if word in _STATEMENTS_OF else None


def _unknown(line: str) -> CommandLine | None:
    """The answer to what looks like a command and is none; None for anything else."""
    word = line.split(None, 1)[0].lower() if line else ""
    if not re.match(r"\\\S|\.[a-z]", word):
        return None
    known = [*_WORDS, *_SCREEN_WORDS, *_STATEMENTS, *_STATEMENTS_OF, *_SOURCE, *_DOTTED]
    if word in known:
        problem = f"{word} does not take '{line[len(word) :].strip()}'; {_LISTED}"
        return CommandLine(ShellCommand.UNKNOWN, problem)
    advice = _ADVICE.get(word.rstrip("+"), _LISTED)
    if advice is _LISTED and (near := difflib.get_close_matches(word, known, n=1, cutoff=0.75)):
        advice = f"did you mean {near[0]}?"
    return CommandLine(ShellCommand.UNKNOWN, f"there is no command {word}; {advice}")


def _without_quotes(path: str) -> str:
    return path[1:-1] if len(path) > 1 and path[0] == path[-1] and path[0] in "'\"" else path
