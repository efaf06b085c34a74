"""`hudisql ingest`: a worker that writes events and pushed rows to the declared tables, and its operation."""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING, Annotated

import typer

from hudisql.cli.ingest_session import (
    ConfOption,
    CoordinatorOption,
    GroupOption,
    KafkaConfigOption,
    TableOption,
    run_in_session,
)
from hudisql.cli.ingest_worker import work

if TYPE_CHECKING:
    from hudisql.session import Session

ingest_app = typer.Typer(help="Write events from Kafka and pushed rows into Hudi tables.")


@ingest_app.callback()
def _ingest() -> None:
    """Write events from Kafka and pushed rows into Hudi tables."""


ingest_app.command("worker")(work)


@ingest_app.command("status")
def _show_status(
    context: typer.Context,
    table: TableOption = None,
    group: GroupOption = "default",
    coordinator: CoordinatorOption = None,
    max_lag: Annotated[
        int | None,
        typer.Option("--max-lag", metavar="EVENTS", help="A larger lag of a table is an error.", min=0),
    ] = None,
    kafka_config: KafkaConfigOption = None,
    conf: ConfOption = None,
) -> None:
    """Show the tables, their workers and lags; exit with 1 if a table has an error."""
    from hudisql.cli.output import write_result
    from hudisql.result import LocalResult
    from hudisql.service_process.ingest.ingest_status import columns, find_status

    def show(session: Session, _stop: threading.Event) -> bool:
        status = find_status(
            session.context, tables=table or (), group=group, coordinator=coordinator, max_lag=max_lag
        )
        for line in status.workers or (f"no worker of the group {group} runs",):
            session.context.console.info(line)
        rows = [tuple(getattr(row, name) for name in columns()) for row in status.rows]
        result = LocalResult(lambda: session.spark, tuple(columns().items()), rows)
        write_result(result, session.context.settings.format, sys.stdout)
        return status.is_well

    run_in_session(context, show, kafka_config, conf)


@ingest_app.command("drain")
def _drain(
    context: typer.Context,
    table: TableOption = None,
    group: GroupOption = "default",
    coordinator: CoordinatorOption = None,
    timeout: Annotated[
        float, typer.Option("--timeout", metavar="SECONDS", help="How long to wait for the workers.", min=0)
    ] = 300.0,
    kafka_config: KafkaConfigOption = None,
    conf: ConfOption = None,
) -> None:
    """Let workers commit the events in memory and leave the tables, and wait until they have."""
    from hudisql.service_process.ingest.drain_ingest import drain_tables

    def drain(session: Session, stop: threading.Event) -> bool:
        unfinished = drain_tables(
            session.context,
            stop,
            tables=table or (),
            group=group,
            coordinator=coordinator,
            timeout=timeout,
        )
        for name in unfinished:
            session.context.console.warning(
                f"{name}: a worker may still write to it; no other worker takes it before ingest resume"
            )
        return not unfinished

    run_in_session(context, drain, kafka_config, conf)


@ingest_app.command("resume")
def _resume(
    context: typer.Context,
    table: TableOption = None,
    kafka_config: KafkaConfigOption = None,
    conf: ConfOption = None,
) -> None:
    """Resume drained tables; tables paused by pause_ingest stay paused."""
    from hudisql.service_process.ingest.drain_ingest import resume_tables

    def resume(session: Session, _stop: threading.Event) -> bool:
        for name in resume_tables(session.context, table or ()):
            session.context.console.info(f"{name}: resumed")
        return True

    run_in_session(context, resume, kafka_config, conf)


@ingest_app.command("token")
def _make_token() -> None:
    """Make a token for a client of pushes, and its hash for --tokens."""
    from hudisql.ingest.push.bearer_tokens import hash_token, new_token

    token = new_token()
    typer.echo(f"token  {token}\nsha256 {hash_token(token)}")
