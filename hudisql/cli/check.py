"""`hudisql check FILES|DIR`: finds errors in scripts without running them.

Exit codes: 0 nothing found, 1 something found, 2 bad usage.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hudisql.config.settings import Settings
from hudisql.console import SilentConsole, open_console
from hudisql.errors import InvalidArgumentError

if TYPE_CHECKING:
    from hudisql.check.script_check import ScriptFile
    from hudisql.check.script_findings import ScriptFinding
    from hudisql.check.statement_check import StatementCheck
    from hudisql.context import Context


def check_scripts(
    context: typer.Context,
    paths: Annotated[
        list[Path], typer.Argument(metavar="FILES|DIR", help="Scripts, or a directory of them.")
    ],
    level: Annotated[
        str, typer.Option("--level", metavar="parse|bind|plan", help="How far: parse needs no Spark.")
    ] = "bind",
    schema: Annotated[
        Path | None,
        typer.Option(
            "--schema", metavar="FILE", help="Offline: CREATE TABLE statements instead of a metastore."
        ),
    ] = None,
    form: Annotated[
        str, typer.Option("--format", metavar="text|github|sarif|json", help="Form of the findings.")
    ] = "text",
) -> None:
    """Find errors in scripts without running them."""
    from hudisql.check.script_check import LEVELS, read_files
    from hudisql.check.script_findings import FORMATS, render
    from hudisql.cli.batch import EXIT_FAILED, EXIT_OK

    settings: Settings = context.obj
    for value, allowed, option in ((level, LEVELS, "--level"), (form, FORMATS, "--format")):
        if value not in allowed:
            raise InvalidArgumentError(f"{option} {value}: it must be one of {', '.join(allowed)}")
    files = read_files(paths)
    schemas = [] if schema is None else read_files([schema])
    findings = _find_names(paths)
    findings += _find(settings, files, level, schemas, is_offline=schema is not None)
    sys.stdout.write(render(findings, form))
    counted = f"{len(findings)} {'finding' if len(findings) == 1 else 'findings'}"
    said = counted if findings else "nothing found"
    print(f"{said} in {len(files)} {'file' if len(files) == 1 else 'files'}", file=sys.stderr, flush=True)
    raise typer.Exit(EXIT_FAILED if findings else EXIT_OK)


def _find_names(paths: list[Path]) -> list[ScriptFinding]:
    """The files that `hudisql migrate` refuses for their names, in the directories of migrations."""
    from hudisql.check.script_findings import SCRIPT_NAME, ScriptFinding
    from hudisql.migrations.scripts import migration_directories, name_problems

    return [
        ScriptFinding(str(problem.path), 1, 1, SCRIPT_NAME, problem.error.message, problem.error.hint)
        for path in paths
        for directory in migration_directories(path)
        for problem in name_problems(directory)
    ]


def _find(
    settings: Settings, files: list[ScriptFile], level: str, schemas: list[ScriptFile], *, is_offline: bool
) -> list[ScriptFinding]:
    from hudisql.check.script_check import check_text

    variables = {**settings.hiveconf, **settings.hivevar}
    if level == "parse":
        return [problem for file in files for problem in check_text(file, variables)]
    opened = _offline_checker(settings) if is_offline else _online_checker(settings, level)
    with opened as checker:
        checker.declares = True
        wrong = [problem for file in schemas for problem in check_text(file, variables, checker)]
        checker.declares = False
        if wrong:
            raise InvalidArgumentError(f"the schema file cannot be read: {wrong[0]}")
        shadows = checker.context.shadows
        shadows.made.clear()
        return [problem for file in files for problem in check_text(file, variables, checker)]


@contextmanager
def _offline_checker(settings: Settings) -> Iterator[StatementCheck]:
    from hudisql.check.offline_spark import offline_spark

    with (
        TemporaryDirectory(prefix="hudisql-check-") as directory,
        offline_spark(settings, directory) as spark,
    ):
        yield _checker(settings, spark, directory)


@contextmanager
def _online_checker(settings: Settings, level: str) -> Iterator[StatementCheck]:
    from hudisql.session import open_session

    with (
        TemporaryDirectory(prefix="hudisql-check-") as directory,
        open_session(settings=settings, console=open_console()) as session,
        session.isolated() as isolated,
    ):
        runs_dry = level == "plan"
        yield _checker(settings, isolated.context.spark, directory, session.context, runs_dry=runs_dry)


def _checker(
    settings: Settings, spark: Any, directory: str, real: Context | None = None, *, runs_dry: bool = False
) -> StatementCheck:
    from hudisql.check.shadow_metastore import ShadowContext, ShadowMetastore
    from hudisql.check.statement_check import StatementCheck
    from hudisql.storage import Storage

    shadows = ShadowMetastore(directory, None if real is None else real.metastore)
    storage = Storage() if real is None else real.storage
    context = ShadowContext(spark, shadows, storage, settings, SilentConsole())
    return StatementCheck(context, real, runs_dry=runs_dry)
