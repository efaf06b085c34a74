"""Sessions and statements of real clients: apart from each other, asynchronous, cancelled, paged."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from typing import Any

import pytest

from hudisql.console import SilentConsole
from hudisql.server.thrift_limits import ServerLimits
from hudisql.server.thrift_server import ThriftServer, listen_on
from hudisql.spark.versions import pyspark_version

pytestmark = [pytest.mark.spark, pytest.mark.hms]

SLOW = "SELECT count(*) FROM range(0, 1000000000000, 1, 2) WHERE sqrt(id) = -1"


@contextmanager
def cursor(server: ThriftServer, **options: Any) -> Iterator[Any]:
    from pyhive import hive

    with (
        closing(hive.connect("127.0.0.1", server.port, username="me", **options)) as connection,
        closing(connection.cursor()) as opened,
    ):
        yield opened


def rows(opened: Any, statement: str) -> list[tuple[Any, ...]]:
    opened.execute(statement)
    return list(opened.fetchall())


def test_a_connection_has_a_database_settings_variables_and_views_of_its_own(server: ThriftServer) -> None:
    configuration = {"set:hivevar:day": "2024-03-01", "set:hiveconf:spark.sql.shuffle.partitions": "3"}
    with cursor(server, configuration=configuration) as one, cursor(server) as other:
        one.execute("CREATE DATABASE IF NOT EXISTS served_db")
        one.execute("USE served_db")
        one.execute("CREATE TEMPORARY VIEW mine AS SELECT 7 a")
        one.execute("SET spark.sql.session.timeZone=Asia/Tokyo")
        assert rows(one, "SELECT current_database(), '${day}', a FROM mine") == [
            ("served_db", "2024-03-01", 7)
        ]
        assert rows(one, "SET spark.sql.shuffle.partitions")[0][1] == "3"
        assert rows(one, "SELECT cast(timestamp_seconds(0) AS string)") == [("1970-01-01 09:00:00",)]
        assert rows(other, "SELECT current_database()") == [("default",)]
        assert rows(other, "SHOW VIEWS") == []
        assert rows(other, "SELECT cast(timestamp_seconds(0) AS string)") == [("1970-01-01 00:00:00",)]
        one.execute("DROP DATABASE served_db")


def test_connections_at_once_each_get_their_own_rows(server: ThriftServer) -> None:
    def ask(number: int) -> list[tuple[Any, ...]]:
        with cursor(server) as opened:
            opened.execute(f"CREATE TEMPORARY VIEW mine AS SELECT {number} n")
            return rows(opened, "SELECT n FROM mine")

    with ThreadPoolExecutor(6) as threads:
        assert list(threads.map(ask, range(6))) == [[(number,)] for number in range(6)]


@pytest.mark.soak
def test_fifty_connections_at_once_each_get_their_own_rows(server: ThriftServer) -> None:
    def ask(number: int) -> list[tuple[Any, ...]]:
        with cursor(server) as opened:
            opened.execute(f"CREATE TEMPORARY VIEW mine AS SELECT {number} n")
            return rows(opened, "SELECT n, p FROM mine LATERAL VIEW explode(sequence(0, 39)) AS p")

    with ThreadPoolExecutor(50) as threads:
        answers = list(threads.map(ask, range(50)))
    assert answers == [[(number, position) for position in range(40)] for number in range(50)]
    deadline = time.monotonic() + 10
    while server.service.sessions and time.monotonic() < deadline:
        time.sleep(0.05)
    assert server.service.sessions == []


def test_a_running_statement_is_cancelled_and_the_session_goes_on(server: ThriftServer) -> None:
    from TCLIService.ttypes import TOperationState

    with cursor(server) as opened:
        opened.execute(SLOW, async_=True)
        assert opened.poll().operationState in (
            TOperationState.INITIALIZED_STATE,
            TOperationState.PENDING_STATE,
            TOperationState.RUNNING_STATE,
        )
        time.sleep(1)
        opened.cancel()
        assert opened.poll().operationState == TOperationState.CANCELED_STATE
        assert rows(opened, "SELECT 1") == [(1,)]


def test_a_client_that_leaves_ends_its_statement(server: ThriftServer, spark: Any) -> None:
    with cursor(server) as opened:
        opened.execute(SLOW, async_=True)
        while not spark.sparkContext.statusTracker().getActiveJobsIds():
            time.sleep(0.05)
    deadline = time.monotonic() + 15
    while spark.sparkContext.statusTracker().getActiveJobsIds() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert spark.sparkContext.statusTracker().getActiveJobsIds() == []
    assert server.service.sessions == []


def test_errors_say_what_is_wrong_and_where(server: ThriftServer) -> None:
    from pyhive.exc import OperationalError

    raised = "P0001" if pyspark_version() >= (4, 0) else "HY000"
    with cursor(server) as opened:
        for statement, words, state, code in (
            ("SELEC 1", "Syntax error at or near", "42000", 40000),
            ("SELECT * FROM no_such_table", "TABLE_OR_VIEW_NOT_FOUND", "42S02", 10001),
            ("SELECT * FROM no_such_table", "Table not found no_such_table", "42S02", 10001),
            ("DESCRIBE default.nope", "Table not found default.nope", "42S02", 10001),
            ("SHOW COLUMNS IN nope", "Table not found nope", "42S02", 10001),
            ("INSERT INTO nope SELECT 1", "Table not found nope", "42S02", 10001),
            ("UPDATE nope SET a = 1", "Table not found nope", "42S02", 10001),
            ("DROP TABLE nope", "Table not found default.nope", "42S02", 10001),
            ("USE nope", "Database does not exist: nope", "42000", 10072),
            ("SHOW TABLES IN nope", "Database does not exist: nope", "42000", 10072),
            ("DROP DATABASE nope", "there is no database", "42000", 10072),
            ("SELECT no_such_column", "UNRESOLVED_COLUMN", "42703", 0),
            ("SELECT assert_true(id < 5) FROM range(10)", "is not true", raised, 0),
            ("CALL no_such_procedure()", "no_such_procedure", "HY000", 0),
        ):
            with pytest.raises(OperationalError) as caught:
                opened.execute(statement)
            status = caught.value.args[0].status
            assert words in status.errorMessage
            assert (status.sqlState, status.errorCode) == (state, code), statement


def test_current_user_is_the_connected_user_of_each_connection(server: ThriftServer, session: Any) -> None:
    from pyhive import hive

    table = "TBLPROPERTIES (primaryKey = 'id')"
    with (
        closing(hive.connect("127.0.0.1", server.port, username="ada")) as of_ada,
        closing(hive.connect("127.0.0.1", server.port, username="bob")) as of_bob,
        closing(of_ada.cursor()) as ada,
        closing(of_bob.cursor()) as bob,
    ):
        ada.execute(f"CREATE TABLE served_users (id INT, who STRING, note STRING) USING hudi {table}")
        ada.execute("CREATE VIEW served_me AS SELECT id, who, current_user() me FROM served_users")
        try:
            for number, opened in enumerate((ada, bob)):
                opened.execute(f"INSERT INTO served_users SELECT {number}, current_user(), user()")
            for opened, user in ((ada, "ada"), (bob, "bob")):
                assert rows(opened, "SELECT current_user(), user(), session_user()") == [(user,) * 3]
                assert rows(opened, "SELECT me FROM served_me WHERE who = current_user()") == [(user,)]
                opened.execute("UPDATE served_users SET note = upper(user()) WHERE who = current_user()")
                opened.execute(
                    "MERGE INTO served_users t USING (SELECT current_user() who) s ON t.who = s.who "
                    "WHEN MATCHED THEN UPDATE SET note = concat(t.note, current_user())"
                )
            assert rows(ada, "SELECT who, note FROM served_users ORDER BY id") == [
                ("ada", "ADAada"),
                ("bob", "BOBbob"),
            ]
            assert session.sql("SELECT current_user()").rows[0][0] not in ("ada", "bob")
        finally:
            ada.execute("DROP VIEW served_me")
            ada.execute("DROP TABLE served_users")


def test_what_a_statement_says_beside_its_rows_is_its_log(server: ThriftServer) -> None:
    with cursor(server) as opened:
        opened.execute("SET hoodie.clean.automatc=1")
        assert "hoodie.clean.automatc" in "\n".join(opened.fetch_logs())
        opened.execute("SELECT 1")
        assert opened.fetch_logs() == []


def test_a_statement_that_takes_long_tells_its_progress(server: ThriftServer) -> None:
    from TCLIService import ttypes

    with cursor(server) as opened:
        opened.execute(SLOW, async_=True)
        service, handle = opened._connection._client, opened._operationHandle
        request = ttypes.TGetOperationStatusReq(operationHandle=handle, getProgressUpdate=True)
        deadline = time.monotonic() + 30
        lines: list[str] = []
        progress = service.GetOperationStatus(request).progressUpdateResponse
        while (not progress.rows or not lines) and time.monotonic() < deadline:
            progress = service.GetOperationStatus(request).progressUpdateResponse
            lines += opened.fetch_logs()
        opened.cancel()
    assert len(progress.headerNames) == len(progress.rows[0]) == 9
    assert progress.rows[0][0].startswith("Stage-")
    assert 0 <= progress.progressedPercentage < 1
    assert any(line.startswith("Spark tasks: 0/") for line in lines), lines


def test_a_large_result_comes_page_by_page_and_can_be_left(server: ThriftServer) -> None:
    with cursor(server) as opened:
        opened.execute("SELECT id, repeat('x', 100) FROM range(0, 3000000, 1, 60)")
        assert [row[0] for row in opened.fetchmany(2500)] == list(range(2500))
        (session,) = server.service.sessions
        (operation,) = session.operations
        assert operation.pages is not None
        # Pages that nobody asked for are not there.
        assert operation.pages.rows_given <= 5000
        assert rows(opened, "SELECT 1") == [(1,)]


@pytest.mark.soak
def test_statements_results_and_sessions_have_limits(session: Any) -> None:
    from pyhive.exc import OperationalError

    limits = ServerLimits(sessions=1, statement_seconds=3.0, result_bytes=100_000)
    with (
        closing(ThriftServer(session, listen_on("127.0.0.1", 0), limits, SilentConsole())) as limited,
        cursor(limited) as opened,
    ):
        with pytest.raises(OperationalError, match="1 sessions are open"), cursor(limited):
            pass
        with pytest.raises(OperationalError, match="longer than the server's limit of 3 seconds"):
            opened.execute(SLOW)
        with pytest.raises(OperationalError, match="more than 100000 bytes"):
            rows(opened, "SELECT id, repeat('x', 1000) FROM range(10000)")
        assert rows(opened, "SELECT 1") == [(1,)]


def test_a_session_that_nobody_uses_ends(session: Any) -> None:
    from pyhive import hive

    limits = ServerLimits(idle_seconds=0.5)
    with closing(ThriftServer(session, listen_on("127.0.0.1", 0), limits, SilentConsole())) as idle:
        connection = hive.connect("127.0.0.1", idle.port)
        deadline = time.monotonic() + 10
        while idle.service.sessions and time.monotonic() < deadline:
            time.sleep(0.05)
        assert idle.service.sessions == []
        connection._transport.close()


def test_draining_ends_running_statements_and_refuses_new_ones(session: Any) -> None:
    with closing(
        ThriftServer(session, listen_on("127.0.0.1", 0), ServerLimits(), SilentConsole())
    ) as draining:
        with cursor(draining) as opened:
            opened.execute(
                "SELECT id, java_method('java.lang.Thread', 'sleep', 700L) FROM range(2)", async_=True
            )
            drained: list[bool] = []
            thread = threading.Thread(target=lambda: drained.append(draining.drain(20)))
            thread.start()
            assert len(opened.fetchall()) == 2
            with pytest.raises(Exception, match="shutting down"):
                opened.execute("SELECT 1")
            thread.join()
        assert drained == [True]
