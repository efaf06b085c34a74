"""What needs neither Spark nor a metastore starts and imports neither."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hudisql.config.settings import Settings
from hudisql.console import SilentConsole
from hudisql.errors import MetastoreUnavailableError, SessionClosedError, SqlSyntaxError
from hudisql.session import open_session
from hudisql.sql.dispatch import STATEMENT_HEADS, check_head, names_nothing
from hudisql.sql.text.statements import Statement

ROOT = Path(__file__).parent.parent

_SPY = """
import json, subprocess, sys
started = []
sys.addaudithook(lambda event, args: started.append(str(args[0])) if event == "subprocess.Popen" else None)
from hudisql.cli.main import main
sys.argv = ["hudisql", *sys.argv[1:]]
try:
    main()
except SystemExit as end:
    code = end.code
names = ("pyspark", "py4j", "pyarrow", "numpy", "numba", "pandas", "boto3", "hmsclient")
heavy = [name for name in names if name in sys.modules]
print(json.dumps({"code": code or 0, "started": started, "heavy": heavy}), file=sys.stderr)
"""


def run_spied(tmp_path: Path, *arguments: str) -> tuple[str, str, dict[str, Any]]:
    """Standard output, standard error and what the command started and imported."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("HUDISQL_", "SPARK_"))}
    done = subprocess.run(
        [sys.executable, "-c", _SPY, "--warehouse", str(tmp_path / "warehouse"), *arguments],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**kept, "PYTHONPATH": str(ROOT), "HOME": str(tmp_path)},
        check=False,
    )
    *said, last = done.stderr.splitlines()
    return done.stdout, "\n".join(said), json.loads(last)


@pytest.mark.parametrize(
    ("arguments", "code", "expected"),
    [
        (["--help"], 0, "Usage"),
        (["--version"], 0, "hudisql"),
        (["config"], 0, "metastore"),
        (["--nonsense"], 2, "nonsense"),
        (["-e", "CALL help()"], 0, "bootstrap_table"),
        (["-e", "CALL help(cmd => 'run_compaction')"], 0, "scheduleAndExecute"),
        (["-e", "CALL help(cmd => 'bootstrap_table')"], 0, "parameters:"),
        (["--hivevar", "p=run_clean", "-e", "CALL help(cmd => '${p}')"], 0, "retain_commits"),
        (["--hiveconf", "p=run_clean", "-e", "CALL help(cmd => '${hiveconf:p}')"], 0, "retain_commits"),
        (["-e", "CALL help(cmd => '${p}')"], 1, "${p}"),
        (["-e", "CALL nope()"], 1, "there is no procedure 'nope'"),
        (["-e", "CALL help(nope => 1)"], 1, "nope"),
        (["-e", "SELEC 1"], 1, "Syntax error at or near 'SELEC'"),
        (["-e", "CALL help("], 1, "line 1"),
        (["-e", "help"], 0, "CALL help()"),
        (["-f", "no-such-file"], 2, "cannot read"),
        (["--metastore", "http://host:1", "-e", "select 1"], 2, "bad metastore URI"),
    ],
)
def test_what_needs_no_spark_starts_nothing(
    tmp_path: Path, arguments: list[str], code: int, expected: str
) -> None:
    out, said, spied = run_spied(tmp_path, *arguments)
    assert expected in out + said
    assert spied == {"code": code, "started": [], "heavy": []}
    assert not (tmp_path / "warehouse").exists()


def test_a_session_that_is_opened_and_closed_starts_nothing(tmp_path: Path) -> None:
    settings = Settings().with_layer({"warehouse": str(tmp_path / "warehouse")}, "test")
    session = open_session(settings=settings, console=SilentConsole())
    if session.context.started_spark is None:
        assert "bootstrap_table" in session.sql("CALL help()").rows[0].result
        with pytest.raises(SqlSyntaxError, match="line 1, column 1"):
            session.sql("SELEC 1")
        assert session.context.started_spark is None
    session.close()
    with pytest.raises(SessionClosedError):
        session.sql("CALL help()")
    assert not (tmp_path / "warehouse").exists()


def test_a_metastore_that_is_away_is_an_error_of_the_statement_that_needs_it(tmp_path: Path) -> None:
    script = (
        "import sys, hudisql\n"
        "session = hudisql.connect(metastore='thrift://127.0.0.1:9')\n"
        "try:\n"
        "    session.sql('SHOW TABLES')\n"
        f"except hudisql.errors.{MetastoreUnavailableError.__name__} as error:\n"
        "    assert session.could_not_start(error)\n"
        "    assert 'pyspark' not in sys.modules\n"
        "    session.close()\n"
        "    print('away')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=False,
    )
    assert (done.stdout, done.returncode) == ("away\n", 0), done.stderr


_WITHOUT_SPARK = """
import json, sys
import hudisql
with hudisql.connect(metastore=sys.argv[1], warehouse=sys.argv[2]) as session:
    rows = [list(map(list, session.sql(text).values)) for text in json.loads(sys.argv[3])]
    assert session.context.started_spark is None
loaded = [name for name in ("py4j.java_gateway", "numba", "pandas", "sqlglot") if name in sys.modules]
print(json.dumps({"rows": rows, "loaded": loaded}, default=str))
"""


def run_without_spark(session: Any, statements: list[str]) -> dict[str, Any]:
    """The rows of the statements in a process that must not start Spark, and what it has imported."""
    uri = session.context.settings.metastore
    done = subprocess.run(
        [sys.executable, "-c", _WITHOUT_SPARK, uri, session.context.warehouse, json.dumps(statements)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=False,
    )
    assert not done.returncode, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


@pytest.fixture
def shelf(session: Any) -> Iterator[str]:
    """A database with a Hudi table of two commits, a plain table and a view."""
    session.sql("CREATE DATABASE shelf")
    session.sql(
        "CREATE TABLE shelf.books (id INT, title STRING, shop STRING) USING hudi "
        "TBLPROPERTIES (primaryKey = 'id') PARTITIONED BY (shop)"
    )
    session.sql("INSERT INTO shelf.books VALUES (1, 'a', 'x'), (2, 'b', 'y')")
    session.sql("INSERT INTO shelf.books VALUES (3, 'c', 'x')")
    session.sql("CREATE TABLE shelf.plain USING parquet AS SELECT 1 AS a")
    session.sql("CREATE VIEW shelf.seen AS SELECT 1 AS a")
    yield "shelf"
    session.sql("DROP DATABASE shelf CASCADE")


@pytest.mark.spark
@pytest.mark.hms
@pytest.mark.usefixtures("shelf")
def test_statements_about_tables_start_no_spark_and_answer_as_with_it(session: Any) -> None:
    statements = [
        *("SHOW DATABASES", "SHOW SCHEMAS LIKE 'SHEL*|nothing'", "SHOW TABLES FROM shelf"),
        *("show tables in `shelf` 'B*|seen'", "SHOW TABLES FROM shelf LIKE 'none*'", "SHOW TABLES"),
        *("SHOW PARTITIONS shelf.books", "SHOW PARTITIONS shelf.books PARTITION (shop = 'x')"),
        *("SHOW COLUMNS IN shelf.books", "SHOW TBLPROPERTIES shelf.books", "SHOW CREATE TABLE shelf.books"),
        *("DESCRIBE shelf.books", "DESC EXTENDED shelf.books", "DESCRIBE shelf.books title"),
        *("CALL show_commits(table => 'shelf.books')", "CALL show_timeline(table => 'shelf.books')"),
        *("CALL show_fsview_latest(table => 'shelf.books')", "CALL show_cleans(table => 'shelf.books')"),
        *("CALL show_savepoints(table => 'shelf.books')", "CALL show_services(table => 'shelf.books')"),
        *("CALL show_rollbacks(table => 'shelf.books')", "CALL check_readers(table => 'shelf.books')"),
        "CALL run_clean(table => 'shelf.books', dry_run => true)",
    ]
    answer = run_without_spark(session, statements)
    for text, rows in zip(statements, answer["rows"], strict=True):
        with_spark = json.loads(json.dumps([list(row) for row in session.sql(text).rows], default=str))
        assert sorted(rows, key=str) == sorted(with_spark, key=str), text
    assert ["shelf", "seen", False] in answer["rows"][2]


@pytest.mark.spark
@pytest.mark.hms
def test_services_of_a_table_start_no_spark(session: Any, shelf: str) -> None:
    commits = session.sql(f"CALL show_commits(table => '{shelf}.books')").rows
    last, first = (row.commit_time for row in commits)
    answer = run_without_spark(
        session,
        [
            f"CALL create_savepoint(table => '{shelf}.books', commit_time => '{first}')",
            f"CALL run_clean(table => '{shelf}.books', retain_commits => 1)",
            f"CALL rollback_to_instant(table => '{shelf}.books', instant_time => '{last}')",
            f"CALL rollback_to_savepoint(table => '{shelf}.books', instant_time => '{first}')",
            f"CALL delete_savepoint(table => '{shelf}.books', instant_time => '{first}')",
            f"CALL hive_sync(table => '{shelf}.books')",
            f"CALL archive_commits(table => '{shelf}.books')",
        ],
    )
    assert len(answer["rows"]) == 7
    assert [row.id for row in session.sql(f"SELECT id FROM {shelf}.books ORDER BY id").rows] == [1, 2]


@pytest.mark.spark
@pytest.mark.hms
@pytest.mark.usefixtures("shelf")
def test_describe_and_show_import_neither_spark_nor_what_changes_tables(session: Any) -> None:
    answer = run_without_spark(session, ["DESCRIBE shelf.books", "SHOW TABLES FROM shelf"])
    assert answer["loaded"] == []


@pytest.mark.parametrize("text", ["SELEC 1", "  /* a */ selct x", "OPTIMISE t", "nonsense"])
def test_a_first_word_that_begins_no_statement_is_a_syntax_error(text: str) -> None:
    with pytest.raises(SqlSyntaxError, match="Syntax error at or near"):
        check_head(Statement(text))


@pytest.mark.parametrize("text", ["select 1", "(SELECT 1)", "outer: BEGIN END", "Use x", "`SELEC` 1", "'a'"])
def test_other_texts_are_left_to_spark(text: str) -> None:
    check_head(Statement(text))


@pytest.mark.parametrize(
    "text",
    [
        "SELECT 1",
        "select 1 a",
        "SELECT 1 AS one, 'x' AS `two`, -2.5 * 3 > 1e3",
        "VALUES (1, NULL), (2, 'b')",
        "SELECT current_date(), DATE '2024-01-01'",
    ],
)
def test_queries_of_literals_name_nothing(text: str) -> None:
    assert names_nothing(Statement(text)) == (text != "select 1 a")


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM t",
        "TABLE t",
        "SELECT f(1)",
        "SELECT x",
        "SELECT (SELECT max(a) FROM t)",
        "WITH c AS (SELECT 1) SELECT * FROM c",
        "SELECT 1 UNION SELECT a FROM t",
        'SELECT 1 AS "a" FROM t',
        "SELECT 1 AS FROM t",
    ],
)
def test_queries_that_name_something_need_the_catalog(text: str) -> None:
    assert not names_nothing(Statement(text))


@pytest.mark.soak
@pytest.mark.spark
def test_spark_refuses_the_same_first_words(spark: Any) -> None:
    from hudisql.sql.query.references import parse_plan
    from hudisql.sql.text.spark_errors import SourceText

    keywords = [row.keyword for row in spark.sql("SELECT keyword FROM sql_keywords()").collect()]
    assert len(keywords) > 300
    others = [word for word in keywords if word.isidentifier() and word not in STATEMENT_HEADS]
    for text in ["SELEC 1", "  selct x", "nonsense", *(f"{word} x" for word in others)]:
        with pytest.raises(SqlSyntaxError) as sparks:
            parse_plan(spark, text, SourceText(text))
        with pytest.raises(SqlSyntaxError) as ours:
            check_head(Statement(text))
        assert ours.value.message == sparks.value.message


@pytest.mark.spark
@pytest.mark.slow
def test_a_query_of_literals_starts_spark_and_no_metastore(tmp_path: Path) -> None:
    warehouse = tmp_path / "warehouse"
    script = "SELECT 1 AS a; SELECT 2 AS b"
    out, said, spied = run_spied(tmp_path, "-S", "--format", "csv", "-e", script)
    assert (out, spied["code"]) == ("a\n1\nb\n2\n", 0), said
    assert not (warehouse / ".metastore").exists()


@pytest.mark.soak
@pytest.mark.spark
@pytest.mark.slow
def test_the_metastore_starts_for_a_spark_that_runs_without_it(tmp_path: Path) -> None:
    script = (
        "SELECT 1 AS a; CREATE DATABASE d; USE d; CREATE TABLE t USING parquet AS SELECT 2 AS b; TABLE t;"
    )
    out, said, spied = run_spied(tmp_path, "-S", "--format", "csv", "-e", script)
    assert (out, spied["code"]) == ("a\n1\nb\n2\n", 0), said
    assert (tmp_path / "warehouse" / ".metastore").exists()
    assert not list(tmp_path.glob("*metastore_db*")), "Spark made a metastore of its own"
