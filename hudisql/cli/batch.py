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
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, TextIO

from hudisql.cli.interrupts import is_interrupt
from hudisql.cli.output import write_result
from hudisql.errors import HudisqlError
from hudisql.sql.script import ScriptStatement, split_script

if TYPE_CHECKING:
    from hudisql.session import Session

EXIT_OK = 0
EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130


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
        if code != EXIT_OK:
            exit_code = code
            if not options.force or not script.shows_results or code == EXIT_INTERRUPTED:
                return exit_code
    return exit_code


def run_script(session: Session, script: Script, options: BatchOptions) -> int:
    """Run one script; the exit code."""
    try:
        statements = split_script(script.text)
    except HudisqlError as error:
        print_error(error, script.name)
        return EXIT_FAILED
    failed = False
    for statement in statements:
        code = run_statement(session, statement, script, options)
        if code == EXIT_INTERRUPTED:
            return code
        failed = failed or code != EXIT_OK
        if failed and not options.force:
            break
    return EXIT_FAILED if failed else EXIT_OK


def run_statement(
    session: Session,
    statement: ScriptStatement,
    script: Script,
    options: BatchOptions,
    stream: TextIO | None = None,
) -> int:
    """Run one statement and write its rows; the exit code. Errors are printed, not raised."""
    target = _Output(sys.stdout if stream is None else stream)
    if options.verbose:
        print(statement.text, file=sys.stderr, flush=True)
    started = time.monotonic()
    try:
        with _interruptible(session):
            result = session.execute(statement)
            rows = None
            if result.has_rows and script.shows_results:
                with suppress(_ReaderLeftError):
                    rows = write_result(result, options.form, target)
                    target.flush()
    except HudisqlError as error:
        if is_interrupt(error):
            print("interrupted", file=sys.stderr, flush=True)
            return EXIT_INTERRUPTED
        print_error(error, f"{script.name}, line {statement.line}")
        return EXIT_FAILED
    except Exception as error:
        if options.verbose:
            traceback.print_exc()
        advice = "" if options.verbose else "; -v shows where"
        print_error(
            f"hudisql itself failed: {type(error).__name__}: {error}{advice}",
            f"{script.name}, line {statement.line}",
        )
        return EXIT_FAILED
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr, flush=True)
        return EXIT_INTERRUPTED
    if not options.silent:
        counted = "" if rows is None else f", {rows} {'row' if rows == 1 else 'rows'}"
        print(f"Time taken: {time.monotonic() - started:.2f} s{counted}", file=sys.stderr, flush=True)
    return EXIT_OK


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


@contextmanager
def _interruptible(session: Session) -> Iterator[None]:
    """Control-C ends the statement's Spark jobs, too."""
    try:
        yield
    except KeyboardInterrupt:
        session.spark.sparkContext.cancelAllJobs()
        raise
