"""Options and the session of the commands of `hudisql ingest`."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, Final, NoReturn

import typer

from hudisql.cli.command_end import stoppable_session
from hudisql.config.settings import Settings, parse_key_values
from hudisql.console import Console, open_console

if TYPE_CHECKING:
    from hudisql.session import Session

_HIGHEST_PORT: Final = 0xFFFF


def address_option(name: str, help_text: str) -> Any:
    """An option that takes `HOST:PORT`, and gives the text."""
    return typer.Option(name, metavar="HOST:PORT", help=help_text, parser=_checked_address)


def _checked_address(text: str) -> str:
    _, separator, port = text.rpartition(":")
    if not (separator and port.isascii() and port.isdecimal() and int(port) <= _HIGHEST_PORT):
        raise typer.BadParameter(f"'{text}' is not HOST:PORT with a port from 0 to {_HIGHEST_PORT}")
    return text


def _checked_brokers(text: str) -> str:
    for address in text.split(","):
        if ":" in address:
            _checked_address(address)
    return text


GroupOption = Annotated[
    str, typer.Option("--group", metavar="NAME", help="Group of workers that share the tables.")
]
CoordinatorOption = Annotated[
    str | None,
    typer.Option(
        "--coordinator",
        metavar="HOST:PORT",
        help="Kafka brokers that know the group.",
        parser=_checked_brokers,
    ),
]
TableOption = Annotated[
    list[str] | None, typer.Option("--table", metavar="DB.NAME", help="Only this table (repeatable).")
]
KafkaConfigOption = Annotated[
    str | None,
    typer.Option("--kafka-config", metavar="FILE", help="TLS, SASL and passwords for Kafka and registries."),
]
ConfOption = Annotated[list[str] | None, typer.Option("--conf", metavar="K=V", help="A hoodie.* setting.")]


def run_in_session(
    context: typer.Context,
    work: Callable[[Session, threading.Event], bool],
    kafka_config: str | None,
    conf: list[str] | None,
    console: Console | None = None,
) -> NoReturn:
    """Run a command in a session; the exit code is 0 if `work` returns True."""
    from hudisql.cli.batch import EXIT_FAILED, EXIT_OK

    settings: Settings = context.obj
    options = {"kafka_config": kafka_config, "conf": parse_key_values(conf or [], "--conf")}
    settings = settings.with_layer(options, "command line")
    with stoppable_session(settings, console or open_console()) as (session, stop):
        code = EXIT_OK if work(session, stop) else EXIT_FAILED
    raise typer.Exit(code)
