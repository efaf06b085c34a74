"""How commands end: by signals, and with a report of their statements and an exit code."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer

from hudisql.config.settings import Settings
from hudisql.console import Console
from hudisql.errors import HudisqlError, InvalidArgumentError, MigrationConflictError, SettingsError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from hudisql.migrations.listener import StatementOutcome
    from hudisql.session import Session

_SIGNALS = (signal.SIGTERM, signal.SIGINT)
ReportOption = Annotated[
    Path | None,
    typer.Option("--report", metavar="FILE", help="Write a report: JUnit for .xml, JSON for .json."),
]


@contextmanager
def stoppable_session(settings: Settings, console: Console) -> Iterator[tuple[Session, threading.Event]]:
    """A session and the event of `stop_on_signals`, whose handlers stay in place after Spark has started."""
    from hudisql.session import open_session

    with stop_on_signals() as stop, open_session(settings=settings, console=console) as session:
        handler = signal.getsignal(signal.SIGINT)

        def keep(_spark: SparkSession) -> None:
            # Spark's context puts a handler of its own in place when it starts.
            signal.signal(signal.SIGINT, handler)

        session.on_spark_start(keep)
        yield session, stop


@contextmanager
def stop_on_signals() -> Iterator[threading.Event]:
    """An event that the first SIGTERM or SIGINT sets; the second one has its default effect."""
    stop = threading.Event()

    def handle(number: int, _frame: FrameType | None) -> None:
        for signal_number in _SIGNALS:
            signal.signal(signal_number, signal.SIG_DFL)
        print(
            f"{signal.Signals(number).name}: stopping; send it again to end at once",
            file=sys.stderr,
            flush=True,
        )
        stop.set()

    before = {signal_number: signal.signal(signal_number, handle) for signal_number in _SIGNALS}
    try:
        yield stop
    finally:
        for signal_number, handler in before.items():
            signal.signal(signal_number, handler)


@contextmanager
def reported_run(
    command: str, report: Path | None, outcomes: Callable[[], Sequence[StatementOutcome]]
) -> Iterator[None]:
    """Run the block, write the report of `hudisql <command>`, and raise `typer.Exit` with the exit code.

    Errors are printed, not raised; `typer.Exit` ends the block early. Bad usage writes no report.
    """
    from hudisql.cli.batch import (
        EXIT_CONFLICT,
        EXIT_FAILED,
        EXIT_INTERRUPTED,
        EXIT_OK,
        EXIT_USAGE,
        exit_code_of,
        print_error,
    )
    from hudisql.migrations.apply_scripts import StatementFailedError
    from hudisql.migrations.report import write_report

    code = EXIT_OK
    try:
        _check_report(report)
        yield
    except typer.Exit as end:
        code = end.exit_code
    except (SettingsError, InvalidArgumentError) as error:
        print_error(error)
        code = EXIT_USAGE
    except MigrationConflictError as error:
        print_error(error)
        code = EXIT_CONFLICT
    except StatementFailedError as failed:
        code = exit_code_of(failed.error)
    except HudisqlError as error:
        print_error(error)
        code = exit_code_of(error)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr, flush=True)
        code = EXIT_INTERRUPTED
    if report is not None and code != EXIT_USAGE:
        try:
            write_report(report, outcomes(), command)
        except HudisqlError as error:
            print_error(error)
            code = code or EXIT_FAILED
    raise typer.Exit(code)


def _check_report(report: Path | None) -> None:
    if report is None:
        return
    if report.suffix not in (".xml", ".json"):
        raise InvalidArgumentError(f"--report {report}: the name must end in .xml (JUnit) or .json")
    if not report.absolute().parent.is_dir():
        raise InvalidArgumentError(f"--report {report}: there is no such directory")
