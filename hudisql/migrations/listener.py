"""The events of a run of migrations; the command prints them, reports collect them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from hudisql.errors import HudisqlError
from hudisql.migrations.scripts import MigrationScript
from hudisql.result import LocalResult, Result
from hudisql.sql.text.script import ScriptStatement

if TYPE_CHECKING:
    from hudisql.result import Result


_COUNTS: Final = ("rows", "files", "bytes", "written_bytes", "seconds", "partitions")
_CHANGES: Final = ("rows_inserted", "rows_updated", "rows_deleted", "rows_moved", "files_written")


class ReportedFile(Protocol):
    """The file that a statement stands in."""

    @property
    def name(self) -> str:
        """Its name in reports."""

    @property
    def path(self) -> Path:
        """Its path."""


@dataclass(frozen=True)
class StatementOutcome:
    """How one statement ended: `state` is done, skipped, recovered, planned or failed.

    `counts` are those of a bootstrap or a change of rows, `instants` the commits made as `path@instant`.
    Reports show `label`, or else the start of the text.
    """

    script: ReportedFile
    number: int
    statement: ScriptStatement
    state: str
    milliseconds: int = 0
    counts: Mapping[str, Any] = field(default_factory=dict)
    instants: tuple[str, ...] = ()
    error: HudisqlError | None = None
    label: str = ""
    skipped_because: str = "done before"

    @property
    def place(self) -> str:
        """The file and the line."""
        return f"{self.script.path}:{self.statement.line}"


class Listener(Protocol):
    """Receives all events, in order."""

    def script_begins(self, script: MigrationScript, done: int) -> None:
        """A script starts, or resumes after `done` statements."""

    def result(self, result: Result) -> None:
        """A statement has returned rows."""

    def statement_ended(self, outcome: StatementOutcome) -> None:
        """A statement ended."""

    def note(self, text: str) -> None:
        """Any other message."""


def counts_of(result: Result) -> Mapping[str, Any]:
    """The counts of the statement by name; empty for a query."""
    if not isinstance(result, LocalResult) or not result.values:
        return {}
    names = result.names
    wanted = _CHANGES if "rows_inserted" in names else _COUNTS if "files" in names else ()
    # A bootstrap's total is its last row.
    row = dict(zip(names, result.values[-1], strict=True))
    return {name: row[name] for name in wanted if isinstance(row.get(name), int | float)}
