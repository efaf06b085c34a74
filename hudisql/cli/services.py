"""`hudisql services run`: one process that runs table services of many tables.

The first SIGTERM or Control-C lets the running service end, or rolls it back; the second one ends the
process.
"""

from __future__ import annotations

from typing import Annotated

import typer

from hudisql.cli.command_end import stoppable_session
from hudisql.config.settings import Settings, parse_key_values
from hudisql.console import open_console
from hudisql.errors import InvalidArgumentError

services_app = typer.Typer(help="Run table services: compaction, clean, archiving, clustering, rollbacks.")


@services_app.callback()
def _services() -> None:
    """Run table services: compaction, clean, archiving, clustering, rollbacks."""


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
        float,
        typer.Option("--interval", metavar="SECONDS", help="Time between two checks of a table.", min=0),
    ] = 60.0,
    once: Annotated[bool, typer.Option("--once", help="Run what is due once, and exit (for cron).")] = False,
    parallelism: Annotated[
        int,
        typer.Option("--parallelism", metavar="N", help="Tables that are served at the same time.", min=1),
    ] = 2,
    conf: Annotated[
        list[str] | None,
        typer.Option("--conf", metavar="K=V", help="A Spark setting, or a hoodie.* setting."),
    ] = None,
) -> None:
    """Run the table services that are due, until stopped."""
    from hudisql.cli.batch import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_OK
    from hudisql.service_process.tables.run_services import ServedTables, run_services

    if table and database:
        raise InvalidArgumentError("give --table or --database, not both")
    settings: Settings = context.obj
    settings = settings.with_layer({"conf": parse_key_values(conf or [], "--conf")}, "command line")
    with stoppable_session(settings, open_console()) as (session, stop):
        succeeded = run_services(
            session.context,
            ServedTables(tuple(table or ()), database),
            stop,
            once=once,
            interval=interval,
            parallelism=parallelism,
        )
        if once and stop.is_set():
            raise typer.Exit(EXIT_INTERRUPTED)
    raise typer.Exit(EXIT_OK if succeeded else EXIT_FAILED)
