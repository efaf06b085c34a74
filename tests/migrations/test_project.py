"""The worked project that `hudisql init` makes runs on the embedded default; `sql/migrations` is the same."""

from __future__ import annotations

import json
from importlib.metadata import PathDistribution
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
    assert ".gitignore" in files_of(TEMPLATE)


def test_init_adds_to_a_repository_and_overwrites_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = {"README.md", "migrations/V1__own.sql", ".github/workflows/tests.yml"}
    for name in own:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("own")
    origin = {"url": "https://git.example.com/hudisql", "vcs_info": {"vcs": "git", "commit_id": "4f2a"}}
    monkeypatch.setattr(PathDistribution, "read_text", lambda *_: json.dumps(origin))
    done = run("init", str(tmp_path))
    assert f"{tmp_path / 'README.md'} stays as it is" in done.stderr
    assert f"{tmp_path / 'migrations'} stays as it is" in done.stderr
    files = files_of(tmp_path)
    assert {name for name, text in files.items() if text == b"own"} == own
    assert {name for name in files if name.startswith("migrations/")} == {"migrations/V1__own.sql"}
    assert {".gitignore", "schema.sql", "jobs/services.sql"} <= set(files)
    workflow = files[".github/workflows/migrations.yml"].decode()
    assert "|| 'hudisql[java] @ git+https://git.example.com/hudisql@4f2a' }}" in workflow


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
