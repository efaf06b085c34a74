"""What users with rights can do, and ways around them, through the real server and a real client."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest
from pyhive import hive
from pyhive.exc import OperationalError
from TCLIService import ttypes

from hudisql.console import SilentConsole
from hudisql.server.rights.rights_file import RightsFile
from hudisql.server.thrift_limits import ServerLimits
from hudisql.server.thrift_server import ThriftServer, listen_on
from hudisql.server.users import UserChecks
from tests.server.statements_of_users import OUT_OF_BOUNDS, OWNS, WAYS_AROUND

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
# Connects for others.
gate: proxy *
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
        "user 'ada' may not change rows of shop.items: the right 'editor' on shop.items is missing"
    )
    assert refusal_of(run, "ada", "SELECT * FROM vault.secret") == (
        "user 'ada' may not read vault.secret: the right 'reader' on vault.secret is missing"
    )


@pytest.mark.parametrize("key", ["hive.server2.proxy.user", "set:hiveconf:hive.server2.proxy.user"])
def test_a_gateway_has_the_rights_of_the_user_it_acts_as(
    guarded: ThriftServer, notes: list[str], key: str
) -> None:
    connection = act_as(guarded, "gate", "ada", key)
    with closing(connection), closing(connection.cursor()) as cursor:
        cursor.execute("SELECT current_user(), id, name FROM shop.items")
        assert cursor.fetchall() == [("ada", 1, "nail")]
        with pytest.raises(OperationalError, match=r"user 'ada' may not read vault\.secret"):
            cursor.execute("SELECT * FROM vault.secret")
    assert "allowed ada by gate: SELECT current_user(), id, name FROM shop.items" in notes


@pytest.mark.parametrize(("user", "other"), [("gate", "root"), ("ada", "bo"), ("nobody", "ada")])
def test_who_lacks_the_right_acts_as_nobody_else(guarded: ThriftServer, user: str, other: str) -> None:
    with pytest.raises(OperationalError, match=f"user '{user}' may not act as '{other}'"):
        act_as(guarded, user, other, "hive.server2.proxy.user")


def act_as(server: ThriftServer, user: str, other: str, key: str) -> Any:
    return hive.connect(
        "127.0.0.1", server.port, username=user, password="x", auth="CUSTOM", configuration={key: other}
    )


def test_a_user_without_rights_runs_only_what_reads_no_table(run: Run) -> None:
    assert run("nobody", "SELECT 1 + 1, upper('a')") == [(2, "A")]
    run("nobody", "SET spark.sql.shuffle.partitions = 3")
    refusal_of(run, "nobody", "SELECT * FROM shop.items")


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


@pytest.mark.soak
def test_an_owner_of_a_database_does_all_in_it(run: Run) -> None:
    for statement in OWNS:
        run("bo", statement)


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
    run("root", "INSERT INTO shop.orders VALUES (7, 7, 7)")
    run("bo", "USE shop")
    with pytest.raises(OperationalError) as caught:
        run("bo", query)
    assert caught.value.args[0].status.sqlState in (DENIED, "42K0E", "42836", "42S02"), caught.value
    run("bo", "USE default")


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM hudi_filesystem_view('shop.items' --\n, '\n AS STRING), {0} WHERE false "
        "UNION ALL SELECT {1}, {0} --')",
        "SELECT * FROM hudi_filesystem_view('shop.items' --\n, '\n AS STRING), {0} WHERE false "
        "UNION ALL SELECT reflect({2}, {3}, {4}), {0} --')",
    ],
)
def test_a_comment_in_a_call_makes_no_query_of_an_argument(run: Run, query: str) -> None:
    words = ("", "vault.secret", "java.lang.System", "getProperty", "java.io.tmpdir")
    assert run("ada", query.format(*(f'"{word}"' for word in words))) == []
    assert run("ada", "SELECT 1 FROM hudi_filesystem_view('shop.items' -- all\n, '*' /* )' */)") == [(1,)]


def test_a_comment_that_goes_on_behind_a_backslash_is_no_code(run: Run) -> None:
    run("bo", "CREATE TABLE lab.notes (id INT, name STRING) USING hudi TBLPROPERTIES (primaryKey = 'id')")
    secret = "(SELECT max(word) FROM vault.plain)"
    run("bo", f"INSERT INTO lab.notes --\\\n SELECT 2, {secret} UNION ALL\n SELECT 1, 'a'")
    source = "(SELECT 1 AS id, 'b' AS name) s"
    run(
        "bo",
        f"MERGE INTO lab.notes t USING {source} ON t.id = s.id WHEN MATCHED THEN UPDATE SET id = 1 --\\\n"
        f", name = {secret}",
    )
    run("bo", f"UPDATE lab.notes SET id = 1 --\\\n, name = {secret}\n WHERE id = 1")
    assert run("bo", "SELECT id, name FROM lab.notes") == [(1, "a")]
    call = f"hudi_filesystem_view('lab.notes' --\\\n /* */, raise_error({secret})\n)"
    assert run("bo", f"SELECT count(*) > 0 FROM {call}") == [(True,)]
    run("bo", "DROP TABLE lab.notes")


def test_names_in_a_temporary_view_are_those_of_its_database(run: Run) -> None:
    for database, word in (("shop", "xyzzy"), ("lab", "mine")):
        run("root", f"CREATE TABLE {database}.ledger USING parquet AS SELECT '{word}' AS word")
    run("bo", "USE lab", "CREATE TEMPORARY VIEW others AS SELECT 'other' AS word")
    query = "SELECT word FROM ledger UNION ALL TABLE others UNION ALL SELECT name FROM own WHERE id < 0"
    run("bo", f"CREATE TEMPORARY VIEW words AS {query}", "USE shop")
    assert run("bo", "SELECT word FROM words ORDER BY word") == [("mine",), ("other",)]
    run("bo", "USE default", "DROP VIEW words", "DROP VIEW others", "DROP TABLE lab.ledger")
    run("root", "DROP TABLE shop.ledger")


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
    extended = run("ada", "SHOW TABLE EXTENDED IN shop LIKE 'peek'")[0][3]
    assert "Type: VIEW" in extended
    assert "secret" not in extended
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

    options = {"username": "ada", "password": "x", "auth": "CUSTOM"}
    with pytest.raises(OperationalError, match=DENIED):
        hive.connect("127.0.0.1", guarded.port, configuration=configuration, **options)
    harmless = {"set:hiveconf:hive.server2.thrift.resultset.default.fetch.size": "10", "mine": "1"}
    hive.connect("127.0.0.1", guarded.port, database="shop", configuration=harmless, **options).close()


def test_variables_of_a_connection_do_not_reach_the_environment(guarded: ThriftServer) -> None:
    from pyhive import hive

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


def test_the_handles_of_another_user_s_session_and_statement_are_refused(guarded: ThriftServer) -> None:
    """Every request that takes one, by an admin, too, who may run the statement itself."""
    theirs, mine = (
        hive.connect("127.0.0.1", guarded.port, username=user, password="x", auth="CUSTOM")
        for user in ("ada", "root")
    )
    with closing(theirs), closing(mine), closing(theirs.cursor()) as cursor:
        cursor.execute("SELECT name FROM shop.items")
        session, statement = theirs.sessionHandle, cursor._operationHandle
        ask = mine.client
        answers = [
            ask.GetOperationStatus(ttypes.TGetOperationStatusReq(statement)),
            ask.GetResultSetMetadata(ttypes.TGetResultSetMetadataReq(statement)),
            ask.FetchResults(ttypes.TFetchResultsReq(statement, 0, 10)),
            ask.FetchResults(ttypes.TFetchResultsReq(statement, 0, 10, 1)),
            ask.CancelOperation(ttypes.TCancelOperationReq(statement)),
            ask.CloseOperation(ttypes.TCloseOperationReq(statement)),
            ask.ExecuteStatement(ttypes.TExecuteStatementReq(session, "SELECT 1")),
            ask.GetTables(ttypes.TGetTablesReq(session)),
            ask.GetInfo(ttypes.TGetInfoReq(session, 17)),
            ask.CloseSession(ttypes.TCloseSessionReq(session)),
        ]
        codes = [answer.status.statusCode for answer in answers]
        assert codes == [ttypes.TStatusCode.INVALID_HANDLE_STATUS] * len(answers)
        assert cursor.fetchall() == [("nail",)]
        cursor.execute("SELECT 1")


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
        *("from_xml", "schema_of_xml", "python_worker_logs", "from_avro", "schema_of_avro"),
        *("xpath", "xpath_boolean", "xpath_double", "xpath_float", "xpath_int", "xpath_long"),
        *("xpath_number", "xpath_short", "xpath_string"),
    }


@pytest.mark.usefixtures("shared_view")
def test_views_of_all_sessions_are_listed_to_admins(run: Run) -> None:
    def names(user: str) -> set[str]:
        return {row[1] for row in run(user, "SHOW VIEWS IN global_temp")}

    assert names("root") >= {"shared", "shared_frame"}
    run("cy", "CREATE TEMPORARY VIEW own AS SELECT 1 AS x")
    assert names("cy") == {"own"}
