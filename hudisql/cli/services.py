"""`hudisql services run`: one process that looks after many tables, and how it ends.

The first SIGTERM or Control-C lets the service that runs end, or undoes it; the second one ends the process.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer

from hudisql.console import open_console
from hudisql.errors import HudisqlError, InvalidArgumentError, SettingsError
from hudisql.settings import Settings, parse_key_values

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from hudisql.session import Session

services_app = typer.Typer(help="Look after tables: compaction, clean, archiving, clustering, rollbacks.")
_SIGNALS = (signal.SIGTERM, signal.SIGINT)


@services_app.callback()
def _services() -> None:
    """Look after tables: compaction, clean, archiving, clustering, rollbacks."""


@services_app.command("run")
def _run_services(
    context: typer.Context,
    database: Annotated[
        str | None, typer.Option("--database", metavar="DB", help="Only the tables of this database.")
    ] = None,
    table: Annotated[
        list[str] | None, typer.Option("--table", metavar="DB.NAME", help="Only this table (repeatable).")
    ] = None,
    interval: Annotated[
        float, typer.Option("--interval", metavar="SECONDS", help="Time between two looks.")
    ] = 60.0,
    once: Annotated[
        bool, typer.Option("--once", help="Look once, run what is due, and end: for cron and the like.")
    ] = False,
    parallelism: Annotated[
        int, typer.Option("--parallelism", metavar="N", help="Tables that are served at the same time.")
    ] = 2,
    conf: Annotated[
        list[str] | None,
        typer.Option("--conf", metavar="K=V", help="A Spark setting, or a hoodie.* setting."),
    ] = None,
) -> None:
    """Run the table services that are due, again and again."""
    from hudisql.cli.batch import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_OK, EXIT_USAGE, print_error
    from hudisql.session import connect
    from hudisql.sql.services.run_services import ServedTables, run_services

    code = EXIT_OK
    try:
        if table and database:
            raise InvalidArgumentError("give --table or --database, not both")
        settings: Settings = context.obj
        settings = settings.with_layer({"conf": parse_key_values(conf or [], "--conf")}, "command line")
        with stop_on_signals() as stop, connect(settings=settings, console=open_console()) as session:
            keep_signal_handlers(session)
            succeeded = run_services(
                session.context,
                ServedTables(tuple(table or ()), database),
                stop,
                once=once,
                interval=interval,
                parallelism=parallelism,
            )
            if once and stop.is_set():
                code = EXIT_INTERRUPTED
            elif not succeeded:
                code = EXIT_FAILED
    except (SettingsError, InvalidArgumentError) as error:
        print_error(error)
        code = EXIT_USAGE
    except HudisqlError as error:
        print_error(error)
        code = EXIT_FAILED
    raise typer.Exit(code)


@contextmanager
def stop_on_signals() -> Iterator[threading.Event]:
    """An event that the first SIGTERM or SIGINT sets; the second one does what it does by default."""
    stop = threading.Event()

    def handle(number: int, _frame: FrameType | None) -> None:
        for each in _SIGNALS:
            signal.signal(each, signal.SIG_DFL)
        print(
            f"{signal.Signals(number).name}: stopping; once more to end at once", file=sys.stderr, flush=True
        )
        stop.set()

    before = {each: signal.signal(each, handle) for each in _SIGNALS}
    try:
        yield stop
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def keep_signal_handlers(session: Session) -> None:
    """Keep what handles SIGINT now when Spark starts, whose context puts a handler of its own in place."""
    handler = signal.getsignal(signal.SIGINT)

    def keep(_spark: SparkSession) -> None:
        signal.signal(signal.SIGINT, handler)

    session.on_spark_start(keep)
