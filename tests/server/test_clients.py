"""Real clients: PyHive, impyla, beeline."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import pytest

from hudisql.server.thrift_server import ThriftServer

pytestmark = [pytest.mark.spark, pytest.mark.hms]

TYPED = (
    "SELECT true a, 1Y b, 2S c, 3 d, 4L e, cast(0.1 AS float) f, 0.2D g, 'ä' h, X'00FF' i, "
    "cast(1.50 AS decimal(10,2)) j, DATE'2024-01-02' k, TIMESTAMP'2024-01-02 03:04:05.678' l, "
    "array(1, null) m, map('a', 1) n, named_struct('x', 1, 'y', null) o, cast(null AS int) p"
)
TEXTS = ["[1,null]", '{"a":1}', '{"x":1,"y":null}', None]


def connect_pyhive(server: ThriftServer, **options: Any) -> Any:
    from pyhive import hive

    return hive.connect("127.0.0.1", server.port, username="somebody", **options)


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


@pytest.mark.parametrize("mechanism", ["PLAIN", "NOSASL"])
def test_impyla_runs_merge_call_and_select(server: ThriftServer, mechanism: str) -> None:
    from impala.dbapi import connect

    table = f"served_{mechanism.lower()}"
    with (
        closing(
            connect("127.0.0.1", server.port, auth_mechanism=mechanism, user="u", password="p")
        ) as opened,
        closing(opened.cursor()) as cursor,
    ):
        cursor.execute(
            f"CREATE TABLE {table} (id INT, v STRING, ts BIGINT) USING hudi "
            "TBLPROPERTIES (primaryKey = 'id', preCombineField = 'ts')"
        )
        cursor.execute(
            f"MERGE INTO {table} t USING (SELECT 1 id, 'a' v, 2L ts) s ON t.id = s.id "
            "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        )
        cursor.fetchall()
        cursor.execute(f"SELECT id, v FROM {table}")
        assert cursor.fetchall() == [(1, "a")]
        cursor.execute("CALL help()")
        assert "hive_sync" in cursor.fetchall()[0][0]
        cursor.execute("SELECT id, cast(id AS string) FROM range(25000)")
        assert cursor.fetchall() == [(number, str(number)) for number in range(25000)]
        cursor.execute(f"DROP TABLE {table}")
