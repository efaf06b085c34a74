"""`hudisql serve`: HiveServer2's protocol for beeline, JDBC, ODBC and Python clients.

The first SIGTERM or Control-C lets running statements end and takes no new ones; the second one ends the
process at once.
"""

from __future__ import annotations

from typing import Annotated

import typer

from hudisql.cli.services import stop_on_signals
from hudisql.console import open_console
from hudisql.errors import HudisqlError, InvalidArgumentError, SettingsError
from hudisql.settings import Settings, parse_key_values


def serve(
    context: typer.Context,
    host: Annotated[str, typer.Option("--host", metavar="HOST", help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", metavar="PORT", help="Port to listen on; 0: any.")] = 10000,
    conf: Annotated[
        list[str] | None,
        typer.Option("--conf", metavar="K=V", help="A Spark setting, or a hoodie.* setting."),
    ] = None,
) -> None:
    """Serve SQL to beeline, JDBC, ODBC and Python clients (HiveServer2's protocol)."""
    from hudisql.cli.batch import EXIT_FAILED, EXIT_OK, EXIT_USAGE, print_error
    from hudisql.server.limits import ServerLimits
    from hudisql.server.thrift_server import ThriftServer
    from hudisql.session import connect

    console = open_console()
    code = EXIT_OK
    try:
        limits = ServerLimits()
        settings: Settings = context.obj
        settings = settings.with_layer({"conf": parse_key_values(conf or [], "--conf")}, "command line")
        with connect(settings=settings, console=console) as session, stop_on_signals() as stop:
            session.context.start()
            server = ThriftServer(session, host, port, limits, console)
            console.info(f"hudisql serves on {server.host}:{server.port}")
            stop.wait()
            if not server.drain(limits.drain_seconds):
                console.warning("statements still ran at the end of the time to drain: they are cancelled")
                code = EXIT_FAILED
            server.close()
    except (SettingsError, InvalidArgumentError) as error:
        print_error(error)
        code = EXIT_USAGE
    except HudisqlError as error:
        print_error(error)
        code = EXIT_FAILED
    raise typer.Exit(code)
