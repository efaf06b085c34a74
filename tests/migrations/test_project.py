"""The worked project that `hudisql init` makes runs on the embedded default; `sql/migrations` is the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from hudisql.cli.main import app
from hudisql.migrations.new_project import TEMPLATE
from tests.fault_injection import ROOT


def run(*arguments: str) -> Any:
    done = CliRunner().invoke(app, list(arguments))
    assert done.exit_code == 0, (done.stderr, done.exception)
    return done


def files_of(directory: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()
    }


def test_the_example_in_the_repository_is_what_init_makes(tmp_path: Path) -> None:
    run("init", str(tmp_path / "project"))
    assert files_of(tmp_path / "project") == files_of(TEMPLATE) == files_of(ROOT / "sql" / "migrations")
    assert ".github/workflows/migrations.yml" in files_of(TEMPLATE)
    again = CliRunner().invoke(app, ["init", str(tmp_path / "project")])
    assert (again.exit_code, "not empty" in again.stderr) == (2, True)


@pytest.mark.spark
def test_the_check_finds_nothing_in_the_project(spark: object, tmp_path: Path) -> None:
    del spark  # the check uses the one that runs
    run("init", str(tmp_path / "project"))
    given = ["--hivevar", f"source={tmp_path / 'source'}", "--hivevar", "day=2024-03-02"]
    directories = [str(tmp_path / "project" / name) for name in ("migrations", "jobs")]
    run(*given, "check", "--schema", str(tmp_path / "project" / "schema.sql"), *directories)


@pytest.mark.soak
@pytest.mark.spark
@pytest.mark.hms
def test_the_project_runs_from_the_check_to_the_daily_merge(session: Any, tmp_path: Path) -> None:
    project = tmp_path / "project"
    run("init", str(project))
    scripts = str(project / "migrations")
    given = ["--hivevar", f"source={tmp_path / 'source'}", "--hivevar", "day=2024-03-02"]
    history = ("--history", "shop.history")
    session.sql("CREATE DATABASE IF NOT EXISTS shop")
    try:
        run(*given, "check", "--schema", str(project / "schema.sql"), scripts, str(project / "jobs"))
        run(*given, "migrate", "apply", scripts, *history, "--report", str(tmp_path / "report.xml"))
        session.sql(
            "INSERT INTO shop.order_changes VALUES (1, 1, 20.0, 2, '2024-03-02', false), "
            "(2, 1, 0.0, 2, '2024-03-02', true), (4, 2, 1.0, 2, '2024-03-02', false)"
        )
        jobs = [
            part
            for name in ("daily_merge", "services")
            for part in ("-f", str(project / "jobs" / f"{name}.sql"))
        ]
        run(*given, *jobs)
        rows = session.sql("SELECT name, orders, amount FROM shop.orders_by_customer ORDER BY name").rows
        assert [tuple(row) for row in rows] == [("Ada", 1, 20.0), ("Grace", 2, 100.0)]
        assert "nothing to do" in run(*given, "migrate", "apply", scripts, *history).stderr
    finally:
        session.sql("DROP VIEW IF EXISTS shop.orders_by_customer")
        for row in session.sql("SHOW TABLES IN shop").rows:
            session.sql(f"DROP TABLE shop.{row.tableName}")
        session.sql("DROP DATABASE shop")
