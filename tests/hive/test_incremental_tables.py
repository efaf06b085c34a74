"""Incremental tables after refreshes: beeline, Spark 3.5 with Hudi 0.15 and hudisql see the same rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.hive.engines import Ask, assert_rows
from tests.soak import parameters

pytestmark = [pytest.mark.hive, pytest.mark.spark, pytest.mark.hms, pytest.mark.usefixtures("lake_database")]

QUERY = "SELECT customer, sum(amount) AS total, count(*) AS n, part FROM lake.sold GROUP BY customer, part"
SHOWN = "customer * 10 + part AS place, total, n"


@pytest.fixture(scope="module")
def totals(session: Any, tmp_path_factory: pytest.TempPathFactory) -> list[list[Any]]:
    """`lake.totals` and `lake.totals_log`, refreshed after changes of their source; gives their rows."""
    directory: Path = tmp_path_factory.mktemp("layers")
    session.sql(
        "CREATE TABLE lake.sold (id INT, customer INT, amount DECIMAL(10,2), part INT) USING hudi "
        f"LOCATION '{directory / 'sold'}' TBLPROPERTIES (primaryKey = 'id')"
    )
    session.sql("INSERT INTO lake.sold SELECT id, id % 7, id * 1.25, id % 3 FROM range(60) AS t(id)")
    tables = (("totals", "cow"), ("totals_log", "mor"))
    for name, kind in tables:
        session.sql(
            f"CREATE INCREMENTAL TABLE lake.{name} PARTITIONED BY (part) TBLPROPERTIES (type = '{kind}') "
            f"LOCATION '{directory / name}' AS {QUERY}"
        )
    session.sql("DELETE FROM lake.sold WHERE customer = 2 AND part = 1")
    session.sql("UPDATE lake.sold SET customer = 3, amount = 100 WHERE id = 4")
    for name, _ in tables:
        assert session.sql(f"REFRESH INCREMENTAL TABLE lake.{name}").rows[0]["way"] == "groups"
    return [list(row) for row in session.sql(f"SELECT {SHOWN} FROM ({QUERY})").rows]


@pytest.mark.parametrize("name", parameters(["totals", "totals_log_rt"], in_ci=["totals"]))
def test_refreshed_rows_are_equal(ask: Ask, totals: list[list[Any]], name: str) -> None:
    assert_rows(ask(f"SELECT {SHOWN} FROM lake.{name}"), totals)
