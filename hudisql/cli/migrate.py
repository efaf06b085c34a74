"""`hudisql migrate …`: versioned scripts that are applied once, in their order.

Exit codes: 0 ok, 1 a statement failed, 2 bad usage, 3 blocked by a plan, 4 the scripts and their history do
not agree. The scripts themselves, their checkpoint and their history are `hudisql.migrations`'s.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hudisql.cli.command_end import ReportOption, reported_run
from hudisql.config.settings import Settings
from hudisql.console import open_console
from hudisql.errors import InvalidArgumentError

if TYPE_CHECKING:
    from hudisql.migrations.apply_scripts import ApplyOptions
    from hudisql.migrations.listener import StatementOutcome
    from hudisql.migrations.script_history import History
    from hudisql.migrations.scripts import MigrationScript, MigrationScripts
    from hudisql.result import Result
    from hudisql.session import Session

migrate_app = typer.Typer(help="Apply versioned scripts once, in their order (V1__text.sql, R__…, U1__…).")
_Directory = Annotated[Path, typer.Argument(metavar="DIR", help="Directory of the scripts.")]
_HistoryOption = Annotated[
    str, typer.Option("--history", metavar="DB.NAME", help="The Hudi table that keeps the history.")
]
_HISTORY = "default.hudisql_migrations"
_TargetOption = Annotated[
    str | None, typer.Option("--target", metavar="VERSION", help="The last version to apply.")
]
_OutOfOrderOption = Annotated[
    bool, typer.Option("--out-of-order", help="Apply versions that are older than the last one applied, too.")
]
_WaitOption = Annotated[
    float, typer.Option("--wait", metavar="SECONDS", help="How long to wait for another runner.", min=0)
]


@migrate_app.callback()
def _migrate() -> None:
    """Apply versioned scripts once, in their order."""


@dataclass
class Terminal:
    """Prints the events of a run; collects the outcomes for reports. Results go to standard output."""

    form: str
    outcomes: list[StatementOutcome] = field(default_factory=list)

    def script_begins(self, script: MigrationScript, done: int) -> None:
        """Print that a script starts or resumes."""
        self.note(f"{script.name}" + (f": goes on behind statement {done}" if done else ""))

    def result(self, result: Result) -> None:
        """The rows of a statement."""
        from hudisql.cli.output import write_result

        write_result(result, self.form, sys.stdout)
        sys.stdout.flush()

    def statement_ended(self, outcome: StatementOutcome) -> None:
        """How a statement ended."""
        from hudisql.cli.batch import print_error

        self.outcomes.append(outcome)
        if outcome.error is not None:
            text = "\n".join(f"    {line}" for line in outcome.statement.text.splitlines())
            print_error(f"{outcome.error}\n{text}", outcome.place)
            return
        said = {
            "planned": "would run",
            "skipped": "done before",
            "recovered": "had happened before the last run ended",
        }
        made = f", {', '.join(outcome.instants)}" if outcome.instants else ""
        state = said.get(outcome.state, f"{outcome.milliseconds / 1000:.2f} s")
        self.note(f"  {outcome.place} {_head(outcome.statement.text)}: {state}{made}")

    def note(self, text: str) -> None:
        """One line on standard error."""
        print(text, file=sys.stderr, flush=True)


def _head(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 60 else f"{line[:60]}…"


@dataclass(frozen=True)
class Migration:
    """State shared by all subcommands."""

    session: Session
    history: History
    scripts: MigrationScripts
    terminal: Terminal


@contextmanager
def open_migration(
    context: typer.Context, directory: Path, history: str, report: Path | None = None
) -> Iterator[Migration]:
    """Open a session for the block of a subcommand; afterwards write the report, and raise `typer.Exit`."""
    from hudisql.cli.interrupts import clean_interrupts
    from hudisql.migrations.script_history import History
    from hudisql.migrations.scripts import load_scripts
    from hudisql.session import open_session

    settings: Settings = context.obj
    terminal = Terminal(settings.format)
    with reported_run("migrate", report, lambda: terminal.outcomes):
        scripts = load_scripts(directory)
        with open_session(settings=settings, console=open_console()) as session, clean_interrupts(session):
            table = History(session, *session.context.qualify_table_name(history))
            yield Migration(session, table, scripts, terminal)


def apply_options(target: str | None, out_of_order: bool, wait: float) -> ApplyOptions:
    """The options as values. Raises InvalidArgumentError."""
    from hudisql.migrations.apply_scripts import ApplyOptions
    from hudisql.migrations.scripts import Version

    return ApplyOptions(None if target is None else Version.parse(target), out_of_order, wait)


@migrate_app.command("apply")
def _apply(
    context: typer.Context,
    directory: _Directory,
    history: _HistoryOption = _HISTORY,
    target: _TargetOption = None,
    out_of_order: _OutOfOrderOption = False,
    wait: _WaitOption = 3600.0,
    report: ReportOption = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="As plan: write nothing.")] = False,
) -> None:
    """Apply the scripts that are not applied yet."""
    from hudisql.migrations.apply_scripts import apply_migrations, up_to

    with open_migration(context, directory, history, report) as migration:
        options = apply_options(target, out_of_order, wait)
        if dry_run:
            raise typer.Exit(_preview(migration, options))
        session, terminal = migration.session, migration.terminal
        plan = apply_migrations(session, migration.history, migration.scripts, options, terminal)
        count = len(up_to(plan, options.target))
        terminal.note(
            f"{count} {'script' if count == 1 else 'scripts'} applied" if count else "nothing to do"
        )


def _preview(migration: Migration, options: ApplyOptions) -> int:
    from hudisql.cli.batch import EXIT_BLOCKED
    from hudisql.migrations.preview import preview

    terminal = migration.terminal
    blocked = preview(migration.session, migration.history, migration.scripts, options, terminal)
    count = sum(outcome.state == "planned" for outcome in terminal.outcomes)
    terminal.note(
        f"{count} {'statement' if count == 1 else 'statements'} would run" if count else "nothing to do"
    )
    return EXIT_BLOCKED if blocked else 0


@migrate_app.command("plan")
def _plan(
    context: typer.Context,
    directory: _Directory,
    history: _HistoryOption = _HISTORY,
    target: _TargetOption = None,
    out_of_order: _OutOfOrderOption = False,
    report: ReportOption = None,
) -> None:
    """Show the statements that apply would run, with dry runs of bootstraps; write nothing."""
    with open_migration(context, directory, history, report) as migration:
        raise typer.Exit(_preview(migration, apply_options(target, out_of_order, 0.0)))


@migrate_app.command("info")
def _info(context: typer.Context, directory: _Directory, history: _HistoryOption = _HISTORY) -> None:
    """Show each script with its state."""
    from hudisql.migrations.preview import read_plan
    from hudisql.migrations.script_plan import INFO_COLUMNS, info_rows
    from hudisql.result import LocalResult

    with open_migration(context, directory, history) as migration:
        plan = read_plan(migration.history, migration.scripts)
        session = migration.session
        migration.terminal.result(LocalResult(lambda: session.spark, INFO_COLUMNS, info_rows(plan)))


@migrate_app.command("validate")
def _validate(
    context: typer.Context,
    directory: _Directory,
    history: _HistoryOption = _HISTORY,
    out_of_order: _OutOfOrderOption = False,
) -> None:
    """Compare the scripts with the history: exit code 4 if they do not agree."""
    from hudisql.migrations.preview import read_plan

    with open_migration(context, directory, history) as migration:
        plan = read_plan(migration.history, migration.scripts, out_of_order=out_of_order)
        plan.raise_if_conflicting()
        migration.terminal.note(f"{len(plan.statuses)} scripts agree with their history")


@migrate_app.command("baseline")
def _baseline(
    context: typer.Context,
    directory: _Directory,
    version: Annotated[
        str,
        typer.Option(
            "--version", metavar="VERSION", help="The highest version that the tables already have."
        ),
    ],
    description: Annotated[
        str, typer.Option("--description", metavar="TEXT", help="Description of the baseline in the history.")
    ] = "baseline",
    history: _HistoryOption = _HISTORY,
    wait: _WaitOption = 3600.0,
) -> None:
    """Record that the scripts up to a version count as applied, without running them."""
    from hudisql.migrations.history_changes import baseline
    from hudisql.migrations.scripts import Version

    with open_migration(context, directory, history) as migration:
        baseline(migration.history, Version.parse(version), description, migration.terminal, wait)


@migrate_app.command("repair")
def _repair(
    context: typer.Context,
    directory: _Directory,
    done: Annotated[
        bool, typer.Option("--done", help="The statement whose outcome is unknown has taken effect.")
    ] = False,
    again: Annotated[bool, typer.Option("--again", help="Run that statement again.")] = False,
    discard: Annotated[
        bool, typer.Option("--discard", help="Forget the unfinished run; its effects stay.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be repaired; write nothing.")
    ] = False,
    history: _HistoryOption = _HISTORY,
    wait: _WaitOption = 3600.0,
) -> None:
    """Update the history to the scripts as they are now."""
    from hudisql.migrations.history_changes import RepairOptions, repair

    with open_migration(context, directory, history) as migration:
        given = {"done": done, "again": again, "discard": discard}
        chosen = [name for name, is_given in given.items() if is_given]
        if len(chosen) > 1:
            raise InvalidArgumentError("give one of --done, --again and --discard")
        options = RepairOptions(chosen[0] if chosen else None, dry_run, wait)  # type: ignore[arg-type]
        count = repair(migration.history, migration.scripts, options, migration.terminal)
        migration.terminal.note(f"{count} repaired" if count else "nothing to repair")


@migrate_app.command("undo")
def _undo(
    context: typer.Context,
    directory: _Directory,
    target: Annotated[
        str | None,
        typer.Option(
            "--target", metavar="VERSION", help="Undo all versions above this one; default: only the latest."
        ),
    ] = None,
    restore: Annotated[
        bool, typer.Option("--restore", help="Restore the tables to the instants before the script.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be undone; write nothing.")
    ] = False,
    history: _HistoryOption = _HISTORY,
    wait: _WaitOption = 3600.0,
    report: ReportOption = None,
) -> None:
    """Run the U script of the latest version, or restore its tables."""
    from hudisql.migrations.scripts import Version
    from hudisql.migrations.undo import UndoOptions, undo_migrations

    with open_migration(context, directory, history, report) as migration:
        options = UndoOptions(None if target is None else Version.parse(target), restore, dry_run, wait)
        session, scripts = migration.session, migration.scripts
        count = undo_migrations(session, migration.history, scripts, options, migration.terminal)
        verb_said = "would be undone" if dry_run else "undone"
        migration.terminal.note(f"{count} {verb_said}" if count else "nothing to undo")


def make_project(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="A directory, new or of a repository.")],
) -> None:
    """Add a project of migrations to a directory: scripts, jobs, and a workflow for CI."""
    from hudisql.migrations.new_project import make_project as make

    files = make(directory)
    for file in files.made:
        print(file)
    for file in files.kept:
        print(f"{file} stays as it is", file=sys.stderr)
