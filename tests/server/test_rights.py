"""What users with rights can do, and ways around them, through the real server and a real client."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest

from hudisql.console import SilentConsole
from hudisql.server.rights.rights_file import RightsFile
from hudisql.server.thrift_limits import ServerLimits
from hudisql.server.thrift_server import ThriftServer, listen_on
from hudisql.server.users import UserChecks

pytestmark = [pytest.mark.spark, pytest.mark.hms]
Run = Callable[..., list[tuple[Any, ...]]]
DENIED = "42501"
RIGHTS = """
root: admin *
# Reads one table and one view, writes another table.
ada: reader shop.items, reader shop.item_names, reader shop.peek, writer shop.orders
# Owns a database.
bo: writer lab.*, writer bench.*, reader shop.items
# Reads everything.
cy: reader *
"""
MADE = (
    "CREATE DATABASE shop",
    "CREATE DATABASE lab",
    "CREATE DATABASE vault",
    "CREATE TABLE shop.items (id INT, name STRING, ts BIGINT) USING hudi "
    "TBLPROPERTIES (primaryKey = 'id', preCombineField = 'ts')",
    "CREATE TABLE shop.orders (id INT, item INT, ts BIGINT) USING hudi "
    "TBLPROPERTIES (primaryKey = 'id', preCombineField = 'ts')",
    "CREATE TABLE vault.secret (id INT, word STRING, ts BIGINT) USING hudi "
    "TBLPROPERTIES (primaryKey = 'id', preCombineField = 'ts')",
    "CREATE TABLE lab.own (id INT, name STRING) USING hudi TBLPROPERTIES (primaryKey = 'id')",
    "CREATE TABLE vault.plain (id INT, word STRING) USING parquet",
    "INSERT INTO shop.items VALUES (1, 'nail', 1)",
    "INSERT INTO vault.secret VALUES (1, 'xyzzy', 1)",
    "INSERT INTO vault.plain VALUES (1, 'plugh')",
    "CREATE VIEW shop.item_names AS SELECT id, name FROM shop.items",
    "CREATE VIEW shop.peek AS SELECT i.id, s.word FROM shop.items i JOIN vault.secret s ON i.id = s.id",
)


@pytest.fixture(scope="module")
def notes() -> list[str]:
    """The lines of the server's console."""
    return []


@pytest.fixture(scope="module")
def guarded(
    session: Any, notes: list[str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ThriftServer]:
    """A server whose users have rights, and a database that only admins see."""

    class Notes(SilentConsole):
        def info(self, text: str) -> None:
            notes.append(text)

    rights = tmp_path_factory.mktemp("rights") / "rights"
    rights.write_text(RIGHTS)
    for statement in MADE:
        session.sql(statement)
    server = ThriftServer(
        session,
        listen_on("127.0.0.1", 0),
        ServerLimits(),
        Notes(),
        users=UserChecks(lambda _user, _password: None),
        rights=RightsFile(rights),
    )
    yield server
    server.close()
    for name in ("shop", "lab", "vault"):
        session.sql(f"DROP DATABASE IF EXISTS {name} CASCADE")


@pytest.fixture(scope="module")
def run(guarded: ThriftServer) -> Iterator[Run]:
    """Runs statements as a user, each user in one session; the rows of the last one."""
    from pyhive import hive

    opened: dict[str, Any] = {}

    def work(user: str, *statements: str) -> list[tuple[Any, ...]]:
        if user not in opened:
            opened[user] = hive.connect("127.0.0.1", guarded.port, username=user, password="x", auth="CUSTOM")
        with closing(opened[user].cursor()) as cursor:
            for statement in statements:
                cursor.execute(statement)
            return list(cursor.fetchall()) if cursor.description else []

    yield work
    for connection in opened.values():
        connection.close()


def refusal_of(run: Run, user: str, *statements: str) -> str:
    """The message of the refusal of the last statement."""
    from pyhive.exc import OperationalError

    if statements[:-1]:
        run(user, *statements[:-1])
    with pytest.raises(OperationalError) as caught:
        run(user, statements[-1])
    status = caught.value.args[0].status
    assert status.sqlState == DENIED, status.errorMessage
    assert not any(word in status.errorMessage for word in ("xyzzy", "plugh"))
    return str(status.errorMessage)


def test_a_reader_reads_and_a_writer_writes_what_the_file_grants(run: Run) -> None:
    assert run("ada", "SELECT id, name FROM shop.items") == [(1, "nail")]
    run("ada", "INSERT INTO shop.orders SELECT id, id AS item, ts FROM shop.items")
    assert run("ada", "SELECT id, item FROM shop.orders") == [(1, 1)]
    assert run("ada", "SELECT * FROM shop.item_names") == [(1, "nail")]
    assert run("root", "SELECT word FROM vault.secret") == [("xyzzy",)]
    assert refusal_of(run, "ada", "INSERT INTO shop.items VALUES (2, 'x', 1)") == (
        "user 'ada' may not write shop.items: the right 'writer' on shop.items is missing"
    )
    assert refusal_of(run, "ada", "SELECT * FROM vault.secret") == (
        "user 'ada' may not read vault.secret: the right 'reader' on vault.secret is missing"
    )


def test_a_user_without_rights_runs_only_what_reads_no_table(run: Run) -> None:
    assert run("nobody", "SELECT 1 + 1, upper('a')") == [(2, "A")]
    run("nobody", "SET spark.sql.shuffle.partitions = 3")
    refusal_of(run, "nobody", "SELECT * FROM shop.items")


# Each is one try of ada, who reads shop.items and writes shop.orders; the last statement is refused.
WAYS_AROUND = {
    "subquery in SELECT": ("SELECT (SELECT max(word) FROM vault.secret)",),
    "subquery in WHERE": ("SELECT id FROM shop.items WHERE name IN (SELECT word FROM vault.secret)",),
    "EXISTS": ("SELECT id FROM shop.items i WHERE EXISTS (SELECT 1 FROM vault.plain p WHERE p.id = i.id)",),
    "join": ("SELECT * FROM shop.items JOIN vault.plain USING (id)",),
    "CTE": ("WITH s AS (SELECT * FROM vault.secret) SELECT * FROM s",),
    "CTE of the table's name": ("USE default", "WITH secret AS (SELECT * FROM vault.secret) TABLE secret"),
    "CTE that hides a name elsewhere": (
        "WITH plain AS (SELECT 1 AS word) SELECT word FROM plain UNION ALL SELECT word FROM vault.plain",
    ),
    "CTE whose own query reads the table": ("WITH plain AS (SELECT * FROM vault.plain) SELECT * FROM plain",),
    "lateral subquery": ("SELECT * FROM shop.items, LATERAL (SELECT word FROM vault.plain)",),
    "table function": ("SELECT * FROM hudi_table_changes('vault.secret', 'latest_state', 'earliest')",),
    "table function of a path": ("SELECT * FROM hudi_query_timeline('/tmp/x')",),
    "table function of bytes": ("SELECT * FROM hudi_metadata(X'7661756C742E736563726574')",),
    "table function of an expression": ("SELECT * FROM hudi_metadata((SELECT max(word) FROM vault.secret))",),
    "time travel": ("SELECT * FROM vault.secret TIMESTAMP AS OF '2999-01-01'",),
    "time travel by a subquery": (
        "SELECT * FROM shop.items TIMESTAMP AS OF (SELECT max(word) FROM vault.secret)",
    ),
    "time travel of a CTE's name": (
        "USE shop",
        "WITH bills AS (SELECT 1) SELECT * FROM bills TIMESTAMP AS OF '2999-01-01'",
    ),
    "TABLE": ("TABLE vault.secret",),
    "FROM first": ("FROM vault.secret SELECT word",),
    "pipe": ("FROM vault.secret |> SELECT word",),
    "other case": ("SELECT * FROM VAULT.`Secret`",),
    "catalog in front": ("SELECT * FROM spark_catalog.vault.secret",),
    "comment within": ("SELECT * FROM vault./* x */secret",),
    "double quotes": ("SELECT * FROM `vault` . `secret`",),
    "window": ("SELECT row_number() OVER (ORDER BY (SELECT max(id) FROM vault.secret))",),
    "named window": ("SELECT rank() OVER w FROM shop.items WINDOW w AS (ORDER BY reflect('a', 'b'))",),
    "inline table": ("SELECT * FROM VALUES ((SELECT max(word) FROM vault.secret)) AS v(a)",),
    "order": ("SELECT id FROM shop.items ORDER BY (SELECT max(word) FROM vault.secret)",),
    "group": ("SELECT 1 FROM shop.items GROUP BY (SELECT max(word) FROM vault.secret)",),
    "limit": ("SELECT id FROM shop.items LIMIT (SELECT max(id) FROM vault.secret)",),
    "union": ("SELECT name FROM shop.items UNION ALL SELECT word FROM vault.plain",),
    "view over it": ("SELECT * FROM shop.peek",),
    "_rt table": ("SELECT * FROM vault.secret_rt",),
    "temporary view": ("CREATE TEMPORARY VIEW mine AS SELECT * FROM vault.secret",),
    "temporary view of a path": ("CREATE TEMPORARY VIEW files USING text OPTIONS (path '/etc/hostname')",),
    "view of all sessions": ("CREATE GLOBAL TEMPORARY VIEW ours AS SELECT 1",),
    "another's view of all sessions": ("SELECT * FROM global_temp.shared",),
    "cached query": ("CACHE TABLE mine AS SELECT * FROM vault.plain",),
    "cached table": ("CACHE TABLE vault.plain",),
    "insert from it": ("INSERT INTO shop.orders SELECT id, id, ts FROM vault.secret",),
    "insert after WITH": (
        "WITH s AS (SELECT * FROM vault.secret) INSERT INTO shop.orders SELECT id, id, ts FROM s",
    ),
    "insert by FROM": ("FROM vault.secret INSERT INTO shop.orders SELECT id, id, ts",),
    "insert elsewhere": ("INSERT INTO vault.plain VALUES (2, 'x')",),
    "insert into several": (
        "FROM shop.items INSERT INTO shop.orders SELECT id, id AS item, ts "
        "INSERT INTO vault.plain SELECT id, name",
    ),
    "overwrite": ("INSERT OVERWRITE vault.plain SELECT id, name FROM shop.items",),
    "overwrite a directory": ("INSERT OVERWRITE DIRECTORY '/tmp/x' USING csv SELECT * FROM shop.items",),
    "insert into a path": ("INSERT INTO parquet.`/tmp/x` SELECT * FROM shop.items",),
    "update elsewhere": ("UPDATE shop.items SET name = 'x'",),
    "update by a subquery": ("UPDATE shop.orders SET item = 1 WHERE id IN (SELECT id FROM vault.secret)",),
    "delete by a subquery": ("DELETE FROM shop.orders WHERE id IN (SELECT id FROM vault.secret)",),
    "delete elsewhere": ("DELETE FROM shop.items",),
    "merge from it": (
        "MERGE INTO shop.orders t USING vault.secret s ON t.id = s.id WHEN MATCHED THEN DELETE",
    ),
    "merge by a condition": (
        "MERGE INTO shop.orders t USING shop.items s ON t.id = s.id "
        "WHEN MATCHED AND s.name IN (SELECT word FROM vault.plain) THEN DELETE",
    ),
    "merge elsewhere": (
        "MERGE INTO shop.items t USING shop.orders s ON t.id = s.id WHEN MATCHED THEN DELETE",
    ),
    "path": ("SELECT * FROM text.`/etc/hostname`",),
    "path of a Hudi table": ("SELECT * FROM hudi.`/tmp/x`",),
    "path by a class": ("SELECT * FROM `org.apache.spark.sql.execution.datasources.text`.`/etc/hostname`",),
    "options of a table": ("SELECT * FROM shop.items WITH (path = '/tmp/x')",),
    "copy of it": ("CREATE TABLE shop.orders2 USING hudi AS SELECT * FROM vault.secret",),
    "table in another's database": ("CREATE TABLE vault.mine (a INT) USING parquet",),
    "table like it": ("CREATE TABLE shop.orders LIKE vault.plain",),
    "drop": ("DROP TABLE vault.secret",),
    "drop if exists": ("DROP TABLE IF EXISTS vault.nothing",),
    "drop a view": ("DROP VIEW shop.peek",),
    "truncate": ("TRUNCATE TABLE shop.items",),
    "alter": ("ALTER TABLE shop.items ADD COLUMNS (x INT)",),
    "alter to a path": ("ALTER TABLE shop.orders SET LOCATION '/tmp/x'",),
    "partition at a path": ("ALTER TABLE shop.orders ADD PARTITION (a = 1) LOCATION '/tmp/x'",),
    "serde": ("ALTER TABLE shop.orders SET SERDEPROPERTIES ('path' = '/tmp/x')",),
    "properties": ("ALTER TABLE shop.orders SET TBLPROPERTIES ('spark.sql.sources.provider' = 'parquet')",),
    "rename over another": ("ALTER TABLE shop.orders RENAME TO shop.bills",),
    "analyze": ("ANALYZE TABLE vault.plain COMPUTE STATISTICS",),
    "analyze all": ("ANALYZE TABLES IN vault COMPUTE STATISTICS",),
    "comment": ("COMMENT ON TABLE shop.items IS 'x'",),
    "repair": ("MSCK REPAIR TABLE vault.plain",),
    "load data": ("LOAD DATA INPATH '/etc/hostname' INTO TABLE shop.orders",),
    "describe": ("DESCRIBE vault.secret",),
    "describe a plain table": ("DESCRIBE TABLE EXTENDED vault.plain",),
    "describe a query": ("DESCRIBE QUERY SELECT * FROM vault.secret",),
    "columns": ("SHOW COLUMNS IN vault.secret",),
    "columns by database": ("SHOW COLUMNS IN secret IN vault",),
    "partitions": ("SHOW PARTITIONS vault.secret",),
    "show create": ("SHOW CREATE TABLE vault.secret",),
    "properties shown": ("SHOW TBLPROPERTIES vault.plain",),
    "tables of another database": ("SHOW TABLES IN vault",),
    "table extended": ("SHOW TABLE EXTENDED IN vault LIKE '*'",),
    "describe a database": ("DESCRIBE DATABASE vault",),
    "use": ("USE vault",),
    "explain": ("EXPLAIN SELECT * FROM vault.secret",),
    "explain a change": ("EXPLAIN DELETE FROM shop.items",),
    "explain analyzed": ("EXPLAIN EXTENDED SELECT * FROM vault.plain",),
    "create a database": ("CREATE DATABASE mine",),
    "drop a database": ("DROP DATABASE shop CASCADE",),
    "move a database": ("ALTER DATABASE shop SET LOCATION '/tmp/x'",),
    "reflect": ("SELECT reflect('java.lang.System', 'getenv', 'HOME')",),
    "java_method": ("SELECT java_method('java.lang.System', 'getenv', 'HOME')",),
    "try_reflect": ("SELECT try_reflect('java.lang.System', 'getenv', 'HOME')",),
    "quoted reflect": ("SELECT `reflect`('java.lang.System', 'getenv', 'HOME')",),
    "qualified reflect": ("SELECT system.builtin.reflect('java.lang.System', 'getenv', 'HOME')",),
    "reflect2": ("SELECT reflect2('a', 'getBytes')",),
    "reflect by LATERAL VIEW": ("SELECT * FROM shop.items LATERAL VIEW reflect(name) x AS y",),
    "reflect in VALUES": ("VALUES (reflect('java.lang.System', 'getenv', 'HOME'))",),
    "reflect in a lambda": (
        "SELECT transform(array(1), x -> reflect('java.lang.System', 'getenv', 'HOME'))",
    ),
    "reflect in a filter": ("SELECT count(*) FILTER (WHERE reflect('a.B', 'c') = 'x') FROM shop.items",),
    "reflect in a change": ("UPDATE shop.orders SET item = reflect('a.B', 'c')",),
    "reflect in a merge": (
        "MERGE INTO shop.orders t USING shop.items s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET item = reflect('a.B')",
    ),
    "reflect in a default": ("ALTER TABLE shop.orders ADD COLUMNS (x STRING DEFAULT reflect('a.B', 'c'))",),
    "reflect in UNPIVOT": ("SELECT * FROM (SELECT reflect('a.B', 'c') a, 1 b) UNPIVOT (v FOR n IN (a))",),
    "named by an expression": ("SELECT IDENTIFIER('reflect')('java.lang.System', 'getenv', 'HOME')",),
    "table by an expression": ("SELECT * FROM IDENTIFIER('vault.' || 'secret')",),
    "insert by an expression": ("INSERT INTO IDENTIFIER('vault.plain') SELECT 1, 'x'",),
    "drop by an expression": ("DROP TABLE IDENTIFIER('vault.plain')",),
    "in_file": ("SELECT in_file('a', '/etc/hostname')",),
    "script": ("SELECT TRANSFORM (id) USING 'cat /etc/hostname' AS (x STRING) FROM shop.items",),
    "MAP": ("FROM shop.items MAP id USING 'cat' AS x",),
    "jar": ("ADD JAR /tmp/x.jar",),
    "file": ("ADD FILE /etc/hostname",),
    "function": ("CREATE FUNCTION shop.f AS 'a.B' USING JAR '/tmp/x.jar'",),
    "temporary function": ("CREATE TEMPORARY FUNCTION f AS 'org.apache.hadoop.hive.ql.udf.UDFSqrt'",),
    "SQL function": ("CREATE TEMPORARY FUNCTION f() RETURNS INT RETURN (SELECT max(id) FROM vault.secret)",),
    "settings": ("SET spark.sql.warehouse.dir = /tmp/x",),
    "Hudi's settings": ("SET hoodie.datasource.hive_sync.metastore.uris = thrift://x",),
    "all settings": ("SET",),
    "all settings, explained": ("SET -v",),
    "read a setting": ("SET spark.hadoop.fs.s3a.secret.key",),
    "reset": ("RESET",),
    "path of names": ("SET PATH = spark_catalog.vault",),
    "environment": ("SELECT '${env:HOME}'",),
    "system": ("SELECT '${system:user.home}'",),
    "setting as a variable": ("SELECT '${spark.hadoop.fs.s3a.secret.key}'",),
    "variable in a variable": ("SET a = vault.secret", "SELECT * FROM ${a}"),
    "variable in a comment": ("SET b = x", "SELECT 1 -- ${b}"),
    "block": ("BEGIN SELECT * FROM vault.plain; END",),
    "immediate": ("EXECUTE IMMEDIATE 'SELECT * FROM vault.plain'",),
    "session variable": (
        "DECLARE VARIABLE v STRING DEFAULT 'a'",
        "SET VAR v = (SELECT max(word) FROM vault.plain)",
    ),
    "procedure": ("CALL show_commits(table => 'vault.secret')",),
    "procedure that changes": ("CALL run_clean(table => 'shop.items')",),
    "procedure with a path": ("CALL show_timeline(path => '/tmp/x')",),
    "procedure with both": ("CALL show_timeline(table => 'shop.items', path => '/tmp/x')",),
    "procedure by position": ("CALL show_timeline('vault.secret')",),
    "procedure without a table": ("CALL show_services()",),
    "procedure with an expression": (
        "CALL show_timeline(table => 'shop.items', filter => \"reflect('a.B', 'c') = 'x'\")",
    ),
    "export": ("CALL export_instants(table => 'shop.items', local_folder => '/tmp/x')",),
    "log files by path": (
        "CALL show_logfile_records(table => 'shop.items', log_file_path_pattern => '/tmp/*')",
    ),
    "path within a name": ("CALL delete_marker(table => 'shop.orders', instant_time => '../../x')",),
    "copy by a procedure": ("CALL copy_to_table(table => 'vault.secret', new_table => 'shop.orders')",),
    "copy to another's table": ("CALL copy_to_table(table => 'shop.items', new_table => 'vault.copy')",),
    "view by a procedure": ("CALL copy_to_temp_view(table => 'vault.secret', view_name => 'x')",),
    "view of all by a procedure": (
        "CALL copy_to_temp_view(table => 'shop.items', view_name => 'x', global => true)",
    ),
    "bootstrap": (
        "CALL bootstrap_table(table => 'shop.orders', source_table => 'vault.plain', record_key => 'id')",
    ),
    "migrate": ("CALL migrate_table(table => 'shop.orders')",),
    "sync elsewhere": ("CALL hive_sync(table => 'shop.orders', metastore_uri => 'thrift://x:1')",),
    "compaction by a statement": ("RUN COMPACTION ON shop.items",),
    "compaction of a path": ("RUN COMPACTION ON '/tmp/x'",),
    "indexes": ("SHOW INDEXES FROM vault.secret",),
    "incremental table": ("CREATE INCREMENTAL TABLE shop.orders KEY (id) AS SELECT id FROM vault.secret",),
    "explain of an incremental table": ("EXPLAIN REFRESH INCREMENTAL TABLE vault.secret",),
    "refresh of an incremental table": ("REFRESH INCREMENTAL TABLE vault.secret",),
    "cache of all": ("CLEAR CACHE",),
    "refresh of a path": ("REFRESH '/tmp/x'",),
    "name with a comma": ("SELECT * FROM `shop, items`",),
    "two names with a comma": ("SELECT * FROM spark_catalog.`shop, items`",),
}


@pytest.fixture(scope="module")
def shared_view(run: Run) -> None:
    """A temporary view of all sessions, made by an admin."""
    run("root", "CREATE GLOBAL TEMPORARY VIEW shared AS SELECT * FROM vault.secret")
    run(
        "root", "CALL copy_to_temp_view(table => 'vault.secret', view_name => 'shared_frame', global => true)"
    )


@pytest.mark.usefixtures("shared_view")
@pytest.mark.parametrize("statements", WAYS_AROUND.values(), ids=WAYS_AROUND.keys())
def test_no_way_around_the_rights(run: Run, statements: tuple[str, ...]) -> None:
    refusal_of(run, "ada", *statements)


def test_nothing_was_run(run: Run) -> None:
    assert run("root", "SELECT word FROM vault.secret") == [("xyzzy",)]
    assert run("root", "SELECT * FROM vault.plain") == [(1, "plugh")]
    assert run("root", "SELECT id, name FROM shop.items") == [(1, "nail")]


# What bo, who owns lab and reads shop.items, can do: one after the other.
OWNS = (
    "USE lab",
    "CREATE TABLE t (id INT, name STRING, ts BIGINT) USING hudi TBLPROPERTIES (primaryKey = 'id')",
    "CREATE TABLE lab.p (id INT, name STRING) USING parquet",
    "CREATE TABLE c USING csv OPTIONS (header 'true') AS SELECT id FROM shop.items",
    "INSERT INTO t SELECT id, name, ts FROM shop.items",
    "INSERT INTO t VALUES (2, 'x, y', 1), (3, upper('c'), 1)",
    "UPDATE t SET name = concat(name, '!') WHERE id IN (SELECT id FROM shop.items)",
    "MERGE INTO t USING (SELECT 4 AS id, 'm' AS name, 1L AS ts) s ON t.id = s.id "
    "WHEN NOT MATCHED THEN INSERT *",
    "DELETE FROM t WHERE id = 2",
    "EXPLAIN UPDATE t SET name = 'x'",
    "ALTER TABLE t ADD COLUMNS (note STRING)",
    "ALTER TABLE p SET TBLPROPERTIES (comment = 'plain')",
    "COMMENT ON TABLE t IS 'mine'",
    "CREATE VIEW v AS SELECT id, name FROM lab.t JOIN shop.items USING (id, name)",
    "CREATE OR REPLACE VIEW v AS SELECT id FROM t",
    "CREATE TEMPORARY VIEW mine AS SELECT id, name FROM t",
    "CACHE TABLE few AS SELECT id FROM mine",
    "SELECT * FROM mine JOIN few USING (id)",
    "SELECT rank() OVER w FROM t WINDOW w AS (ORDER BY upper(name))",
    "WITH items AS (SELECT 1 AS id) SELECT * FROM items",
    "SELECT transform(array(1), x -> x + 1), (SELECT max(id) FROM v) ORDER BY 1 LIMIT 1",
    "SELECT * FROM t LATERAL VIEW explode(array(1, 2)) e AS n",
    "SELECT id FROM range(3) AS r(id)",
    "SELECT stack(1, id, name) AS (a, b) FROM t",
    "CREATE TABLE l LIKE t USING hudi",
    "ALTER TABLE p ALTER COLUMN name SET DEFAULT upper('x')",
    "EXPLAIN SHOW TABLES",
    "SELECT * FROM range(3) r JOIN hudi_query_timeline('lab.t') q ON true",
    "SELECT name, count(*) FILTER (WHERE id > 1) FROM t GROUP BY CUBE (name) HAVING count(*) > 0",
    "FROM t |> WHERE id > 1 |> SELECT name",
    "SELECT * FROM (SELECT id, ts FROM t) PIVOT (sum(ts) FOR id IN (1, 3))",
    "SELECT /*+ BROADCAST(t) */ id FROM t UNION ALL (SELECT id FROM p INTERSECT SELECT 1) EXCEPT SELECT 2",
    "DECLARE VARIABLE most INT DEFAULT 1",
    "SET VAR most = (SELECT max(id) FROM t)",
    "SELECT most",
    "SET limit_of_mine = 1",
    "SELECT '${limit_of_mine}', * FROM t LIMIT ${limit_of_mine}",
    "SET spark.sql.ansi.enabled",
    "RESET spark.sql.ansi.enabled",
    "SHOW COLUMNS IN t",
    "SHOW CREATE TABLE t",
    "SHOW TBLPROPERTIES t",
    "DESCRIBE EXTENDED t",
    "DESCRIBE v",
    "DESCRIBE mine",
    "DESCRIBE DATABASE lab",
    "DESCRIBE FUNCTION upper",
    "SHOW FUNCTIONS LIKE 'upp*'",
    "SHOW CURRENT SCHEMA",
    "CALL show_timeline(table => 't')",
    "CALL run_clean(table => 'lab.t', retain_commits => 3)",
    "CALL copy_to_table(table => 'shop.items', new_table => 'lab.copied')",
    "CALL copy_to_temp_view(table => 't', view_name => 'seen')",
    "SELECT * FROM seen",
    "CREATE INCREMENTAL TABLE i KEY (id) AS SELECT id, name FROM t",
    "REFRESH INCREMENTAL TABLE i",
    "ALTER TABLE p RENAME TO q",
    "ANALYZE TABLE q COMPUTE STATISTICS",
    "TRUNCATE TABLE q",
    "DROP VIEW mine",
    "DROP VIEW v",
    "DROP TABLE q",
    "DROP TABLE IF EXISTS nothing",
    "USE default",
    "COMMENT ON DATABASE lab IS 'of bo'",
    "CREATE DATABASE bench",
    "DROP DATABASE bench CASCADE",
)


@pytest.mark.soak
def test_an_owner_of_a_database_does_all_in_it(run: Run) -> None:
    for statement in OWNS:
        run("bo", statement)


OUT_OF_BOUNDS = (
    "CREATE TABLE lab.x (a INT) USING parquet LOCATION '/tmp/x'",
    "CREATE EXTERNAL TABLE lab.x (a INT) STORED AS PARQUET LOCATION '/tmp/x'",
    "CREATE TABLE lab.x USING parquet OPTIONS (path '/tmp/x')",
    "CREATE TABLE lab.x USING avro OPTIONS (avroSchemaUrl '/etc/hostname')",
    "CREATE TABLE lab.x USING jdbc OPTIONS (url 'jdbc:x', dbtable 'y')",
    "CREATE TABLE lab.x USING `org.apache.spark.sql.execution.datasources.v2.jdbc` OPTIONS (a 'b')",
    "CREATE TABLE lab.x (a INT) USING hudi TBLPROPERTIES ('hoodie.bootstrap.base.path' = '/tmp/x')",
    "CREATE TABLE lab.x (a INT) USING hudi TBLPROPERTIES ('hudisql.incremental.query' = 'SELECT 1')",
    "CREATE TABLE lab.x (a INT) USING hudi "
    "OPTIONS ('hoodie.datasource.write.partitionpath.urlencode' 'false')",
    "CREATE TABLE lab.x (a INT) ROW FORMAT SERDE 'a.B' STORED AS INPUTFORMAT 'a.B' OUTPUTFORMAT 'a.B'",
    "CREATE TABLE lab.x (a INT) STORED AS TEXTFILE TBLPROPERTIES ('path' = '/tmp/x')",
    "CREATE TABLE lab.x LIKE shop.items LOCATION '/tmp/x'",
    "CREATE TABLE lab.x LIKE vault.plain",
    "CREATE TABLE lab.x USING hudi AS SELECT * FROM vault.plain",
    "CREATE TABLE lab.x USING hudi LOCATION '/tmp/x' AS SELECT 1 AS id",
    "CREATE TABLE lab.`../vault.db/x` (a INT) USING parquet",
    "CREATE TABLE parquet.`/tmp/x` (a INT) USING parquet",
    "CREATE VIEW lab.x AS SELECT * FROM vault.plain",
    "CREATE VIEW lab.x AS SELECT reflect('a.B', 'c')",
    "CREATE VIEW lab.x AS SELECT * FROM text.`/etc/hostname`",
    "ALTER VIEW lab.mine AS SELECT * FROM vault.plain",
    "ALTER TABLE lab.own RENAME TO shop.t",
    "ALTER TABLE lab.own RENAME TO vault.plain2",
    "ALTER TABLE lab.own SET TBLPROPERTIES ('hoodie.datasource.hive_sync.metastore.uris' = 'thrift://x:1')",
    "ALTER TABLE lab.own ADD CONSTRAINT c CHECK (reflect('a.B', 'c') = 'x')",
    "ALTER TABLE lab.own ALTER COLUMN name SET DEFAULT reflect('a.B', 'c')",
    "CREATE FUNCTION lab.f AS 'org.apache.hadoop.hive.ql.udf.UDFSqrt'",
    "CREATE FUNCTION lab.f() RETURNS INT RETURN 1",
    "ALTER DATABASE lab SET LOCATION '/tmp/x'",
    "ALTER DATABASE lab SET DBPROPERTIES ('a' = 'b')",
    "CREATE DATABASE bench LOCATION '/tmp/x'",
    "CREATE DATABASE `../x`",
    "DROP DATABASE vault CASCADE",
    "INSERT INTO lab.own SELECT id, word, 1, '' FROM vault.plain",
    "INSERT INTO lab.own TABLE vault.secret",
    "CREATE INCREMENTAL TABLE lab.x KEY (id) AS SELECT id FROM vault.secret",
    "ALTER INCREMENTAL TABLE lab.own AS SELECT id, word AS name FROM vault.secret",
    "CALL bootstrap_table(table => 'lab.x', source => '/tmp/x', record_key => 'id')",
    "CALL bootstrap_table(table => 'lab.x', source_table => 'vault.plain', record_key => 'id')",
    "CALL bootstrap_table(table => 'lab.x', source_table => 'lab.own', record_key => 'id', "
    "partition_by => 'a int')",
    "CALL run_bootstrap(table => 'lab.x', table_type => 'COPY_ON_WRITE', bootstrap_path => '/tmp/x', "
    "base_path => '/tmp/y', rowKey_field => 'id')",
    "CALL ingest_table(table => 'lab.own', topic => 'x', bootstrap_servers => 'x:1')",
    "CALL rewrite_bootstrap_files(table => 'lab.own', where => \"reflect('a.B', 'c') = 'x'\")",
    "CALL copy_to_table(table => 'shop.items', new_table => 'lab.x', columns => \"reflect('a.B', 'c')\")",
    "CALL run_clean(table => 'lab.own', confirm_source_deletion => true)",
    "CALL run_clean(table => 'lab.own', options => 'hoodie.datasource.hive_sync.mode=hms')",
    "CALL repair_overwrite_hoodie_props(table => 'lab.own', new_props_file_path => '/tmp/x')",
)


@pytest.mark.parametrize("statement", OUT_OF_BOUNDS)
def test_an_owner_of_a_database_stays_in_it(run: Run, statement: str) -> None:
    refusal_of(run, "bo", statement)


@pytest.mark.usefixtures("shared_view")
@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO shop.items VALUES (3, 'x', 1)",
        "SELECT * FROM text.`/etc/hostname`",
        "SELECT * FROM text.`/etc/hostname` TIMESTAMP AS OF '2024-01-01'",
        "SELECT * FROM hudi.`/tmp/x`",
        "SELECT * FROM `binaryFile`.`file:/etc/hostname`",
        "SELECT * FROM hudi_query_timeline('/tmp/x')",
        "SELECT * FROM global_temp.shared_frame",
        "CREATE VIEW shop.x AS SELECT 1",
        "CALL show_fs_path_detail(path => '/tmp')",
        "CALL create_savepoint(table => 'shop.items')",
    ],
)
def test_a_reader_of_all_reads_no_path_and_writes_nothing(run: Run, statement: str) -> None:
    assert run("cy", "SELECT word FROM vault.secret") == [("xyzzy",)]
    assert run("cy", "SELECT word FROM shop.peek") == [("xyzzy",)]
    refusal_of(run, "cy", statement)


def test_a_missing_table_is_an_error_of_its_own_to_those_who_may_read_it(run: Run) -> None:
    from pyhive.exc import OperationalError

    for user, statement, state in (
        ("cy", "SELECT * FROM shop.nothing", "42S02"),
        ("cy", "SELECT * FROM text.nothing", "42S02"),
        ("ada", "SELECT * FROM shop.nothing", DENIED),
        ("ada", "SELECT 1; SELECT * FROM vault.plain", "42000"),
    ):
        with pytest.raises(OperationalError) as caught:
            run(user, statement)
        assert caught.value.args[0].status.sqlState == state


@pytest.mark.parametrize(
    "query",
    [
        "WITH RECURSIVE orders AS (SELECT * FROM orders) SELECT * FROM orders",
        "WITH RECURSIVE orders AS (SELECT id FROM orders UNION ALL SELECT id FROM orders) TABLE orders",
        "WITH RECURSIVE orders AS (SELECT 1 AS n), x AS (SELECT * FROM shop.orders) SELECT * FROM x",
        "SELECT * FROM (WITH orders AS (SELECT 1) SELECT * FROM orders) JOIN orders",
        "WITH x AS (WITH orders AS (SELECT 1) SELECT * FROM orders) SELECT * FROM x, orders",
        "WITH x AS (SELECT * FROM orders), orders AS (SELECT 1) SELECT * FROM x",
        "SELECT (WITH orders AS (SELECT 1 AS id) SELECT max(id) FROM orders), id FROM orders",
        "WITH `orders ` AS (SELECT 1) SELECT * FROM orders",
    ],
)
def test_names_of_queries_hide_no_table(run: Run, query: str) -> None:
    from pyhive.exc import OperationalError

    run("root", "INSERT INTO shop.orders VALUES (7, 7, 7)")
    run("bo", "USE shop")
    with pytest.raises(OperationalError) as caught:
        run("bo", query)
    assert caught.value.args[0].status.sqlState in (DENIED, "42K0E", "42836", "42S02"), caught.value
    run("bo", "USE default")


def test_only_visible_names_are_listed(run: Run) -> None:
    def names(user: str, statement: str, column: int = 1) -> set[str]:
        return {row[column] for row in run(user, statement)} & {
            *("shop", "lab", "vault", "items", "orders", "item_names", "peek", "secret", "plain")
        }

    assert names("ada", "SHOW DATABASES", 0) == {"shop"}
    assert names("cy", "SHOW DATABASES", 0) == {"shop", "lab", "vault"}
    assert names("nobody", "SHOW DATABASES", 0) == set()
    assert names("bo", "SHOW TABLES IN shop") == {"items"}
    assert names("bo", "SHOW TABLES IN shop LIKE 'o*'") == set()
    assert names("ada", "SHOW TABLE EXTENDED IN shop LIKE '*'") == {"items", "orders", "item_names", "peek"}
    assert names("bo", "SHOW VIEWS IN shop") == set()
    assert names("root", "SHOW TABLES IN vault") == {"secret", "plain"}


def test_catalog_requests_show_only_visible_names(guarded: ThriftServer) -> None:
    from pyhive import hive
    from TCLIService import ttypes

    def ask(user: str, name: str, **given: str) -> set[str]:
        with (
            closing(
                hive.connect("127.0.0.1", guarded.port, username=user, password="x", auth="CUSTOM")
            ) as opened,
            closing(opened.cursor()) as cursor,
        ):
            request = getattr(ttypes, f"T{name}Req")(sessionHandle=opened.sessionHandle, **given)
            response = getattr(opened.client, name)(request)
            assert response.status.statusCode == 0, response.status
            cursor._operationHandle, cursor._state = response.operationHandle, cursor._STATE_RUNNING
            return {name for row in cursor.fetchall() for name in row[:4] if name}

    assert "vault" not in ask("ada", "GetSchemas")
    assert ask("ada", "GetTables", schemaName="vault", tableName="%") == set()
    assert ask("bo", "GetTables", schemaName="shop", tableName="%") == {"shop", "items", "TABLE"}
    assert ask("ada", "GetColumns", schemaName="vault", tableName="%", columnName="%") == set()
    assert "name" in ask("ada", "GetColumns", schemaName="shop", tableName="items", columnName="%")
    assert ask("ada", "GetPrimaryKeys", schemaName="vault", tableName="secret") == set()
    assert "id" in ask("cy", "GetPrimaryKeys", schemaName="vault", tableName="secret")
    assert ask("ada", "GetFunctions", schemaName="vault", functionName="%") == set()


@pytest.mark.parametrize(
    "configuration",
    [
        {"spark.sql.warehouse.dir": "/tmp/x"},
        {"set:hiveconf:hoodie.datasource.hive_sync.mode": "x"},
        {"use:database": "vault"},
    ],
)
def test_a_connection_begins_with_harmless_settings(
    guarded: ThriftServer, configuration: dict[str, str]
) -> None:
    from pyhive import hive
    from pyhive.exc import OperationalError

    options = {"username": "ada", "password": "x", "auth": "CUSTOM"}
    with pytest.raises(OperationalError, match=DENIED):
        hive.connect("127.0.0.1", guarded.port, configuration=configuration, **options)
    harmless = {"set:hiveconf:hive.server2.thrift.resultset.default.fetch.size": "10", "mine": "1"}
    hive.connect("127.0.0.1", guarded.port, database="shop", configuration=harmless, **options).close()


def test_variables_of_a_connection_do_not_reach_the_environment(guarded: ThriftServer) -> None:
    from pyhive import hive
    from pyhive.exc import OperationalError

    with (
        closing(
            hive.connect(
                *("127.0.0.1", guarded.port),
                username="ada",
                password="x",
                auth="CUSTOM",
                configuration={"set:hivevar:home": "${env:HOME}", "set:hivevar:fine": "2"},
            )
        ) as connection,
        closing(connection.cursor()) as cursor,
    ):
        cursor.execute("SELECT ${fine}")
        assert cursor.fetchall() == [(2,)]
        for statement in ("SELECT '${home}'", "SELECT '${hivevar:home}'"):
            with pytest.raises(OperationalError, match=DENIED):
                cursor.execute(statement)


def test_the_log_says_who_ran_what(run: Run, notes: list[str]) -> None:
    notes.clear()
    run("ada", "SELECT\n 'a\tb'")
    refusal_of(run, "ada", "SELECT * FROM vault.plain")
    assert notes == [
        "allowed ada: SELECT 'a b'",
        "refused ada: SELECT * FROM vault.plain "
        "(user 'ada' may not read vault.plain: the right 'reader' on vault.plain is missing)",
    ]


def test_functions_that_are_not_known_to_be_harmless(spark: Any) -> None:
    from hudisql.server.rights.harmless import harmless_functions

    own = {function.name for function in spark.catalog.listFunctions() if function.namespace is None}
    unknown = {name for name in own if name.isidentifier()} - harmless_functions()
    assert unknown - {"in_file", "reflect2", "case"} == {
        *("reflect", "java_method", "try_reflect", "from_protobuf", "to_protobuf"),
        *("from_xml", "schema_of_xml", "python_worker_logs"),
    }
