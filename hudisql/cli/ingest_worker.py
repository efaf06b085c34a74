"""`hudisql ingest worker`: feeds the declared tables until it is stopped.

The first SIGTERM or Control-C commits what is in memory and ends; the second one ends at once.
"""

from __future__ import annotations

import os
import sys
import threading
from contextlib import closing
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hudisql.cli.command_group import exit_after_errors
from hudisql.cli.ingest_session import (
    ConfOption,
    CoordinatorOption,
    GroupOption,
    KafkaConfigOption,
    address_option,
    run_in_session,
)
from hudisql.config.settings import parse_key_values
from hudisql.console import JsonConsole, open_console
from hudisql.errors import InvalidArgumentError

if TYPE_CHECKING:
    from hudisql.ingest.push.push_limits import PushLimits
    from hudisql.session import Session


class LogFormat(StrEnum):
    """The form of a worker's lines on standard error."""

    TEXT = "text"
    JSON = "json"


def work(
    context: typer.Context,
    group: GroupOption = "default",
    coordinator: CoordinatorOption = None,
    until_caught_up: Annotated[
        bool, typer.Option("--until-caught-up", help="End once all events are committed: for tests and cron.")
    ] = False,
    memory: Annotated[int, typer.Option("--memory", metavar="BYTES", help="Memory for rows.", min=1)] = 512
    << 20,
    refresh: Annotated[
        float,
        typer.Option(
            "--refresh", metavar="SECONDS", help="Time between two looks for declared tables.", min=0
        ),
    ] = 10.0,
    metrics: Annotated[
        str | None,
        address_option("--metrics", "Address of /metrics, /healthz and /readyz."),
    ] = None,
    compaction_share: Annotated[
        float,
        typer.Option("--compaction-share", metavar="SHARE", help="Part of a core for compactions.", min=0),
    ] = 0.5,
    log_format: Annotated[
        LogFormat,
        typer.Option("--log-format", metavar="text|json", help="Format of the log lines."),
    ] = LogFormat.TEXT,
    push_log: Annotated[
        Path | None,
        typer.Option(
            "--push-log",
            metavar="DIR",
            help="Take pushed rows; this directory stores them until their commit.",
        ),
    ] = None,
    http: Annotated[str | None, address_option("--http", "Address for pushes by HTTP.")] = None,
    flight: Annotated[str | None, address_option("--flight", "Address for pushes by Arrow Flight.")] = None,
    tokens: Annotated[
        Path | None,
        typer.Option(
            "--tokens", metavar="FILE", help="JSON: hashes of the tokens that may push to each table."
        ),
    ] = None,
    tls_cert: Annotated[
        Path | None,
        typer.Option("--tls-certificate", metavar="FILE", help="Certificate of both servers, PEM."),
    ] = None,
    tls_key: Annotated[Path | None, typer.Option("--tls-key", metavar="FILE", help="Its key, PEM.")] = None,
    plain_text: Annotated[
        bool,
        typer.Option(
            "--plain-text", help="Allow addresses beyond 127.0.0.1 without TLS, behind a proxy with TLS."
        ),
    ] = False,
    http_url: Annotated[
        str | None,
        typer.Option("--http-url", metavar="URL", help="URL of --http for clients of other workers."),
    ] = None,
    flight_url: Annotated[
        str | None,
        typer.Option("--flight-url", metavar="URL", help="URL of --flight for clients of other workers."),
    ] = None,
    push_limit: Annotated[
        list[str] | None,
        typer.Option("--push-limit", metavar="NAME=N", help="A limit of pushes, such as body_bytes=1000000."),
    ] = None,
    sole_worker: Annotated[
        bool,
        typer.Option("--sole-worker", help="No other worker takes pushes; leases are not used."),
    ] = False,
    kafka_config: KafkaConfigOption = None,
    conf: ConfOption = None,
) -> None:
    """Write events and pushed rows to the declared tables (CALL ingest_table) until it is stopped."""
    from hudisql.cli.compaction_process import CompactionProcess
    from hudisql.ingest.push.push_service import PushOptions
    from hudisql.service_process.ingest.run_ingest import WorkerOptions, run_worker

    def push_options() -> PushOptions | None:
        if push_log is None:
            needs_log = (http, flight, tokens, tls_cert, tls_key, http_url, flight_url, push_limit)
            if plain_text or sole_worker or any(needs_log):
                raise InvalidArgumentError(
                    "options of pushes were given without --push-log",
                    hint="--push-log DIR names the directory that keeps pushed rows until their commit",
                )
            return None
        return PushOptions(
            log=push_log,
            http=http,
            flight=flight,
            tokens=tokens,
            certificate=tls_cert,
            key=tls_key,
            allow_plain_text=plain_text,
            http_url=http_url,
            flight_url=flight_url,
            limits=_push_limits(push_limit or []),
            sole_worker=sole_worker,
        )

    def feed(session: Session, stop: threading.Event) -> bool:
        push = push_options()
        compactions = CompactionProcess(session.context.settings, session.context.console, compaction_share)
        options = WorkerOptions(
            group=group,
            coordinator=coordinator,
            until_caught_up=until_caught_up,
            memory=memory,
            refresh_seconds=refresh,
            metrics=metrics,
            compact=compactions.request,
            is_compacting=compactions.is_busy,
            push=push,
        )
        with closing(compactions):
            return run_worker(session.context, stop, options)

    console = JsonConsole() if log_format is LogFormat.JSON else open_console()
    try:
        with exit_after_errors():
            run_in_session(context, feed, kafka_config, conf, console)
    except typer.Exit as end:
        if push_log is not None:
            _end_without_waiting_for_clients(end.exit_code)
        raise


def _end_without_waiting_for_clients(code: int) -> None:
    """End the process at once if Flight clients keep streams open: all rows are committed."""
    from hudisql.ingest.push.flight_server import FlightPushServer

    if FlightPushServer.waits_for_clients:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _push_limits(texts: list[str]) -> PushLimits:
    from dataclasses import fields

    from hudisql.ingest.push.push_limits import PushLimits

    defaults = {limit.name: limit.default for limit in fields(PushLimits)}
    limits: dict[str, float] = {}
    for name, text in parse_key_values(texts, "--push-limit").items():
        try:
            limits[name] = float(text) if isinstance(defaults[name], float) else int(text)
        except (KeyError, ValueError) as error:
            raise InvalidArgumentError(
                f"--push-limit {name}={text} is not a limit", hint=f"the limits are {', '.join(defaults)}"
            ) from error
    return PushLimits(**limits)  # type: ignore[arg-type]
