"""Tables that statements changed: beeline, Spark 3.5 with Hudi 0.15 and hudisql see the same rows by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.hive.engines import Ask, ask_beeline, assert_rows
from tests.oracle.shapes import call_bootstrap
from tests.oracle.sources import sample_rows, write_source
from tests.soak import parameters

pytestmark = [pytest.mark.hive, pytest.mark.spark, pytest.mark.hms, pytest.mark.usefixtures("lake_database")]

ROWS = 120


@pytest.fixture(scope="module")
def changed(session: Any, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """`lake.cow` and `lake.mor`, bootstrapped and then changed in the same way; gives their rows."""
    directory = tmp_path_factory.mktemp("changed")
    rows = sample_rows(0, ROWS)
    source = write_source(directory / "source", rows, lambda number: f"part={number % 3}")
    for name in ("cow", "mor"):
        call_bootstrap(
            session,
            {
                "table": f"lake.{name}",
                "source": str(source),
                "record_key": "id",
                "precombine": "seq",
                "table_type": name,
                "partition_by": "part int",
                "target_path": str(directory / name),
            },
        )
        # Hive's reader of logs fails when the newest commit wrote base files (docs/facts.md): logs come last.
        session.sql(f"INSERT INTO lake.{name} (id, seq, price, part) VALUES ('new', 500, 1.25, 7)")
        session.sql(f"DELETE FROM lake.{name} WHERE seq < 10")
        # As a commit leaves its log files that was rolled back: empty.
        for log_file in (directory / name).glob("part=*/.*.log.1_*"):
            log_file.with_name(log_file.name.replace(".log.1_", ".log.2_")).touch()
        session.sql(f"UPDATE lake.{name} SET fare = -1, note = 'changed' WHERE seq IN (30, 60)")
        session.sql(
            f"MERGE INTO lake.{name} t USING (SELECT * FROM lake.{name} WHERE seq = 90) s "
            "ON t.seq = s.seq + 1 "
            "WHEN MATCHED THEN UPDATE SET note = s.note, price = s.price "
            "WHEN NOT MATCHED THEN INSERT (id, seq, part) VALUES ('never', 0, 0)"
        )
    expected = {row["seq"]: {**row, "part": row["seq"] % 3} for row in rows.to_pylist() if row["seq"] >= 10}
    for seq in (30, 60):
        expected[seq] |= {"fare": -1, "note": "changed"}
    expected[91] |= {"note": expected[90]["note"], "price": expected[90]["price"]}
    empty = dict.fromkeys(rows.column_names)
    price = pa.scalar(125, pa.decimal128(12, 0)).as_py() / 100
    expected[500] = {**empty, "id": "new", "seq": 500, "price": price, "part": 7}
    return list(expected.values())


def test_changed_rows_are_equal(ask: Ask, changed: list[dict[str, Any]]) -> None:
    columns = ["id", "seq", "fare", "price", "note", "part"]
    found = ask(f"SELECT {', '.join(columns)} FROM lake.cow")
    assert_rows(found, [[row[column] for column in columns] for row in changed])


@pytest.mark.parametrize("name", parameters(["cow", "mor", "mor_rt"], in_ci=["cow", "mor_rt"]))
def test_changed_partitions_are_equal(ask: Ask, changed: list[dict[str, Any]], name: str) -> None:
    statement = (
        "SELECT part, count(*) AS n, count(DISTINCT `_hoodie_record_key`) AS k, "
        "max(`_hoodie_partition_path`) AS p, sum(seq) AS s, sum(price) AS c, sum(fare) AS f, "
        f"count(note) AS t FROM lake.{name} GROUP BY part"
    )
    expected = []
    for part in (0, 1, 2, 7):
        rows = [row for row in changed if row["part"] == part]
        fares = [row["fare"] for row in rows if row["fare"] is not None]
        expected.append(
            (
                part,
                len(rows),
                len(rows),
                f"part={part}",
                sum(row["seq"] for row in rows),
                sum(row["price"] for row in rows),
                sum(fares) if fares else None,
                sum(row["note"] is not None for row in rows),
            )
        )
    assert_rows(ask(statement), expected)


def test_hive_shows_the_directories_that_a_key_generator_names(
    session: Any, hive_server: Any, tmp_path: Path
) -> None:
    session.sql(
        f"CREATE TABLE lake.dated (id INT, at BIGINT, region STRING) USING hudi PARTITIONED BY (region, at) "
        f"LOCATION '{tmp_path / 'dated'}' TBLPROPERTIES (primaryKey = 'id', preCombineField = 'at', "
        "'hoodie.table.keygenerator.class' = 'org.apache.hudi.keygen.CustomKeyGenerator', "
        "'hoodie.datasource.write.partitionpath.field' = 'region:SIMPLE,at:TIMESTAMP', "
        "'hoodie.keygen.timebased.timestamp.type' = 'EPOCHMILLISECONDS', "
        "'hoodie.keygen.timebased.output.dateformat' = 'yyyy/MM', 'hoodie.keygen.timebased.timezone' = 'UTC')"
    )
    session.sql("INSERT INTO lake.dated VALUES (1, 'eu', 1700000000000), (2, 'us', 1600000000000)")
    ask = ask_beeline(hive_server)
    assert_rows(ask("SELECT id, region, at FROM lake.dated"), [(1, "eu", "2023/11"), (2, "us", "2020/09")])
    assert_rows(ask("SELECT id FROM lake.dated WHERE at > '2023' AND region = 'eu'"), [(1,)])
    session.sql("DROP TABLE lake.dated PURGE")
