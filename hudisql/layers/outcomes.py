"""The outcomes of a run's models and tests, for its result and for the reports that migrations write, too."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

from hudisql.migrations.listener import StatementOutcome

MODEL: Final = "model"
TEST: Final = "test"
OUTCOME_COLUMNS: Final = (
    ("name", "string"),
    ("kind", "string"),
    ("state", "string"),
    ("way", "string"),
    ("reason", "string"),
    ("instant", "string"),
    ("rows_inserted", "bigint"),
    ("rows_updated", "bigint"),
    ("rows_deleted", "bigint"),
    ("seconds", "double"),
)
_COUNTS: Final = ("rows_inserted", "rows_updated", "rows_deleted")


@dataclass(frozen=True)
class RunOutcome:
    """How a model's refresh or a test ended: `state` is done, failed or skipped.

    `way` and `instant` describe the refresh; a test has none.
    """

    name: str
    kind: str
    statement: StatementOutcome
    way: str | None = None
    reason: str | None = None
    instant: str | None = None

    @property
    def has_changed(self) -> bool:
        """False if nothing had to be done."""
        return self.instant is not None or self.statement.state == "failed"

    @property
    def row(self) -> tuple[object, ...]:
        """The values of OUTCOME_COLUMNS."""
        said = self.statement
        counts = (said.counts.get(name) for name in _COUNTS)
        seconds = round(said.milliseconds / 1000, 2)
        return (self.name, self.kind, said.state, self.way, self.reason, self.instant, *counts, seconds)


class RunListener(Protocol):
    """Receives each outcome, from any thread."""

    def ended(self, outcome: RunOutcome) -> None:
        """A model or a test ended, or was skipped."""
