"""The history of applied scripts: a Hudi table of the metastore, one row for each run of a script.

A run has a rank; its row is replaced when a failed run resumes. Names follow Flyway's schema history.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from hudisql.catalog.metastore_table import is_hudi_table
from hudisql.errors import HudisqlError, InvalidArgumentError
from hudisql.format.schema.spark_schema import quote_name
from hudisql.migrations.run_checkpoint import CheckpointState, RunCheckpoint
from hudisql.options.table_call import location_of
from hudisql.sql_literals import quote_string
from hudisql.storage import join

if TYPE_CHECKING:
    from hudisql.session import Session

SUCCESS: Final = "success"
FAILED: Final = "failed"
DELETED: Final = "deleted"
BASELINE: Final = "BASELINE"
_COLUMNS: Final = (
    ("installed_rank", "BIGINT"),
    ("version", "STRING"),
    ("description", "STRING"),
    ("type", "STRING"),
    ("script", "STRING"),
    ("checksum", "STRING"),
    ("installed_by", "STRING"),
    ("installed_on", "TIMESTAMP"),
    ("execution_ms", "BIGINT"),
    ("status", "STRING"),
    ("statements", "INT"),
    ("instants", "STRING"),
    ("run_id", "STRING"),
)
_CHECKPOINTS: Final = ".hoodie/.aux/hudisql_migrations"


@dataclass(frozen=True)
class HistoryRow:
    """One run of a script.

    `instants` are the commits it made: (base path, latest commit before it or None, instant time).
    """

    installed_rank: int
    version: str | None
    description: str
    type: str
    script: str
    checksum: str | None
    installed_by: str
    installed_on: datetime
    execution_ms: int
    status: str
    statements: int
    instants: Sequence[tuple[str, str | None, str]] = field(default_factory=tuple)
    run_id: str = ""

    def values(self) -> tuple[object, ...]:
        """The values of the table's columns."""
        values = [getattr(self, column.name) for column in fields(self)]
        values[11] = json.dumps([list(instant) for instant in self.instants])
        return tuple(values)


@dataclass(frozen=True)
class History:
    """The table `database.name` of a session."""

    session: Session
    database: str
    name: str

    @property
    def full_name(self) -> str:
        """The name in messages."""
        return f"{self.database}.{self.name}"

    @property
    def _quoted(self) -> str:
        return f"{quote_name(self.database)}.{quote_name(self.name)}"

    def base_path(self) -> str | None:
        """The table's directory; None if it does not exist. Raises InvalidArgumentError, MetastoreError."""
        entry = self.session.context.metastore.get_table(self.database, self.name)
        if entry is None:
            return None
        if not is_hudi_table(entry):
            raise InvalidArgumentError(
                f"{self.full_name} is not a Hudi table", hint="--history DB.NAME names another table"
            )
        return self.session.context.storage.qualify(location_of(entry))

    def create(self) -> str:
        """The table's directory; creates the table if it is missing, also while another runner does."""
        attempts = 3
        while (path := self.base_path()) is None:
            attempts -= 1
            columns = ", ".join(f"{name} {kind}" for name, kind in _COLUMNS)
            try:
                if self.database != "default":
                    self.session.sql(f"CREATE DATABASE IF NOT EXISTS {quote_name(self.database)}")
                self.session.sql(
                    f"CREATE TABLE IF NOT EXISTS {self._quoted} ({columns}) USING hudi "
                    "TBLPROPERTIES (primaryKey = 'installed_rank', type = 'cow')"
                )
            except HudisqlError:
                if not attempts:
                    raise
        return path

    def checkpoint(self, base_path: str) -> RunCheckpoint:
        """The checkpoint in the table's directory."""
        return RunCheckpoint(self.session.context.storage, join(base_path, _CHECKPOINTS))

    def state(self) -> CheckpointState:
        """The state in the checkpoint, read without its lock. Raises HudisqlError."""
        path = self.base_path()
        return CheckpointState() if path is None else self.checkpoint(path).read()

    def read(self) -> list[HistoryRow]:
        """All runs in their order; empty if there is no table. Raises HudisqlError."""
        if self.base_path() is None:
            return []
        names = ", ".join(name for name, _ in _COLUMNS)
        rows = self.session.sql(f"SELECT {names} FROM {self._quoted} ORDER BY installed_rank").rows
        return [_row(row.asDict()) for row in rows]

    def write(self, row: HistoryRow) -> None:
        """Add the row, or replace the one of its rank. Raises HudisqlError."""
        values = ", ".join(
            f"CAST({_literal(value)} AS {kind}) AS {name}"
            for value, (name, kind) in zip(row.values(), _COLUMNS, strict=True)
        )
        # One small statement, which runs on the driver.
        self.session.sql(
            f"MERGE INTO {self._quoted} t USING (SELECT {values}) s ON t.installed_rank = s.installed_rank "
            "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        )


def _row(values: dict[str, Any]) -> HistoryRow:
    instants = [tuple(load) for load in json.loads(values.pop("instants") or "[]")]
    return HistoryRow(**values, instants=instants)


def _literal(value: object) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, datetime):
        return f"TIMESTAMP '{value:%Y-%m-%d %H:%M:%S}Z'"
    return str(value) if isinstance(value, int) else quote_string(str(value))


def now() -> datetime:
    """The current time, to the second."""
    return datetime.now(UTC).replace(microsecond=0)
