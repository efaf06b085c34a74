"""INSERT into one table by hudisql and by Apache Hudi 0.15 and 1.2: by name or by position, as the other.

0.15 is compared by differential scripts, too (`insert_goes_by_name`).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.oracle.client import HudiOracle
from tests.soak import parameters
from tests.sql.changed_tables import own_database

pytestmark = [pytest.mark.oracle, pytest.mark.spark]

HOME = "named_struct('town', 'Delft', 'street', 'Oude')"
# Each with the rows' id in the place of {id}.
QUERIES = (
    f"SELECT {HOME} AS home, 'Smith' AS last, 'd1' AS dt, {{id}} AS id, 'Ann' AS FIRST",
    f"SELECT {{id}} AS id, 'Smith' AS last, 'Ann' AS x, {HOME} AS home, 'd1' AS dt",
    "SELECT {id} AS id, 'Smith' AS last, 'Ann' AS first, named_struct('a', 1, 'b', 2) AS home, 'd1' AS dt",
    "SELECT * FROM VALUES ({id}, 'Smith', 'Ann', NULL, 'd1') AS v(id, last, first, home, dt)",
)


@pytest.fixture
def people(session: Any, tmp_path: Path) -> Iterator[str]:
    with own_database(session, "oracle_by_name"):
        session.sql(
            "CREATE TABLE oracle_by_name.people (id INT, first STRING, last STRING, "
            "home STRUCT<street: STRING, town: STRING>, dt STRING) USING hudi PARTITIONED BY (dt) "
            f"LOCATION '{tmp_path / 'people'}' TBLPROPERTIES (primaryKey = 'id')"
        )
        yield "oracle_by_name.people"


@pytest.mark.soak
@pytest.mark.parametrize("version", parameters(["oracle_015", "oracle_120"], in_ci=["oracle_120"]))
def test_the_same_columns_go_by_name_as_in_hudi(
    request: pytest.FixtureRequest, session: Any, people: str, version: str
) -> None:
    oracle: HudiOracle = request.getfixturevalue(version)
    for number, query in enumerate(QUERIES):
        session.sql(f"INSERT INTO {people} {query.format(id=number)}")
        oracle.sql(f"INSERT INTO {people} {query.format(id=number + 100)}")
    found = session.sql(f"SELECT id % 100 AS n, first, last, home, dt FROM {people} ORDER BY id").rows
    rows = [tuple(row) for row in found]
    assert rows[: len(QUERIES)] == rows[len(QUERIES) :]
    assert [row[1] for row in rows[: len(QUERIES)]] == ["Ann", "Smith", "Smith", "Ann"]
