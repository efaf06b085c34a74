"""Runs scripts from the command line: statement by statement, writing results and counting errors.

Results go to standard output, everything else to the console and standard error. A failed statement stops the
run unless `--force` is given. A closed reader of the output (head, less) does not stop it: what the
statements do must not depend on the reader.
"""

from __future__ import annotations

import io
import sys
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from hudisql.cli.display import Display, FormDisplay
from hudisql.cli.interrupts import is_interrupt, statement_jobs
from hudisql.cli.job_progress import job_progress
from hudisql.cli.stopwatch import Stopwatch
from hudisql.errors import (
    BootstrapBlockedError,
    HudisqlError,
    InvalidArgumentError,
    RollbackRefusedError,
    SettingsError,
)
from hudisql.sql.text.script import SCRIPT_ENCODING, ScriptStatement, read_script, split_script
from hudisql.sql.text.shell_commands import (
    CommandLine,
    ShellCommand,
    find_shell_command,
    refusal_in_scripts,
)

if TYPE_CHECKING:
    from hudisql.session import Session

EXIT_OK = 0
EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_BLOCKED = 3
EXIT_CONFLICT = 4
EXIT_INTERRUPTED = 130
EXIT_CODES: Final[Mapping[int, str]] = {
    EXIT_OK: "all statements succeeded",
    EXIT_FAILED: "a statement failed, or a model or a test of `hudisql run`, or a service of "
    "`services run --once`, `verify_bootstrap` or `verify_iceberg` found a difference, a table of "
    "`ingest status` is not well, one of `ingest drain` may still be written to, `check` found something, or "
    "the metastore does not answer",
    EXIT_USAGE: "bad usage: an unknown option or setting, a bad value, a file that cannot be read; "
    "nothing was run",
    EXIT_BLOCKED: "a bootstrap has blockers, a rollback would lose rows, in a dry run or not, DROP TABLE "
    "would delete files that the table has not made, or a table of `hudisql run` cannot become what its file "
    "says; nothing was written or removed",
    EXIT_CONFLICT: "`hudisql migrate`: the scripts do not agree with their history; nothing was run",
    EXIT_INTERRUPTED: "interrupted by Control-C; `services run --once` and `hudisql run` without "
    "--watch by SIGTERM, too",
}
"""What each exit code means. With --force it is the gravest of all statements: 130, then 1, then 3."""
# A shorter wait is that for a Spark that runs.
_LEAST_START_SECONDS: Final = 0.1
_BY_GRAVITY: Final = (EXIT_OK, EXIT_BLOCKED, EXIT_CONFLICT, EXIT_FAILED, EXIT_USAGE, EXIT_INTERRUPTED)
HELP: Final = """\
Statements end with ';' and may span several lines. BEGIN … END is one statement.
  quit, exit        leave the shell; in a script, end the script (Control-D leaves the shell, too)
  help, \\?          this text
  clear             clear the screen
  source FILE, \\i   run the statements of a file
  \\l                databases        \\c DATABASE    use a database
  \\d, \\dt           tables           \\d TABLE       columns of a table, \\d+ TABLE with its properties
  \\df               procedures       \\df NAME       parameters and output of a procedure
  CALL help()       list the procedures; CALL help(cmd => 'bootstrap_table') explains one
  SHOW TABLES, DESCRIBE t, EXPLAIN …   as in Spark SQL
In the shell:
  \\x [on|off|auto]  one column a line: on, off, or where a table would be too wide (the default)
  \\f FORM           form of the results: table, csv, tsv, json, jsonl, vertical
  \\limit [N|off]    how many rows of a query are fetched (10000)
  \\timing [on|off]  time of each statement
  \\o [FILE]         results go to a file; without one to the screen again
  \\e                edit the last statement in $EDITOR
  !COMMAND          run a command of the system
Documentation: README.md and docs/ (docs/limits.md lists what is not supported)."""


@dataclass(frozen=True)
class Script:
    """Text to run; `name` says where it came from, `shows_results` is false for init files.

    `sources` are the files that include it, the innermost last: a file cannot include itself.
    """

    text: str
    name: str
    shows_results: bool = True
    sources: tuple[Path, ...] = ()


def script_of(path: Path, *, shows_results: bool = True, sources: tuple[Path, ...] = ()) -> Script:
    """The script of a file that is included from `sources`. Raises InvalidArgumentError."""
    return Script(read_script(path), str(path), shows_results, (*sources, path.resolve()))


@dataclass(frozen=True)
class BatchOptions:
    """How to run: the results' form, echo of statements, timing lines, going on after errors."""

    form: str = "table"
    silent: bool = False
    verbose: bool = False
    force: bool = False


@dataclass(frozen=True)
class Ended:
    """How a script ended: its exit code, and whether it ran `quit`."""

    code: int
    has_quit: bool = False


def display_for(options: BatchOptions) -> Display:
    """How a script's results are shown: for people if they are tables on a terminal."""
    from hudisql.cli.terminal_display import TERMINAL_FORMS, TerminalDisplay

    if options.form in TERMINAL_FORMS and sys.stdout.isatty():
        return TerminalDisplay(options.form)
    return FormDisplay(options.form)


def run_scripts(session: Session, scripts: list[Script], options: BatchOptions) -> int:
    """Run the scripts in order; the exit code. A failed init file always ends the run."""
    exit_code, display = EXIT_OK, display_for(options)
    for script in scripts:
        code = run_script(session, script, options, display).code
        exit_code = graver(exit_code, code)
        goes_on = options.force and script.shows_results and code != EXIT_INTERRUPTED
        if code != EXIT_OK and not goes_on:
            break
    return exit_code


def graver(code: int, other: int) -> int:
    """The more severe of two exit codes."""
    return max(code, other, key=_BY_GRAVITY.index)


def run_script(session: Session, script: Script, options: BatchOptions, display: Display) -> Ended:
    """Run one script, to its end, to `quit` or to the first failed statement."""
    try:
        statements = split_script(script.text)
    except HudisqlError as error:
        print_error(error, script.name)
        return Ended(EXIT_FAILED)
    exit_code = EXIT_OK
    for statement in statements:
        line = find_shell_command(statement.text)
        if line is not None and line.command is ShellCommand.QUIT:
            return Ended(exit_code, has_quit=True)
        if line is None:
            code = run_statement(session, statement, script, options, display)
        else:
            code = _run_command(session, line, statement, script, options, display)
        exit_code = graver(exit_code, code)
        if code == EXIT_INTERRUPTED or (code != EXIT_OK and not options.force):
            break
    return Ended(exit_code)


def _run_command(
    session: Session,
    line: CommandLine,
    statement: ScriptStatement,
    script: Script,
    options: BatchOptions,
    display: Display,
) -> int:
    place = f"{script.name}, line {statement.line}"
    if line.command is ShellCommand.STATEMENT:
        return run_statement(session, replace(statement, text=line.argument), script, options, display)
    if line.command is ShellCommand.SOURCE:
        return _run_source(session, line.argument, place, script, options, display)
    refusal = refusal_in_scripts(line)
    if refusal is not None:
        print_error(refusal, place)
        return EXIT_FAILED
    if line.command is ShellCommand.HELP:
        print(HELP, flush=True)
    elif line.command is ShellCommand.CLEAR and sys.stdout.isatty():
        print("\x1b[H\x1b[2J", end="", flush=True)
    return EXIT_OK


def _run_source(
    session: Session, file: str, place: str, script: Script, options: BatchOptions, display: Display
) -> int:
    try:
        path = Path(file).expanduser()
        is_running = path.resolve() in script.sources
    except (RuntimeError, ValueError, OSError) as error:
        # No such user's `~`, links in a circle, a zero byte.
        print_error(f"cannot read {file}: {error}", place)
        return EXIT_FAILED
    if is_running:
        print_error(f"{file} is being run already: a script cannot run itself", place)
        return EXIT_FAILED
    try:
        inner = script_of(path, shows_results=script.shows_results, sources=script.sources)
    except InvalidArgumentError as error:
        print_error(error, place)
        return EXIT_FAILED
    return run_script(session, inner, options, display).code


def run_statement(
    session: Session,
    statement: ScriptStatement,
    script: Script,
    options: BatchOptions,
    display: Display,
) -> int:
    """Run one statement and write its rows; the exit code. Errors are printed, not raised.

    Errors of starting Spark or the metastore are raised: no other statement would run.

    A failed check (`Result.error`) fails the statement after its rows.
    """
    place = f"{script.name}, line {statement.line}"
    if options.verbose:
        print(statement.text, file=sys.stderr, flush=True)
    stopwatch = Stopwatch(session)
    shown: str | None = ""
    try:
        with statement_jobs(session):
            with job_progress(session), stopwatch.running():
                result = session.execute(statement)
                shows = result.has_rows and script.shows_results
                write = display.fetch(result) if shows else None
            if write is not None:
                shown = write(None if options.silent else stopwatch.seconds)
    except HudisqlError as error:
        if session.could_not_start(error):
            raise
        if is_interrupt(error):
            print("interrupted", file=sys.stderr, flush=True)
            return EXIT_INTERRUPTED
        print_error(error, place)
        return exit_code_of(error)
    except Exception as error:
        if options.verbose:
            traceback.print_exc()
        advice = "" if options.verbose else "; -v shows where"
        print_error(
            f"hudisql itself failed: {type(error).__name__}: {error}{advice}",
            place,
        )
        return EXIT_FAILED
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr, flush=True)
        return EXIT_INTERRUPTED
    if result.error is not None:
        print_error(result.error, place)
        return exit_code_of(result.error)
    if not options.silent:
        _print_times(stopwatch, shown)
    return EXIT_OK


def _print_times(stopwatch: Stopwatch, shown: str | None) -> None:
    """Say how long the statement took, and apart from it the start that it was the first to wait for."""
    if stopwatch.start_seconds >= _LEAST_START_SECONDS:
        waited = f"{stopwatch.start_seconds:.2f} s"
        print(f"Waited {waited} for the start of Spark and the metastore", file=sys.stderr, flush=True)
    if shown is not None:
        rows = f", {shown}" if shown else ""
        print(f"Time taken: {stopwatch.seconds:.2f} s{rows}", file=sys.stderr, flush=True)


def exit_code_of(error: HudisqlError) -> int:
    """3 if the statement was blocked before it wrote or removed anything, 1 for all other errors."""
    return EXIT_BLOCKED if isinstance(error, BootstrapBlockedError | RollbackRefusedError) else EXIT_FAILED


def print_error(error: BaseException | str, place: str = "") -> None:
    """Print an error on standard error, with where it happened."""
    where = f" ({place})" if place else ""
    print(f"ERROR{where}: {error}", file=sys.stderr, flush=True)


def read_standard_input() -> str:
    """The script on standard input. Raises SettingsError if it is not UTF-8."""
    if isinstance(sys.stdin, io.TextIOWrapper):
        # UTF-8 as for files, not the locale's encoding, so that a script means the same either way.
        sys.stdin.reconfigure(encoding=SCRIPT_ENCODING, errors="strict")
    try:
        return sys.stdin.read()
    except UnicodeDecodeError as error:
        raise SettingsError(f"standard input is not UTF-8 text: {error}") from error
