"""`hudisql run …`: a project of layers, which are incremental tables with their tests.

Exit codes: 0 ok, 1 a model or a test failed, 2 bad usage, 3 a table cannot become what its file says. The
project and its order are `hudisql.layers`'.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hudisql.cli.command_end import ReportOption, reported_run, stoppable_session
from hudisql.config.settings import Settings
from hudisql.console import open_console
from hudisql.errors import InvalidArgumentError, MetastoreError

if TYPE_CHECKING:
    from hudisql.layers.model_run import ProjectRun, RunOutcome
    from hudisql.layers.project import Project
    from hudisql.result import LocalResult
    from hudisql.session import Session

layers_app = typer.Typer(help="Refresh a directory of incremental tables in order, and test their rows.")
_Directory = Annotated[Path, typer.Argument(metavar="DIR", help="Directory of the models.")]
_SelectOption = Annotated[
    list[str] | None,
    typer.Option(
        "--select",
        metavar="NAME",
        help="Only this model (repeatable): name+ with what depends on it, +name with what it needs.",
    ),
]
_ParallelismOption = Annotated[
    int, typer.Option("--parallelism", metavar="N", help="Models and tests that run at the same time.", min=1)
]
_PARALLELISM = 2


@layers_app.callback()
def _layers() -> None:
    """Refresh a directory of incremental tables by their lineage, and test their rows."""


@dataclass
class Terminal:
    """Prints how each model and test ended and collects the outcomes. Thread-safe."""

    outcomes: list[RunOutcome] = field(default_factory=list)
    is_watching: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def ended(self, outcome: RunOutcome) -> None:
        """One line on standard error, or the error."""
        from hudisql.cli.batch import print_error

        said = outcome.statement
        with self._lock:
            self.outcomes.append(outcome)
            if said.error is not None:
                print_error(said.error, said.place)
                return
            if not self.is_watching or outcome.has_changed:
                print(f"  {outcome.name}: {_text_of(outcome)}", file=sys.stderr, flush=True)


def _text_of(outcome: RunOutcome) -> str:
    said = outcome.statement
    if said.state == "skipped":
        return f"not run, {outcome.reason}"
    seconds = f"{said.milliseconds / 1000:.2f} s"
    if outcome.way is None:
        return f"passed, {seconds}"
    if outcome.way == "nothing":
        return f"nothing to do, {seconds}"
    names = ("inserted", "updated", "deleted")
    rows = ", ".join(f"{said.counts[f'rows_{name}']:,} {name}" for name in names)
    reason = f" ({outcome.reason})" if outcome.reason else ""
    return f"{outcome.way}{reason}, {rows}, {seconds}"


@dataclass(frozen=True)
class Invocation:
    """State shared by all subcommands; SIGTERM or Control-C sets `stop`."""

    session: Session
    project: Project
    chosen: tuple[str, ...]
    terminal: Terminal
    stop: threading.Event
    form: str

    def show(self, result: LocalResult) -> None:
        """Write rows to standard output."""
        from hudisql.cli.output import write_result

        write_result(result, self.form, sys.stdout)
        sys.stdout.flush()

    def round(self, parallelism: int) -> ProjectRun:
        """Run the chosen models once."""
        from hudisql.layers.model_run import ProjectRun

        ended, is_stopping = self.terminal.ended, self.stop.is_set
        return ProjectRun(self.session, self.project, self.chosen, ended, parallelism, is_stopping)

    def show_outcomes(self) -> None:
        """Write the rows of the outcomes of a run."""
        from hudisql.layers.model_run import OUTCOME_COLUMNS
        from hudisql.result import LocalResult

        rows = [outcome.row for outcome in self.terminal.outcomes]
        self.show(LocalResult(lambda: self.session.spark, OUTCOME_COLUMNS, rows))


@contextmanager
def _open_project(
    context: typer.Context, directory: Path, selections: list[str] | None, report: Path | None = None
) -> Iterator[Invocation]:
    """Open a session for the block of a subcommand; afterwards write the report, and raise `typer.Exit`."""
    from hudisql.layers.project import load_project

    settings: Settings = context.obj
    terminal = Terminal()
    with (
        reported_run("run", report, lambda: [outcome.statement for outcome in terminal.outcomes]),
        stoppable_session(settings, open_console()) as (session, stop),
    ):
        project = load_project(session, directory)
        chosen = project.lineage.select(selections or [])
        yield Invocation(session, project, chosen, terminal, stop, settings.format)


@layers_app.command("plan")
def _plan(context: typer.Context, directory: _Directory, select: _SelectOption = None) -> None:
    """Show what apply would do with each model, and how many rows it would write; write nothing."""
    from hudisql.cli.batch import EXIT_BLOCKED, EXIT_OK
    from hudisql.layers.model_plan import BLOCKED, PLAN_COLUMNS, plan_project
    from hudisql.result import LocalResult

    with _open_project(context, directory, select) as invocation:
        session = invocation.session
        plans = plan_project(session, invocation.project, invocation.chosen)
        invocation.show(LocalResult(lambda: session.spark, PLAN_COLUMNS, [plan.row for plan in plans]))
        raise typer.Exit(EXIT_BLOCKED if any(plan.action == BLOCKED for plan in plans) else EXIT_OK)


@layers_app.command("apply")
def _apply(
    context: typer.Context,
    directory: _Directory,
    select: _SelectOption = None,
    parallelism: _ParallelismOption = _PARALLELISM,
    watch: Annotated[
        float | None,
        typer.Option("--watch", metavar="SECONDS", help="Repeat at this interval until SIGTERM.", min=0),
    ] = None,
    report: ReportOption = None,
) -> None:
    """Create, change and refresh the models in order, and run their tests."""
    with _open_project(context, directory, select, report) as invocation:
        if watch is not None and watch <= 0:
            raise InvalidArgumentError("--watch must be above 0")
        if watch is not None:
            raise typer.Exit(_watch(invocation, parallelism, watch))
        raise typer.Exit(_apply_once(invocation, parallelism))


def _apply_once(invocation: Invocation, parallelism: int) -> int:
    from hudisql.cli.batch import EXIT_BLOCKED, print_error
    from hudisql.layers.model_plan import blocked_models

    blocked = blocked_models(invocation.session, invocation.project, invocation.chosen)
    for model_plan in blocked:
        print_error(f"{model_plan.model} cannot be changed in place: {model_plan.reason}")
    if blocked:
        return EXIT_BLOCKED
    return _end(invocation, invocation.round(parallelism).apply())


def _end(invocation: Invocation, succeeded: bool) -> int:
    from hudisql.cli.batch import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_OK

    invocation.show_outcomes()
    if invocation.stop.is_set():
        return EXIT_INTERRUPTED
    return EXIT_OK if succeeded else EXIT_FAILED


def _watch(invocation: Invocation, parallelism: int, seconds: float) -> int:
    from hudisql.cli.batch import EXIT_FAILED, EXIT_OK, print_error

    terminal = invocation.terminal
    terminal.is_watching = True
    while not invocation.stop.is_set():
        terminal.outcomes.clear()
        try:
            invocation.round(parallelism).apply()
        except MetastoreError as error:
            print_error(error)
        invocation.stop.wait(seconds)
    # A run that SIGTERM ended is incomplete, which is not a failure.
    return (
        EXIT_FAILED if any(outcome.statement.state == "failed" for outcome in terminal.outcomes) else EXIT_OK
    )


@layers_app.command("test")
def _test(
    context: typer.Context,
    directory: _Directory,
    select: _SelectOption = None,
    parallelism: _ParallelismOption = _PARALLELISM,
    report: ReportOption = None,
) -> None:
    """Run the tests of the tables as they are, without refreshing."""
    with _open_project(context, directory, select, report) as invocation:
        raise typer.Exit(_end(invocation, invocation.round(parallelism).test()))


@layers_app.command("docs")
def _docs(
    context: typer.Context,
    directory: _Directory,
    output: Annotated[Path, typer.Option("--output", metavar="DIR", help="Directory for the pages.")] = Path(
        "layers-docs"
    ),
) -> None:
    """Write static pages: each table with its lineage, columns, last refresh, test results and query."""
    from hudisql.layers.table_pages import write_pages

    with _open_project(context, directory, None) as invocation:
        pages = write_pages(invocation.session.context, invocation.project, output)
        print(f"{len(pages)} pages written to {output}", file=sys.stderr, flush=True)
