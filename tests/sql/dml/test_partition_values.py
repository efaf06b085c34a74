"""Values of partition columns and their directories: one text for one value, whoever made the directory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hudisql.errors import WriteRefusedError
from hudisql.session import Session
from tests.sql.changed_tables import database_fixture

pytestmark = [pytest.mark.spark, pytest.mark.hms]


database = database_fixture("partition_values", scope="module", autouse=True)


def directories(path: Path) -> set[str]:
    """The partitions' directories."""
    return {str(each.parent.relative_to(path)) for each in path.rglob(".hoodie_partition_metadata")}


def rows(session: Session, name: str, where: str = "true") -> list[tuple[Any, ...]]:
    """The rows as texts, in the order of their ids."""
    text = f"SELECT id, v, CAST(p AS STRING) FROM {name} WHERE {where} ORDER BY id, v, p"
    return [tuple(row) for row in session.sql(text).rows]


@pytest.mark.parametrize("kind", ["COPY_ON_WRITE", pytest.param("MERGE_ON_READ", marks=pytest.mark.soak)])
def test_a_bootstrapped_float_directory_is_the_one_that_its_value_goes_to(
    session: Session, tmp_path: Path, kind: str
) -> None:
    for number, value in enumerate(("0.1", "0.25", "0.7")):
        directory = tmp_path / "source" / f"p={value}"
        directory.mkdir(parents=True)
        pq.write_table(pa.table({"id": [number], "v": ["old"]}), directory / "a.parquet")
    name, path = f"partition_values.floats_{kind.lower()}", tmp_path / "t"
    session.sql(
        f"CALL bootstrap_table(table => '{name}', source => '{tmp_path / 'source'}', record_key => 'id', "
        f"table_type => '{kind}', partition_by => 'p float', target_path => '{path}')"
    )
    session.sql("SET hoodie.spark.sql.insert.into.operation = upsert")
    try:
        session.sql(f"INSERT INTO {name} VALUES (0, 'new', 0.1F), (3, 'new', 0.7F)")
    finally:
        session.sql("RESET hoodie.spark.sql.insert.into.operation")
    assert directories(path) == {"p=0.1", "p=0.25", "p=0.7"}
    assert rows(session, name) == [
        (0, "new", "0.1"),
        (1, "old", "0.25"),
        (2, "old", "0.7"),
        (3, "new", "0.7"),
    ]
    assert rows(session, name, "p = 0.1F") == [(0, "new", "0.1")]
    session.sql(f"INSERT OVERWRITE {name} PARTITION (p = 0.7) VALUES (4, 'over')")
    assert rows(session, name, "p = 0.7F") == [(4, "over", "0.7")]
    assert [row[0] for row in session.sql(f"SHOW PARTITIONS {name}").rows] == ["p=0.1", "p=0.25", "p=0.7"]
    session.sql(f"ALTER TABLE {name} DROP PARTITION (p = 0.1)")
    assert rows(session, name) == [(1, "old", "0.25"), (4, "over", "0.7")]


def test_doubles_name_directories_as_java_prints_them(session: Session, tmp_path: Path) -> None:
    name, path = "partition_values.doubles", tmp_path / "t"
    session.sql(
        f"CREATE TABLE {name} (id INT, v STRING, p DOUBLE) USING hudi PARTITIONED BY (p) "
        f"LOCATION '{path}' TBLPROPERTIES (primaryKey = 'id')"
    )
    session.sql(
        f"INSERT INTO {name} VALUES (1, 'a', 12345678D), (2, 'a', 1e20D), (3, 'a', double('NaN')), "
        "(4, 'a', 0.1D), (5, 'a', -0.0D), (6, 'a', 0.0D), (7, 'a', double('NaN'))"
    )
    assert directories(path) == {"p=1.2345678E7", "p=1.0E20", "p=NaN", "p=0.1", "p=0.0"}
    session.sql(
        f"MERGE INTO {name} t USING (SELECT 3 AS id, 'b' AS v, double('NaN') AS p UNION ALL SELECT 8, 'b', "
        "double('NaN') UNION ALL SELECT 2, 'b', 1e20D) s ON t.id = s.id AND t.p = s.p "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )
    assert rows(session, name, "isnan(p)") == [(3, "b", "NaN"), (7, "a", "NaN"), (8, "b", "NaN")]
    assert rows(session, name, "p = 1e20D") == [(2, "b", "1.0E20")]
    assert len(rows(session, name)) == 8
    session.sql(f"INSERT OVERWRITE {name} PARTITION (p = double('NaN')) VALUES (9, 'c')")
    assert rows(session, name, "isnan(p)") == [(9, "c", "NaN")]
    session.sql(f"ALTER TABLE {name} DROP PARTITION (p = '1.2345678E7'), PARTITION (p = 'NaN')")
    assert {row[0] for row in rows(session, name)} == {2, 4, 5, 6}
    assert directories(path) == {"p=1.2345678E7", "p=1.0E20", "p=NaN", "p=0.1", "p=0.0"}


@pytest.mark.parametrize("kind", [pytest.param("COPY_ON_WRITE", marks=pytest.mark.soak), "MERGE_ON_READ"])
def test_a_record_key_may_include_a_partition_column_of_a_bootstrapped_table(
    session: Session, tmp_path: Path, kind: str
) -> None:
    for number, value in enumerate(("2024-03-01", "2024-03-02", "__HIVE_DEFAULT_PARTITION__")):
        directory = tmp_path / "source" / f"p={value}"
        directory.mkdir(parents=True)
        ids = pa.array([1, 10 + number], pa.int32())
        pq.write_table(pa.table({"id": ids, "v": ["old", "old"]}), directory / "a.parquet")
    name, path = f"partition_values.keys_{kind.lower()}", tmp_path / "t"
    session.sql(
        f"CALL bootstrap_table(table => '{name}', source => '{tmp_path / 'source'}', record_key => 'id,P', "
        f"table_type => '{kind}', partition_by => 'p date', target_path => '{path}', "
        "key_check => 'unique_global', full_record_where => \"p = '2024-03-02'\")"
    )
    keys = [row[0] for row in session.sql(f"SELECT _hoodie_record_key FROM {name} ORDER BY 1").rows]
    assert keys == [
        "id:1,p:2024-03-01",
        "id:1,p:2024-03-02",
        "id:1,p:__null__",
        "id:10,p:2024-03-01",
        "id:11,p:2024-03-02",
        "id:12,p:__null__",
    ]
    verified = session.sql(f"CALL verify_bootstrap(table => '{name}', level => 'full')").rows
    assert verified[-1][1] == "ok"
    session.sql("SET hoodie.spark.sql.insert.into.operation = upsert")
    try:
        session.sql(
            f"INSERT INTO {name} VALUES (1, 'new', DATE '2024-03-01'), (12, 'new', NULL), "
            "(11, 'new', DATE '2024-03-02'), (1, 'fresh', DATE '2024-03-04')"
        )
    finally:
        session.sql("RESET hoodie.spark.sql.insert.into.operation")
    session.sql(
        f"MERGE INTO {name} t USING (SELECT 10 AS id, DATE '2024-03-01' AS p) s ON t.id = s.id AND t.p = s.p "
        "WHEN MATCHED THEN UPDATE SET v = 'merged' WHEN NOT MATCHED THEN INSERT (id, p) VALUES (s.id, s.p)"
    )
    assert rows(session, name) == [
        (1, "fresh", "2024-03-04"),
        (1, "new", "2024-03-01"),
        (1, "old", None),
        (1, "old", "2024-03-02"),
        (10, "merged", "2024-03-01"),
        (11, "new", "2024-03-02"),
        (12, "new", None),
    ]


def test_the_text_of_the_null_partition_is_no_value(session: Session, tmp_path: Path) -> None:
    name = "partition_values.null_text"
    session.sql(
        f"CREATE TABLE {name} (id INT, v STRING, p STRING) USING hudi PARTITIONED BY (p) "
        f"LOCATION '{tmp_path / 't'}' TBLPROPERTIES (primaryKey = 'id')"
    )
    session.sql(f"INSERT INTO {name} VALUES (1, 'a', NULL), (2, 'a', 'x')")
    text = "__HIVE_DEFAULT_PARTITION__"
    for statement in (
        f"INSERT INTO {name} VALUES (3, 'a', '{text}')",
        f"INSERT OVERWRITE {name} PARTITION (p = '{text}') VALUES (3, 'a')",
        f"UPDATE {name} SET p = '{text}' WHERE id = 2",
        f"MERGE INTO {name} t USING (SELECT 3 AS id, 'b' AS v, '{text}' AS p) s ON t.id = s.id "
        "WHEN NOT MATCHED THEN INSERT *",
    ):
        with pytest.raises(WriteRefusedError, match=f"p = '{text}' cannot be a partition"):
            session.sql(statement)
    assert rows(session, name) == [(1, "a", None), (2, "a", "x")]


def test_an_overwrite_replaces_the_partition_of_a_timestamp(session: Session, tmp_path: Path) -> None:
    name = "partition_values.moments"
    session.sql(
        f"CREATE TABLE {name} (id INT, v STRING, p TIMESTAMP) USING hudi PARTITIONED BY (p) "
        f"LOCATION '{tmp_path / 't'}' TBLPROPERTIES (primaryKey = 'id')"
    )
    early, late = "2021-05-20 00:00:00", "2021-05-21 00:00:00"
    session.sql(f"INSERT INTO {name} VALUES (1, 'old', TIMESTAMP '{early}'), (2, 'old', TIMESTAMP '{late}')")
    session.sql(f"INSERT OVERWRITE {name} PARTITION (p = '{early}') VALUES (3, 'new')")
    assert rows(session, name) == [(2, "old", late), (3, "new", early)]
