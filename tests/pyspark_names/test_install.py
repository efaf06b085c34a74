"""`hudisql.install(spark)`: what becomes of the session, and that it gets its own methods back."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import SparkSession

import hudisql
from hudisql.console import SilentConsole
from hudisql.errors import SettingsError
from hudisql.spark.versions import dataframe_class
from hudisql.sql.concerned_tables import concerns_hudi
from tests.spark_versions import needs_spark

pytestmark = [pytest.mark.spark, pytest.mark.hms]
ROOT = Path(__file__).parents[2]
FRAME_METHODS = ("write", "writeStream", "writeTo", "mergeInto")


def install(spark: Any, **arguments: Any) -> Any:
    return hudisql.install(spark, console=SilentConsole(), **arguments)


@pytest.fixture(scope="module")
def table(session: Any) -> Any:
    session.sql("CREATE DATABASE installed")
    session.sql("CREATE TABLE installed.t (id INT) USING hudi TBLPROPERTIES (primaryKey = 'id')")
    session.sql("INSERT INTO installed.t VALUES (1), (2)")
    yield "installed.t"
    session.sql("DROP DATABASE installed CASCADE")


def methods() -> dict[str, Any]:
    return {name: vars(dataframe_class()).get(name) for name in FRAME_METHODS}


def test_close_gives_the_plain_methods_back(spark: Any, table: str) -> None:
    own_class, own_methods = type(spark), methods()
    with install(spark) as session:
        assert session.spark is spark
        assert isinstance(spark, own_class)
        assert spark.table(table).count() == 2
        frame = spark.table(table)
    assert type(spark) is own_class
    assert methods() == own_methods
    # Frames made before live on, and are plain.
    assert frame.count() == 2
    assert type(frame.write).__module__.startswith("pyspark.")


@pytest.mark.soak
@needs_spark("4.0", "the data source, whose error names install")
def test_a_user_who_forgot_to_install_is_told(spark: Any, table: str) -> None:
    for line in (
        lambda: spark.table(table).collect(),
        lambda: spark.range(1).writeTo(table).append(),
        lambda: spark.range(1).write.format("hudi").mode("append").saveAsTable(table),
    ):
        with pytest.raises(PySparkException, match=r"hudisql\.install\(spark\)"):
            line()


def test_every_way_to_the_session_is_the_same_object(spark: Any, table: str) -> None:
    with install(spark):
        spark.createDataFrame([(1,)], "id INT").createOrReplaceTempView("one_row")
        ways = [SparkSession.getActiveSession(), SparkSession.builder.getOrCreate()]
        ways += [
            spark.range(1).sparkSession,
            spark.table(table).sparkSession,
            spark.sql("SELECT 1").sparkSession,
        ]
        assert all(way is spark for way in ways)
        spark.catalog.dropTempView("one_row")


def test_installing_twice_gives_the_same_session(spark: Any) -> None:
    with install(spark) as session:
        assert install(spark) is session
        with pytest.raises(SettingsError, match="installed in this SparkSession with other arguments"):
            install(spark, warehouse="/another")
    with install(spark) as again:
        assert again is not session
        assert spark.sql("SELECT 1").collect()[0][0] == 1


def test_connect_serves_the_names_of_the_session_that_it_is_given(spark: Any, table: str) -> None:
    own_class = type(spark)
    with hudisql.connect(spark=spark, console=SilentConsole()) as session:
        assert spark.table(table).count() == spark.sql(f"SELECT * FROM {table}").count() == 2
        assert install(spark) is session
    assert type(spark) is own_class
    with hudisql.connect(console=SilentConsole()):
        assert spark.table(table).count() == 2
    assert type(spark) is own_class


def test_of_several_open_sessions_the_newest_serves_the_names(spark: Any, table: str) -> None:
    own_class = type(spark)
    installed = install(spark)
    first, second = (hudisql.connect(spark=spark, console=SilentConsole()) for _ in range(2))
    assert install(spark) is second
    with mock.patch.object(hudisql.Session, "write", autospec=True) as write:
        hudisql.write_table(spark.range(1), table)
    assert write.call_args.args[0] is second
    first.close()
    assert install(spark) is second
    second.close()
    assert install(spark) is installed
    assert spark.table(table).count() == 2
    installed.close()
    assert type(spark) is own_class


@pytest.mark.soak
def test_new_sessions_know_the_names_until_the_first_is_closed(spark: Any, table: str) -> None:
    with install(spark):
        other = spark.newSession()
        other.sql("SET spark.sql.shuffle.partitions = 3")
        other.sql(f"SELECT * FROM {table} WHERE id = 1").createOrReplaceTempView("of_other")
        assert [row.id for row in other.sql(f"SELECT * FROM of_other JOIN {table} USING (id)").collect()] == [
            1
        ]
        other.createDataFrame([(3,)], "id INT").write.insertInto(table)
        assert spark.table(table).count() == 3
        with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
            spark.table("of_other")
        spark.sql(f"DELETE FROM {table} WHERE id = 3")
    assert type(other) is SparkSession
    assert other.sql("SELECT 1").collect()[0][0] == 1


@pytest.mark.soak
def test_two_sessions_are_installed_each_for_itself(spark: Any, table: str) -> None:
    other = spark.newSession()
    with install(spark):
        with install(other):
            assert other.table(table).count() == spark.table(table).count() == 2
        assert type(other) is SparkSession
        assert type(other.range(1).write).__module__.startswith("pyspark.")
        assert spark.table(table).count() == 2


@pytest.mark.soak
def test_threads_share_an_installed_session(spark: Any, table: str) -> None:
    def count(number: int) -> int:
        rows = spark.createDataFrame([(number,)], "id INT")
        return int(
            spark.sql(f"SELECT count(*) FROM {table} LEFT JOIN {{rows}} USING (id)", rows=rows).head()[0]
        )

    with install(spark), ThreadPoolExecutor(4) as threads:
        assert set(threads.map(count, range(8))) == {2}
        assert SparkSession.getActiveSession() is spark


@pytest.mark.soak
def test_tasks_get_nothing_of_the_session(spark: Any, table: str) -> None:
    from pyspark.cloudpickle import dumps
    from pyspark.sql.functions import udf

    with install(spark):
        add = udf(lambda number: number + 1, "int")
        assert sorted(row[0] for row in spark.table(table).select(add("id")).collect()) == [2, 3]
        assert b"hudisql" not in dumps(add.func)


@pytest.mark.usefixtures("table")
@pytest.mark.parametrize(
    ("text", "concerned"),
    [
        ("SELECT * FROM installed.t", True),
        ("SELECT (SELECT max(id) FROM installed.t)", True),
        ("WITH t AS (SELECT 1 AS id) SELECT * FROM t", False),
        ("SELECT * FROM hudi_table_changes('installed.t', 'latest_state', 'earliest')", True),
        ("EXPLAIN DELETE FROM installed.t", True),
        ("DESCRIBE installed.t", True),
        ("SHOW CREATE TABLE installed.t", True),
        ("SHOW TABLES IN installed", False),
        ("DROP TABLE IF EXISTS installed.no_table", False),
        ("DROP DATABASE installed CASCADE", True),
        ("DROP DATABASE IF EXISTS nothing_here CASCADE", False),
        ("TRUNCATE TABLE installed.t", True),
        ("CREATE TABLE x (id INT) USING hudi", True),
        ("CREATE TABLE x (id INT) USING parquet", False),
        ("CREATE TABLE x LIKE installed.t", True),
        ("INSERT INTO x SELECT * FROM installed.t", True),
        ("INSERT INTO x VALUES (1)", False),
        ("ANALYZE TABLE installed.t COMPUTE STATISTICS", True),
        ("CACHE TABLE installed.t", True),
        ("CALL show_commits(table => 'installed.t')", True),
        ("CALL no_such_procedure()", True),
        ("REFRESH INCREMENTAL TABLE x", True),
        ("SET hoodie.parquet.max.file.size = 1", False),
        ("BEGIN SELECT * FROM installed.t; END", True),
        ("BEGIN SELECT 1; END", False),
        ("EXECUTE IMMEDIATE 'SELECT 1'", False),
        ("SELECT 'unclosed", False),
        ("", False),
    ],
)
def test_which_statements_hudisql_runs(session: Any, text: str, concerned: bool) -> None:
    assert concerns_hudi(session.context, text) is concerned


def test_hudisql_runs_its_own_texts_by_spark_s_own_method() -> None:
    call = re.compile(r"\b(?:spark|session)\.(?:sql|table)\((?!text, |…)")
    texts = {path: path.read_text() for path in (ROOT / "hudisql" / "sql").rglob("*.py")}
    found = [f"{path.name}: {match[0]}" for path, text in texts.items() for match in call.finditer(text)]
    assert not [each for each in found if not each.startswith(("target_pull.py", "table_copies.py"))]


STOPPED = """
import json, sys
from pyspark.sql import SparkSession
import hudisql
from hudisql.console import SilentConsole
from hudisql.errors import HudisqlError

def start():
    return (
        SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
        .config("spark.sql.warehouse.dir", sys.argv[1]).getOrCreate()
    )

answers = {}
spark = start()
hudisql.install(spark, console=SilentConsole())
spark.sql("CREATE TABLE t (id INT) USING hudi TBLPROPERTIES (primaryKey = 'id')")
spark.createDataFrame([(1,), (2,)], "id INT").write.insertInto("t")
answers["rows"] = spark.table("t").count()
spark.sql("CREATE TABLE plain USING parquet AS SELECT 1 AS id")
answers["plain"] = spark.sql("SELECT count(*) FROM plain JOIN t USING (id)").head()[0]
spark.sql("CREATE DATABASE lake COMMENT 'it''s'")
spark.sql("CREATE TABLE lake.u (id INT) USING hudi TBLPROPERTIES (primaryKey = 'id')")
spark.sql("INSERT INTO lake.u SELECT id FROM range(0, 100000, 1, 2)")
spark.range(1).write.saveAsTable("lake.plain")
listed = lambda text: sorted(row[-1] if len(row) == 1 else row.tableName for row in spark.sql(text).collect())
answers["databases"] = listed("SHOW DATABASES")
answers["tables"] = [listed("SHOW TABLES IN lake"), listed("SHOW TABLES IN lake LIKE 'u'")]
catalog = spark.catalog
names = ("t", "plain", "lake.u", "lake.no_table", "no_database.t")
answers["exist"] = [catalog.tableExists(name) for name in names] + [catalog.tableExists("u", "lake")]
answers["listed"] = [
    [(table.name, table.tableType) for table in catalog.listTables(*arguments)]
    for arguments in ((), ("lake",), ("lake", "u*"), ("lake", "no*"))
]
for name, line in {
    "exists": lambda: spark.sql("CREATE DATABASE lake"),
    "not empty": lambda: spark.sql("DROP DATABASE lake"),
    "stream": lambda: spark.readStream.format("rate").load().writeStream.toTable("lake.u"),
}.items():
    try:
        line()
    except HudisqlError as error:
        answers[name] = str(error)
spark.stop()
answers["class"] = type(spark).__name__
again = start()
answers["again"] = [type(again).__name__, again.sql("SELECT 1").head()[0]]
hudisql.install(again, console=SilentConsole())
answers["rows again"] = again.table("t").count()
again.sql("USE lake")
answers["used"] = again.table("u").count()
again.sql("USE default")
again.sql("DROP TABLE lake.u")
again.sql("DROP DATABASE lake")
answers["dropped"] = [row[0] for row in again.sql("SHOW DATABASES").collect()]
again.stop()
print(json.dumps(answers))
"""


@pytest.mark.soak
def test_a_session_without_hive_has_its_databases_and_ends_with_spark(tmp_path: Path) -> None:
    other_python = tmp_path / "bin" / "python3"
    other_python.parent.mkdir()
    other_python.write_text("#!/bin/sh\nexit 1\n")
    other_python.chmod(0o755)
    path = os.pathsep.join([str(other_python.parent), os.environ["PATH"]])
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PATH": path}
    environment.pop("PYSPARK_PYTHON", None)
    done = subprocess.run(
        [sys.executable, "-c", STOPPED, str(tmp_path / "warehouse")],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    answers = json.loads(done.stdout.splitlines()[-1])
    errors = [answers.pop(name) for name in ("exists", "not empty", "stream")]
    assert "`lake` because it already exists" in errors[0]
    assert "lake is not empty, it has u" in errors[1]
    assert f"writeStream.format('hudi').start('file:{tmp_path}/warehouse/lake.db/u')" in errors[2]
    assert answers == {
        "rows": 2,
        "plain": 1,
        "databases": ["default", "lake"],
        "tables": [["plain", "u"], ["u"]],
        "exist": [True, True, True, False, False, True],
        "listed": [
            [["plain", "MANAGED"], ["t", "MANAGED"]],
            [["plain", "MANAGED"], ["u", "MANAGED"]],
            [["u", "MANAGED"]],
            [],
        ],
        "class": "SparkSession",
        "again": ["SparkSession", 1],
        "rows again": 2,
        "used": 100_000,
        "dropped": ["default"],
    }
