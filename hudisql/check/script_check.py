"""Checks scripts: split, variables, parse, and, above the level `parse`, bind.

Every statement is checked, even after errors in earlier ones. The level `parse` needs neither Spark nor a
metastore.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from hudisql.check.script_findings import ScriptFinding, finding_of
from hudisql.errors import HudisqlError, SqlSyntaxError
from hudisql.sql.dispatch import check_head
from hudisql.sql.text import clauses as cl
from hudisql.sql.text import statements as st
from hudisql.sql.text.parser import parse_statement
from hudisql.sql.text.script import (
    ScriptStatement,
    Variables,
    read_script,
    split_script,
    substitute_variables,
)
from hudisql.sql.text.shell_commands import ShellCommand, find_shell_command, refusal_in_scripts

if TYPE_CHECKING:
    from hudisql.check.statement_check import StatementCheck

LEVELS: Final = ("parse", "bind", "plan")
_MIGRATION: Final = re.compile(r"(?:[VU]\d[\d._]*|R)__")


@dataclass(frozen=True)
class ScriptFile:
    """A file to check; `name` is the path as it was given."""

    name: str
    text: str


def read_files(paths: Sequence[Path]) -> list[ScriptFile]:
    """The given files, and the `.sql` files below the given directories, in execution order.

    Raises InvalidArgumentError.
    """
    script_files: list[ScriptFile] = []
    for path in paths:
        files = sorted(path.rglob("*.sql"), key=_order) if path.is_dir() else [path]
        script_files += [ScriptFile(str(file), read_script(file)) for file in files]
    return script_files


def _order(path: Path) -> tuple[int, tuple[int, ...], str]:
    """Sort key: versions by their numbers, then repeatable scripts, then undo scripts, the latest first."""
    kind, _, rest = path.name.partition("__")
    numbers = kind[1:].replace("_", ".").split(".")
    if rest and kind[:1] in ("V", "U") and all(number.isdigit() for number in numbers):
        version = tuple(int(number) for number in numbers)
        return (0, version, "") if kind[0] == "V" else (2, tuple(-number for number in version), "")
    return (1, (), path.name)


def check_text(
    file: ScriptFile, variables: Mapping[str, str], checker: StatementCheck | None = None
) -> Iterator[ScriptFinding]:
    """The findings of a file; without `checker` those of the level `parse`.

    Positions are those in the file, before variables are substituted.
    """
    try:
        statements = split_script(file.text)
    except SqlSyntaxError as error:
        yield finding_of(error, file.name, ScriptStatement("", 1, 1))
        return
    known: dict[str, str] = dict(variables)
    is_migration = _MIGRATION.match(Path(file.name).name) is not None
    if checker is not None:
        checker.is_migration = is_migration
    for statement in statements:
        if (line := find_shell_command(statement.text)) is not None:
            if is_migration:
                message = f"'{statement.text}' is a command of the shell, not SQL"
                yield ScriptFinding(file.name, statement.line, statement.column, "unsupported", message)
            elif line.command is ShellCommand.QUIT:
                return
            elif (refusal := refusal_in_scripts(line)) is not None:
                yield ScriptFinding(file.name, statement.line, statement.column, "unsupported", refusal)
            continue
        others: list[ScriptFinding] = []
        if checker is not None:
            checker.problem = _collector(others, file.name, statement)
        try:
            _check_statement(statement, Variables(hivevar=known, hiveconf=known), checker)
        except HudisqlError as error:
            yield finding_of(error, file.name, statement)
        yield from others
        _learn_setting(statement.text, known)


def _check_statement(
    statement: ScriptStatement, variables: Variables, checker: StatementCheck | None
) -> None:
    where: Any = {"line": statement.line, "column": statement.column}
    text = substitute_variables(statement.text, variables, **where)
    parsed = parse_statement(text, **where)
    if isinstance(parsed, st.PassThroughStatement):
        check_head(parsed, **where)
    if checker is None:
        _read_clauses(parsed, where)
        return
    from hudisql.sql.query.references import UnplacedSyntaxError
    from hudisql.sql.text.spark_errors import SourceText, translate_spark_error, translated_spark_errors

    source = SourceText(parsed.text, statement.line, statement.column)
    try:
        with translated_spark_errors(source):
            checker.check(parsed, source)
    except UnplacedSyntaxError as error:
        cause = error.__cause__ or error
        raise translate_spark_error(cause, source) from cause


def _read_clauses(parsed: st.Statement, where: Any) -> None:
    """Read the clauses of a change of rows, and the arguments of a CALL, which hudisql parses itself."""
    if isinstance(parsed, st.CallStatement):
        from hudisql.check.procedure_arguments import bind_call

        bind_call(parsed)
    elif isinstance(parsed, st.MergeStatement):
        cl.read_merge(parsed, **where)
    elif isinstance(parsed, st.UpdateStatement):
        cl.read_update(parsed, **where)
    elif isinstance(parsed, st.DeleteStatement):
        cl.read_delete(parsed, **where)


def _collector(findings: list[ScriptFinding], file: str, statement: ScriptStatement) -> Any:
    def problem(code: str, message: str, hint: str | None) -> None:
        findings.append(ScriptFinding(file, statement.line, statement.column, code, message, hint))

    return problem


def _learn_setting(text: str, known: dict[str, str]) -> None:
    """Keep the variables of `SET hivevar:name=value` and `SET name=value` for later statements."""
    words = text.split(None, 1)
    if len(words) == 2 and words[0].upper() == "SET" and "=" in words[1]:
        name, _, value = words[1].partition("=")
        known[name.strip().strip("`").removeprefix("hivevar:")] = value.strip()
