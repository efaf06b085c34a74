"""`hudisql ingest worker`: one process that writes Kafka's events and pushed rows to declared tables.

The first SIGTERM or Control-C commits what is in memory and ends; the second one ends the process at once.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hudisql.cli.services import stop_on_signals
from hudisql.console import open_console
from hudisql.errors import HudisqlError, InvalidArgumentError, SettingsError
from hudisql.settings import Settings, parse_key_values

if TYPE_CHECKING:
    from hudisql.ingest.push.push_service import PushOptions

ingest_app = typer.Typer(help="Write events from Kafka and pushed rows into Hudi tables.")


@ingest_app.callback()
def _ingest() -> None:
    """Write events from Kafka and pushed rows into Hudi tables."""


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
    push_log: Annotated[
        Path | None,
        typer.Option("--push-log", metavar="DIR", help="Take pushed rows; they are in this directory first."),
    ] = None,
    http: Annotated[
        str | None, typer.Option("--http", metavar="HOST:PORT", help="Where rows are pushed to by HTTP.")
    ] = None,
    flight: Annotated[
        str | None, typer.Option("--flight", metavar="HOST:PORT", help="The same by Arrow Flight.")
    ] = None,
    tokens: Annotated[
        Path | None,
        typer.Option("--tokens", metavar="FILE", help="JSON: hashes of the tokens that may push, by table."),
    ] = None,
    tls_cert: Annotated[
        Path | None, typer.Option("--tls-cert", metavar="FILE", help="Certificate of both servers, PEM.")
    ] = None,
    tls_key: Annotated[Path | None, typer.Option("--tls-key", metavar="FILE", help="Its key, PEM.")] = None,
    plain_text: Annotated[
        bool, typer.Option("--plain-text", help="No TLS on other addresses than 127.0.0.1: a proxy has it.")
    ] = False,
    http_url: Annotated[
        str | None,
        typer.Option("--http-url", metavar="URL", help="Where clients of other workers reach --http."),
    ] = None,
    flight_url: Annotated[
        str | None,
        typer.Option("--flight-url", metavar="URL", help="Where clients of other workers reach --flight."),
    ] = None,
    push_limit: Annotated[
        list[str] | None,
        typer.Option("--push-limit", metavar="NAME=N", help="A limit of pushes, such as body_bytes=1000000."),
    ] = None,
    sole_worker: Annotated[
        bool,
        typer.Option("--sole-worker", help="No other worker takes pushes: no leases in the metastore."),
    ] = False,
    conf: Annotated[
        list[str] | None, typer.Option("--conf", metavar="K=V", help="A hoodie.* setting.")
    ] = None,
) -> None:
    """Write the rows of declared tables (CALL ingest_table), again and again."""
    from hudisql.cli.batch import EXIT_FAILED, EXIT_OK, EXIT_USAGE, print_error
    from hudisql.session import connect
    from hudisql.sql.ingest.run_ingest import run_worker

    code = EXIT_OK
    try:
        push = _push_options(
            push_log,
            push_limit,
            http=http,
            flight=flight,
            tokens=tokens,
            certificate=tls_cert,
            key=tls_key,
            allow_plain_text=plain_text,
            http_url=http_url,
            flight_url=flight_url,
            sole_worker=sole_worker,
        )
        settings: Settings = context.obj
        settings = settings.with_layer({"conf": parse_key_values(conf or [], "--conf")}, "command line")
        with stop_on_signals() as stop, connect(settings=settings, console=open_console()) as session:
            succeeded = run_worker(
                session.context,
                stop,
                group=group,
                coordinator=coordinator,
                until_caught_up=until_caught_up,
                memory=memory,
                refresh_seconds=refresh,
                push=push,
            )
        code = EXIT_OK if succeeded else EXIT_FAILED
    except (SettingsError, InvalidArgumentError) as error:
        print_error(error)
        code = EXIT_USAGE
    except HudisqlError as error:
        print_error(error)
        code = EXIT_FAILED
    if push_log is not None:
        _end_without_waiting_for_clients(code)
    raise typer.Exit(code)


@ingest_app.command("token")
def _make_token() -> None:
    """Make a token for a client of pushes, and the hash of it that --tokens names."""
    from hudisql.ingest.push.tokens import hash_token, new_token

    token = new_token()
    typer.echo(f"token  {token}\nsha256 {hash_token(token)}")


def _end_without_waiting_for_clients(code: int) -> None:
    """End the process if clients of Flight keep streams open; all is committed and closed."""
    from hudisql.ingest.push.flight_server import FlightPushServer

    if FlightPushServer.waits_for_clients:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _push_options(log: Path | None, limits: list[str] | None, **given: Any) -> PushOptions | None:
    """The options of pushes; None without a log. Raises InvalidArgumentError, SettingsError."""
    if log is None:
        if limits or any(given.values()):
            raise InvalidArgumentError(
                "options of pushes were given without --push-log",
                hint="--push-log DIR names the directory that pushed rows are in until they are committed",
            )
        return None
    from dataclasses import fields

    from hudisql.ingest.push.limits import PushLimits
    from hudisql.ingest.push.push_service import PushOptions

    defaults: dict[str, Any] = {each.name: each.default for each in fields(PushLimits)}
    values: dict[str, Any] = {}
    for name, text in parse_key_values(limits or [], "--push-limit").items():
        try:
            values[name] = float(text) if isinstance(defaults[name], float) else int(text)
        except (KeyError, ValueError) as error:
            raise InvalidArgumentError(
                f"--push-limit {name}={text} is no limit", hint=f"the limits are {', '.join(defaults)}"
            ) from error
    return PushOptions(log=log, limits=PushLimits(**values), **given)
