"""A directory of scripts, and the command on the suite's Spark session and metastore."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner
from typer.testing import Result as CliResult

from hudisql.cli.main import app


@dataclass
class Project:
    """Scripts in `directory`, a database and a history table of their own."""

    session: Any
    directory: Path
    database: str = field(default_factory=lambda: f"m{uuid.uuid4().hex[:8]}")

    @property
    def history(self) -> str:
        return f"{self.database}.history"

    def write(self, name: str, text: str) -> Path:
        path = self.directory / name
        path.write_text(text.replace("{db}", self.database))
        return path

    def run(self, verb: str, *options: str, exit_code: int = 0) -> CliResult:
        arguments = ["--format", "csv", "migrate", verb, str(self.directory), "--history", self.history]
        done = CliRunner().invoke(app, [*arguments, *options])
        assert done.exit_code == exit_code, (done.exit_code, done.stderr, done.exception)
        return done

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in self.session.sql(query.replace("{db}", self.database)).rows]

    def commits(self, table: str) -> int:
        return len(self.rows(f"CALL show_commits(table => '{{db}}.{table}', limit => 1000)"))


@pytest.fixture
def project(session: Any, tmp_path: Path) -> Iterator[Project]:
    directory = tmp_path / "migrations"
    directory.mkdir()
    made = Project(session, directory)
    session.sql(f"CREATE DATABASE {made.database}")
    yield made
    session.sql("USE default")
    for row in session.sql(f"SHOW TABLES IN {made.database}").rows:
        session.sql(f"DROP TABLE {made.database}.{row.tableName}")
    session.sql(f"DROP DATABASE {made.database}")
