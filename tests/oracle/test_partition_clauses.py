"""SHOW PARTITIONS and partial PARTITION clauses, in hudisql, Apache Hudi and on plain tables of Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.oracle.client import HudiOracle, OracleError

pytestmark = [pytest.mark.oracle, pytest.mark.spark, pytest.mark.hms, pytest.mark.soak]

SHOWN = ("", "PARTITION (d = 'a')", "PARTITION (h = 1)", "PARTITION (d = 'a', h = 2)", "PARTITION (d = 'z')")
ROWS = "(1, 'a', 1), (2, 'a', 2), (3, 'b', 1), (4, NULL, 2)"


@pytest.mark.parametrize("hudi", ["oracle_015", "oracle_120"])
def test_partitions_of_hive_style_tables_are_shown_alike(
    hudi: str, request: pytest.FixtureRequest, session: Any, tmp_path: Path
) -> None:
    oracle: HudiOracle = request.getfixturevalue(hudi)
    session.sql(
        f"CREATE TABLE shown (id INT, d STRING, h INT) USING hudi PARTITIONED BY (d, h) "
        f"LOCATION '{tmp_path}' TBLPROPERTIES (primaryKey = 'id')"
    )
    session.sql(f"INSERT INTO shown VALUES {ROWS}")

    def compare() -> list[int]:
        counts = []
        for clause in SHOWN:
            ours = [row[0] for row in session.sql(f"SHOW PARTITIONS shown {clause}").rows]
            theirs = oracle.sql(f"SHOW PARTITIONS shown {clause}")["partition"].to_pylist()
            assert ours == sorted(theirs), clause
            counts.append(len(ours))
        return counts

    assert compare() == [4, 2, 2, 1, 0]
    session.sql("ALTER TABLE shown DROP PARTITION (d = 'a', h = 1)")
    assert compare() == [3, 1, 1, 1, 0]
    session.sql("DROP TABLE shown")


def test_a_partial_clause_drops_as_on_tables_of_spark_where_hudi_refuses(
    session: Any, oracle_120: HudiOracle, tmp_path: Path
) -> None:
    kept = []
    for provider in ("hudi", "parquet"):
        name = f"dropped_of_{provider}"
        session.sql(
            f"CREATE TABLE {name} (id INT, d STRING, h INT) USING {provider} PARTITIONED BY (d, h) "
            f"LOCATION '{tmp_path / name}'"
        )
        session.sql(f"INSERT INTO {name} VALUES {ROWS}")
        if provider == "hudi":
            for text in ("ALTER TABLE {t} DROP", "TRUNCATE TABLE {t}"):
                with pytest.raises(OracleError, match="All partition columns need to be specified"):
                    oracle_120.sql(f"{text.format(t=name)} PARTITION (d = 'a')")
        session.sql(f"ALTER TABLE {name} DROP PARTITION (d = 'a')")
        kept.append(sorted(row[0] for row in session.sql(f"SELECT id FROM {name}").rows))
        session.sql(f"DROP TABLE {name}")
    assert kept == [[3, 4], [3, 4]]


def test_hudi_shows_directories_that_its_own_clauses_do_not_take(
    session: Any, oracle_120: HudiOracle, tmp_path: Path
) -> None:
    """So hudisql shows the names of the metastore, which Hive and PARTITION clauses take."""
    session.sql(
        f"CREATE TABLE plain_names (id INT, d STRING, h INT) USING hudi PARTITIONED BY (d, h) LOCATION "
        f"'{tmp_path}' TBLPROPERTIES (primaryKey = 'id', "
        "'hoodie.datasource.write.hive_style_partitioning' = 'false')"
    )
    session.sql("INSERT INTO plain_names VALUES (1, 'a', 1), (2, 'b', 2)")
    theirs = oracle_120.sql("SHOW PARTITIONS plain_names")["partition"].to_pylist()
    assert sorted(theirs) == ["a/1", "b/2"]
    with pytest.raises(OracleError, match="out of bounds"):
        oracle_120.sql("SHOW PARTITIONS plain_names PARTITION (d = 'a', h = 1)")
    ours = [row[0] for row in session.sql("SHOW PARTITIONS plain_names").rows]
    assert ours == ["d=a/h=1", "d=b/h=2"]
    assert ours == sorted(session.context.metastore.list_partition_names("default", "plain_names"))
    assert session.sql("SHOW PARTITIONS plain_names PARTITION (d = 'a')").rows == [("d=a/h=1",)]
    session.sql("DROP TABLE plain_names")
