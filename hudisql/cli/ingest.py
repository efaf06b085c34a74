"""`hudisql ingest`: a worker that writes events from Kafka into the declared tables, and its operation.

A worker: the first SIGTERM or Control-C commits what is in memory and ends; the second one ends at once.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from hudisql.cli.services import stop_on_signals
from hudisql.console import Console, JsonConsole, open_console
from hudisql.errors import HudisqlError, InvalidArgumentError, SettingsError
from hudisql.settings import Settings, parse_key_values

if TYPE_CHECKING:
    from hudisql.session import Session

ingest_app = typer.Typer(help="Write events from Kafka into Hudi tables.")


_GroupOption = Annotated[
    str, typer.Option("--group", metavar="NAME", help="Workers of one group share the tables.")
]
_CoordinatorOption = Annotated[
    str | None,
    typer.Option("--coordinator", metavar="HOST:PORT", help="Kafka brokers that know the group."),
]
_TableOption = Annotated[
    list[str] | None, typer.Option("--table", metavar="DB.NAME", help="Only this table (repeatable).")
]
_KafkaConfigOption = Annotated[
    str | None,
    typer.Option("--kafka-config", metavar="FILE", help="TLS, SASL and passwords for Kafka and registries."),
]
_ConfOption = Annotated[list[str] | None, typer.Option("--conf", metavar="K=V", help="A hoodie.* setting.")]


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
    group: _GroupOption = "default",
    coordinator: _CoordinatorOption = None,
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
    kafka_config: _KafkaConfigOption = None,
    conf: _ConfOption = None,
) -> None:
    """Write the events of declared tables (CALL ingest_table), again and again."""
    from hudisql.sql.ingest.run_ingest import run_worker

    def work(session: Session, stop: threading.Event) -> bool:
        return run_worker(
            session.context,
            stop,
            group=group,
            coordinator=coordinator,
            until_caught_up=until_caught_up,
            memory=memory,
            refresh_seconds=refresh,
            metrics=metrics,
        )

    console = JsonConsole() if log_format is LogFormat.JSON else open_console()
    _run(context, work, kafka_config, conf, console)


@ingest_app.command("status")
def _show_status(
    context: typer.Context,
    table: _TableOption = None,
    group: _GroupOption = "default",
    coordinator: _CoordinatorOption = None,
    max_lag: Annotated[
        int | None, typer.Option("--max-lag", metavar="EVENTS", help="More events that wait are an error.")
    ] = None,
    kafka_config: _KafkaConfigOption = None,
    conf: _ConfOption = None,
) -> None:
    """Show the tables, their workers and lags; ends with 1 if a table is not well."""
    from hudisql.cli.output import write_result
    from hudisql.result import LocalResult
    from hudisql.sql.ingest.ingest_status import columns, find_status

    def show(session: Session, _stop: threading.Event) -> bool:
        status = find_status(
            session.context, tables=table or (), group=group, coordinator=coordinator, max_lag=max_lag
        )
        for line in status.workers or (f"no worker of the group {group} runs",):
            session.context.console.info(line)
        rows = [tuple(getattr(each, name) for name in columns()) for each in status.rows]
        found = LocalResult(lambda: session.spark, tuple(columns().items()), rows)
        write_result(found, session.context.settings.format, sys.stdout)
        return status.is_well

    _run(context, show, kafka_config, conf)


@ingest_app.command("drain")
def _drain(
    context: typer.Context,
    table: _TableOption = None,
    group: _GroupOption = "default",
    coordinator: _CoordinatorOption = None,
    timeout: Annotated[
        float, typer.Option("--timeout", metavar="SECONDS", help="How long to wait for the workers.")
    ] = 300.0,
    kafka_config: _KafkaConfigOption = None,
    conf: _ConfOption = None,
) -> None:
    """Let workers commit what they have in memory, take no more of the tables, and wait for it."""
    from hudisql.sql.ingest.drain_ingest import drain_tables

    def drain(session: Session, stop: threading.Event) -> bool:
        left = drain_tables(
            session.context,
            stop,
            tables=table or (),
            group=group,
            coordinator=coordinator,
            timeout=timeout,
        )
        for name in left:
            session.context.console.warning(
                f"{name}: a worker may still write to it; no worker takes it up again before ingest resume"
            )
        return not left

    _run(context, drain, kafka_config, conf)


@ingest_app.command("resume")
def _resume(
    context: typer.Context,
    table: _TableOption = None,
    kafka_config: _KafkaConfigOption = None,
    conf: _ConfOption = None,
) -> None:
    """Go on with drained tables; what pause_ingest has paused stays paused."""
    from hudisql.sql.ingest.drain_ingest import resume_tables

    def resume(session: Session, _stop: threading.Event) -> bool:
        for name in resume_tables(session.context, table or ()):
            session.context.console.info(f"{name}: resumed")
        return True

    _run(context, resume, kafka_config, conf)


def _run(
    context: typer.Context,
    work: Callable[[Session, threading.Event], bool],
    kafka_config: str | None,
    conf: list[str] | None,
    console: Console | None = None,
) -> NoReturn:
    """Run a command in a session; its exit code is 0 if the work gives True."""
    from hudisql.cli.batch import EXIT_FAILED, EXIT_OK, EXIT_USAGE, print_error
    from hudisql.session import connect

    try:
        settings: Settings = context.obj
        given = {"kafka_config": kafka_config, "conf": parse_key_values(conf or [], "--conf")}
        settings = settings.with_layer(given, "command line")
        with (
            stop_on_signals() as stop,
            connect(settings=settings, console=console or open_console()) as session,
        ):
            code = EXIT_OK if work(session, stop) else EXIT_FAILED
    except (SettingsError, InvalidArgumentError) as error:
        print_error(error)
        code = EXIT_USAGE
    except HudisqlError as error:
        print_error(error)
        code = EXIT_FAILED
    raise typer.Exit(code)
