"""What a run of migrations tells while it goes on; the command prints it, reports collect it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from hudisql.errors import HudisqlError
from hudisql.migrations.scripts import MigrationScript
from hudisql.sql.text.script import ScriptStatement

if TYPE_CHECKING:
    from hudisql.result import Result


class ReportedFile(Protocol):
    """The file that a statement stands in."""

    @property
    def name(self) -> str:
        """How reports name it."""

    @property
    def path(self) -> Path:
        """Where it is."""


@dataclass(frozen=True)
class StatementOutcome:
    """How one statement ended: `state` is done, skipped, recovered, planned or failed.

    `counts` are those of a bootstrap or a change of rows, `instants` the commits made as `path@instant`.
    Reports show `label`, or else the text's beginning.
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
    """Told of everything that happens, in order."""

    def script_begins(self, script: MigrationScript, done: int) -> None:
        """A script begins, or goes on behind `done` statements."""

    def result(self, result: Result) -> None:
        """A statement has given rows."""

    def statement_ended(self, outcome: StatementOutcome) -> None:
        """A statement ended."""

    def note(self, text: str) -> None:
        """Something that is neither."""
