"""`hudisql ingest worker`: one process that writes events from Kafka into the declared tables.

The first SIGTERM or Control-C commits what is in memory and ends; the second one ends the process at once.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from hudisql.cli.services import stop_on_signals
from hudisql.console import JsonConsole, open_console
from hudisql.errors import HudisqlError, InvalidArgumentError, SettingsError
from hudisql.settings import Settings, parse_key_values

ingest_app = typer.Typer(help="Write events from Kafka into Hudi tables.")


class LogFormat(StrEnum):
    """The form of a worker's lines on standard error."""

    TEXT = "text"
    JSON = "json"


@ingest_app.callback()
def _ingest() -> None:
    """Write events from Kafka into Hudi tables."""


@ingest_app.command("worker")
def _run_worker(
    context: typer.Context,
    group: Annotated[
        str, typer.Option("--group", metavar="NAME", help="Workers of one group share the tables.")
    ] = "default",
    coordinator: Annotated[
        str | None,
        typer.Option("--coordinator", metavar="HOST:PORT", help="Kafka brokers that know the group."),
    ] = None,
    until_caught_up: Annotated[
        bool, typer.Option("--until-caught-up", help="End at the ends of the topics: for tests and cron.")
    ] = False,
    memory: Annotated[
        int, typer.Option("--memory", metavar="BYTES", help="What rows in memory may take.")
    ] = 512 << 20,
    refresh: Annotated[
        float, typer.Option("--refresh", metavar="SECONDS", help="Time between two looks for declarations.")
    ] = 10.0,
    metrics: Annotated[
        str | None,
        typer.Option("--metrics", metavar="HOST:PORT", help="Serve /metrics, /healthz and /readyz there."),
    ] = None,
    log_format: Annotated[
        LogFormat, typer.Option("--log-format", help="Lines of text, or of JSON: one a commit.")
    ] = LogFormat.TEXT,
    conf: Annotated[
        list[str] | None, typer.Option("--conf", metavar="K=V", help="A hoodie.* setting.")
    ] = None,
) -> None:
    """Write the events of declared tables (CALL ingest_table), again and again."""
    from hudisql.cli.batch import EXIT_FAILED, EXIT_OK, EXIT_USAGE, print_error
    from hudisql.session import connect
    from hudisql.sql.ingest.run_ingest import run_worker

    code = EXIT_OK
    try:
        settings: Settings = context.obj
        settings = settings.with_layer({"conf": parse_key_values(conf or [], "--conf")}, "command line")
        console = JsonConsole() if log_format is LogFormat.JSON else open_console()
        with stop_on_signals() as stop, connect(settings=settings, console=console) as session:
            succeeded = run_worker(
                session.context,
                stop,
                group=group,
                coordinator=coordinator,
                until_caught_up=until_caught_up,
                memory=memory,
                refresh_seconds=refresh,
                metrics=metrics,
            )
        code = EXIT_OK if succeeded else EXIT_FAILED
    except (SettingsError, InvalidArgumentError) as error:
        print_error(error)
        code = EXIT_USAGE
    except HudisqlError as error:
        print_error(error)
        code = EXIT_FAILED
    raise typer.Exit(code)
