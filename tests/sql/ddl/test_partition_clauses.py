"""PARTITION clauses go by values, and partitions are named as the metastore names them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from hudisql.errors import InvalidArgumentError, QueryError
from hudisql.session import Session

pytestmark = [pytest.mark.spark, pytest.mark.hms]


def test_partitions_are_shown_as_the_metastore_names_them_and_chosen_by_value(
    session: Session, tmp_path: Path
) -> None:
    session.sql(
        "CREATE TABLE default.tariffs (id INT, rate DECIMAL(10, 7), hour INT) USING hudi "
        f"PARTITIONED BY (rate, hour) LOCATION '{tmp_path / 't'}' TBLPROPERTIES (primaryKey = 'id')"
    )
    try:
        session.sql("INSERT INTO default.tariffs VALUES (1, 0.0000001, 1), (2, 12.5, 1), (3, 12.5, NULL)")
        assert session.sql("SHOW PARTITIONS default.tariffs").rows == [
            ("rate=0.0000001/hour=1",),
            ("rate=12.5000000/hour=1",),
            ("rate=12.5000000/hour=__HIVE_DEFAULT_PARTITION__",),
        ]
        named = session.context.metastore.list_partition_names("default", "tariffs")
        assert sorted(named) == [name for (name,) in session.sql("SHOW PARTITIONS default.tariffs").rows]
        chosen = session.sql("SHOW PARTITIONS default.tariffs PARTITION (RATE = 12.5, hour = '01')").rows
        assert chosen == [("rate=12.5000000/hour=1",)]
        with pytest.raises(InvalidArgumentError, match="'noon' is not a value of the partition column hour"):
            session.sql("SHOW PARTITIONS default.tariffs PARTITION (hour = 'noon')")
        session.sql("ALTER TABLE default.tariffs DROP PARTITION (rate = 0.0000001)")
        assert session.sql("SELECT id FROM default.tariffs ORDER BY id").rows == [(2,), (3,)]
    finally:
        session.sql("DROP TABLE default.tariffs")


def test_a_partition_added_by_hand_that_the_table_cannot_have_is_not_shown(
    session: Session, tmp_path: Path
) -> None:
    session.sql(
        "CREATE TABLE default.hours (id INT, hour INT) USING hudi "
        f"PARTITIONED BY (hour) LOCATION '{tmp_path / 't'}' TBLPROPERTIES (primaryKey = 'id')"
    )
    try:
        session.sql("INSERT INTO default.hours VALUES (1, 1)")
        client = session.context.metastore
        entry = client.get_table("default", "hours")
        assert entry is not None
        [stored] = client.list_partitions("default", "hours")
        client.add_partitions(entry, [replace(stored, values=("noon",))])
        assert session.sql("SHOW PARTITIONS default.hours").rows == [("hour=1",)]
    finally:
        session.sql("DROP TABLE default.hours")


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_show_partitions_of_an_unpartitioned_table_gives_no_rows(
    session: Session, tmp_path: Path, kind: str
) -> None:
    session.sql(
        f"CREATE TABLE default.whole (id INT, v STRING) USING hudi LOCATION '{tmp_path / 't'}' "
        f"TBLPROPERTIES (primaryKey = 'id', type = '{kind}')"
    )
    try:
        assert session.sql("SHOW PARTITIONS default.whole").rows == []
        session.sql("INSERT INTO default.whole VALUES (1, 'a')")
        shown = session.sql("SHOW PARTITIONS default.whole")
        assert (shown.rows, shown.schema.names) == ([], ["partition"])
        with pytest.raises(InvalidArgumentError, match="v is not a partition column"):
            session.sql("SHOW PARTITIONS default.whole PARTITION (v = 'a')")
    finally:
        session.sql("DROP TABLE default.whole")


def test_show_partitions_of_an_unpartitioned_table_of_spark_is_refused_by_spark(session: Session) -> None:
    session.sql("CREATE TABLE default.whole (id INT) USING parquet")
    try:
        with pytest.raises(QueryError, match="is not partitioned"):
            session.sql("SHOW PARTITIONS default.whole")
    finally:
        session.sql("DROP TABLE default.whole")
