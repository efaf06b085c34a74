"""Running scripts from the command line: statement by statement, results out, errors counted.

Results go to standard output, everything else to the console and standard error. A failed statement stops
the run unless it is forced on; a reader of the output that leaves (head, less) does not: what the statements
do must not depend on who looks on.
"""

from __future__ import annotations

import os
import sys
import time
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TextIO

from hudisql.cli.commands import ShellCommand, find_shell_command, run_shell_command
from hudisql.cli.interrupts import is_interrupt, statement_jobs
from hudisql.cli.output import write_result
from hudisql.errors import BootstrapBlockedError, HudisqlError, RollbackRefusedError
from hudisql.sql.text.script import ScriptStatement, split_script

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
    EXIT_FAILED: "a statement failed, or a service of `services run --once`, `verify_bootstrap` found that a "
    "table does not match its source, `check` found something, or the metastore does not answer",
    EXIT_USAGE: "bad usage: an unknown option or setting, a bad value, a file that cannot be read; "
    "nothing was run",
    EXIT_BLOCKED: "a bootstrap has blockers, or a rollback would lose rows, in a dry run or not; nothing was "
    "written or removed",
    EXIT_CONFLICT: "`hudisql migrate`: the scripts do not agree with their history; nothing was run",
    EXIT_INTERRUPTED: "interrupted by Control-C; `services run --once` by SIGTERM, too",
}
"""What each exit code means. With --force it is the gravest of all statements: 130, then 1, then 3."""
_BY_GRAVITY: Final = (EXIT_OK, EXIT_BLOCKED, EXIT_CONFLICT, EXIT_FAILED, EXIT_USAGE, EXIT_INTERRUPTED)


@dataclass(frozen=True)
class Script:
    """Text to run; `name` tells the user where it came from, `shows_results` is false for init files."""

    text: str
    name: str
    shows_results: bool = True


@dataclass(frozen=True)
class BatchOptions:
    """How to run: the results' form, echo of statements, timing lines, going on after errors."""

    form: str = "table"
    silent: bool = False
    verbose: bool = False
    force: bool = False


def run_scripts(session: Session, scripts: list[Script], options: BatchOptions) -> int:
    """Run the scripts in order; the exit code. A failed init file always ends the run."""
    exit_code = EXIT_OK
    for script in scripts:
        code = run_script(session, script, options)
        exit_code = graver(exit_code, code)
        goes_on = options.force and script.shows_results and code != EXIT_INTERRUPTED
        if code != EXIT_OK and not goes_on:
            break
    return exit_code


def graver(code: int, other: int) -> int:
    """The exit code of two statements, of which each had its own."""
    return max(code, other, key=_BY_GRAVITY.index)


def run_script(session: Session, script: Script, options: BatchOptions) -> int:
    """Run one script, to its end or to `quit`; the exit code."""
    try:
        statements = split_script(script.text)
    except HudisqlError as error:
        print_error(error, script.name)
        return EXIT_FAILED
    exit_code = EXIT_OK
    for statement in statements:
        command = find_shell_command(statement.text)
        if command is ShellCommand.QUIT:
            break
        if command is not None:
            run_shell_command(command)
            continue
        code = run_statement(session, statement, script, options)
        exit_code = graver(exit_code, code)
        if code == EXIT_INTERRUPTED or (code != EXIT_OK and not options.force):
            break
    return exit_code


def run_statement(
    session: Session,
    statement: ScriptStatement,
    script: Script,
    options: BatchOptions,
    stream: TextIO | None = None,
) -> int:
    """Run one statement and write its rows; the exit code. Errors are printed, not raised.

    Only that Spark or the metastore does not start is raised: no other statement would run.

    What a check found wrong (`Result.error`) fails the statement after its rows.
    """
    place = f"{script.name}, line {statement.line}"
    target = _Output(sys.stdout if stream is None else stream)
    if options.verbose:
        print(statement.text, file=sys.stderr, flush=True)
    started = time.monotonic()
    try:
        with statement_jobs(session):
            result = session.execute(statement)
            rows = None
            if result.has_rows and script.shows_results:
                with suppress(_ReaderLeftError):
                    rows = write_result(result, options.form, target)
                    target.flush()
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
        counted = "" if rows is None else f", {rows} {'row' if rows == 1 else 'rows'}"
        print(f"Time taken: {time.monotonic() - started:.2f} s{counted}", file=sys.stderr, flush=True)
    return EXIT_OK


def exit_code_of(error: HudisqlError) -> int:
    """3 for what was blocked before anything was written or removed, 1 for all other errors."""
    return EXIT_BLOCKED if isinstance(error, BootstrapBlockedError | RollbackRefusedError) else EXIT_FAILED


def print_error(error: BaseException | str, place: str = "") -> None:
    """Print an error on standard error, with where it happened."""
    where = f" ({place})" if place else ""
    print(f"ERROR{where}: {error}", file=sys.stderr, flush=True)


def discard_output() -> None:
    """Let all further output go nowhere, that on standard error too if it had the same reader."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    has_same_reader = os.path.samestat(os.fstat(sys.stdout.fileno()), os.fstat(sys.stderr.fileno()))
    os.dup2(nowhere, sys.stdout.fileno())
    if has_same_reader:
        os.dup2(nowhere, sys.stderr.fileno())
    os.close(nowhere)


class _ReaderLeftError(Exception):
    """Nobody reads standard output any more."""


class _Output:
    """Where results go, telling a reader that has left from whatever else breaks."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        with self._told():
            return self._stream.write(text)

    def flush(self) -> None:
        with self._told():
            self._stream.flush()

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except BrokenPipeError as error:
            discard_output()
            raise _ReaderLeftError from error
