"""A run that has begun, and scripts or people that change its course: no statement happens twice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hudisql.migrations.script_history import History
from hudisql.spark.versions import pyspark_version
from tests.migrations.conftest import Project

pytestmark = [pytest.mark.spark, pytest.mark.hms]
MAKE = "CREATE TABLE {db}.p (id INT) USING parquet;\n"
SKIPPED = {"__pycache__", ".venv", ".git", ".mypy_cache", ".ruff_cache", ".pytest_cache", ".hypothesis"}
INSERT = "INSERT INTO {db}.p SELECT int(raise_error('no'));"


def kill_in_the_last_statement(project: Project) -> None:
    """Leave the checkpoint as a process does that is killed in a statement of which nobody can know."""
    history = History(project.session, project.database, "history")
    base_path = history.base_path()
    assert base_path is not None
    checkpoint = history.checkpoint(base_path)
    checkpoint.acquire(0, lambda _: None)
    run: Any = checkpoint.state.run
    run["statements"][-1].update(state="started", effect="unknown")
    checkpoint.advance(run)
    checkpoint.release()


def test_no_other_script_runs_while_one_has_begun(project: Project) -> None:
    project.write("V1__a.sql", "SELECT 'one'; SELECT raise_error('no');")
    project.run("apply", exit_code=1)
    project.write("R__r.sql", "SELECT 'other';")
    refused = project.run("apply", "--target", "0", exit_code=4)
    assert "V1__a.sql has begun and not ended" in refused.stderr
    assert "other" not in refused.stdout
    project.write("V1__a.sql", "SELECT 'one'; SELECT 'two';")
    assert project.run("apply").stdout.split() == ["two", "two", "other", "other"]


@pytest.mark.soak
def test_no_baseline_while_a_script_has_begun(project: Project) -> None:
    project.write("V1__a.sql", "SELECT 'one'; SELECT raise_error('no');")
    project.run("apply", exit_code=1)
    refused = project.run("baseline", "--version", "1", exit_code=4)
    assert "V1__a.sql has begun and not ended" in refused.stderr
    project.run("repair", "--discard")
    project.run("baseline", "--version", "1")


def test_an_interrupted_statement_is_not_replaced_and_runs_again_or_is_forgotten_by_a_repair(
    project: Project,
) -> None:
    project.write("V1__p.sql", MAKE + INSERT)
    project.run("apply", exit_code=1)
    kill_in_the_last_statement(project)
    for text in ("SET a.b = 1;\n", "INSERT INTO {db}.p VALUES (7);\n"):
        project.write("V1__p.sql", MAKE + text + INSERT)
        conflict = project.run("apply", exit_code=4)
        assert "statement 2 was changed, but the one that stood there may have happened" in conflict.stderr
    project.write("V1__p.sql", f"{MAKE}INSERT INTO {{db}}.p VALUES (1);")
    assert "give one of" in project.run("repair", "--again", "--done", exit_code=2).stderr
    assert "runs again" in project.run("repair", "--again", "--dry-run").stderr
    project.run("apply", exit_code=4)
    assert "runs again" in project.run("repair", "--again").stderr
    project.run("apply")
    assert project.rows("SELECT id FROM {db}.p") == [(1,)]

    project.write("V2__q.sql", "SELECT 1; SELECT raise_error('no');")
    project.run("apply", exit_code=1)
    project.write("V2__q.sql", "SELECT 2;")
    project.run("apply", exit_code=4)
    assert "its unfinished run is forgotten" in project.run("repair", "--discard").stderr
    assert project.run("apply").stdout.split() == ["2", "2"]
    statuses = project.rows("SELECT version, status FROM {db}.history ORDER BY installed_rank")
    assert statuses == [("1", "success"), ("2", "deleted"), ("2", "success")]


def test_a_run_that_fails_before_the_interrupted_statement_does_not_forget_it(project: Project) -> None:
    project.write("V1__p.sql", MAKE + INSERT)
    project.run("apply", exit_code=1)
    kill_in_the_last_statement(project)
    project.write("V1__p.sql", f"{MAKE}INSERT INTO {{db}}.p VALUES (${{absent}});")
    project.run("apply", exit_code=1)
    project.write("V1__p.sql", f"{MAKE}INSERT INTO {{db}}.p VALUES (1);")
    assert "may have happened" in project.run("apply", exit_code=4).stderr


def test_dry_runs_and_looks_write_no_file(project: Project) -> None:
    project.write("V1__a.sql", "SELECT 1;")
    project.run("apply")
    project.write(
        "V2__b.sql", "SET a.b = c; CREATE TABLE {db}.n (id INT) USING hudi; INSERT INTO {db}.n SELECT 1;"
    )
    roots = (
        Path(str(project.session.context.warehouse).removeprefix("file:")),
        project.directory,
        Path.cwd(),
    )

    # The metastore of PySpark 3.5 logs more.
    logs = () if pyspark_version() >= (4, 0) else ("metastore.log",)

    def files() -> dict[Path, int]:
        found = [path for root in roots for path in root.rglob("*") if not SKIPPED & set(path.parts)]
        return {path: path.stat().st_mtime_ns for path in found if path.is_file() and path.name not in logs}

    before = files()
    assert any("history" in path.parts for path in before)
    project.run("plan")
    project.run("apply", "--dry-run")
    project.run("info")
    project.run("validate")
    project.run("repair", "--dry-run")
    project.run("undo", "--restore", "--dry-run")
    assert files() == before
