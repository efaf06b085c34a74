"""Real clients: PyHive, impyla, beeline."""

from __future__ import annotations

import ssl
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from hudisql.console import SilentConsole
from hudisql.server.thrift_limits import ServerLimits
from hudisql.server.thrift_server import ThriftServer, listen_on
from hudisql.server.users import PasswordFile, RememberedUsers, UserChecks, hash_password
from tests.certificates import make_certificate
from tests.hive.beeline import HiveError, start_beeline
from tests.hive.server import beeline_command, parse_rows

pytestmark = [pytest.mark.spark, pytest.mark.hms]

TYPED = (
    "SELECT true a, 1Y b, 2S c, 3 d, 4L e, cast(0.1 AS float) f, 0.2D g, 'ä' h, X'00FF' i, "
    "cast(1.50 AS decimal(10,2)) j, DATE'2024-01-02' k, TIMESTAMP'2024-01-02 03:04:05.678' l, "
    "array(1, null) m, map('a', 1) n, named_struct('x', 1, 'y', null) o, cast(null AS int) p"
)
TEXTS = ["[1,null]", '{"a":1}', '{"x":1,"y":null}', None]


def connect_pyhive(server: ThriftServer, **options: Any) -> Any:
    from pyhive import hive

    return hive.connect("127.0.0.1", server.port, username="me", **options)


def test_pyhive_gets_exact_values_of_all_types(server: ThriftServer) -> None:
    import datetime
    from decimal import Decimal

    with closing(connect_pyhive(server)) as connection, closing(connection.cursor()) as cursor:
        cursor.execute(TYPED)
        assert [column[1] for column in cursor.description] == [
            *("BOOLEAN_TYPE", "TINYINT_TYPE", "SMALLINT_TYPE", "INT_TYPE", "BIGINT_TYPE", "FLOAT_TYPE"),
            *("DOUBLE_TYPE", "STRING_TYPE", "BINARY_TYPE", "DECIMAL_TYPE", "DATE_TYPE", "TIMESTAMP_TYPE"),
            *("ARRAY_TYPE", "MAP_TYPE", "STRUCT_TYPE", "INT_TYPE"),
        ]
        (row,) = cursor.fetchall()
    assert row[:9] == (True, 1, 2, 3, 4, 0.1, 0.2, "ä", b"\x00\xff")
    assert row[9:11] in ((Decimal("1.50"), "2024-01-02"), (Decimal("1.50"), datetime.date(2024, 1, 2)))
    assert row[11] == datetime.datetime(2024, 1, 2, 3, 4, 5, 678000)
    assert list(row[12:]) == TEXTS


def test_keys_binary_values_and_times_inside_of_json_are_those_that_results_show(
    server: ThriftServer,
) -> None:
    shown = {
        "map(DATE'2024-01-02', X'00FF')": '{"2024-01-02":"00FF"}',
        "map(TIMESTAMP'2024-01-02 03:04:05', 1)": '{"2024-01-02 03:04:05":1}',
        "map(X'00FF', null)": '{"00FF":null}',
        "map(named_struct('a', DATE'2024-01-02'), 1)": '{{"a":"2024-01-02"}:1}',
        "map(1, 2, -3, cast(null as int))": "{1:2,-3:null}",
        "map(1.50, 'a', 2.25, 'b\"c')": '{1.50:"a",2.25:"b\\"c"}',
        "map(true, 1.5D, false, 2e20D)": "{true:1.5,false:2.0E20}",
        "map(1L, map('a', X'00FF'), 2L, null)": '{1:{"a":"00FF"},2:null}',
        "map('a', map(1, DATE'2024-01-02'))": '{"a":{1:"2024-01-02"}}',
        "map(DATE'2024-01-02', map(1, array('x', null)))": '{"2024-01-02":{1:["x",null]}}',
        "array(map(1, TIMESTAMP'2024-01-02 03:04:05.5'), null)": '[{1:"2024-01-02 03:04:05.5"},null]',
        "named_struct('a \"b', map(1, null), 'c', cast(null as string))": '{"a \\"b":{1:null},"c":null}',
        "map(array(1), named_struct('x', 'ä\n'))": '{[1]:{"x":"ä\\n"}}',
        "if(rand() > 2, map(1, 2), null)": None,
        "if(rand() > 2, named_struct('a', map(1, 2)), null)": None,
        "map_filter(map(1, 2), (k, v) -> k > 1)": "{}",
        "array(X'00FF', null)": '["00FF",null]',
        "named_struct('a', X'00', 'b', TIMESTAMP'2024-01-02 03:04:05.5')": (
            '{"a":"00","b":"2024-01-02 03:04:05.5"}'
        ),
        "if(rand() > 2, named_struct('a', X'00'), null)": None,
        "INTERVAL '-1-2' YEAR TO MONTH": "-1-2",
        "INTERVAL '3' MONTH": "0-3",
        "INTERVAL '3 04:05:06.5' DAY TO SECOND": "3 04:05:06.5",
        "INTERVAL '90' MINUTE": "0 01:30:00",
    }
    with closing(connect_pyhive(server)) as connection, closing(connection.cursor()) as cursor:
        cursor.execute("SELECT " + ", ".join(f"{text} c{at}" for at, text in enumerate(shown)))
        assert cursor.fetchall() == [tuple(shown.values())]


def test_impyla_runs_merge_call_and_select(server: ThriftServer) -> None:
    from impala.dbapi import connect

    with (
        closing(connect("127.0.0.1", server.port, auth_mechanism="PLAIN", user="u", password="p")) as opened,
        closing(opened.cursor()) as cursor,
    ):
        cursor.execute(
            "CREATE TABLE served_impyla (id INT, v STRING, ts BIGINT) USING hudi "
            "TBLPROPERTIES (primaryKey = 'id', preCombineField = 'ts')"
        )
        cursor.execute(
            "MERGE INTO served_impyla t USING (SELECT 1 id, 'a' v, 2L ts) s ON t.id = s.id "
            "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        )
        assert cursor.rowcount == 1
        cursor.executemany("INSERT INTO served_impyla VALUES (%s, %s, 1)", [(2, "b"), (3, "c")])
        assert cursor.rowcount == 2
        cursor.execute("UPDATE served_impyla SET v = upper(v) WHERE id > 1")
        assert cursor.rowcount == 2
        cursor.execute("SELECT id, v FROM served_impyla ORDER BY id")
        assert cursor.fetchall() == [(1, "a"), (2, "B"), (3, "C")]
        cursor.execute("CALL help()")
        assert "hive_sync" in cursor.fetchall()[0][0]
        cursor.execute("DROP TABLE served_impyla")


@pytest.mark.parametrize("provider", ["hudi TBLPROPERTIES (primaryKey = 'id')", "parquet"])
def test_pyhive_inserts_several_rows_and_sees_what_a_change_did(server: ThriftServer, provider: str) -> None:
    # The files of a dropped Hudi table stay.
    table = f"served_many_{provider[:4]}"
    with closing(connect_pyhive(server)) as connection, closing(connection.cursor()) as cursor:
        cursor.execute(f"CREATE TABLE {table} (id INT, v STRING) USING {provider}")
        assert cursor.description is None
        try:
            cursor.executemany(f"INSERT INTO {table} VALUES (%s, %s)", [(1, "a"), (2, "b"), (3, None)])
            counts = cursor.fetchall()
            assert [row[1] for row in counts] == ([1] if provider.startswith("hudi") else [])
            cursor.execute(f"INSERT INTO {table} VALUES (4, 'd')", async_=True)
            assert len(cursor.fetchall()) == len(counts)
            cursor.execute(f"SELECT id, v FROM {table} ORDER BY id")
            assert cursor.fetchall() == [(1, "a"), (2, "b"), (3, None), (4, "d")]
        finally:
            cursor.execute(f"DROP TABLE {table}")


def test_a_client_without_sasl_gets_many_rows_in_order(server: ThriftServer) -> None:
    from impala.dbapi import connect

    with (
        closing(connect("127.0.0.1", server.port, auth_mechanism="NOSASL")) as opened,
        closing(opened.cursor()) as cursor,
    ):
        cursor.execute("SELECT id, cast(id AS string) FROM range(25000)")
        assert cursor.fetchall() == [(number, str(number)) for number in range(25000)]


def test_tls_users_and_http_together(session: Any, tmp_path: Path) -> None:
    from impala.dbapi import connect

    certificate, key = make_certificate(tmp_path)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)
    users = tmp_path / "users"
    users.write_text(f"ada:{hash_password('secret')}\n")
    started = ThriftServer(
        *(session, listen_on("127.0.0.1", 0), ServerLimits(), SilentConsole()),
        users=UserChecks(RememberedUsers(PasswordFile(users).check).check),
        tls=context,
    )
    given: dict[str, Any] = {"use_ssl": True, "ca_cert": str(certificate), "auth_mechanism": "PLAIN"}
    address = ("localhost", started.port)
    with closing(started):
        for http in ({}, {"use_http_transport": True, "http_path": "cliservice"}):
            with (
                closing(connect(*address, user="ada", password="secret", **given, **http)) as opened,
                closing(opened.cursor()) as cursor,
            ):
                cursor.execute("SELECT id FROM range(3)")
                assert cursor.fetchall() == [(0,), (1,), (2,)]


@pytest.mark.hive
def test_beeline_runs_statements_and_prints_rows(server: ThriftServer, tmp_path: Path) -> None:
    beeline = start_beeline(beeline_command(tmp_path, server.port), tmp_path)
    try:
        (row,) = parse_rows(beeline.run(TYPED, seconds=60))
        values = list(row.values())
        assert values[:8] == ["true", "1", "2", "3", "4", "0.1", "0.2", "ä"]
        assert values[9:] == ["1.50", "2024-01-02", "2024-01-02 03:04:05.678", *TEXTS[:3], None]
        beeline.run(
            "CREATE TABLE served_beeline (id INT, v STRING, ts BIGINT) USING hudi "
            "TBLPROPERTIES (primaryKey = 'id', preCombineField = 'ts')",
            seconds=60,
        )
        merge = (
            "MERGE INTO served_beeline t USING (SELECT 1 id, 'a' v, 2L ts) s ON t.id = s.id "
            "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        )
        (merged,) = parse_rows(beeline.run(merge, seconds=60))
        assert merged["rows_inserted"] == "1"
        commits = parse_rows(beeline.run("CALL show_commits(table => 'served_beeline')", seconds=60))
        assert [commit["total_records_written"] for commit in commits] == ["1"]
        assert parse_rows(beeline.run("SELECT id, v FROM served_beeline", seconds=60)) == [
            {"id": "1", "v": "a"}
        ]
        with pytest.raises(HiveError, match="Syntax error"):
            beeline.run("SELEC 1", seconds=60)
        beeline.run("DROP TABLE served_beeline", seconds=60)
    finally:
        beeline.close()
