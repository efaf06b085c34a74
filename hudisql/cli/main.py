"""The `hudisql` command: its options, and the part of the CLI that they select.

Exit codes are `batch.EXIT_CODES`. Heavy imports are lazy, so that `--help` and `--version` answer at once.
"""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from hudisql import __version__
from hudisql.cli.check import check_scripts
from hudisql.cli.command_group import CommandGroup
from hudisql.cli.ingest import ingest_app
from hudisql.cli.layers import layers_app
from hudisql.cli.migrate import make_project, migrate_app
from hudisql.cli.serve import serve
from hudisql.cli.services import services_app
from hudisql.config.settings import (
    OUTPUT_FORMATS,
    Settings,
    load_settings,
    parse_key_values,
)
from hudisql.console import open_console

app = typer.Typer(
    name="hudisql",
    cls=CommandGroup,
    help="SQL that turns Hive and parquet tables into Apache Hudi tables in place. "
    "Without a command it runs statements: -e, -f, standard input, or an interactive shell.",
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    add_completion=False,
)
metastore_app = typer.Typer(help="Start, stop or look at the warehouse's embedded Hive Metastore.")
app.add_typer(metastore_app, name="metastore")
app.add_typer(services_app, name="services")
app.add_typer(ingest_app, name="ingest")
app.add_typer(migrate_app, name="migrate")
app.add_typer(layers_app, name="run")
app.command("check")(check_scripts)
app.command("init")(make_project)
app.command("serve")(serve)
_WarehouseOption = Annotated[
    str | None, typer.Option("--warehouse", metavar="DIR", help="Warehouse directory.")
]


def main() -> None:
    """The console script."""
    try:
        app()
    finally:
        # Only the interpreter's own shutdown is left, which Control-C would interrupt with a traceback.
        signal.signal(signal.SIGINT, signal.SIG_DFL)


def _print_version(asked: bool) -> None:
    if asked:
        print(f"hudisql {__version__}")
        raise typer.Exit()


@app.callback(invoke_without_command=True)
def _run(
    context: typer.Context,
    execute: Annotated[
        list[str] | None, typer.Option("-e", metavar="SQL", help="Run these statements.")
    ] = None,
    file: Annotated[list[Path] | None, typer.Option("-f", metavar="FILE", help="Run a script.")] = None,
    init: Annotated[
        list[Path] | None, typer.Option("-i", metavar="FILE", help="Run a script first, show no results.")
    ] = None,
    hivevar: Annotated[
        list[str] | None, typer.Option("--hivevar", "-d", "--define", metavar="K=V", help="A ${variable}.")
    ] = None,
    conf: Annotated[list[str] | None, typer.Option("--conf", metavar="K=V", help="A Spark setting.")] = None,
    hiveconf: Annotated[
        list[str] | None, typer.Option("--hiveconf", metavar="K=V", help="A Hive or Hadoop setting.")
    ] = None,
    database: Annotated[
        str | None, typer.Option("--database", metavar="DB", help="Current database.")
    ] = None,
    master: Annotated[str | None, typer.Option("--master", metavar="URL", help="Spark master.")] = None,
    metastore: Annotated[
        str | None,
        typer.Option(
            "--metastore", metavar="URI[,URI]", help="thrift://host:port; default: the embedded one."
        ),
    ] = None,
    warehouse: _WarehouseOption = None,
    form: Annotated[
        str | None, typer.Option("--format", metavar="|".join(OUTPUT_FORMATS), help="Form of the results.")
    ] = None,
    silent: Annotated[bool, typer.Option("-S", "--silent", help="No timing, progress or notes.")] = False,
    verbose: Annotated[bool, typer.Option("-v", "--verbose", help="Echo statements.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Go on after a failed statement.")] = False,
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    given: dict[str, Any] = {
        "conf": parse_key_values(conf or [], "--conf"),
        "hiveconf": parse_key_values(hiveconf or [], "--hiveconf"),
        "hivevar": parse_key_values(hivevar or [], "--hivevar"),
        "database": database,
        "master": master,
        "metastore": metastore,
        "warehouse": warehouse,
        "format": form,
    }
    settings = context.obj = load_settings(given)
    if context.invoked_subcommand is not None:
        return
    raise typer.Exit(_run_statements(settings, execute, file, init, silent, verbose, force))


def _run_statements(
    settings: Settings,
    execute: list[str] | None,
    files: list[Path] | None,
    inits: list[Path] | None,
    silent: bool,
    verbose: bool,
    force: bool,
) -> int:
    from hudisql.cli.batch import (
        EXIT_FAILED,
        EXIT_INTERRUPTED,
        BatchOptions,
        Script,
        read_standard_input,
        run_scripts,
        script_of,
    )
    from hudisql.cli.display import discard_output

    interactive = not execute and not files and sys.stdin.isatty()
    scripts = [script_of(path, shows_results=False) for path in inits or []]
    scripts += [Script(text, "-e") for text in execute or []]
    scripts += [script_of(path) for path in files or []]
    if not execute and not files and not interactive:
        scripts.append(Script(read_standard_input(), "standard input"))
    options = BatchOptions(settings.format, silent, verbose, force)
    console = open_console(silent=silent)
    try:
        from hudisql.cli.interrupts import clean_interrupts, ending_at_once
        from hudisql.session import open_session

        with ending_at_once() as end_at_once, open_session(settings=settings, console=console) as session:
            with clean_interrupts(session):
                if verbose:
                    session.on_spark_start(lambda _: console.info(f"Spark logs to {session.log_file}"))
                code = run_scripts(session, scripts, options)
                if interactive and not code:
                    from hudisql.cli.interactive.shell import run_shell

                    run_shell(session, options)
            end_at_once()
            return code
    except BrokenPipeError:
        # Standard error is closed: the remaining messages cannot be shown.
        discard_output()
        return EXIT_FAILED
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr, flush=True)
        return EXIT_INTERRUPTED


@app.command("config")
def _show_config(context: typer.Context) -> None:
    """Print each setting with its origin."""
    settings: Settings = context.obj
    described = settings.described()
    width = max(len(setting_value.name) for setting_value in described)
    value_width = min(max(len(setting_value.value) for setting_value in described), 60)
    for setting_value in described:
        print(f"{setting_value.name:<{width}}  {setting_value.value:<{value_width}}  {setting_value.origin}")


@metastore_app.command("start")
def _start_metastore(context: typer.Context, warehouse: _WarehouseOption = None) -> None:
    """Start the metastore and keep it running until it is stopped."""
    from hudisql.catalog.embedded import start_embedded_metastore

    _print_status(start_embedded_metastore, context, warehouse)


@metastore_app.command("stop")
def _stop_metastore(
    context: typer.Context,
    warehouse: _WarehouseOption = None,
    force: Annotated[bool, typer.Option("--force", help="Do not wait for its users.")] = False,
) -> None:
    """Stop the metastore, or mark it to stop with its last user."""
    from hudisql.catalog.embedded import stop_embedded_metastore

    _print_status(lambda directory: stop_embedded_metastore(directory, force=force), context, warehouse)


@metastore_app.command("status")
def _show_metastore(context: typer.Context, warehouse: _WarehouseOption = None) -> None:
    """Print whether the metastore is running, and its address."""
    from hudisql.catalog.embedded import embedded_metastore_status

    _print_status(embedded_metastore_status, context, warehouse)


def _print_status(action: Any, context: typer.Context, given: str | None) -> None:
    from hudisql.storage import Storage

    settings: Settings = context.obj
    warehouse = Storage().qualify(settings.warehouse if given is None else given)
    status = action(warehouse)
    if not status.running:
        print(f"not running  {warehouse}")
        return
    kept = "until it is stopped" if status.kept else "until its last user leaves"
    print(f"running  {status.uri}  {warehouse}  ({kept})")
