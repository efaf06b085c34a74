"""`hudisql migrate`: scripts run once, corrected ones go on, what does not agree is exit code 4."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree as Xml

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hudisql.migrations.script_history import History
from tests.migrations.conftest import Project

pytestmark = [pytest.mark.spark, pytest.mark.hms]
MAKE = """CREATE TABLE {db}.t (id INT, n INT) USING hudi TBLPROPERTIES (primaryKey = 'id');
INSERT INTO {db}.t VALUES (1, 0);
"""
ADD = "UPDATE {db}.t SET n = n + 1;\n"


def test_a_corrected_script_goes_on_behind_its_done_statements(project: Project, tmp_path: Path) -> None:
    assert "nothing to do" in project.run("plan").stderr
    assert project.rows("SHOW TABLES IN {db}") == []
    script = project.write("V1__t.sql", f"{MAKE}{ADD}UPDATE {{db}}.t\n  SET wrong = 1;\n{ADD}")
    report = tmp_path / "report.xml"
    failed = project.run("apply", "--report", str(report), exit_code=1)
    assert f"ERROR ({script}:4): {project.database}.t has no column 'wrong'" in failed.stderr
    assert "SET wrong = 1" in failed.stderr
    cases = list(Xml.fromstring(report.read_text()).iter("testcase"))
    assert [len(case.findall("failure")) for case in cases] == [0, 0, 0, 1]
    assert next(each.attrib for each in cases[1].iter("property")) == {"name": "rows_inserted", "value": "1"}
    info = project.run("info").stdout.splitlines()[1]
    assert info.startswith("1,t,SQL,failed,5,3")

    # A done statement must stay as it was.
    project.write("V1__t.sql", f"{MAKE}UPDATE {{db}}.t SET n = 7;\n{ADD}{ADD}")
    conflict = project.run("apply", exit_code=4)
    assert "V1__t.sql: statement 3 is done already, and was changed since" in conflict.stderr

    project.write("V1__t.sql", f"{MAKE}{ADD}{ADD}{ADD}")
    planned = project.run("apply", "--dry-run")
    assert "2 statements would run" in planned.stderr
    assert project.rows("SELECT n FROM {db}.t") == [(1,)]
    report = tmp_path / "report.json"
    project.run("apply", "--report", str(report))
    assert [each["state"] for each in json.loads(report.read_text())] == ["skipped"] * 3 + ["done"] * 2
    assert project.rows("SELECT n FROM {db}.t") == [(3,)]
    assert project.rows("SELECT installed_rank, status, statements FROM {db}.history") == [(1, "success", 5)]


@pytest.mark.soak
def test_a_changed_a_missing_and_a_late_script_are_conflicts_until_repaired(project: Project) -> None:
    for version in ("1", "2", "4"):
        project.write(f"V{version}__s.sql", f"SELECT {version};")
    project.write("R__r.sql", "SELECT 'first';")
    project.run("apply")
    project.run("validate")
    project.write("V1__s.sql", "SELECT 100;")
    (project.directory / "V2__s.sql").unlink()
    project.write("V3__s.sql", "SELECT 3;")
    conflict = project.run("validate", exit_code=4)
    for text in (
        "V1__s.sql was changed after it was applied",
        "V2__s.sql was applied and is now missing",
        "V3__s.sql is older than the last one applied",
    ):
        assert text in conflict.stderr
    before = project.rows("SELECT * FROM {db}.history ORDER BY installed_rank")
    for verb in ("plan", "apply"):
        project.run(verb, exit_code=4)
    project.run("repair", "--dry-run")
    assert project.rows("SELECT * FROM {db}.history ORDER BY installed_rank") == before
    assert "2 repaired" in project.run("repair").stderr
    project.write("R__r.sql", "SELECT 'second';")
    done = project.run("apply", "--out-of-order")
    assert done.stdout.split() == ["3", "3", "second", "second"]
    assert project.rows("SELECT version, status FROM {db}.history ORDER BY installed_rank") == [
        ("1", "success"),
        ("2", "deleted"),
        ("4", "success"),
        (None, "success"),
        ("3", "success"),
        (None, "success"),
    ]


def test_undo_runs_the_u_script_or_restores_the_tables(project: Project, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    pq.write_table(pa.table({"id": [1, 2], "n": [5, 5]}), source / "a.parquet")
    project.write("V1__t.sql", MAKE)
    project.write("V2__more.sql", f"{ADD}{ADD}INSERT INTO {{db}}.t VALUES (2, 9);")
    project.write(
        "V3__b.sql",
        f"CALL bootstrap_table(table => '{{db}}.b', source => '{source}', record_key => 'id');\n"
        "DELETE FROM {db}.b WHERE id = 1;",
    )
    project.write("U1__t.sql", "DROP TABLE {db}.t;")
    project.run("apply")
    assert project.rows("SELECT id FROM {db}.b") == [(2,)]
    assert "no U3__… script" in project.run("undo", exit_code=4).stderr
    project.run("undo", "--restore", "--target", "1", "--dry-run")
    assert project.rows("SELECT count(*) FROM {db}.t") == [(2,)]
    assert "2 undone" in project.run("undo", "--restore", "--target", "1").stderr
    assert project.rows("SELECT id, n FROM {db}.t") == [(1, 0)]
    assert project.rows("SHOW TABLES IN {db} LIKE 'b'") == []
    project.run("undo")
    assert project.rows("SHOW TABLES IN {db} LIKE 't'") == []
    states = [line.split(",")[3] for line in project.run("info").stdout.splitlines()[1:]]
    assert states == ["pending"] * 3


def test_a_restore_that_would_lose_the_commits_of_others_is_blocked(project: Project) -> None:
    project.write("V1__t.sql", MAKE)
    project.write("V2__more.sql", ADD)
    project.run("apply")
    project.rows(ADD.rstrip(";\n"))
    assert "commits that the script did not make" in project.run("undo", "--restore", exit_code=3).stderr
    assert project.rows("SELECT n FROM {db}.t") == [(2,)]


def test_a_blocked_bootstrap_is_exit_code_3_in_the_plan_and_when_applied(
    project: Project, tmp_path: Path
) -> None:
    source = tmp_path / "source"
    source.mkdir()
    pq.write_table(pa.table({"id": [1, None]}), source / "a.parquet")
    call = "CALL bootstrap_table(table => '{db}.b', source => '" + str(source) + "', record_key => 'no')"
    project.write("V2__b.sql", call)
    project.run("baseline", "--version", "1")
    project.run("plan", exit_code=3)
    project.run("apply", exit_code=3)
    assert project.rows("SHOW TABLES IN {db} LIKE 'b'") == []


def test_a_plan_uses_no_database_that_a_script_is_to_make(project: Project) -> None:
    made = f"{project.database}_made"
    project.write("V1__d.sql", f"CREATE DATABASE IF NOT EXISTS {made};")
    project.write(
        "V2__t.sql",
        f"USE {made}; SET a.b = 1; CALL bootstrap_table(table => 't', source => '/none', record_key => 'id');"
        "USE {db}; SELECT 1;",
    )
    planned = project.run("plan")
    assert f"cannot be previewed yet: the database {made} does not exist yet" in planned.stderr
    project.write("V2__t.sql", "USE no_such_database; SELECT 1;")
    assert "no_such_database" in project.run("plan", exit_code=1).stderr


def test_settings_and_views_of_a_script_end_with_it(project: Project) -> None:
    project.write("V1__a.sql", "SET my.setting = a; CREATE TEMPORARY VIEW v AS SELECT 1; SELECT * FROM v;")
    project.write("V2__b.sql", "SET my.setting; SELECT * FROM v;")
    failed = project.run("apply", exit_code=1)
    assert "my.setting,<undefined>" in failed.stdout
    assert "V2__b.sql:1" in failed.stderr


@pytest.mark.parametrize(
    ("name", "text", "options", "complaint"),
    [
        ("one.sql", "SELECT 1", (), "is not named as a migration script"),
        ("V3__ONE.SQL", "SELECT 1", (), "is not named as a migration script"),
        ("V1_1__a.sql", "SELECT 1", ("--target", "x"), "'x' is not a version"),
        ("V1__a.sql", "SELECT 1", ("--report", "report.txt"), "must end in .xml (JUnit) or .json"),
        ("V1__a.sql", "SELECT 'ran';\nquit;", (), "V1__a.sql:2: 'quit' is a command of the shell"),
        ("R__b.sql", "\\d t", ("--dry-run",), "is a command of the shell, not SQL"),
    ],
)
def test_bad_usage_is_exit_code_2(
    project: Project, name: str, text: str, options: tuple[str, ...], complaint: str
) -> None:
    project.write("V0__first.sql", "SELECT 'ran'")
    project.write(name, text)
    done = project.run("apply", *options, exit_code=2)
    assert complaint in done.stderr
    assert "ran" not in done.stdout


def test_a_statement_whose_outcome_nobody_knows_waits_for_a_repair(project: Project) -> None:
    project.write(
        "V1__p.sql",
        "CREATE TABLE {db}.p (id INT) USING parquet;\nINSERT INTO {db}.p SELECT int(raise_error('no'));",
    )
    project.run("apply", exit_code=1)
    # As if the process had been killed in the INSERT.
    history = History(project.session, project.database, "history")
    base_path = history.base_path()
    assert base_path is not None
    checkpoint = history.checkpoint(base_path)
    checkpoint.acquire(0, lambda _: None)
    run = checkpoint.state.run
    assert run is not None
    run["statements"][-1]["state"] = "started"
    checkpoint.advance(run)
    checkpoint.release()
    conflict = project.run("apply", exit_code=4)
    assert "V1__p.sql:2: the last run was interrupted in statement 2" in conflict.stderr
    assert "counts as done" in project.run("repair", "--done").stderr
    project.run("apply")
    assert project.rows("SELECT count(*) FROM {db}.p") == [(0,)]
