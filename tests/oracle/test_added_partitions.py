"""ALTER TABLE … ADD PARTITION and DROP PARTITION with wildcards, which Apache Hudi and Hive see by name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.hive.server import HiveServer
from tests.oracle.client import HudiOracle

pytestmark = [pytest.mark.oracle, pytest.mark.hive, pytest.mark.spark, pytest.mark.hms]


@pytest.fixture
def names(session: Any, oracle_015: HudiOracle) -> Iterator[tuple[str, str]]:
    """Two tables with the same rows, made by us and by Hudi."""
    session.sql("CREATE DATABASE parted")
    for name, run in (("ours", session.sql), ("theirs", oracle_015.sql)):
        run(
            f"CREATE TABLE parted.{name} (id INT, dt STRING) USING hudi PARTITIONED BY (dt) "
            "TBLPROPERTIES (primaryKey = 'id')"
        )
        session.sql(
            f"INSERT INTO parted.{name} VALUES (1, '2023-08-01'), (2, '2023-08-02'), (3, '2023-09-01')"
        )
    yield "parted.ours", "parted.theirs"
    session.sql("DROP DATABASE parted CASCADE")


def test_hudi_and_hive_see_added_partitions_and_drop_the_same_ones(
    session: Any, oracle_015: HudiOracle, hive_server: HiveServer, names: tuple[str, str]
) -> None:
    ours, theirs = names
    run = {ours: session.sql, theirs: oracle_015.sql}

    def shown(name: str) -> list[list[str]]:
        by_us = [row[0] for row in session.sql(f"SHOW PARTITIONS {name}").rows]
        by_hudi = oracle_015.sql(f"SHOW PARTITIONS {name}")["partition"].to_pylist()
        by_hive = [str(row["partition"]) for row in hive_server.query(f"SHOW PARTITIONS {name}")]
        return [sorted(each) for each in (by_us, by_hudi, by_hive)]

    # Hudi adds partitions only to tables whose partitions Spark itself keeps, which a sync's are not.
    session.sql(f"ALTER TABLE {ours} ADD PARTITION (dt = '2023-10-01')")
    session.sql(f"ALTER TABLE {ours} ADD IF NOT EXISTS PARTITION (dt = '2023-10-01')")
    days = ["2023-08-01", "2023-08-02", "2023-09-01", "2023-10-01"]
    assert shown(ours) == [[f"dt={day}" for day in days]] * 3
    for name in names:
        run[name](f"ALTER TABLE {name} DROP PARTITION (dt = '2023-08-*')")
        assert [row[0] for row in session.sql(f"SELECT id FROM {name}").rows] == [3]
        assert oracle_015.sql(f"SELECT id FROM {name}")["id"].to_pylist() == [3]
    oracle_015.sql(f"INSERT INTO {ours} VALUES (4, '2023-10-01')")
    assert sorted(row[0] for row in session.sql(f"SELECT id FROM {ours}").rows) == [3, 4]
    session.sql(f"MSCK REPAIR TABLE {ours}")
    left = ["dt=2023-09-01", "dt=2023-10-01"]
    assert [row[0] for row in session.sql(f"SHOW PARTITIONS {ours}").rows] == left
    assert sorted(str(row["partition"]) for row in hive_server.query(f"SHOW PARTITIONS {ours}")) == left
