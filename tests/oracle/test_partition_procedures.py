"""The same CALL drop_partition and truncate_table in hudisql and in Apache Hudi 1.2 leaves the same rows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.oracle.client import HudiOracle

pytestmark = [pytest.mark.oracle, pytest.mark.spark, pytest.mark.hms]

CALLS = (
    "drop_partition(table => '{t}', partition => 'day=2023-08-01/hour=1')",
    # No partition has the path: the table stays as it is.
    "drop_partition(table => '{t}', partition => 'day=2023-08-02')",
    "drop_partition('{t}', 'day=2023-08-02/*')",
    "truncate_table(table => '{t}', partitions => 'day=2023-09-*/hour=2,day=2023-08-01/hour=2')",
    "truncate_table('{t}')",
)


@pytest.fixture
def names(session: Any, tmp_path: Path) -> Iterator[tuple[str, str]]:
    """Two tables with the same rows, the first for hudisql, the second for Hudi."""
    made = ("default.dropped_by_hudisql", "default.dropped_by_hudi")
    for name in made:
        session.sql(
            f"CREATE TABLE {name} (id INT, day STRING, hour INT) USING hudi PARTITIONED BY (day, hour) "
            f"LOCATION '{tmp_path / name}' TBLPROPERTIES (primaryKey = 'id,day')"
        )
        rows = ", ".join(
            f"({10 * at + hour}, '{day}', {hour})"
            for at, day in enumerate(("2023-08-01", "2023-08-02", "2023-09-01"))
            for hour in (1, 2)
        )
        session.sql(f"INSERT INTO {name} VALUES {rows}")
    yield made
    for name in made:
        session.sql(f"DROP TABLE {name}")


@pytest.mark.soak
def test_partitions_are_dropped_and_tables_truncated_as_hudi_does(
    oracle_120: HudiOracle, session: Any, names: tuple[str, str]
) -> None:
    ours, theirs = names
    for call in CALLS:
        session.sql(f"CALL {call.format(t=ours)}")
        oracle_120.sql(f"call {call.format(t=theirs)}")
        left = [[row[0] for row in session.sql(f"SELECT id FROM {name} ORDER BY id").rows] for name in names]
        assert left[0] == left[1], call
        oracle_120.sql(f"refresh table {ours}")
        read = oracle_120.sql(f"select id from {ours} order by id")
        assert read["id"].to_pylist() == left[0], call
    assert left == [[], []]
