"""Tables with VARCHAR(n) and CHAR(n) columns: Apache Hudi and Hive read them and go on writing, by name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from hudisql.errors import HudisqlError
from tests.hive.server import HiveServer
from tests.oracle.client import HudiOracle

pytestmark = [pytest.mark.oracle, pytest.mark.hive, pytest.mark.spark, pytest.mark.hms]


@pytest.fixture(params=["cow", "mor"])
def name(session: Any, request: pytest.FixtureRequest) -> Iterator[str]:
    session.sql("CREATE DATABASE sized_too")
    session.sql(
        f"CREATE TABLE sized_too.{request.param} (id INT, v VARCHAR(3), n INT, c CHAR(4)) USING hudi "
        f"TBLPROPERTIES (primaryKey = 'id', type = '{request.param}', preCombineField = 'n')"
    )
    yield f"sized_too.{request.param}"
    session.sql("DROP DATABASE sized_too CASCADE")


def test_other_engines_read_and_write_columns_with_a_length(
    session: Any, oracle_015: HudiOracle, hive_server: HiveServer, name: str
) -> None:
    session.sql(f"INSERT INTO {name} VALUES (1, 'abc', 1, 'ab'), (2, 'é  ', 1, 'abcd')")
    oracle_015.sql(f"UPDATE {name} SET v = 'x', n = 2, c = 'ab' WHERE id = 2")
    oracle_015.sql(f"INSERT INTO {name} VALUES (3, 'y', 1, NULL)")
    select = f"SELECT id, v FROM {name} ORDER BY id"
    expected = [(1, "abc"), (2, "x"), (3, "y")]
    assert [tuple(row) for row in session.sql(select).rows] == expected
    assert [tuple(row.values()) for row in oracle_015.sql(select).to_pylist()] == expected
    # Hudi reads a CHAR as it is stored and writes it as given; hudisql fills it with spaces, as Spark does.
    chars = [row["c"] for row in oracle_015.sql(f"SELECT c FROM {name} ORDER BY id").to_pylist()]
    assert chars == ["ab  ", "ab", None]
    found = session.sql(f"SELECT id, c FROM {name} WHERE c = 'ab' ORDER BY id").rows
    assert [tuple(row) for row in found] == [(1, "ab  "), (2, "ab  ")]
    # Hive cannot read a merge-on-read table whose newest commit wrote a base file (docs/facts.md).
    if name.endswith("cow"):
        in_hive = hive_server.query(f"SELECT id, v FROM {name}")
        assert sorted((int(str(row["id"])), row["v"]) for row in in_hive) == expected
        assert len(hive_server.query(f"SELECT id FROM {name} WHERE c = 'ab'")) == 1
    with pytest.raises(HudisqlError, match=r"column 'v' of sized_too\.\w+ is VARCHAR\(3\)"):
        session.sql(f"UPDATE {name} SET v = 'abcd', n = 3 WHERE id = 3")
