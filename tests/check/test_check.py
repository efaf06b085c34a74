"""`hudisql check`: all that is wrong with a script is found, each thing at its place; nothing is run."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from hudisql.check.script_findings import code_of
from hudisql.check.statement_check import missing_key_columns
from hudisql.cli.main import app
from hudisql.errors import InvalidArgumentError, QueryError, UnknownColumnError, UnknownParameterError
from hudisql.migrations.scripts import load_scripts
from tests.spark_versions import has_blocks

SCHEMA = """
CREATE TABLE lake.t (id INT, name STRING, ts BIGINT, dt STRING) USING hudi
  PARTITIONED BY (dt) TBLPROPERTIES (primaryKey = 'id', preCombineField = 'ts');
CREATE TABLE legacy.src (id INT, name STRING, ts BIGINT, dt STRING) USING parquet;
"""
# Each statement with the code of its finding, or none.
STATEMENTS = [
    ("CREATE TABLE lake.n (id INT, v DECIMAL(10,2)) USING hudi TBLPROPERTIES (primaryKey = 'id')", None),
    ("INSERT INTO lake.n SELECT id, 1.5 FROM lake.t", None),
    ("SELECT wrong FROM lake.n", "unknown-column"),
    ("SELECT * FROM lake.absent", "unknown-table"),
    (
        "MERGE INTO lake.t t USING legacy.src s ON t.name = s.name WHEN MATCHED THEN UPDATE SET *",
        "merge-key",
    ),
    ("MERGE INTO lake.t t USING legacy.src s ON t.id = s.id WHEN MATCHED THEN UPDATE SET *", None),
    ("CALL run_compactoin(table => 'lake.t')", "unknown-procedure"),
    ("CALL run_clustering(tabel => 'lake.t')", "unknown-parameter"),
    ("CALL run_clustering(table => 'lake.absent')", "unknown-table"),
    ("CALL delete_metadata_table(table => 'lake.t, lake.absent')", "unknown-table"),
    ("CALL delete_metadata_table(table => 'lake.t, lake.t')", None),
    ("CALL show_commits(table => 'lake.t', limit => 'many')", "argument"),
    ("UPDATE legacy.src SET name = 'x'", "unsupported"),
    ("UPDATE lake.t SET nme = 'x'", "unknown-column"),
    ("UPDATE lake.t SET name = '${absent}'", "unknown-variable"),
    ("SET day = 2024; UPDATE lake.t SET name = '${day}'", None),
    ("INSERT INTO lake.n VALUES (1, array(1))", "type"),
    ("SET hoodie.parquet.max.file.syze = 1", "unknown-setting"),
    ("SET hoodie.wholly.unknown = 1", "unknown-setting"),
    ("SET hoodie.parquet.max.file.size = 1000000", None),
    ("SET hoodie.clean.policy = KEEP_LATEST_COMMITS", None),
    ("BEGIN DECLARE n INT; SET n = 1; UPDATE lake.t SET id = n; END", "unsupported"),
    (
        "BEGIN DECLARE n INT; SET n = 1; SELECT n, id FROM legacy.src; END",
        None if has_blocks() else "unsupported",
    ),
    ("BEGIN SELCT 1; END", "syntax" if has_blocks() else "unsupported"),
    (
        "CALL bootstrap_table(table => 'lake.b', source_table => 'legacy.src', record_key => 'nid')",
        "unknown-column",
    ),
    ("CALL bootstrap_table(table => 'lake.c', source => 'here', record_key => 'id')", "not-idempotent"),
    ("SELECT anything FROM lake.c", None),
    ("CALL bootstrap_table(table => 'lake.d', source_table => 'legacy.src', record_key => 'id')", None),
    ("CALL copy_to_table(table => 'lake.t', new_table => 'lake.copied')", None),
    ("INSERT INTO lake.d SELECT anything FROM lake.copied", None),
    ("CALL copy_to_temp_view(table => 'lake.t', view_name => 'shown')", None),
    ("SELECT anything FROM shown", None),
    ("DELETE FROM lake.d WHERE nam = 'x'", "unknown-column"),
    ("ALTER TABLE lake.n ADD COLUMNS (w STRING)", None),
    ("SELECT w FROM lake.n", None),
    ("SELCT 1", "syntax"),
    ("SELECT (1", "syntax"),
    ("DROP TABLE lake.n", None),
    ("SELECT * FROM lake.n", "unknown-table"),
    ("CREATE TABLE lake.n USING hudi TBLPROPERTIES (type = 'mor') AS SELECT id, name FROM lake.t", None),
    ("DROP TABLE lake.n", None),
    ("CREATE TABLE lake.n (z INT) USING hudi TBLPROPERTIES (type = 'mor')", None),
    ("SELECT z FROM lake.n", None),
    ("CREATE TABLE other.x (id INT) USING hudi", "unknown-table"),
]


def check(*arguments: str, exit_code: int) -> str:
    done = CliRunner().invoke(app, ["check", *arguments])
    assert isinstance(done.exception, SystemExit | None), done.exception
    assert done.exit_code == exit_code, (done.stderr, done.exception)
    return done.stdout


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    schema, script = tmp_path / "schema.sql", tmp_path / "V1__all.sql"
    schema.write_text(SCHEMA)
    script.write_text("".join(f"{text};\n" for text, _ in STATEMENTS))
    return schema, script


@pytest.mark.spark
def test_every_finding_of_a_script_is_said_at_its_line(spark: Any, files: tuple[Path, Path]) -> None:
    del spark  # the check uses the one that runs
    schema, script = files
    found = json.loads(check("--schema", str(schema), "--format", "json", str(script), exit_code=1))
    said = {each["line"]: each["code"] for each in found}
    wanted = {line: code for line, (_, code) in enumerate(STATEMENTS, start=1) if code is not None}
    assert said == wanted, [each for each in found if wanted.get(each["line"]) != each["code"]]
    column = next(each for each in found if each["code"] == "unknown-column")
    assert (column["line"], column["column"], column["file"]) == (3, 8, str(script))


@pytest.mark.spark
@pytest.mark.hms
def test_tables_of_the_metastore_are_known_and_stay_as_they_are(session: Any, tmp_path: Path) -> None:
    session.sql("CREATE DATABASE IF NOT EXISTS checked")
    session.sql("CREATE TABLE checked.t (id INT, n INT) USING hudi TBLPROPERTIES (primaryKey = 'id')")
    session.sql("INSERT INTO checked.t VALUES (1, 1)")
    script = tmp_path / "s.sql"
    script.write_text(
        "UPDATE checked.t SET n = 2;\nALTER TABLE checked.t ADD COLUMNS (m INT);\n"
        "UPDATE checked.t SET m = 2;\nDROP TABLE checked.t;\nSELECT * FROM checked.t;\n"
    )
    try:
        assert check(str(script), exit_code=1).startswith(f"{script}:5:1: unknown-table ")
        assert session.sql("SELECT * FROM checked.t").names[-2:] == ["id", "n"]
        assert [row.n for row in session.sql("SELECT n FROM checked.t").rows] == [1]
    finally:
        session.sql("DROP TABLE checked.t")
        session.sql("DROP DATABASE checked")


def test_the_level_parse_needs_no_spark(tmp_path: Path) -> None:
    script = tmp_path / "s.sql"
    script.write_text("SELECT 1;\nSELCT 2;\nUPDATE t SET;\nSELECT '${x}';\n")
    code = (
        "import sys\nfrom hudisql.cli.main import app\n"
        f"try:\n    app(['check', '--level', 'parse', '--format', 'github', {str(script)!r}])\n"
        "except SystemExit as end:\n    assert end.code == 1, end.code\n"
        "assert not {'pyspark', 'pyarrow', 'numba'} & set(sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    places = [line.split("::")[1] for line in done.stdout.splitlines()]
    assert [place.split(",line=")[1].split(",")[0] for place in places] == ["2", "3", "4"]
    sarif = json.loads(check("--level", "parse", "--format", "sarif", str(script), exit_code=1))
    assert [each["ruleId"] for each in sarif["runs"][0]["results"]] == [
        "syntax",
        "syntax",
        "unknown-variable",
    ]


def test_names_and_calls_that_apply_refuses_are_found_without_spark(tmp_path: Path) -> None:
    scripts = {
        "schema.sql": "SELECT 1;",
        "jobs/daily.sql": "CALL run_clean(table => 't');\n\\timing;\n",
        "migrations/V1__a.sql": "CALL run_compactoin(table => 't');\nCALL run_clean(tabel => 't');\n",
        "migrations/more/V1.0__b.sql": "SELECT 1;",
        "migrations/V2_c.sql": "SELECT 1;",
        "migrations/V4__d.sql": "SELECT 1;",
        "migrations/U1__a.sql": "SELECT 1;",
    }
    for name, text in scripts.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    found = json.loads(check("--level", "parse", "--format", "json", str(tmp_path), exit_code=1))
    said = {(str(Path(each["file"]).relative_to(tmp_path)), each["line"], each["code"]) for each in found}
    assert said == {
        ("jobs/daily.sql", 2, "unsupported"),
        ("migrations/V1__a.sql", 1, "unknown-procedure"),
        ("migrations/V1__a.sql", 2, "unknown-parameter"),
        ("migrations/V2_c.sql", 1, "script-name"),
        ("migrations/more/V1.0__b.sql", 1, "script-name"),
    }
    with pytest.raises(InvalidArgumentError, match=r"V2_c\.sql is not named"):
        load_scripts(tmp_path / "migrations")
    (tmp_path / "migrations/V2_c.sql").unlink()
    (tmp_path / "migrations/more/V1.0__b.sql").unlink()
    # Neither of them refuses the gap between the versions.
    found = json.loads(check("--level", "parse", "--format", "json", str(tmp_path), exit_code=1))
    assert "script-name" not in {each["code"] for each in found}
    assert [str(script.version) for script in load_scripts(tmp_path / "migrations").versioned] == ["1", "4"]


def test_bad_usage_is_exit_code_2(tmp_path: Path) -> None:
    check("--level", "deep", str(tmp_path), exit_code=2)
    check(str(tmp_path / "absent.sql"), exit_code=2)


@pytest.mark.parametrize(
    ("condition", "missing"),
    [
        ("t.a = s.a AND t.b = s.b", ()),
        ("(s.x = t.A) and (t.b <=> s.b)", ()),
        ("t.a = s.a OR t.b = s.b", ("a", "b")),
        ("s.a = s.b AND t.b = 1", ("a",)),
        ("a = s.x AND b > 1", ("b",)),
    ],
)
def test_key_columns_that_a_condition_does_not_compare(condition: str, missing: tuple[str, ...]) -> None:
    assert missing_key_columns(condition, ["t"], ["a", "b"]) == missing


def test_a_code_is_that_of_the_error_and_not_of_its_words() -> None:
    quoted = QueryError("the text 'has no column' or '[UNRESOLVED_COLUMN] has no parameter' failed")
    assert code_of(quoted) == "error"
    quoted.condition = "UNRESOLVED_COLUMN.WITH_SUGGESTION"
    assert code_of(quoted) == "unknown-column"
    assert code_of(UnknownColumnError("no x")) == "unknown-column"
    assert code_of(UnknownParameterError("no x")) == "unknown-parameter"
    assert code_of(InvalidArgumentError("the value 'has no column' is bad")) == "argument"
